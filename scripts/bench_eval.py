"""What the harness costs over the bare engine, and what one queue saves over a pass per seed.

    STAPO_BENCH_DATA=DIR python scripts/bench_eval.py --json results/bench/eval.json

Overhead, for the scripted engine (100 completions a second), a small random model and a larger one. ``bare`` is
``engine.generate`` alone, ``harness`` is ``stapo-bench eval`` from the open engine to the finished run folder: store
with fsync, live grading, progress. Both draw the same requests with the same open engine in one process, in turn, so
that each pair of runs meets the same machine. Of the pairs' ratios the median is given; beside it the ratio of each
side's least, which a busy machine disturbs least, and the median without what a run costs once (``fixed_s``: manifest,
segment, the grading worker's start), which a long run does not notice.

* wall: what a person waits.
* CPU: of this process, all its threads (``time.process_time``). What the grading worker, a process of its own, uses is
  not in it but beside it (``worker_cpu_s``): a bare engine grades nothing. ``by_parts`` is 1 + the least CPU time of
  the harness with the same completions replayed at once, over the least of the bare run. For the scripted engine,
  which sleeps, a ratio would say nothing: ``cpu_share`` is the CPU time that the harness adds, over bare wall time.

Makespan: the same requests in one queue and in a pass per seed with a barrier after each, as evaluation loops over
seeds have it. Lengths are those of real responses (DIR/responses.jsonl.gz), in characters over a fixed factor; without
DIR log-normal. The model is the small one; each sequence is stopped at its length.
"""

import argparse
import gzip
import io
import json
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measured import measured_with
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
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.tasks import load_task
from stapo_bench.work import Work, requests

TASKS = ("tiny_aime24", "tiny_amc23")
MODELS: Mapping[str, Mapping[str, int]] = {
    "small": {"hidden_size": 128, "num_layers": 4, "num_heads": 4, "head_dim": 32},
    "larger": {"hidden_size": 256, "num_layers": 6, "num_heads": 4, "head_dim": 64},
}
SCRIPT = "success: 0.5\nmedian_tokens: 2000\ntruncated: 0.1\ndelay_s: 0.01\n"
CHARACTERS_PER_TOKEN = 48  # of a real response: its length over this is the length drawn here, so that a run is short
LONGEST = 512


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


class Replay:
    """Gives an engine's completions again, at once."""

    goes_on = False

    def __init__(self, engine: Engine, completions: Iterable[Completion]) -> None:
        self._engine = engine
        self._completions = {completion.key: completion for completion in completions}

    def identity(self) -> dict[str, str]:
        return self._engine.identity()

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        return (self._completions[request.key] for request in requests)

    def close(self) -> None:
        """Nothing to give back."""


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
    """Both sides in turn, each first every other time; then what a harness run costs that draws next to nothing."""
    works = prepare([load_task(task) for task in options.tasks], options, read_checkpoint(options.checkpoint))
    one = [replace(work, num_problems=1, num_samples=1) for work in works]
    engine = open_for(options, works)
    sides = {"bare": bare, "harness": harness}
    # Warm up: what is imported once is needed for the table anyway.
    replay = Replay(engine, engine.generate(requests(works, options.seed), sampling_params(options)))
    replayed = [measured(harness, replay, works, options)["cpu_s"] for _ in range(5)]
    runs: dict[str, list[dict[str, float]]] = {"bare": [], "harness": [], "bare_one": [], "harness_one": []}
    for turn in range(repeats):
        for side in sides if turn % 2 == 0 else reversed(sides):
            runs[side].append(measured(sides[side], engine, works, options))
            runs[f"{side}_one"].append(measured(sides[side], engine, one, options))
    engine.close()

    def of(side: str, field: str) -> list[float]:
        return [run[field] for run in runs[side]]

    # What the harness does besides drawing, over the drawing: two measurements that a busy machine hardly disturbs.
    by_parts = 1 + (min(replayed) - measured(bare, replay, works, options)["cpu_s"]) / min(of("bare", "cpu_s"))

    def ratios(field: str) -> dict[str, float]:
        fixed = statistics.median(of("harness_one", field)) - statistics.median(of("bare_one", field))
        ours, theirs = of("harness", field), of("bare", field)
        pairs = list(zip(ours, theirs, strict=True))
        return {
            "median": round(statistics.median(a / b for a, b in pairs), 4),
            "of_the_least": round(min(ours) / min(theirs), 4),
            "without_fixed": round(statistics.median((a - fixed) / b for a, b in pairs), 4),
            "fixed_s": round(fixed, 4),
        }

    num_samples = sum(work.num_keys for work in works)
    added = [a - b for a, b in zip(of("harness", "cpu_s"), of("bare", "cpu_s"), strict=True)]
    return {
        "setting": name,
        "engine": options.engine,
        "samples": num_samples,
        "max_new_tokens": options.max_new_tokens,
        "bare_ms_per_sample": round(1000 * min(of("bare", "wall_s")) / num_samples, 2),
        "wall_ratio": ratios("wall_s"),
        "cpu_ratio": None if options.engine == "scripted" else {**ratios("cpu_s"), "by_parts": round(by_parts, 4)},
        "cpu_share": round(statistics.median(added) / statistics.median(of("bare", "wall_s")), 4),
        "worker_cpu_s": round(statistics.median(of("harness", "worker_cpu_s")), 3),
        "runs": {side: [{k: round(v, 3) for k, v in run.items()} for run in of_side] for side, of_side in runs.items()},
    }


def settings(folder: Path) -> Iterator[tuple[str, EvalOptions]]:
    """What the overhead is measured on."""
    (folder / "script.yaml").write_text(SCRIPT)
    plain = EvalOptions(checkpoint=folder / "script.yaml", decoding="training", tasks=TASKS, out=folder)
    yield "scripted, 100 completions/s", replace(plain, engine="scripted", samples=12, max_new_tokens=4096)
    for name, samples, limit in (("small", 8, 128), ("larger", 1, 256)):
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
    return [min(LONGEST, 1 + int(rng.lognormvariate(3.7, 0.8))) for _ in range(2000)]


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
    spans = makespan(Path(data) if data else None, min(arguments.repeats, 3))
    print(
        f"a pass per seed / one queue, lengths of {spans['lengths']}: wall {spans['wall_gain']}, "
        f"CPU {spans['cpu_gain']}, forward passes {spans['step_gain']}"
    )
    if arguments.json:
        result = {
            **measured_with(["torch", "transformers"]),
            "threads": torch.get_num_threads(),
            "repeats": arguments.repeats,
            "overhead": rows,
            "makespan": spans,
        }
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
