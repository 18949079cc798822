"""How long until the first word: a bare interpreter, importing the package, and ``--help``.

    python -m bench.startup [--repeats 20] [--json results/bench/startup.json]

Each in a fresh process, in turns; the fastest of each is printed, wall and CPU time, and what it takes beyond the bare
interpreter. Which of the heavy packages importing ``stapo_bench`` loads is printed too: it should be none.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from stapo_bench.runs import measured_with

HEAVY = ("torch", "transformers", "vllm", "sympy", "datasets", "scipy", "matplotlib", "numpy")
COMMANDS = {
    "python": ("-c", "pass"),
    "import stapo_bench": ("-c", "import stapo_bench"),
    "import stapo_bench.grading": ("-c", "import stapo_bench.grading"),
    "stapo-bench --help": ("-m", "stapo_bench", "--help"),
    "stapo-bench eval --help": ("-m", "stapo_bench", "eval", "--help"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement to this file")
    options = parser.parse_args(argv)
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(options.repeats):
        for name, command in COMMANDS.items():
            spent[name].append(timed(command))
    best = {
        name: {"wall_s": min(wall for wall, _ in runs), "cpu_s": min(cpu for _, cpu in runs)}
        for name, runs in spent.items()
    }
    result = {"commands": best, "loads": loaded_by_import(), **measured_with(("click",))}
    for name, row in best.items():
        beyond = row["cpu_s"] - best["python"]["cpu_s"]
        print(f"{name:<28}{row['wall_s']:.3f} s wall, {row['cpu_s']:.3f} s CPU, {beyond:.3f} beyond the interpreter")
    print(f"import stapo_bench loads of the heavy packages: {', '.join(result['loads']) or 'none'}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a fresh interpreter."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def loaded_by_import() -> list[str]:
    """Those of the heavy packages that are in ``sys.modules`` after ``import stapo_bench``."""
    code = f"import stapo_bench, sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


if __name__ == "__main__":
    sys.exit(main())
