"""Attacks by a foreign folder or server: pipes, devices and links in place of files, the API key sent back."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.bench import Bench
from tests.faults.kills import check_whole
from tests.faults.process import impatient, start
from tests.faults.servers import Handler, answering, free_port
from tests.faults.trial import Fault, Trial, check, same

KEY = "sk-the-key-that-nobody-may-see"
SPECIAL: tuple[Callable[[Path], None], ...] = (
    os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/proc/self/mem"),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to("/nowhere"),
    lambda path: path.mkdir(),
)
"""Special files in place of a regular one. Opened, the first blocks for ever and the second never ends."""

NAMES = ("samples/0009-x.jsonl", "grades/strict.jsonl", "grades/math.jsonl", "scores.json", ".lock", "manifest.json")


def special_data(bench: Bench, rng: Random, folder: Path) -> Trial:
    """``--data-dir`` contains a special file in place of a problem file."""
    data, run = folder / "data", folder / "run"
    data.mkdir()
    rng.choice(SPECIAL)(data / "sums.jsonl")
    command = bench.eval(run)
    command[command.index("--data-dir") + 1] = data
    start(command, folder).fail(1)
    check(not (run / "samples").exists(), "samples were drawn")
    start(bench.eval(run), folder).succeed()
    return Trial()


def special_run(bench: Bench, rng: Random, folder: Path) -> Trial:
    """In a run folder something stands where the run's own file is expected: refused in one line, or of no matter."""
    run = bench.copy(folder)
    path = run / rng.choice(NAMES)
    held = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    rng.choice(SPECIAL)(path)
    for command in readers(bench, run, folder):
        done = start(command, folder)
        if done.wait(90) != 0:
            done.fail(1)
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    if held is not None:
        path.write_bytes(held)
    start(bench.eval(run), folder).succeed()
    check_whole(bench, run)
    return Trial()


def links(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A foreign run folder contains a link to one of our files, which must never be written to."""
    run, ours = bench.copy(folder), folder / "ours"
    path = rng.choice([file for file in sorted(run.rglob("*")) if file.is_file()])
    shutil.copy(path, ours)
    with ours.open("ab") as file:  # a torn line, which is cut off a file of the run's own
        file.write(b'{"task":"sums","prob')
    held = ours.read_bytes()
    path.unlink()
    path.symlink_to(ours)
    for command in (*readers(bench, run, folder), bench.eval(run, "--samples", 9)):
        done = start(command, folder)
        if done.wait() != 0:
            done.fail(1)
    same(ours.read_bytes(), held, "bytes of a file elsewhere")
    return Trial()


def readers(bench: Bench, run: Path, folder: Path) -> tuple[list[object], ...]:
    """Command lines that read a run folder, one of each kind."""
    return (
        ["stapo-bench", "score", run, "--data-dir", bench.root],
        ["stapo-bench", "report", run, "--data-dir", bench.root, "-o", folder / "x.html"],
        bench.eval(run),
    )


def key_told_back(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A server puts the key that it was sent into its answers: it stands in no output and in no file."""
    status = rng.choice([400, 401, 429, 500])

    def act(handler: Handler, body: dict[str, Any]) -> None:
        handler.reply(f"wrong key: {handler.headers['Authorization']}".encode(), status=status)

    port, run = free_port(), folder / "run"
    server = answering(port, folder / "server", act)
    command = [*bench.eval(run), "--base-url", f"http://127.0.0.1:{port}/v1"]
    command[command.index("scripted")] = "openai"
    try:
        start(command, folder, before=with_key).fail(1)
    finally:
        server.kill()
    told = [str(path) for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    check(not told, f"the key stands in {told}")
    return Trial()


def with_key() -> None:
    """In a new process: a key to send, and little patience."""
    os.environ["OPENAI_API_KEY"] = KEY
    impatient()


FAULTS = tuple(
    Fault(name=name, unit="samples", trials=trials, quick=quick, inject=inject)
    for name, inject, trials, quick in (
        ("pipes, devices, links and folders in --data-dir", special_data, 12, 1),
        ("pipes, devices, links and folders in a run folder", special_run, 24, 1),
        ("a run's file is a link to a file elsewhere", links, 12, 0),
        ("a server that tells the API key back", key_told_back, 6, 1),
    )
)
