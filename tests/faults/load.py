"""Heavy load: a thousand requests to a slow server, many samples; memory and file handles must not grow."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.bench import Bench, key_of, stored
from tests.faults.process import Command, start
from tests.faults.servers import Handler, answer, answering, free_port
from tests.faults.trial import Fault, Trial, check


def slowly(handler: Handler, body: dict[str, Any], seconds: float = 1.0) -> None:
    """An answer after a second."""
    import json

    time.sleep(seconds)
    handler.reply(json.dumps(answer(body)).encode())


class Watch:
    """Watches a running process: MB of its private memory, and its number of open files."""

    def __init__(self, command: Command) -> None:
        self.memory: list[float] = []
        self.files: list[int] = []
        self._command = command
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        place = Path(f"/proc/{self._command.pid}")
        while self._command.code is None:
            try:
                lines = (place / "smaps_rollup").read_text().splitlines()
                files = len(list((place / "fd").iterdir()))
            except OSError:
                return
            kibibytes = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
            self.memory.append(kibibytes * 1024 / 1e6)
            self.files.append(files)
            time.sleep(0.1)


def many_requests(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """``count`` simultaneous requests to a server that takes a second over each."""
    port, run = free_port(), folder / "run"
    server = answering(port, folder, slowly)
    where = ("--tasks", bench.task, "--data-dir", bench.root, "--out", run, "--base-url", f"http://127.0.0.1:{port}/v1")
    samples = 3 * count // 20  # of 20 problems: three rounds of requests
    arguments = ["stapo-bench", "eval", "--engine", "openai", "--ckpt", bench.script(), "--decoding", "justrl", *where]
    started = time.monotonic()
    drawing = start([*arguments, "--max-new-tokens", 64, "--slots", count, "--samples", samples], folder)
    watch = Watch(drawing)
    try:
        drawing.succeed()
    finally:
        server.kill()
    seconds = time.monotonic() - started
    rows = stored(run)
    check(len({key_of(row) for row in rows}) == len(rows) == 20 * samples, f"{len(rows)} samples")
    num_files = max(watch.files, default=0)
    check(num_files < count + 200, f"{num_files} files open")
    rate = len(rows) / seconds
    note = f"{count} in flight: {rate:.0f} samples/s, {max(watch.memory, default=0):.0f} MB, {num_files} files at most"
    return Trial(injected=len(rows), note=note)


def many_samples(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """``count`` samples in one run; memory grows only by the bits of their keys."""
    run = folder / "run"
    started = time.monotonic()
    drawing = start(bench.eval(run, "--samples", count // 20), folder, before=partial(no_grading))
    watch = Watch(drawing)
    drawing.wait(900)
    drawing.succeed()
    seconds = time.monotonic() - started
    num_lines = sum(path.read_bytes().count(b"\n") for path in (run / "samples").glob("*.jsonl"))
    check(num_lines == count, f"{num_lines} samples instead of {count}")
    third = len(watch.memory) // 3
    grown = max(watch.memory[-third:]) - max(watch.memory[:third])
    check(grown < 150, f"memory grew by {grown:.0f} MB")
    check(max(watch.files) - min(watch.files) < 20, f"{min(watch.files)} to {max(watch.files)} files open")
    note = (
        f"{count / seconds:.0f} samples/s drawn; memory {max(watch.memory):.0f} MB at most, {grown:+.0f} MB from the "
    )
    return Trial(injected=count, note=note + f"first third to the last; {max(watch.files)} files at most")


def no_grading() -> None:
    """In a new process: draw and store, and leave grades and scores to their own measurements."""
    from stapo_bench import presenting

    skip: Callable[..., None] = lambda *_arguments, **_more: None  # noqa: E731
    presenting.finish_run = presenting.rows_from_scores = presenting.render_table = skip


FAULTS = (
    Fault(name="1,000 requests at once", unit="samples", trials=1, quick=0, inject=partial(many_requests, count=1000)),
    Fault(name="200,000 samples", unit="samples", trials=1, quick=0, inject=partial(many_samples, count=200_000)),
    Fault(name="1,000,000 samples", unit="samples", trials=1, quick=0, inject=partial(many_samples, count=1_000_000)),
)
