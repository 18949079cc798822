"""What is exported and imported again is the same run, as far as the format can say it."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from eval_setup import make_options, run
from import_setup import lines

from stapo_bench.analysis import score_run, scores_without
from stapo_bench.analysis.parity_gate import parity
from stapo_bench.analysis.score_file import to_json
from stapo_bench.errors import StapoError
from stapo_bench.presenting.exporting import export_as, hub_results, lm_eval_logs
from stapo_bench.presenting.exporting.graded_run import GradedRun
from stapo_bench.records import Outcome, PromptStyle
from stapo_bench.runs import export_runs, grade_run, load_manifest, load_run, read_grades, read_problems, read_samples
from stapo_bench.runs.importing import ImportOptions, Stated, import_run

pytestmark = pytest.mark.usefixtures("graded_here")

ANSWERS = ["so \\boxed{2}", "=2 or \\boxed{3}", "I do not know", "", "line\n\\boxed{2}", "'=quoted' \\boxed{2}"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    return imported_set(tmp_path_factory.mktemp("set"))


@pytest.fixture
def own(imported, tmp_path) -> Path:
    """The set as a run, a copy for each test."""
    return shutil.copytree(imported, tmp_path / "own")


def imported_set(folder: Path, **stated: str) -> Path:
    """A run of a set that is no task of ours: two problems, three samples each; one has neither answer nor verdict."""
    rows = [
        {
            "problem": f"What is {number} + {2 - number}?",
            "completion": ANSWERS[3 * number + index],
            "answer": "2",
            "sample": index,
            "seed": 2**62 + index,
            "num_tokens": 7,
            "finish_reason": "stop" if index else "length",
        }
        for number in range(2)
        for index in range(3)
    ]
    options = ImportOptions(stated=Stated(model="M", temperature=0.6, top_p=0.95, max_new_tokens=8, **stated))
    import_run([lines(folder / "own.jsonl", rows)], folder / "own", options)
    grade_run(folder / "own")
    return folder / "own"


def scores(folder: Path, grader: str = "math") -> str:
    return json.dumps(to_json(score_run(folder, grader))["tasks"])


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_a_table_of_samples_makes_the_same_run_again(own, tmp_path, ending):
    if ending != "jsonl":
        pytest.importorskip("pyarrow")
    assert export_runs([own], tmp_path / f"t.{ending}").notes == ()
    again = import_run([tmp_path / f"t.{ending}"], tmp_path / "again", ImportOptions()).manifest
    first = load_manifest(own)
    assert (again.about.model, again.about.tasks) == ("M", first.about.tasks)
    assert (again.identity.sampling, again.identity.tasks) == (first.identity.sampling, first.identity.tasks)
    assert list(read_problems(again, None)) == list(read_problems(first, None))
    stored = [
        [(s.key, s.completion, s.seed, s.num_tokens, s.finish_reason) for s in read_samples(folder)]
        for folder in (own, tmp_path / "again")
    ]
    assert stored[0] == stored[1]
    # The verdicts that came along are ours, no answer among them; and the same grader finds them again.
    assert scores(tmp_path / "again", "export-reported") == scores(own)
    grade_run(tmp_path / "again")
    assert scores(tmp_path / "again") == scores(own)


def test_no_answer_stays_that_and_is_not_unknown(own, tmp_path):
    export_runs([own], tmp_path / "t.jsonl")
    import_run([tmp_path / "t.jsonl"], tmp_path / "again", ImportOptions())
    found = read_grades(tmp_path / "again", "export-reported").outcomes
    assert dict(found) == dict(read_grades(own, "math").outcomes)
    assert sorted(outcome.value for outcome, _ in found.values()).count("NO_ANSWER") == 2
    assert Outcome.GRADER_ERROR not in {outcome for outcome, _ in found.values()}


def test_the_texts_of_our_tasks_travel_where_the_data_are_at_hand(tmp_path):
    run(options := make_options(tmp_path))
    grade_run(options.out, data_dir=tmp_path)
    export_runs([options.out], tmp_path / "t.jsonl", data_dir=tmp_path)
    (first, *_) = map(json.loads, (tmp_path / "t.jsonl").read_text().splitlines())
    problems = {p.problem_id: p.question for p in read_problems(load_manifest(options.out), tmp_path)}
    assert first["problem"] == problems[first["problem_id"]]
    # Without the data of the tasks they become sets of their own, of the same problems and verdicts.
    import_run([tmp_path / "t.jsonl"], tmp_path / "again", ImportOptions(tasks=("own",)))
    assert len(list(read_problems(load_manifest(tmp_path / "again"), None))) == len(problems)
    values = [
        [task.value for task in score_run(*one).tasks]
        for one in ((options.out,), (tmp_path / "again", "export-reported"))
    ]
    assert values[0] == values[1]


def test_a_cell_of_csv_loses_the_apostrophe_that_guarded_it(own, tmp_path):
    pytest.importorskip("pyarrow")
    export_runs([own], tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        cells = {row["completion"] for row in csv.DictReader(file)}
    assert {"'=2 or \\boxed{3}", "''=quoted' \\boxed{2}"} <= cells
    import_run([tmp_path / "t.csv"], tmp_path / "again", ImportOptions())
    assert {sample.completion for sample in read_samples(tmp_path / "again")} == set(ANSWERS)


def test_the_overlap_of_a_set_of_ones_own_is_left_out(own, tmp_path):
    train = lines(tmp_path / "train.jsonl", [{"problem": "what is 0 + 2 ?"}])
    (score,) = scores_without(own, train)
    # The first problem's samples are right, wrong and without an answer; of the second's, two of three are right.
    assert (score.num_excluded, score.all.value, score.clean.value) == (1, 0.5, 2 / 3)


def test_a_log_of_inspect_makes_the_same_scores_again(own, tmp_path):
    written = export_as("inspect", [own], tmp_path / "logs")
    assert [path.name for path in written.files] == [f"own_{next(iter(load_manifest(own).about.tasks))}.json"]
    again = import_run(list(written.files), tmp_path / "again", ImportOptions()).manifest
    first = load_manifest(own)
    assert (again.imported, again.about.model, again.about.tasks) == ("inspect_ai", "M", first.about.tasks)
    assert (again.identity.sampling, again.identity.tasks) == (first.identity.sampling, first.identity.tasks)
    assert scores(tmp_path / "again", "inspect-reported") == scores(own)
    grade_run(tmp_path / "again")
    assert scores(tmp_path / "again") == scores(own)


SETTINGS = {"top_k": 20, "min_p": 0.05, "stop": ["Q:", "\n\n"], "thinking_budget": 512, "thinking_end": "</think>"}
STYLE = {
    "system": "Answer.",
    "examples": [["1+1?", "2"]],
    "chat_template_kwargs": {"enable_thinking": False},
    "assistant_prefix": "<think>",
}


@pytest.fixture
def styled(tmp_path) -> Path:
    """The run, drawn under every other setting and style."""
    return imported_set(tmp_path, settings=json.dumps(SETTINGS), style=json.dumps(STYLE))


@pytest.mark.parametrize("form", ["lm-eval", "inspect"])
def test_decoding_and_what_stood_around_the_questions_come_back(styled, tmp_path, form):
    first = load_manifest(styled)
    assert (first.identity.sampling.thinking_budget, first.identity.sampling.stop) == (512, ("Q:", "\n\n"))
    files = [path for path in export_as(form, [styled], tmp_path / "logs").files if not path.name.startswith("results")]
    again = import_run(files, tmp_path / "again", ImportOptions(name="own")).manifest
    assert again.identity.sampling == first.identity.sampling
    assert [task.style for task in again.identity.tasks.values()] == [
        task.style for task in first.identity.tasks.values()
    ]
    content = json.loads(files[0].read_text().splitlines()[0] if form == "lm-eval" else files[0].read_text())
    if form == "lm-eval":  # under that tool's own names, where it has them
        arguments = content["arguments"]["gen_args_0"]["arg_1"]
        assert (arguments["top_k"], arguments["min_p"], arguments["until"]) == (20, 0.05, ["Q:", "\n\n"])
        content["stapo_bench"]["sampling"]["top_k"] = "many"
        files[0].write_text(json.dumps(content))
    else:
        config = content["eval"]["model_generate_config"]
        assert (config["top_k"], config["stop_seqs"]) == (20, ["Q:", "\n\n"])
        content["eval"]["metadata"]["stapo_bench"] = {"style": {}}
        files[0].write_text(json.dumps(content))
    with pytest.raises(StapoError, match=r"expected the settings of a run, got .*; export it again"):
        import_run(files, tmp_path / "damaged", ImportOptions(name="own"))


def test_a_style_is_of_the_tasks_whose_files_all_state_it(styled, tmp_path):
    """Of a file that says nothing it is not known: neither another file's, nor nothing around the questions."""
    terse, *_ = [path for path in export_as("lm-eval", [styled], tmp_path / "logs").files if "samples" in path.name]
    rows = [json.loads(line) for line in terse.read_text().splitlines()]
    silent = [{"problem": f"What is {n} * 1?", "completion": "\\boxed{2}", "answer": "2"} for n in range(2)]
    bare = [{**row, "stapo_bench": {**row["stapo_bench"], "style": {}}} for row in rows]

    def styles(*files: Path) -> list[PromptStyle | None]:
        folder = tmp_path / f"of-{len(list(tmp_path.iterdir()))}"
        import_run(files, folder, ImportOptions(tasks=("own",)))
        return [task.style for task in load_manifest(folder).identity.tasks.values()]

    known = PromptStyle(**{**STYLE, "examples": tuple(map(tuple, STYLE["examples"]))})
    no_style = lines(tmp_path / "samples_bare.jsonl", bare)
    assert styles(terse) == [known]
    assert styles(no_style) == [PromptStyle()]
    assert styles(terse, no_style) == [None]  # of the same problems
    assert styles(lines(tmp_path / "silent.jsonl", silent)) == [None]
    assert styles(terse, tmp_path / "silent.jsonl") == [None, known]


def test_what_is_not_known_of_prompts_is_no_known_difference(styled, tmp_path):
    (tmp_path / "silent").mkdir()
    silent = load_run(imported_set(tmp_path / "silent"))
    weights = {difference.field: difference.weight for difference in parity(silent, load_run(styled))}
    (task,) = silent.tasks
    assert weights[f"tasks.{task}.prompts"] == "unknown"
    assert not [field for field in weights if ".style" in field]


def test_a_model_card_names_decoding_and_style(styled):
    notes = hub_results._notes(GradedRun(styled, "math", None), score_run(styled).tasks[0])
    assert "top k 20, min p 0.05, stop ['Q:', '\\n\\n'], thinking budget 512" in notes
    assert notes.endswith(str(score_run(styled).prompt))


@pytest.mark.parametrize("at_once", [1, 16_384])
def test_a_log_of_lm_eval_makes_the_same_scores_again(own, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(lm_eval_logs, "_SAMPLES_AT_ONCE", at_once)
    samples, results = export_as("lm-eval", [own], tmp_path / "logs").files
    assert json.loads(results.read_text())["model_name"] == "M"
    options = ImportOptions(name="own", stated=Stated(model="M"))
    again = import_run([samples], tmp_path / "again", options).manifest
    assert (again.imported, again.identity.sampling) == ("lm-eval", load_manifest(own).identity.sampling)
    grade_run(tmp_path / "again")
    # Such a log does not say how a completion ended, nor what a set is called.
    (ours,), (theirs,) = (json.loads(scores(folder)) for folder in (own, tmp_path / "again"))
    assert (ours.pop("num_truncated"), theirs.pop("num_truncated")) == (2, None)
    assert {**ours, "task": "own"} == theirs


def test_a_log_of_lm_eval_with_one_sample_keeps_the_verdict(own, tmp_path):
    rows = [
        {"problem": f"{n}?", "completion": text, "answer": "2"}
        for n, text in enumerate(["\\boxed{2}", "\\boxed{3}", "no idea"])
    ]
    import_run([lines(tmp_path / "one.jsonl", rows)], tmp_path / "one", ImportOptions())
    grade_run(tmp_path / "one")
    samples, _ = export_as("lm-eval", [tmp_path / "one"], tmp_path / "logs").files
    imported = import_run([samples], tmp_path / "again", ImportOptions())
    assert imported.graders == ("lm-eval-avg_at_k-reported",)
    found = read_grades(tmp_path / "again", imported.graders[0]).outcomes
    assert sorted(outcome.value for outcome, _ in found.values()) == ["CORRECT", "INCORRECT", "NO_ANSWER"]


def test_what_an_engine_gave_up_is_no_wrong_sample_in_another_format(tmp_path):
    rows = [
        {"problem": "1 + 1?", "completion": "", "answer": "2", "finish_reason": "error"},
        {"problem": "1 + 1?", "completion": "\\boxed{2}", "answer": "2", "finish_reason": "stop"},
    ]
    import_run([lines(tmp_path / "x.jsonl", rows)], tmp_path / "run", ImportOptions())
    grade_run(tmp_path / "run")
    assert score_run(tmp_path / "run").tasks[0].value == 1.0
    for name in ("lm-eval", "inspect"):
        (samples, *_) = export_as(name, [tmp_path / "run"], tmp_path / name).files
        import_run([samples], tmp_path / f"from-{name}", ImportOptions())
        grade_run(tmp_path / f"from-{name}")
        assert score_run(tmp_path / f"from-{name}").tasks[0].value == 1.0
