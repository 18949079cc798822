"""Everything that a GPU has to show, part by part, each bounded in time; run again it goes on where it was.

    scripts/gpu_day.sh [--out DIR] [--limit SECONDS] [--hours H] [--toy] [PART ...]

Each part's figures go to DIR/*_gpu.json, its output to DIR/gpu_day/PART.log, and how it ended to
DIR/gpu_day/parts.json. A part that ended well on this GPU at this commit is not run again unless it is named. What is
still missing is printed last, and the exit code is 1 then. Where there is no GPU, or with --toy, the same parts run at
toy sizes on a CPU, so that the first hour on a GPU is not spent on mistakes of this script; a part for which no
environment is there is named and fails no day of toy sizes.

A part runs in the first of the project's environments that has what it needs: this Python's, .venv, .venv-* in turn.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from stapo_bench.engines import gpu_names
from stapo_bench.runs import measured_with, write_result

ROOT = Path(__file__).resolve().parent.parent
ALWAYS = ("torch", "transformers")  # what each part needs
GRACE_S = 10.0  # between asking a part to end and killing it
_CHECK = (
    "-m pytest -q --tb=short -p no:cacheprovider --junitxml={out}/gpu_day/check.xml"
    " tests/integration/test_fused_kernels.py"
)
_TOY_SMALL = (
    "--scale small --out {out}/gpu_day/small iterations=1 rollout.engine=transformers eval.engine=transformers"
    " eval.limit=1 eval.samples=1 pretrain.steps=2 pretrain.hidden_size=32 pretrain.num_layers=1"
    " pretrain.intermediate_size=32 pretrain.examples_per_step=4 rollout.prompts=4"
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One measurement; ``gpu`` and ``toy`` are arguments of Python, with {out} for the folder of figures."""

    name: str
    shows: str
    gpu: str
    toy: str
    needs: tuple[str, ...] = ()  # packages besides ``ALWAYS``
    wants: tuple[str, ...] = ()  # packages without which it shows less
    figures: Callable[[Path, bool], dict[str, Any]] | None = None  # (out, toy) -> for NAME_gpu.json, if it writes none
    all_the_time: bool = False  # not bounded by --limit, only by what is left of --hours


def tests_of(out: Path, toy: bool) -> dict[str, Any]:
    """How each test of ``check`` ended, and its seconds."""
    file = out / "gpu_day" / "check.xml"
    if not file.is_file():
        return {}
    ends = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    return {
        "tests": {
            case.get("name", ""): {
                "end": next((ends[child.tag] for child in case if child.tag in ends), "passed"),
                "seconds": float(case.get("time", 0)),
            }
            for case in ElementTree.parse(file).iter("testcase")
        }
    }


def table_of(out: Path, toy: bool) -> dict[str, Any]:
    """The table of a small scale that has come to its end."""
    file = (out / "gpu_day" / "small" if toy else ROOT / "runs" / "small") / "results" / "table.json"
    return {"table": json.loads(file.read_text(encoding="utf-8"))} if file.is_file() else {}


PARTS = (
    Part(
        name="check",
        shows="the Triton kernels' values and gradients, in bfloat16 too, against float64",
        gpu=_CHECK,
        toy=_CHECK,
        needs=("triton", "pytest"),
        figures=tests_of,
    ),
    Part(
        name="linear",
        shows="the fused output head beside its peers and the matmul floor",
        gpu="-m bench.linear --sizes 1.7b 8b 14b --repeats 3 --json {out}/linear_gpu.json",
        toy="-m bench.linear --sizes tiny --tokens 64 --repeats 1 --json {out}/linear_gpu.json",
    ),
    Part(
        name="packing",
        shows="packed beside padded rows",
        gpu="-m bench.packing --size 0.6b --repeats 3 --json {out}/packing_gpu.json",
        toy="-m bench.packing --device cpu --size toy --repeats 1 --json {out}/packing_gpu.json",
    ),
    Part(
        name="mask",
        shows="the share of an update that an exact mask costs",
        gpu="-m bench.trainer --size 0.6b --rounds 3 --json {out}/trainer_gpu.json",
        toy="-m bench.trainer --device cpu --size toy --rounds 1 --json {out}/trainer_gpu.json",
    ),
    Part(
        name="trl",
        shows="our trainer beside TRL's",
        gpu="-m bench.trl --size 0.6b --rounds 1 --iterations 4 --json {out}/trl_gpu.json",
        toy="-m bench.trl --device cpu --size toy --rounds 1 --iterations 2 --json {out}/trl_gpu.json",
        wants=("trl",),
    ),
    Part(
        name="harness",
        shows="`stapo-bench eval` beside vLLM's own `generate`",
        gpu="-m bench.eval --only vllm --repeats 3 --seconds 20 --json {out}/eval_gpu.json",
        toy="-m bench.eval --only vllm,\\ small --repeats 1 --seconds 1 --json {out}/eval_gpu.json",
        needs=("vllm",),
    ),
    Part(
        name="sleep",
        shows="vLLM's memory given back while the trainer updates, and the weights right afterwards",
        gpu="-m bench.sleep --size 0.6b --cycles 5 --json {out}/sleep_gpu.json",
        toy="-m bench.sleep --device cpu --size toy --cycles 2 --json {out}/sleep_gpu.json",
        needs=("vllm",),
    ),
    Part(
        name="small",
        shows="four trainings and ten evaluations on one GPU (scripts/reproduce_table.sh --scale small)",
        gpu="-m stapo_train.reproduce --scale small --out runs/small",
        toy=f"-m stapo_train.reproduce {_TOY_SMALL}",
        figures=table_of,
        all_the_time=True,
    ),
)


def pythons() -> list[str]:
    """Of the environments that are there, this one's first."""
    found = [sys.executable, *map(str, sorted(ROOT.glob(".venv*/bin/python")))]
    return list(dict.fromkeys(found))


@cache
def packages_of(python: str) -> frozenset[str]:
    """Which packages that parts ask for an environment has."""
    asked = {*ALWAYS, *(name for part in PARTS for name in (*part.needs, *part.wants))}
    program = "import sys; from importlib.util import find_spec; print(*filter(find_spec, sys.argv[1:]))"
    done = subprocess.run([python, "-c", program, *sorted(asked)], capture_output=True, encoding="utf-8", check=False)
    return frozenset(done.stdout.split())


def python_for(part: Part) -> str | None:
    """The first environment with what a part needs, and wants where one has that too; None: there is none."""
    for names in ({*ALWAYS, *part.needs, *part.wants}, {*ALWAYS, *part.needs}):
        for python in pythons():
            if names <= packages_of(python):
                return python
    return None


def command(part: Part, python: str, out: Path, toy: bool) -> str:
    """What is run, for a shell."""
    return f"exec {shlex.quote(python)} " + (part.toy if toy else part.gpu).format(out=shlex.quote(str(out)))


def run(part: Part, python: str, out: Path, limit_s: float, toy: bool) -> dict[str, Any]:
    """Run a part with its children for at most ``limit_s`` seconds; how it ended."""
    log = out / "gpu_day" / f"{part.name}.log"
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            ["bash", "-c", command(part, python, out, toy)],
            cwd=ROOT,
            env={**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:  # also where this program is stopped itself
            stop(process)
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    said = lines[-1] if lines else "nothing was printed"
    return {
        "held": code == 0,
        "said": f"more than {limit_s:.0f} s" if code is None else f"exit code {code}: {said}" if code else said,
        "seconds": round(time.monotonic() - started),
    }


def stop(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a part, its children too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def lacking(part: Part) -> str:
    """Why a part cannot run on this machine, or nothing."""
    if python_for(part) is not None:
        return ""
    return f"not run: no environment with {' and '.join((*ALWAYS, *part.needs))} among {', '.join(pythons())}"


def read_rows(out: Path) -> dict[str, dict[str, Any]]:
    """How the parts ended, by name."""
    file = out / "gpu_day" / "parts.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_day.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{part.name:<10}{part.shows}" for part in PARTS),
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these, even where they ended well before")
    parser.add_argument("--out", type=Path, help="folder of figures (results/bench; of toy sizes runs/gpu-day-toy)")
    parser.add_argument("--limit", type=float, default=400.0, metavar="SECONDS", help="of one part (%(default)s)")
    parser.add_argument("--hours", type=float, default=1.5, help="of all; small has what is left (%(default)s)")
    parser.add_argument("--toy", action="store_true", help="toy sizes, on a CPU")
    asked = parser.parse_args(given)
    names = [part.name for part in PARTS]
    for name in asked.parts:
        if name not in names:
            parser.error(f"unknown part '{name}': expected one of {', '.join(names)}")
    return asked


def main(given: Sequence[str] | None = None) -> int:
    """Run what is missing; the exit code."""
    asked = arguments(given)
    gpus = gpu_names()
    if not gpus and not asked.toy:
        print("no NVIDIA GPU (nvidia-smi -L): every part at toy sizes, on the CPU", flush=True)
    toy = asked.toy or not gpus
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = asked.out or ROOT / ("runs/gpu-day-toy" if toy else "results/bench")
    out, ends = folder.resolve(), time.monotonic() + 3600 * asked.hours
    (out / "gpu_day").mkdir(parents=True, exist_ok=True)
    device = "CPU, toy sizes" if toy else gpus[0].split(": ")[-1]
    here = {"device": device, "commit": measured_with([])["commit"]}
    rows, chosen = read_rows(out), [part for part in PARTS if not asked.parts or part.name in asked.parts]
    for part in chosen:
        row = rows.get(part.name, {})
        if not asked.parts and row.get("held") and row.items() >= here.items():
            print(f"{part.name}: ended well before: {row['said']}", flush=True)
            continue
        left = ends - time.monotonic()
        python = python_for(part)
        if python is None or left < 1:
            rows[part.name] = {**here, "held": False, "said": lacking(part) or "not run: no time is left", "seconds": 0}
        else:
            print(f"{part.name}: {part.shows}", flush=True)
            limit_s = left if part.all_the_time else min(left, asked.limit)
            rows[part.name] = {**here, **run(part, python, out, limit_s, toy)}
            if part.figures is not None:
                content = {**measured_with(sorted(ALWAYS)), **rows[part.name], **part.figures(out, toy)}
                write_result(out / f"{part.name}_gpu.json", json.dumps(content, indent=1) + "\n")
        print(f"{part.name}: {rows[part.name]['seconds']} s: {rows[part.name]['said']}", flush=True)
        write_result(out / "gpu_day" / "parts.json", json.dumps(rows, indent=1) + "\n")
    missing = [part for part in chosen if not rows[part.name]["held"]]
    print(f"figures: {out}; logs: {out / 'gpu_day'}")
    for part in missing:
        print(f"still missing: {part.name} ({part.shows}): {rows[part.name]['said']}")
    return 1 if [part for part in missing if not toy or not lacking(part)] else 0


if __name__ == "__main__":
    sys.exit(main())
