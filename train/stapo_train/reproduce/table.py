"""Common parts of all scales: the methods, the two decoding regimes, the folders and the table."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from stapo_bench.engines import REGIMES
from stapo_bench.errors import StapoError, exit_code_of, interruptible, stopped_line
from stapo_bench.runs import read_bounded, write_result
from stapo_train.experiments.archive import write_trainings
from stapo_train.jobs import Job

METHODS = ("grpo", "20-entropy", "justrl", "stapo")


def run_script(main: Callable[[], None]) -> None:
    """Run a scale's ``main``; an error, or a signal that stops it, is one line and the exit code of its kind."""
    name, when_stopped = "reproduce_table.sh", "start it again to go on from here"
    try:
        with interruptible(name, when_stopped):
            main()
    except KeyboardInterrupt as stop:
        print(f"\n{stopped_line(name, when_stopped)}", file=sys.stderr)
        sys.exit(exit_code_of(stop))
    except StapoError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def run_folder(out: Path, model: str, regime: str) -> Path:
    """Folder of one evaluation; ``model`` is ``base`` or a method."""
    return out / "eval" / f"{model}-{regime}"


def with_logs(plan: Sequence[Job], out: Path) -> list[Job]:
    """The jobs, each with a log of its own below ``out``."""
    for job in plan:
        job.log = out / "logs" / f"{job.name.replace(' ', '-')}.log"
    return list(plan)


def write_results(out: Path) -> None:
    """Write ``<out>/results``: the tables, the runs' manifests, the trainings' settings and curves."""
    results = out / "results"
    runs = [run_folder(out, model, regime) for model in ("base", *METHODS) for regime in REGIMES]
    manifests = {run.name: json.loads(read_bounded(run / "manifest.json")) for run in runs}
    write_result(results / "manifests.json", json.dumps(manifests, indent=2) + "\n")
    write_trainings({method: out / method for method in METHODS}, results)
    for kind in ("csv", "json", "md"):
        table = _table(runs, "--format", kind, *["--long"] * (kind == "md"))
        write_result(results / f"table.{kind}", table)
    print(table)
    print(f"written: {results / 'table.md'}, .csv, .json and what made them; the runs are in {out / 'eval'}")


def row(run: Path) -> str:
    """A run's row of the table, under its heads."""
    return "\n".join(line for line in _table([run]).splitlines() if line.startswith("|"))


def _table(runs: Sequence[Path], *options: str) -> str:
    command = ["stapo-bench", "table", *map(str, runs), *options]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
