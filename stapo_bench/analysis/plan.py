"""How many samples would settle it? A power calculation from the variances that two stored runs show.

    plan = plan_runs(Path("results/base"), Path("results/stapo"), detect=0.02)

The variance of the difference on a task with n problems and N samples of each has two parts, both estimated from the
samples (a one-way variance decomposition; Miller 2024, arXiv:2411.00640, on resampling answers):

    these problems:        w / (n N)              w   = mean_i (s_Ai^2 + s_Bi^2), within problems
    problems like these:   tau^2 / n + w / (n N)  tau^2 = var_i(d_i) - mean_i (s_Ai^2 / k_A + s_Bi^2 / k_B), at least 0

With equal seeds the noise that paired samples share is taken out of w, see ``paired``. The runs' present power follows
from the noise of their decided samples, however many were asked for. The N shown for a run, and used for the cost, is
the harmonic mean over problems, as that noise goes with the mean of 1 / k_i.

A two-sided test at 5 % finds a true difference delta with power 80 % when the standard error is delta / 2.80. More
samples shrink only w: where tau^2 / n alone is too much, no N is enough, and the benchmark needs more problems.

Two runs of 30 problems hardly know tau^2 and w. The problems are therefore drawn again, with replacement, and every
redrawn pair of runs is planned for (the bootstrap; Efron and Tibshirani 1993, Ch. 6). The N that is named keeps the
promised power on the average over them (assurance; O'Hagan, Stevens and Campbell 2005, Pharm. Stat. 4:187); beside it
stands the range of what 95 of 100 of them need. "No number is enough" is said only where it holds of all of this range.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np

from stapo_bench.analysis.common_problems import missing_samples, shared_problems, shared_tasks
from stapo_bench.analysis.early_stopping import stopped_note
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.statistics import POWER, ErrorName, Matrix, Vector, contrast_variances, problem_means

MOST_SAMPLES = 1_000_000
"""More samples of a problem than this are no plan: "none is enough"."""

_REDRAWN = 400
_NORMAL = NormalDist()
_TWO_SIDED = _NORMAL.inv_cdf(0.975)


@dataclass(frozen=True, kw_only=True)
class Components:
    """Where the variance of a task's difference comes from."""

    within: float  # w: one sample of A and one of B on a problem
    noise: float  # variance of a problem's difference of means, from the samples that are decided
    between: float  # tau^2: true differences between problems
    num_problems: int

    def standard_error(self, error: ErrorName, num_samples: float, num_problems: int | None = None) -> float:
        """Predicted standard error of B - A at N samples per problem and run."""
        n = num_problems or self.num_problems
        between = self.between / n if error == "problems like these" else 0.0
        return math.sqrt(between + self.within / (n * num_samples))


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a task needs for one named error. None: no number of samples is enough with these problems."""

    num_samples: int | None  # per problem and run
    num_problems: int  # at the present numbers of samples
    power: float  # as the runs stand
    fewest: int | None = None  # the range of num_samples: what the runs leave open
    most: int | None = None

    @property
    def shown_hopeless(self) -> bool:
        """No number of samples is enough, and that is not just what these runs happen to look like."""
        return self.fewest is None


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """One task: components, needs and what they cost."""

    task: str
    title: str
    components: Components
    num_samples: tuple[float, float]  # present in A and in B: decided per problem, harmonic mean
    these_problems: Need
    problems_like_these: Need
    more_problems_help_more: bool  # doubling the problems shrinks the error more than doubling the samples
    tokens_per_sample: float | None  # None: not known of imported samples
    seconds_per_sample: float | None  # None: the engine did not tell


@dataclass(frozen=True, kw_only=True)
class SamplePlan:
    """A plan for two runs."""

    name_a: str
    name_b: str
    detect: float
    power: float
    tasks: tuple[TaskPlan, ...]
    notes: tuple[str, ...]


def plan_runs(
    run_a: Path, run_b: Path, detect: float, power: float = POWER, grader: str = DEFAULT_GRADER
) -> SamplePlan:
    """Plan for two run folders; ``detect`` is the true difference to be found, a fraction."""
    if not 0 < detect < 1:
        raise UsageError(f"--detect: expected a fraction between 0 and 1 (0.02 is two points), got {detect:g}")
    a, b = load_run(run_a, grader), load_run(run_b, grader)
    tasks = shared_tasks((a, b))
    plans = [plan for task in tasks if (plan := _task_plan(a, b, task, detect, power)) is not None]
    if not plans:
        copied = any(sample.is_copy for run in (a, b) for samples in run.samples.values() for sample in samples)
        raise StapoError(
            f"{a.name} and {b.name}: expected a task with at least two common problems and two samples each"
            + (" that are no copies: 'stapo-bench audit' says more" if copied else "")
            + "; single samples do not tell how much a problem's vary: 'stapo-bench plan --problems N --samples K "
            "--baseline SCORE' plans by stated assumptions"
        )
    rough = "its scores decided how many samples there are, so their variances, and with them this plan, are rough"
    notes = (*missing_samples((a, b), tasks), *stopped_note((a, b), rough))
    return SamplePlan(name_a=a.name, name_b=b.name, detect=detect, power=power, tasks=tuple(plans), notes=notes)


def components(a: Matrix, b: Matrix, *, same_seeds: bool = False) -> Components | None:
    """Estimate the variance components of B - A; None with fewer than two problems that both sampled twice."""
    a, b = _sampled_twice(a, b)
    if len(a) < 2:
        return None
    variances = contrast_variances([a, b], [-1.0, 1.0], same_seeds=same_seeds)
    within, noise = (max(0.0, float(variance.mean())) for variance in variances)
    between = float((problem_means(b) - problem_means(a)).var(ddof=1)) - noise
    return Components(within=within, noise=noise, between=max(0.0, between), num_problems=len(a))


def need(found: Components, error: ErrorName, detect: float, power: float, redrawn: Sequence[Components] = ()) -> Need:
    """Samples, or problems, at which a true difference ``detect`` is found with this power.

    Args:
        found: what the runs show.
        error: of the claim that is to be made.
        detect: the true difference, a fraction.
        power: the probability of finding it; on the average over ``redrawn``.
        redrawn: what the runs might have shown; without them ``found`` is taken for certain.
    """
    cases = redrawn or (found,)
    within, noise = (np.array([getattr(case, name) for case in cases]) for name in ("within", "noise"))
    between = np.array([case.between for case in cases]) * (error == "problems like these")
    num = found.num_problems

    def missing(variance: Vector) -> bool:
        return bool(np.mean([_power(detect, v) for v in variance.tolist()]) < power - 1e-9)

    left = (detect / _detectable(power)) ** 2 - between / num
    enough = left > 0  # with some number of samples
    each = np.where(enough, np.maximum(1.0, np.ceil(within / (num * np.where(enough, left, 1.0)) - 1e-9)), math.inf)
    fewest, most = np.quantile(each, [0.025, 0.975], method="nearest").tolist()
    now = (found.between if error == "problems like these" else 0.0) + found.noise
    samples = _smallest(lambda size: missing(between / num + within / (num * size)), 1)
    problems = _smallest(lambda size: missing((between + noise) / size), 2)
    return Need(
        num_samples=None if samples > MOST_SAMPLES else samples,
        num_problems=problems,
        power=_power(detect, now / num),
        fewest=None if fewest > MOST_SAMPLES else int(fewest),
        most=None if most > MOST_SAMPLES else int(most),
    )


def redraw(a: Matrix, b: Matrix, *, same_seeds: bool = False) -> list[Components]:
    """The components of runs with the problems of these, drawn again with replacement; each sampled at least twice."""
    variances = contrast_variances([a, b], [-1.0, 1.0], same_seeds=same_seeds)
    differences, num = problem_means(b) - problem_means(a), len(a)
    found = []
    for rows in np.random.default_rng(0).integers(num, size=(_REDRAWN, num)):
        within, noise = (max(0.0, float(variance[rows].mean())) for variance in variances)
        between = max(0.0, float(differences[rows].var(ddof=1)) - noise)
        found.append(Components(within=within, noise=noise, between=between, num_problems=num))
    return found


def _smallest(missing: Callable[[int], bool], start: int) -> int:
    """The smallest size from ``start`` on at which nothing is missing; above ``MOST_SAMPLES`` where that never is."""
    low, high = start - 1, start
    while missing(high):
        low, high = high, 2 * high
        if high > 2 * MOST_SAMPLES:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if missing(middle) else (low, middle)
    return high


def _power(detect: float, variance: float) -> float:
    """How often a two-sided test at 5 % finds this difference, in its direction."""
    return 1.0 if variance <= 0 else _NORMAL.cdf(detect / math.sqrt(variance) - _TWO_SIDED)


def _task_plan(a: LoadedRun, b: LoadedRun, task: str, detect: float, power: float) -> TaskPlan | None:
    ids = shared_problems((a, b), task)
    correct = a.outcomes[task].of(ids).scores, b.outcomes[task].of(ids).scores
    plan = plan_of_task(task, a.title(task), correct, detect, power, same_seeds=a.manifest.shares_seed(b.manifest))
    if plan is None:
        return None
    costs = np.array(
        [
            [np.nan if value is None else value for value in (d.num_tokens, d.seconds)]
            for run in (a, b)
            for d in run.samples.get(task, [])
        ]
    )
    times = costs[~np.isnan(costs[:, 1]), 1]
    return replace(
        plan,
        tokens_per_sample=None if np.isnan(costs[:, 0]).any() else float(costs[:, 0].mean()),
        seconds_per_sample=float(times.mean()) if len(times) else None,
    )


def plan_of_task(
    task: str, title: str, correct: tuple[Matrix, Matrix], detect: float, power: float, *, same_seeds: bool = False
) -> TaskPlan | None:
    """Plan for one task from the outcomes of A and B, rows being the same problems; what samples cost is not known.

    None: fewer than two problems that both sampled twice.
    """
    correct = _sampled_twice(*correct)
    found = components(*correct, same_seeds=same_seeds)
    if found is None:
        return None
    redrawn = redraw(*correct, same_seeds=same_seeds)
    like = need(found, "problems like these", detect, power, redrawn)
    samples_a, samples_b = (float(1.0 / (1.0 / (~np.isnan(run)).sum(axis=1)).mean()) for run in correct)
    return TaskPlan(
        task=task,
        title=title,
        components=found,
        num_samples=(samples_a, samples_b),
        these_problems=need(found, "these problems", detect, power, redrawn),
        problems_like_these=like,
        # Doubling n halves both parts, doubling N only the second: the first decides whether there is a choice. And
        # where no number of samples is known to be enough, problems are what is left.
        more_problems_help_more=like.num_samples is None or found.between > 0.1 * found.noise,
        tokens_per_sample=None,
        seconds_per_sample=None,
    )


def _sampled_twice(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Rows of the problems of which both runs have at least two decided samples."""
    usable = np.all([(~np.isnan(run)).sum(axis=1) >= 2 for run in (a, b)], axis=0)
    return a[usable], b[usable]


def _detectable(power: float) -> float:
    """Standard errors that a true difference must measure: z_0.975 + z_power."""
    return _TWO_SIDED + _NORMAL.inv_cdf(power)
