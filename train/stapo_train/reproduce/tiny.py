"""The tiny suite's table from nothing: base model, four trainings, ten evaluations, a lane for every core.

Every stage is one of the project's own commands, and each of them goes on where it was stopped; so does this script.
What it adds is the order, a line that tells how far everything is, and the table at the end.

    scripts/reproduce_table.sh [--out runs/tiny] [--dry-run]      # other scales: small, paper
"""

import argparse
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

from stapo_bench.engines import REGIMES
from stapo_train.jobs import Job, run_jobs
from stapo_train.reproduce.table import METHODS, run_folder, with_logs, write_results

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "tiny"
MAX_NEW_TOKENS = 96
MAX_LANES = 4  # a lane takes up to 0.8 GB


def jobs(out: Path) -> list[Job]:
    """The whole experiment in order."""
    base = out / "base"
    plan = [
        Job(
            name="pretrain base",
            command=["stapo-train", "pretrain", str(CONFIGS / "base.yaml"), f"out={base}"],
            weight=280,
            all_lanes=True,
        )
    ]
    plan += [
        Job(
            name=f"train {method}",
            command=[
                "stapo-train",
                str(CONFIGS / f"{method}.yaml"),
                f"model={base}",
                f"out={out / method}",
                "--resume",
            ],
            weight=105,
            needs=("pretrain base",),
        )
        for method in METHODS
    ]
    for model in ("base", *METHODS):
        checkpoint = base if model == "base" else out / model / "checkpoints" / "final"
        needs = ("pretrain base",) if model == "base" else (f"train {model}",)
        for regime in REGIMES:
            command = ["stapo-bench", "eval", "--suite", "tiny", "--ckpt", str(checkpoint), "--decoding", regime]
            command += ["--max-new-tokens", str(MAX_NEW_TOKENS), "--out", str(run_folder(out, model, regime))]
            plan.append(Job(name=f"eval {model} {regime}", command=command, weight=28, needs=needs))
    return with_logs(plan, out)


def main() -> None:
    """Parse, run all jobs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/tiny"), help="folder of everything made (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    asked = parser.parse_args()
    out = asked.out
    if asked.dry_run:
        print("\n".join(shlex.join(job.command) for job in jobs(out)))
        return
    if shutil.which("stapo-bench") is None:
        sys.exit("stapo-bench is not on PATH: start this through scripts/reproduce_table.sh")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    lanes = max(1, min(MAX_LANES, os.cpu_count() or 1))
    try:
        run_jobs(jobs(out), lanes)
    except KeyboardInterrupt:
        sys.exit("\nstopped; start it again to go on from here")
    write_results(out)


if __name__ == "__main__":
    main()
