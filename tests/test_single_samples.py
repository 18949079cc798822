"""How few problems of one sample each have the exact test reject, too."""

import numpy as np
import pytest

from stapo_bench.statistics.paired import contrast


def difference(num_problems: int):
    """One problem is lost and six are won; of all others both are wrong."""
    before, after = np.zeros((num_problems, 1)), np.zeros((num_problems, 1))
    before[0], after[1:7] = 1.0, 1.0
    return contrast([before, after], [-1, 1], "these problems")


def test_fewer_than_twenty_problems_of_one_sample_are_judged_by_the_exact_test():
    # Of 7 coins none or one shows heads, the latter counted half, on either side: 2 (1 + 7/2) / 2^7 = 9/128.
    assert difference(19).p_value == pytest.approx(9 / 128, rel=1e-12)
    assert difference(20).p_value < 0.05
