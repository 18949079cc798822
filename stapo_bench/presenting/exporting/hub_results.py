"""What the Hugging Face hub shows of a model: ``.eval_results/<task>.yaml``, and a block for its model card.

https://huggingface.co/docs/hub/eval-results says what the files hold; ``model-index`` is the older block at the top of
a card. Both name a data set of the hub: a set that is not there is left out. Scores are in percent.
"""

import math
from pathlib import Path
from typing import Any

import yaml

from stapo_bench.analysis import TaskScore
from stapo_bench.presenting.exporting.graded_run import GradedRun, file_name
from stapo_bench.presenting.words import score_interval
from stapo_bench.runs import optional_settings, refuse_foreign, write_result
from stapo_bench.statistics import LEVEL
from stapo_bench.tasks import Task

FOLDER = ".eval_results"
CARD = "model-card.md"
_RESULTS_BEGIN = "# written by stapo-bench export\n"  # others' results of the same data set may lie in the repository
_CARD_BEGINS = "---\nmodel-index:\n"


def write_hub(run: GradedRun, out: Path) -> list[Path]:
    """Write the files of a model's repository into a folder; returns their paths.

    Raises:
        UsageError: one of these names is another's file.
    """
    shown = _shown(run)
    files = [out / FOLDER / f"{file_name(task.task)}.yaml" for task, _ in shown]
    for file in files:
        refuse_foreign(file, _RESULTS_BEGIN.encode())
    if shown:
        refuse_foreign(out / CARD, _CARD_BEGINS.encode())
    for file, (task, found) in zip(files, shown, strict=True):
        write_result(file, _RESULTS_BEGIN + _yaml([_entry(run, task, found)]))
    if shown:
        files.append(out / CARD)
        results = [_indexed(task, found) for task, found in shown]
        index = [{"name": run.manifest.about.model or run.score.method, "results": results}]
        write_result(files[-1], f"---\n{_yaml({'model-index': index})}---\n")
    return files


def left_out(run: GradedRun) -> list[str]:
    """Titles of the tasks that the hub cannot name, or that have no score."""
    shown = [task for task, _ in _shown(run)]
    return [task.title for task in run.score.tasks if task not in shown]


def _shown(run: GradedRun) -> list[tuple[TaskScore, Task]]:
    """The tasks with a score whose data set is on the hub, and their files."""
    scored = [(task, run.task(task.task)) for task in run.score.tasks if not math.isnan(task.value)]
    return [(task, found) for task, found in scored if found is not None and found.source.path is not None]


def _yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000))


def _percent(fraction: float) -> float:
    return round(100 * fraction, 2)


def _entry(run: GradedRun, task: TaskScore, definition: Task) -> dict[str, Any]:
    dataset = {"id": definition.source.path, "task_id": definition.source.config or "default"}
    if definition.source.revision is not None:
        dataset["revision"] = definition.source.revision
    entry: dict[str, Any] = {"dataset": dataset, "value": _percent(task.value)}
    if run.created:
        entry["date"] = run.created
    return {**entry, "notes": _notes(run, task)}


def _notes(run: GradedRun, task: TaskScore) -> str:
    """How it was measured, as far as it is known."""
    sampling = run.manifest.identity.sampling
    parts = [_uncertainty(task), f"grader {run.score.grader}"]
    known = {"temperature": sampling.temperature, "top-p": sampling.top_p, "max new tokens": sampling.max_new_tokens}
    parts += [f"{name} {value:g}" for name, value in known.items() if value is not None]
    parts += [f"{name.replace('_', ' ')} {value!r}" for name, value in optional_settings(sampling).items()]
    return ", ".join([*parts, *filter(None, [run.score.prompt])])


def _uncertainty(task: TaskScore) -> str:
    """The metric with its interval for problems like these, in percent."""
    interval = score_interval(task.problems_like_these)
    return f"avg@{task.samples_per_problem} in percent, {100 * (1.0 - LEVEL):g} % interval {interval}"


def _indexed(task: TaskScore, definition: Task) -> dict[str, Any]:
    source = definition.source
    dataset = {"type": source.path, "name": task.title, "config": source.config, "split": source.split}
    metric = {"type": "accuracy", "name": _uncertainty(task), "value": _percent(task.value)}
    return {
        "task": {"type": "text-generation"},
        "dataset": {name: value for name, value in dataset.items() if value is not None},
        "metrics": [metric],
    }
