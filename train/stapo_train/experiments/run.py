"""Runs several experiments one after the other: estimates, steps, pages.

plans = Plans.of(["main", "controls"], Path("runs/experiments"), Path("results/experiments"))
plans.run(jobs=2, tell=print)
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_train.experiments.costs import run_steps
from stapo_train.experiments.design import Experiment, load_experiment
from stapo_train.experiments.index import write_index
from stapo_train.experiments.pages import write_page
from stapo_train.experiments.steps import CPU_SECONDS, Step, plan

Tell = Callable[[str], object]
"""Shows the user a line of progress."""


@dataclass(frozen=True, kw_only=True)
class Plans:
    """Experiments with their steps, and the folders of their runs and pages."""

    steps: Sequence[tuple[Experiment, Mapping[str, Step]]]
    out: Path
    results: Path

    @classmethod
    def of(cls, names: Sequence[str], out: Path, results: Path, num_seeds: int | None = None) -> "Plans":
        """Plans of experiments given by name or file, with the first ``num_seeds`` seeds (default: all)."""
        found = [load_experiment(name) for name in names]
        return cls(steps=[(each, plan(each, out, num_seeds)) for each in found], out=out, results=results)

    def estimates(self) -> str:
        """What each experiment would run, and all of them together."""
        lines = [estimate(experiment, steps) for experiment, steps in self.steps]
        together = {name: step for _, steps in self.steps for name, step in steps.items() if not step.is_done()}
        hours = sum(step.cpu_s for step in together.values()) / 3600
        return "\n".join([*lines, f"together, what they share counted once: {hours:.1f} CPU-hours"])

    def write_pages(self, tell: Tell) -> None:
        """Write the pages of finished results and the list of all experiments."""
        for experiment, _ in self.steps:
            tell(f"written: {self._write_page(experiment)}")
        tell(f"written: {write_index(self.results)}")

    def run(self, jobs: int, tell: Tell) -> None:
        """Run the unfinished steps, ``jobs`` at once, one experiment after the other up to its page."""
        if shutil.which("stapo-bench") is None or shutil.which("stapo-train") is None:
            raise StapoError("stapo-bench or stapo-train is not on PATH: first 'source scripts/environment.sh'")
        for experiment, steps in self.steps:
            tell(f"== {experiment.name}")
            run_steps(steps, self.out, max(1, jobs))
            page = self._write_page(experiment)
            write_index(self.results)
            tell(f"written: {page}")

    def _write_page(self, experiment: Experiment) -> Path:
        return write_page(experiment, self.out, self.results / experiment.name)


def estimate(experiment: Experiment, steps: Mapping[str, Step]) -> str:
    """How many commands of each kind, how many are left, and their CPU time."""
    lines = [f"{experiment.name}: {experiment.question}"]
    left = [step for step in steps.values() if not step.is_done()]
    for kind in CPU_SECONDS:
        if total := sum(step.kind == kind for step in steps.values()):
            times = [step.cpu_s for step in left if step.kind == kind]
            lines.append(f"  {kind:<9} {len(times):4d} of {total:4d} to run   {sum(times) / 60:7.1f} CPU-minutes")
    return "\n".join([*lines, f"  all       {sum(step.cpu_s for step in left) / 3600:.1f} CPU-hours"])
