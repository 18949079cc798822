"""Coverage, size and power through the whole pipeline: a scripted engine with known success rates, graded and read back
from disk, cut into thousands of evaluations. ``bench.coverage`` says what "covers" means for each error, and
with ``--pipeline`` does the same at length. Takes about 40 s on one core, most of it drawing 100,000 samples.
"""

import itertools
import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stapo_bench.analysis.compare import compare_runs
from stapo_bench.analysis.score_file import score_run
from stapo_bench.statistics.estimators import pass_at_k
from stapo_bench.statistics.intervals import ERROR_NAMES, interval
from stapo_bench.statistics.paired import paired_difference

pytestmark = pytest.mark.slow(reason="100,000 samples, cut into thousands of evaluations")

SCRIPT = Path(__file__).parent.parent / "bench" / "coverage.py"
NUM_PROBLEMS, NUM_SAMPLES = 400, 128
DESIGNS = [(30, 32), (30, 4), (500, 4)]
REPETITIONS = 3000  # standard error of a coverage of 95 %: 0.40 points, and up to 0.6 from what evaluations share


@pytest.fixture(scope="module")
def script():
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.fixture(scope="module")
def pools(script, tmp_path_factory):
    """A: rates between 0 and 1, 39 % on the mean. B: 7 points more, by one shift of all logits. Other seeds."""
    folder = tmp_path_factory.mktemp("pipeline")
    rates = script.logistic(np.random.default_rng(0).normal(-0.5, 2.0, NUM_PROBLEMS))
    return tuple(
        script.draw_pool(folder / name, r, NUM_SAMPLES, seed)
        for seed, (name, r) in enumerate({"a": rates, "b": script.better(rates)}.items())
    )


@pytest.fixture
def rng():
    return np.random.default_rng(2411)


def test_what_score_prints_is_the_interval_that_is_measured_here(pools):
    pool = pools[0]
    (task,) = score_run(pool.run).tasks
    assert task.complete
    assert task.value == pytest.approx(pool.outcomes.mean())
    assert task.value == pytest.approx(pool.rates.mean(), abs=0.005)
    assert [task.these_problems, task.problems_like_these] == [interval(pool.outcomes, e) for e in ERROR_NAMES]
    # pass@8 = mean of 1 - (1 - p)^8
    assert task.pass_at[8] == pytest.approx(np.mean(1 - (1 - pool.rates) ** 8), abs=0.005)


def test_what_compare_prints_is_the_test_that_is_measured_here(pools):
    a, b = pools
    found = compare_runs(a.run, b.run)
    for effect in found.average.effects:
        expected = paired_difference(a.outcomes, b.outcomes, effect.error)
        found_interval, expected_interval = effect.difference.interval(), expected.interval()
        assert found_interval.low == pytest.approx(expected_interval.low)
        assert found_interval.high == pytest.approx(expected_interval.high)
        assert effect.p_adjusted == pytest.approx(expected.p_value)
        assert effect.verdict == "better"


def test_pass_at_k_of_stored_samples_equals_brute_force(pools):
    correct = pools[0].outcomes[:, :6]
    for k in range(1, 7):
        subsets = [correct[:, list(chosen)].max(axis=1) for chosen in itertools.combinations(range(6), k)]
        assert pass_at_k(correct, k) == pytest.approx(np.mean(subsets), abs=1e-12)


@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_of_the_score_cover_both_truths(script, pools, rng, design):
    for error, share in script.score_coverage(rng, pools[0], design, REPETITIONS).items():
        assert 0.93 <= share <= 0.97, error


@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_of_the_difference_cover_both_truths(script, pools, rng, design):
    for error, share in script.difference_coverage(rng, pools, design, REPETITIONS).items():
        assert 0.93 <= share <= 0.97, error


@pytest.mark.parametrize("design", [(30, 32), (30, 4)])
def test_equal_rates_are_told_apart_in_five_percent(script, pools, rng, design):
    """Pairs of A and pairs of B, so that neither run's luck decides."""
    found = [script.found_apart(rng, (pool, pool), design, REPETITIONS // 2) for pool in pools]
    for error in ERROR_NAMES:
        assert np.mean([shares[error] for shares in found]) == pytest.approx(0.05, abs=0.01), error


def test_seven_points_at_30_by_32_are_found_in_nine_of_ten(script, pools, rng):
    assert (pools[1].rates - pools[0].rates).mean() == pytest.approx(0.07)
    for error, share in script.found_apart(rng, pools, (30, 32), 1000).items():
        assert share >= 0.90, error


def test_an_evaluation_uses_no_sample_twice(script, rng):
    numbered = np.arange(5 * 16, dtype=float).reshape(5, 16)
    pool = script.Pool(rates=np.zeros(5), outcomes=numbered, run=Path())
    found = script.cut(rng, pool, np.array([1, 1, 1, 4]), 5)
    assert len(np.unique(found)) == 20
    assert (found // 16).tolist() == [[1.0] * 5] * 3 + [[4.0] * 5]
    with pytest.raises(ValueError, match="expected at least 20 samples per problem, got 16"):
        script.cut(rng, pool, np.array([2, 2, 2, 2]), 5)


def test_the_script_measures_all_designs(script, tmp_path, capsys):
    rows = script.pipeline(tmp_path, repetitions=2, num_problems=12, num_samples=40, designs=[(5, 4)])
    script.print_pipeline(rows)
    assert len(rows) == 3
    assert json.loads(json.dumps(rows))[0]["design"] == [5, 4]
    assert capsys.readouterr().out.count("| 5 × 4 |") == 3
