"""Two files are enough: outcomes in tables, maps, logs and matrices are compared as run folders are."""

import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from compare_setup import numbers

import stapo_bench as sb
from stapo_bench.analysis import better_by, compare_models, compare_outcomes, judge, not_worse
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import render_comparison
from stapo_bench.runs.outcomes import read_outcomes

NAN = float("nan")
A = "item,score\nq1,0\nq2,1\nq3,0\nq4,0\n"
B = "item,score\nq1,1\nq2,1\nq3,1\nq4,0\n"


@pytest.fixture
def write(tmp_path):
    """``write("a.csv", text)`` makes a file under the test's own folder."""

    def make(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


def scores(path, **named):
    """The one table in a file, its items to their scores."""
    (table,) = read_outcomes(path, named)
    (task,) = table.tasks.values()
    return dict(zip(task.outcomes.problem_ids, task.outcomes.scores.tolist(), strict=True))


def refused(*paths, options=()):
    """The one line with which the command turns files away."""
    result = CliRunner().invoke(cli, ["compare", *map(str, paths), *options])
    assert result.exit_code in (1, 2), result.output
    error = str(result.exception) if isinstance(result.exception, StapoError) else result.output.strip()
    assert "\n" not in error and "Traceback" not in error
    return error


def test_a_table_says_what_it_could_not_look_at(write):
    found = compare_outcomes(write("a.csv", A), write("b.csv", B))
    fields = ["engine", "grader", "prompts", "sampling.max_new_tokens", "sampling.temperature", "sampling.top_p"]
    assert [(item.field, item.weight) for item in found.parity] == [(field, "unknown") for field in fields]
    text = render_comparison(found)
    assert "Not enough data to tell b from a: +50.0 points" in text
    assert "6 settings (below) are not known of both" in text
    assert "truncation, copied samples and early stopping were not looked at" in text
    assert json.loads(render_comparison(found, "json"))["fair"] is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tabs.tsv", "problem_id\tcorrect\np\ttrue\nq\tfalse\n"),
        ("semicolons.csv", "Question_ID;Passed\np;True\nq;False\n"),
        ("mark.csv", "\ufeffitem,acc\np,1\nq,0\n"),
        ("windows.csv", "item,acc\r\np,1.0\r\nq,0.0\r\n"),
        ("rows.jsonl", '{"id": "p", "exact_match": 1.0}\n{"id": "q", "exact_match": 0}\n'),
        ("list.json", '[{"doc_id": "p", "is_correct": true}, {"doc_id": "q", "is_correct": false}]'),
        ("map.json", '{"p": 1, "q": [0]}'),
        ("map_of_lines.json", '{\n "p": true,\n "q": false\n}\n'),
        ("wide.csv", "item,qwen\np,1\nq,0\n"),
        ("words.csv", "problem,score\np,CORRECT\nq,NO_ANSWER\n"),
    ],
)
def test_the_same_outcomes_in_many_shapes(write, name, text):
    assert scores(write(name, text)) == {"p": [1.0], "q": [0.0]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("item,sample,score\np,1,1\np,0,0\nq,0,1\nq,1,\n", {"p": [0.0, 1.0], "q": [1.0, NAN]}),  # sorted by sample
        ("item,sample,score\np,10,1\np,9,0\n", {"p": [0.0, 1.0]}),  # by size, not by letter
        ("item,score\np,1\np,0\nq,0\nq,1\n", {"p": [1.0, 0.0], "q": [0.0, 1.0]}),  # in order
        ("item,seed,score\np,7,1\np,3,0\nq,3,1\n", {"p": [0.0, 1.0], "q": [1.0, NAN]}),
        ("item,sample_1,sample_0\np,1,0\nq,,1\n", {"p": [0.0, 1.0], "q": [1.0, NAN]}),
        ('{"p": [1, 0, 0], "q": [1]}', {"p": [1.0, 0.0, 0.0], "q": [1.0, NAN, NAN]}),
        ('{"item": 7, "scores": [true, false]}\n{"item": 8.0, "scores": [null]}\n', {"7": [1.0, 0.0], "8": [NAN, NAN]}),
    ],
)
def test_samples_of_an_item(write, text, found):
    got = scores(write("file", text))
    assert list(got) == list(found)
    np.testing.assert_array_equal([*got.values()], [*found.values()])


def test_one_file_with_two_models_long_or_wide(write):
    twice = write("twice.csv", "item,score\np,1\np,0\nq,0\nq,1\n")
    assert (
        "2 items, 4 outcomes; the rows of an item are taken for its samples, 2 each" in read_outcomes(twice)[0].notes[0]
    )
    long = write("long.csv", "model,item,score\nold,p,0\nold,q,0\nnew,q,1\nnew,p,1\n")
    wide = write("wide.csv", "item,old,new\np,0,1\nq,0,1\n")
    for path in (long, wide):
        found = compare_models(path, read_outcomes(path))
        assert (found.name_a, found.name_b, found.average.value_a, found.average.value_b) == ("old", "new", 0.0, 1.0)
    assert "expected two models in one file, got 1 (one)" in refused(write("one.csv", A))
    assert "expected one model, got 2 (old, new)" in refused(wide, long)


def test_names_in_a_table_reach_no_terminal_as_commands(write):
    long = write("both.csv", "model,item,score\nold\x1b[2J|,q,0\nnew,q,1\n")
    shown = subprocess.run(
        [sys.executable, "-m", "stapo_bench", "compare", str(long)], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in shown.stdout and "new" in shown.stdout


def test_named_columns_and_their_misspelling(write):
    a = write("a.csv", A.replace("item,score", "name,right"))
    b = write("b.csv", B.replace("item,score", "name,right"))
    named = {"item": "name", "score": "right"}
    assert compare_outcomes(a, b, named).average.value_b == 0.75
    assert "--map score=rigt: no such column; did you mean 'right'?" in refused(
        a, b, options=["--map", "item=name,score=rigt"]
    )
    assert "expected a column that names the items: --map item=COLUMN; its columns: name, right" in refused(a, b)


def test_files_that_name_their_columns_differently_have_a_map_each(write, make_run):
    a, b = write("a.csv", A.replace("item,score", "name,right")), write("b.csv", B.replace("item,score", "id,acc"))
    expected = numbers(compare_outcomes(write("x.csv", A), write("y.csv", B)))
    maps = ["--map", "item=name,score=right", "--map", "score=acc"]
    done = CliRunner().invoke(cli, ["compare", str(a), str(b), *maps, "--format", "json"])
    assert {key: json.loads(done.output)[key] for key in expected} == expected
    assert numbers(sb.compare(a, b, columns=[{"item": "name", "score": "right"}, {"score": "acc"}])) == expected
    # In their order: of the other, the first file has no such column.
    assert "--map score=acc: no such column" in refused(a, b, options=[*maps[2:], *maps[:2]])
    error = "--map: expected it once, or once for each of 3 files in their order, got 2"
    assert error in refused(a, b, write("c.csv", B), options=maps)
    with pytest.raises(UsageError, match="columns: expected it once, or once for each of 2 files in their order, got"):
        sb.compare(a, b, columns=[{"item": "name"}])
    runs = [make_run(name, {"x": [[1], [0]]}) for name in "ab"]
    assert "--map names columns of tables" in refused(*runs, options=maps)


def test_a_run_folder_among_files_takes_none_of_their_maps(write, make_run):
    run = make_run("base", {"x": [[1], [0]]})
    items = [f"x-{i},1\n" for i in range(2)]
    a = write("a.csv", "name,right\n" + "".join(items))
    b = write("b.csv", "id,acc\n" + "".join(items))
    maps = ["--map", "item=name,score=right", "--map", "score=acc"]
    done = CliRunner().invoke(cli, ["compare", str(a), str(run), str(b), *maps, "--format", "json"])
    assert {each["run"]: each["average"] for each in json.loads(done.output)["runs"]} == {"a": 1, "b": 1, "base": 0.5}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("item,score\np,1\nq,1.5\n", "row 2, 'score': expected a score from 0 to 1 (or nothing), got '1.5'"),
        ("item,score\np,1\nq,1e30\n", "got '1e30'; scores of another range are declared: --range LO:HI"),
        (
            "item,score\np,1\nq,0\n".encode("utf-16"),
            "a.csv: it is in UTF-16, as spreadsheets save 'Unicode text'; save",
        ),
        ("item,score\np,1\nq,-1\n", "got '-1'; scores of another range are declared: --range LO:HI"),
        ('{\n"results": {},\n"configs": {},\n"versions": {}}', "metrics of lm-eval without texts"),
        (
            f"item,{','.join(map(str, range(1_000_000)))}\np{',1' * 1_000_000}\n",
            "its first line is longer than 1 MB: expected a table",
        ),
        ('item,score\np,1\nq,"0,5"\n', "got '0,5'; numbers have a point, not a comma: 0.5"),
        ("item,score\np,1\nq,85%\n", "got '85%'; numbers stand without a percent sign, and with --range 0:100"),
        ('item;score\np;1\nq;"1,0"\n', "row 2, 'score': expected a score from 0 to 1 (or nothing), got '1,0'"),
        ("item,score\np,1\nq,=A1+1\n", "row 2, 'score': expected a score from 0 to 1 (or nothing), got '=A1+1'"),
        (
            '{"item": "p", "score": 1}\n{"item": "q", "score": {"a": 1}}\n',
            "row 2, 'score': expected a score from 0 ",
        ),
        (
            '{"item": "p", "score": 1}\n{"item": "q", "score": Infinity}\n',
            "row 2, 'score': expected a score from 0 ",
        ),
        ("item,score\np,1\n,0\n", "row 2: expected the name of an item in 'item', got none"),
        ("item,score,score\np,1,1\n", "two columns have the name 'score'"),
        ("item,score\np,1\nq\n", "expected 2 cells, got 1"),
        ("item,score\np,1\np,0\nq,1\n", "item 'p' stands in 2 rows (1, 2), others in 1: doubles are not told"),
        ("item,sample,score\np,0,1\nq,0,1\np,0,1\n", "item 'p', sample '0' stands in rows 1 and 3"),
        ("item,sample,score\np,0,1\np,,1\n", "row 2: expected a sample's name in 'sample', got none"),
        ('{"item": 1, "score": 1}\n{"item": "1", "score": 1}\n{"item": 2, "score": 1}\n', "item '1' stands in 2 rows"),
        ("item,score\np,1\np ,0\n", "items 'p' and 'p ' differ in spaces only"),
        ("item,acc,reward\np,1,0\n", "scores may stand in 'acc' or 'reward'; say where: --map score=COLUMN"),
        ("item,note\np,good\n", "expected a column with scores: --map score=COLUMN; its columns: item, note"),
        ('{"p": 1, "q": {"r": 2}}', "expected a column that names the items"),
        ("just words", "expected a table of outcomes (CSV, TSV, JSON, Parquet), got neither of them"),
        ("just words\n", "expected a table of outcomes (CSV, TSV, JSON, Parquet), got neither of them"),
        ('{"p": 1, "q": 0, "p": 0}', "'p' stands 2 times: expected each once"),
        ('{\n"p": 1, "q": 0,\n"p": 0}', "'p' stands 2 times: expected each once"),
        (f"item,{','.join(map(str, range(40_000)))}\np{',1' * 40_000}\n", "at most 32768 columns, got 40001"),
        (
            f"{json.dumps({'item': 'p', **dict.fromkeys(range(40_000), 1)})}\n" * 2,
            "expected at most 32768 columns, got 40001; write a row per outcome",
        ),
        ("", "the file is empty"),
        (b"item,score\n\xff\xfe,1\n", "row 1 cannot be read: it is not in UTF-8; save it in that encoding"),
        ("item,old,new\np,0.5,1\n", "--map score=COLUMN, or --range 0:1 where all columns hold scores; its columns"),
    ],
)
def test_hostile_tables_are_answered_in_one_line(write, text, error):
    a = write("a.csv", text)
    assert error in refused(a, write("b.csv", B))


def test_items_that_differ_in_spaces_between_files_are_not_guessed(write):
    error = refused(write("a.csv", A), write("b.csv", B.replace("q3,", "q3 ,")))
    assert "item 'q3' of a and 'q3 ' of b differ in spaces only" in error


def test_a_missing_file_and_nothing_in_common(write, tmp_path):
    a = write("a.csv", A)
    assert f"{tmp_path / 'none.csv'}: no such run folder or file" in refused(a, tmp_path / "none.csv")
    error = refused(a, write("b.csv", B.replace("q", "p")))
    assert "have no problem in common; compare runs of the same data, under the same names ('q1', … and " in error
    empty = write("empty.csv", "item,score\nq1,\nq2,nan\n")
    assert "expected items with outcomes in both" in refused(a, empty)
    assert "neither side is one" in refused(a, write("c.csv", A), options=["--grader", "math-verify"])


def test_parquet_of_too_many_columns_is_refused_before_a_row_is_read(write, tmp_path, monkeypatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"item": ["p"], "s0": [1], "s1": [0]}), tmp_path / "a.parquet")
    monkeypatch.setattr("stapo_bench.runs.importing.opening.MOST_COLUMNS", 2)
    assert "expected at most 2 columns, got 3" in refused(tmp_path / "a.parquet", write("b.csv", B))


def test_a_spreadsheet_is_called_one(write, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    assert "a.xlsx: a spreadsheet; save it as CSV" in refused(tmp_path / "a.xlsx", write("b.csv", B))


def test_a_wide_table_of_very_many_columns_is_read(write):
    names = ",".join(f"sample_{i}" for i in range(20_000))
    assert np.sum(scores(write("wide.csv", f"item,{names}\np,{','.join('1' * 20_000)}\n"))["p"]) == 20_000


def test_a_log_with_verdicts_is_read_and_one_by_two_metrics_is_a_question(write):
    def log(*metrics):
        line = {"doc": {"question": "1 + 1?"}, "target": "2", "arguments": [], "filtered_resps": ["2"]}
        rows = [{**line, "doc_id": i, "resps": [["2"]], **dict.fromkeys(metrics, float(i))} for i in range(2)]
        return "".join(json.dumps(row) + "\n" for row in rows)

    one, two = write("one.jsonl", log("exact_match")), write("two.jsonl", log("exact_match", "math"))
    assert scores(one) == scores(two, score="math") == {"0": [0.0], "1": [1.0]}
    assert "has verdicts by 'exact_match' and 'math'; say which: --map score=METRIC" in refused(two, one)
    assert "expected verdicts in the log, got none" in refused(write("none.jsonl", log()), one)


def test_python_takes_matrices_maps_rows_paths_and_runs(make_run, write):
    # Problems 1 and 3 of three gain all: (2 + 0 + 2) / 6 = 2/3, both ways of writing it.
    a, b = np.array([[0, 0], [0, 1], [0, 0]]), np.array([[1, 1], [0, 1], [1, 1]])
    found = sb.compare(a, b)
    assert (found.average.value_a, found.average.value_b) == (pytest.approx(1 / 6), pytest.approx(5 / 6))
    maps = [{f"q{i}": row for i, row in enumerate(rows.tolist())} for rows in (a, b)]
    rows = [
        [{"item": item, "sample": j, "correct": x} for item, row in m.items() for j, x in enumerate(row)] for m in maps
    ]
    run = make_run("run", {"x": a.astype(float).tolist()})
    of_run = {f"x-{i}": row for i, row in enumerate(b.tolist())}
    for other in (sb.compare(*maps), sb.compare(*rows), sb.compare(maps[0], rows[1]), sb.compare(run, of_run)):
        difference, same = other.average.effects[1].difference, found.average.effects[1].difference
        assert (difference.value, difference.standard_error) == (same.value, same.standard_error)
    with pytest.raises(StapoError, match=r"B: row 0, column 1: expected a score from 0 to 1 \(or nothing\), got 1.5"):
        sb.compare(a, [[0, 1.5], [0, 0], [0, 0]])
    with pytest.raises(StapoError, match="A has 3 rows, B has 2"):
        sb.compare(a, b[:2])
    with pytest.raises(StapoError, match="no problem in common"):
        sb.compare(a, maps[1])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([[0, NAN], [1, 1]], [[1, 1], [1, 0]]),
        ([[0, NAN], [1, 1]], [[1, NAN], [1, 1]]),  # as many in both, which may still hide opposite outcomes
        ([[NAN, NAN], [1, 0], [0, 0]], [[1, 1], [1, 0], [1, 1]]),
        ([[NAN], [1], [0]], [[1], [1], [1]]),
    ],
)
def test_a_gap_is_undecided_and_says_and_decides_the_same_in_a_matrix_a_file_and_a_map(write, a, b):
    def file(name, matrix):
        lines = [["item", *(f"sample_{i}" for i in range(len(matrix[0])))]]
        lines += [[f"row {i}", *("" if math.isnan(x) else str(x) for x in row)] for i, row in enumerate(matrix)]
        return write(name, "".join(",".join(line) + "\n" for line in lines))

    def as_map(matrix):
        return {f"row {i}": [None if math.isnan(x) else x for x in row] for i, row in enumerate(matrix)}

    of_matrices, *others = (
        sb.compare(a, b),
        sb.compare(file("A.csv", a), file("B.csv", b)),
        sb.compare(as_map(a), as_map(b)),
    )
    num, size = sum(math.isnan(x) for row in a for x in row), sum(map(len, a))
    assert f"{num} of {size} outcomes without a score: undecided" in of_matrices.notes[0]
    for found in others:
        assert f"{size} outcomes, {num} of them without a score: undecided" in found.notes[0]
        assert numbers(found) == numbers(of_matrices) and found.sentence() == of_matrices.sentence()
        for name in ("unfinished", "num_left_out"):
            assert getattr(found, name) == getattr(of_matrices, name)
        for requirement in (not_worse(0.3), better_by(0.0)):
            assert judge(found, requirement) == judge(of_matrices, requirement)


def test_what_an_undecided_sample_may_have_been_bounds_the_difference():
    # A: 0 and perhaps 1 of 2 on the first, 2 of 2 on the second; B: 1.5 of 2. From B - A = 0.75 - 0.5 to 0.75 - 0.75.
    (risk,) = sb.compare([[0, NAN], [1, 1]], [[1, 1], [1, 0]]).average.warnings
    assert (risk.what, risk.share_a, risk.lowest, risk.highest) == ("ungraded", 0.25, 0.0, 0.25)


def test_no_manifest_task_or_grader_is_touched_and_no_folder_made(write, tmp_path):
    a, b = write("a.csv", A), write("b.csv", B)
    code = f"""
import sys
from stapo_bench.cli import cli
again = ["compare", {str(a)!r}, {str(b)!r}]
cli(again, standalone_mode=False)  # once, so that all is loaded: definitions are no calls
touched = []
def watch(frame, event, arg):
    where = frame.f_globals.get("__name__", "")
    if event == "call" and frame.f_code.co_name != "<module>":
        touched.append(where)
sys.setprofile(watch)
cli(again, standalone_mode=False)
sys.setprofile(None)
rooms = ("stapo_bench.tasks", "stapo_bench.grading", "stapo_bench.runs.manifest", "stapo_bench.runs.store")
heavy = {{"torch", "sympy", "math_verify", "latex2sympy2_extended", "pyarrow", "datasets", "matplotlib", "jinja2"}}
print(sorted({{m for m in touched if m.startswith(rooms)}}), sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] []"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv"]
    assert math.isclose(sb.compare(str(a), str(b)).average.value_b, 0.75)
