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

    from stapo_bench.analysis import Compared
    from stapo_bench.presenting import Run, ShownComparison
    from stapo_bench.runs.outcomes import ColumnsOf

__version__ = "0.1.0"


def compare(
    a: "Compared | Run",
    b: "Compared | Run",
    *,
    columns: "ColumnsOf | None" = None,
    margin: float | None = None,
    score_range: tuple[float, float] | None = None,
    data_dir: "str | Path | None" = None,
) -> "ShownComparison":
    """Compare A, before, with B, after, problem by problem; the effect is B - A.

    A notebook displays it, and ``print`` writes it, as ``stapo-bench compare`` does: first the sentence.

    Args:
        a: a run folder or a file by its path, what ``load`` returned (its grader then holds for both), a matrix
            [problems, samples] of scores and NaN (undecided), a map from items to a score or to scores, a data frame,
            or rows of named columns.
        b: the same.
        columns: columns by meaning (item, score, sample, model, task, seed, cluster) with other than usual names,
            or a pair of such maps, one of each side; of two runs, ``cluster`` is a column of their tasks' data.
        margin: a difference shown to lie within it is a tie, a fraction (0.02 is 2 points); None: the command's.
        score_range: the lowest and the highest score that can be given; None: 0 and 1. Differences are shares of it.
        data_dir: folder with the tasks' data, ``<task>.jsonl``, for clusters of two runs; None: the hub.

    Raises:
        StapoError: nothing in common, a score beyond its range, or one that stands twice; a margin that is no fraction.

    >>> compare([[0, 0], [0, 1], [0, 0]], [[1, 1], [0, 1], [1, 1]]).average.effects[0].difference.value.__round__(3)
    0.667
    """
    from stapo_bench.presenting import compare_in_python

    return compare_in_python(a, b, columns=columns, margin=margin, score_range=score_range, data_dir=data_dir)


def load(path: "str | Path", grader: str = "math") -> "Run":
    """A run folder as an object: ``scores()``, ``frame()`` (a row per sample), and its table where it is displayed.

    Raises:
        StapoError: no run; and where it is first read, damage or no grades by this grader.
    """
    from stapo_bench.presenting import Run

    return Run(path, grader)
