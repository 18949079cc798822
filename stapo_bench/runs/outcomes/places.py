"""Where outcomes lie: a file, a folder or an archive of files, a place within an archive; packed or not.

    (table,) = read_outcomes(Path("a.csv"))
    table.tasks["all items"].outcomes.scores

A folder is one side: the union of its files. A file that names no task is one by its own name, as lm-eval writes
``samples_<task>_<time>.jsonl``; files whose names differ in a seed alone hold samples of one task. What holds no
outcomes is left out and named.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs.importing.opening import open_file
from stapo_bench.runs.importing.unpacking import Found, files_at
from stapo_bench.runs.outcomes.cells import NotOutcomesError
from stapo_bench.runs.outcomes.outcome_table import ALL_ITEMS, OutcomeTable
from stapo_bench.runs.outcomes.reading import Collected, Read, collected, read_file, tables_from, tables_of
from stapo_bench.runs.outcomes.values import ScoreRange

_OF_LM_EVAL = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[-.\d]+")
_SEED = re.compile(r"[-_.](?:rs|seed)[-_]?\d+$")
_PACKED = (".gz", ".zst")
_SHOWN = 3


def is_run(path: Path) -> bool:
    """Whether it is a run folder, and not a folder of files."""
    return (path / "manifest.json").is_file()


def is_there(path: Path) -> bool:
    """Whether it is a file or folder, or a place within what may be an archive."""
    return path.exists() or any(parent.is_file() for parent in path.parents)


def read_outcomes(
    path: Path, named: Mapping[str, str] | None = None, declared: ScoreRange | None = None
) -> list[OutcomeTable]:
    """The outcomes in a file, folder or archive, one table per model in it.

    Args:
        path: where they lie.
        named: columns by meaning (item, score, sample, model, task, seed, cluster) that have unusual names. For another
            tool's log with verdicts by several metrics, ``score`` names the metric; files without it are left out of a
            folder.
        declared: the range of the scores, if it is another than 0 to 1; they are mapped to that.

    Raises:
        StapoError: no outcomes, a score beyond its range, one that stands twice, or two models in folders of theirs.
    """
    with TemporaryDirectory(prefix="stapo-bench-") as scratch:  # for what has to be unpacked
        kind, files = files_at(path, Path(scratch))
        if kind != "file":
            return _of_folder(path, path.stem if kind == "archive" else path.name, files, (named or {}, declared))
        read = read_file(open_file(files[0].path, path), named or {}, declared)
        return tables_of(_stem(path), str(path), read)


def _of_folder(
    folder: Path, name: str, files: Sequence[Found], reading: tuple[Mapping[str, str], ScoreRange | None]
) -> list[OutcomeTable]:
    """The union of files; ``cluster=task`` makes their tasks the clusters."""
    if runs := [file.label.parent for file in files if file.label.name == "manifest.json"]:
        raise UsageError(f"{folder}: holds run folders ({_listed(runs)}); name those that are meant")
    named, declared = reading
    in_tasks = named.get("cluster") == "task"
    named = {meaning: column for meaning, column in named.items() if not in_tasks or meaning != "cluster"}
    taken: list[tuple[Path, Collected]] = []
    ways: Counter[str] = Counter()
    left_out = []
    for file in files:
        try:
            if not file.path.stat().st_size:
                raise NotOutcomesError(f"{file.label}: it is empty")
            read = read_file(open_file(file.path, file.label), named, declared)
            taken.append((file.label, collected(str(file.label), read.cells)))
            ways[read.how] += 1
        except NotOutcomesError as error:
            left_out.append(str(error).removeprefix(f"{folder}{os.sep}"))
    without = f"{len(left_out)} of {_files(len(files))} left out, without outcomes: {_listed(left_out)}"
    if not taken:
        raise NotOutcomesError(
            f"not a run folder: {folder}: expected manifest.json in it, or files with outcomes; "
            + (without if files else "it is empty")
        )
    how = "; ".join(f"{_files(num)}, {way}" for way, num in ways.items())
    first, *others = tables_from(name, str(folder), _union(folder, taken), Read(how, (), in_tasks))
    notes = (*first.notes, *[f"{folder}: {without}"] * bool(left_out))
    return [replace(first, notes=notes), *others]


def _union(folder: Path, taken: Sequence[tuple[Path, Collected]]) -> Collected:
    """All outcomes by model and task.

    Raises:
        StapoError: files that name no model in several folders, or a task in several files.
    """
    parents = sorted({label.parent for label, found in taken if None in found})
    if len(parents) > 1:
        raise UsageError(
            f"{folder}: holds outcomes in {len(parents)} folders; name that of one model: {_listed(parents)}"
        )
    unnamed = {_task_of(label) for label, found in taken if any(ALL_ITEMS in tasks for tasks in found.values())}
    union: Collected = {}
    places: dict[tuple[str | None, str], Path] = {}
    for label, found in taken:
        for model, tasks in found.items():
            for name, held in tasks.items():
                by_file = name == ALL_ITEMS and (len(unnamed) > 1 or _OF_LM_EVAL.fullmatch(_stem(label)))
                task = _task_of(label) if by_file else name
                first = places.setdefault((model, task), label)
                if first == label:
                    union.setdefault(model, {})[task] = held
                elif _SEED.search(_stem(first)) and (seed := _SEED.search(_stem(label))):
                    union[model][task].join(held, seed[0])
                else:
                    raise StapoError(
                        f"{folder}: {task} stands in {first.name} and in {label.name}: expected one file of each task, "
                        "or seeds in their names (-rs0, -seed1); name the file that is meant"
                    )
    return union


def _task_of(label: Path) -> str:
    """The task that a file's name says."""
    stem = _stem(label)
    of_lm_eval = _OF_LM_EVAL.fullmatch(stem)
    return of_lm_eval[1] if of_lm_eval else _SEED.sub("", stem)


def _stem(path: Path) -> str:
    """The name without its endings: that of a format, and before it that of a compression.

    >>> _stem(Path("a/samples.jsonl.gz"))
    'samples'
    """
    return Path(path.stem).stem if path.suffix in _PACKED else path.stem


def _files(number: int) -> str:
    return f"{number} file{'s' * (number != 1)}"


def _listed(names: Iterable[object]) -> str:
    found = list(map(str, names))
    return "; ".join([*found[:_SHOWN], *["…"] * (len(found) > _SHOWN)])
