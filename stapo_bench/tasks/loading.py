"""Task files and the problems they name. A file in ``tasks/`` is a valid lm-eval task and the harness's own definition.

    tasks/aime24.yaml --load_task--> Task --load_problems--> [Problem]

The content decides, not the place it came from: every problem is identified by a digest of its normalised text and
answer, so a hub copy and a local copy of one set give the same problem ids, in whatever order their rows stand, and a
copy that differs is refused with the name of the problem that differs.

    >>> load_task("aime24").num_problems
    30
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from stapo_bench.errors import StapoError, UsageError, did_you_mean
from stapo_bench.records import Gold, Problem
from stapo_bench.tasks.content import ContentDigest, content_digest
from stapo_bench.tasks.foreign_files import read_foreign_rows, read_foreign_text
from stapo_bench.tasks.prompt_style import style_of
from stapo_bench.tasks.resources import offered_task_folders, resource_dir
from stapo_bench.tasks.task import Source, Task
from stapo_bench.tasks.task_file import read_yaml
from stapo_bench.tasks.tool import get_tool

Kind = TypeVar("Kind")

_MOST_GENERATED = 10_000
_MOST = 1_000_000  # problems, or samples of each
_NO_TASKS = ("errata", "decoding")  # what else lies beside the task files
TASK_PREFIX = "stapo_"  # in lm-eval's registry, where names are shared with everyone's tasks


def _our_files() -> dict[str, Path]:
    """The project's own task files by name."""
    return {p.stem: p for p in sorted(resource_dir("tasks").rglob("*.yaml")) if p.stem not in _NO_TASKS}


def _all_files() -> dict[str, Path]:
    """Our task files, then those of installed packages, whose tasks need names of their own."""
    found = _our_files()
    for folder in offered_task_folders():
        for path in sorted(folder.rglob("*.yaml")):
            if path.stem in found:
                raise StapoError(f"task {path.stem}: expected one file, got {found[path.stem]} and {path}; rename one")
            found[path.stem] = path
    return found


def task_names(suite: str | None = None) -> list[str]:
    """Names of all tasks, or of a suite's in the paper's column order. A suite of ours has our tasks alone.

    >>> task_names("paper")
    ['aime24', 'aime25', 'amc23', 'math500', 'minerva', 'olympiadbench']
    """
    if suite is None:
        return [read_task(path).name for path in _all_files().values()]
    suites: set[str] = set()
    for files in (_our_files, _all_files):  # other packages are asked only where ours do not suffice
        tasks = [read_task(path) for path in files().values()]
        if names := [task.name for task in tasks if task.suite == suite]:
            return names
        suites |= {task.suite for task in tasks}
    raise UsageError(f"unknown suite '{suite}': expected one of {', '.join(sorted(suites))}")


def load_task(name: str) -> Task:
    """Read and check a task file by its name, or by its path where the name ends in ``.yaml``."""
    if name.endswith(".yaml"):
        if not Path(name).is_file():
            raise UsageError(f"unknown task '{name}': no such file")
        return read_task(Path(name))
    files = _our_files()
    if name not in files:
        files = _all_files()
    if name not in files:
        near = did_you_mean(name, files)
        hint = f"{near} ('stapo-bench tasks' lists all)" if near else f"known tasks: {', '.join(files)}"
        raise UsageError(f"unknown task '{name}': {hint}")
    return read_task(files[name])


def read_task(path: Path) -> Task:
    """Read and check one task file."""
    raw = read_yaml(path)
    metadata = raw.get("metadata", {})
    required = {"task": raw, "repeats": raw, "doc_to_text": raw, "num_problems": metadata}
    missing = [key for key, where in required.items() if key not in where]
    if missing:
        raise StapoError(f"{path}: missing {', '.join(missing)} (num_problems stands under metadata)")
    for key, value in (("repeats", raw["repeats"]), ("num_problems", metadata["num_problems"])):
        if not 1 <= value <= _MOST:
            limit = "above 0" if value < 1 else f"up to {_MOST}"
            raise StapoError(f"{path}: expected a whole number {limit} for {key}, got {value}")
    name = raw["task"].removeprefix(TASK_PREFIX)
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name):  # it names files
        raise StapoError(f"{path}: expected a task name of letters, digits and . _ + -, got {name!r}")
    return Task(
        name=name,
        title=str(metadata.get("title", name)),
        version=int(metadata.get("version", 1)),
        suite=str(metadata.get("suite", "")),
        source=Source(
            path=raw.get("dataset_path"),
            config=raw.get("dataset_name"),
            split=str(raw.get("test_split", "test")),
            revision=metadata.get("revision"),
            columns=metadata.get("columns") or {"problem": "problem", "answer": "answer"},
            generator=metadata.get("generator"),
        ),
        num_problems=metadata["num_problems"],
        num_samples=raw["repeats"],
        digest=str(metadata.get("digest", "")),
        question_template=str(raw["doc_to_text"]),
        prompt_format=str(metadata.get("prompt_format", "auto")),
        style=style_of(path, raw),
        tool=_tool(path, metadata.get("tool")),
        integer_answers=bool(metadata.get("integer_answers", False)),
        answer_type=metadata.get("answer_type"),
        licence=str(metadata.get("licence", "not stated")),
        notes=str(metadata.get("notes", "")),
        path=path,
    )


def _tool(path: Path, name: str | None) -> str | None:
    """The name of a tool that there is."""
    try:
        return None if name is None else get_tool(name).name
    except UsageError as error:
        raise StapoError(f"{path}: metadata.{error}") from None


# -- content ----------------------------------------------------------------------------------------------------------


def known_contents(task: Task) -> dict[str, ContentDigest]:
    """problem_id -> digests, from ``digests/<task>.txt`` beside the task file; empty where there is none."""
    path = task.path.parent / "digests" / f"{task.name}.txt"
    if not path.is_file():
        return {}
    rows = [line.split() for line in read_foreign_text(path, _MOST * 100).splitlines()]
    for number, row in enumerate(rows, start=1):
        if len(row) != 3:
            raise StapoError(f"{path}, line {number}: expected an id and two digests, got {len(row)} words")
    return {problem_id: ContentDigest(question, answer) for problem_id, question, answer in rows}


# -- rows -------------------------------------------------------------------------------------------------------------


def load_problems(task: Task, data_dir: Path | None = None) -> list[Problem]:
    """The task's problems, count and content checked, in the order of the rows.

    Args:
        task: from ``load_task``.
        data_dir: folder with ``<task>.jsonl`` (id, problem, answer, or the columns that the task names); None: the hub,
            or the task's own generator.

    Raises:
        StapoError: no such data, wrong count, or wrong content (names the problem that differs).
    """
    if task.source.generator is not None:
        rows, place = _generate(task, task.source.generator), f"the generator '{task.source.generator['name']}'"
    elif data_dir is not None:
        path = Path(data_dir) / f"{task.name}.jsonl"
        rows, place = [_named_as_ours(task, row) for row in _read_jsonl(path)], str(path)
    else:
        from stapo_bench.tasks import hub

        rows, place = hub.read_rows(task), f"{task.source.path} ({task.source.split})"
    problems = [_problem(task, row, number, place) for number, row in enumerate(rows, start=1)]
    return _checked(task, problems, place)


_OF_KK = ["people", "seed"]


def _generate(task: Task, generator: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The rows of a generated task: a function of its name and ``metadata.generator``."""
    from stapo_bench.tasks import kk, kk_brief, products, tiny

    lacking = [
        key
        for key in {"tiny": ["seed"], "products": ["seed"], "kk": _OF_KK, "kk-brief": _OF_KK}.get(
            str(generator.get("name")), []
        )
        if not isinstance(generator.get(key), int)
    ]
    if lacking:
        raise StapoError(f"{task.path}: generator: expected a whole number for {lacking[0]}")
    match generator.get("name"):
        case "tiny":
            return tiny.generate(task.name, generator["seed"])
        case "products" if task.num_problems <= _MOST_GENERATED:
            return products.rows("task", generator["seed"], task.num_problems)
        case "kk" | "kk-brief" if not 2 <= generator["people"] <= 8 or task.num_problems > _MOST_GENERATED:
            raise StapoError(
                f"{task.path}: generator: expected 2 to 8 people and at most {_MOST_GENERATED} problems, got "
                f"{generator['people']} and {task.num_problems}"
            )
        case "kk" | "kk-brief" as name:
            return kk.evaluation_rows(
                people=generator["people"],
                count=task.num_problems,
                seed=generator["seed"],
                in_words=kk.words if name == "kk" else kk_brief.words,
            )
    raise StapoError(
        f"{task.path}: expected a generator named tiny, products, kk or kk-brief, got {generator.get('name')!r}"
    )


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a local file; StapoError names the line that is not a JSON object."""
    if not path.is_file():
        raise StapoError(f"{path}: no such file; expected one JSON object per line with id, problem, answer")
    return [row for _, row in read_foreign_rows(path)]


def _named_as_ours(task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a local file, which may have our names of columns or those of the task's set; ours come first."""
    return {**{ours: row[theirs] for ours, theirs in task.source.columns.items() if theirs in row}, **row}


def _answer_text(value: Any, integer: bool) -> str:
    """An answer as text: lists are joined (OlympiadBench on the hub), integer answers lose ``025`` and ``27.0``.

    >>> _answer_text(["1,3,5"], integer=False), _answer_text("025", integer=True), _answer_text(27.0, integer=True)
    ('1,3,5', '25', '27')
    """
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if integer and (match := re.fullmatch(r"\s*(-?\d+)(?:\.0*)?\s*", text)):
        return str(int(match[1]))
    return text


def _problem(task: Task, row: Mapping[str, Any], number: int, place: str) -> Problem:
    """One row under our column names as a problem; ``place`` and ``number`` are for errors."""
    for key in ("problem", "answer"):
        if row.get(key) is None or row[key] in ("", []):
            raise StapoError(f"{place}, row {number}: expected a value for '{key}', got {row.get(key)!r}")
    is_multiple = _kind(row.get("is_multiple_answer"), bool, f"{place}, row {number}: 'is_multiple_answer'")
    if is_multiple is None and isinstance(row["answer"], list) and len(row["answer"]) > 1:
        is_multiple = True  # else 1 and 200 would be read as 1,200
    gold = Gold(
        answer=_answer_text(row["answer"], task.integer_answers),
        answer_type=task.answer_type,
        tolerance=_tolerance(row.get("error"), f"{place}, row {number}"),
        unit=_kind(row.get("unit") or None, str, f"{place}, row {number}: 'unit'"),
        is_multiple=is_multiple,
    )
    name = str(row.get("id", f"{task.name}-{number:03d}"))
    return Problem(task=task.name, problem_id=name, question=str(row["problem"]), gold=gold, columns=row)


def _kind(value: Any, kind: type[Kind], place: str) -> Kind | None:
    """A value of that type, or none."""
    if value is not None and not isinstance(value, kind):
        raise StapoError(f"{place}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def _tolerance(value: Any, place: str) -> float | None:
    """OlympiadBench's ``error`` column: an absolute tolerance written as text, or nothing."""
    if value in (None, ""):
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if math.isfinite(number := float(value)):
            return number
    raise StapoError(f"{place}: expected a number for 'error', got {str(value)[:60]!r}")


def _checked(task: Task, problems: list[Problem], place: str) -> list[Problem]:
    """The problems under their known ids, or an error that says which one differs."""
    if len(problems) != task.num_problems:
        raise StapoError(f"{task.path.name}: expected {task.num_problems} problems, got {len(problems)} in {place}")
    contents = [ContentDigest.of(p.question, p.gold.answer) for p in problems]
    known = known_contents(task)
    id_of = {content: problem_id for problem_id, content in known.items()}
    if task.digest and (found := content_digest(contents)) != task.digest:
        what = _first_difference(known, problems, contents) if known else "the list of problem digests is not at hand"
        raise StapoError(
            f"{task.path.name}: wrong content in {place}: expected digest {task.digest[:12]}, got {found[:12]}; {what}"
        )
    named = [
        replace(p, problem_id=id_of.get(content, p.problem_id)) for p, content in zip(problems, contents, strict=True)
    ]
    repeated = [name for name, count in Counter(p.problem_id for p in named).items() if count > 1]
    if repeated:
        raise StapoError(f"{place}: expected every id once, got '{repeated[0]}' more than once")
    return named


def _first_difference(
    known: Mapping[str, ContentDigest], problems: list[Problem], contents: list[ContentDigest]
) -> str:
    """Which row differs from the known set, and in what."""
    expected = set(known.values())
    by_question = {content.question: problem_id for problem_id, content in known.items()}
    for number, (problem, content) in enumerate(zip(problems, contents, strict=True), start=1):
        if content in expected:
            continue
        if content.question in by_question:
            return f"row {number} ({by_question[content.question]}) has another answer: {problem.gold.answer!r}"
        return f"row {number} ({problem.problem_id}) has another text: {problem.question[:60]!r}…"
    return "a problem occurs twice"
