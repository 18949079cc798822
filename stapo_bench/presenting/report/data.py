"""Every sample of the runs for the page: columns to filter by, and the texts in compressed chunks.

The columns (which problem, which sample, tokens, how it ended, each grader's verdict) are there at once; a text is
unpacked when somebody looks at it. Answers and reasons that repeat are kept once and named by number. Texts are packed
in the order in which they are stored, so that no more than a chunk of them is in memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stapo_bench.engines import sampling_in_words
from stapo_bench.errors import StapoError, safe_text, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.report.encode import chunked, pack
from stapo_bench.records import Problem, Sample, SampleKey
from stapo_bench.runs import (
    Manifest,
    grade_files,
    load_manifest,
    needs_data,
    read_problems,
    read_samples,
    split_golds,
    stream_grades,
)

CHUNK = 400_000
"""Characters of text in a chunk: unpacked in some 5 ms, and large enough that equal openings compress."""

_CODES = {"CORRECT": "C", "INCORRECT": "I", "NO_ANSWER": "N", "GRADER_ERROR": "E"}
_UNGRADED = "-"
_FINISH = {"stop": "s", "length": "l", "error": "e", None: "u"}

Key = TypeVar("Key")


class ShownGrade(NamedTuple):
    """What one grader said of a sample."""

    outcome: str  # a letter of ``_CODES``, or ``-`` where there is no grade
    extracted: str | None
    detail: str


class _Row(NamedTuple):
    """What the columns say of a sample."""

    problem: int
    sample: int
    key: SampleKey
    place: int  # of its text among the run's, in the order in which they are stored
    tokens: int | None
    finish: str  # a letter of ``_FINISH``


@dataclass(frozen=True, kw_only=True)
class SampleData:
    """What the sample browser reads."""

    index: dict[str, Any]
    chunks: Mapping[str, str]  # element id -> packed
    num_samples: int


class _Shared:
    """What runs have in common: problems, answers and reasons, each numbered once."""

    def __init__(self) -> None:
        self.tasks: dict[str, str] = {}  # name -> title
        self.problems: dict[tuple[str, str], int] = {}  # (task, problem_id) -> number
        self.answers: dict[str | None, int] = {None: 0}
        self.details: dict[str, int] = {}

    def problem(self, task: str, problem_id: str) -> int:
        """The problem's number."""
        return _number(self.problems, (task, problem_id))


def _number(numbers: dict[Key, int], key: Key) -> int:
    """The key's number; a new key gets the next one."""
    return numbers.setdefault(key, len(numbers))


def collect(run_dirs: Sequence[Path], grader: str = DEFAULT_GRADER, data_dir: Path | None = None) -> SampleData:
    """Read every stored sample of the runs with the verdicts of all their graders, ``grader`` first."""
    shared = _Shared()
    manifests = [load_manifest(run_dir) for run_dir in run_dirs]
    for manifest in manifests:
        for task, asked in manifest.about.tasks.items():
            shared.tasks.setdefault(task, asked.title)
            for problem_id in asked.problem_ids:
                shared.problem(task, problem_id)
    chunks: dict[str, str] = {}
    runs = []
    named = list(zip(manifests, unique_names(run_dirs), strict=True))
    for number, (manifest, name) in enumerate(watched(named, "packing", "runs", len(named))):
        columns, packed = _run(manifest, grader, shared, f"text-{number}")
        runs.append({"name": name, **columns})
        chunks.update(packed)
    questions, note = _questions(manifests, data_dir, shared)
    chunks["questions"] = pack(questions)
    tasks = list(shared.tasks)
    index = {
        "tasks": [{"name": _shown(task), "title": _shown(shared.tasks[task])} for task in tasks],
        "problems": [[tasks.index(task), _shown(problem_id)] for task, problem_id in shared.problems],
        "answers": list(shared.answers),
        "details": list(shared.details),
        "runs": runs,
        "note": _shown(note),
    }
    return SampleData(index=index, chunks=chunks, num_samples=sum(len(run["sample"]) for run in runs))


def _shown(name: str) -> str:
    """A name as text of the page, whose scripts escape it for HTML."""
    return safe_text(name, "terminal")


def unique_names(run_dirs: Sequence[Path]) -> list[str]:
    """A run's folder name; with a number where another run has the same.

    >>> unique_names([Path("a/run"), Path("b/run"), Path("c")])
    ['run', 'run~2', 'c']
    """
    names: list[str] = []
    for run_dir in run_dirs:
        name = base = _shown(run_dir.resolve().name)
        number = 2
        while name in names:
            name, number = f"{base}~{number}", number + 1
        names.append(name)
    return names


def _run(manifest: Manifest, grader: str, shared: _Shared, prefix: str) -> tuple[dict[str, Any], dict[str, str]]:
    """One run's columns, in the order of its problems and samples; and its texts, packed as they are read."""
    run_dir = manifest.run_dir
    rows: list[_Row] = []
    starts: list[int] = []
    texts: dict[str, str] = {}
    stored = read_samples(run_dir, manifest.stamps)
    for chunk in chunked(stored, lambda sample: len(sample.completion), CHUNK):
        texts[f"{prefix}-{len(starts)}"] = pack([_text(sample) for sample in chunk])
        starts.append(len(rows))
        for sample in chunk:
            problem = shared.problem(sample.task, sample.problem_id)
            facts = sample.key, len(rows), sample.num_tokens, _FINISH[sample.finish_reason]
            rows.append(_Row(problem, sample.sample_index, *facts))
    rows.sort()  # no two have the same problem and index
    graders = sorted(grade_files(run_dir), key=lambda name: name != grader)  # stable: the chosen one first
    keys = [row.key for row in rows]
    sampling = manifest.identity.sampling
    columns = {
        "method": _shown(manifest.about.method or ""),
        "sampling": sampling_in_words(sampling),
        "limit": sampling.max_new_tokens,
        "problem": [row.problem for row in rows],
        "sample": [row.sample for row in rows],
        "tokens": [row.tokens for row in rows],
        "finish": "".join(row.finish for row in rows),
        "graders": [_grader_columns(name, *read_shown_grades(run_dir, name), keys, shared) for name in graders],
        "place": [row.place for row in rows],
        "starts": starts,
    }
    return columns, texts


def _text(sample: Sample) -> list[Any]:
    """Completion, seed (as text: JavaScript's numbers end at 2^53), sum of log-probs in nats."""
    return [sample.completion, "unknown" if sample.seed is None else str(sample.seed), sample.sum_log_prob]


def _grader_columns(
    name: str, version: str, found: Mapping[SampleKey, ShownGrade], keys: Sequence[SampleKey], shared: _Shared
) -> dict[str, Any]:
    missing = ShownGrade(_UNGRADED, None, "")
    of_samples = [found.get(key, missing) for key in keys]
    return {
        "name": name,
        "version": version,
        "outcome": "".join(grade.outcome for grade in of_samples),
        "answer": [_number(shared.answers, grade.extracted) for grade in of_samples],
        "detail": [_number(shared.details, grade.detail) for grade in of_samples],
    }


def read_shown_grades(run_dir: Path, grader: str) -> tuple[str, dict[SampleKey, ShownGrade]]:
    """A grade file with its reasons: the grader's version, and what it said; the last line of a key counts."""
    stream = stream_grades(run_dir, grader)
    found = {
        key: ShownGrade(_CODES[grade.outcome.value], grade.extracted, grade.detail) for key, grade in stream.grades
    }
    return stream.grader, found


def _questions(manifests: Sequence[Manifest], data_dir: Path | None, shared: _Shared) -> tuple[list[Any], str]:
    """By problem number: question and gold, with its correction where a run was graded against that; or why not."""
    known: dict[tuple[str, str], Problem] = {}
    corrected: dict[tuple[str, str], Problem] = {}
    read: set[str] = set()  # what was read before, runs of one suite share
    note = ""
    for manifest in manifests:
        what = _data_of(manifest)
        if what in read:
            continue
        read.add(what)
        try:
            if data_dir is None and needs_data(manifest):
                note = "Questions and golds are shown when the report is made with --data-dir."
                continue
            known.update(_by_key(read_problems(manifest, data_dir)))
            if any(split_golds(name)[1] == "corrected" for name in grade_files(manifest.run_dir)):
                corrected.update(_by_key(read_problems(manifest, data_dir, "corrected")))
        except StapoError as error:
            note = f"No questions and golds of {manifest.name}: {error}"
    rows: list[Any] = []
    for key in shared.problems:
        problem, other = known.get(key), corrected.get(key)
        changed = other.gold.answer if problem and other and other.gold != problem.gold else None
        rows.append([problem.question, problem.gold.answer, changed] if problem else None)
    return rows, note


def _data_of(manifest: Manifest) -> str:
    """Names the problems and golds that a run needs."""
    golds = sorted({split_golds(name)[1] for name in grade_files(manifest.run_dir)})
    return json.dumps([{name: task.data for name, task in manifest.identity.tasks.items()}, golds], sort_keys=True)


def _by_key(problems: Iterator[Problem]) -> dict[tuple[str, str], Problem]:
    return {(problem.task, problem.problem_id): problem for problem in problems}
