"""How a report of many samples is made, opens, scrolls and searches in a real browser (headless Chromium, by Selenium).

python -m bench.report --json results/bench/report.json

The report is made by the command, in a process of its own. Opening ends when the first sample's text stands in the
page; times are the browser's own, since navigation began. Searches are for rare words, for frequent ones when the
workers hold the texts, and for longer ones than before: ``first`` is when the list shows what is found, ``whole``
when every text was looked at.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.synthetic_run import PROBLEM_IDS, write_manifest
from stapo_bench.runs import measured_with
from stapo_bench.seeds import derive_seed

_WORDS = (
    *("we", "have", "so", "therefore", "the", "number", "of", "solutions", "is", "let", "then", "hence", "since"),
    *("because", "equation", "integer", "triangle", "angle", "side", "divides", "remainder", "modulo", "prime", "wait"),
    *("check", "again", "case", "first", "second", "third", "follows", "gives", "total", "probability", "circle"),
    *("$x^2 + y^2$", r"\(\frac{a}{b}\)", r"\(\sqrt{n}\)", r"\[ S = \sum_{k=1}^{n} k \]"),
)
_OPENED = """
new MutationObserver(() => {
  if (window.opened === undefined && document.querySelector("#detail .text")?.textContent) {
    window.opened = performance.now();
  }
}).observe(document, { childList: true, subtree: true });
"""
_SCROLL = """
const [done] = arguments;
const list = document.getElementById("list");
const times = [];
let last = performance.now();
const step = (now) => {
  times.push(now - last);
  last = now;
  list.scrollTop += 3000;
  if (times.length < 240) requestAnimationFrame(step);
  else done({ times: times.slice(5), rows: document.querySelectorAll("#list .row").length });
};
requestAnimationFrame(step);
"""
_SEARCH = """
const [words, done] = arguments;
const start = performance.now();
let first = null;
const watch = new MutationObserver(() => (first ??= performance.now() - start));
watch.observe(document.getElementById("status"), { childList: true });
document.getElementById("search").value = words;
refresh().then(() => {
  watch.disconnect();
  const whole = performance.now() - start;
  done([first ?? whole, whole, browser.found.length]);
});
"""
_FILTERS = """
const times = [];
const time = (act) => {
  const start = performance.now();
  act();
  times.push(performance.now() - start);
};
for (const id of ["only-truncated", "only-unanswered"])
  for (const _ of [1, 2]) time(() => document.getElementById(id).click());
for (const order of ["long", "short", ""])
  time(() => {
    document.getElementById("order").value = order;
    document.getElementById("order").dispatchEvent(new Event("change"));
  });
return Math.max(...times);
"""
_WORDS_SEARCHED = ("9876", "therefore the", "therefore the $x^2")
_PAINTED = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"


def write_run(folder: Path, num_samples: int, num_bytes: int) -> None:
    """A finished run of one task whose texts are as varied as words, numbers and formulas are."""
    per_problem = max(1, num_samples // len(PROBLEM_IDS))
    write_manifest(folder, per_problem)
    for name in ("samples", "grades"):
        (folder / name).mkdir()
    rng = random.Random(0)
    with (folder / "samples/0001-all.jsonl").open("w") as samples, (folder / "grades/math.jsonl").open("w") as grades:
        grades.write('{"grader": "math-1"}\n')
        for i, problem_id in enumerate(PROBLEM_IDS):
            for j in range(per_problem):
                key = {"task": "t", "problem_id": problem_id, "sample_index": j}
                text = _text(rng, num_bytes)
                rest = {"num_tokens": len(text) // 4, "finish_reason": "stop", "sum_log_prob": -210.5}
                samples.write(
                    json.dumps({**key, "seed": derive_seed(0, "t", problem_id, j), "completion": text, **rest}) + "\n"
                )
                answer = (i * 7 + j) % 50
                outcome = "INCORRECT" if answer else "CORRECT"
                grades.write(
                    json.dumps({**key, "outcome": outcome, "extracted": str(answer), "detail": "integers"}) + "\n"
                )


def _text(rng: random.Random, num_bytes: int) -> str:
    words: list[str] = []
    size = 0
    while size < num_bytes:
        words.append(rng.choice(_WORDS) if rng.random() < 0.8 else str(rng.randrange(10_000)))
        size += len(words[-1]) + 1
    return " ".join(words)


def open_browser(width: int = 1360, height: int = 860) -> Any:
    """A headless Chromium that logs its console and its requests; its clock and profile are its own."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"),
        "--blink-settings=primaryHoverType=2,availableHoverTypes=2",  # as with a mouse, which a headless one lacks
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(120)
    return driver


def measure(page: Path, repeats: int) -> dict[str, Any]:
    """Open, filter, scroll and search the page."""
    driver = open_browser()
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _OPENED})
        opened, painted = [], []
        for _ in range(repeats):
            driver.get("about:blank")
            driver.get(f"{page.as_uri()}#samples")
            while (moment := driver.execute_script("return window.opened")) is None:
                time.sleep(0.05)
            opened.append(round(moment / 1000, 3))
            painted.append(round(driver.execute_script(_PAINTED) / 1000, 3))
        slowest_ms = driver.execute_script(_FILTERS)
        scrolled = driver.execute_async_script(_SCROLL)
        opened_mb = _renderer_mb(driver)
        searches = [
            driver.execute_async_script(_SEARCH, words) for words in ("9876", "therefore the", "therefore the $x^2")
        ]
        searched_mb = _renderer_mb(driver)
    finally:
        driver.quit()
    frames = sorted(scrolled["times"])
    rare, frequent, longer = searches
    return {
        "first_screen_s": statistics.median(painted),
        "open_s": opened,
        "open_s_median": statistics.median(opened),
        "slowest_filter_or_order_s": round(slowest_ms / 1000, 3),
        "scroll_frame_ms_median": round(statistics.median(frames), 1),
        "scroll_frame_ms_p95": round(frames[int(0.95 * len(frames))], 1),
        "rows_in_page": scrolled["rows"],
        **_of_search("rare", rare),
        **_of_search("frequent", frequent),
        **_of_search("longer", longer),
        "page_memory_mb": opened_mb,
        "page_memory_after_searches_mb": searched_mb,
    }


def _of_search(name: str, found: list[float]) -> dict[str, Any]:
    first, whole, hits = found
    seconds = {"first": round(first / 1000, 3), "whole": round(whole / 1000, 3)}
    return {f"search_{name}_{part}_s": value for part, value in seconds.items()} | {f"search_{name}_hits": hits}


def _renderer_mb(driver: Any) -> int:
    """Resident memory of the browser's largest process that shows a page."""
    pages = [place for place in _processes(driver.service.process.pid) if b"=renderer" in _read(place / "cmdline")]
    return max(int(_read(place / "statm").split()[1]) * resource.getpagesize() // 1_000_000 for place in pages)


def _processes(pid: int) -> Iterator[Path]:
    """A process and those that it started."""
    yield Path(f"/proc/{pid}")
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(children).split():
            yield from _processes(int(child))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def make_report(run: Path, page: Path) -> dict[str, Any]:
    """The command, in a process of its own: seconds, those of the processor, and its peak memory."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "stapo_bench", "report", str(run), "-o", str(page)]
    subprocess.run(command, check=True, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "write_s": round(time.perf_counter() - start, 1),
        "write_cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "write_peak_mb": round(used.ru_maxrss / 1024),
        "page_mb": round(page.stat().st_size / 1e6, 1),
    }


def main() -> None:
    """Measure writing and reading, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=2000, help="length of a completion (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, page = Path(folder) / "run", Path(folder) / "report.html"
        write_run(run, options.samples, options.bytes)
        made = {"samples": options.samples, "bytes_per_sample": options.bytes} | make_report(run, page)
        found = made | measure(page, options.repeats) | _where()
    for name, value in found.items():
        print(f"{name}: {value}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def _where() -> dict[str, Any]:
    chromium = subprocess.run(["chromium", "--version"], capture_output=True, text=True, check=False)
    return {
        "browser": chromium.stdout.split(" built")[0].strip(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        **measured_with(("selenium",)),
    }


if __name__ == "__main__":
    main()
