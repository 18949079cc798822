"""The tiny suite's table: a base model, four trainings, ten evaluations, a lane for every core.

Every stage is one of the project's own commands, and each of them goes on where it was stopped; so does this script.
What it adds is the order, a line that tells how far everything is, each row of the table as soon as it is known, and
the table at the end. The base model is the one that the repository holds; ``--from-scratch`` makes it again.

    scripts/reproduce_table.sh [--out runs/tiny] [--from-scratch] [--dry-run]      # other scales: small, paper
"""

import argparse
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from resource import struct_rusage

from stapo_bench.engines import REGIMES
from stapo_bench.errors import StapoError
from stapo_bench.runs import read_bounded, read_checkpoint, writing
from stapo_train.jobs import Job, run_jobs
from stapo_train.reproduce.table import METHODS, row, run_folder, run_script, with_logs, write_results

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "train" / "configs" / "tiny"
SHIPPED = CONFIGS / "base"  # what base.yaml makes
PUBLISHED = ROOT / "results" / "tiny" / "manifests.json"  # of the published table; has the digest of its base model
MAX_NEW_TOKENS = 96
MAX_LANES = 4  # a lane takes up to 0.8 GB


def jobs(out: Path, from_scratch: bool = False) -> list[Job]:
    """The whole experiment in order, from the base model on or, from scratch, with its pretraining."""
    base = out / "base"
    pretraining = Job(
        name="pretrain base",
        command=["stapo-train", "pretrain", str(CONFIGS / "base.yaml"), f"out={base}"],
        weight=280,
        all_lanes=True,
    )
    plan = [pretraining] if from_scratch else []
    has_base = [job.name for job in plan]
    plan += _evaluations(out, "base", base, needs=has_base)  # the table's first rows
    for method in METHODS:
        command = ["stapo-train", str(CONFIGS / f"{method}.yaml"), f"model={base}", f"out={out / method}", "--resume"]
        plan.append(Job(name=f"train {method}", command=command, weight=105, needs=has_base))
    for method in METHODS:
        plan += _evaluations(out, method, out / method / "checkpoints" / "final", needs=[f"train {method}"])
    return with_logs(plan, out)


def _evaluations(out: Path, model: str, checkpoint: Path, needs: list[str]) -> list[Job]:
    """One in each regime."""
    plan = []
    for regime in REGIMES:
        command = ["stapo-bench", "eval", "--suite", "tiny", "--ckpt", str(checkpoint), "--decoding", regime]
        command += ["--max-new-tokens", str(MAX_NEW_TOKENS), "--out", str(run_folder(out, model, regime))]
        plan.append(Job(name=f"eval {model} {regime}", command=command, weight=28, needs=needs))
    return plan


def published_digest() -> str:
    """The digest of the base model whose table is published."""
    manifests = json.loads(read_bounded(PUBLISHED))
    return str(manifests["base-training"]["identity"]["checkpoint"]["digest"])


def put_shipped(base: Path) -> None:
    """Copy the shipped base model to ``base``, unless it is there.

    Raises:
        StapoError: it is not the published table's; there is another one, or one half made.
    """
    expected, shipped = published_digest(), read_checkpoint(SHIPPED).digest
    if shipped != expected:
        raise StapoError(
            f"{SHIPPED}: expected the base model of {PUBLISHED} (digest {expected[:12]}), got {shipped[:12]}; restore "
            "both files, or make the model again with --from-scratch"
        )
    if not base.exists():
        beside = base.with_name(".base")
        shutil.rmtree(beside, ignore_errors=True)  # of a copy that was stopped
        with writing(base):
            shutil.copytree(SHIPPED, beside)
            beside.rename(base)
    elif not (base / "stapo.json").exists() or read_checkpoint(base).digest != expected:
        raise StapoError(
            f"{base}: expected the shipped base model or nothing, got another one or one half made; go on with "
            "--from-scratch, or choose another folder with --out"
        )


def check_own(base: Path) -> None:
    """Refuse to call a copy of the shipped model one that was made from scratch."""
    if (base / "stapo.json").exists() and not (base / "metrics.jsonl").exists():
        raise StapoError(
            f"{base}: expected a base model made with --from-scratch or nothing, got a copy of the shipped one; choose "
            "another folder with --out"
        )


def _tell_result(job: Job, out: Path) -> None:
    """What a job that has ended well has found: a row of the table, or whether the base model is the shipped one."""
    stage, model, *regime = job.name.split()
    if stage == "eval":
        print(row(run_folder(out, model, regime[0])), flush=True)
    elif stage == "pretrain":
        same = "the same bytes as the shipped one"
        other = "other bytes than the shipped one, as other processors, numbers of threads and versions give"
        is_same = read_checkpoint(out / "base").digest == published_digest()
        print(f"the base model made from scratch: {same if is_same else other}", flush=True)


def main() -> None:
    """Parse, run all jobs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/tiny"), help="folder of everything made (default: %(default)s)"
    )
    parser.add_argument(
        "--from-scratch", action="store_true", help="make the base model, too, and say whether it is the shipped one"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    asked = parser.parse_args()
    out, base = asked.out, asked.out / "base"
    plan = jobs(out, asked.from_scratch)
    if asked.dry_run:
        copy = [] if asked.from_scratch else [["cp", "-r", str(SHIPPED), str(base)]]
        print("\n".join(map(shlex.join, [*copy, *(job.command for job in plan)])))
        return
    if shutil.which("stapo-bench") is None:
        sys.exit("stapo-bench is not on PATH: start this through scripts/reproduce_table.sh")

    def ended(job: Job, usage: struct_rusage) -> None:
        if job.process is not None and job.process.returncode == 0:
            _tell_result(job, out)

    lanes = max(1, min(MAX_LANES, os.cpu_count() or 1))
    check_own(base) if asked.from_scratch else put_shipped(base)
    run_jobs(plan, lanes, ended=ended)
    write_results(out)


if __name__ == "__main__":
    run_script(main)
