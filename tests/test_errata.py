"""Errata: the list is sound, it agrees with the data, and it is applied only where it fits."""

import json
import os
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, Problem
from stapo_bench.tasks.errata import Errata, Erratum, apply_errata, load_errata, read_errata

ERRATA = Errata(
    version=1,
    items=(
        Erratum(id="p-1", task="t", kind="gold", published="1", corrected="2", reason="wrong"),
        Erratum(id="p-2", task="t", kind="debatable", published="5", reason="unclear"),
    ),
)
GOOD = "version: 1\nerrata:\n  - {id: a, task: t, kind: gold, published: '1', corrected: '2', reason: why}\n"


def problem(name: str, answer: str, task: str = "t") -> Problem:
    return Problem(task=task, problem_id=name, question="?", gold=Gold(answer=answer, answer_type="number", unit="m"))


def test_corrected_golds_replace_the_answer_alone():
    problems = [problem("p-1", "1"), problem("p-2", "5"), problem("p-3", "1"), problem("p-1", "1", task="other")]
    corrected = apply_errata(iter(problems), "corrected", ERRATA)
    assert corrected[0].gold == Gold(answer="2", answer_type="number", unit="m")
    assert corrected[1:] == problems[1:]
    assert apply_errata(iter(problems), "published", ERRATA) == problems


def test_an_erratum_that_does_not_fit_is_refused():
    with pytest.raises(StapoError, match=r"erratum of p-1: expected the published gold '1', got '1\.5'"):
        apply_errata([problem("p-1", "1.5")], "corrected", ERRATA)


def test_unknown_golds_are_bad_usage():
    with pytest.raises(UsageError, match="unknown golds 'right': expected published or corrected"):
        apply_errata([], "right", ERRATA)


def test_the_six_wrong_golds_of_minerva():
    fixed = {item.id: item.corrected for item in load_errata().items if item.kind == "gold"}
    assert fixed == {
        "minerva-126": r"(t - \frac{1}{2} \sin{2t}) u(t)",
        "minerva-155": "4.4677e14",
        "minerva-162": "1.22e-18",
        "minerva-165": "8.22e-19",
        "minerva-201": "3.53e2",
        "minerva-240": "6.43e16",
    }


def test_the_list_agrees_with_the_data():
    if "STAPO_BENCH_DATA" not in os.environ:
        pytest.skip("needs the benchmark data: set STAPO_BENCH_DATA to their folder")
    data = Path(os.environ["STAPO_BENCH_DATA"])
    found = {}
    for path in [*data.glob("*.jsonl"), data / "train" / "math_12k.jsonl"]:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "erratum" in row:
                kind = "gold" if "answer_fixed" in row else "text" if "problem_fixed" in row else "debatable"
                found[row["id"]] = (path.stem, kind, row["answer"], row.get("answer_fixed"))
    listed = {item.id: (item.task, item.kind, item.published, item.corrected) for item in load_errata().items}
    assert listed == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected the keys 'version' and 'errata'"),
        ("version: 1\nerrata: {}", "expected the keys 'version' and 'errata'"),
        (GOOD.replace("version: 1", "version: true"), "expected a whole number above 0 for version, got True"),
        (GOOD.replace("'1'", "1"), "expected text for 'published', got 1; put numbers in quotes"),
        (GOOD.replace("kind: gold", "kind: silver"), "expected the kind gold, debatable, text, got 'silver'"),
        (GOOD.replace("corrected: '2', ", ""), r"expected 'corrected' for the kind gold and for no other \(a\)"),
        (GOOD.replace("gold", "text"), r"expected 'corrected' for the kind gold and for no other \(a\)"),
        (GOOD.replace("reason: why", "because: why"), "entry 1: expected the keys id, kind, published, reason, task"),
        (GOOD + GOOD.splitlines()[-1], "expected every id once, got 'a' more than once"),
        ("version: [", "not a readable YAML file"),
    ],
)
def test_a_faulty_list_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "errata.yaml"
    path.write_text(text)
    with pytest.raises(StapoError, match=message) as error:
        read_errata(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_good_list_is_read(tmp_path):
    path = tmp_path / "errata.yaml"
    path.write_text(GOOD)
    erratum = Erratum(id="a", task="t", kind="gold", published="1", corrected="2", reason="why")
    assert read_errata(path) == Errata(version=1, items=(erratum,))
