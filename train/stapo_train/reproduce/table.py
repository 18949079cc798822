"""Common parts of all scales: the methods, the two decoding regimes, the folders and the table."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stapo_bench.engines import REGIMES
from stapo_bench.runs import read_bounded, write_result
from stapo_train.jobs import Job

METHODS = ("grpo", "20-entropy", "justrl", "stapo")


def run_folder(out: Path, model: str, regime: str) -> Path:
    """Folder of one evaluation; ``model`` is ``base`` or a method."""
    return out / "eval" / f"{model}-{regime}"


def with_logs(plan: Sequence[Job], out: Path) -> list[Job]:
    """The jobs, each with a log of its own below ``out``."""
    for job in plan:
        job.log = out / "logs" / f"{job.name.replace(' ', '-')}.log"
    return list(plan)


def write_results(out: Path) -> None:
    """Write ``<out>/results``: the tables, the runs' manifests in one file, each training's config and curve."""
    results = out / "results"
    runs = [run_folder(out, model, regime) for model in ("base", *METHODS) for regime in REGIMES]
    manifests = {run.name: json.loads(read_bounded(run / "manifest.json")) for run in runs}
    write_result(results / "manifests.json", json.dumps(manifests, indent=2) + "\n")
    for method in METHODS:
        for name in ("config.yaml", "metrics.jsonl"):
            write_result(results / "trainings" / method / name, read_bounded(out / method / name))
    for kind in ("csv", "json", "md"):
        command = ["stapo-bench", "table", *map(str, runs), "--format", kind, *["--long"] * (kind == "md")]
        table = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
        write_result(results / f"table.{kind}", table)
    print(table)
    print(f"written: {results / 'table.md'}, .csv, .json and what made them; the runs are in {out / 'eval'}")
