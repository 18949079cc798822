"""A new user's first day, command by command: nothing printed misleads, and what cannot work is refused at once."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stapo_bench.cli import cli

ROOT = Path(__file__).parent.parent
RATES = {"base": 0.3, "justrl": 0.5, "stapo": 0.52}


@pytest.fixture(scope="module")
def day(tmp_path_factory) -> Path:
    """Three methods evaluated on two tiny tasks, their scripts, a run that died, and a user's own task."""
    folder = tmp_path_factory.mktemp("day")
    for name, rate in RATES.items():
        (folder / f"{name}.yaml").write_text(f"success: {rate}\n")
        done = run("eval", *scripted(folder / f"{name}.yaml"), "--out", folder / name, "--samples", 8)
        assert done.exit_code == 0, done.output
    (folder / "dies.yaml").write_text("success: 0.5\ncrash_after: 12\n")
    run("eval", *scripted(folder / "dies.yaml", "tiny_aime24"), "--samples", 4, "--out", folder / "partial")
    rows = [{"id": str(i), "problem": f"{i} + 1?", "answer": str(i + 1)} for i in range(6)]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "own.yaml").write_text(
        "task: own\nrepeats: 4\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 6, suite: mine}\n"
    )
    return folder


def run(*arguments: object) -> Result:
    """A command line of ``stapo-bench`` in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def scripted(checkpoint: Path, tasks: str = "tiny_aime24,tiny_amc23") -> tuple[object, ...]:
    return ("--ckpt", checkpoint, "--engine", "scripted", "--decoding", "justrl", "--tasks", tasks)


def labelled(day: Path, name: str, **about: object) -> Path:
    """The run of that name, with other labels: as a checkpoint of one of our trainings would give them."""
    path = day / name / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["about"] |= about
    manifest.pop("about_digest", None)
    path.write_text(json.dumps(manifest))
    return path.parent


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_curve_has_the_base_that_is_named_and_one_training(day):
    base = labelled(day, "base", method="Base", step=1400)
    justrl, stapo = (labelled(day, name, method=name, step=100) for name in ("justrl", "stapo"))
    refused = run("curve", base, justrl, stapo)
    assert "checkpoints of one training, got those of 2" in str(refused.exception)
    shown = run("curve", base, stapo).output
    assert re.search(r"\| base \| – \| .* \| 0\.0 \| – \|", shown)


def test_the_relative_gain_says_so_and_is_paired(day):
    labelled(day, "base", method="Base")
    (line,) = [x for x in run("table", *(day / name for name in RATES)).output.splitlines() if "strongest" in x]
    assert "relative gain of STAPO over the strongest other method" in line
    ends = {
        error: interval.split(", ") for interval, error in re.findall(r"\[(\S+, \S+)\] (\w+ problems|problems)", line)
    }
    widths = [float(high) - float(low) for low, high in ends.values()]
    assert len(widths) == 2 and widths[0] <= widths[1]


def test_a_table_has_one_grader_whatever_a_run_was_scored_with(day):
    before = run("table", day / "base", day / "stapo").output
    assert run("score", day / "stapo", "--grader", "strict").exit_code == 0
    assert run("table", day / "base", day / "stapo").output == before
    refused = run("table", day / "base", day / "stapo", "--grader", "strict")
    assert "base: expected grades by 'strict', found math" in str(refused.exception)


def test_labels_are_of_what_is_there(day):
    own = run("eval", *scripted(day / "base.yaml", str(day / "own.yaml")), "--data-dir", day, "--out", day / "mine")
    assert own.stdout.startswith("**mine suite: avg@k in percent")
    partial = run("score", day / "partial").output
    assert "12 of 120 samples drawn" in partial and "@4" not in partial and "nan" not in partial
    smaller = run("eval", *scripted(day / "base.yaml"), "--samples", 2, "--out", day / "base")
    assert "holds more than was asked for now: tiny_aime24 30 problems × 8 samples (now asked 30 × 2)" in smaller.stderr


@pytest.mark.usefixtures("graded_here")
def test_a_table_marks_parts_of_tasks_and_scores_of_the_token_limit(day):
    (day / "cut.yaml").write_text("success: 0.1\ntruncated: 0.9\n")
    (day / "half.yaml").write_text("success: 0.6\ntruncated: 0.4\n")
    part, cut = (
        run("eval", *scripted(day / f"{name}.yaml"), "--samples", 4, *more, "--out", day / f"is-{name}").stdout
        for name, more in (("half", ("--limit", 10)), ("cut", ("--max-new-tokens", 500)))
    )
    (row,) = [line for line in part.splitlines() if line.startswith("| –")]
    assert row.count("† [") == 2
    assert "is-half: Tiny AIME24 10×4 (of 30 problems), Tiny AMC23 10×4 (of 40 problems); truncated" in part
    notes = [line for line in part.splitlines() if "†" in line and "|" not in line]
    assert notes == ["- † Tiny AIME24, Tiny AMC23: not all of the task's problems (how many stands with the run)"]
    (note,) = [line for line in cut.splitlines() if "†" in line and "|" not in line]
    assert note.startswith(
        "- † Tiny AIME24, Tiny AMC23: half of the completions or more are cut off, so that the score"
    )
    assert "†" not in run("table", day / "base", day / "stapo").output


def test_as_much_is_printed_as_the_question_needs(day):
    one = run("eval", *scripted(day / "base.yaml", "tiny_aime24"), "--samples", 4, "--out", day / "single")
    assert one.stdout.count("| Model") == 1 and "Avg" not in one.stdout
    assert run("score", day / "single", "--long").stdout.count("| Model") == 2
    footnotes = [
        line
        for line in run("table", *(day / n for n in RATES), "--metric", "pass@16").output.splitlines()
        if "*" in line
    ]
    assert sum("needs 16 decided samples" in line for line in footnotes) == 1


def test_a_report_compares_with_the_base_wherever_a_glob_puts_it(day):
    labelled(day, "base", method="Base")
    done = run("report", day / "justrl", day / "base", day / "stapo", "-o", day / "new" / "r.html")
    assert done.exit_code == 0, done.output
    assert "Compared with base: the base model." in (day / "new" / "r.html").read_text()


def test_equal_weights_and_a_tie_are_told_without_contradiction(day):
    (day / "twin.yaml").write_text((day / "stapo.yaml").read_text())
    assert run("eval", *scripted(day / "twin.yaml"), "--samples", 8, "--seed", 0, "--out", day / "twin").exit_code == 0
    text = run("compare", day / "stapo", day / "twin").output
    assert text.startswith("**Same weights and settings, and tied within ±")
    assert "(two one-sided tests at 5 %)" in text


def test_exports_audits_and_plans(day):
    out = day / "tables" / "all.csv"
    assert run("export", day / "base", day / "stapo", "-o", out).exit_code == 0
    assert out.read_text().splitlines()[0].replace('"', "").split(",") == [
        *("run", "method", "model", "regime", "temperature", "top_p", "max_new_tokens", "task", "title"),
        *("problem_id", "problem", "sample_index", "seed", "completion", "num_tokens", "finish_reason"),
        *("sum_log_prob", "seconds", "grader", "outcome", "extracted", "correct", "gold"),
    ]
    assert run("audit", day / "partial").exit_code == 3
    assert "a difference of 1 point with" in run("plan", day / "base", day / "stapo", "--detect", 0.01).output


# -- refusals ---------------------------------------------------------------------------------------------------------

_REFUSALS = {
    "gguf": ("bench", "eval --ckpt model.gguf --decoding justrl --tasks tiny_aime24 --out out", "GGUF weights"),
    "served gguf": (
        "bench",
        "eval --ckpt model.gguf --engine openai --base-url http://127.0.0.1:9/v1 --decoding justrl --tasks tiny_aime24",
        "and with --ckpt the Hugging Face folder that they were made from",
    ),
    "adapter": ("bench", "eval --ckpt lora --decoding justrl --tasks tiny_aime24 --out out", "give it: --base PATH"),
    "prompt format": (
        "bench", "eval --ckpt model --decoding justrl --tasks tiny_aime24 --prompt-format chat --out out",
        "no chat template",
    ),
    "token limit": (
        "bench", "eval --ckpt model --decoding justrl --tasks tiny_aime24 --max-new-tokens 4096 --out out",
        "expected fewer than the 4096 positions",
    ),
    "no server": (
        "bench", "eval --ckpt model --decoding justrl --tasks tiny_aime24 --engine openai --out out",
        "expected at least one --base-url",
    ),
    "no such server": (
        "bench", "eval --ckpt s.yaml --decoding justrl --tasks tiny_aime24 --engine openai "
        "--base-url http://127.0.0.1:9/v1 --out new/out", "expected an OpenAI-compatible server",
    ),
    "report": ("bench", "report nowhere -o new/dir/r.html", "nowhere: no such run folder or file"),
    "export": ("bench", "export nowhere -o new/dir/r.csv", "not a run folder"),
    "group of one": ("train", "t.yaml rollout.group_size=1", "group_size: expected at least 2, got 1"),
    "no model": ("train", "t.yaml model=nowhere", "no such checkpoint: nowhere"),
    "trained on too much": ("train", "t.yaml rollout.max_new_tokens=4096", "expected fewer than the 4096 positions"),
    "no template": ("train", "t.yaml data.prompt_format=chat", "no chat template"),
    "no TensorBoard": ("train", "t.yaml tensorboard=true", "tensorboard=true: the package is not installed"),
    "no such objective": ("train", "t.yaml objective.name=stapoo", "unknown objective 'stapoo': did you mean 'stapo'"),
    "stability": ("train", "stability nowhere", "expected a training run with metrics.jsonl"),
}  # fmt: skip

_TRY = """
import importlib.util, json, sys
from click.testing import CliRunner
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "tensorboard" else found(name, *more)
from stapo_bench.cli import cli as bench
from stapo_train.cli import cli as train
said = {}
for name, (program, arguments, _) in json.load(sys.stdin).items():
    done = CliRunner().invoke({"bench": bench, "train": train}[program], arguments.split())
    said[name] = f"{done.output} {done.exception}"
    assert "torch" not in sys.modules, name
print(json.dumps(said))
"""


def test_what_cannot_work_is_refused_without_torch_and_leaves_nothing_behind(tmp_path):
    for folder, files in {
        "model": {"config.json": '{"max_position_embeddings": 4096}', "model.safetensors": "", "tokenizer.json": "{}"},
        "lora": {"adapter_config.json": "{}", "adapter_model.safetensors": ""},
        ".": {"model.gguf": "GGUF", "s.yaml": "success: 1.0"},
    }.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
    recipe = ROOT / "train" / "configs" / "tiny" / "_recipe.yaml"
    (tmp_path / "t.yaml").write_text(f"defaults: {recipe}\nout: run\nmodel: model\nobjective: {{name: stapo}}\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", _TRY],
        cwd=tmp_path,
        input=json.dumps(_REFUSALS),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert {name: words in said[name] for name, (*_, words) in _REFUSALS.items()} == dict.fromkeys(_REFUSALS, True), (
        said
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# -- the trainer's page -----------------------------------------------------------------------------------------------


def test_the_snippets_of_the_trainers_page_run_as_pasted():
    page = (ROOT / "train" / "README.md").read_text()
    blocks = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)]
    whole = [block for block in blocks if block.startswith(("import", "from")) and "trl" not in block]
    assert len(whole) == 2
    loss, objective = ({}, {})
    exec(whole[0], loss)
    assert loss["loss"].isfinite()
    exec(whole[1], objective)
    assert objective["PositiveOnly"]().describe_selection()[0].startswith("what its select leaves out")


def test_checking_an_objective_is_short_and_says_what_the_long_form_adds():
    from stapo_train.cli import cli as train

    done = CliRunner().invoke(train, ["check-objective", "justrl"])
    assert done.exit_code == 0, done.output
    assert "two ranks  " not in done.output and "151936" not in done.output
    assert done.output.splitlines()[-1].startswith("--long adds two ranks, and the checks of single tokens at |V| =")
