"""Scores between 0 and 1, and of other ranges: what is read, what is refused, and how wide the intervals are."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import stapo_bench as sb
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.statistics import ERROR_NAMES, paired_difference, t_quantile


def printed(arguments):
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(arguments):
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code in (1, 2), result.output
    return str(result.exception) if isinstance(result.exception, StapoError) else result.output


def write(folder, name, scores):
    rows = [f"q{i},{score}" for i, score in enumerate(scores)]
    (folder / name).write_text("\n".join(["item,score", *rows]) + "\n")
    return str(folder / name)


def test_a_range_maps_to_shares_of_it(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 6, 40), rng.integers(1, 6, 40)
    files = write(tmp_path, "a.csv", a), write(tmp_path, "b.csv", b)
    found = json.loads(printed(["compare", *files, "--range", "1:5", "--format", "json"]))
    assert found["tasks"][0]["a"] == pytest.approx((a.mean() - 1) / 4)
    assert found["tasks"][0]["effect"] == pytest.approx((b - a).mean() / 4)
    assert any("scores from 1 to 5, shown in percent of this range" in note for note in found["notes"])
    same = sb.compare(a.astype(float), b.astype(float), score_range=(1, 5)).average.effects[1].difference
    shares = sb.compare((a - 1) / 4, (b - 1) / 4).average.effects[1].difference
    assert same == shares and same.interval().low == found["tasks"][0]["errors"]["problems like these"]["interval"][0]


@pytest.mark.parametrize(
    ("scores", "options", "said"),
    [
        ((0, 3), (), "row 2, 'score': expected a score from 0 to 1 (or nothing), got '3'; scores of another range"),
        ((1, 6), ("--range", "1:5"), "row 2, 'score': expected a score from 1 to 5, the declared range, (or nothing)"),
        ((1, "yes"), ("--range", "1:5"), "got 'yes'"),
        ((1, 2), ("--range", "5:1"), "--range: expected a lower and a higher number, got 5 and 1"),
        ((1, 2), ("--range", "0:inf"), "--range: expected a lower and a higher number, got 0 and inf"),
        ((1, 2), ("--range", "five"), "--range: expected LO:HI, as in 1:5, got 'five'"),
    ],
)
def test_what_is_beyond_is_refused_by_its_value(tmp_path, scores, options, said):
    path = write(tmp_path, "a.csv", scores)
    err = refused(["compare", path, write(tmp_path, "b.csv", (0, 1)), *options])
    assert said in err and "\n" not in err.strip().split("Error: ")[-1]


def test_a_summary_is_not_taken_for_items(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"acc": 0.51, "acc_stderr": 0.02}, indent=1))
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    assert "it may be a summary: --range 0:1" in refused(["compare", *files])
    assert "2 items" in printed(["compare", *files, "--range", "0:1"])  # declared, it is a map of two items


def near_one(rng, num, k):
    base = rng.beta(20, 1, num)[:, None]
    return (np.clip(base + rng.normal(0, 0.03, (num, k)), 0, 1) for _ in "ab")


def uniform(rng, num, k):
    return (rng.random((num, k)) for _ in "ab")


def mostly_ends(rng, num, k):
    def one():
        ends = (rng.random((num, k)) < 0.6).astype(float)
        return np.where(rng.random((num, k)) < 0.2, rng.random((num, k)).round(1), ends)

    return one(), one()


@pytest.mark.parametrize("population", [near_one, uniform, mostly_ends])
@pytest.mark.parametrize("k", [1, 4])
def test_the_interval_covers_and_is_as_short_as_students(population, k):
    rng, held, width, students = np.random.default_rng(6), dict.fromkeys(ERROR_NAMES, 0), 0.0, 0.0
    for _ in range(200):
        a, b = population(rng, 30, k)
        for error in ERROR_NAMES:
            interval = paired_difference(a, b, error).interval()
            held[error] += interval.low <= 0.0 <= interval.high
        width += interval.width
        students += 2 * t_quantile(0.95, 29) * (b.mean(axis=1) - a.mean(axis=1)).std(ddof=1) / 30**0.5
    assert held["problems like these"] >= 181  # of 200 at 95 %, less 2.9 standard errors
    if population is not near_one or k > 1:  # else the problems drawn do not have the truth 0
        assert held["these problems"] >= 181
    assert width < 1.04 * students


def test_a_tie_allows_for_changes_that_were_not_seen():
    # Thirty items that hardly change: the interval is short, but a tenth of items like these may change in full.
    rng = np.random.default_rng(7)
    a, b = near_one(rng, 30, 4)
    found = paired_difference(a, b, "problems like these")
    assert found.interval().width < 0.03 and found.tied_within() > 0.06
    a, b = near_one(rng, 2000, 4)
    assert paired_difference(a, b, "problems like these").tied_within() < 0.01


def test_what_shows_no_noise_has_an_error_all_the_same():
    same = np.full((30, 4), 0.7)
    for error in ERROR_NAMES:
        found = paired_difference(same, same, error)
        assert found.p_value == 1.0 and found.interval().width > 0
    shifted = np.linspace(0.1, 0.8, 30)[:, None].repeat(4, axis=1)
    found = paired_difference(shifted, shifted + np.linspace(0.0, 0.1, 30)[:, None], "these problems")
    assert found.interval().low > 0.03
