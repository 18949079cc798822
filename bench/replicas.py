"""How long several replicas take over long-tailed lengths, beside what no scheduler could beat.

    python -m bench.replicas --json results/bench/replicas.json

The scripted engine simulates the time of a token in processes of their own, each with 16 sequences at once, so that N
replicas are 16 N machines. Three ways through the same requests, and the least time there can be:

* ``replicas``: one queue (``stapo_bench.engines.replicas``), on the wall;
* ``killed``: the same, one replica killed half way; no sample may be lost or come twice;
* ``shards``: a static shard for each process (``--shard i/n``), by adding up, without anything that it would cost;
* ``in_turn``: as many machines that take from one list, by adding up: what an engine of that size could reach;
* ``ideal``: max(tokens / machines, longest); a replica that dies half way counts half.
"""

import argparse
import heapq
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.replicas import ReplicaProcess, ReplicatedEngine
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs import measured_with
from stapo_bench.seeds import derive_seed

AT_ONCE = 16  # sequences of a replica
PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4096)


def make_requests(problems: int, samples: int) -> list[Request]:
    """In rounds, as an evaluation asks."""
    return [
        Request(
            key=SampleKey("bench", str(i), j),
            prompt=Prompt(task="bench", problem_id=str(i), text="?"),
            seed=derive_seed(0, "bench", str(i), j),
        )
        for j in range(samples)
        for i in range(problems)
    ]


def in_turn(lengths: Iterable[int], machines: int) -> int:
    """Tokens until the last of these ends, where each machine takes the next as it is free."""
    ends = [0] * machines
    for length in lengths:
        heapq.heapreplace(ends, ends[0] + length)
    return max(ends)


def timed(engine: ReplicatedEngine, requests: Sequence[Request], *, kill: bool) -> float:
    """Seconds until all are there, each once."""
    keys = set()
    victim = next(iter(engine._ready))
    assert isinstance(victim, ReplicaProcess)
    start = time.perf_counter()
    for number, completion in enumerate(engine.generate(requests, PARAMS), start=1):
        assert completion.key not in keys
        keys.add(completion.key)
        if kill and number == len(requests) // 2:
            os.kill(victim._process.pid, signal.SIGKILL)
    assert keys == {request.key for request in requests}
    return time.perf_counter() - start


def measure(replicas: int, problems: int, samples: int, token_s: float) -> dict[str, Any]:
    """One size, all ways."""
    requests = make_requests(problems, samples)
    golds = {("bench", str(i)): "7" for i in range(problems)}
    found: dict[str, Any] = {"replicas": replicas, "samples": len(requests), "token_s": token_s}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.yaml"
        script.write_text("{spread: 0.8, median_tokens: 500}\n")
        alone = open_engine(EngineOptions(name="scripted", golds=golds), script)
        lengths = {one.key: one.num_tokens for one in alone.generate(requests, PARAMS)}
        script.write_text(f"{{spread: 0.8, median_tokens: 500, token_s: {token_s}}}\n")
        tokens, longest = sum(lengths.values()), max(lengths.values())
        found |= {"tokens": tokens, "longest": longest}
        for way, machines in (("replicas", replicas), ("killed", replicas - 0.5)):
            options = EngineOptions(name="scripted", golds=golds, replicas=str(replicas))
            engine = open_engine(options, script)
            assert isinstance(engine, ReplicatedEngine)
            try:
                wall = timed(engine, requests, kill=way == "killed")
            finally:
                engine.close()
            ideal = token_s * max(tokens / (AT_ONCE * machines), longest)
            found[way] = {"wall_s": wall, "ideal_s": ideal, "over_ideal": wall / ideal}
    parts = [[lengths[request.key] for request in requests[i::replicas]] for i in range(replicas)]
    in_turn_s = token_s * in_turn((lengths[request.key] for request in requests), AT_ONCE * replicas)
    found["in_turn"] = {"simulated_s": in_turn_s, "over_ideal": in_turn_s / found["replicas"]["ideal_s"]}
    static = token_s * max(in_turn(part, AT_ONCE) for part in parts)
    found["shards"] = {"simulated_s": static, "over_ideal": static / found["replicas"]["ideal_s"]}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--samples", type=int, default=64, help="of a problem and replica")
    parser.add_argument("--token-s", type=float, default=0.001)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = []
    for replicas in given.replicas:
        sizes.append(measure(replicas, given.problems, given.samples * replicas, given.token_s))
        print(json.dumps(sizes[-1]), file=sys.stderr)
    if given.json:
        content = {**measured_with([]), "sizes": sizes}
        given.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
