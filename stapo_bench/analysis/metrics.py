"""The other numbers that k samples give, beside avg@k: pass@k, pass^k, G-Pass@k and maj@k, by name and with sources.

    metric = parse_metric("pass@8")
    metric.of(task_score)                      # (8, 0.41); None where a problem has fewer than 8 decided samples

k is at most the fewest decided samples of a problem: no estimate is unbiased beyond it. They carry no intervals here:
checkpoints are compared by avg@k, which uses every sample.
"""

import re
from dataclasses import dataclass
from typing import Literal

from stapo_bench.analysis.scores import TaskScore
from stapo_bench.errors import UsageError
from stapo_bench.records import Outcomes
from stapo_bench.statistics import pass_at_k, pass_hat_k


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a table shows: ``avg`` and ``maj`` at each task's own k, ``pass@`` and ``pass^`` at the k asked for."""

    name: Literal["avg", "maj", "pass@", "pass^"]
    k: int | None = None

    def __str__(self) -> str:
        return f"{self.name}@k" if self.k is None else f"{self.name}{self.k}"

    def of(self, task: TaskScore) -> tuple[int, float] | None:
        """k and value on a task; None where its problems have too few decided samples."""
        if self.k is None:
            return next(iter(task.maj_at.items()), None)
        if fewest_decided(task) < self.k:
            return None
        correct = Outcomes.of_counts(task.counts).scores
        return self.k, (pass_at_k if self.name == "pass@" else pass_hat_k)(correct, self.k)


AVG: Metric = Metric(name="avg")


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
