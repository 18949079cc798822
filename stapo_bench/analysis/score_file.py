"""``scores.json``: the scores of a run on disk, and whether they are still those of its samples and grades.

    score = score_run(Path("results/stapo-justrl"))       # writes scores.json
    score = current_score(Path("results/stapo-justrl"))   # reads it, or scores anew what has changed since

``scores.json`` depends on the samples and grades alone, not on the files in which they happen to lie: a run that was
interrupted has the very bytes of one that was not. What it was made from therefore stands beside it, in
``scores.sources.json``: digests of ``scores.json`` itself, of the manifest and of the grade file, and the sizes of the
segments, which only ever grow.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from stapo_bench.analysis.scores import MacroScore, RunScore, TaskScore, run_score
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import (
    can_write,
    canonical_digest,
    load_manifest,
    read_bounded,
    read_grades,
    segment_sizes,
    write_atomically,
)
from stapo_bench.statistics import Interval
from stapo_bench.tasks import file_hashes

FORMAT = 1
SCORES = "scores.json"
SOURCES = "scores.sources.json"


def score_run(run_dir: Path, grader: str = DEFAULT_GRADER) -> RunScore:
    """Score a run with the grades of one grader and write ``scores.json``, where its folder can be written.

    Raises:
        StapoError: no such grades, or damage.
    """
    sources = _sources(run_dir, grader)  # before reading: these scores may miss samples that come meanwhile
    score = run_score(load_manifest(run_dir), grader, read_grades(run_dir, grader))
    if not can_write(run_dir):  # an archive is scored all the same
        return score
    values = to_json(score)
    write_atomically(run_dir / SCORES, _text(values))
    # Another command may write scores at the same time: the digest says whose sources these are.
    write_atomically(run_dir / SOURCES, _text({SCORES: values["sha256"], **sources}))
    return score


def current_score(run_dir: Path) -> RunScore:
    """The scores of a run as its files are now: those stored, or new ones where they are not known to be current.

    Raises:
        StapoError: the stored scores are damaged; they are not made anew here, since their grader is not known.
    """
    path = run_dir / SCORES
    if not path.is_file():
        return score_run(run_dir)
    try:
        raw = json.loads(read_bounded(path))
        score = from_json(raw)
        check_type(score, RunScore, "scores")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StapoError(
            f"{path}: expected scores, got damage ({error!r}); 'stapo-bench score {run_dir}' makes them again"
        ) from None
    is_current = _made_from(run_dir) == {SCORES: raw.get("sha256"), **_sources(run_dir, score.grades)}
    return score if is_current else score_run(run_dir, score.grades)


def score_by(run_dir: Path, grader: str) -> RunScore:
    """The stored scores where they rest on this grader; else scored in memory, and the stored stay."""
    if (run_dir / SCORES).is_file() and (score := current_score(run_dir)).grades == grader:
        return score
    return run_score(load_manifest(run_dir), grader, read_grades(run_dir, grader))


def _sources(run_dir: Path, grader: str) -> dict[str, Any]:
    """What scores are made from: sha256 of the manifest and of the grade file, and the segments' sizes in bytes."""
    grades = f"grades/{grader}.jsonl"
    files = {name: path for name in ("manifest.json", grades) if (path := run_dir / name).is_file()}
    hashes = file_hashes(list(files.values()))
    return {
        **{name: hashes[path.name] for name, path in files.items()},
        **{f"samples/{name}": size for name, size in segment_sizes(run_dir).items()},
    }


def _made_from(run_dir: Path) -> dict[str, Any] | None:
    """What the stored scores were made from; None where that is not known (older runs), or damaged."""
    try:
        found: dict[str, Any] = json.loads(read_bounded(run_dir / SOURCES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, allow_nan=False) + "\n"


def to_json(score: RunScore) -> dict[str, Any]:
    """A run's scores as plain JSON values, with their digest: NaN becomes null, an interval a pair."""
    values = dict(as_json({"format": FORMAT, **asdict(score)}))
    for task in values["tasks"]:
        for name in ("num_unread", "num_copies"):
            if not task[name]:
                del task[name]  # the file of a run without any is what it always was
    # What is off leaves no trace, as before there was such a thing.
    for name in ("imported", "top_k", "min_p", "stop", "prompt", "thinking_budget", "thinking_end"):
        if not values[name]:
            del values[name]
    return {**values, "sha256": canonical_digest(values)}


def from_json(raw: Mapping[str, Any]) -> RunScore:
    """The inverse of ``to_json``; ValueError where the values are not those that it gave."""
    if raw["format"] != FORMAT:
        raise ValueError(f"expected format {FORMAT}, got {raw['format']}")
    values = {name: value for name, value in raw.items() if name != "sha256"}
    if raw.get("sha256", digest := canonical_digest(values)) != digest:  # older files lack it
        raise ValueError("its content is not what was written: sha256 does not fit")
    tasks = tuple(
        TaskScore(
            **_with_intervals(task)
            | {name: _int_keys(task.get(name, {})) for name in ("pass_at", "pass_hat", "maj_at")}
            | {"counts": {problem_id: (right, decided) for problem_id, (right, decided) in task["counts"].items()}}
        )
        for task in raw["tasks"]
    )
    rest = {name: value for name, value in values.items() if name not in ("format", "tasks", "macro")}
    rest["stop"] = tuple(rest.get("stop", ()))
    return RunScore(**rest, tasks=tasks, macro=MacroScore(**_with_intervals(raw["macro"])))


def check_type(value: Any, kind: Any, name: str) -> None:
    """TypeError where a value, or one within it, is not of its declared type; whole numbers are numbers, too."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        for part, hint in get_type_hints(kind).items():
            check_type(getattr(value, part), hint, f"{name}.{part}")
    elif origin is UnionType:
        if value is not None:
            check_type(value, inner[0], name)
    elif origin is dict:
        for key, item in value.items():
            check_type(key, inner[0], f"{name}: {key!r}")
            check_type(item, inner[1], f"{name}.{key}")
    elif origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is ... else inner
        for item, hint in zip(value, kinds, strict=True):
            check_type(item, hint, name)
    elif isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{name} is {str(value)[:60]!r}, expected {kind.__name__}")


def _with_intervals(raw: Mapping[str, Any]) -> dict[str, Any]:
    ends = {name: [_number(end) for end in raw[name]] for name in ("these_problems", "problems_like_these", "bounds")}
    intervals = {name: Interval(low=low, high=high) for name, (low, high) in ends.items()}
    return {**raw, "value": _number(raw["value"]), **intervals}


def _int_keys(raw: Mapping[str, float]) -> dict[int, float]:
    return {int(k): value for k, value in raw.items()}


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def as_json(value: Any) -> Any:
    """A value as JSON holds it: what is not finite becomes null, an interval a pair, a key a string.

    >>> as_json({"k": (1, math.nan), "these": asdict(Interval(low=0.0, high=1.0))})
    {'k': [1, None], 'these': [0.0, 1.0]}
    """
    if isinstance(value, dict):
        if value.keys() == {"low", "high"}:
            return [as_json(value["low"]), as_json(value["high"])]
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
