"""The first run on a GPU, held against what the engines' sources say (docs/gpu.md).

    python -m bench.gpu                     # everything that this machine's GPUs suffice for: about an hour
    python -m bench.gpu --only "a busy GPU"
    python -m bench.gpu --table             # no GPU: the table of docs/gpu.md from what has been stored

Each row's command is run by itself; its outcome goes to ``results/bench/gpu.json`` and into the table's last column.
Without a GPU nothing is run and the exit code is 2; where a prediction's repair does not hold it is 1.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.gpu_predictions import PREDICTIONS, Prediction
from stapo_bench.engines import EngineOptions, gpu_names, open_engine
from stapo_bench.errors import StapoError
from stapo_bench.runs import measured_with

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "results" / "bench" / "gpu.json"
PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- table: python -m bench.gpu --table -->\n", "<!-- end of table -->\n"
LIMIT_S = 3600.0  # of one command; the first also installs vLLM


def stored_rows() -> dict[str, dict[str, Any]]:
    """What has been run, by a prediction's name."""
    return json.loads(STORED.read_text(encoding="utf-8"))["rows"] if STORED.is_file() else {}


def outcome(prediction: Prediction, rows: dict[str, dict[str, Any]]) -> str:
    """The table's last cell."""
    if (row := rows.get(prediction.name)) is not None:
        return ("holds" if row["held"] else "does not hold: " + row["said"]) + f" ({row['device']}, {row['date']})"
    if prediction.command is None:
        return f"not run; by hand: {prediction.by_hand}"
    return "not run" + (f"; needs {prediction.gpus} GPUs" if prediction.gpus > 1 else "")


def render(rows: dict[str, dict[str, Any]]) -> str:
    """The predictions as a Markdown table."""
    lines = [
        "| | The engine's source | On a GPU it would | Repair | Checked without a GPU by | On a GPU |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for number, one in enumerate(PREDICTIONS, start=1):
        tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in one.checked)
        cells = (str(number), one.source, one.says, one.repair, tests, outcome(one, rows))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def write_table() -> None:
    """Put the table into docs/gpu.md."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + render(stored_rows()) + END + rest.split(END)[1], encoding="utf-8")


def run(prediction: Prediction) -> dict[str, Any]:
    """Run a prediction's command and keep its last line."""
    assert prediction.command is not None
    started = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", prediction.command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        held, told = done.returncode == 0, [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    except subprocess.TimeoutExpired:
        held, told = False, [f"more than {LIMIT_S:.0f} s"]
    about = measured_with(["torch", "triton"])
    return {
        "held": held,
        "said": (told[-1].strip() if told else "nothing was printed")[:200],
        "seconds": round(time.monotonic() - started),
        "device": gpu_names()[0].split(": ")[-1],
        "date": time.strftime("%Y-%m-%d"),
        "commit": about["commit"],
    }


def busy(checkpoint: Path) -> None:
    """Fill most of a GPU and open vLLM beside it: it has to be refused with the way out, and the way out to work."""
    import torch

    free, total = torch.cuda.mem_get_info()
    held = torch.empty(int(free - 0.4 * total), dtype=torch.uint8, device="cuda")
    try:
        open_engine(EngineOptions(name="vllm"), checkpoint)
    except StapoError as error:
        assert "--gpu-memory" in str(error), error
    else:
        raise AssertionError("vLLM started beside a GPU that is 60 % full")
    open_engine(EngineOptions(name="vllm", gpu_memory=0.25, positions=1024), checkpoint).close()
    del held


def main() -> int:
    """Run what can be run here; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[one.name for one in PREDICTIONS], metavar="NAME", help="one row")
    parser.add_argument("--table", action="store_true", help="write the table of docs/gpu.md and run nothing")
    parser.add_argument("--busy", type=Path, metavar="CHECKPOINT", help=argparse.SUPPRESS)  # one row's command
    asked = parser.parse_args()
    if asked.busy:
        busy(asked.busy)
        return 0
    if asked.table:
        write_table()
        return 0
    num_gpus, rows, held = len(gpu_names()), stored_rows(), True
    if num_gpus == 0:
        print("bench.gpu: expected an NVIDIA GPU (nvidia-smi -L), found none; nothing was run", file=sys.stderr)
        return 2
    for one in PREDICTIONS:
        if asked.only not in (None, one.name):
            continue
        if one.command is None or one.gpus > num_gpus:
            print(f"{one.name}: {outcome(one, {})}", flush=True)
            continue
        print(f"{one.name}: {one.command}", flush=True)
        rows[one.name] = run(one)
        held &= rows[one.name]["held"]
        print(f"{one.name}: {outcome(one, rows)}", flush=True)
        STORED.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
        write_table()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
