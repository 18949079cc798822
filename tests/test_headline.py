"""The headline of measured rows: by hand, and with an interval that covers."""

import numpy as np
import pytest

from stapo_bench.draws import load_run
from stapo_bench.headline import headline, headline_line, measured_headline, relative_gains
from stapo_bench.intervals import ERROR_NAMES


class FakeRun:
    """A run that is nothing but outcome matrices."""

    def __init__(self, matrices):
        self._matrices = matrices
        self.tasks = {
            task: {"problem_ids": list(range(len(m))), "num_samples": m.shape[1]} for task, m in matrices.items()
        }

    def outcomes(self, task, problem_ids=None):
        ids = self.tasks[task]["problem_ids"] if problem_ids is None else problem_ids
        return self._matrices[task][ids], None


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
    found = measured_headline({"Tiny": {"GRPO": load_run(a), "STAPO": load_run(b)}})
    assert found.value == pytest.approx(1.0)
    assert found.strongest == {"Tiny": "GRPO"}
    assert "+100.00 % on average" in headline_line(found)
    assert measured_headline({"Tiny": {"STAPO": load_run(b)}}) is None


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
                model: {name: FakeRun({"t": sample_matrix(rng, r, 16)}) for name, r in methods.items()}
                for model, methods in rates(difficulty).items()
            }
            interval = measured_headline(runs).intervals[error]
            covered[error] += interval.low <= truth[error] <= interval.high
    for error in ERROR_NAMES:
        assert covered[error] / 80 >= 0.90


def test_runs_that_stopped_themselves_widen_both_intervals():
    rng = np.random.default_rng(2)
    runs = {
        "m": {name: FakeRun({"t": sample_matrix(rng, rng.uniform(0.2, 0.6, 30), 16)}) for name in ("STAPO", "GRPO")}
    }
    fixed = measured_headline(runs).intervals
    stopped = measured_headline(runs, aims={("m", "STAPO"): 0.02, ("m", "GRPO"): 0.02}).intervals
    for error in ERROR_NAMES:
        # no bound that holds at every look is below three standard errors
        assert stopped[error].width > 1.4 * fixed[error].width
    assert measured_headline(runs, aims={("other", "STAPO"): 0.02}).intervals == fixed
