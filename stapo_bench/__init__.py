"""stapo-bench: did this RL objective make the model better at mathematics, and how sure are we?

    import stapo_bench as sb
    sb.compare("a.csv", "b.csv").average.effect("problems like these").verdict
    sb.load("results/base-justrl").frame().groupby("task")["correct"].mean()

Importing the package loads neither torch nor vllm, nor numpy; each command and function imports what it needs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from stapo_bench.analysis import Compared, Comparison
    from stapo_bench.presenting import Run

__version__ = "0.1.0"


def compare(
    a: "Compared",
    b: "Compared",
    *,
    columns: Mapping[str, str] | None = None,
    margin: float | None = None,
    score_range: tuple[float, float] | None = None,
) -> "Comparison":
    """Compare A, before, with B, after, problem by problem; the effect is B - A.

    Args:
        a, b: each a run folder or a file by its path, a matrix [problems, samples] of scores and NaN (not drawn), a map
            from items to a score or to scores, a data frame, or rows of named columns.
        columns: columns by meaning (item, score, sample, model, task, seed, cluster) with other than usual names.
        margin: a difference shown to lie within it is a tie, a fraction; None: the command's.
        score_range: the lowest and the highest score that can be given; None: 0 and 1. Differences are shares of it.

    Raises:
        StapoError: nothing in common, a score beyond its range, or one that stands twice.

    >>> compare([[0, 0], [0, 1], [0, 0]], [[1, 1], [0, 1], [1, 1]]).average.effects[0].difference.value.__round__(3)
    0.667
    """
    from stapo_bench.analysis import compare_outcomes
    from stapo_bench.runs.outcomes import checked_range
    from stapo_bench.statistics import MARGIN

    declared = None if score_range is None else checked_range(*score_range)
    return compare_outcomes(a, b, columns, margin=MARGIN if margin is None else margin, declared=declared)


def load(path: "str | Path", grader: str = "math") -> "Run":
    """A run folder as an object: ``scores()``, ``frame()`` (a row per sample), and its table where it is displayed.

    Raises:
        StapoError: no run, damage, or no grades by this grader.
    """
    from stapo_bench.presenting import Run

    return Run(path, grader)
