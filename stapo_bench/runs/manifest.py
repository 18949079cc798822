"""The manifest of a run: all that decides its samples (``identity``), and what only describes it (``about``).

    manifest = load_manifest(Path("results/base-justrl"))
    manifest.identity.sampling.temperature, manifest.about.tasks["aime24"].num_samples

``manifest.json`` is read and checked here, its first part in ``identity``, and nowhere else. A field that this version
does not know stays in ``extra``: it is written again, and counts in the digest.
"""

import json
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.runs.files import read_bounded, write_atomically
from stapo_bench.runs.identity import Identity
from stapo_bench.runs.nested import JsonFields, beyond, canonical_digest, merged

FORMAT = 1
_MOST = 1_000_000  # samples of a problem
_MOST_OUTCOMES = 10_000_000  # of a task: they are held in memory


@dataclass(frozen=True, kw_only=True)
class AskedTask:
    """What a run was asked to sample of a task."""

    title: str
    problem_ids: tuple[str, ...]
    num_samples: int  # per problem
    file: str | None = None  # of a task that is not part of the package

    @property
    def num_problems(self) -> int:
        """How many problems were asked for."""
        return len(self.problem_ids)


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """The rule under which a run stops early. Its intervals then hold at every look."""

    rule: str  # the command's option: "--until-width 0.02"
    aim: float  # half-width at which it hopes to stop, see ``stapo_bench.statistics.sequential``


@dataclass(frozen=True, kw_only=True)
class ContinuedFrom:
    """The run whose cut-off samples this run continues."""

    run: str  # its folder's name
    max_new_tokens: int  # its limit


@dataclass(frozen=True, kw_only=True)
class ImportedFile:
    """A file of another tool that samples came from."""

    name: str
    sha256: str
    num_samples: int  # in it; some may have been left out


@dataclass(frozen=True, kw_only=True)
class About:
    """What describes a run and decides no sample. None: not stated."""

    tasks: Mapping[str, AskedTask]  # by name
    checkpoint: str | None = None  # its path; of an adapter the adapter's
    base: str | None = None  # path of the base of an adapter; None: the checkpoint is no adapter
    model: str | None = None
    method: str | None = None
    step: int | None = None  # of training
    training: str | None = None  # digest that all checkpoints of one training share
    regime: str | None = None  # name of the decoding preset
    commit: str | None = None
    command: str | None = None
    started: str | None = None  # ISO 8601
    device: str | None = None
    stopping: Stopping | None = None  # None: the number of samples was fixed beforehand
    continued_from: ContinuedFrom | None = None
    imported: tuple[ImportedFile, ...] | None = None  # None: its samples were drawn here
    extra: Mapping[str, Any] = field(default_factory=dict)  # what this version does not know, nested as in the file

    def to_json(self) -> dict[str, Any]:
        """The JSON value in the file."""
        known = asdict(replace(self, extra={}))
        del known["extra"]
        for name in ("base", "training", "stopping", "continued_from", "imported"):  # others are null, not left out
            if known[name] is None:
                del known[name]
        for task in known["tasks"].values():
            task["problem_ids"] = list(task["problem_ids"])
            task["num_problems"] = len(task["problem_ids"])
        if self.imported is not None:
            known["imported"] = list(known["imported"])
        return merged(known, self.extra)

    @staticmethod
    def from_json(raw: Any) -> "About":
        """The reverse of ``to_json``; ValueError says which field is not as expected. Only ``tasks`` must be there."""
        fields = JsonFields(raw, "about")
        stopping = fields.inner("stopping") if fields.states("stopping") else None
        origin = fields.inner("continued_from") if fields.states("continued_from") else None
        found = About(
            tasks={name: _asked_task(name, task) for name, task in fields.members("tasks").items()},
            checkpoint=fields.text_or_none("checkpoint"),
            base=fields.text_or_none("base"),
            model=fields.text_or_none("model"),
            method=fields.text_or_none("method"),
            step=fields.integer("step") if fields.states("step") else None,
            training=fields.text_or_none("training"),
            regime=fields.text_or_none("regime"),
            commit=fields.text_or_none("commit"),
            command=fields.text_or_none("command"),
            started=fields.text_or_none("started"),
            device=fields.text_or_none("device"),
            stopping=Stopping(rule=stopping.text("rule"), aim=stopping.number("aim")) if stopping else None,
            continued_from=(
                ContinuedFrom(run=origin.text("run"), max_new_tokens=origin.count("max_new_tokens")) if origin else None
            ),
            imported=(
                tuple(
                    ImportedFile(
                        name=file.text("name"), sha256=file.text("sha256"), num_samples=file.count("num_samples")
                    )
                    for file in fields.inner_list("imported")
                )
                if fields.states("imported")
                else None
            ),
        )
        return replace(found, extra=beyond(raw, found.to_json()))


def _asked_task(name: str, task: JsonFields) -> AskedTask:
    """A task's entry; ValueError where its counts do not fit one another, or no matrix of outcomes could hold them."""
    found = AskedTask(
        title=task.text_or_none("title") or name,
        problem_ids=task.text_list("problem_ids"),
        num_samples=task.count("num_samples", most=_MOST),
        file=task.text_or_none("file"),
    )
    place = f"about.tasks.{name}"
    if task.states("num_problems") and task.count("num_problems") != found.num_problems:
        raise ValueError(
            f"{place}.num_problems is {task.any('num_problems')}, but problem_ids are {found.num_problems}"
        )
    if len(set(found.problem_ids)) < found.num_problems:
        raise ValueError(f"{place}.problem_ids names a problem more than once")
    if found.num_problems * found.num_samples > _MOST_OUTCOMES:
        raise ValueError(f"{place} asks for more than {_MOST_OUTCOMES} samples")
    return found


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A run folder and what its ``manifest.json`` says."""

    run_dir: Path
    identity: Identity
    about: About

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.run_dir.resolve().name

    @property
    def digest(self) -> str:
        """Digest of the identity; it names the run."""
        return self.identity.digest

    @property
    def seed(self) -> int | None:
        """The run's seed, from which every sample's is derived; None: samples of an imported run have what they had."""
        return self.identity.seed

    @property
    def known_seed(self) -> int:
        """The seed, for what needs one; StapoError where it is not known."""
        if self.seed is None:
            raise StapoError(f"{self.run_dir}: expected a run whose seed is known, got an imported one; leave it out")
        return self.seed

    @property
    def imported(self) -> str | None:
        """The format of the files that the samples were imported from; None: they were sampled here."""
        return None if self.identity.imported is None else self.identity.imported["format"]

    def shares_seed(self, other: "Manifest") -> bool:
        """Whether both runs derived their samples' seeds from the same one; unknown seeds are not taken for equal."""
        return self.seed is not None and self.seed == other.seed

    @property
    def stamps(self) -> dict[str, str]:
        """By task, eight digits that name all settings under which its samples are made; every sample carries them.

        They stay as other tasks are added to the run.
        """
        return {name: self.identity.with_tasks([name]).digest[:8] for name in self.identity.tasks}

    @property
    def task_files(self) -> dict[str, str]:
        """By task, what ``load_task`` takes: its file, or its name if it is part of the package."""
        return {name: task.file or name for name, task in self.about.tasks.items()}


def load_manifest(run_dir: Path) -> Manifest:
    """Read a run's manifest.

    Raises:
        StapoError: no run there, a damaged manifest, one of another format, or special files in the folder.
    """
    path = run_dir / "manifest.json"
    refuse_special_files(run_dir)
    if not path.is_file():
        raise StapoError(
            f"not a run folder: {run_dir}: expected manifest.json in it; 'stapo-bench eval' makes one, and of other "
            "tools' files 'stapo-bench import'"
        )
    try:
        raw = JsonFields(json.loads(read_bounded(path), parse_constant=_refuse), "it")
        if (found := raw.any("format")) != FORMAT:
            raise StapoError(f"{path}: expected format {FORMAT}, got {found}; use the version that wrote it")
        _check_digest(path, "identity", raw.any("identity"), raw.text_or_none("digest"))
        if raw.states("about_digest"):  # manifests that were made before ``about`` had a digest lack it
            _check_digest(path, "about", raw.any("about"), raw.text("about_digest"))
        identity, about = Identity.from_json(raw.any("identity")), About.from_json(raw.any("about"))
        if lacking := sorted(identity.tasks.keys() ^ about.tasks.keys()):
            raise ValueError(f"identity and about differ in tasks: {', '.join(lacking)}")
    except (ValueError, RecursionError) as error:
        raise StapoError(f"{path}: expected a manifest, got damage ({error}); restore the file") from None
    return Manifest(run_dir=run_dir, identity=identity, about=about)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no value in JSON")


def _check_digest(path: Path, part: str, content: Any, stated: str | None) -> None:
    if stated != (found := canonical_digest(content)):
        raise StapoError(
            f"{path}: expected digest {found[:12]} for its {part}, got {str(stated)[:12]}: "
            "the file was edited; restore it"
        )


def write_manifest(manifest: Manifest) -> None:
    """Write a run's ``manifest.json``."""
    about = manifest.about.to_json()
    content = {
        "format": FORMAT,
        "digest": manifest.digest,
        "about_digest": canonical_digest(about),
        "identity": manifest.identity.to_json(),
        "about": about,
    }
    write_atomically(manifest.run_dir / "manifest.json", json.dumps(content, indent=2, sort_keys=True) + "\n")


def refuse_special_files(run_dir: Path) -> None:
    """Raise StapoError for pipes, devices and links to them: reading one might never end."""
    for path in run_dir.rglob("*"):
        try:
            mode = path.stat().st_mode
        except OSError:  # gone since, or a link to nothing
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise StapoError(f"{path}: expected a file of the run's own, got a pipe, device or socket; remove it")
