"""Commands: what they print, their exit codes, and what they leave on disk."""

import json
import re
import subprocess
import sys

import pytest
from cli_setup import EVAL, NUM_PROBLEMS, one_line
from click.testing import CliRunner

from stapo_bench import cli
from stapo_bench.sampling.evaluation import SamplingResult


def test_eval_draws_grades_scores_and_prints_the_table(stapo, small):
    code, output, error = stapo(*EVAL, "--data-dir", ".")
    assert code == 0, error
    run = small / "results/script-justrl"
    assert stapo(*EVAL, "--data-dir", ".", "--long")[1].strip() == (run / "table.md").read_text().strip()
    scores = json.loads((run / "scores.json").read_text())
    (task,) = scores["tasks"]
    grades = [json.loads(line) for line in (run / "grades/math.jsonl").read_text().splitlines()[1:]]
    assert len(grades) == NUM_PROBLEMS * 8
    assert task["value"] == sum(grade["outcome"] == "CORRECT" for grade in grades) / (NUM_PROBLEMS * 8)
    assert 0.25 < task["value"] < 0.75  # 80 draws at 0.5: more than 4 standard errors
    scored = stapo("score", run)[1].strip()  # without the data: all is graded
    assert scored == output.strip()
    assert "| maj@k |" in stapo("score", run, "--long")[1]
    assert stapo("table", run)[1].strip() == output.strip()
    code, output, _ = stapo("grade", run, "--grader", "strict", "--data-dir", ".")
    assert (code, output) == (0, "strict-1: 80 samples graded, 0 graded before\n")


def test_graders_are_added_without_drawing_and_shown_side_by_side(stapo, small):
    assert stapo(*EVAL, "--data-dir", ".", "--out", "a")[0] == 0
    samples = {path: path.read_bytes() for path in (small / "a/samples").iterdir()}
    alone = stapo("score", "a")[1]
    assert "Graders:" not in alone
    for name in ("strict", "qwen"):
        code, output, _ = stapo("grade", "a", "--grader", name, "--data-dir", ".")
        assert (code, output) == (0, f"{name}-1: 80 samples graded, 0 graded before\n")
    code, output, error = stapo("grade", "a", "--golds", "corrected", "--data-dir", ".")
    assert (code, output, error) == (0, "math-15+errata-1: 80 samples graded, 0 graded before\n", "")
    assert {path: path.read_bytes() for path in (small / "a/samples").iterdir()} == samples
    code, output, _ = stapo("score", "a")
    assert code == 0
    table, graders = output.split("\nGraders:")
    assert table.strip() == alone.strip()
    versions = ["math (math-15)", "math+corrected (math-15+errata-1)", "qwen (qwen-1)", "strict (strict-1)"]
    assert [
        line.split(" | ")[0][2:]
        for line in graders.splitlines()
        if line.startswith("| ") and " (" in line.split(" | ")[0]
    ] == versions
    code, output, _ = stapo("score", "a", "--golds", "corrected")
    assert code == 0
    assert "grader math-15+errata-1" in output.split("\nGraders:")[0]
    assert json.loads((small / "a/scores.json").read_text())["grades"] == "math+corrected"


def test_a_judge_adds_what_the_rule_rejects(stapo, small):
    (small / "sums.jsonl").write_text(
        "".join(json.dumps({"id": f"p{i}", "problem": f"{i}?", "answer": "2"}) + "\n" for i in range(NUM_PROBLEMS))
    )
    assert stapo(*EVAL, "--data-dir", ".", "--out", "a")[0] == 0
    # A judge that is right about everything of p0 and p1, and answers B elsewhere.
    (small / "lenient.yaml").write_text(
        'success: {p0: 1, p1: 1, "*": 0}\nright: "\\n\\\\boxed{gold}"\nwrong: [B]\nmedian_tokens: 20\n'
    )
    judge = ("grade", "a", "--judge", "lenient.yaml", "--judge-engine", "scripted", "--data-dir", ".")
    code, output, error = stapo(*judge)
    assert (code, error) == (0, "")
    first, second = output.splitlines()
    assert first == "math-15: 0 samples graded, 80 graded before"
    assert second.startswith("judge-1:lenient@") and second.endswith(" on math-15: 80 samples graded, 0 graded before")
    rule, judged = (
        {(row["problem_id"], row["sample_index"]): row["outcome"] for row in map(json.loads, lines[1:])}
        for lines in ((small / f"a/grades/{name}.jsonl").read_text().splitlines() for name in ("math", "judge-lenient"))
    )
    assert {outcome for (name, _), outcome in judged.items() if name in ("p0", "p1")} == {"CORRECT"}
    others = {key: outcome for key, outcome in rule.items() if key[0] not in ("p0", "p1")}
    assert others == {key: judged[key] for key in others} and "INCORRECT" in others.values()
    code, output, _ = stapo("score", "a", "--grader", "judge-lenient", "--data-dir", ".")
    assert code == 0
    table, graders = output.split("\nGraders:")
    assert "grader judge-1:lenient@" in table
    disputed = [line.split(" | ") for line in graders.splitlines() if line.endswith("| CORRECT |")]
    assert {(row[1], row[3], *row[4:]) for row in disputed} == {
        (f"sums/{name}", "2", "INCORRECT", "CORRECT |") for name in ("p0", "p1")
    }
    counts = [int(row[0][2:]) for row in disputed]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == sum(outcome == "INCORRECT" for key, outcome in rule.items() if key[0] in ("p0", "p1"))


def test_the_data_folder_may_come_from_the_environment(stapo, small, monkeypatch):
    monkeypatch.setenv("STAPO_BENCH_DATA", str(small))
    assert stapo(*EVAL, "--samples", 1)[0] == 0


def test_tasks_lists_and_prints_cards(stapo):
    code, output, _ = stapo("tasks")
    assert code == 0
    assert ["aime24", "paper", "30", "problems", "×", "32", "AIME24"] in [line.split() for line in output.splitlines()]
    code, output, _ = stapo("tasks", "olympiadbench")
    assert code == 0
    assert "  problems: 674" in output and "  source: math-ai/olympiadbench (test)" in output


def test_two_runs_are_compared_planned_and_audited(stapo, small):
    assert stapo(*EVAL, "--data-dir", ".", "--out", "a")[0] == 0
    assert stapo(*EVAL, "--data-dir", ".", "--out", "b", "--seed", 1)[0] == 0
    assert stapo(*EVAL, "--data-dir", ".", "--out", "c", "--decoding", "training")[0] == 0
    for arguments in (
        ("compare", "a", "b"),
        ("plan", "a", "b", "--detect", 0.05),
        ("audit", "a"),
        ("audit", "a", "b"),
        ("curve", "a", "b"),
        ("regimes", "a", "a", "c", "c"),
        ("truncation", "a"),
    ):
        code, output, error = stapo(*arguments)
        assert (code, error) == (0, ""), arguments
        assert output.strip()


def test_an_audit_that_found_something_has_an_exit_code_of_its_own(stapo, small):
    assert stapo(*EVAL, "--data-dir", ".", "--out", "a")[0] == 0
    assert stapo("audit", "a")[0] == 0
    (segment,) = (small / "a/samples").glob("*.jsonl")
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[1:]))
    for more in ((), ("--format", "json")):
        code, output, error = stapo("audit", "a", *more)
        assert (code, error) == (3, "")
        assert "missing draws" in output


def test_a_plan_speaks_of_one_point(stapo, small):
    for name, seed in (("a", 0), ("b", 1)):
        assert stapo(*EVAL, "--data-dir", ".", "--out", name, "--seed", seed)[0] == 0
    for detect, words in ((0.01, "difference of 1 point with 80 %"), (0.02, "difference of 2 points with 80 %")):
        assert words in stapo("plan", "a", "b", "--detect", detect)[1]


def test_drawing_stops_when_enough_is_known(stapo, small):
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--samples", 64, "--out", "a", "--until-width", 0.4)
    assert code == 0
    looks = [line for line in error.splitlines() if line.startswith(("going on:", "enough:"))]
    assert looks[-1].startswith("enough:")
    about = json.loads((small / "a/manifest.json").read_text())["about"]
    assert about["stopping"] == {"rule": "--until-width 0.4", "aim": 0.2}
    asked = about["tasks"]["sums"]["num_samples"]
    assert asked == 4 * len(looks) < 64
    assert len((small / "a/grades/math.jsonl").read_text().splitlines()) == 1 + NUM_PROBLEMS * asked
    assert stapo(*EVAL, "--data-dir", ".", "--samples", 64, "--out", "full")[0] == 0
    (small / "good.yaml").write_text("success: 1.0\n")
    better = [argument.replace("script.yaml", "good.yaml") for argument in EVAL]
    code, _, error = stapo(*better, "--data-dir", ".", "--samples", 64, "--out", "b", "--until-decided", "full")
    assert code == 0
    assert "better" in next(line for line in error.splitlines() if line.startswith("enough:"))
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--out", "c", "--until-width", 0.1, "--until-decided", "full")
    assert "expected --until-width or --until-decided, got both" in one_line(error)


def test_overlap_lists_problems_and_score_leaves_them_out(stapo, small):
    texts = [f"{i} + {i}? Please give one integer." for i in range(2)] + ["What is the capital of France?"]
    (small / "train.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    (small / "sums.jsonl").write_text((small / "sums.jsonl").read_text().replace('?"', '? Please give one integer."'))
    code, output, _ = stapo("overlap", "--train", "train.jsonl", "--tasks", "sums.yaml", "--data-dir", ".")
    assert code == 0
    assert output.splitlines()[0] == "sums: 2 problems stand in the training set"
    assert [line.split()[0] for line in output.splitlines()[1:]] == ["p0", "p1"]
    assert stapo(*EVAL, "--data-dir", ".", "--out", "a")[0] == 0
    code, output, _ = stapo("score", "a", "--exclude-overlap", "train.jsonl", "--data-dir", ".")
    assert code == 0
    assert "| sums | 10 | 2 |" in output.splitlines()[-1]


def looks_like_a_checkpoint(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")


def test_many_checkpoints_give_a_run_each_and_one_table(stapo, small, monkeypatch):
    for step in (9, 10):
        folder = small / f"train/checkpoints/step-{step}"
        looks_like_a_checkpoint(folder)
        (folder / "model.safetensors").write_text(f"weights of {step}")
    drawn = []

    def draw(options, engines, rule):
        drawn.append(options)
        return SamplingResult(run_dir=options.out, num_sampled=0, num_missing=0, num_repeated=0)

    monkeypatch.setattr("stapo_bench.sampling.evaluate", draw)
    monkeypatch.setattr("stapo_bench.presenting.finish_run", lambda run_dir, data_dir: run_dir)
    monkeypatch.setattr("stapo_bench.presenting.rows_from_scores", lambda scores, run_dirs: run_dirs)
    monkeypatch.setattr("stapo_bench.presenting.render_table", lambda run_dirs, long: " ".join(map(str, run_dirs)))
    arguments = ("eval", "--ckpt", "train/checkpoints/*", "--decoding", "training", "--tasks", "aime24", "--out", "e")
    code, output, _ = stapo(*arguments)
    assert (code, output) == (0, "e/train-step-9-training e/train-step-10-training\n")
    assert [options.checkpoint.name for options in drawn] == ["step-9", "step-10"]
    assert "no checkpoint matches" in one_line(stapo("eval", "--ckpt", "n*", "--decoding", "training")[2])
    several = ("--engine", "openai", "--base-url", "http://localhost:1/v1")
    code, _, error = stapo(*arguments, *several)  # a row each of one and the same model otherwise
    assert (code, "expected one checkpoint, what the server serves, got 2" in one_line(error)) == (2, True)


def test_the_last_checkpoints_of_two_trainings_have_names_of_their_own(stapo, small, monkeypatch):
    for folder in ("a/checkpoints/final", "a/checkpoints/step-20", "b/checkpoints/final", "x/b/checkpoints/final"):
        looks_like_a_checkpoint(small / folder)
    drawn = []

    def draw(options, engines, rule):
        drawn.append(str(options.out))
        return SamplingResult(run_dir=options.out, num_sampled=0, num_missing=0, num_repeated=0)

    monkeypatch.setattr("stapo_bench.sampling.evaluate", draw)
    monkeypatch.setattr("stapo_bench.presenting.finish_run", lambda run_dir, data_dir: run_dir)
    monkeypatch.setattr("stapo_bench.presenting.rows_from_scores", lambda scores, run_dirs: run_dirs)
    monkeypatch.setattr("stapo_bench.presenting.render_table", lambda run_dirs, long: "")
    more = ("--decoding", "training", "--tasks", "aime24")
    assert stapo("eval", "--ckpt", "[ab]/checkpoints/*", *more)[0] == 0
    assert drawn == ["results/a-step-20-training", "results/a-final-training", "results/b-final-training"]
    code, _, error = stapo("eval", "--ckpt", "**/final", *more)
    assert code == 2
    assert "b/checkpoints/final and x/b/checkpoints/final would share the name b-final; evaluate" in one_line(error)
    assert len(drawn) == 3


@pytest.mark.parametrize("command", sorted(cli.cli.commands))
def test_every_command_has_help_with_an_example(stapo, command):
    code, output, _ = stapo(command, "--help")
    assert code == 0
    assert f"Example: stapo-bench {command}" in " ".join(output.split())


def test_help_loads_nothing_heavy_and_is_quick():
    code = (
        "import sys, time; start = time.process_time(); from stapo_bench import cli\n"
        "heavy = {'torch', 'transformers', 'sympy', 'numpy', 'datasets', 'yaml'}\n"
        "try: cli.cli.main(['--help'], standalone_mode=False)\n"
        "finally: print(time.process_time() - start, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = result.stderr.split(" ", 1)
    assert loaded.strip() == "[]"
    assert float(seconds) < 0.8  # CPU time: says the same on a busy machine, and on a slow one 4 times as much


def test_options_stand_under_headings_each_once():
    text = CliRunner().invoke(cli.cli, ["eval", "--help"]).output
    _, *parts = re.split(r"^(What is evaluated|On what|Prompts|Decoding|Engine|Options):$", text, flags=re.MULTILINE)
    named = zip(parts[::2], parts[1::2], strict=True)
    listed = {title: re.findall(r"^  (?:-h, )?(--[\w-]+)", body, re.MULTILINE) for title, body in named}
    assert listed["Decoding"][:2] == ["--decoding", "--temperature"] and listed["Engine"][0] == "--engine"
    assert "--out" in listed["Options"] and "--ckpt" in listed["What is evaluated"]
    every = [option for options in listed.values() for option in options]
    assert len(every) == len(set(every)) == len(cli.cli.commands["eval"].params) + 1  # and --help


def test_every_command_stands_under_a_heading_once():
    text = CliRunner().invoke(cli.cli, ["--help"]).output
    body = text.split("Get samples:\n")[1]
    assert re.findall(r"^(\w[\w ]+):$", body, re.MULTILINE) == ["Ask", "Show", "Grade", "Look around", "More"]
    assert sorted(re.findall(r"^  (\w+)  ", body, re.MULTILINE)) == sorted([*cli.cli.commands, "experiment"])
