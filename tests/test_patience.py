"""No test needs a quick machine: a bound on the clock of the wall is wide, and threads are not counted."""

import re
from pathlib import Path

CLOCKS = re.compile(r"\b(?:monotonic|perf_counter|time)\(\) - \w+ <=? ([\d.]+)")
SHORT = {"test_run_locks.py": [3.9]}  # a lease ends after 4 s


def short_bounds(text: str) -> list[float]:
    return [seconds for seconds in map(float, CLOCKS.findall(text)) if seconds < 20]


def test_what_may_take_long_on_a_busy_machine_may_take_long():
    files = [path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__)]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert {name: found for name, text in texts.items() if (found := short_bounds(text))} == SHORT
    assert [name for name, text in texts.items() if "active_count()" in text] == []


def test_a_short_bound_is_seen():
    assert short_bounds("assert time.monotonic() - began < 1.5\nassert perf_counter() - t <= 2\ntime() - t < 60") == [
        1.5,
        2,
    ]
