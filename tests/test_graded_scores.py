"""Scores between 0 and 1, and of other ranges: what is read, what is refused, and how wide the intervals are."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import stapo_bench as sb
from bench.outcomes import of_scores
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


def one_moves(to, change, *, other=0.0):
    """Thirty items change by 0.01 up and down, but the first by ``change`` to this score, the second by ``other``."""
    noise = np.resize([0.01, -0.01], 30)
    a = np.full(30, 0.5)
    b = a + noise
    a[0], b[0], b[1] = to - change, to, a[1] + other
    return a[:, None], b[:, None]


@pytest.mark.parametrize(
    ("pair", "losses", "gains"),
    [
        (one_moves(1.0, 0.3), False, True),
        (one_moves(0.99, 0.3), False, False),  # not to the end
        (one_moves(0.0, -0.3), True, False),
        (one_moves(0.3, 0.3), False, True),  # from the other end
        (one_moves(0.7, -0.3), True, False),
        (one_moves(1.0, 0.14), False, False),  # a small step
        (one_moves(1.0, 0.3, other=-0.4), False, False),  # another goes farther the other way
        (one_moves(1.0, 0.3, other=-0.5), False, False),  # or to the other end
        (one_moves(1.0, 0.3, other=0.4), False, True),
    ],
)
def test_an_item_that_moves_to_an_end_of_the_range_may_have_moved_in_full(pair, losses, gains):
    """By its formula: gamma / n on each side, of the whole range or of what was seen."""
    d = (pair[1] - pair[0])[:, 0]
    c = d - d.mean()
    t = d.mean() / (d.std(ddof=1) / 30**0.5)
    changed = (d**2).sum() ** 2 / (d**4).sum()
    own = max(0.0, 1 - (c**6).sum() / (c**3).sum() ** 2)
    normal = max(0.0, 1 - 54 * (c**2).sum() ** 3 / 900 / (c**3).sum() ** 2)
    reach = min(1.0, (1 + normal / 2) * np.abs(c).max())
    expected = []
    for sign, far in ((-1, 1.0 if losses else reach), (1, 1.0 if gains else reach)):
        weight = np.exp(-(max(0.0, sign * t) ** 2)) / 4
        seen = max(0.0, sign * 5 / (changed + 5) * max(own, normal) * (c**3).sum())
        expected.append((seen + weight * far**3) / ((c**2).sum() + weight * far**2) / 30)
    found = paired_difference(*pair, "problems like these")
    assert found.unseen == pytest.approx(expected)


def test_what_was_not_drawn_of_gains_in_full_by_hand():
    # One of 30 gains 0.3, up to 1: mean 0.01, squares 0.09 - 30 / 100^2 = 0.087, t = 0.01 / sqrt(0.087 / 29 / 30) = 1.
    # Thirds 0.29^3 - 29 / 100^3 = 0.02436; one changed: 5 / 6 of 1 - 54 * 0.087^3 / 30^2 / 0.02436^2 = 0.9334.
    # Gains: w = e^-1 / 4 = 0.09197, (0.8333 * 0.9334 * 0.02436 + w) / (0.087 + w) = 0.6197; losses: w = 1 / 4 and
    # 0.29 * 1.4667 = 0.4253 the reach, w 0.07694 / (0.087 + w 0.1809) = 0.1455.
    a = np.full((30, 1), 0.5)
    b = a.copy()
    a[0], b[0] = 0.7, 1.0
    found = paired_difference(a, b, "problems like these")
    assert np.array(found.unseen) * 30 == pytest.approx([0.1455, 0.6197], abs=2e-4)
    # y^2 = l^2 + 30 (1 - 0.025^(1 / 30)) 0.6197 / 30 y beyond 0.01; l is Student's 2.0452 / 100: 0.0848, not 0.0205
    half = 0.1157 * 0.6197 / 2
    assert found.interval().high == pytest.approx(0.01 + half + (half**2 + 0.020452**2) ** 0.5, abs=2e-4)


@pytest.mark.slow(reason="coverage by simulation")
@pytest.mark.parametrize("k", [1, 4])
def test_gains_in_full_of_a_tenth_of_the_items_are_covered(k):
    """Student's interval holds in 87 to 89 of 100; standard error of a share of 94 %: 0.5 points."""
    found = of_scores("a tenth of items gains in full", (30, k), 2000)
    assert found["covered_like"] >= 0.93
    assert found["covered_t"] < 0.90


@pytest.mark.slow(reason="coverage by simulation")
@pytest.mark.parametrize("population", ["near 1", "near 1, mostly 1 itself", "near 0, skewed"])
def test_scores_near_an_end_keep_students_length(population):
    found = of_scores(population, (30, 4), 1000)
    assert found["width_like"] <= 1.08 * found["width_t"]
    assert found["covered_like"] >= 0.93


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
