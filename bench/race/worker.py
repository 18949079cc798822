"""One tool on files of data sets, in the tool's environment: python -m bench.race.worker TOOL SECONDS DATA.npz …

Prints a line of JSON for each file: the answers, data set by data set, until the processor time is spent, and what they
cost; or why the tool refuses.
"""

import contextlib
import io
import json
import math
import resource
import signal
import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np

from bench.race.adapters import JUDGES, TOGETHER

MOST_MEMORY = 4 << 30  # bytes of address space
MOST_SECONDS = 60  # of processor time for a file beyond what is asked for: imports, and one data set that takes long


def spent_s() -> float:
    """Processor time of this process so far, all threads, in seconds.

    Not time.process_time: under a limit of processor time Linux counts it in ticks of up to 10 ms.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def answers(tool: str, data: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the tool says of the first data sets, and the median of the processor time (the first also imports)."""
    runs, clusters = data["runs"], data.get("clusters")  # runs: [num_sets, num_models, num_items, num_samples]
    several = runs.shape[1] > 2
    if several and tool not in TOGETHER:
        return {"refused": "judges two at a time"}
    found: list[Any] = []
    spent: list[float] = []
    for sides in runs:
        begun = spent_s()
        try:
            found.append(TOGETHER[tool](list(sides)) if several else JUDGES[tool](sides[0], sides[1], clusters))
        except Exception as error:  # whatever a tool raises is its answer
            return {"refused": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
        spent.append(spent_s() - begun)
        if sum(spent[1:]) > seconds:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"answers": found, "each_s": float(np.median(spent[1:] or spent)), "peak_kb": peak}


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"needed more than {MOST_SECONDS} s of processor time")


def main() -> None:
    """Judge and print."""
    tool, seconds, paths = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    each = math.ceil(MOST_SECONDS + seconds)
    most = math.ceil(spent_s()) + (each + 1) * (1 + len(paths))  # kills what does not listen; limits are whole seconds
    signal.signal(signal.SIGXCPU, _too_long)
    warnings.simplefilter("ignore")
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            data = dict(stored)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent_s()) + each, most))
        with contextlib.redirect_stdout(io.StringIO()):  # what a tool prints is no answer
            found = answers(tool, data, seconds)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
