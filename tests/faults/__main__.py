"""Break everything on purpose: inject faults into the real commands, and count what was lost, wrong or let in.

    python -m tests.faults --out results/faults     # all of it: about forty minutes of a busy core
    python -m tests.faults --quick                  # one of most kinds: half a minute

Every random decision comes from ``--seed``, the fault's name and the trial's number. What is done stands in
``WORK/trials.jsonl``; the same command goes on behind it. A trial that broke something keeps its folder, and the
command then exits with 1.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from stapo_bench.runs.measured import measured_with
from stapo_bench.seeds import derive_seed
from tests.faults import (
    answers,
    damage,
    derived,
    every_call,
    gateways,
    inputs,
    kills,
    load,
    reach,
    resources,
    security,
    strangers,
    suites,
    vllm,
)
from tests.faults.bench import Bench
from tests.faults.process import preload
from tests.faults.trial import BrokenError, Fault, Trial, WrongError

FAULTS: tuple[Fault, ...] = (
    *kills.FAULTS,
    *suites.FAULTS,
    *vllm.FAULTS,
    *damage.FAULTS,
    *derived.FAULTS,
    *resources.FAULTS,
    *inputs.FAULTS,
    *answers.FAULTS,
    *gateways.FAULTS,
    *security.FAULTS,
    *strangers.FAULTS,
    *reach.FAULTS,
    *every_call.FAULTS,
    *load.FAULTS,
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One trial as it is written down."""

    fault: str
    number: int
    injected: int
    survived: int
    lost: int
    wrong: int
    note: str
    seconds: float


def perform(fault: Fault, number: int, bench: Bench, seed: int, work: Path) -> Result:
    """Run one trial in its own folder, which is deleted if the trial succeeds."""
    folder = work / fault.name.replace(" ", "-").replace("/", "-") / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started, wrong, broken = time.monotonic(), 0, ""
    try:
        trial = fault.inject(bench, Random(derive_seed(seed, fault.name, number)), folder)
    except BrokenError as error:
        trial, broken, wrong = Trial(), str(error), int(isinstance(error, WrongError))
    if not broken and not trial.broken:
        shutil.rmtree(folder)
    return Result(
        fault=fault.name,
        number=number,
        injected=trial.injected,
        survived=0 if broken else trial.injected - trial.broken,
        lost=trial.lost,
        wrong=wrong,
        note=broken or trial.note,
        seconds=round(time.monotonic() - started, 2),
    )


def read_done(log: Path) -> list[Result]:
    """The trials that an earlier command finished; a torn last line is not one."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    return [Result(**json.loads(line)) for line in lines if line.endswith("\n")]


def rows(faults: Iterable[Fault], results: Sequence[Result]) -> list[dict[str, object]]:
    """The table: one row per fault that was injected."""
    table = []
    for fault in faults:
        mine = [result for result in results if result.fault == fault.name]
        if mine:
            sums = {name: sum(getattr(r, name) for r in mine) for name in ("injected", "survived", "lost", "wrong")}
            notes = dict.fromkeys(r.note for r in mine if r.note)
            seconds = round(sum(r.seconds for r in mine), 1)
            table.append({"fault": fault.name, **sums, "unit": fault.unit, "seconds": seconds, "notes": list(notes)})
    return table


def render(table: Sequence[dict[str, object]]) -> str:
    """The table in Markdown."""
    lines = ["| Fault | Injected | Survived | Lost | Wrong results | Note |", "|---|---:|---:|---:|---:|---|"]
    for row in table:
        notes = "; ".join(row["notes"]).replace("|", "\\|")  # type: ignore[arg-type]
        cells = (row["fault"], row["injected"], row["survived"], f"{row['lost']} {row['unit']}", row["wrong"], notes)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not done yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for table.json and table.md; default: WORK")
    parser.add_argument("--work", type=Path, default=Path("runs/faults"), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few of each kind")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose name holds this")
    arguments = parser.parse_args()
    work: Path = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", STAPO_BENCH_DATA="", OPENAI_API_KEY="")
    del os.environ["STAPO_BENCH_DATA"], os.environ["OPENAI_API_KEY"]
    preload()
    bench, log = Bench(work / "bench"), work / "trials.jsonl"
    results = read_done(log)
    done = {(result.fault, result.number) for result in results}
    faults = [fault for fault in FAULTS if arguments.only in fault.name]
    for fault in faults:
        for number in range(fault.quick if arguments.quick else fault.trials):
            if (fault.name, number) in done:
                continue
            print(f"{fault.name} {number + 1} … ", end="", file=sys.stderr, flush=True)
            result = perform(fault, number, bench, arguments.seed, work)
            verdict = "ok" if result.survived == result.injected else f"BROKEN: {result.note}"
            print(f"{verdict} ({result.injected} in {result.seconds:g} s)", file=sys.stderr)
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            results.append(result)
    table = rows(FAULTS, results)
    print(render(table))
    out: Path = arguments.out or work
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "seed": arguments.seed,
        "quick": arguments.quick,
        **measured_with(["torch", "hypothesis"]),
        "table": table,
    }
    (out / "table.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "table.md").write_text(render(table), encoding="utf-8")
    sys.exit(any(row["survived"] != row["injected"] for row in table))


if __name__ == "__main__":
    main()
