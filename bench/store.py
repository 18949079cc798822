"""What a long run costs besides drawing: appending, opening it again, scoring it. Memory must not grow with the texts.

    python -m bench.store --json results/bench/store.json

For every size: samples are appended through the store as ``eval`` does it (every line handed to the operating system,
synced together), the folder is opened again as a resumed run does (``scan_keys``: every line read and checked), and the
run is scored, in a process of its own whose peak RSS is given. Needs 2.3 GB of disk for a million samples of 2,000
characters, and gives it back.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.synthetic_run import PROBLEM_IDS, write_manifest
from stapo_bench.analysis import score_run
from stapo_bench.records import Sample, SampleKey
from stapo_bench.runs import SegmentWriter, measured_with, scan_keys
from stapo_bench.seeds import derive_seed

_ANSWERS = 50  # different ones per problem


def append(folder: Path, per_problem: int, num_characters: int) -> None:
    """Store samples as an evaluation does."""
    with SegmentWriter(folder, "all") as writer:
        for j in range(per_problem):
            for i, problem_id in enumerate(PROBLEM_IDS):
                key = SampleKey("t", problem_id, j)
                writer.append(
                    Sample(
                        **key._asdict(),
                        seed=derive_seed(0, *key),
                        completion=f"{i} {j} ".ljust(num_characters, "x"),
                        num_tokens=600,
                        finish_reason="stop",
                        sum_log_prob=-210.5,
                        seconds=1.25,
                    )
                )


def write_grades(folder: Path, per_problem: int) -> None:
    """Grades of all samples, without a grader."""
    (folder / "grades").mkdir()
    with (folder / "grades/math.jsonl").open("w") as grades:
        grades.write('{"grader": "math-1"}\n')
        for i, problem_id in enumerate(PROBLEM_IDS):
            for j in range(per_problem):
                answer = (i * 7 + j) % _ANSWERS
                outcome = "INCORRECT" if answer else "CORRECT"
                key = {"task": "t", "problem_id": problem_id, "sample_index": j}
                grades.write(json.dumps({**key, "outcome": outcome, "extracted": str(answer), "detail": ""}) + "\n")


def measure(num_samples: int, num_characters: int) -> dict[str, Any]:
    """All steps at one size."""
    per_problem = num_samples // len(PROBLEM_IDS)
    row: dict[str, Any] = {"samples": per_problem * len(PROBLEM_IDS), "characters": num_characters}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_manifest(folder, per_problem)
        row["append_s"], row["append_cpu_s"] = timed(lambda: append(folder, per_problem, num_characters))
        row["bytes"] = sum(path.stat().st_size for path in (folder / "samples").iterdir())
        row["resume_s"], row["resume_cpu_s"] = timed(lambda: scan_keys(folder, 0))
        write_grades(folder, per_problem)
        scored = subprocess.run(
            [sys.executable, "-m", "bench.store", "--score", name], capture_output=True, text=True, check=True
        )
        row |= json.loads(scored.stdout)
    for step in ("append", "resume", "score"):
        row[f"{step}_per_s"] = round(row["samples"] / row[f"{step}_s"])
        row[f"{step}_per_cpu_s"] = round(row["samples"] / row[f"{step}_cpu_s"])
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall, and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - wall, time.process_time() - cpu


def score(folder: Path) -> dict[str, float]:
    """Read all back and score; seconds, and the peak of memory before and after."""
    before = _peak_mb()
    wall, cpu = timed(lambda: score_run(folder))
    return {"score_s": wall, "score_cpu_s": cpu, "score_peak_mb": _peak_mb(), "peak_mb_before": before}


def _peak_mb() -> float:
    """Of this program: what ``getrusage`` says includes the process that started it."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def main() -> None:
    """Measure each size, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--characters", type=int, default=2000, help="length of a completion")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    parser.add_argument("--score", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.score:
        print(json.dumps(score(options.score)))
        return
    rows = []
    for num_samples in options.samples:
        row = measure(num_samples, options.characters)
        rows.append(row)
        print(
            f"{row['samples']:,} samples of {options.characters} characters: appended in {row['append_s']:.1f} s, "
            f"opened again in {row['resume_s']:.1f} s, scored in {row['score_s']:.1f} s with a peak RSS of "
            f"{row['score_peak_mb']:.0f} MB ({row['peak_mb_before']:.0f} MB before)",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps({**measured_with(["numpy"]), "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
