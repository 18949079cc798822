"""Which problems of ours the files' problems are: by normalised text, then by gold.

A problem's text is found by the digests that come with every task, also between an instruction or a chat's markup that
all prompts share. Where the task's data are at hand, texts in other markup are matched too, by their words and gold.
"""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.errors import UsageError
from stapo_bench.grading import quick_grade
from stapo_bench.records import Gold, Outcome, Problem
from stapo_bench.runs.importing.survey import FoundProblem, ProblemKey
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


@dataclass(kw_only=True)
class Candidate:
    """A task of ours, with what is known of its problems."""

    task: Task
    file: str | None
    contents: Mapping[str, ContentDigest]  # by problem id
    problems: Sequence[Problem] | None  # with texts; None: its data are not at hand


def candidates_of(chosen: Sequence[str], data_dir: Path | None) -> list[Candidate]:
    """The tasks that were chosen, or all of ours whose problems are not generated."""
    if not chosen:
        loaded = [load_task(name) for name in task_names()]
        return [_with_data(one, None, data_dir) for one in loaded if one.source.generator is None]
    candidates = []
    for name in chosen:
        one = load_task(name)
        file = str(one.path.resolve()) if name.endswith(".yaml") else None
        candidate = generated_task(one.name) if one.source.generator else _with_data(one, file, data_dir)
        assert candidate is not None
        if candidate.problems is None and not candidate.contents:
            raise UsageError(f"--task {name}: expected its data, {one.name}.jsonl, in the folder of --data-dir")
        candidates.append(candidate)
    return candidates


def _with_data(task: Task, file: str | None, data_dir: Path | None) -> Candidate:
    at_hand = data_dir is not None and (data_dir / f"{task.name}.jsonl").is_file()
    problems = load_problems(task, data_dir) if at_hand else None
    return Candidate(task=task, file=file, contents=known_contents(task), problems=problems)


def generated_task(name: str) -> Candidate | None:
    task = load_task(name)
    if task.source.generator is None:
        return None
    return Candidate(task=task, file=None, contents={}, problems=load_problems(task))


def match(
    problems: Mapping[ProblemKey, FoundProblem], candidates: Sequence[Candidate]
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
                fitting = {n: share for n, share in by_problem.items() if not differ(problem.gold, ours[n].gold)}
            if fitting:
                best = ours[max(fitting, key=lambda number: fitting[number])]
                found[key] = [(best.task, best.problem_id)]
        if not found:
            break
    return found


def differ(theirs: str, ours: Gold) -> bool:
    """Whether a gold is certainly another one."""
    if normalise(theirs) == normalise(ours.answer):
        return False
    grade = quick_grade(f"\\boxed{{{theirs}}}", ours)
    return grade is not None and grade.outcome is Outcome.INCORRECT
