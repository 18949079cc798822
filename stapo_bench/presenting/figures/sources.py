"""What figures are made of: scored runs and training logs, read into records.

    sources = Sources(runs=[Path("results/stapo")], logs=[Path("runs/stapo")])
    sources.scores, sources.trainings

Nothing is read before it is asked for, and nothing twice. A training log is the folder that ``stapo-train`` writes
(``config.yaml``, ``metrics.jsonl``, ``dumps/``), or a folder of such folders.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stapo_bench.analysis import RunScore, score_by, truncation
from stapo_bench.errors import StapoError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.figures.style import METHODS
from stapo_bench.runs import LoadedRun, complete_lines, flatten, load_run, unseal
from stapo_bench.statistics import Vector
from stapo_bench.tasks import read_foreign_yaml

_NOT_SETTINGS = ("out", "seed", "device", "tensorboard", "wandb")
"""Config fields in which two runs of one experiment may differ."""


class MissingDataError(StapoError):
    """The sources do not hold what a figure shows; the message says which command makes it."""


@dataclass(frozen=True, kw_only=True)
class TrainingLog:
    """A training log."""

    folder: Path
    out: Path  # where it was trained: its checkpoints are known by this path
    seed: int
    objective: Mapping[str, Any]  # its name, and settings as far as the config states them
    config: Mapping[str, Any]  # the whole of config.yaml
    records: tuple[Mapping[str, Any], ...]  # lines of metrics.jsonl

    @property
    def method(self) -> str:
        """The label of the objective, as tables have it."""
        name = str(self.objective["name"])
        return METHODS[name].label if name in METHODS else name

    def settings(self, *, but: Sequence[str] = ()) -> str:
        """All settings except the seed and these of the objective, as text; equal ones may share a line."""
        objective = {name: value for name, value in self.objective.items() if name not in but}
        rest = {name: value for name, value in self.config.items() if name not in _NOT_SETTINGS}
        return json.dumps({**rest, "objective": objective}, sort_keys=True)

    def leaves(self) -> dict[str, Any]:
        """All settings but the seed and the objective's, by dotted name."""
        return flatten({name: v for name, v in self.config.items() if name not in (*_NOT_SETTINGS, "objective")})

    @property
    def iterations(self) -> tuple[int, ...]:
        """Numbers of the iterations that the log holds."""
        return tuple(int(record["iteration"]) for record in self.records)

    def column(self, *names: str) -> Vector:
        """[num_iterations] values of a (nested) field; NaN where it is null or absent: not measured."""
        return np.array([_nested(record, names) for record in self.records], dtype=np.float64)

    @property
    def dumps(self) -> tuple[Path, ...]:
        """Mini-batches on disk, in order of their iterations."""
        return tuple(sorted(path.parent for path in (self.folder / "dumps").glob("iteration-*/dump.json")))

    def has_made(self, checkpoint: Path) -> bool:
        """Whether it is one of this training's checkpoints, by its path, in part or whole."""
        made_in = trained_in(checkpoint)
        return made_in.resolve() == self.folder.resolve() or _same_end(made_in.parts, self.out.parts)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Run folders and training logs, by path; what is in them is read once."""

    runs: Sequence[Path] = ()
    logs: Sequence[Path] = ()
    grader: str = DEFAULT_GRADER  # whose grades the scores rest on, whichever a run was last scored with

    @cached_property
    def scores(self) -> tuple[RunScore, ...]:
        """Scores of the runs, in their order."""
        return tuple(score_by(run, self.grader) for run in watched(self.runs, "scoring", "runs", len(self.runs)))

    @cached_property
    def loaded(self) -> tuple[LoadedRun, ...]:
        """The runs' samples, with the grades that their scores rest on."""
        return tuple(load_run(run, score.grades) for run, score in zip(self.runs, self.scores, strict=True))

    @cached_property
    def at_token_limits(self) -> tuple[list[dict[int, float]], ...]:
        """Of each run, by task, its score at every token limit; none where the lengths of some samples are unknown."""
        by_task = [[dict(task.curve) for task in truncation(run)] for run in self.loaded]
        return tuple(curves if all(curves) else [] for curves in by_task)

    @cached_property
    def trainings(self) -> tuple[TrainingLog, ...]:
        """Training logs, in the order of their folders."""
        return tuple(read_training(folder) for log in self.logs for folder in training_folders(log))

    @cached_property
    def evaluated(self) -> tuple[tuple[TrainingLog, RunScore], ...]:
        """Trainings with the scores of their last evaluated checkpoint, one pair per way of decoding."""
        pairs: list[tuple[TrainingLog, RunScore]] = []
        for training in self.trainings:
            last: dict[tuple[Any, ...], RunScore] = {}
            for score in self.scores:
                before = last.get(setting(score))
                if training.has_made(Path(score.checkpoint)) and (
                    before is None or (score.step or 0) > (before.step or 0)
                ):
                    last[setting(score)] = score
            pairs += [(training, score) for score in last.values()]
        return tuple(pairs)


def setting(score: RunScore) -> tuple[Any, ...]:
    """What two runs must share for their averages to be compared: tasks with their samples, decoding, grader."""
    tasks = tuple((task.task, task.samples_per_problem) for task in score.tasks)
    return tasks, score.sampling, score.grader


def trained_in(checkpoint: Path) -> Path:
    """The folder that a checkpoint's training wrote, by its path.

    >>> trained_in(Path("runs/stapo/checkpoints/step-000020")), trained_in(Path("out/checkpoint-20"))
    (PosixPath('runs/stapo'), PosixPath('out'))
    """
    return checkpoint.parent.parent if checkpoint.parent.name == "checkpoints" else checkpoint.parent


def training_folders(path: Path) -> list[Path]:
    """The training logs in a folder: itself, or those in it. Pretraining has metrics.jsonl too, but no config.yaml."""
    if (path / "metrics.jsonl").is_file():
        return [path]
    found = sorted(file.parent for file in path.glob("*/metrics.jsonl") if (file.parent / "config.yaml").is_file())
    if not found:
        raise StapoError(f"{path}: expected a training log (metrics.jsonl), found none; 'stapo-train' writes one")
    return found


def read_training(folder: Path) -> TrainingLog:
    """Read a log; a last line that is being written is left out.

    Raises:
        StapoError: config.yaml is missing, a line is damaged, or a finished training lacks lines.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise StapoError(f"{folder}: expected config.yaml beside metrics.jsonl, found none; copy the whole log")
    config = read_foreign_yaml(path)
    if not isinstance(config, dict):
        raise StapoError(f"{path}: expected a training's config, got {type(config).__name__}")
    records = []
    for number, line in complete_lines(folder / "metrics.jsonl"):
        try:
            record = unseal(line)
            int(record["iteration"])
        except (ValueError, KeyError, TypeError) as error:
            raise StapoError(f"{folder / 'metrics.jsonl'}:{number}: expected an iteration, got {error!r}") from None
        records.append(record)
    if (folder / "checkpoints" / "final").is_dir() and len(records) < (expected := int(config.get("iterations", 0))):
        raise StapoError(
            f"{folder / 'metrics.jsonl'}: expected the {expected} iterations of a finished training, got "
            f"{len(records)} whole lines; restore the file"
        )
    try:
        return TrainingLog(
            folder=folder,
            out=Path(config["out"]),
            seed=int(config["seed"]),
            objective=config["objective"],
            config=config,
            records=tuple(records),
        )
    except KeyError as error:
        raise StapoError(f"{path}: expected a training's config, found no {error}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise StapoError(f"{path}: expected a training's config, got damage: {error}") from None


def _nested(record: Any, names: Sequence[str]) -> float:
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return float("nan") if record is None else float(record)


def _same_end(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the last parts agree, as in a relative path and the same folder's absolute path."""
    shorter = min(len(one), len(other))
    return shorter > 0 and tuple(one)[-shorter:] == tuple(other)[-shorter:]
