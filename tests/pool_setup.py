"""A grader that fails on demand, in a pool with tight limits; imported by the tests of the pool."""

from pathlib import Path

from stapo_bench.grading.pool import GraderPool, Limits
from stapo_bench.grading.registry import Grader
from stapo_bench.records import Grade

FAULTY = Grader(name="faulty", summary="fails on demand", module="faulty_graders")
LIMITS = Limits(cpu_s=0.4, memory_bytes=1 << 28, asleep_s=1.5)


def outcomes(grades: list[Grade]) -> list[str]:
    return [grade.outcome.value for grade in grades]


def faulty_pool(workers: int = 1, limits: Limits = LIMITS) -> GraderPool:
    return GraderPool(workers, grader=FAULTY, limits=limits)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
