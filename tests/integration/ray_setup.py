"""Ray's own local cluster, and what runs on it; imported by the tests of replicas on several machines."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

NODE = {"object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def cluster() -> "Iterator[Cluster]":
    """A head that runs nothing, and two machines with two processors each."""
    settings = {
        # Else Ray guards it by a token where this user has one, on which its processes and ours may not agree.
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # by default 15: a busy machine hardly comes to what Ray runs
    }
    os.environ |= settings
    from ray.cluster_utils import Cluster  # behind them, and only where Ray is: doctests import this file everywhere

    made = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(**NODE, num_cpus=2)
    made.wait_for_nodes()
    yield made
    made.shutdown()


def stapo(folder: Path, *arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "stapo_bench", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # what Ray gives an actor of one processor
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def lines_of(run: Path) -> list[bytes]:
    return sorted(line for path in run.glob("samples/*.jsonl") for line in path.read_bytes().splitlines())


def engine_processes() -> set[int]:
    """Those that replicas on this machine have started, of whatever driver."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since
            if b"stapo_bench.engines.replica import" in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def wait_until(is_so, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not is_so() and time.monotonic() < until:
        time.sleep(0.1)
    return is_so()
