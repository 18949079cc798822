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
"""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from stapo_bench.analysis.common_problems import not_drawn, shared_problems
from stapo_bench.analysis.early_stopping import stopped_note
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.statistics import POWER, ErrorName, Matrix, contrast_variances, problem_means


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
    tasks = [task for task in a.tasks if task in b.tasks]
    plans = [plan for task in tasks if (plan := _task_plan(a, b, task, detect, power)) is not None]
    if not plans:
        copied = any(sample.is_copy for run in (a, b) for samples in run.samples.values() for sample in samples)
        raise StapoError(
            f"{a.name} and {b.name}: expected a task with at least two common problems and two samples each"
            + (" that are no copies: 'stapo-bench audit' says more" if copied else "")
        )
    rough = "its scores decided how many samples there are, so their variances, and with them this plan, are rough"
    notes = [note for task in tasks for note in not_drawn((a, b), task, shared_problems((a, b), task))]
    notes += stopped_note((a, b), rough)
    return SamplePlan(name_a=a.name, name_b=b.name, detect=detect, power=power, tasks=tuple(plans), notes=tuple(notes))


def components(a: Matrix, b: Matrix, *, same_seeds: bool = False) -> Components | None:
    """Estimate the variance components of B - A; None with fewer than two problems that both sampled twice."""
    a, b = _sampled_twice(a, b)
    if len(a) < 2:
        return None
    variances = contrast_variances([a, b], [-1.0, 1.0], same_seeds=same_seeds)
    within, noise = (max(0.0, float(variance.mean())) for variance in variances)
    between = float((problem_means(b) - problem_means(a)).var(ddof=1)) - noise
    return Components(within=within, noise=noise, between=max(0.0, between), num_problems=len(a))


def need(found: Components, error: ErrorName, detect: float, power: float) -> Need:
    """Samples, or problems, at which a true difference ``detect`` is found with this power."""
    target = (detect / _detectable(power)) ** 2  # the largest variance that will do
    between = found.between if error == "problems like these" else 0.0
    left = target - between / found.num_problems
    samples = None if left <= 0 else max(1, math.ceil(found.within / (found.num_problems * left) - 1e-9))
    problems = max(2, math.ceil((between + found.noise) / target - 1e-9))
    now = math.sqrt((between + found.noise) / found.num_problems)
    reached = 1.0 if now == 0 else NormalDist().cdf(detect / now - NormalDist().inv_cdf(0.975))
    return Need(num_samples=samples, num_problems=problems, power=reached)


def _task_plan(a: LoadedRun, b: LoadedRun, task: str, detect: float, power: float) -> TaskPlan | None:
    ids = shared_problems((a, b), task)
    correct = _sampled_twice(a.outcomes[task].of(ids).scores, b.outcomes[task].of(ids).scores)
    found = components(*correct, same_seeds=a.manifest.shares_seed(b.manifest))
    if found is None:
        return None
    samples_a, samples_b = (float(1.0 / (1.0 / (~np.isnan(run)).sum(axis=1)).mean()) for run in correct)
    costs = np.array(
        [
            [np.nan if value is None else value for value in (d.num_tokens, d.seconds)]
            for run in (a, b)
            for d in run.samples.get(task, [])
        ]
    )
    times = costs[~np.isnan(costs[:, 1]), 1]
    return TaskPlan(
        task=task,
        title=a.title(task),
        components=found,
        num_samples=(samples_a, samples_b),
        these_problems=need(found, "these problems", detect, power),
        problems_like_these=need(found, "problems like these", detect, power),
        # Doubling n halves both parts, doubling N only the second: the first decides whether there is a choice.
        more_problems_help_more=found.between > 0.1 * found.noise,
        tokens_per_sample=None if np.isnan(costs[:, 0]).any() else float(costs[:, 0].mean()),
        seconds_per_sample=float(times.mean()) if len(times) else None,
    )


def _sampled_twice(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Rows of the problems of which both runs have at least two decided samples."""
    usable = np.all([(~np.isnan(run)).sum(axis=1) >= 2 for run in (a, b)], axis=0)
    return a[usable], b[usable]


def _detectable(power: float) -> float:
    """Standard errors that a true difference must measure: z_0.975 + z_power."""
    return NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(power)
