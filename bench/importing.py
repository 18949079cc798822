"""What it costs to import other tools' samples, and to write them out again. Memory must not grow with the texts.

    python -m bench.importing --json results/bench/importing.json

For every size: JSON lines with completions of 1,500 characters, 1,000 problems, are imported as ``import`` does it
(read twice, matched, stored; without grading), then exported as a table, and as logs of lm-eval and of inspect_ai. Each
step has a process of its own, whose peak RSS is given.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stapo_bench.presenting.exporting import export_as
from stapo_bench.runs import export_runs, measured_with
from stapo_bench.runs.importing import ImportOptions, import_run

NUM_PROBLEMS = 1_000
STEPS = ("import", "table", "lm-eval", "inspect")


def write_samples(path: Path, num_samples: int, num_characters: int) -> None:
    """A file as another tool might have written it: one sample a line, with a verdict."""
    rng = random.Random(0)
    words = [f"word{i} " for i in range(2_000)]
    with path.open("w", encoding="utf-8") as file:
        for i in range(num_samples):
            text = "".join(rng.choices(words, k=num_characters // 8)) + f"\\boxed{{{i % 7}}}"
            row = {"problem": f"Which is number {i % NUM_PROBLEMS}?", "completion": text, "answer": "3", "score": i % 2}
            file.write(json.dumps(row) + "\n")


def step(name: str, folder: Path) -> dict[str, Any]:
    """One step in this process: seconds on the wall and of the CPU, and the peak of memory."""
    wall, cpu = time.perf_counter(), time.process_time()
    run, out = folder / "run", folder / name
    if name == "import":
        import_run([folder / "samples.jsonl"], run, ImportOptions())
    elif name == "table":
        export_runs([run], folder / "table.jsonl", "file-reported")
    else:
        export_as(name, [run], out, "file-reported")
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    return {
        f"{name}_s": round(time.perf_counter() - wall, 2),
        f"{name}_cpu_s": round(time.process_time() - cpu, 2),
        f"{name}_peak_mb": round(peak),
    }


def measure(num_samples: int, num_characters: int) -> dict[str, Any]:
    """All steps at one size."""
    row: dict[str, Any] = {"samples": num_samples, "characters": num_characters}
    with tempfile.TemporaryDirectory() as name:
        write_samples(Path(name) / "samples.jsonl", num_samples, num_characters)
        for each in STEPS:
            command = [sys.executable, "-m", "bench.importing", "--step", each, "--folder", name]
            row |= json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return row


def main() -> None:
    """Measure each size, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--characters", type=int, default=1_500, help="length of a completion")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step, options.folder)))
        return
    rows = []
    for num_samples in options.samples:
        rows.append(row := measure(num_samples, options.characters))
        steps = "; ".join(f"{name} {row[f'{name}_s']:.1f} s, peak RSS {row[f'{name}_peak_mb']} MB" for name in STEPS)
        print(f"{num_samples:,} samples of {options.characters} characters: {steps}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({**measured_with(["numpy"]), "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
