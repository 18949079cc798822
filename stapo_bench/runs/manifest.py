"""The manifest of a run: everything that decides a sample (``identity``), and what only describes it (``about``).

A run folder takes samples of one identity. A second command may add tasks, problems or samples to it; any other
difference is refused, listed field by field, so that no table ever mixes two settings under one name.

    manifest = open_run(Path("results/base-justrl"), identity, about)
"""

import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Problem, Prompt
from stapo_bench.runs.nested import flatten
from stapo_bench.runs.store import write_atomically
from stapo_bench.tasks import ContentDigest, content_digest

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A run folder and what its ``manifest.json`` says."""

    run_dir: Path
    identity: dict[str, Any]
    about: dict[str, Any]

    @property
    def digest(self) -> str:
        return canonical_digest(self.identity)

    @property
    def seed(self) -> int:
        return int(self.identity["seed"])

    @property
    def stamps(self) -> dict[str, str]:
        """By task, eight digits that name all settings under which its samples are drawn; every sample carries them.

        They stay as other tasks are added to the run.
        """
        tasks = self.identity["tasks"]
        return {name: canonical_digest({**self.identity, "tasks": {name: tasks[name]}})[:8] for name in tasks}


class DifferentRunError(StapoError):
    """The run folder was made under other settings."""


def canonical_digest(value: Any) -> str:
    """sha256 of a value's canonical JSON (sorted keys, no blanks).

    >>> canonical_digest({"a": 1, "b": 2}) == canonical_digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def prompts_digest(prompts: Iterable[Prompt]) -> str:
    """sha256 over every problem's exact token ids (its text where the engine takes text), in order of problem ids."""
    return canonical_digest(
        sorted([p.problem_id, p.text if p.token_ids is None else list(p.token_ids)] for p in prompts)
    )


def data_digest(problems: Iterable[Problem]) -> str:
    """The content digest of a task's problems, as task files record it."""
    return content_digest(ContentDigest.of(p.question, p.gold.answer) for p in problems)


def differences(run: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Fields in which two identities differ, one line each. Tasks are compared where both have them.

    >>> differences({"seed": 0, "tasks": {"a": {"data": "x"}}}, {"seed": 1, "tasks": {"b": {"data": "y"}}})
    ['seed: the run has 0, now 1']
    """
    both = set(run.get("tasks", {})) & set(now.get("tasks", {}))
    old, new = (flatten(_with_tasks(identity, both)) for identity in (run, now))
    return [
        f"{name}: the run has {old.get(name, 'nothing')}, now {new.get(name, 'nothing')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def _with_tasks(identity: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {**identity, "tasks": {name: task for name, task in identity.get("tasks", {}).items() if name in names}}


def load_manifest(run_dir: Path) -> Manifest:
    """Read a run's manifest.

    Raises:
        StapoError: no run there, a damaged manifest, one of another format, or files that are none in the folder.
    """
    path = run_dir / "manifest.json"
    _refuse_special_files(run_dir)
    if not path.is_file():
        raise StapoError(f"not a run folder: {run_dir}: expected manifest.json in it; 'stapo-bench eval' makes one")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["format"] != FORMAT:
            raise StapoError(f"{path}: expected format {FORMAT}, got {raw['format']}; use the version that wrote it")
        manifest = Manifest(run_dir=run_dir, identity=raw["identity"], about=raw["about"])
    except (ValueError, KeyError, TypeError) as error:
        raise StapoError(f"{path}: expected a manifest, got damage ({error!r}); restore the file") from None
    # Manifests that were made before ``about`` had a digest lack it.
    for part, digest, found in (
        ("identity", raw.get("digest"), manifest.digest),
        ("about", raw.get("about_digest", canonical_digest(manifest.about)), canonical_digest(manifest.about)),
    ):
        if digest != found:
            raise StapoError(
                f"{path}: expected digest {found[:12]} for its {part}, got {str(digest)[:12]}: "
                "the file was edited; restore it"
            )
    return manifest


def _write(manifest: Manifest) -> None:
    content = {
        "format": FORMAT,
        "digest": manifest.digest,
        "about_digest": canonical_digest(manifest.about),
        "identity": manifest.identity,
        "about": manifest.about,
    }
    write_atomically(manifest.run_dir / "manifest.json", json.dumps(content, indent=2, sort_keys=True) + "\n")


def open_run(
    run_dir: Path, identity: dict[str, Any], about: dict[str, Any], *, allow_different: bool = False
) -> Manifest:
    """Make a run folder, or join the one that is there, adding this command's tasks, problems and sample counts.

    Args:
        run_dir: the folder; with ``allow_different``, the first of it, ``<name>-2``, ``<name>-3``, … that fits.
        identity: what decides a sample; compared with the run's.
        about: what describes it; the run's own is kept, only ``tasks`` grows.
        allow_different: start a new run next to one made under other settings instead of refusing.

    Raises:
        DifferentRunError: the run was made under other settings.
    """
    for folder in _folders(run_dir):
        try:
            return _join(folder, identity, about)
        except DifferentRunError:
            if not allow_different:
                raise
    raise AssertionError("folders never end")


def find_run(run_dir: Path, identity: Mapping[str, Any], *, allow_different: bool = False) -> Manifest | None:
    """The run that ``open_run`` would join, as far as can be told before the engine is there; None: a new one.

    Args:
        run_dir: the folder, as for ``open_run``.
        identity: what decides a sample; of ``engine`` only what is known of it.
        allow_different: as for ``open_run``.

    Raises:
        DifferentRunError: the run was made under other settings.
    """
    for folder in _folders(run_dir):
        if not (folder / "manifest.json").exists():
            return None
        run = load_manifest(folder)
        found = differences(run.identity, {**identity, "engine": {**run.identity["engine"], **identity["engine"]}})
        if not found:
            return run
        if not allow_different:
            raise _different(folder, found)
    raise AssertionError("folders never end")


def _folders(run_dir: Path) -> Iterator[Path]:
    """A run's folder and, for runs under other settings, those next to it."""
    yield run_dir
    for number in count(2):
        yield run_dir.with_name(f"{run_dir.name}-{number}")


def _different(run_dir: Path, found: Iterable[str]) -> DifferentRunError:
    lines = "".join(f"\n  {line}" for line in found)
    return DifferentRunError(
        f"{run_dir}: this run was made under other settings; choose another --out, "
        f"or --allow-different to start a new run next to it:{lines}"
    )


def _join(run_dir: Path, identity: dict[str, Any], about: dict[str, Any]) -> Manifest:
    make_folder(run_dir)
    with _locked(run_dir):
        if (run_dir / "manifest.json").exists():
            run = load_manifest(run_dir)
            if found := differences(run.identity, identity):
                raise _different(run_dir, found)
            identity = {**run.identity, "tasks": {**run.identity["tasks"], **identity["tasks"]}}
            about = {**run.about, "tasks": _grown(run.about["tasks"], about["tasks"])}
        elif any((run_dir / "samples").glob("*.jsonl")):
            raise StapoError(f"{run_dir}: holds samples but no manifest.json; restore it or choose another --out")
        manifest = Manifest(run_dir=run_dir, identity=identity, about=about)
        _write(manifest)
        return manifest


def annotate(run_dir: Path, **facts: Any) -> None:
    """Add facts to what describes a run (``about``); one that is there already stays."""
    with _locked(run_dir):
        run = load_manifest(run_dir)
        if facts.keys() <= run.about.keys():
            return
        _write(replace(run, about={**facts, **run.about}))


def _grown(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Union of two ``about.tasks``: a smaller command takes nothing away from a run."""
    grown = dict(old)
    for name, task in new.items():
        before = old.get(name, {"problem_ids": [], "num_samples": 0})
        ids = list(dict.fromkeys([*before["problem_ids"], *task["problem_ids"]]))
        num_samples = max(before["num_samples"], task["num_samples"])
        grown[name] = {**task, "problem_ids": ids, "num_problems": len(ids), "num_samples": num_samples}
    return grown


def _refuse_special_files(run_dir: Path) -> None:
    """In a run folder from elsewhere a pipe, a device, or a link to one would be read, or waited for, without end."""
    for path in run_dir.rglob("*"):
        try:
            mode = path.stat().st_mode
        except OSError:  # gone since, or a link to nothing
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise StapoError(f"{path}: expected a file of the run's own, got a pipe, device or socket; remove it")
        if path.suffix == ".lock" and path.is_symlink():  # two of them on one file would wait for each other
            raise StapoError(f"{path}: expected a file of the run's own, got a link to {path.readlink()}; remove it")


def make_folder(run_dir: Path) -> None:
    """Make a run's folder, or say in one line why that cannot be done."""
    _refuse_special_files(run_dir)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / ".lock").touch()
    except OSError as error:
        raise StapoError(f"cannot write to {run_dir}: {error.strerror}; choose another --out") from None


@contextmanager
def _locked(run_dir: Path) -> Iterator[None]:
    """One at a time: shards that start together must not overwrite each other's additions."""
    with (run_dir / ".lock").open("a") as file:  # not "w": were it a link, the file behind it would be emptied
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    # Closing the file releases the lock. It is never deleted: another process may be waiting on it.


def environment_line() -> str:
    """The machine in words, for ``about``."""
    import platform

    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
