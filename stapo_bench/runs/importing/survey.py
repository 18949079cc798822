"""What the files hold, before anything is written: problems, samples, models, what is stated of all.

The files are read twice: here, to learn which problems there are and how many samples each has, and again to store the
samples. Memory grows with the number of problems, not with that of samples.
"""

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from stapo_bench.errors import StapoError, UsageError, watched
from stapo_bench.runs.importing.answers import Answer, Stated
from stapo_bench.runs.importing.formats import Source
from stapo_bench.runs.store import MAX_SAMPLE_INDEX
from stapo_bench.tasks import file_hashes, normalise

_DIGEST = 12  # bytes of a digest within one import
_LOOKED_AT = 20_000  # answers that tell whether names are of problems or of rows


class ProblemKey(NamedTuple):
    """Names a problem within the files: by the file's own name for it, its text and its gold."""

    item: str
    question: bytes  # digest of the normalised text
    gold: str


@dataclass(kw_only=True)
class FoundProblem:
    """A problem of the files."""

    question: str | None
    gold: str | None
    item: str | None
    task: str | None  # the benchmark that the file names
    title: str | None  # as tables call it, if that is another name
    num_samples: int = 0  # the highest number of any sample, from 1
    files: set[int] = field(default_factory=set)  # which of the files hold it


@dataclass(kw_only=True)
class Survey:
    """All that was found."""

    sources: Sequence[Source]
    hashes: Sequence[str]  # sha256 by file
    problems: dict[ProblemKey, FoundProblem]
    by_item: bool  # whether the files' names for problems tell problems apart, and not rows
    stated: Stated
    num_samples: list[int]  # by file
    num_empty: int  # completions without a text
    notes: list[str]

    def key(self, answer: Answer) -> ProblemKey:
        """The problem of an answer."""
        return problem_key(answer, self.by_item)


class Counter:
    """Numbers the samples of each problem: as the file states it, else in order; a later file's follow.

    A problem is named by its key in the files, or by its place in the run, which several files' keys may share.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        """For reading these files in their order."""
        self._sources = sources
        self._counts: dict[Hashable, int] = {}
        self._starts: dict[Hashable, tuple[int, int]] = {}  # number of the file, first sample in it
        self._seen: set[tuple[Hashable, int]] = set()  # of one file, where it states numbers

    def next(self, file: int, key: Hashable, answer: Answer) -> int:
        """The index of a sample.

        Raises:
            StapoError: the file states the same one twice.
        """
        count = self._counts.get(key, 0)
        if self._starts.get(key, (-1, 0))[0] != file:
            self._starts[key] = (file, count)
        start = self._starts[key][1]
        if answer.again:
            return start
        index = count if answer.sample is None else start + answer.sample
        if answer.sample is not None:
            if not 0 <= answer.sample < MAX_SAMPLE_INDEX or (key, index) in self._seen:
                raise StapoError(
                    f"{self._sources[file].opened.name}: expected each sample of a problem once, got number "
                    f"{answer.sample} of {answer.item or 'one problem'} again; import runs apart"
                )
            self._seen.add((key, index))
        self._counts[key] = max(count, index + 1)
        return index


def problem_key(answer: Answer, by_item: bool) -> ProblemKey:
    """The key of an answer's problem; ``by_item``: whether the file's name for it counts."""
    text = "" if answer.question is None else normalise(answer.question)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
    return ProblemKey((answer.item or "") if by_item or not text else "", digest, answer.gold or "")


def survey(sources: Sequence[Source], declared: Stated) -> Survey:
    """Read the files for the first time.

    Args:
        sources: the files with their readers.
        declared: what is known of the run from whoever imports it; a file that says otherwise is refused.

    Raises:
        StapoError: two files of one content, two models, settings that contradict each other, or no sample.
    """
    found = Survey(
        sources=sources,
        hashes=_hashes([source.opened.path for source in sources]),
        problems={},
        by_item=_items_name_problems(sources),
        stated=_stated(sources, declared),
        num_samples=[0] * len(sources),
        num_empty=0,
        notes=[],
    )
    counter, models = Counter(sources), set[str]()
    for file, source in enumerate(sources):
        for answer in watched(source.answers(), f"reading {source.opened.label.name}", "samples"):
            if answer.question is None and answer.item is None:
                raise StapoError(f"{source.opened.name}: expected a problem's text or name in every row, got neither")
            key = found.key(answer)
            index = counter.next(file, key, answer)
            problem = found.problems.get(key)
            if problem is None:
                problem = found.problems[key] = FoundProblem(
                    question=answer.question,
                    gold=answer.gold,
                    item=answer.item,
                    task=answer.task,
                    title=answer.title,
                )
            problem.files.add(file)
            if not answer.again:
                problem.num_samples = max(problem.num_samples, index + 1)
                found.num_samples[file] += 1
                found.num_empty += not answer.completion.strip()
                models |= {answer.model} if answer.model else set()
        if not found.num_samples[file]:
            raise StapoError(f"{source.opened.name}: expected samples, got none")
    if len(models) > 1:
        raise StapoError(f"expected one model, got {len(models)}: {', '.join(sorted(models)[:4])}; import each alone")
    if models and found.stated.model is None:
        found.stated = replace(found.stated, model=models.pop())
    total = sum(found.num_samples)
    if found.num_empty:
        found.notes.append(f"{found.num_empty} of {total} completions are empty")
    return found


def _items_name_problems(sources: Sequence[Source]) -> bool:
    """Whether the files' names for problems name problems: where most texts stand under many names, they name rows."""
    for source in sources:
        items: set[str] = set()
        texts: set[bytes] = set()
        for answer in islice(source.answers(), _LOOKED_AT):
            items.add(answer.item or "")
            texts.add(problem_key(answer, by_item=False).question)
        if len(items) > 1.5 * len(texts) and len(texts) > 1:
            return False
    return True


def _hashes(paths: Sequence[Path]) -> list[str]:
    """sha256 of each file; the same content twice is refused, for a copy is no second sample."""
    found: dict[str, Path] = {}
    for path in paths:
        (digest,) = file_hashes([path]).values()
        if digest in found:
            raise StapoError(f"{path} has the content of {found[digest]}: a copy is no second sample; leave it out")
        found[digest] = path
    return list(found)


def _stated(sources: Sequence[Source], declared: Stated) -> Stated:
    """What is known of all samples: declared, or said by every file that says anything of it, without contradiction."""
    values: dict[str, Any] = {"style": declared.style}  # a task's, see ``Placed.style_of``
    for name in (each.name for each in fields(Stated) if each.name != "style"):
        said = {value: source.opened.name for source in sources if (value := getattr(source.stated, name)) is not None}
        mine = getattr(declared, name)
        if len(said) > 1:
            raise StapoError(
                f"expected one run, got {name} "
                + " and ".join(f"{value} ({path})" for value, path in said.items())
                + "; import the files of each by themselves"
            )
        if mine is not None and said and name != "model" and mine not in said:
            option, theirs = name.replace("_", "-"), next(iter(said))
            raise UsageError(f"--{option} {mine}: {said[theirs]} says {theirs}; leave the option out")
        values[name] = mine if mine is not None else next(iter(said), None)
    return Stated(**values)
