"""An environment for each tool, with its newest release, outside the checkout: made once, then used again."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "stapo-bench" / "race"
PACKAGES = ("errorbars", "evalconfidence", "deltagate", "evalci", "evalstats", "claimeval", "scorio")
"""Tools that are packages; the others are formulas, and ours is the checkout."""


def python_of(tool: str, cache: Path) -> tuple[Path, str]:
    """The interpreter that has the tool, and the version of it; makes the environment where there is none.

    Raises:
        RuntimeError: it cannot be installed; the reason is pip's.
    """
    if tool not in PACKAGES:
        return Path(sys.executable), ""
    python = cache / tool / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        print(f"installing {tool} into {cache / tool}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(cache / tool)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    if not (found := _version(pip, tool)):
        done = subprocess.run([*pip, "install", "--quiet", tool], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["pip failed without a word"])[-1])
        found = _version(pip, tool)
    return python, found


def _version(pip: list[str], tool: str) -> str:
    listed = subprocess.run([*pip, "list", "--format", "json"], capture_output=True, text=True, check=True)
    versions = {row["name"].lower(): str(row["version"]) for row in json.loads(listed.stdout)}
    return versions.get(tool, "")


def judge(python: Path, tool: str, files: list[Path], seconds: float) -> list[dict[str, Any]]:
    """What the tool says of the data sets in each file; ``refused`` and why, where it says nothing."""
    command = [str(python), "-m", "bench.race.worker", tool, str(seconds), *map(str, files)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    why = (done.stderr.strip().splitlines() or [f"ended with {done.returncode} and no word"])[-1][:200]
    return found + [{"refused": why}] * (len(files) - len(found))
