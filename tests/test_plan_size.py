"""A plan without pilot runs: the smallest difference that a size of evaluation finds."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import beta, norm

from stapo_bench.analysis import plan_size, size_of
from stapo_bench.cli import cli
from stapo_bench.errors import UsageError
from stapo_bench.statistics import paired_difference

DETECT = "--detect needs two runs (plan A B --detect 0.1); without them --problems, --samples and --baseline alone say"


def plan(*arguments):
    result = CliRunner().invoke(cli, ["plan", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_smallest_difference_by_hand():
    # m (1 - m) = 0.24. These problems: 0.24 / 960 = 0.00025, 0.01581 x (1.960 + 0.842) = 0.0443. Problems like these:
    # 0.24 (0.1 + 1 / 32) / 30 = 0.00105, 0.0324 x (2.045 + 0.842) = 0.0936.
    size = size_of(30, 32, 0.4)
    assert size.these_problems.smallest == pytest.approx(0.0443, abs=5e-5)
    assert size.like_these.smallest == pytest.approx(0.0936, abs=1e-4)
    # Correlations of 0.95 and 0.8: 0.24 (0.05 + 1 / 32) / 30 and 0.24 (0.2 + 1 / 32) / 30.
    assert (size.like_these.least, size.like_these.most) == pytest.approx((0.0736, 0.1242), abs=2e-4)
    # Samples without end leave 0.24 x 0.1 / 30; four times the problems halve the error, and t's quantile falls.
    without_end = size_of(30, None, 0.4)
    assert (without_end.these_problems.smallest, without_end.like_these.smallest) == (
        0.0,
        pytest.approx(0.0817, abs=1e-4),
    )
    assert size_of(120, 32, 0.4).like_these.smallest < size.like_these.smallest / 2
    assert size_of(40, 1, 0.4).these_problems == size_of(40, 1, 0.4).like_these  # one sample tells no noise
    assert math.isinf(size_of(3, 1, 0.5).like_these.smallest)  # more than 50 points up or down there are not


@pytest.mark.parametrize(("num_problems", "k", "mean"), [(30, 32, 0.4), (100, 4, 0.5), (500, 1, 0.7)])
def test_it_is_found_in_80_of_100_cases_where_the_model_holds(num_problems, k, mean):
    rng = np.random.default_rng(0)
    size = size_of(num_problems, k, mean)
    gain = size.like_these.smallest
    found, correlations = [], []
    for _ in range(250):
        # Rates with Beta margins; a normal copula with 0.93 gives them a correlation of about 0.9.
        normals = rng.multivariate_normal([0, 0], [[1, 0.93], [0.93, 1]], size=num_problems)
        rate_a, rate_b = (beta.ppf(norm.cdf(z), m, 1 - m) for z, m in zip(normals.T, (mean, mean + gain), strict=True))
        correlations.append(np.corrcoef(rate_a, rate_b)[0, 1])
        a, b = ((rng.random((num_problems, k)) < rate[:, None]).astype(float) for rate in (rate_a, rate_b))
        difference = paired_difference(a, b, "problems like these")
        found.append(difference.p_value < 0.05 and difference.value > 0)
    assert np.mean(correlations) == pytest.approx(0.9, abs=0.03)
    assert np.mean(found) == pytest.approx(0.8, abs=0.08)


def test_on_these_problems_it_is_found_in_80_of_100_cases():
    rng = np.random.default_rng(1)
    gain = size_of(60, 16, 0.5).these_problems.smallest
    found = []
    for _ in range(250):
        rate_a = beta.ppf((np.arange(60) + 0.5) / 60, 0.5, 0.5)
        rate_b = rate_a + gain * (1 - rate_a) / np.mean(1 - rate_a)
        a, b = ((rng.random((60, 16)) < rate[:, None]).astype(float) for rate in (rate_a, rate_b))
        difference = paired_difference(a, b, "these problems")
        found.append(difference.p_value < 0.05 and difference.value > 0)
    assert np.mean(found) == pytest.approx(0.8, abs=0.08)


def test_the_command_says_it_in_a_sentence_a_table_and_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    code, output = plan("--problems", 30, "--samples", 32, "--baseline", 0.4, "-o", tmp_path / "plan.svg")
    assert code == 0
    assert "9.4 points on problems like these, 4.4 points on these problems" in output.splitlines()[0]
    assert "| 30 × any number | any | 8.2 points | 5.8 to 11.5 |" in output
    assert "| 120 × 32 | 2.2 points | 4.6 points | 3.6 to 6.1 |" in output
    assert "<svg" in (tmp_path / "plan.svg").read_text(encoding="utf-8")
    found = json.loads(plan("--problems", 30, "--samples", 32, "--baseline", 0.4, "--format", "json")[1])
    assert found["sizes"][0]["like_these"]["smallest"] == plan_size(30, 32, 0.4).sizes[0].like_these.smallest
    assert "none can be found on problems like these" in plan("--problems", 3, "--samples", 1, "--baseline", 0.5)[1]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--problems", 30], "a plan without runs needs --samples, --baseline as well"),
        ([], "a plan without runs needs --problems, --samples, --baseline as well; or give two runs, and --detect"),
        (["--problems", 30, "--samples", 1, "--baseline", 0.4, "--detect", 0.1], DETECT),
        (["--detect", 0.1], DETECT),
        (["--problems", 30, "--detect", 0.1], DETECT),
        (["a", "b", "--samples", 3, "--detect", 0.1], "--samples plans without runs, got 2"),
        (["a", "--detect", 0.1], "expected two runs and --detect, or none and --problems"),
        (["--problems", 1, "--samples", 1, "--baseline", 0.4], "1 is not in the range"),
    ],
)
def test_what_is_not_understood(options, error):
    code, output = plan(*options)
    assert (code, error in output) == (2, True), output


def test_a_difference_needs_two_problems():
    assert plan_size(2, 8, 0.5).sizes[0].num_problems == 2
    with pytest.raises(UsageError, match="--problems: expected at least 2, got 1"):
        plan_size(1, 8, 0.5)
