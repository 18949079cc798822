"""stapo-bench: did this RL objective make the model better at mathematics, and how sure are we?

    import stapo_bench as sb
    sb.compare("a.csv", "b.csv").average.effect("problems like these").verdict

Importing the package loads neither torch nor vllm, nor numpy; each command and function imports what it needs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stapo_bench.analysis import Compared, Comparison

__version__ = "0.1.0"


def compare(
    a: "Compared", b: "Compared", *, columns: Mapping[str, str] | None = None, margin: float | None = None
) -> "Comparison":
    """Compare A, before, with B, after, problem by problem; the effect is B - A.

    Args:
        a, b: each a run folder or a file by its path, a matrix [problems, samples] of 1, 0 and NaN (not drawn), a map
            from items to a score or to scores, or rows of named columns.
        columns: columns by meaning (item, score, sample, model, task, seed) that have other than usual names.
        margin: a difference shown to lie within it is a tie, a fraction; None: the command's.

    Raises:
        StapoError: nothing in common, an outcome other than 0 or 1, or one that stands twice.

    >>> compare([[0, 0], [0, 1], [0, 0]], [[1, 1], [0, 1], [1, 1]]).average.effects[0].difference.value.__round__(3)
    0.667
    """
    from stapo_bench.analysis import compare_outcomes
    from stapo_bench.statistics import MARGIN

    return compare_outcomes(a, b, columns, margin=MARGIN if margin is None else margin)
