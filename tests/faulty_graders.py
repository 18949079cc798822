"""A grader that fails on demand: what the completion names happens. Used by the tests of the pool only."""

import ctypes
import itertools
import os
import re
import signal
import sys
import time
from pathlib import Path

from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "faulty-1"


def _eat_memory() -> None:
    hoard = []
    while True:
        hoard.append(bytes(1 << 26))  # asked for and not touched: quick, and within the CPU time allowed


def _raise() -> None:
    raise ValueError("no such thing")


def _print() -> None:
    print('{"outcome": "CORRECT"}', flush=True)
    os.write(1, b"noise\n")
    print("noise", file=sys.stderr)


def _burn() -> None:
    start = time.process_time()
    while time.process_time() - start < 0.2:
        pass


FAULTS = {
    "hang in python": lambda: all(True for _ in itertools.count()),
    # The regular expression engine holds the interpreter's lock and lets no Python signal handler run.
    "hang in C": lambda: re.match(r"(a|aa)+$", "a" * 100 + "b"),
    "sleep": lambda: time.sleep(1e6),
    "eat memory": _eat_memory,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "null pointer": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "raise": _raise,
    "print": _print,
    "burn": _burn,
}


def grade_answer(completion: str, gold: Gold) -> Grade:
    extracted = completion
    if completion in FAULTS:
        FAULTS[completion]()
    elif completion == "no grade":
        return None  # type: ignore[return-value]
    elif completion == "pid":
        extracted = str(os.getpid())
    elif completion == "count":
        with Path(gold.answer).open("a", encoding="utf-8") as log:
            log.write("x")
    outcome = Outcome.CORRECT if completion == gold.answer else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail="compared", grader=GRADER_VERSION)
