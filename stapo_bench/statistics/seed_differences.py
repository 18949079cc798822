"""The difference of two methods over seeds: two trainings of each seed, compared seed by seed and problem by problem.

    d_si = x_Bsi - x_Asi   for seed s and problem i;   D_s = mean over tasks t of mean over problems i of d_si
    difference = mean over s of D_s

Trainings of one seed meet the same prompts in the same order, so seeds are paired as problems are. There are two
errors, neither of which one training of each method can give:

``seeds like these``: the problems are fixed and the trainings are repeated. V_s = var_s(D_s) / S; Student's t with
S - 1 degrees. It includes the noise of the samples.
``seeds and problems like these``: both are drawn anew. With T tasks of n_t problems, seeds crossed with problems,

    V = V_s + sum_t (P_t - E_t) / T^2,   P_t = var_i(mean_s d_si) / n_t,
    E_t = sum_si (d_si - d_s. - d_.i + d_..)^2 / ((S - 1) (n_t - 1)) / (S n_t)

E_t is the part that V_s and P_t share (two-way random effects; Searle, Casella and McCulloch 1992, Ch. 4). V is never
taken below V_s or below sum_t P_t / T^2. Degrees of freedom: V^2 / (V_s^2 / (S - 1) + sum_t (P_t / T^2)^2 / (n_t - 1))
(Satterthwaite 1946). With few seeds these can exceed S - 1 by so much that the interval is narrower than that of
``seeds like these``, which is then used: what is unknown of these problems is unknown of problems like these; p
likewise.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from stapo_bench.statistics.estimators import Matrix, Vector
from stapo_bench.statistics.intervals import t_quantile
from stapo_bench.statistics.paired import UNDECIDED, Difference

SeedError = Literal["seeds like these", "seeds and problems like these"]
SEED_ERRORS: tuple[SeedError, SeedError] = ("seeds like these", "seeds and problems like these")


def over_seeds(changes: Sequence[Matrix], error: SeedError) -> Difference:
    """The mean over tasks, problems and seeds, with its error.

    Args:
        changes: [num_seeds, num_problems] per task; row s of all is the same seed. Problems with a NaN are left out.
        error: which error the standard error describes.

    Returns:
        NaN as the standard error where the data cannot tell: one seed, or no variation at all.

    >>> found = over_seeds([np.array([[0.1, 0.3], [0.2, 0.4]])], "seeds like these")
    >>> round(found.value, 3), round(found.standard_error, 3)  # D = 0.2, 0.3; sqrt(0.005 / 2)
    (0.25, 0.05)
    """
    decided = [task[:, ~np.isnan(task).any(axis=0)] for task in changes]
    if not decided or any(task.shape[1] == 0 for task in decided):
        return UNDECIDED
    per_seed: Vector = np.mean([task.mean(axis=1) for task in decided], axis=0)
    num_seeds, num_problems = len(per_seed), sum(task.shape[1] for task in decided)
    variance, degrees = math.nan, math.inf
    if num_seeds > 1:
        variance, degrees = float(per_seed.var(ddof=1)) / num_seeds, num_seeds - 1.0
        if error == "seeds and problems like these":
            variance, degrees = max((variance, degrees), _crossed(decided, variance), key=_half_width)
    return Difference(
        value=float(per_seed.mean()),
        # Equal to the last digit in all seeds: the same checkpoint twice, or too few samples. It proves nothing.
        standard_error=math.sqrt(variance) if variance > 0 else math.nan,
        degrees=degrees,
        num_problems=num_problems,
    )


def _half_width(variance_and_degrees: tuple[float, float]) -> float:
    """Half-width of a 95 % interval."""
    variance, degrees = variance_and_degrees
    return math.inf if math.isnan(variance) else t_quantile(0.95, degrees) * math.sqrt(variance)


def _crossed(tasks: Sequence[Matrix], of_seeds: float) -> tuple[float, float]:
    """V and its degrees of freedom, from V_s; NaN where a task has one problem alone."""
    if any(task.shape[1] < 2 for task in tasks):
        return math.nan, math.inf
    num_seeds, scale = len(tasks[0]), len(tasks) ** 2
    of_problems, shared = [], 0.0
    for task in tasks:
        num = task.shape[1]
        rest = task - task.mean(axis=1, keepdims=True) - task.mean(axis=0) + task.mean()
        of_problems.append(float(task.mean(axis=0).var(ddof=1)) / num / scale)
        shared += float((rest**2).sum()) / ((num_seeds - 1) * (num - 1)) / (num_seeds * num) / scale
    variance = max(of_seeds + sum(of_problems) - shared, of_seeds, sum(of_problems))
    spread = of_seeds**2 / (num_seeds - 1) + sum(
        v**2 / (task.shape[1] - 1) for v, task in zip(of_problems, tasks, strict=True)
    )
    return variance, variance**2 / spread if spread > 0 else math.inf
