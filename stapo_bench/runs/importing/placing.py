"""Into which tasks the files' problems go: a file most of whose problems are a task's is that task.

All others are sets of their own, whose names and ids come from their content, so that two runs of one set can be
compared.
"""

import json
import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, Problem, PromptStyle
from stapo_bench.runs.identity import read_style
from stapo_bench.runs.importing.matching import Candidate, candidates_of, differ, generated_task, match
from stapo_bench.runs.importing.survey import FoundProblem, ProblemKey, Survey
from stapo_bench.runs.nested import JsonFields, canonical_digest
from stapo_bench.tasks import ContentDigest, Task, normalise, task_names

_LISTED = 3  # problems named in a note
OWN = "own"


@dataclass(kw_only=True)
class ImportedTask:
    """A task of the run that is made."""

    name: str
    title: str
    problems: list[Problem]  # with their golds, where they are known
    asked: tuple[str, ...]  # ids of all its problems
    file: str | None = None  # of a task file that is not part of the package


@dataclass(kw_only=True)
class Placed:
    """Where the files' problems go."""

    tasks: list[ImportedTask]
    places: Mapping[ProblemKey, tuple[str, str]]  # task and problem id; what is not here is left out
    notes: list[str] = field(default_factory=list)

    def style_of(self, task: str, found: Survey) -> PromptStyle | None:
        """What stood around a task's questions: what all files that hold any of them say; else it is not known."""
        files = {file for key, place in self.places.items() if place[0] == task for file in found.problems[key].files}
        said = {found.sources[file].stated.style or found.stated.style for file in files}
        style = said.pop() if len(said) == 1 else None
        return None if style is None else read_style(JsonFields(json.loads(style), "style"))


def place(found: Survey, tasks: Sequence[str], name: str | None, data_dir: Path | None) -> Placed:
    """Match the problems and put every file's into tasks.

    Args:
        found: what the files hold.
        tasks: names or files of tasks: only their problems are taken; ``own``: nothing is matched; none: by content.
        name: of a set that is not ours; None: what the file calls it, or a digest of its content.
        data_dir: where tasks' data are; None: only generated tasks have theirs.
    """
    if OWN in tasks and len(tasks) > 1:
        raise UsageError("--task own: expected it alone, as nothing is matched then")
    chosen = [task for task in tasks if task != OWN]
    candidates = [] if OWN in tasks else candidates_of(chosen, data_dir)
    matches = match(found.problems, candidates)
    if not tasks and (said := {p.task for p in found.problems.values() if p.task} & set(task_names())):
        # Making the problems of generated tasks takes seconds: only of those that the files name.
        generated = [c for name in sorted(said) if (c := generated_task(name)) is not None]
        more = match({key: p for key, p in found.problems.items() if key not in matches}, generated)
        candidates, matches = [*candidates, *generated], {**matches, **more}
    if chosen and not matches:
        raise StapoError(
            f"--task {', '.join(chosen)}: none of the {len(found.problems)} problems of the files is one of its"
        )
    ours, notes = _ours(found, matches, is_forced=bool(tasks))
    placed = Placed(tasks=[], places=ours, notes=notes)
    _place_ours(found, ours, candidates, placed)
    rest = [] if chosen else [key for key in found.problems if _is_own(found, key, ours)]
    placed.places = {**ours, **_place_own(found, rest, name, placed)}
    left = [found.problems[key] for key in found.problems if key not in placed.places]
    if left:
        whole = "" if tasks else "; --task own takes all of the files' problems, as a set of their own"
        placed.notes.append(
            f"left out: {len(left)} problems whose text is none of {_names(placed.tasks)}: {_first(left)}{whole}"
        )
    return placed


def _ours(
    found: Survey, matches: Mapping[ProblemKey, tuple[str, str]], *, is_forced: bool
) -> tuple[dict[ProblemKey, tuple[str, str]], list[str]]:
    """Matches that count: those of files of which at least half is matched, or all where a task was asked for."""
    notes: list[str] = []
    ours: dict[ProblemKey, tuple[str, str]] = {}
    for file, source in enumerate(found.sources):
        keys = [key for key, problem in found.problems.items() if file in problem.files]
        of_file = {key: matches[key] for key in keys if key in matches}
        if is_forced or 2 * len(of_file) >= len(keys):
            ours |= of_file
        elif of_file:
            task, count = Tally(task for task, _ in of_file.values()).most_common(1)[0]
            notes.append(
                f"{source.opened.label.name}: a set of its own: only {count} of its {len(keys)} problems are {task}'s; "
                f"--task {task} imports those alone"
            )
    taken: dict[tuple[tuple[str, str], int], ProblemKey] = {}
    repeated = []
    for key in list(ours):
        for file in found.problems[key].files:
            if taken.setdefault((ours[key], file), key) != key:
                repeated.append(found.problems[key])
                del ours[key]
                break
    if repeated:
        notes.append(f"left out: {len(repeated)} problems that repeat the text of another: {_first(repeated)}")
    return ours, notes


def _is_own(found: Survey, key: ProblemKey, ours: Mapping[ProblemKey, object]) -> bool:
    """Whether none of the files that hold a problem is one of our tasks."""
    with_ours = {file for other in ours for file in found.problems[other].files}
    return not found.problems[key].files & with_ours


def _place_ours(
    found: Survey,
    ours: Mapping[ProblemKey, tuple[str, str]],
    candidates: Sequence[Candidate],
    placed: Placed,
) -> None:
    """Put matched problems into our tasks, under our golds where these are at hand."""
    for one in candidates:
        of_task = {problem_id: found.problems[key] for key, (task, problem_id) in ours.items() if task == one.task.name}
        if not of_task:
            continue
        problems = list(one.problems) if one.problems is not None else _from_file(one, of_task, placed)
        asked = tuple(p.problem_id for p in one.problems) if one.problems is not None else tuple(one.contents)
        placed.tasks.append(
            ImportedTask(name=one.task.name, title=one.task.title, problems=problems, asked=asked, file=one.file)
        )
        placed.notes.append(f"{len(of_task)} of the {len(asked)} problems of {one.task.name} are in the files")
        by_id = {problem.problem_id: problem for problem in problems}
        other = [f for i, f in of_task.items() if f.gold is not None and differ(f.gold, by_id[i].gold)]
        if other:
            placed.notes.append(
                f"{one.task.name}: the file has another gold for {len(other)} problems: {_first(other)}"
            )


def _from_file(one: Candidate, of_task: Mapping[str, FoundProblem], placed: Placed) -> list[Problem]:
    """The problems with the file's golds, as the task's data are not at hand."""
    placed.notes.append(
        f"{one.task.name}: graded against the file's golds, without units and tolerances that its data may state; "
        "--data-dir brings the task's own"
    )
    return [
        Problem(
            task=one.task.name,
            problem_id=problem_id,
            question=found.question or "",
            gold=Gold(answer=_as_integer(one.task, found.gold or ""), answer_type=one.task.answer_type),
        )
        for problem_id in one.contents
        if (found := of_task.get(problem_id)) is not None
    ]


def _as_integer(task: Task, gold: str) -> str:
    return str(int(gold)) if task.integer_answers and re.fullmatch(r"-?\d{1,9}", gold) else gold


def _place_own(
    found: Survey, keys: Iterable[ProblemKey], name: str | None, placed: Placed
) -> dict[ProblemKey, tuple[str, str]]:
    """Make tasks of sets that are not ours. Their names and ids come from the content: equal sets can be compared."""
    sets: dict[str, list[ProblemKey]] = {}
    for key in keys:
        sets.setdefault(name or found.problems[key].task or _stem(found, key), []).append(key)
    places: dict[ProblemKey, tuple[str, str]] = {}
    for set_name, members in sets.items():
        ids = _content_ids([found.problems[key] for key in members])
        is_named = name is not None or found.problems[members[0]].task is not None
        task = _slug(set_name) if is_named else f"set-{canonical_digest(sorted(ids))[:8]}"
        task = f"{task}-set" if task in task_names() else task or "set"
        taken = {other.name for other in placed.tasks}
        task = next(free for free in (task, *(f"{task}-{i}" for i in range(2, len(sets) + 2))) if free not in taken)
        problems = []
        for key, problem_id in zip(members, ids, strict=True):
            problem = found.problems[key]
            places[key] = (task, problem_id)
            gold = Gold(answer=problem.gold or "")
            problems.append(Problem(task=task, problem_id=problem_id, question=problem.question or "", gold=gold))
        title = name or found.problems[members[0]].title or set_name
        shown = title if task not in (f"{title}-set", f"{_slug(title)}-set") else task
        placed.tasks.append(ImportedTask(name=task, title=shown, problems=problems, asked=tuple(ids)))
        placed.notes.append(f"{shown}: a set of its own, of {len(problems)} problems ({task})")
        if lacking := sum(not problem.gold.answer for problem in problems):
            placed.notes.append(f"{shown}: the file has no gold for {lacking} problems: they cannot be graded")
    return places


def _content_ids(problems: Sequence[FoundProblem]) -> list[str]:
    """A digest of each problem's text, numbered where a text repeats; its name where the file has no texts."""
    seen: Tally[str] = Tally()
    ids = []
    for problem in problems:
        text = ContentDigest.of(problem.question, "").question[:12] if problem.question else _slug(problem.item or "")
        seen[text] += 1
        ids.append(text if seen[text] == 1 else f"{text}-{seen[text]}")
    return ids


def _stem(found: Survey, key: ProblemKey) -> str:
    """What a file is called, without its ending and a number: the files of several seeds are one set.

    Of lm-eval's ``samples_<task>_<time>.jsonl`` the task.
    """
    name = found.sources[min(found.problems[key].files)].opened.label.name.split(".jsonl")[0]
    name = re.sub(r"^samples_(.+)_\d{4}-\d\d-\d\dT[-.\d]+$", r"\1", name)
    return re.sub(r"[-_.]?(rs|seed|s)?\d+$", "", name.rsplit(".", 1)[0]) or "problems"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-._+")[:60]


def _names(tasks: Iterable[ImportedTask]) -> str:
    return " or ".join(task.name for task in tasks)


def _first(problems: Sequence[FoundProblem]) -> str:
    shown = [
        f"{p.item}: {normalise(p.question or '')[:60]!r}" if p.item else repr(normalise(p.question or "")[:60])
        for p in problems[:_LISTED]
    ]
    return "; ".join(shown) + ("; …" if len(problems) > _LISTED else "")
