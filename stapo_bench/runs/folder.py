"""Run folders: made, joined by a second command, found again.

A run folder takes samples of one identity. A second command may add tasks, problems or samples to it; any other
difference is refused, listed field by field, so that no table ever mixes two settings under one name.

    manifest = open_run(Path("results/base-justrl"), identity, about)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.runs.files import can_write, open_own, own_folder
from stapo_bench.runs.identity import Identity
from stapo_bench.runs.locks import is_locked, locked_folder
from stapo_bench.runs.manifest import (
    About,
    AskedTask,
    Manifest,
    Stopping,
    load_manifest,
    refuse_special_files,
    write_manifest,
)


class DifferentRunError(StapoError):
    """The run folder was made under other settings."""


def differences(run: Identity, now: Identity, *, whole_engine: bool = True) -> list[str]:
    """Fields in which two identities differ, one line each. Tasks are compared where both have them.

    Args:
        run: the identity of a run.
        now: the identity of what is to join it.
        whole_engine: False: what ``now`` does not state of its engine is not compared.

    >>> from stapo_bench.records import SamplingParams
    >>> sampling = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=8)
    >>> one = Identity(checkpoint_digest="c", tasks={}, sampling=sampling, seed=0, engine={"name": "scripted"})
    >>> differences(one, replace(one, seed=1, engine={})), differences(one, replace(one, engine={}), whole_engine=False)
    (['engine.name: the run has scripted, now nothing', 'seed: the run has 0, now 1'], [])
    """
    if not whole_engine:
        now = replace(now, engine={**run.engine, **now.engine})
    both = run.tasks.keys() & now.tasks.keys()
    old, new = run.with_tasks(both).fields(), now.with_tasks(both).fields()
    return [
        f"{name}: the run has {old.get(name, 'nothing')}, now {new.get(name, 'nothing')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def open_run(run_dir: Path, identity: Identity, about: About, *, allow_different: bool = False) -> Manifest:
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


def find_run(run_dir: Path, identity: Identity, *, allow_different: bool = False) -> Manifest | None:
    """The run that ``open_run`` would join, as far as is known before the engine is open; None: a new one.

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
        if not (found := differences(run.identity, identity, whole_engine=False)):
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


def _join(run_dir: Path, identity: Identity, about: About) -> Manifest:
    make_folder(run_dir)
    with locked_folder(run_dir):
        if (run_dir / "manifest.json").exists():
            run = load_manifest(run_dir)
            if found := differences(run.identity, identity):
                raise _different(run_dir, found)
            identity = replace(run.identity, tasks={**run.identity.tasks, **identity.tasks})
            about = replace(run.about, tasks=_grown(run.about.tasks, about.tasks))
        elif any((run_dir / "samples").glob("*.jsonl")):
            raise StapoError(f"{run_dir}: holds samples but no manifest.json; restore it or choose another --out")
        manifest = Manifest(run_dir=run_dir, identity=identity, about=about)
        write_manifest(manifest)
        return manifest


def state_stopping(run_dir: Path, stopping: Stopping) -> None:
    """Write into a run's manifest that it stops early, and under which rule; the first that was stated stays."""
    with locked_folder(run_dir):
        run = load_manifest(run_dir)
        if run.about.stopping is None:
            write_manifest(replace(run, about=replace(run.about, stopping=stopping)))


def _grown(old: Mapping[str, AskedTask], new: Mapping[str, AskedTask]) -> dict[str, AskedTask]:
    """Union of what two commands ask for: a smaller command takes nothing away from a run."""
    grown = dict(old)
    for name, task in new.items():
        before = old.get(name, task)
        ids = tuple(dict.fromkeys((*before.problem_ids, *task.problem_ids)))
        grown[name] = replace(task, problem_ids=ids, num_samples=max(before.num_samples, task.num_samples))
    return grown


@contextmanager
def nothing_left_behind(folder: Path, *beginnings: str) -> Iterator[None]:
    """Where the block fails, remove the folders that it made down to this one, if no work has been put there yet.

    Args:
        folder: what the block makes and fills.
        beginnings: names of files that are there before any work, beside locks.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        if made and folder.is_dir():
            _remove_beginnings(folder, beginnings)
            with suppress(OSError):  # work of ours or of another process is in it
                for path in made:
                    path.rmdir()
        raise


def _remove_beginnings(folder: Path, names: Sequence[str]) -> None:
    """Remove a folder's locks and the named files, if it holds nothing else and no process holds a lock."""
    files = list(folder.iterdir())
    locks = [file for file in files if file.name.startswith(".") and ".lock" in file.name]
    if any(file not in locks and file.name not in names for file in files):
        return
    if not any(is_locked(lock) for lock in locks if lock.name.endswith(".lock")):  # ".lock" itself has no suffix
        for file in folder.iterdir():
            file.unlink()


def is_archive(run_dir: Path) -> bool:
    """Whether a run stands there that cannot be written: a finished one is scored and shown all the same."""
    return (run_dir / "manifest.json").is_file() and not can_write(run_dir)


def make_folder(run_dir: Path) -> None:
    """Make a run's folder, or say in one line why that cannot be done."""
    refuse_special_files(run_dir)
    try:
        own_folder(run_dir)
        open_own(run_dir, ".lock").close()
    except OSError as error:
        raise StapoError(f"cannot write to {run_dir}: {error.strerror}; choose another --out") from None
