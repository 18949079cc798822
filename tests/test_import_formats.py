"""Formats of other tools: filters and repeats of lm-eval, details of lighteval, columns that are named."""

import csv
import json

import pytest
from eval_setup import make_task
from import_setup import lines, lm_eval_row

from stapo_bench.analysis import score_run
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import StatedSampling
from stapo_bench.runs import grade_run, load_manifest, read_grades, read_problems
from stapo_bench.runs.importing import ImportOptions, Stated, import_run, opening
from stapo_bench.runs.importing.matching import _template, candidates_of
from stapo_bench.runs.importing.placing import _content_ids
from stapo_bench.runs.importing.survey import FoundProblem
from stapo_bench.tasks import ContentDigest

pytestmark = pytest.mark.usefixtures("graded_here")


def test_filters_of_lm_eval_are_verdicts_on_the_same_samples(tmp_path):
    filters = {"strict": 0.0, "flexible": 1.0}
    rows = [lm_eval_row(doc, [f"so {2 * doc}."], name, filters[name]) for name in filters for doc in (1, 2, 3)]
    path = lines(tmp_path / "samples_sums.jsonl", rows)
    imported = import_run([path], tmp_path / "run", ImportOptions(stated=Stated(model="M")))
    (asked,) = imported.manifest.about.tasks.values()
    assert (asked.num_problems, asked.num_samples, imported.num_samples) == (3, 1, 3)
    assert imported.graders == ("lm-eval-exact_match-flexible-reported", "lm-eval-exact_match-strict-reported")
    assert imported.manifest.identity.sampling == StatedSampling(temperature=0.6)
    assert [score_run(tmp_path / "run", name).tasks[0].value for name in imported.graders] == [1.0, 0.0]
    golds = {problem.question: problem.gold.answer for problem in read_problems(imported.manifest, None)}
    assert golds == {"What is 1 + 1?": "2", "What is 2 + 2?": "4", "What is 3 + 3?": "6"}


def test_repeats_of_lm_eval_are_samples_on_which_its_verdict_says_nothing(tmp_path):
    path = lines(tmp_path / "x", [lm_eval_row(1, ["2", "3"], "none", 1.0), lm_eval_row(2, ["4", "4"], "none", 1.0)])
    imported = import_run([path], tmp_path / "run", ImportOptions())
    assert imported.num_samples == 4 and imported.graders == ()


def test_details_of_lighteval(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    rows = [
        {
            "doc": {
                "id": str(n),
                "query": f"What is {n}?",
                "choices": ["no", str(n)],
                "gold_index": [1],
                "task_name": "x",
            },
            "model_response": {"text": [f"\\boxed{{{n}}}", "\\boxed{9}"][:k]},
            "metric": {"em": 1.0},
        }
        for n, k in ((1, 2), (2, 2))
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "details.parquet")
    imported = import_run([tmp_path / "details.parquet"], tmp_path / "run", ImportOptions())
    assert (imported.manifest.imported, imported.num_samples, imported.graders) == ("lighteval", 4, ())
    assert [(name, t.num_problems, t.num_samples) for name, t in imported.manifest.about.tasks.items()] == [("x", 2, 2)]
    grade_run(tmp_path / "run")
    assert score_run(tmp_path / "run").tasks[0].value == 0.5
    one = [{**row, "model_response": {"text": row["model_response"]["text"][:1]}} for row in rows]
    parquet.write_table(pa.Table.from_pylist(one), tmp_path / "one.parquet")
    assert import_run([tmp_path / "one.parquet"], tmp_path / "one", ImportOptions()).graders == (
        "lighteval-em-reported",
    )


def test_columns_can_be_named(tmp_path):
    with (tmp_path / "mine.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["frage", "antwort", "richtig", "note"])
        table.writerows([["1 + 1?", "\\boxed{2}", "2", "1"], ["1 + 2?", "\\boxed{4}", "3", "0,5"]])
    with pytest.raises(StapoError, match=r"no format fits \(columns: frage, antwort, richtig, note\)"):
        import_run([tmp_path / "mine.csv"], tmp_path / "run", ImportOptions())
    columns = {"problem": "frage", "completion": "antwort", "gold": "richtig", "score": "note"}
    with pytest.raises(UsageError, match="no such column; did you mean 'antwort'"):
        import_run(
            [tmp_path / "mine.csv"], tmp_path / "run", ImportOptions(columns={**columns, "completion": "antwrt"})
        )
    imported = import_run([tmp_path / "mine.csv"], tmp_path / "run", ImportOptions(columns=columns))
    assert imported.notes[-1] == "file-reported: 1 scores are neither right nor wrong (1 or 0) and count as unknown"
    reported = read_grades(tmp_path / "run", "file-reported").outcomes
    assert sorted(outcome.value for outcome, _ in reported.values()) == ["CORRECT", "GRADER_ERROR"]
    grade_run(tmp_path / "run")
    assert score_run(tmp_path / "run").tasks[0].value == 0.5


def test_a_completion_that_is_null_or_empty_is_a_sample_and_is_counted(tmp_path):
    # 3 of 4 samples are right, however a file writes the one without a text: 75 %, and never 3 of 3
    texts = ["so 4", None, "so 4", "so 4"]
    said = {"problem": "What is 2 + 2?", "answer": "4"}
    files = {
        "rows": lines(tmp_path / "rows.jsonl", [{**said, "response": text} for text in texts]),
        "pandas": lines(tmp_path / "pandas.jsonl", [{**said, "response": text or float("nan")} for text in texts]),
        "list": lines(tmp_path / "list.jsonl", [{**said, "responses": texts}]),
        "table": tmp_path / "table.csv",
        "lm-eval": lines(tmp_path / "lm.jsonl", [lm_eval_row(2, texts, "none", 1.0)]),
    }
    files["table"].write_text("problem,answer,response\n" + "".join(f"2 + 2?,4,{t or ''}\n" for t in texts))
    for name, path in files.items():
        imported = import_run([path], tmp_path / name, ImportOptions())
        assert imported.num_samples == 4, name
        assert "1 of 4 completions are empty" in imported.notes, name
        grade_run(tmp_path / name)
        assert score_run(tmp_path / name).tasks[0].value == 0.75, name


def test_a_gold_that_is_nan_is_none(tmp_path):
    rows = [{"problem": "1 + 1?", "answer": gold, "response": "so 2"} for gold in ("NaN", "nan", float("nan"), None)]
    for number, row in enumerate(rows):
        path = lines(tmp_path / f"{number}.jsonl", [row, {"problem": "1 + 2?", "answer": "3", "response": "so 3"}])
        imported = import_run([path], tmp_path / f"run{number}", ImportOptions())
        assert any(
            note.endswith("the file has no gold for 1 problems: they cannot be graded") for note in imported.notes
        )
        grade_run(tmp_path / f"run{number}")
        assert score_run(tmp_path / f"run{number}").tasks[0].value == 1.0


@pytest.mark.parametrize("number", [1, 2, 7], ids="row {}".format)
def test_a_row_without_a_completion_is_named_with_its_column(number, tmp_path):
    row = {"problem": "2 + 2?", "answer": "4", "response": "so 4"}
    rows = [row | {"problem": f"{n} + 2?"} for n in range(8)]
    del rows[number - 1]["response"]
    path = lines(tmp_path / "x.jsonl", rows)
    expected = rf"row {number}: expected samples, got none in 'response' \(columns: problem, answer\); write null"
    with pytest.raises(StapoError, match=expected):
        import_run([path], tmp_path / "run", ImportOptions())
    assert not (tmp_path / "run").exists()


def test_a_column_that_some_rows_have_besides_changes_nothing(tmp_path):
    rows = [{"problem": f"{n} + 2?", "completion": "so 4", "gold": "4"} for n in (1, 2)]
    more = [rows[0], rows[1] | {"answer": "5", "output": "5"}]
    for name, listed in (("plain", rows), ("more", more)):
        import_run([lines(tmp_path / f"{name}.jsonl", listed)], tmp_path / name, ImportOptions())
    plain, also = (read_problems(load_manifest(tmp_path / name), None) for name in ("plain", "more"))
    assert [problem.gold.answer for problem in also] == [problem.gold.answer for problem in plain] == ["4", "4"]


def test_a_path_that_ends_early_is_no_completion_and_null_at_its_end_is_one(tmp_path):
    rows = [{"problem": f"{n} + 2?", "answer": "4", "out": {"text": text}} for n, text in ((1, "4"), (2, None))]
    columns = {"completion": "out.text"}
    imported = import_run([lines(tmp_path / "x.jsonl", rows)], tmp_path / "run", ImportOptions(columns=columns))
    assert imported.num_samples == 2
    rows[1]["out"] = {"error": "timeout"}
    with pytest.raises(StapoError, match=r"row 2: expected samples, got none in 'out\.text'"):
        import_run([lines(tmp_path / "y.jsonl", rows)], tmp_path / "other", ImportOptions(columns=columns))


@pytest.mark.parametrize(
    ("row", "lacks"),
    [
        ({"problem": "1?", "antwort": "2"}, r"it has no completion \(completion, response, output, …\)"),
        ({"frage": "1?", "outputs": ["2"]}, r"it has no problem \(problem, question, prompt, …\)"),
        ({"problem": "1?", "output": "2", "response": "2"}, "it has response and output for the completion"),
    ],
)
def test_what_plain_rows_lack_is_said(row, lacks, tmp_path):
    with pytest.raises(StapoError, match=lacks):
        import_run([lines(tmp_path / "x.jsonl", [row])], tmp_path / "run", ImportOptions())


def test_a_row_with_an_empty_list_is_refused_and_not_left_out(tmp_path):
    path = lines(tmp_path / "x.jsonl", [{"problem": "1?", "outputs": ["1"]}, {"problem": "2?", "outputs": []}])
    with pytest.raises(StapoError, match="row 2: expected samples, got none in 'outputs'"):
        import_run([path], tmp_path / "run", ImportOptions())


def test_a_task_of_a_file_is_known_by_its_place_and_one_of_ours_by_its_name(tmp_path):
    theirs, ours = candidates_of([make_task(tmp_path, "sums"), "aime24"], tmp_path)
    assert theirs.file == str((tmp_path / "sums.yaml").resolve()) and theirs.problems is not None
    assert (ours.task.name, ours.file) == ("aime24", None)


@pytest.mark.parametrize("block", [2, 3, 7, 100])
def test_a_list_is_read_in_blocks_of_any_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(opening, "_BLOCK", block)
    monkeypatch.setattr(opening, "LONGEST_LINE", 30)
    values = [{"a": 12345678}, [1, 23, 456], "ab, [c]", -1500.25, 1.5e-30, 2e22, None, True, {}, 12, 3456789]
    path = tmp_path / "list.json"
    for indent in (None, 1):
        path.write_text(f" {json.dumps(values, indent=indent)}\n", encoding="utf-8-sig")
        assert list(opening._json_list(path)) == values  # longer than a line may be, which each value may be by itself
    for damaged in ('[1, "' + "a" * 40 + '", ', '[1, "a', "[1, 2", "[1, x]"):
        path.write_text(damaged)
        with pytest.raises(ValueError):
            list(opening._json_list(path))


def test_what_stands_around_two_problems_is_found_and_around_one_is_not_looked_for():
    known = {ContentDigest.of(question, "").question: {} for question in ("1 + 1", "25 * 4")}
    assert _template(["Solve: 1 + 1 (briefly)", "Solve: 25 * 4 (briefly)"], known) == (
        len("Solve: "),
        len(" (briefly)"),
    )
    assert _template(["Solve: 1 + 1 (briefly)"], known) == (0, 0)


def test_problems_of_one_text_are_numbered_from_the_second_on():
    same = FoundProblem(question="What is 1 + 1?", gold="2", item="a", task=None, title=None)
    named = FoundProblem(question=None, gold="2", item="Item 7", task=None, title=None)
    digest = ContentDigest.of("What is 1 + 1?", "").question[:12]
    assert _content_ids([same, named, same, same]) == [digest, "Item-7", f"{digest}-2", f"{digest}-3"]
