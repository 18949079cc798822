"""Which problems of ours the files' problems are: by normalised text, then by gold.

A file most of whose problems are a task's is that task. All others are sets of their own. A problem's text is found by
the digests that come with every task, also between an instruction or a chat's markup that all prompts share. Where the
task's data are at hand, texts in other markup are matched too, by their words and their gold.
"""

import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import quick_grade
from stapo_bench.records import Gold, Outcome, Problem
from stapo_bench.runs.importing.survey import FoundProblem, ProblemKey, Survey
from stapo_bench.runs.nested import canonical_digest
from stapo_bench.tasks import (
    ContentDigest,
    Task,
    contained,
    known_contents,
    load_problems,
    load_task,
    normalise,
    task_names,
)

_TRIED = 8  # prompts in which a problem of ours is looked for between what all share
_SHARED_BY_CHANCE = 24  # characters at one end of all problems
_FEW, _NEARLY_ALL = 0.15, 0.9  # of a problem's runs of words, with its gold and without
_PATIENCE = 300  # problems of which none is like one of ours before the search is given up
_LISTED = 3
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


@dataclass(kw_only=True)
class _Candidate:
    """A task of ours, with what is known of its problems."""

    task: Task
    file: str | None
    contents: Mapping[str, ContentDigest]  # by problem id
    problems: Sequence[Problem] | None  # with texts; None: its data are not at hand


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
    candidates = [] if OWN in tasks else _candidates(chosen, data_dir)
    matches = _match(found.problems, candidates)
    if not tasks and (said := {p.task for p in found.problems.values() if p.task} & set(task_names())):
        # Making the problems of generated tasks takes seconds: only of those that the files name.
        generated = [c for name in sorted(said) if (c := _generated(name)) is not None]
        more = _match({key: p for key, p in found.problems.items() if key not in matches}, generated)
        candidates, matches = [*candidates, *generated], {**matches, **more}
    if chosen and not matches:
        raise StapoError(
            f"--task {', '.join(chosen)}: none of the {len(found.problems)} problems of the files is one of its"
        )
    ours, notes = _ours(found, matches, is_forced=bool(tasks))
    placed = Placed(tasks=[], places={}, notes=notes)
    places: dict[ProblemKey, tuple[str, str]] = {}
    _place_ours(found, ours, candidates, placed, places)
    rest = [] if chosen else [key for key in found.problems if _is_own(found, key, ours)]
    places |= _place_own(found, rest, name, placed)
    left = [found.problems[key] for key in found.problems if key not in places]
    if left:
        placed.notes.append(f"left out: {len(left)} problems that are not of {_names(placed.tasks)}: {_first(left)}")
    placed.places = places
    return placed


def _candidates(chosen: Sequence[str], data_dir: Path | None) -> list[_Candidate]:
    """The tasks that were chosen, or all of ours whose problems are not generated."""
    if not chosen:
        loaded = [load_task(name) for name in task_names()]
        return [_with_data(one, None, data_dir) for one in loaded if one.source.generator is None]
    candidates = []
    for name in chosen:
        one = load_task(name)
        file = str(one.path.resolve()) if name.endswith(".yaml") else None
        candidate = _generated(one.name) if one.source.generator else _with_data(one, file, data_dir)
        assert candidate is not None
        if candidate.problems is None and not candidate.contents:
            raise UsageError(f"--task {name}: expected its data, {one.name}.jsonl, in the folder of --data-dir")
        candidates.append(candidate)
    return candidates


def _with_data(task: Task, file: str | None, data_dir: Path | None) -> _Candidate:
    at_hand = data_dir is not None and (data_dir / f"{task.name}.jsonl").is_file()
    problems = load_problems(task, data_dir) if at_hand else None
    return _Candidate(task=task, file=file, contents=known_contents(task), problems=problems)


def _generated(name: str) -> _Candidate | None:
    task = load_task(name)
    if task.source.generator is None:
        return None
    return _Candidate(task=task, file=None, contents={}, problems=load_problems(task))


def _match(
    problems: Mapping[ProblemKey, FoundProblem], candidates: Sequence[_Candidate]
) -> dict[ProblemKey, tuple[str, str]]:
    """Task and id of every problem that is one of theirs."""
    by_text: dict[str, dict[tuple[str, str], str]] = {}  # question digest -> place -> answer digest
    names: set[tuple[str, str]] = set()
    for one in candidates:
        contents = dict(one.contents)
        for problem in one.problems or ():
            contents.setdefault(problem.problem_id, ContentDigest.of(problem.question, problem.gold.answer))
        for problem_id, content in contents.items():
            by_text.setdefault(content.question, {})[one.task.name, problem_id] = content.answer
            names.add((one.task.name, problem_id))
    exact: dict[ProblemKey, list[tuple[str, str]]] = {}
    template = _template([p.question for p in problems.values() if p.question is not None], by_text)
    for key, found in problems.items():
        if found.question is None:
            if (named := (found.task or "", found.item or "")) in names:
                exact[key] = [named]
            continue
        content = ContentDigest.of(_inside(found.question, *template), found.gold or "")
        if places := by_text.get(content.question):
            same_gold = [where for where, answer in places.items() if answer == content.answer]
            exact[key] = same_gold or list(places)
    exact.update(_alike(problems, exact, [problem for one in candidates for problem in one.problems or ()]))
    tally = Tally(task for places in exact.values() for task in {task for task, _ in places})
    return {key: max(places, key=lambda where: tally[where[0]]) for key, places in exact.items()}


def _template(prompts: Sequence[str], known: Mapping[str, object]) -> tuple[int, int]:
    """How many characters all prompts have around the problem: what they share at both ends, if problems lie between.

    Problems may share some characters themselves, such as a last full stop: up to that many more are tried.
    """
    if len(prompts) < 2:
        return 0, 0
    before = _shared(prompts)
    after = _shared([prompt[::-1] for prompt in prompts])
    some = prompts[:_TRIED]
    for start in range(before, max(-1, before - _SHARED_BY_CHANCE), -1):
        for end in range(after, max(-1, after - _SHARED_BY_CHANCE), -1):
            if any(ContentDigest.of(_inside(prompt, start, end), "").question in known for prompt in some):
                return start, end
    return 0, 0


def _shared(texts: Sequence[str]) -> int:
    """How many characters all texts begin with; those of the first and last in order share no more than any two."""
    first, last = min(texts), max(texts)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _inside(prompt: str, start: int, end: int) -> str:
    return prompt[start : len(prompt) - end]


def _alike(
    problems: Mapping[ProblemKey, FoundProblem], known: Mapping[ProblemKey, object], ours: Sequence[Problem]
) -> dict[ProblemKey, list[tuple[str, str]]]:
    """Prompts that hold a problem of ours in other markup, or in a prompt of their own, and have its gold.

    Some of the problem's runs of eight words and an equal gold, or nearly all of them where the file has no gold.
    """
    found: dict[ProblemKey, list[tuple[str, str]]] = {}
    unmatched = [
        (key, problem) for key, problem in problems.items() if key not in known and problem.question is not None
    ]
    for some in (unmatched[:_PATIENCE], unmatched[_PATIENCE:]):
        shares: dict[int, dict[int, float]] = {}
        for number, row, share in contained(ours, [problem.question or "" for _, problem in some], _FEW):
            shares.setdefault(row - 1, {})[number] = share
        for row, by_problem in shares.items():
            key, problem = some[row]
            if problem.gold is None:
                fitting = {number: share for number, share in by_problem.items() if share >= _NEARLY_ALL}
            else:
                fitting = {n: share for n, share in by_problem.items() if not _differ(problem.gold, ours[n].gold)}
            if fitting:
                best = ours[max(fitting, key=lambda number: fitting[number])]
                found[key] = [(best.task, best.problem_id)]
        if not found:
            break
    return found


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
                f"{source.opened.path.name}: a set of its own: only {count} of its {len(keys)} problems are {task}'s; "
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
    candidates: Sequence[_Candidate],
    placed: Placed,
    places: dict[ProblemKey, tuple[str, str]],
) -> None:
    """Put matched problems into our tasks, under our golds where these are at hand."""
    places.update(ours)
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
        other = [f for i, f in of_task.items() if f.gold is not None and _differ(f.gold, by_id[i].gold)]
        if other:
            placed.notes.append(
                f"{one.task.name}: the file has another gold for {len(other)} problems: {_first(other)}"
            )


def _from_file(one: _Candidate, of_task: Mapping[str, FoundProblem], placed: Placed) -> list[Problem]:
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


def _differ(theirs: str, ours: Gold) -> bool:
    """Whether a gold is certainly another one."""
    if normalise(theirs) == normalise(ours.answer):
        return False
    grade = quick_grade(f"\\boxed{{{theirs}}}", ours)
    return grade is not None and grade.outcome is Outcome.INCORRECT


def _place_own(
    found: Survey, keys: Iterable[ProblemKey], name: str | None, placed: Placed
) -> dict[ProblemKey, tuple[str, str]]:
    """Make tasks of sets that are not ours. Their names and ids come from the content: equal sets can be compared."""
    sets: dict[str, list[ProblemKey]] = {}
    for key in keys:
        sets.setdefault(name or found.problems[key].task or _stem(found, key), []).append(key)
    places: dict[ProblemKey, tuple[str, str]] = {}
    for title, members in sets.items():
        ids = _content_ids([found.problems[key] for key in members])
        is_named = name is not None or found.problems[members[0]].task is not None
        task = _slug(title) if is_named else f"set-{canonical_digest(sorted(ids))[:8]}"
        task = f"{task}-set" if task in task_names() else task or "set"
        problems = []
        for key, problem_id in zip(members, ids, strict=True):
            problem = found.problems[key]
            places[key] = (task, problem_id)
            gold = Gold(answer=problem.gold or "")
            problems.append(Problem(task=task, problem_id=problem_id, question=problem.question or "", gold=gold))
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
    """What a file is called, without its ending and a number: the files of several seeds are one set."""
    name = found.sources[min(found.problems[key].files)].opened.path.name.split(".jsonl")[0]
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
