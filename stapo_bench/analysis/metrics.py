"""The other numbers that k samples give, beside avg@k: pass@k, pass^k, G-Pass@k and maj@k, by name and with sources.

    metric = parse_metric("pass@8")
    metric.of(task_score)                      # (8, 0.41); None where a problem has fewer than 8 decided samples
    print(render_metrics(run_score))           # what ``stapo-bench score`` prints below its table

k is at most the fewest decided samples of a problem: no estimate is unbiased beyond it. They carry no intervals here:
checkpoints are compared by avg@k, which uses every sample.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stapo_bench.analysis.scores import RunScore, TaskScore
from stapo_bench.errors import UsageError
from stapo_bench.runs import CountedRun
from stapo_bench.statistics import TAUS, pass_at_k, pass_hat_k

MEANINGS = {
    "pass@": "*pass@k*: at least one of k samples is right, unbiased (Chen et al. 2021, arXiv:2107.03374).",
    "pass^": "*pass^k*: all of k samples are right, unbiased (Yao et al. 2024, arXiv:2406.12045).",
    "G-Pass@": "*G-Pass@k* at τ: at least τk of k samples are right; *mG-Pass@k*: its mean over τ above a half "
    "(Liu et al. 2024, arXiv:2412.13147).",
    "maj@": "*maj@k*: the most frequent of k answers is right (Wang et al. 2022, arXiv:2203.11171). Answers that the "
    "grader holds equal vote together, no answer is no vote, and a tie is broken evenly at random: a right answer that "
    "shares the lead with t others scores 1 / (1 + t).",
}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a table shows: ``avg`` and ``maj`` at each task's own k, ``pass@`` and ``pass^`` at the k asked for."""

    name: Literal["avg", "maj", "pass@", "pass^"]
    k: int | None = None

    def __str__(self) -> str:
        return f"{self.name}@k" if self.k is None else f"{self.name}{self.k}"

    @property
    def meaning(self) -> str:
        return MEANINGS[self.name if self.name.startswith("pass") else f"{self.name}@"]

    def of(self, task: TaskScore) -> tuple[int, float] | None:
        """k and value on a task; None where its problems have too few decided samples."""
        if self.k is None:
            return next(iter(task.maj_at.items()), None)
        if fewest_decided(task) < self.k:
            return None
        correct = CountedRun(counts={task.task: task.counts}).outcomes(task.task)[0]
        return self.k, (pass_at_k if self.name == "pass@" else pass_hat_k)(correct, self.k)


AVG = Metric(name="avg")


def parse_metric(text: str) -> Metric:
    """``avg``, ``maj``, ``pass@K`` or ``pass^K``.

    >>> parse_metric("pass@8")
    Metric(name='pass@', k=8)
    """
    if text in ("avg", "maj"):
        return Metric(name="avg" if text == "avg" else "maj")
    if found := re.fullmatch(r"pass([@^])([1-9][0-9]{0,3})", text):
        return Metric(name="pass@" if found[1] == "@" else "pass^", k=int(found[2]))
    raise UsageError(f"--metric: expected avg, maj, pass@K or pass^K (pass@8), got '{text}'")


def fewest_decided(task: TaskScore) -> int:
    """Decided samples of the problem that has fewest of them; problems without any are left out of every estimate."""
    return min((decided for _, decided in task.counts.values() if decided), default=0)


def render_metrics(score: RunScore) -> str:
    """All of them at their largest k, as Markdown; "" before a task has two decided samples of every problem."""
    tasks = [task for task in score.tasks if task.stability]
    if not tasks:
        return ""
    lines = [
        "**The same samples otherwise: percent, at the largest k; every k is in scores.json**",
        "",
        "| Task | pass@k | pass^k | G-Pass@k, τ = " + ", ".join(f"{tau:g}" for tau in TAUS) + " | mG-Pass@k | maj@k |",
        "|---|---|---|---|---|---|",
        *map(_row, tasks),
        "",
        *(f"- {line}" for task in tasks for line in _declared(task)),
        *(f"- {line}" for line in MEANINGS.values()),
    ]
    return "\n".join(lines)


def _row(task: TaskScore) -> str:
    k = max(task.pass_at)
    *shares, mean = task.stability.items()
    cells = [
        task.title,
        f"{100 * task.pass_at[k]:.2f} @{k}",
        f"{100 * task.pass_hat[k]:.2f} @{k}",
        ", ".join(f"{100 * value:.2f}" for _, value in shares) + f" @{_k(mean[0])}",
        f"{100 * mean[1]:.2f} @{_k(mean[0])}",
        *(f"{100 * value:.2f} @{k}" for k, value in task.maj_at.items()),
    ]
    return "| " + " | ".join(cells) + " |"


def _k(name: str) -> str:
    return name.split("@")[1]


def _declared(task: TaskScore) -> Iterator[str]:
    """What the estimates rest on, where it is not k decided samples of every problem."""
    decided = [number for _, number in task.counts.values()]
    some = [number for number in decided if number]
    if min(some) < max(some):
        yield f"{task.title}: problems have {min(some)} to {max(some)} decided samples; k is at most the fewest"
    if len(some) < len(decided):
        yield f"{task.title}: {len(decided) - len(some)} of {len(decided)} problems have none and are left out"
