"""A reader of reports in a real browser, for tests: runs full of planted markup, their page, and what a reader does.

Needs Chromium with its driver (Debian: chromium, chromium-driver) and Selenium; without, its tests are skipped.
"""

import json
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("selenium")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("no chromium with chromedriver on this machine", allow_module_level=True)

from selenium.webdriver.common.by import By

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "report.py"))
PATIENCE = 60.0  # seconds until a test gives up waiting
SHOWS = {
    "#figures": "return document.querySelector('#figures svg') !== null",
    "#samples": "return document.querySelector('#detail .text')?.textContent",
    "#halves": "return document.querySelectorAll('#detail .columns > section').length === 2",
    "#tokens": "return document.querySelectorAll('#token-text .token').length === 4",
}
"""What is true where a part of the page is there; of a problem, where two runs are side by side."""

EVIL = (
    "</script><script>window.flag=1</script><img src=x onerror=window.flag=1><svg onload=window.flag=1></svg>"
    "<a href='javascript:window.flag=1'>x</a> &lt;script&gt;window.flag=1&lt;/script&gt; &#60;b&#62; &broken; <!-- "
    "\u202edesrever\u2066 \\href{javascript:window.flag=1}{x} $\\htmlData{x=1}{\\includegraphics{x}}$ ${\\sqrt$ "
)
MATHS = r"Since $x^2 + \frac{1}{2} = 3$ and \[ \sum_{k=1}^{n} k = \frac{n(n+1)}{2} \] it cost $5 and $6, "
QUESTION = EVIL + r"What is \(\frac{1}{2}\) of $%d^2$?"


def write_task(folder: Path) -> None:
    rows = [
        {"id": f"p{i}" if i < 8 else "a/b@c,d %", "problem": QUESTION.replace("%d", str(i)), "answer": "1/2"}
        for i in range(9)
    ]
    (folder / "halves.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "halves.yaml").write_text(
        "task: halves\nrepeats: 8\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 9, title: Halves & <b>}\n"
    )
    for name, success in (("a", 0.3), ("b", 0.7)):
        # 0.5 is 1/2 to the math grader and not to the strict one: a dispute.
        script = {"success": success, "truncated": 0.15, "median_tokens": 900, "spread": 0.2, "wrong": ["0.5", "9"]}
        script["right"] = EVIL + MATHS + r"so \boxed{gold}."
        (folder / f"{name}.yaml").write_text(json.dumps(script))


def command(*arguments: object, cwd: Path) -> None:
    stapo = [sys.executable, "-m", "stapo_bench", *map(str, arguments)]
    done = subprocess.run(stapo, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def draw(folder: Path, name: str, run: str, samples: int) -> None:
    command("eval", "--engine", "scripted", "--ckpt", f"{name}.yaml", "--decoding", "justrl", "--tasks", "halves.yaml",
            "--data-dir", ".", "--max-new-tokens", 2000, "--samples", samples, "--out", run, cwd=folder)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_task(folder)
    for name in ("a", "b"):
        draw(folder, name, f"run-{name}", 8)
        command("grade", f"run-{name}", "--grader", "strict", "--data-dir", ".", cwd=folder)
    dump = folder / "train" / "dumps" / "iteration-000001"
    dump.mkdir(parents=True)
    (dump / "dump.json").write_text("{}")
    response = {"prompt": EVIL, "advantage": 1.5, "text": ["So ", EVIL, "2", "."], "prob": [0.9, 0.0004, 0.6, 0.99]}
    response |= {"entropy": [0.2, 2.5, 1.0, 0.01], "mark": ".sc.", "top": [[["So ", 0.9], [EVIL, 0.1]]] * 4}
    lines = [{"objective": "stapo", "thresholds": {"tau_h": 1.25}}, {**response, "mark": "...."}, response]
    (dump / "tokens.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command("report", "run-a", "run-b", "--train", "train", "--data-dir", ".", "-o", "report.html", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def browser():
    driver = BENCH["open_browser"]()
    yield driver
    driver.quit()


class Report:
    """What a reader does with the page."""

    def __init__(self, driver, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, hash_: str = "") -> "Report":
        self.driver.get("about:blank")
        self.driver.get(self.url + hash_)
        # What the page still does after this is forgotten as well: a search that is under way stores its words.
        self.driver.execute_script("try { Storage.prototype.setItem = () => {}; sessionStorage.clear() } catch {}")
        self.driver.get("about:blank")
        self.driver.get(self.url + hash_)
        return self

    def settle(self, hash_: str) -> "Report":
        """Open a part, and wait until it is there and nothing in the page changes any more."""
        self.open(hash_).until(SHOWS.get(hash_.partition("/")[0], "return document.readyState === 'complete'"))
        before, end = -1, time.monotonic() + PATIENCE
        while before != (now := self.run("return document.body.innerHTML.length")):
            assert time.monotonic() < end, f"{hash_} changes all the time"
            before = now
            time.sleep(0.2)
        return self

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments):
        """The script's value as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < end, f"waited in vain for: {script}"
            time.sleep(0.03)
        return found

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def keys(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def choose(self, selector: str, value: str) -> None:
        """Pick an option; how a browser's own menu is driven differs from one to the next."""
        change = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
        self.run(change, self.find(selector), value)

    @property
    def text(self) -> str:
        return self.run("return document.querySelector('#detail .text')?.textContent ?? ''")

    def shown(self) -> "Report":
        """Wait until a sample is there with all its formulas."""
        self.until("return document.querySelector('#detail .text')?.textContent")
        time.sleep(0.1)
        return self

    def until_count(self, number: int) -> None:
        """Wait until the list says that it shows so many samples."""
        self.until("return document.getElementById('status')?.textContent.split(' ')[0] === arguments[0]", str(number))

    def until_at(self, place: str) -> None:
        """Wait until this sample is the chosen one: "problem / sample"."""
        chosen = "document.querySelector('#list .row[aria-selected=true] .where')?.textContent"
        self.until(f"return {chosen} === arguments[0]", place)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def report(browser, folder) -> Report:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.get_log("browser")
    return Report(browser, (folder / "report.html").as_uri())


def sample_lines(folder: Path, run: str) -> list[dict]:
    return [json.loads(line) for path in (folder / run / "samples").glob("*.jsonl") for line in path.open()]


def grade_lines(folder: Path, run: str, grader: str) -> dict[tuple[str, int], str]:
    rows = [json.loads(line) for line in (folder / run / "grades" / f"{grader}.jsonl").open()]
    return {(row["problem_id"], row["sample_index"]): row["outcome"] for row in rows if "outcome" in row}


@pytest.fixture
def three(browser, folder) -> Report:
    """A report of three runs, of which a reader chooses two: the third is the second under another name."""
    if not (folder / "three.html").exists():
        shutil.copytree(folder / "run-b", folder / "run-c")
        command("report", "run-a", "run-b", "run-c", "--data-dir", ".", "-o", "three.html", cwd=folder)
    return Report(browser, (folder / "three.html").as_uri())
