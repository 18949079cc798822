"""An evaluation of two small tasks by an engine that answers by seed alone; imported by the evaluation's tests.

Run as a script it is one evaluation in a process of its own, which tests may kill:
``python eval_setup.py FOLDER SHARD NUM_SHARDS SECONDS``, the last of which each sample takes.
"""

import hashlib
import io
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from stapo_bench.records import Completion, Request, SampleKey, SamplingParams
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.generate import SamplingResult

NUM_PROBLEMS, NUM_SAMPLES = 12, 8


class FakeEngine:
    """Answers by the request's seed alone: equal requests get equal completions, in whatever order they come."""

    continues_exactly = False

    def __init__(self, *, seconds: float = 0.0, version: str = "1", fail_after: int | None = None) -> None:
        self.seconds = seconds
        self.version = version
        self.fail_after = fail_after
        self.requested: list[Request] = []
        self.closed = False

    def identity(self) -> dict[str, str]:
        return {"name": "fake", "version": self.version}

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        waiting: list[Request] = []
        for request in requests:
            if self.fail_after is not None and len(self.requested) == self.fail_after:
                raise RuntimeError("the device fell off the bus")
            self.requested.append(request)
            waiting.append(request)
            if len(waiting) == 5:  # completions come out of order
                yield from self._end(waiting)
        yield from self._end(waiting)

    def _end(self, waiting: list[Request]) -> Iterator[Completion]:
        while waiting:
            time.sleep(self.seconds)
            yield self.complete(waiting.pop())

    def complete(self, request: Request) -> Completion:
        words = hashlib.sha256(f"{request.seed}{request.prompt.text}".encode()).hexdigest()
        text = f"{words} \\boxed{{{request.seed % 3}}}"
        return Completion(key=request.key, text=text, finish_reason="stop", num_tokens=7, log_probs=(-0.5, -0.25))

    def close(self) -> None:
        self.closed = True


def make_task(folder: Path, name: str, num_problems: int = NUM_PROBLEMS, template: str = "{{problem}}") -> str:
    """A task file with its data; the gold of every problem is 1."""
    file = folder / f"{name}.yaml"
    folder.mkdir(exist_ok=True)
    rows = [{"id": f"{name}-{i}", "problem": f"{name}: {i} - {i} + 1?", "answer": "1"} for i in range(num_problems)]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file.write_text(
        f"task: {name}\nrepeats: {NUM_SAMPLES}\ndoc_to_text: '{template}'\nmetadata: {{num_problems: {num_problems}}}\n"
    )
    return str(file)


def make_options(folder: Path, **changes: object) -> EvalOptions:
    """An evaluation of both tasks; its files are made where they are not there yet."""
    checkpoint = folder / "scripted.yaml"
    if not checkpoint.exists():
        checkpoint.write_text("success: 0.5\n")
        make_task(folder, "one")
        make_task(folder, "two")
    options = EvalOptions(
        checkpoint=checkpoint,
        decoding="justrl",
        tasks=(str(folder / "one.yaml"), str(folder / "two.yaml")),
        out=folder / "run",
        data_dir=folder,
        max_new_tokens=16,
    )
    return replace(options, **changes)


def run(options: EvalOptions, engine: FakeEngine | None = None) -> SamplingResult:
    return evaluate(options, engine=engine or FakeEngine(), watch=io.StringIO())


def completions(run_dir: Path) -> dict[SampleKey, str]:
    return {sample.key: sample.completion for sample in read_samples(run_dir)}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unbroken_run(folder: Path) -> dict[SampleKey, str]:
    """What a run gives that nothing interrupts; it stands in ``unbroken``."""
    run(replace(make_options(folder), out=folder / "unbroken"))
    return completions(folder / "unbroken")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    options = make_options(folder, shard=(int(sys.argv[2]), int(sys.argv[3])))
    evaluate(options, engine=FakeEngine(seconds=float(sys.argv[4])), watch=sys.stderr)
