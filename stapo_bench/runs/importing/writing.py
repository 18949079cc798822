"""From other tools' files to a run folder: ``stapo-bench import``.

    imported = import_run([Path("samples_gsm8k.jsonl")], Path("results/imported"), ImportOptions(model="M"))

The folder is written beside its place and put there whole: an import that was stopped leaves none.
"""

import json
import os
import re
import shutil
import uuid
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

from stapo_bench.errors import StapoError, UsageError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Grade, Outcome, Sample, SampleKey, StatedSampling
from stapo_bench.runs.golds import data_digest, store_problems
from stapo_bench.runs.grades import REPORTED, append_grades
from stapo_bench.runs.identity import Identity, TaskIdentity, optional_sampling
from stapo_bench.runs.importing.answers import Answer, Stated
from stapo_bench.runs.importing.formats import NotSamplesError, Source, recognise
from stapo_bench.runs.importing.opening import open_file
from stapo_bench.runs.importing.placing import Placed, place
from stapo_bench.runs.importing.survey import Counter, Survey, survey
from stapo_bench.runs.importing.unpacking import files_at
from stapo_bench.runs.manifest import (
    About,
    AskedTask,
    ImportedFile,
    Manifest,
    load_manifest,
    write_manifest,
)
from stapo_bench.runs.nested import JsonFields, canonical_digest
from stapo_bench.runs.sample_writer import SegmentWriter

_BATCH = 4096  # grades in memory


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """How files are read, and what is known of them besides what they say."""

    format: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)  # of ``--map``
    tasks: tuple[str, ...] = ()  # names or files of tasks, or ``own``; none: by content
    name: str | None = None  # of a set of problems that is not ours
    data_dir: Path | None = None
    stated: Stated = field(default_factory=Stated)
    regime: str | None = None  # name of a decoding preset
    command: str | None = None


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did."""

    manifest: Manifest
    num_samples: int  # stored
    num_left_out: int  # of problems that are not asked for
    graders: tuple[str, ...]  # of verdicts that came with the files
    grader: str | None  # to score it with: ours, or where golds are lacking one that came along; None: neither can
    notes: tuple[str, ...]


def import_run(paths: Sequence[Path], out: Path, options: ImportOptions) -> Imported:
    """Make a run folder of other tools' files.

    Args:
        paths: files, folders or archives; of the latter two, what holds no samples is left out.
        out: the run folder, which must not exist yet.
        options: how they are read.

    Raises:
        StapoError: a file that cannot be read or holds no samples, or a folder that cannot be written.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise StapoError(f"{out}: expected a folder that is not there yet; choose another --out")
    with TemporaryDirectory(prefix="stapo-bench-") as scratch:  # for what has to be unpacked
        sources, notes = open_sources(paths, options, Path(scratch))
        return _import(sources, out, options, notes)


def _import(sources: Sequence[Source], out: Path, options: ImportOptions, notes: Sequence[str]) -> Imported:
    found = survey(sources, options.stated)
    placed = place(found, options.tasks, options.name, options.data_dir)
    manifest = _manifest(out, found, placed, options)
    temporary = out.with_name(f".{out.name}.importing-{uuid.uuid4().hex[:8]}")
    try:
        temporary.mkdir(parents=True)
        for task in placed.tasks:
            store_problems(temporary, task.name, task.problems)
        stored = _Stored(temporary, manifest, found, placed)
        stored.write()
        write_manifest(replace(manifest, run_dir=temporary))
        temporary.replace(out)
    except OSError as error:
        raise StapoError(f"cannot write {out}: {error.strerror or error}; choose another --out") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Imported(
        manifest=load_manifest(out),
        num_samples=stored.num_samples,
        num_left_out=sum(found.num_samples) - stored.num_samples,
        graders=(graders := tuple(sorted(stored.graders))),
        grader=DEFAULT_GRADER if _has_golds(placed) else next(iter(graders), None),
        notes=(*notes, *found.notes, *placed.notes, *stored.notes()),
    )


def _has_golds(placed: Placed) -> bool:
    """Whether any problem that has samples has a gold."""
    golds = {(p.task, p.problem_id) for task in placed.tasks for p in task.problems if p.gold.answer}
    return not golds.isdisjoint(placed.places.values())


def open_sources(paths: Sequence[Path], options: ImportOptions, scratch: Path) -> tuple[list[Source], list[str]]:
    """The files with their readers; of a folder or archive, those that hold samples.

    Args:
        paths: files, folders, archives, or folders within archives (``outputs.zip/model-a``).
        options: how they are read.
        scratch: a folder of the caller's for what has to be unpacked.

    Returns:
        The files, and in words what was left out.
    """
    sources: list[Source] = []
    notes = []
    for path in paths:
        kind, files = files_at(path, scratch)
        found, left_out = [], []
        for file in files:
            try:
                found.append(recognise(open_file(file.path, file.label), options.format, options.columns))
            except NotSamplesError as error:
                if kind == "file":
                    raise
                left_out.append(str(error).removeprefix(f"{path}{os.sep}"))
        if kind == "archive":
            _refuse_several_folders(path, found)
        if left_out:
            why = "; ".join([*left_out[:3], *["…"] * (len(left_out) > 3)])
            holds = "1 file of {} holds" if len(left_out) == 1 else f"{len(left_out)} files of {{}} hold"
            notes.append(f"{holds.format(path)} no samples: {why}")
        sources += found
    if not sources:
        raise StapoError(
            f"{', '.join(map(str, paths))}: expected files with samples, got none"
            + "".join(f"; {note}" for note in notes[:1])
        )
    return sources, notes


def _refuse_several_folders(archive: Path, sources: Sequence[Source]) -> None:
    """Folders of one archive are often several models, whose samples must not become one run."""
    folders = sorted({source.opened.label.parent for source in sources})
    if len(folders) > 1:
        shown = ", ".join(map(str, folders[:3])) + (", …" if len(folders) > 3 else "")
        raise UsageError(f"{archive}: holds samples in {len(folders)} folders; name those of one run: {shown}")


def _manifest(out: Path, found: Survey, placed: Placed, options: ImportOptions) -> Manifest:
    stated = found.stated
    of_problem: Tally[tuple[str, str]] = Tally()  # of all files, which may spell its text or gold differently
    for key, where in placed.places.items():
        of_problem[where] += found.problems[key].num_samples
    most: dict[str, int] = {}
    for (task, _), number in of_problem.items():
        most[task] = max(most.get(task, 0), number)
    identity = Identity(
        checkpoint_digest=None,
        tasks={
            name: TaskIdentity(data=digest, prompts=None, prompt_format=None, style=placed.style_of(name, found))
            for name, digest in ((task.name, data_digest(task.problems)) for task in placed.tasks)
        },
        sampling=StatedSampling(
            temperature=stated.temperature,
            top_p=stated.top_p,
            max_new_tokens=stated.max_new_tokens,
            **optional_sampling(JsonFields(json.loads(stated.settings or "{}"), "settings")),
        ),
        seed=None,
        engine={},
        imported={
            "format": ", ".join(sorted({source.format.name for source in found.sources})),
            "files": canonical_digest(sorted(found.hashes)),
        },
    )
    about = About(
        tasks={
            task.name: AskedTask(title=task.title, problem_ids=task.asked, num_samples=most[task.name], file=task.file)
            for task in placed.tasks
        },
        model=stated.model,
        method=stated.method,
        step=stated.step,
        regime=options.regime,
        command=options.command,
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        imported=tuple(
            ImportedFile(name=source.opened.label.name, sha256=digest, num_samples=number)
            for source, digest, number in zip(found.sources, found.hashes, found.num_samples, strict=True)
        ),
    )
    return Manifest(run_dir=out, identity=identity, about=about)


class _Stored:
    """Stores samples and reported verdicts while the files are read for the second time."""

    def __init__(self, folder: Path, manifest: Manifest, found: Survey, placed: Placed) -> None:
        self._folder, self._found, self._placed = folder, found, placed
        self._stamps = manifest.stamps
        self._grades: dict[str, list[tuple[SampleKey, Grade]]] = {}
        self._open: dict[str, int] = {}  # by grader: verdicts that are neither right nor wrong
        self.graders: set[str] = set()  # that said anything
        self.num_samples = 0

    def write(self) -> None:
        """All of it: a segment of samples for each file, a grade file for each metric."""
        counter = Counter(self._found.sources)
        for file, source in enumerate(self._found.sources):
            label = re.sub(r"\W+", "_", source.opened.label.stem)[:40] or "file"
            with SegmentWriter(self._folder, label) as writer:
                keyed, total = self._keyed(file, source, counter), self._found.num_samples[file]
                for answer, key in watched(keyed, f"importing {source.opened.label.name}", "samples", total):
                    if not answer.again:
                        writer.append(self._sample(answer, key))
                        self.num_samples += 1
                    self._report(source, answer, key)
        for name in list(self._grades):
            self._flush(name)
        for name in set(self._open) - self.graders:  # it never said anything
            (self._folder / "grades" / f"{name}.jsonl").unlink(missing_ok=True)

    def _keyed(self, file: int, source: Source, counter: Counter) -> Iterator[tuple[Answer, SampleKey]]:
        for answer in source.answers():
            if (where := self._placed.places.get(self._found.key(answer))) is not None:
                yield answer, SampleKey(*where, counter.next(file, where, answer))

    def _sample(self, answer: Answer, key: SampleKey) -> Sample:
        return Sample(
            **key._asdict(),
            seed=answer.seed,
            completion=answer.completion,
            num_tokens=answer.num_tokens,
            finish_reason=answer.finish_reason,
            stamp=self._stamps[key.task],
        )

    def _report(self, source: Source, answer: Answer, key: SampleKey) -> None:
        """Keep what the file's own graders said."""
        for metric, said in answer.verdicts.items():
            name = reported_name(source.format.reported, metric)
            if said is None:
                outcome, detail = Outcome.GRADER_ERROR, "the file's score is neither right nor wrong"
                self._open[name] = self._open.get(name, 0) + 1
            else:
                outcome, detail = said, "as the file says"
                self.graders.add(name)
            grade = Grade(outcome=outcome, extracted=answer.extracted, detail=detail, grader=name)
            waiting = self._grades.setdefault(name, [])
            waiting.append((key, grade))
            if len(waiting) >= _BATCH:
                self._flush(name)

    def _flush(self, name: str) -> None:
        append_grades(self._folder, name, name, self._grades.pop(name, []))

    def notes(self) -> list[str]:
        """What was no verdict."""
        return [
            f"{name}: {number} scores are neither right nor wrong (1 or 0) and count as unknown"
            for name, number in self._open.items()
        ]


def reported_name(tool: str, metric: str) -> str:
    """The grade file of verdicts that came with a file.

    >>> reported_name("lm-eval", "exact_match-strict-match"), reported_name("qwen", "")
    ('lm-eval-exact_match-strict-match-reported', 'qwen-reported')
    """
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", metric)[:80]
    return f"{tool}{'-' if slug else ''}{slug}{REPORTED}"
