"""Which formats there are, and where their files go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.exporting.every_eval_ever import UNKNOWN, write_every_eval_ever
from stapo_bench.presenting.exporting.graded_run import GradedRun
from stapo_bench.presenting.exporting.hub_results import left_out, write_hub
from stapo_bench.presenting.exporting.inspect_logs import write_inspect
from stapo_bench.presenting.exporting.lm_eval_logs import write_lm_eval
from stapo_bench.presenting.exporting.trackers import log_to_mlflow, log_to_wandb
from stapo_bench.runs import nothing_left_behind

FORMATS: Mapping[str, Callable[[GradedRun, Path], list[Path]]] = {
    "lm-eval": write_lm_eval,
    "inspect": write_inspect,
    "every-eval-ever": write_every_eval_ever,
    "hub": write_hub,
    "mlflow": log_to_mlflow,
    "wandb": log_to_wandb,
}
"""By name, what writes a run's files into a folder and returns their paths."""

_SERVICES = ("mlflow", "wandb")  # they keep what they get in their own way: ``out`` is a name there


@dataclass(frozen=True, kw_only=True)
class Written:
    """What an export wrote."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]  # what the format requires and nobody knows, and what it cannot say


def export_as(
    format_: str, run_dirs: Sequence[Path], out: Path, grader: str = DEFAULT_GRADER, data_dir: Path | None = None
) -> Written:
    """Write runs in a tool's format.

    Args:
        format_: one of ``FORMATS``.
        run_dirs: run folders.
        out: a folder; with several runs each gets one of its own in it, under its name. Of MLflow and W&B the name of
            the experiment or project.
        grader: whose grades count.
        data_dir: where the tasks' data are; logs with samples hold the problems' texts.

    Raises:
        StapoError: no such grades, texts that are not at hand, two runs of one name, or a file that cannot be written.
    """
    runs = [GradedRun(run_dir, grader, data_dir) for run_dir in run_dirs]
    names = [run.manifest.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise StapoError(
            f"expected runs of different names, got two called {twice}; export each to an --out of its own"
        )
    files: list[Path] = []
    with nothing_left_behind(out):
        for run, name in zip(runs, names, strict=True):
            alone = len(runs) == 1 or format_ in _SERVICES
            files += FORMATS[format_](run, out if alone else out / name)
    return Written(files=tuple(files), notes=tuple(note for run in runs for note in _notes(run, format_)))


def _notes(run: GradedRun, format_: str) -> list[str]:
    name = run.manifest.name
    if format_ == "every-eval-ever":
        lacking = ["source_metadata.source_organization_name"]
        lacking += ["model_info.name", "model_info.id"] if run.manifest.about.model is None else []
        return [f'{name}: required and not known, so that they say "{UNKNOWN}"; fill in {", ".join(lacking)}']
    if format_ == "hub":
        titles = left_out(run)
        notes = [f"{name}: left out, as the hub has no such data set or there is no score: {', '.join(titles)}"]
        task_ids = f"{name}: a data set's eval.yaml says which task_id it has; put that in where it is another"
        return [*(notes if titles else []), *([task_ids] if len(titles) < len(run.score.tasks) else [])]
    return []
