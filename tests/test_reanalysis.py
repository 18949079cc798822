"""The published record, judged again: facts of invented files worked out by hand, and pages as the summary has them."""

import json
import os
import re
from pathlib import Path

import pytest

from bench.reanalysis import claims
from bench.reanalysis.__main__ import DATA_SETS, RESULTS, measure, texts_of, write
from bench.reanalysis.files import Record
from bench.reanalysis.judge import judge
from bench.reanalysis.kinds import kind_of_gold
from bench.reanalysis.means import trainings
from bench.reanalysis.pages import verdict
from bench.reanalysis.record import DataSet, Run, Table
from bench.reanalysis.series import CHECKPOINTS
from stapo_bench.errors import StapoError

MARK = "zebra"  # in every problem and completion, and on no page


def qwen_line(i: int, answer: str, gold: str, accepted: bool) -> str:
    """A line as the script of Qwen2.5-Math leaves it."""
    row = {
        "idx": i,
        "question": f"How many stripes has {MARK} number {i} of the herd that stands at the river?",
        "gt": gold,
        "code": [f"It is a {MARK}. The answer is \\boxed{{{answer}}}."],
        "pred": [answer],
        "score": [accepted],
    }
    return json.dumps(row) + "\n"


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    """Twelve problems, two models: A is right on four of them, B on ten, and the script misses a power of ten."""
    data = tmp_path_factory.mktemp("data")
    runs = data / "runs" / "owner+name"
    runs.mkdir(parents=True)
    golds = [str(7 * i) for i in range(11)] + ["4.5e33"]
    rights = {"a": {0, 1, 2, 11}, "b": {0, 1, 2, 3, 4, 5, 6, 7, 8, 11}}
    for name, right in rights.items():
        lines = [
            qwen_line(
                i, ("4.5 \\times 10^{33}" if i == 11 else gold) if i in right else "1000", gold, i in right - {11}
            )
            for i, gold in enumerate(golds)
        ]
        (runs / f"{name}.jsonl").write_text("".join(lines))
    (runs / "again.jsonl").write_bytes((runs / "a.jsonl").read_bytes())
    (runs / "settings.yaml").write_text("temperature: 0\n")
    rows = ["id,x,y"] + [f"{i},{'C' if i < 9 else 'I'},{'C' if i < 3 else 'I'}" for i in range(12)]
    (runs / "verdicts.csv").write_text("\n".join(rows) + "\n")
    return measure(data, (HERD,))


HERD = DataSet(
    name="herd",
    title="A herd",
    about="Invented.",
    repositories=("owner/name",),
    runs=(
        Run(name="A", files=("owner+name/a.jsonl",), step=1),
        Run(name="B", files=("owner+name/b.jsonl",), remark="drawn by nobody"),
        Run(name="lost", files=("owner+name/lost*",)),
    ),
    comparisons=(("A", "B"), ("A", "lost")),
    tables=(Table(title="first → second", file="owner+name/verdicts.csv", item="id", score_a="y", score_b="x"),),
)


def test_facts_of_invented_files(summary):
    (facts,) = summary["data_sets"]
    a, b = facts["runs"]  # the third is not in this copy
    assert [(run["name"], run["samples"], run["tasks"][0]["problems"]) for run in (a, b)] == [
        ("A", 12, 12),
        ("B", 12, 12),
    ]
    of_b = b["tasks"][0]
    assert (of_b["script"], of_b["value"], of_b["k"], of_b["between"]) == (
        0.75,
        pytest.approx(10 / 12, abs=1e-6),
        1,
        None,
    )
    assert of_b["disputes"] == {"ours: number with a power of ten": 1}
    row, table = facts["comparisons"]
    assert (row["a"], row["b"], row["won"], row["lost"], row["gain"]) == ("A", "B", 6, 0, 0.5)
    assert row["p"] == pytest.approx(0.5**6)  # McNemar, mid-p: 2 * (1/2)^6 / 2
    assert (row["verdict"], row["script"]) == ("better", {"gain": 0.5, "verdict": "better"})
    assert (table["a"], table["won"], table["lost"], table["gain"]) == ("first", 6, 0, 0.5)
    assert summary["duplicates"] == [["owner+name/a.jsonl", "owner+name/again.jsonl"]]
    assert summary["files"] == {
        "all": 5,
        "used": 3,
        "unused": {
            "neither JSON, nor a table, nor Parquet": 1,
            "samples of other questions than mathematics, or of the same problems in another version of the format": 1,
        },
    }


@pytest.mark.slow(reason="pages and figures of a whole record")
def test_a_measured_record_makes_pages_without_a_text_of_it(summary, tmp_path):
    write(summary, tmp_path / "pages", (HERD,))
    written = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert set(written) == {"README.md", "claims.md", "herd.md", "paper.md", "paper.svg", "summary.json"}
    assert not any(MARK in text for text in written.values())
    assert written["herd.md"].startswith(  # no word of scores: twelve problems are too few
        "# A herd\n\n**2 of 2 comparisons show a difference for problems like these; runs of "
        "different names that are equal word by word: A and B, 6 of 12 completions.**\n\nInvented.\n"
    )
    assert "| A | a | 12 × 1 | 25.0 | 33.3 |" in written["herd.md"]
    assert "| A → B | a | 12 | 33.3 | 83.3 | +50.0 |" in written["herd.md"]
    assert "* B: drawn by nobody." in written["herd.md"]
    assert "`owner+name/a.jsonl` = `owner+name/again.jsonl`" in written["README.md"]
    assert "on 2 of 24 samples" in written["README.md"]


def test_claims_are_told_in_the_words_of_the_experiments_that_stand(tmp_path):
    told = {
        "main": ["T=1.0, top-p 1.0: STAPO and JustRL a", "T=0.7, top-p 0.9: STAPO and JustRL b"],
        "stability": ["Entropy collapses c", "It explodes d"],
        "controls": ["T=1.0, top-p 1.0: Random mask e", "Random mask's entropy stability f"],
        "sensitivity": ["T=1.0, top-p 1.0: tau_p 0.2 g", "T=0.7, top-p 0.9: tau_p 0.2 n"],
        "regime": ["JustRL's entropy o"],
        "spurious": ["STAPO silences h", "STAPO on STAPO's rollouts i", "On j"],
        "knights": [f"T=1.0, top-p 1.0: {name} and GRPO k" for name in ("AR", "Lopti", "AR + Lopti")],
        "low-probability": [
            f"T={decoding}: on the AIME-like tasks {name} l"
            for decoding in ("1.0, top-p 1.0", "0.7, top-p 0.9")
            for name in ("STARE", "Lp-Reg")
        ]
        + ["STARE's gate opens m", "Lp-Reg's entropy stability n"],
        "mechanism": [f"{code} of it" for code in ("T1", "S1", "S3", "N1", "N2", "U2", "U3", "H2")],
    }
    for name, answers in told.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps({"answers": answers}))
    text = claims.page(tmp_path)
    assert (
        "Entropy collapses c It explodes d ([stability](../experiments/stability/page.md)) JustRL's entropy o" in text
    )
    assert all(answer in text for answers in told.values() for answer in answers)
    # By hand: 57 - 39 points of 500 answers each at 3B, 90.8 - 77 at 7B; sampling error is at most 6 points.
    assert "mean of the tasks of known size: +13.8 to +18.0 points (these problems: shown 2;" in text
    assert "earlier day" not in text
    about = {"graders": ["math-3"], "cpu_s": {"train": 3600.0}}
    (tmp_path / "sensitivity" / "manifest.json").write_text(json.dumps(about))
    assert claims.page(tmp_path).count("sensitivity/page.md); verdicts and intervals of an earlier day)") == 1
    (tmp_path / "stability" / "summary.json").write_text(json.dumps({"answers": ["Entropy collapses c"]}))
    with pytest.raises(StapoError, match="expected an answer that begins 'It explodes', got none"):
        claims.page(tmp_path)


def test_several_models_in_a_row_become_runs(tmp_path):
    folder = tmp_path / "runs" / "o+n"
    folder.mkdir(parents=True)
    row = {"question": f"{MARK}?", "ground_truth": "1+1=2\nA: 2", "m": {"is_correct": True, "solution": "It is\nA: 2"}}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    record = Record(tmp_path / "runs", tmp_path / "scratch")
    (path,) = record.files_of(Run(name="m", files=("o+n/rows.jsonl",), system="m"))
    assert json.loads(path.read_text()) == {
        "problem": f"{MARK}?", "gold": "2", "completion": "It is\nA: 2", "score": True
    }  # fmt: skip
    assert record.used == {folder / "rows.jsonl"}


def test_printed_means_of_checkpoints(tmp_path):
    for step, value in ((100, 0.25), (20, 0.125)):
        folder = tmp_path / "training" / f"step_{step}" / "aime"
        folder.mkdir(parents=True)
        found = {
            "task_name": "aime",
            "num_instances": 30,
            "task_config": {"generation_kwargs": {"repeats": 32}},
            "metrics": {"primary_score": value, "pass_at_4": 4 / 7, "pass_at_16": 16 / 19},
        }
        (folder / "task-0-metrics.json").write_text(json.dumps(found))
    (training,) = trainings(tmp_path)
    (task,) = training["tasks"]
    first, last = task["points"]
    assert (first["step"], last["step"], last["k"], last["between"]) == (20, 100, 32, 0.2)  # Beta(1, 3)
    # 1.95996 * sqrt(241/962 * 721/962 / 960), and 2.04523 * sqrt(8.5/32 * 23.5/32 / 30)
    assert (last["these"], last["like"]) == (pytest.approx(0.02741, abs=1e-5), pytest.approx(0.16492, abs=1e-5))
    # Like these: half-widths up to 2.04523 * sqrt((0.80625 * 0.32150 - 1.12 * 0.15703) / 30) = 0.108, below 0.125
    assert task["changes"] == {"these problems": ["shown"], "problems like these": ["likely"]} == task["gains"]


def test_the_pages_are_what_their_summary_makes():
    summary = json.loads((RESULTS / "summary.json").read_text(encoding="utf-8"))
    for name, text in texts_of(summary).items():
        assert (RESULTS / name).read_text(encoding="utf-8") == text, f"{name}: python -m bench.reanalysis --pages"
        for figure in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
            assert (RESULTS / figure).is_file()
    assert [of["name"] for of in summary["data_sets"]] == [of.name for of in DATA_SETS]


def test_every_run_of_the_record_is_on_a_page():
    summary = json.loads((RESULTS / "summary.json").read_text(encoding="utf-8"))
    for data_set, facts in zip(DATA_SETS, summary["data_sets"], strict=True):
        assert [run["name"] for run in facts["runs"]] == [run.name for run in data_set.runs]
        names = {run.name for run in data_set.runs}
        assert all(set(pair) <= names for pair in data_set.comparisons)


@pytest.mark.slow(reason="a published data set of trainings measured again")
def test_the_record_gives_the_summary_again(tmp_path):
    """The data set that rests on no grader of ours, measured again."""
    data = Path(os.environ.get("STAPO_BENCH_DATA", "nowhere"))
    if not (data / "runs" / "INDEX.tsv").is_file():
        pytest.skip("needs real outputs of models: STAPO_BENCH_DATA names a folder with runs/INDEX.tsv")
    summary = json.loads((RESULTS / "summary.json").read_text(encoding="utf-8"))
    (known,) = (of for of in summary["data_sets"] if of["name"] == CHECKPOINTS.name)
    facts = judge(CHECKPOINTS, record := Record(data / "runs", tmp_path), tmp_path, data)
    facts["printed"] = trainings(record.folder_of(CHECKPOINTS.printed))
    assert json.loads(json.dumps(facts)) == known


def test_the_sentence_on_top_names_scores_of_enough_problems_and_runs_that_are_equal():
    task = {"task": "T", "problems": 30, "script": 0.25, "value": 0.5}
    equal = "20 of 40 samples are equal in A and B; one sample per problem does not tell what chance gives"
    facts = {
        "runs": [{"name": "A", "tasks": [task, {**task, "problems": 29, "script": 0.0}]}],
        "comparisons": [{"verdict": "better"}, {"verdict": "tied"}, {"verdict": "not enough data"}],
        "curves": [],
        "copies": [equal, equal.replace("20", "9")],
    }
    assert verdict(facts) == (
        "1 of 3 comparisons shows a difference for problems like these, 1 a tie, 1 cannot tell; runs of different "
        "names that are equal word by word: A and B, 20 of 40 completions; the script's score and ours are up to 25.0 "
        "points apart on the same samples (A on T: 25.0 and 50.0)."
    )


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", "several values"),
        ("11,\\! 111", "several values"),
        (r"10\%", "number with a unit or a sign"),
        (r"6.67 \times 10^{-11}", "number with a power of ten"),
        (r"\text{Evelyn}", "words"),
        (r"x^2 + 1", "expression"),
    ],
)
def test_kinds_of_golds(gold, kind):
    assert kind_of_gold(gold) == kind
