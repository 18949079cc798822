"""The headline of measured rows: by hand, and with an interval that covers."""

import re

import numpy as np
import pytest

from stapo_bench.analysis import relative_gain
from stapo_bench.analysis.relative_gain import headline, measured_headline, relative_gains
from stapo_bench.presenting import render_table, rows_from_runs
from stapo_bench.presenting.tables.headlines import headline_line
from stapo_bench.records import Outcomes
from stapo_bench.runs.loaded_run import load_run
from stapo_bench.statistics.intervals import ERROR_NAMES


def run_of(matrices):
    """A run that is nothing but outcome matrices, by task."""
    return {
        task: Outcomes(
            problem_ids=tuple(map(str, range(len(scores)))),
            scores=scores,
            undecided=np.zeros(scores.shape, dtype=bool),
        )
        for task, scores in matrices.items()
    }


def sample_matrix(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float)


def test_gains_are_over_the_strongest_baseline_and_averaged_over_models():
    averages = {"small": {"STAPO": 0.3, "GRPO": 0.2, "JustRL": 0.25}, "large": {"STAPO": 0.6, "GRPO": 0.5}}
    assert relative_gains(averages) == {"small": pytest.approx(0.2), "large": pytest.approx(0.2)}
    assert headline(averages, "GRPO") == pytest.approx((0.2 / 0.3 - 1 + 0.5 / 0.6 - 1) / 2)
    assert np.isnan(headline({"small": {"STAPO": 0.3}}))


def test_measured_from_run_folders(make_run):
    a = make_run("GRPO", {"t": [[1, 0, 0, 0]] * 10})
    b = make_run("STAPO", {"t": [[1, 1, 0, 0]] * 10})
    found = measured_headline({"Tiny": {"GRPO": load_run(a).outcomes, "STAPO": load_run(b).outcomes}})
    assert found.value == pytest.approx(1.0)
    assert found.strongest == {"Tiny": "GRPO"}
    assert "+100.00 % on average" in headline_line(found)
    assert measured_headline({"Tiny": {"STAPO": load_run(b).outcomes}}) is None


def test_a_model_whose_baselines_solve_nothing_has_no_relative_gain(make_run):
    averages = {"small": {"STAPO": 0.3, "Base": 0.0}, "large": {"STAPO": 0.6, "Base": 0.0, "GRPO": 0.5}}
    assert relative_gains(averages) == {"large": pytest.approx(0.2)}
    zero, some = [[0, 0, 0, 0]] * 10, [[1, 0, 0, 0]] * 10
    runs = {
        "small": {"Base": make_run("b", {"t": zero}), "STAPO": make_run("s", {"t": some})},
        "large": {"GRPO": make_run("g", {"t": some}), "STAPO": make_run("l", {"t": [[1, 1, 0, 0]] * 10})},
    }
    loaded = {model: {name: load_run(run).outcomes for name, run in methods.items()} for model, methods in runs.items()}
    assert measured_headline({"small": loaded["small"]}) is None
    found = measured_headline(loaded)
    assert (found.value, found.gains) == (pytest.approx(1.0), {"large": pytest.approx(1.0)})
    assert found.strongest == {"large": "GRPO"}
    assert "large +100.00 % over GRPO; left out: small (no other method above 0 %)" in headline_line(found)


def test_a_baseline_that_may_be_zero_leaves_the_headline_without_an_interval():
    """1 right of 160 has an error as large as itself: a replicate in six has the baseline at 0 or below."""
    base, better = np.zeros((10, 16)), np.zeros((10, 16))
    base[0, 0] = 1
    better[:, :8] = 1
    found = measured_headline({"m": {"Base": run_of({"t": base}), "STAPO": run_of({"t": better})}})
    assert found.value == pytest.approx(79)  # (80 / 160) / (1 / 160) - 1
    assert all(np.isnan(interval.low) and np.isnan(interval.high) for interval in found.intervals.values())
    assert "+7900.00 % on average, no interval (a baseline may be 0) for these problems" in headline_line(found)


def test_an_average_over_fewer_tasks_takes_no_part():
    half, most = np.tile([1.0, 0.0], (10, 2)), np.tile([1.0, 1.0, 1.0, 0.0], (10, 1))
    whole = {"STAPO": run_of({"t": most, "u": half}), "GRPO": run_of({"t": half, "u": half})}
    found = measured_headline({"m": {**whole, "Base": run_of({"t": most})}})
    assert found.value == pytest.approx(0.25)  # (3/4 + 1/2) / (1/2 + 1/2) - 1
    assert found.tasks == ("t", "u")
    assert "(m +25.00 % over GRPO; left out: Base of m (lacks tasks))" in headline_line(found)
    assert measured_headline({"m": {**whole, "STAPO": run_of({"t": most})}}) is None


@pytest.mark.slow(reason="coverage by simulation, 80 headlines")
def test_intervals_cover_the_true_headline_for_both_errors():
    """Two models and two equally strong baselines of each: picking the stronger is part of the game."""
    rng = np.random.default_rng(1)
    shifts = {"STAPO": 0.12, "GRPO": 0.0, "JustRL": 0.0}

    def rates(difficulty):
        return {
            model: {name: difficulty + base + shift for name, shift in shifts.items()}
            for model, base in (("small", 0.0), ("large", 0.2))
        }

    fixed = rng.uniform(0.1, 0.5, 40)
    truth = {
        "these problems": ((fixed.mean() + 0.12) / fixed.mean() + (fixed.mean() + 0.32) / (fixed.mean() + 0.2)) / 2 - 1,
        "problems like these": (0.42 / 0.3 + 0.62 / 0.5) / 2 - 1,
    }
    covered = dict.fromkeys(ERROR_NAMES, 0)
    for _ in range(80):
        for error, difficulty in (("these problems", fixed), ("problems like these", rng.uniform(0.1, 0.5, 40))):
            runs = {
                model: {name: run_of({"t": sample_matrix(rng, r, 16)}) for name, r in methods.items()}
                for model, methods in rates(difficulty).items()
            }
            interval = measured_headline(runs).intervals[error]
            covered[error] += interval.low <= truth[error] <= interval.high
    for error in ERROR_NAMES:
        assert covered[error] / 80 >= 0.90


def test_runs_that_stopped_themselves_widen_both_intervals():
    rng = np.random.default_rng(2)
    runs = {"m": {name: run_of({"t": sample_matrix(rng, rng.uniform(0.2, 0.6, 30), 16)}) for name in ("STAPO", "GRPO")}}
    fixed = measured_headline(runs).intervals
    stopped = measured_headline(runs, aims={("m", "STAPO"): 0.02, ("m", "GRPO"): 0.02}).intervals
    for error in ERROR_NAMES:
        # no bound that holds at every look is below three standard errors
        assert stopped[error].width > 1.4 * fixed[error].width
    assert measured_headline(runs, aims={("other", "STAPO"): 0.02}).intervals == fixed


def coupled(rng, rates_by_method, num_samples):
    """Runs of one seed: sample j of a problem meets the same random number in all of them."""
    numbers = rng.random((len(next(iter(rates_by_method.values()))), num_samples))
    return {name: run_of({"t": (numbers < rates[:, None]).astype(float)}) for name, rates in rates_by_method.items()}


@pytest.mark.slow(reason="coverage by simulation")
def test_runs_of_one_seed_share_their_noise_for_these_problems():
    """Rates 0.1 to 0.7 and 0.02 more; the gain of averages 0.4 and 0.42 is 5 %."""
    rng = np.random.default_rng(3)
    base = np.linspace(0.1, 0.7, 30)
    seeds = {("m", "STAPO"): 0, ("m", "GRPO"): 0}
    covered = covered_apart = 0
    for _ in range(60):
        runs = {"m": coupled(rng, {"STAPO": base + 0.02, "GRPO": base}, 16)}
        paired, apart = (measured_headline(runs, seeds=s).intervals["these problems"] for s in (seeds, None))
        assert paired.width < 0.6 * apart.width
        covered += paired.low <= 0.05 <= paired.high
        covered_apart += apart.low <= 0.05 <= apart.high
    assert 54 <= covered <= 60
    assert covered_apart == 60  # independent errors are twice as wide as they ought to be


def test_seeds_make_no_difference_where_samples_are_not_coupled():
    rng = np.random.default_rng(4)
    runs = {"m": {name: run_of({"t": sample_matrix(rng, np.full(200, 0.5), 16)}) for name in ("STAPO", "GRPO")}}
    same, other = (
        measured_headline(runs, seeds={("m", "STAPO"): 0, ("m", "GRPO"): second}).intervals["these problems"]
        for second in (0, 1)
    )
    assert same.width == pytest.approx(other.width, rel=0.1)


def test_equal_runs_have_equal_narrow_intervals_that_are_not_empty():
    half = np.tile([1.0, 0.0], (30, 2))
    runs = {"m": {"STAPO": run_of({"t": half}), "GRPO": run_of({"t": half})}}
    found = measured_headline(runs, seeds={("m", "STAPO"): 0, ("m", "GRPO"): 0}).intervals
    for error in ERROR_NAMES:
        # 2 / 2 / 4^2 / 30^2 is the variance of the difference, relative to 1/2
        assert found[error].width == pytest.approx(2 * 1.96 * (1 / 16 / 900) ** 0.5 / 0.5, rel=0.1)


@pytest.mark.slow(reason="four runs of 30 problems, 16 samples each")
def test_the_table_pairs_runs_of_one_seed(make_run):
    rng = np.random.default_rng(5)
    numbers = rng.random((30, 16))
    rates = np.linspace(0.1, 0.7, 30)[:, None]
    lines = {}
    for name, seed in (("same", 0), ("other", 1)):
        runs = [
            make_run(f"{name}-{m}", {"t": (numbers < rates + more).astype(float).tolist()},
                     about={"method": m}, identity={"seed": s})
            for m, more, s in (("GRPO", 0.0, 0), ("STAPO", 0.02, seed))
        ]  # fmt: skip
        (lines[name],) = [
            line for line in render_table(rows_from_runs(runs)).splitlines() if "relative gain of" in line
        ]
    widths = {
        name: float(high) - float(low)
        for name, line in lines.items()
        for low, high in [re.search(r"\[(\S+), (\S+)\] these problems", line).groups()]
    }
    assert widths["same"] < 0.6 * widths["other"]


HALF = np.tile([1.0, 0.0], (10, 1))
"""Ten problems, each right once in two: a variance of 1/2 within, so 1/2 / (10 * 2) = 0.025 of the average."""


def test_the_errors_that_a_headline_is_moved_by_hand(monkeypatch):
    monkeypatch.setattr(relative_gain, "_BOOTSTRAPS", 200_000)  # variances to 0.3 %
    one, two = ({"t": run_of({"t": HALF})["t"]} for _ in range(2))
    # As if half a sample of one further problem had turned: 1/2 * (1/2)^2, over 10^2 problems, beside the 0.025.
    alone = relative_gain._sampling_shifts([one, two], ["t"], [None, None])
    assert np.cov(alone.T) == pytest.approx(np.diag([0.02625, 0.02625]), abs=4e-4)
    # The same samples again, by one seed: what they share is all of their noise but for that half sample.
    shared = relative_gain._sampling_shifts([one, two], ["t"], [5, 5])
    assert np.cov(shared.T) == pytest.approx(np.array([[0.02625, 0.025], [0.025, 0.02625]]), abs=4e-4)
    assert relative_gain._shared_noise(one["t"], two["t"]) == pytest.approx(0.025)
    both = run_of({"t": HALF, "u": HALF})  # the mean of two tasks: a half of the variance
    assert relative_gain._sampling_shifts([both], ["t", "u"], [None]).var() == pytest.approx(0.013125, rel=0.015)
    assert relative_gain._prior(np.array([[1.0, 0.0], [1.0, np.nan]])) == pytest.approx(0.5 * 0.75**2)
    assert np.isnan(relative_gain._prior(np.full((1, 1), np.nan)))


def test_new_problems_move_all_runs_that_were_asked_them(monkeypatch):
    monkeypatch.setattr(relative_gain, "_BOOTSTRAPS", 200_000)
    means = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]])
    # Squares about the means 4 / 4 and 4 / 16 and their product 4 / 8, over 4 * 3; a prior of 0.12 adds 0.12 / 12.
    found = np.cov(relative_gain._problem_shifts([means], [[0.0, 0.12]]).T)
    assert found == pytest.approx(np.array([[1 / 12, 1 / 24], [1 / 24, 1 / 48 + 0.01]]), abs=1e-3)
    two = relative_gain._problem_shifts([means, means], [[0.0, 0.0]] * 2)
    assert two[:, 0].var() == pytest.approx(1 / 24, rel=0.015)
    interval = relative_gain._basic_interval(0.5, list(np.linspace(0.0, 1.0, 41) ** 2))
    # Quantiles 0.025^2 and 0.975^2 of the squares, mirrored about 0.5.
    assert (interval.low, interval.high) == pytest.approx((1 - 0.975**2, 1 - 0.025**2))
