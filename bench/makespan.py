"""Compares one queue with one pass per seed and a barrier after each, as in evaluation loops over seeds.

``bench.eval`` runs it. The requests are the same; lengths are those of real responses, in characters over a
fixed factor, or log-normal. The model is a small random one; each sequence is stopped at its length.
"""

import gzip
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stapo_bench.engines import Engine
from stapo_bench.engines.slots import SequenceState
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_train.tiny.random_model import byte_tokenizer, random_model

SMALL: Mapping[str, int] = {"hidden_size": 128, "num_layers": 4, "num_heads": 4, "head_dim": 32}
CHARACTERS_PER_TOKEN = 48  # lengths here are those of real responses over this, so that a run is short
LONGEST = 512


class Stopped(TransformersEngine):
    """Stops each sequence at a length of its own and nowhere else; counts forward passes over running sequences."""

    def __init__(self, lengths: Sequence[int], slots: int) -> None:
        super().__init__(random_model(**SMALL, context_length=2048), byte_tokenizer(), slots=slots)
        self._end_ids = (-1,)
        self._lengths = lengths
        self.num_steps = 0

    def _sequence(self, request: Request, max_new_tokens: int) -> SequenceState:
        return super()._sequence(request, self._lengths[request.seed])

    def _step(self, batch: Any, params: SamplingParams) -> list[SequenceState]:
        self.num_steps += 1
        return super()._step(batch, params)


def one_queue(engine: Engine, asked: Sequence[Request]) -> None:
    """All requests at once: a slot that is free takes the next one."""
    for _ in engine.generate(asked, SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=LONGEST)):
        pass


def pass_per_seed(engine: Engine, asked: Sequence[Request]) -> None:
    """Sample j of every problem, wait for all, then sample j + 1."""
    for index in sorted({request.key.sample_index for request in asked}):
        one_queue(engine, [request for request in asked if request.key.sample_index == index])


def timed(
    loop: Callable[[Engine, Sequence[Request]], None], engine: Engine, asked: Sequence[Request]
) -> dict[str, float]:
    """Wall and CPU seconds of one way through the requests."""
    wall, cpu = time.perf_counter(), time.process_time()
    loop(engine, asked)
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


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
            runs[name].append({**timed(loops[name], engine, asked), "steps": engine.num_steps})

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
    """Lengths where no real ones are at hand."""
    return [min(LONGEST, 1 + int(rng.lognormvariate(3.7, 0.8))) for _ in range(2000)]
