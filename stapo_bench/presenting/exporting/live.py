"""A followed training in MLflow, TensorBoard or Weights & Biases: its checkpoints' scores over the training's steps.

    with open_logs(["wandb"], Path("results/stapo")) as log:
        log(entry)                          # whenever a checkpoint has ended

The numbers are those of ``export``, avg@k with its interval and counts, and the gain over the base with the interval
that holds at every look. Started again, the command logs all points again, with the same values at the same steps:
TensorBoard shows each once, and the histories of MLflow and W&B hold it twice.
Projects and places are said in the tools' own way (WANDB_PROJECT, MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_URI).
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.exporting.graded_run import GradedRun
from stapo_bench.presenting.exporting.trackers import metrics, refusals
from stapo_bench.sampling import Entry

Log = Callable[[int, Mapping[str, float]], object]
"""Takes a training's step and what is known there."""

PROJECT = "stapo-bench"


@contextmanager
def open_logs(names: Sequence[str], out: Path) -> Iterator[Callable[[Entry], None]]:
    """What takes each checkpoint that has ended, and hands its numbers to the trackers of these names.

    Args:
        names: of ``LIVE``.
        out: the folder of all runs; a training that is followed into it again is the same run in a tracker.

    A tracker's run begins with the first of them, so that what is refused before leaves none behind.

    Raises:
        ModuleNotFoundError: a tracker's package is missing.
        StapoError: a tracker takes nothing.
    """
    for name in names:
        import_module(name)
    logs: dict[str, Log] = {}
    with ExitStack() as opened:

        def log(entry: Entry) -> None:
            if not names or entry.state == "vanished":
                return
            values = numbers(entry, out)
            for name in names:
                if name not in logs:
                    logs[name] = opened.enter_context(LIVE[name](out, _identity(out)))
                logs[name](entry.step or 0, values)

        yield log


def numbers(entry: Entry, out: Path) -> dict[str, float]:
    """What is logged of a checkpoint: its run's metrics, and the gain over the base."""
    gain = {"gain/value": entry.value, "gain/low": entry.low, "gain/high": entry.high}
    known = {name: value for name, value in gain.items() if value is not None}
    return metrics(GradedRun(out / entry.run, DEFAULT_GRADER, None)) | known


def _identity(out: Path) -> str:
    return hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]


@contextmanager
def _mlflow(out: Path, identity: str) -> Iterator[Log]:
    import mlflow

    with refusals("mlflow"):
        mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
        known = mlflow.search_runs(filter_string=f"tags.followed = '{identity}'", output_format="list", max_results=1)
        again = {"run_id": known[0].info.run_id} if known else {"run_name": out.name, "tags": {"followed": identity}}
        with mlflow.start_run(**again):
            yield lambda step, values: mlflow.log_metrics(values, step=step)


@contextmanager
def _tensorboard(out: Path, _: str) -> Iterator[Log]:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(out / "tensorboard"), purge_step=0) as writer:  # what was logged before comes again

        def log(step: int, values: Mapping[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
            writer.flush()

        yield log


@contextmanager
def _wandb(out: Path, identity: str) -> Iterator[Log]:
    import wandb

    project = os.environ.get("WANDB_PROJECT", PROJECT)
    with refusals("wandb"), wandb.init(project=project, name=out.name, id=identity, resume="allow") as run:
        run.define_metric("*", step_metric="step")  # by W&B's own count a resumed run would lose its first points
        yield lambda step, values: run.log({"step": step, **values})


LIVE: Mapping[str, Callable[[Path, str], AbstractContextManager[Log]]] = {
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
}
"""By name, what opens a tracker for the folder of a followed training and its identity."""
