"""Other tools' files as outcomes, of any task, scorer and metric; data frames; counts alone."""

import json
import math
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from compare_setup import refused
from import_setup import lines

import stapo_bench as sb
from stapo_bench.analysis import compare_outcomes, compare_runs, compare_several
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import render_comparison
from stapo_bench.records import Outcome
from stapo_bench.runs import export_runs
from stapo_bench.runs.importing.answers import Answer
from stapo_bench.runs.outcomes import parse_outcome_map, read_outcomes
from stapo_bench.runs.outcomes.reading import _from_log

NAN = float("nan")


def write(path: Path, content) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def scores(path, metric=None, declared=None):
    """The one model in a file: item to scores."""
    (table,) = read_outcomes(path, {"score": metric} if metric else {}, declared)
    (task,) = table.tasks.values()
    return dict(zip(task.outcomes.problem_ids, task.outcomes.scores.tolist(), strict=True))


def of_lm_eval(doc_id, *, filter_="none", resps=(["no"],), **metrics):
    plain = {"doc_id": doc_id, "doc": {"query": "?"}, "target": 1, "arguments": [], "filtered_resps": []}
    return {**plain, "resps": list(resps), "filter": filter_, "metrics": list(metrics), **metrics}


def test_lm_eval_of_choices_without_texts_and_of_scores_between_0_and_1(tmp_path):
    choices = [["-1.5", "False"]], [["-0.2", "True"]]
    rows = [of_lm_eval(i, resps=choices, acc=float(i), acc_norm=1.0 - i, bleu=i / 4) for i in range(2)]
    path = lines(tmp_path / "samples_arc.jsonl", rows)
    assert scores(path, "acc") == {"0": [0.0], "1": [1.0]}
    assert scores(path, "acc_norm") == {"0": [1.0], "1": [0.0]}
    assert scores(path, "bleu") == {"0": [0.0], "1": [0.25]}
    with pytest.raises(StapoError, match="has verdicts by 'acc', 'acc_norm', 'bleu'; say which: --map score=METRIC"):
        scores(path)
    other = lines(tmp_path / "other.jsonl", rows)
    error = refused(path, other, "--map", "score=f1")
    assert "expected verdicts by f1 in the log, got none; it has 'acc', 'acc_norm', 'bleu'" in error


def test_lm_eval_s_filters_have_metrics_of_their_own_and_a_document_stands_once(tmp_path):
    rows = [
        of_lm_eval(doc, filter_=name, exact_match=right)
        for name, rights in (("strict-match", (0, 1)), ("flexible-extract", (1, 1)))
        for doc, right in enumerate(rights)
    ]
    path = lines(tmp_path / "samples_gsm8k.jsonl", rows)
    assert scores(path, "exact_match-strict-match") == {"0": [0.0], "1": [1.0]}
    assert scores(path, "exact_match-flexible-extract") == {"0": [1.0], "1": [1.0]}
    twice = lines(tmp_path / "twice.jsonl", [*rows, rows[0]])
    with pytest.raises(StapoError, match="document 0 stands twice"):
        scores(twice, "exact_match-strict-match")
    beyond = lines(tmp_path / "beyond.jsonl", [of_lm_eval(0, perplexity=12.5)])
    with pytest.raises(StapoError, match=r"'0', perplexity: expected a score from 0 to 1 .* got 12.5; .*--range LO:HI"):
        scores(beyond)


def of_inspect(samples):
    return {"version": 2, "eval": {"task": "arena", "model": "m"}, "plan": {}, "samples": samples}


def test_inspect_of_any_scorer_by_letters_numbers_and_several_values(tmp_path):
    samples = [
        {"id": "p", "epoch": 1, "scores": {"match": {"value": "C"}, "rubric": {"value": {"style": 0.25, "facts": 1}}}},
        {"id": "p", "epoch": 2, "scores": {"match": {"value": "P"}, "rubric": {"value": {"style": 0.5, "facts": 0}}}},
        {"id": "q", "epoch": 1, "scores": {"match": {"value": "N"}, "rubric": {"value": {"style": 1, "facts": 0}}}},
        {"id": "q", "epoch": 2, "error": "crashed"},
    ]
    path = write(tmp_path / "log.json", of_inspect(samples))
    np.testing.assert_equal(scores(path, "match"), {"p": [1.0, 0.5], "q": [0.0, NAN]})
    np.testing.assert_equal(scores(path, "rubric.style"), {"p": [0.25, 0.5], "q": [1.0, NAN]})
    with pytest.raises(StapoError, match=r"has verdicts by 'match', 'rubric.style', 'rubric.facts'; say which"):
        scores(path)
    archive = tmp_path / "log.eval"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("header.json", json.dumps({"eval": {"task": "arena", "model": "m"}}))
        for i, sample in enumerate(samples):
            file.writestr(f"samples/{i}.json", json.dumps(sample))
    np.testing.assert_equal(scores(archive, "match"), scores(path, "match"))
    (table,) = read_outcomes(path, {"score": "match"})
    assert (table.name, list(table.tasks)) == ("m", ["arena"])


def test_evalplus_counts_plus_only_where_the_base_tests_pass(tmp_path):
    status = [("pass", "pass"), ("pass", "fail"), ("fail", "pass"), ("timeout", "fail")]
    solutions = [{"task_id": "HumanEval/0", "base_status": base, "plus_status": plus} for base, plus in status]
    path = write(tmp_path / "eval_results.json", {"date": "x", "hash": "y", "eval": {"HumanEval/0": solutions}})
    assert scores(path, "base") == {"HumanEval/0": [1.0, 1.0, 0.0, 0.0]}
    assert scores(path, "plus") == {"HumanEval/0": [1.0, 0.0, 0.0, 0.0]}


def test_swe_bench_resolved_or_not_and_what_ended_in_an_error_is_unknown(tmp_path):
    ids = {"resolved_ids": ["a"], "unresolved_ids": ["b"], "empty_patch_ids": ["c"], "error_ids": ["d"]}
    path = write(tmp_path / "report.json", {"total_instances": 9, "schema_version": 2, "incomplete_ids": ["e"], **ids})
    np.testing.assert_equal(scores(path), {"a": [1.0], "b": [0.0], "c": [0.0], "d": [NAN]})
    single = write(tmp_path / "single.json", {"a": {"resolved": True, "tests": {}}, "b": {"resolved": False}})
    assert scores(single) == {"a": [1.0], "b": [0.0]}
    twice = write(tmp_path / "twice.json", {"resolved_ids": ["a"], "unresolved_ids": ["a"]})
    assert "item 'a', sample 0 stands in rows 1 and 2" in refused(path, twice)


def test_counts_alone_say_what_does_not_hang_on_the_order(tmp_path):
    a = write(tmp_path / "a.csv", "item,successes,trials\np,1,3\nq,3,3\n")
    assert scores(a) == {"p": [1.0, 0.0, 0.0], "q": [1.0, 1.0, 1.0]}
    by_task = write(tmp_path / "b.csv", "task,num_correct,n\np,2,2\nq,0,2\n")  # a task is an item then
    assert scores(by_task) == {"p": [1.0, 1.0], "q": [0.0, 0.0]}
    found = compare_outcomes(a, by_task)
    assert (found.average.value_a, found.average.value_b) == (2 / 3, 0.5)
    assert any("counts alone: the samples have no order" in note for note in found.notes)
    (table,) = read_outcomes(write(tmp_path / "c.csv", "name,right,of\np,1,4\n"), parse_outcome_map(
        "item=name,successes=right,trials=of"
    ))  # fmt: skip
    assert table.tasks["all items"].outcomes.scores.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    for row, error in (
        ("p,4,3", "expected 0 <= successes <= trials <= 100000, got 4 of 3"),
        ("p,0.5,3", "row 1, 'successes': expected a whole number, got '0.5'"),
        ("p,1,", "row 1, 'trials': expected a whole number, got None"),
        ("p,1,1000000000", "got 1 of 1000000000"),
    ):
        assert error in refused(write(tmp_path / "d.csv", f"item,successes,trials\n{row}\n"), a)


def test_tasks_with_unequal_trials_lack_nothing_where_all_sides_have_as_many(tmp_path):
    sides = [
        write(tmp_path / f"{name}.csv", f"task,successes,trials\naime,{aime},30\nmath,{math_},{trials}\n")
        for name, aime, math_, trials in (("a", 12, 380, 500), ("b", 15, 400, 500), ("c", 15, 320, 400))
    ]
    several = compare_several([table for side in sides[:2] for table in read_outcomes(side)])
    for found in (compare_outcomes(*sides[:2]), several):
        assert found.unfinished == () and not any("the rest is not there" in note for note in found.notes)
    fewer = compare_outcomes(sides[0], sides[2])
    assert "all items: c has 430 of 800 outcomes; the rest is not there" in fewer.notes and "c" in fewer.unfinished


def verdict(comparison) -> bytes:
    """All that was computed, the task's name aside."""
    found = json.loads(render_comparison(comparison, "json"))
    tasks = [{**task, "task": ""} for task in (*found["tasks"], found["average"])]
    return json.dumps([found["margin"], found["same_seeds"], tasks]).encode()


@pytest.mark.parametrize("k", [1, 8])
def test_folders_tables_logs_and_data_frames_give_byte_equal_verdicts(make_run, tmp_path, k):
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    rng = np.random.default_rng(5)
    rates = rng.beta(0.5, 0.5, size=(12, 1))
    runs = [
        make_run(name, {"x": (rng.random((12, k)) < rates).astype(float).tolist()}, identity={"seed": seed})
        for seed, name in enumerate(("a", "b"))
    ]
    expected = verdict(compare_runs(*runs))
    tables = []
    for run in runs:
        export_runs([run], tmp_path / f"{run.name}.csv")
        tables.append(pd.read_csv(tmp_path / f"{run.name}.csv", float_precision="round_trip"))
    columns = {"item": "problem_id", "score": "correct", "sample": "sample_index"}
    frames = [table[["problem_id", "sample_index", "correct"]] for table in tables]
    counts = [table.groupby("problem_id", sort=False)["correct"].agg(["sum", "count"]) for table in frames]
    counts = [table.rename(columns={"sum": "successes", "count": "trials"}) for table in counts]
    logs = [
        lines(
            tmp_path / f"{run.name}.jsonl",
            (
                of_lm_eval(item, resps=[["?"] * k], avg_at_k=float(rows.mean()), no_answer=0.0, grader_errors=0.0)
                for item, rows in table.groupby("problem_id", sort=False)["correct"]
            ),
        )
        for run, table in zip(runs, frames, strict=True)
    ]
    assert verdict(compare_outcomes(tmp_path / "a.csv", tmp_path / "b.csv")) == expected
    assert verdict(compare_outcomes(*logs)) == expected
    assert verdict(sb.compare(*frames, columns=columns)) == expected
    assert verdict(sb.compare(*(pa.Table.from_pandas(frame) for frame in frames), columns=columns)) == expected
    assert verdict(sb.compare(*counts)) == expected  # problems are the index, which has a name
    records = frames[0].rename(columns={"problem_id": "item", "correct": "score"}).to_dict("records")
    assert verdict(sb.compare(records, logs[1])) == expected


def test_data_frames_of_every_kind(tmp_path):
    pd = pytest.importorskip("pandas")
    long = pd.DataFrame({"item": ["p", "q"], "score": [0, 1]})
    better = long.assign(score=1)
    assert sb.compare(long, better).average.value_a == 0.5
    assert sb.compare(long, better.set_index("item")).average.value_b == 1.0
    wide = pd.DataFrame({"item": ["p", "q"], 0: [0, 1], 1: [1, None]})
    assert sb.compare(long, wide).average.value_b == pytest.approx(0.75)
    with pytest.raises(StapoError, match="expected a column that names the items"):
        sb.compare(long, pd.DataFrame(np.eye(2)))
    with pytest.raises(StapoError, match="two columns have the name 'score'"):
        sb.compare(long, pd.DataFrame([["p", 1, 1]], columns=["item", "score", "score"]))


class AnyFrame:
    """A data frame of a library that nobody here has heard of: columns with names, and arrow's stream."""

    def __init__(self, table):
        self.table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.slow(reason="imports three libraries of tables")
def test_frames_of_polars_and_of_arrow_s_protocol_are_those_of_pandas():
    pl, pa, pd = (pytest.importorskip(name) for name in ("polars", "pyarrow", "pandas"))
    rng = np.random.default_rng(3)
    columns = {
        name: {
            "item": [f"q{i}" for i in range(9) for _ in range(4)],
            "sample": [*range(4)] * 9,
            "score": [None, *(rng.random(35) < rate).tolist()],
            "cluster": [f"c{i // 3}" for i in range(9) for _ in range(4)],
        }
        for name, rate in (("a", 0.4), ("b", 0.7))
    }
    expected = verdict(sb.compare(*map(pd.DataFrame, columns.values())))
    kinds = {
        "polars": pl.DataFrame,
        "categories": lambda of: pl.DataFrame(of).with_columns(pl.col("item").cast(pl.Categorical)),
        "arrow": pa.table,
        "batch": pa.record_batch,
        "reader": lambda of: pa.table(of).to_reader(),
        "protocol": lambda of: AnyFrame(pa.table(of)),
        "lists": lambda of: pl.DataFrame(of).group_by("item", "cluster", maintain_order=True).agg("score"),
    }
    assert {name: verdict(sb.compare(*map(kind, columns.values()))) for name, kind in kinds.items()} == dict.fromkeys(
        kinds, expected
    )
    series = ({"p": pl.Series(rows), "q": pd.Series(rows)} for rows in ([0, 1], [1, 1]))
    assert sb.compare(*series).average.value_a == 0.5


def test_what_pandas_and_polars_hold_in_cells_is_the_same_number_list_or_nothing():
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    scores = {"a": [1, 0, 0, 1, None, 0], "b": [1, 1, 1, 1, 0, 0]}

    def change(frame_of):
        found = sb.compare(*map(frame_of, scores.values()))
        return verdict(found), found.average.effects[0].difference.value

    def pandas(of, **kind):
        return pd.DataFrame({"item": [f"q{i}" for i in range(6)], "score": pd.Series(of, **kind)})

    def polars(of):
        return pl.DataFrame({"item": [f"q{i}" for i in range(6)], "score": of})

    expected = change(polars)
    assert expected[1] == pytest.approx(0.4)  # two of five that both decided
    cells = {
        "Int64": lambda of: pandas(of, dtype="Int64"),
        "boolean": lambda of: pandas(of, dtype="boolean"),
        "arrow": lambda of: pandas(of).convert_dtypes(dtype_backend="pyarrow"),
        "rows": lambda of: pandas(of, dtype="Int64").to_dict("records"),
        "decimals": lambda of: pandas([None if score is None else Decimal(score) for score in of]),
        "decimals of polars": lambda of: polars([None if score is None else Decimal(score) for score in of]),
    }
    assert {name: change(kind) for name, kind in cells.items()} == dict.fromkeys(cells, expected)

    expected = change(lambda of: polars([[score, score] for score in of]))
    lists = {
        "arrays": lambda pair: np.array(pair, dtype=float),
        "objects": np.array,
        "nullable": lambda pair: pd.array(pair, dtype="Int64"),
        "tuples": tuple,
        "series": pd.Series,
    }
    assert {
        name: change(lambda of, kind=kind: pandas([kind([score, score]) for score in of]))
        for name, kind in lists.items()
    } == dict.fromkeys(lists, expected)


def test_a_name_that_is_not_there_is_none_whichever_library_says_so():
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    names = {"item": ["p", None, "q"], "score": [1, 0, 1]}
    for frame in (pl.DataFrame(names), pd.DataFrame(names).convert_dtypes()):
        with pytest.raises(StapoError, match="row 2: expected the name of an item in 'item', got none"):
            sb.compare(frame, frame)
    large = [Decimal(2**60), Decimal(2**60 + 1)]  # one number as floats
    found = sb.compare(*(pd.DataFrame({"item": large, "score": score}) for score in ([0, 1], [1, 1])))
    assert found.average.value_a == 0.5
    assert sb.compare({2**60: 0, 2**60 + 1: 0}, pd.DataFrame({"item": large, "score": 1})).average.value_b == 1.0


def test_without_pyarrow_only_frames_of_other_libraries_need_it(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"item": ["p", "q"], "score": [0, 1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for own in (table, table.to_batches()[0]):
        assert sb.compare(own, own).average.value_a == 0.5
    with pytest.raises(StapoError) as refusal:
        sb.compare(table, AnyFrame(table))
    assert str(refusal.value) == "pyarrow is not installed: pip install 'stapo-bench[parquet]'"


def test_what_is_no_data_frame_is_refused_in_one_line():
    pl, pa, pd = (pytest.importorskip(name) for name in ("polars", "pyarrow", "pandas"))
    good = pl.DataFrame({"item": ["p", "q"], "score": [0, 1]})
    twice = pd.DataFrame({"item": ["p"], "score": [1]}, index=pd.Index(["x"], name="item"))
    for frame, error in (
        (good.lazy(), "B: expected a path, a run, a matrix, a map .* or rows of named columns, got LazyFrame"),
        (None, "got NoneType"),
        ([{"item": "p", "score": 1}, 3], "got list"),
        ([], "B: expected a matrix"),
        (pl.DataFrame(), "B: expected rows with outcomes, got none"),
        (pa.table([["p"], [1], [0]], names=["item", "score", "score"]), "B: two columns have the name 'score'"),
        (twice, "B: two columns have the name 'item'"),
        (good.with_columns(score=2), "B: row 1, 'score': expected a score from 0 to 1 .* got 2; .*score_range="),
        ({"p": [np.eye(2)], "q": [1]}, "B: item 'p': expected a score .* got array.*1., 0.*0., 1."),
    ):
        with pytest.raises(StapoError, match=error) as refusal:
            sb.compare(good, frame)
        assert "\n" not in str(refusal.value)


def cells(*answers: Answer, metric: str | None = None):
    """What a log of these answers says by a metric: item, label and score of each."""
    source = SimpleNamespace(opened=SimpleNamespace(name="log"), answers=lambda: iter(answers))
    return [(cell.item, cell.label, cell.score, cell.row) for cell in _from_log(source, metric)]


def test_the_verdicts_of_any_log_by_hand():
    right, wrong, open_one = ({"": verdict} for verdict in (Outcome.CORRECT, Outcome.INCORRECT, None))
    assert cells(
        Answer(completion="a", question="p", verdicts=right),
        Answer(completion="b", question="p", verdicts=wrong),
        Answer(completion="c", question="q", item="7", sample=4, verdicts=right),
        Answer(completion="d", question="p", verdicts=right),
        Answer(completion="e", item="8", verdicts={"": Outcome.NO_ANSWER}),
    ) == [("p", 0, 1.0, 1), ("p", 1, 0.0, 2), ("7", 4, 1.0, 3), ("p", 2, 1.0, 4), ("8", 0, 0.0, 5)]
    ((_, _, score, _),) = cells(Answer(completion="a", question="p", verdicts=open_one))
    assert math.isnan(score)


def test_of_verdicts_by_two_metrics_one_is_asked_for():
    both = (
        Answer(completion="a", item="1", verdicts={"strict": Outcome.INCORRECT}),
        Answer(completion="b", item="1", verdicts={"strict": Outcome.CORRECT, "flexible": Outcome.CORRECT}),
    )
    assert cells(*both, metric="strict") == [("1", 0, 0.0, 1), ("1", 1, 1.0, 2)]
    with pytest.raises(UsageError, match="log: has verdicts by 'flexible' and 'strict'; say which: --map score=METRIC"):
        cells(*both)


@pytest.mark.parametrize(
    ("answers", "metric", "message"),
    [
        ([Answer(completion="a")], None, "log: sample 1: expected a problem's name or text, got neither"),
        (
            [Answer(completion="a", item="1")],
            None,
            "expected verdicts in the log, got none; 'stapo-bench import' grades",
        ),
        (
            [Answer(completion="a", item="1", verdicts={"acc": Outcome.CORRECT})],
            "f1",
            "expected verdicts by f1 in the log, got none; it has acc",
        ),
    ],
)
def test_a_log_without_what_is_asked_for_is_refused(answers, metric, message):
    with pytest.raises(StapoError, match=message):
        cells(*answers, metric=metric)
