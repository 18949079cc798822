"""Scores of runs in MLflow and Weights & Biases: settings as parameters, scores with their intervals as metrics.

Where the records are kept is said in the tools' own way (``MLFLOW_TRACKING_URI``, ``WANDB_MODE=offline``). No sample is
sent.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.presenting.exporting.graded_run import GradedRun
from stapo_bench.presenting.tables.rows import rows_from_scores
from stapo_bench.presenting.tables.table import render_table


def log_to_mlflow(run: GradedRun, out: Path) -> list[Path]:
    """Log a run into the experiment that ``out`` names; no file of ours is written."""
    import mlflow

    with refusals("mlflow"):
        mlflow.set_experiment(out.name)
        with mlflow.start_run(run_name=run.manifest.name):
            mlflow.log_params(settings(run))
            mlflow.log_metrics(metrics(run))
            mlflow.log_text(_table(run), "table.md")
    return []


def log_to_wandb(run: GradedRun, out: Path) -> list[Path]:
    """Log a run into the project that ``out`` names; exported again, it is the same run there."""
    import wandb

    name = f"{run.manifest.digest[:16]}-{run.grader}"
    about = {"project": out.name, "name": run.manifest.name, "notes": _table(run), "config": settings(run)}
    with refusals("wandb"), wandb.init(id=name, resume="allow", **about) as logged:
        logged.summary.update(metrics(run))
    return []


_SERVICES = {
    "mlflow": ("MLflow", "MlflowException", "MLFLOW_TRACKING_URI"),
    "wandb": ("Weights & Biases", "Error", "WANDB_MODE, WANDB_API_KEY"),
}
"""Of each module: the service, its own error, and the variables that say where it keeps records."""


@contextmanager
def refusals(module: str) -> Iterator[None]:
    """A service's own error as one line.

    Raises:
        StapoError: the service takes nothing.
    """
    service, error, variables = _SERVICES[module]
    try:
        yield
    except getattr(import_module(module), error) as refused:
        said = " ".join(str(refused).split())[:300]
        raise StapoError(f"{service} took nothing: {said}; see its settings ({variables}), then again") from None


def settings(run: GradedRun) -> dict[str, str | float]:
    """What decided the samples and their grades, as far as it is known."""
    about = run.manifest.about
    found = {
        "model": about.model,
        "method": about.method,
        "step": about.step,
        "decoding": about.regime,
        **asdict(run.manifest.identity.sampling),
        "seed": run.manifest.seed,
        "checkpoint": run.manifest.identity.checkpoint_digest,
        "commit": about.commit,
        "imported": run.manifest.imported,
        "grader": run.score.grader,
        "run_digest": run.manifest.digest,
    }
    return {name: value for name, value in found.items() if value is not None}


def metrics(run: GradedRun) -> dict[str, float]:
    """By ``task/what``: avg@k, the ends of its interval for problems like these, and counts. Scores are fractions."""
    found: dict[str, float] = {}
    for task in run.score.tasks:
        name = task.task
        found[f"{name}/avg_at_{task.samples_per_problem}"] = task.value
        found[f"{name}/low"], found[f"{name}/high"] = task.problems_like_these.low, task.problems_like_these.high
        found[f"{name}/num_problems"] = float(task.num_problems)
        found[f"{name}/num_no_answer"] = float(task.num_no_answer)
        found[f"{name}/num_grader_errors"] = float(task.num_grader_errors)
        found[f"{name}/num_truncated"] = math.nan if task.num_truncated is None else float(task.num_truncated)
    average = run.score.macro
    found["average/avg_at_k"] = average.value
    found["average/low"], found["average/high"] = average.problems_like_these.low, average.problems_like_these.high
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _table(run: GradedRun) -> str:
    return render_table(rows_from_scores([run.score], run_dirs=[run.path]))
