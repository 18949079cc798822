"""One tool on files of data sets, in the tool's environment: python -m bench.race.worker TOOL SECONDS DATA.npz …

Prints a line of JSON for each file: the answers, data set by data set, until the processor time is spent, and what they
cost; or why the tool refuses.
"""

import contextlib
import io
import json
import resource
import sys
import time
import warnings
from typing import Any

import numpy as np

from bench.race.adapters import JUDGES, TOGETHER

MOST_MEMORY = 4 << 30  # bytes of address space
MOST_SECONDS = 20  # of processor time beyond what is asked for, for imports and a last data set


def answers(tool: str, data: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the tool says of the first data sets, and the median of the processor time (the first also imports)."""
    runs, clusters = data["runs"], data.get("clusters")  # runs: [num_sets, num_models, num_items, num_samples]
    several = runs.shape[1] > 2
    if several and tool not in TOGETHER:
        return {"refused": "judges two at a time"}
    found: list[Any] = []
    spent: list[float] = []
    for sides in runs:
        begun = time.process_time()
        try:
            found.append(TOGETHER[tool](list(sides)) if several else JUDGES[tool](sides[0], sides[1], clusters))
        except Exception as error:  # whatever a tool raises is its answer
            return {"refused": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
        spent.append(time.process_time() - begun)
        if sum(spent[1:]) > seconds:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"answers": found, "each_s": float(np.median(spent[1:] or spent)), "peak_kb": peak}


def main() -> None:
    """Judge and print."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    most = round(MOST_SECONDS + float(sys.argv[2]) * len(sys.argv))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    warnings.simplefilter("ignore")
    tool, seconds, *paths = sys.argv[1:]
    for path in paths:
        with np.load(path, allow_pickle=False) as stored:
            data = dict(stored)
        with contextlib.redirect_stdout(io.StringIO()):  # what a tool prints is no answer
            found = answers(tool, data, float(seconds))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
