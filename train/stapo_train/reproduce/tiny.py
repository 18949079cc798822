"""The tiny suite's table from nothing: base model, four trainings, ten evaluations, a lane for every core.

Every stage is one of the project's own commands, and each of them goes on where it was stopped; so does this script.
What it adds is the order, a line that tells how far everything is, and the table at the end.

    scripts/reproduce_table.sh [--out runs/tiny] [--dry-run]      # other scales: small, paper
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "tiny"
METHODS = ("grpo", "20-entropy", "justrl", "stapo")
REGIMES = ("training", "justrl")
MAX_NEW_TOKENS = 96
MAX_LANES = 4  # a lane takes up to 0.8 GB


@dataclass(kw_only=True)
class Job:
    """One command with its place in the order. ``weight``: CPU seconds on the machine it was last timed on."""

    name: str
    command: list[str]
    weight: float
    needs: tuple[str, ...] = ()
    all_lanes: bool = False
    log: Path = field(default_factory=Path)
    process: subprocess.Popen[bytes] | None = None
    done: bool = False

    def progress(self) -> tuple[str, float]:
        """The last ``done/total`` that the command printed, as text and as a fraction."""
        if self.done:
            return "done", 1.0
        if self.process is None or not self.log.exists():
            return "", 0.0
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 4096))
            counts = re.findall(r"([\d,]+)/([\d,]+)", log.read().decode(errors="replace"))
        if not counts:
            return "starting", 0.0
        done, total = (int(count.replace(",", "") or 0) for count in counts[-1])
        return "/".join(counts[-1]), done / total if total else 0.0


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
    for job in plan:
        job.log = out / "logs" / f"{job.name.replace(' ', '-')}.log"
    return plan


def run_folder(out: Path, model: str, regime: str) -> Path:
    return out / "eval" / f"{model}-{regime}"


def ready(plan: list[Job], lanes: int) -> Iterator[Job]:
    """Jobs that can start now: what they need is done and a lane is free; in order of the plan."""
    running = [job for job in plan if job.process is not None and not job.done]
    finished = {job.name for job in plan if job.done}
    free = 0 if any(job.all_lanes for job in running) else lanes - len(running)
    for job in plan:
        if job.process is None and finished.issuperset(job.needs) and free > 0 and not (job.all_lanes and running):
            yield job
            free = 0 if job.all_lanes else free - 1


def start(job: Job, lanes: int) -> None:
    threads = lanes if job.all_lanes else 1
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        job.process = subprocess.Popen(
            job.command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": str(threads)}
        )


def run(plan: list[Job], lanes: int) -> None:
    """Run all jobs; print a line now and then; stop everything where one fails."""
    began = time.monotonic()
    last_line = 0.0
    try:
        while not all(job.done for job in plan):
            for job in ready(plan, lanes):
                start(job, lanes)
            time.sleep(0.2)
            for job in plan:
                if job.process is None or job.done or job.process.poll() is None:
                    continue
                if job.process.returncode != 0:
                    tail = job.log.read_text(errors="replace").strip().splitlines()[-1:]
                    sys.exit(
                        f"{job.name} failed (exit {job.process.returncode}): {' '.join(tail)}\nall of it: {job.log}"
                    )
                job.done = True
                print(f"[{clock(began)}] {job.name}: done", flush=True)
            if time.monotonic() - last_line >= 10:
                last_line = time.monotonic()
                print(status_line(plan, lanes, began), flush=True)
    finally:
        for job in plan:
            if job.process is not None and job.process.poll() is None:
                job.process.send_signal(signal.SIGINT)
        for job in plan:
            if job.process is not None:
                job.process.wait()


def status_line(plan: list[Job], lanes: int, began: float) -> str:
    running = [job for job in plan if job.process is not None and not job.done]
    now = ", ".join(f"{job.name} {job.progress()[0]}" for job in running)
    total = sum(job.weight for job in plan)
    worked = sum(job.weight * job.progress()[1] for job in plan)
    # The plan's own weights until enough has been seen; then this machine's pace.
    pace = (time.monotonic() - began) / worked if worked > 0.05 * total else 1 / lanes
    return f"[{clock(began)}] {now} | {worked / total:.0%}, about {(total - worked) * pace / 60:.0f} min left"


def clock(began: float) -> str:
    seconds = int(time.monotonic() - began)
    return f"{seconds // 60:2d}:{seconds % 60:02d}"


def write_results(out: Path) -> None:
    """``<out>/results``: the tables, and what made them (each run's manifest, each training's config and curve)."""
    results = out / "results"
    runs = [run_folder(out, model, regime) for model in ("base", *METHODS) for regime in REGIMES]
    (results / "manifests").mkdir(parents=True, exist_ok=True)
    for run_ in runs:
        shutil.copy(run_ / "manifest.json", results / "manifests" / f"{run_.name}.json")
    for method in METHODS:
        (results / "trainings" / method).mkdir(parents=True, exist_ok=True)
        for name in ("config.yaml", "metrics.jsonl"):
            shutil.copy(out / method / name, results / "trainings" / method / name)
    for kind in ("csv", "json", "md"):
        command = ["stapo-bench", "table", *map(str, runs), "--format", kind]
        table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        (results / f"table.{kind}").write_text(table)
    print(table)
    print(f"written: {results / 'table.md'}, .csv, .json and what made them; the runs are in {out / 'eval'}")


def main() -> None:
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
        run(jobs(out), lanes)
    except KeyboardInterrupt:
        sys.exit("\nstopped; start it again to go on from here")
    write_results(out)


if __name__ == "__main__":
    main()
