"""What the harness costs over the bare engine, and what one queue saves over a pass per seed.

    STAPO_BENCH_DATA=DIR python scripts/bench_eval.py --json results/bench/eval.json

Overhead, for the scripted engine (100 completions a second), a small random model and a larger one. ``bare`` is
``engine.generate`` alone, ``harness`` is ``stapo-bench eval`` from the open engine to the finished run folder: store
with fsync, live grading, progress. Both draw the same requests with the same open engine in one process, in turn, so
that each pair of runs meets the same machine; the medians over the pairs' ratios are printed.

* wall ratio: what a person waits.
* CPU ratio: CPU time of this process, all its threads (``time.process_time``). What the grading worker, a process of
  its own, uses is not in it but beside it (``worker_cpu_s``): a bare engine grades nothing. The scripted engine sleeps,
  so its CPU ratio says nothing and is left out; ``cpu_share`` is the CPU time that the harness adds over its wall time.

Makespan: the same requests in one queue and in a pass per seed with a barrier after each, as evaluation loops over
seeds have it. Lengths are those of real responses (DIR/responses.jsonl.gz), in characters over a fixed factor; without
DIR log-normal. The model is the small one; each sequence is stopped at its length.
"""

import argparse
import gzip
import io
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from random_model import byte_tokenizer, random_model, save

from stapo_bench.checkpoint import read_checkpoint
from stapo_bench.drawing import draw, look
from stapo_bench.engines import Engine
from stapo_bench.engines.slots import Work as Row
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.evaluate import EvalOptions, prepare, sampling_params
from stapo_bench.identity import run_about, run_identity
from stapo_bench.manifest import open_run
from stapo_bench.opening import open_for
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.tasks import load_task
from stapo_bench.work import Work, requests

TASKS = ("tiny_aime24", "tiny_amc23")
MODELS: Mapping[str, Mapping[str, int]] = {
    "small": {"hidden_size": 128, "num_layers": 4, "num_heads": 4, "head_dim": 32},
    "larger": {"hidden_size": 256, "num_layers": 6, "num_heads": 4, "head_dim": 64},
}
SCRIPT = "success: 0.5\nmedian_tokens: 2000\ntruncated: 0.1\ndelay_s: 0.01\n"
CHARACTERS_PER_TOKEN = 24  # of a real response: its length over this is the length drawn here, so that a run is short
LONGEST = 1024


# -- overhead ---------------------------------------------------------------------------------------------------------


def bare(engine: Engine, works: list[Work], options: EvalOptions) -> None:
    for _ in engine.generate(requests(works, options.seed), sampling_params(options)):
        pass


def harness(engine: Engine, works: list[Work], options: EvalOptions) -> None:
    """As ``evaluate`` does it with an open engine, into a folder of its own under ``options.out``."""
    checkpoint, params = read_checkpoint(options.checkpoint), sampling_params(options)
    identity = run_identity(checkpoint, works, params, options.seed, engine.identity())
    run_dir = Path(tempfile.mkdtemp(dir=options.out))
    run = open_run(run_dir, identity, run_about(options.decoding, checkpoint, works))
    stored = look(run, works, options.shard, io.StringIO())
    draw(stored, works, engine, params, io.StringIO())


def measured(side: Callable[..., None], *arguments: Any) -> dict[str, float]:
    """Seconds on the wall, CPU seconds of this process, and of its children (the grading worker)."""
    wall, cpu, children = time.perf_counter(), time.process_time(), _children_cpu()
    side(*arguments)
    return {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "worker_cpu_s": _children_cpu() - children,
    }


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def overhead(name: str, options: EvalOptions, repeats: int) -> dict[str, Any]:
    """Both sides in turn, each first every other time."""
    works = prepare([load_task(task) for task in options.tasks], options, read_checkpoint(options.checkpoint))
    engine = open_for(options, works)
    sides = {"bare": bare, "harness": harness}
    for side in sides.values():  # warm up: what is imported once is needed for the table anyway
        side(engine, [replace(work, num_samples=1) for work in works], options)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for turn in range(repeats):
        for side in sides if turn % 2 == 0 else reversed(sides):
            runs[side].append(measured(sides[side], engine, works, options))
    engine.close()

    def ratio(field: str) -> float:
        pairs = zip(runs["harness"], runs["bare"], strict=True)
        return round(statistics.median(ours[field] / theirs[field] for ours, theirs in pairs), 4)

    num_samples = sum(work.num_keys for work in works)
    middle = {side: statistics.median(run["wall_s"] for run in of_side) for side, of_side in runs.items()}
    added = [a["cpu_s"] - b["cpu_s"] for a, b in zip(runs["harness"], runs["bare"], strict=True)]
    return {
        "setting": name,
        "engine": options.engine,
        "samples": num_samples,
        "max_new_tokens": options.max_new_tokens,
        "bare_ms_per_sample": round(1000 * middle["bare"] / num_samples, 2),
        "wall_ratio": ratio("wall_s"),
        "cpu_ratio": None if options.engine == "scripted" else ratio("cpu_s"),
        "cpu_share": round(statistics.median(added) / middle["harness"], 4),
        "worker_cpu_s": round(statistics.median(run["worker_cpu_s"] for run in runs["harness"]), 3),
        "runs": {side: [{k: round(v, 3) for k, v in run.items()} for run in of_side] for side, of_side in runs.items()},
    }


def settings(folder: Path) -> Iterator[tuple[str, EvalOptions]]:
    """What the overhead is measured on."""
    (folder / "script.yaml").write_text(SCRIPT)
    plain = EvalOptions(checkpoint=folder / "script.yaml", decoding="training", tasks=TASKS, out=folder)
    yield "scripted, 100 completions/s", replace(plain, engine="scripted", samples=24, max_new_tokens=4096)
    for name, samples, limit in (("small", 16, 128), ("larger", 2, 256)):
        # Fewer end tokens where more are allowed: sequences of some hundred tokens.
        ends = range(256, 263) if limit == 128 else range(256, 259)
        model = random_model(**MODELS[name], context_length=1024, end_ids=tuple(ends))
        millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
        checkpoint = save(model, folder / name)
        yield (
            f"transformers, {name} random model ({millions:.1f} M parameters)",
            replace(plain, checkpoint=checkpoint, engine="transformers", samples=samples, max_new_tokens=limit),
        )


# -- makespan ---------------------------------------------------------------------------------------------------------


class Stopped(TransformersEngine):
    """Stops each sequence at a length of its own and nowhere else; counts forward passes over running sequences."""

    def __init__(self, lengths: Sequence[int], slots: int) -> None:
        super().__init__(random_model(**MODELS["small"], context_length=2048), byte_tokenizer(), slots=slots)
        self._end_ids = (-1,)
        self._lengths = lengths
        self.num_steps = 0

    def _work(self, request: Request, max_new_tokens: int) -> Row:
        return super()._work(request, self._lengths[request.seed])

    def _step(self, batch: Any, params: SamplingParams) -> list[Row]:
        self.num_steps += 1
        return super()._step(batch, params)


def one_queue(engine: Engine, asked: Sequence[Request]) -> None:
    for _ in engine.generate(asked, SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=LONGEST)):
        pass


def pass_per_seed(engine: Engine, asked: Sequence[Request]) -> None:
    """Sample j of every problem, wait for all, then sample j + 1."""
    for index in sorted({request.key.sample_index for request in asked}):
        one_queue(engine, [request for request in asked if request.key.sample_index == index])


def makespan(data: Path | None, repeats: int) -> dict[str, Any]:
    """The shape of AIME, 30 problems, with 8 samples each; a pass fits into the slots, as it does on a GPU."""
    problems, samples, slots = 30, 8, 32
    rng = random.Random(0)
    lengths = rng.choices(real_lengths(data) if data else lognormal_lengths(rng), k=problems * samples)
    prompts = [
        Prompt(task="bench", problem_id=str(i), text="", token_ids=tuple(rng.choices(range(256), k=16)))
        for i in range(problems)
    ]
    asked = [
        Request(key=SampleKey("bench", prompt.problem_id, j), prompt=prompt, seed=j * problems + i)
        for j in range(samples)
        for i, prompt in enumerate(prompts)
    ]
    engine = Stopped(lengths, slots)
    loops = {"one_queue": one_queue, "pass_per_seed": pass_per_seed}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in loops}
    for turn in range(repeats):
        for name in loops if turn % 2 == 0 else reversed(loops):
            engine.num_steps = 0
            runs[name].append({**measured(loops[name], engine, asked), "steps": engine.num_steps})

    def gain(field: str) -> float:
        pairs = zip(runs["pass_per_seed"], runs["one_queue"], strict=True)
        return round(statistics.median(theirs[field] / ours[field] for theirs, ours in pairs), 3)

    ordered = sorted(lengths)
    return {
        "lengths": f"real responses, characters / {CHARACTERS_PER_TOKEN}" if data else "log-normal",
        "tokens": {"median": ordered[len(ordered) // 2], "longest": ordered[-1], "mean": statistics.fmean(ordered)},
        "samples": len(asked),
        "slots": slots,
        "wall_gain": gain("wall_s"),
        "cpu_gain": gain("cpu_s"),
        "step_gain": gain("steps"),
        "runs": runs,
    }


def real_lengths(data: Path) -> list[int]:
    """New tokens at most ``LONGEST``, of the responses that the data folder holds."""
    with gzip.open(data / "responses.jsonl.gz", "rt", encoding="utf-8") as file:
        characters = [len(json.loads(line)["response"]) for line in file]
    return [min(LONGEST, 1 + count // CHARACTERS_PER_TOKEN) for count in characters]


def lognormal_lengths(rng: random.Random) -> list[int]:
    return [min(LONGEST, 1 + int(rng.lognormvariate(4.4, 0.8))) for _ in range(2000)]


# -- all of it --------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs; default: %(default)s")
    parser.add_argument("--only", help="settings whose name holds this word")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    arguments = parser.parse_args()
    data = os.environ.get("STAPO_BENCH_DATA")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, options in settings(Path(folder)):
            if arguments.only is None or arguments.only in name:
                row = overhead(name, options, arguments.repeats)
                rows.append(row)
                print(
                    f"{name}: {row['bare_ms_per_sample']} ms a sample; harness / bare: wall {row['wall_ratio']}, "
                    f"CPU {row['cpu_ratio']}; harness adds {100 * row['cpu_share']:.1f} % of a CPU",
                    flush=True,
                )
    spans = makespan(Path(data) if data else None, arguments.repeats)
    print(
        f"a pass per seed / one queue, lengths of {spans['lengths']}: wall {spans['wall_gain']}, "
        f"CPU {spans['cpu_gain']}, forward passes {spans['step_gain']}"
    )
    if arguments.json:
        result = {"about": about(), "repeats": arguments.repeats, "overhead": rows, "makespan": spans}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def about() -> dict[str, Any]:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return {
        "commit": subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
