#!/usr/bin/env python3
"""Measure the graders on real responses with checked labels: agreement, time per pair, and the ratio to math-verify.

    STAPO_BENCH_DATA=DIR python -m bench.grading [--data FILE] [--limit K] [--json OUT]

Every grader grades the same pairs one after the other, in one process and one run, in CPU time, so that the ratio means
something on any machine, busy or not; ``math`` once more with the questions, as a run has them.
``grade_many`` is timed beside it: CPU time of all its processes, start included.
math-verify gets the gold between dollar signs and takes boxes before other formulas, which is where it does best.
"""

import argparse
import gzip
import json
import logging
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stapo_bench.errors import StapoError
from stapo_bench.grading import GRADERS, Grader, grade_many
from stapo_bench.records import Gold, Outcome, Problem
from stapo_bench.runs import measured_with
from stapo_bench.tasks import load_problems, load_task

PACKAGES = ("stapo-bench", "math-verify", "latex2sympy2_extended", "sympy")


PANEL = ("math", "strict", "qwen")  # the others may hang, and here nothing ends them: stapo-bench arena has them all
WITH_QUESTION = "math, with the question"
COLUMNS = ("false +", "false -", "total s", "p50 ms", "p99 ms", "max ms")


class Case(NamedTuple):
    """A response with its checked label: True means that its final answer is right."""

    id: str
    benchmark: str
    completion: str
    gold: Gold
    label: bool
    question: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 with one line where the data are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="file of responses (default: $STAPO_BENCH_DATA/responses.jsonl.gz)")
    parser.add_argument("--limit", type=int, help="only the first K responses")
    parser.add_argument("--json", type=Path, help="also write the measurement to this file")
    arguments = parser.parse_args(argv)
    try:
        cases = load_cases(arguments.data)[: arguments.limit]
    except StapoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    result = measure(cases)
    print(render(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def load_cases(path: Path | None) -> list[Case]:
    """Responses with the golds' types and tolerances from the task files; the sets lie beside the responses."""
    if path is None:
        if "STAPO_BENCH_DATA" not in os.environ:
            raise StapoError("expected --data FILE or STAPO_BENCH_DATA to name the folder of responses.jsonl.gz")
        path = Path(os.environ["STAPO_BENCH_DATA"]) / "responses.jsonl.gz"
    if not path.is_file():
        raise StapoError(f"{path}: no such file; expected JSON lines with benchmark, problem_id, gold, response, label")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    problems = {
        problem.problem_id: problem
        for name in sorted({row["benchmark"] for row in rows})
        for problem in load_problems(load_task(name), path.parent)
    }
    return [_case(row, problems.get(row["problem_id"])) for row in rows]


def _case(row: dict[str, Any], problem: Problem | None) -> Case:
    """A response with the published gold of its own time, read by the rules of the task, and the task's question."""
    gold = replace(problem.gold if problem else Gold(answer=""), answer=row["gold"])
    question = problem.question if problem else None
    return Case(row["id"], row["benchmark"], row["response"], gold, row["label"], question)


def measure(cases: Sequence[Case]) -> dict[str, Any]:
    """Grade all cases with every grader of the panel, and with math-verify."""
    graders: dict[str, Any] = {}
    for name in PANEL:
        grader = GRADERS[name]
        for module in grader.preload:
            __import__(module)
        outcomes, seconds = _timed(partial(_panel, grader), cases)
        graders[name] = {"version": grader.version, **_summary(cases, outcomes, seconds)}
    outcomes, seconds = _timed(_with_question, cases)
    graders[WITH_QUESTION] = {"version": GRADERS["math"].version, **_summary(cases, outcomes, seconds)}
    outcomes, seconds = _timed(_math_verify, cases)
    graders["math-verify"] = {"version": version("math-verify"), **_summary(cases, outcomes, seconds)}
    start, start_cpu = time.perf_counter(), _cpu_of_all()
    grade_many([(case.completion, case.gold) for case in cases])
    pool_s, pool_cpu_s = time.perf_counter() - start, _cpu_of_all() - start_cpu
    return {
        "num_responses": len(cases),
        "graders": graders,
        "ratio_math_verify_to_math": graders["math-verify"]["total_s"] / graders["math"]["total_s"],
        "pool_s": pool_s,
        "pool_cpu_s": pool_cpu_s,
        "ratio_math_verify_to_pool": graders["math-verify"]["total_s"] / pool_cpu_s,
        "import_s": _import_seconds(),
        **measured_with(PACKAGES),
    }


def _timed(grade: Callable[[Case], Outcome], cases: Sequence[Case]) -> tuple[list[str], list[float]]:
    """Outcome and CPU seconds of every case."""
    outcomes, seconds = [], []
    for case in cases:
        start = time.process_time()
        outcome = grade(case)
        seconds.append(time.process_time() - start)
        outcomes.append(outcome.value)
    return outcomes, seconds


def _panel(grader: Grader, case: Case) -> Outcome:
    return grader.grade(case.completion, case.gold).outcome


def _with_question(case: Case) -> Outcome:
    return GRADERS["math"].grade(case.completion, replace(case.gold, question=case.question)).outcome


def _math_verify(case: Case) -> Outcome:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it logs every expression that it cannot read
    box_first = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    right = verify(parse(f"${case.gold.answer}$"), parse(case.completion, extraction_config=box_first))
    return Outcome.CORRECT if right else Outcome.INCORRECT


def _summary(cases: Sequence[Case], outcomes: Sequence[str], seconds: Sequence[float]) -> dict[str, Any]:
    agreement: dict[str, list[bool]] = defaultdict(list)
    for case, outcome in zip(cases, outcomes, strict=True):
        agreement[case.benchmark].append((outcome == "CORRECT") == case.label)
    wrong: dict[bool, list[str]] = {True: [], False: []}
    for case, outcome in zip(cases, outcomes, strict=True):
        if (outcome == "CORRECT") != case.label:
            wrong[case.label].append(case.id)
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000 if seconds else (np.nan, np.nan)
    return {
        "agreement": 1 - (len(wrong[True]) + len(wrong[False])) / max(len(cases), 1),
        "agreement_by_benchmark": {name: float(np.mean(values)) for name, values in sorted(agreement.items())},
        "false_positives": wrong[False],
        "false_negatives": wrong[True],
        "outcomes": {name: outcomes.count(name) for name in sorted(set(outcomes))},
        "total_s": sum(seconds),
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": max(seconds, default=float("nan")) * 1000,
    }


def render(result: dict[str, Any]) -> str:
    """The measurement as a table for people."""
    lines = [
        f"{result['num_responses']} responses, commit {result['commit']}, {result['device']}",
        "",
        f"{'grader':<24}{'agreement':>10}" + "".join(f"{name:>9}" for name in COLUMNS),
    ]
    for name, row in result["graders"].items():
        lines.append(
            f"{name:<24}{row['agreement']:>10.2%}{len(row['false_positives']):>9}{len(row['false_negatives']):>9}"
            f"{row['total_s']:>9.2f}{row['p50_ms']:>9.3f}{row['p99_ms']:>9.2f}{row['max_ms']:>9.1f}"
        )
    lines += [
        "",
        f"math is {result['ratio_math_verify_to_math']:.1f} times as fast as math-verify, one pair after the other;",
        f"grade_many with its workers' start: {result['ratio_math_verify_to_pool']:.1f} times"
        f" ({result['pool_cpu_s']:.2f} s of CPU time, {result['pool_s']:.2f} s on the wall).",
        f"import stapo_bench.grading: {result['import_s']:.3f} s",
    ]
    return "\n".join(lines)


def _cpu_of_all() -> float:
    """CPU seconds of this process and of the children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _import_seconds() -> float:
    """CPU time, best of five in fresh processes, the interpreter's own start not counted."""
    code = "import time; start = time.process_time(); import stapo_bench.grading; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


if __name__ == "__main__":
    sys.exit(main())
