"""How long several replicas take over long-tailed lengths, beside what no scheduler could beat.

    python -m bench.replicas --ray --json results/bench/replicas.json      # needs Ray: .venv-verl/bin/python has it

The scripted engine simulates the time of a token in processes of their own, each with 16 sequences at once, so that N
replicas are 16 N machines. Ways through the same requests, and the least time there can be:

* ``replicas``: one queue (``stapo_bench.engines.replicas``), on the wall;
* ``killed``: the same, one replica killed half way; no sample may be lost or come twice;
* ``ray``, ``ray_killed``: both on a Ray cluster of N machines, Ray's local one; what is killed is a machine;
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.replica_process import ReplicaProcess
from stapo_bench.engines.replicas import ReplicatedEngine
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


def timed(engine: ReplicatedEngine, requests: Sequence[Request], kill: Callable[[], None] | None) -> float:
    """Seconds until all are there, each once; ``kill`` is called half way."""
    keys = set()
    start = time.perf_counter()
    for number, completion in enumerate(engine.generate(requests, PARAMS), start=1):
        assert completion.key not in keys
        keys.add(completion.key)
        if kill and number == len(requests) // 2:
            kill()
    assert keys == {request.key for request in requests}
    return time.perf_counter() - start


@contextmanager
def local_cluster(machines: int) -> Iterator[Any]:
    """Ray's local cluster: a head that runs nothing and machines with a processor each."""
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    memory = {"object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**memory, "num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(machines):
            cluster.add_node(**memory, num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


def kill_one(engine: ReplicatedEngine, cluster: Any | None) -> None:
    """A replica of this machine, or a machine of the cluster."""
    if cluster is not None:
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        return
    victim = next(iter(engine._ready))
    assert isinstance(victim, ReplicaProcess)
    os.kill(victim._process.pid, signal.SIGKILL)


def measure(replicas: int, problems: int, samples: int, token_s: float, *, with_ray: bool) -> dict[str, Any]:
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
        for way in ("replicas", "killed", *(("ray", "ray_killed") if with_ray else ())):
            with local_cluster(replicas) if "ray" in way else nullcontext() as cluster:
                address = cluster.address if cluster else None
                options = EngineOptions(name="scripted", golds=golds, replicas=str(replicas), ray=address)
                engine = open_engine(options, script)
                assert isinstance(engine, ReplicatedEngine)
                with closing(engine):
                    wall = timed(engine, requests, partial(kill_one, engine, cluster) if "killed" in way else None)
            machines = replicas - 0.5 * ("killed" in way)
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
    parser.add_argument("--ray", action="store_true", help="on Ray's local cluster too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    sizes = []
    for replicas in given.replicas:
        sizes.append(measure(replicas, given.problems, given.samples * replicas, given.token_s, with_ray=given.ray))
        print(json.dumps(sizes[-1]), file=sys.stderr)
    if given.json:
        content = {**measured_with([]), "sizes": sizes}
        given.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
