"""The n-th write, fsync or rename of a command fails, for every n: SQLite is tested like this.

    python -m tests.faults --only "call fails"

``fail_call.c``, preloaded into a process of its own, makes a call fail: from it on every write (a full disk), or it
alone (EIO). After each n the command has ended well or with one line that names a file; what stands in the folder can
be read or is named; and the same command without the fault ends with the files of a run in which nothing failed, byte
for byte, and nothing beside them. The process forks for every n, so that nothing is imported twice.
"""

import ctypes
import errno
import json
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.runs import load_manifest, read_grades, read_samples
from tests.faults.bench import Bench, results, reward_by_hash, trained_results
from tests.faults.process import preload, start
from tests.faults.trial import BrokenError, Fault, Trial, WrongError, check, same

SOURCE = Path(__file__).with_name("fail_call.c")
LIBRARY = "fail_call.so"
PATIENCE_S = 1800.0
WAYS = ((errno.ENOSPC, True), (errno.EIO, False))  # the error, and whether later writes fail too


@dataclass(frozen=True, kw_only=True)
class Work:
    """A command whose calls fail: what it works on and what it makes."""

    command: Callable[[Bench, Path], list[object]]  # of a folder
    before: Callable[[Bench, Path], object] = lambda bench, folder: None  # puts into the folder what the command needs
    made: Callable[[Path], object]  # the content of what it makes
    atomic: tuple[str, ...] = ()  # of them, files that are the one before or the new one at any moment
    in_process: Callable[[], None] | None = None
    check: Callable[[Path], None] = lambda folder: None  # of what a failure left


def evaluation(bench: Bench, folder: Path) -> list[object]:
    """Two problems, two samples each; their answers are compared without a grading process."""
    task = bench.root / "plain.yaml"
    rows = [{"id": f"p{i}", "problem": f"{i}?", "answer": f"{i}"} for i in (1, 2)]
    (bench.root / "plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task.write_text("task: plain\nrepeats: 2\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 2}\n")
    answers = bench.root / "plain-script.yaml"
    answers.write_text('{"success": 0.5, "median_tokens": 20, "wrong": ["11"]}')
    script = ("--engine", "scripted", "--ckpt", answers, "--decoding", "justrl")
    where = ("--tasks", task, "--data-dir", bench.root, "--out", folder / "run")
    return ["stapo-bench", "eval", *script, "--max-new-tokens", 64, *where]


def drawn(bench: Bench, folder: Path) -> Path:
    """Put a copy of a finished evaluation into the folder."""
    whole = bench.root / "drawn"
    if not (whole / "run" / "table.md").exists():
        start(evaluation(bench, whole), bench.outputs).succeed()
    return Path(shutil.copytree(whole / "run", folder / "run"))


def ungraded(bench: Bench, folder: Path) -> None:
    """Put a drawn run into the folder whose grades are of another version, and torn."""
    path = drawn(bench, folder) / "grades" / "math.jsonl"
    path.write_bytes(path.read_bytes().replace(b"math-15", b"math-0") + b'{"task":"pl')


def readable(folder: Path) -> None:
    """Read a run: what cannot be read is named."""
    run = folder / "run"
    try:
        if run.is_dir():
            list(read_samples(run, load_manifest(run).stamps))
            read_grades(run, "math")
    except StapoError as error:
        check(str(run) in str(error), f"nothing is named: {error}")


def grades_of(folder: Path) -> object:
    """The grade file, its lines in order: they are appended in the order of the samples."""
    return (folder / "run" / "grades" / "math.jsonl").read_bytes()


def train(bench: Bench, folder: Path) -> list[object]:
    """One iteration with its checkpoint and state, then the final one."""
    return [*bench.train(folder / "run"), "iterations=2"]


WORKS = {
    "eval": Work(
        command=evaluation,
        made=lambda folder: results(folder / "run"),
        atomic=("run/scores.json", "run/table.md"),
        check=readable,
    ),
    "grade": Work(
        command=lambda bench, folder: ["stapo-bench", "grade", folder / "run", "--data-dir", bench.root],
        before=ungraded,
        made=grades_of,
        check=readable,
    ),
    "score": Work(
        command=lambda bench, folder: ["stapo-bench", "score", folder / "run", "--data-dir", bench.root],
        before=ungraded,
        made=lambda folder: results(folder / "run"),
        atomic=("run/manifest.json", "run/scores.json", "run/table.md"),
        check=readable,
    ),
    "export": Work(
        command=lambda bench, folder: ["stapo-bench", "export", folder / "run", "-o", folder / "samples.csv"],
        before=drawn,
        made=lambda folder: (folder / "samples.csv").read_bytes(),
        atomic=("samples.csv",),
    ),
    "report": Work(
        command=lambda bench, folder: ["stapo-bench", "report", folder / "run", "-o", folder / "report.html"],
        before=drawn,
        made=lambda folder: (folder / "report.html").read_bytes(),
        atomic=("report.html",),
    ),
    "stapo-train": Work(
        command=train,
        made=lambda folder: trained_results(folder / "run"),
        atomic=("run/checkpoints/step-000001/stapo.json", "run/checkpoints/final/model.safetensors"),
        in_process=reward_by_hash,
    ),
}


# -- in the process with the library ----------------------------------------------------------------------------------


def fail_each(bench: Bench, folder: Path, work: Work, first: int, stride: int) -> Trial:
    """Fail call ``first``, ``first + stride``, … of a command, in every way, until it makes no more calls."""
    library, shared = ctypes.CDLL(LIBRARY), mmap.mmap(-1, 8)
    count = ctypes.c_long.from_buffer(shared)
    whole = folder / "whole"
    whole.mkdir()
    work.before(bench, whole)
    start(work.command(bench, whole), bench.outputs, before=work.in_process).succeed()
    expected, new, names = work.made(whole), contents(whole, work.atomic), names_in(whole)
    injected = 0

    def armed(place: Path, n: int, number: int, full: bool) -> None:
        if work.in_process is not None:
            work.in_process()
        library.arm(ctypes.byref(count), os.fsencode(place.resolve()), ctypes.c_long(n), number, full)

    for number, full in WAYS:
        for n in iter_from(first, stride):
            place = folder / "at"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            work.before(bench, place)
            before = contents(place, work.atomic)
            count.value = 0
            what = f"call {n}, {errno.errorcode[number]}"
            try:
                done = start(work.command(bench, place), folder / "outputs", partial(armed, place, n, number, full))
                if done.wait() != 0:
                    line = done.fail(1)
                    check(str(place) in line, f"no file is named: {line}")
                if count.value < n:
                    break
                injected += 1
                work.check(place)
                for file, content in contents(place, work.atomic).items():
                    check(content in (before[file], new[file]), f"{file} is neither the old one nor the new one")
                start(work.command(bench, place), folder / "outputs", work.in_process).succeed()
                same(work.made(place), expected, "results")
                check(names_in(place) == names, f"left behind: {names_in(place) ^ names}")
            except BrokenError as error:
                raise type(error)(f"{what}: {error}") from None
    return Trial(injected=injected)


def contents(folder: Path, names: Sequence[str]) -> dict[str, bytes | None]:
    """The bytes of files; None: not there."""
    return {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in names}


def iter_from(first: int, stride: int) -> Iterator[int]:
    """first, first + stride, …"""
    while True:
        yield first
        first += stride


def names_in(folder: Path) -> set[str]:
    """The files of a folder; of segments, whose names are drawn by chance, only that there are some."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return {"samples" if path.parent.name == "samples" else str(path) for path in paths}


def main() -> None:
    """Perform the trial that the arguments name; the last line says what came of it."""
    root, folder, name, first, stride = sys.argv[1:]
    preload("stapo" if name == "stapo-train" else "stapo_bench")
    try:
        trial = fail_each(Bench(Path(root)), Path(folder), WORKS[name], int(first), int(stride))
        told: dict[str, Any] = asdict(trial)
    except BrokenError as error:
        told = {"error": str(error), "is_wrong": isinstance(error, WrongError)}
    print(json.dumps(told))


# -- in the campaign --------------------------------------------------------------------------------------------------


@cache
def library(folder: Path) -> str | None:
    """Compile the library; None where there is no compiler, or none that makes it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", folder / LIBRARY, SOURCE, "-ldl"]
    return str(folder / LIBRARY) if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def every_call(
    bench: Bench, rng: Random, folder: Path, *, name: str, stride: int = 1, module: str = "tests.faults.every_call"
) -> Trial:
    """Fail calls of one command in a process of its own, every ``stride``-th from a random one on."""
    preloaded = library(bench.root)
    if preloaded is None:
        return Trial(injected=0, note="not run: no C compiler")
    first = rng.randrange(1, stride + 1)
    asked = [sys.executable, "-m", module, bench.root, folder, name, first, stride]
    env = {**os.environ, "LD_PRELOAD": preloaded, "LD_LIBRARY_PATH": str(bench.root)}
    done = subprocess.run(
        list(map(str, asked)), env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    check(done.returncode == 0, f"the process with the library ended with {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    if "error" in told:
        raise (WrongError if told["is_wrong"] else BrokenError)(told["error"])
    return Trial(**told)


FAULTS = tuple(
    Fault(name=f"every call fails, {name}", unit="files", trials=1, quick=0, inject=partial(every_call, name=name))
    for name in WORKS
)


if __name__ == "__main__":
    main()
