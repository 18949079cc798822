"""The report in a real browser: it renders, filters, sorts, links and follows, and nothing that a model wrote runs.

    scripts/integration.sh report

Needs Chromium with its driver (Debian: chromium, chromium-driver) and Selenium.
"""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("selenium")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("no chromium with chromedriver on this machine", allow_module_level=True)

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "bench_report.py"))
PATIENCE = 20.0  # seconds until a test gives up waiting

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
        self.driver.execute_script("try { sessionStorage.clear() } catch {}")
        self.driver.get("about:blank")
        self.driver.get(self.url + hash_)
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


# -- it renders, and asks nobody --------------------------------------------------------------------------------------


def test_every_part_renders_without_a_complaint_or_a_request_and_nothing_planted_runs(report, browser):
    report.open().driver.get_log("performance")
    for hash_ in ("#overview", "#figures", "#samples", "#tokens", "#halves/p3/2@run-a,run-b"):
        report.open(hash_)
        time.sleep(0.4)
    report.shown()
    for number in range(12):
        report.keys("j" if number % 2 else "r")
        time.sleep(0.05)
    assert report.complaints() == []
    assert report.run("return window.flag") is None
    assert report.all("#detail img, #detail script, #detail a, #detail svg, #tokens img, #tokens a[href^=java]") == []
    logged = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [entry["params"]["request"]["url"] for entry in logged if entry["method"] == "Network.requestWillBeSent"]
    assert {url.split(":")[0] for url in asked} <= {"file", "about", "data", "blob"}


def test_planted_markup_is_shown_as_the_text_that_it_is(report, folder):
    sample = next(s for s in sample_lines(folder, "run-a") if "<script>" in s["completion"])
    report.open(f"#halves/{sample['problem_id']}/{sample['sample_index']}").shown()
    report.keys("r")
    report.until("return document.querySelector('#detail .text.raw')")
    written = sample["completion"].replace("\u202e", "U+202E").replace("\u2066", "U+2066")
    assert report.text == written


def test_mathematics_is_rendered_and_money_is_not(report):
    report.open("#samples").shown()
    report.choose("#verdict", "C")
    report.until("return document.querySelectorAll('#list .row .C').length > 0")
    report.find("#list .row").click()
    report.shown()
    report.until("return document.querySelectorAll('#detail .text math').length >= 3")
    assert len(report.all("#detail .text math mfrac")) == 2  # 1/2 and n(n+1)/2; the answer is written 1/2
    assert len(report.all("#detail .text .display math munderover")) == 1
    assert "it cost $5 and $6, so" in report.text
    assert report.run("return document.querySelector('#detail .question math mfrac') !== null")
    height = "return document.querySelector('#detail .text mfrac').getBoundingClientRect().height"
    assert report.run(height) > 15  # a fraction stands on two lines


HOSTILE = (
    *("$", "$$", r"\[", r"\(", r"\boxed{", r"$a\$", "{", "$x", r"\begin{align}", "$x$ ", r"$\frac{", "$5 and $6"),
    *(
        r"\def\a{\a\a}$\a$",
        "${" + "{" * 3000 + "}$",
        r"$\left(" + r"\left(" * 500 + "$",
        "\u202e$\u202e$",
        "\U0001d44e",
    ),
)


def test_texts_are_cut_into_formulas_without_loss_and_in_little_time(report, browser):
    report.open("#samples").shown()
    slow = browser.execute_async_script(
        """
        const [texts, done] = arguments;
        (async () => {
          const found = [];
          for (const text of texts) {
            const start = performance.now();
            const place = document.createElement("div");
            await fillWithMath(place, text);
            const parts = formulas(text).map((part) => part.source ?? part.text).join("");
            found.push([text.slice(0, 12), parts === text, performance.now() - start]);
          }
          done(found);
        })();
        """,
        [(text * 60_000)[:60_000] for text in HOSTILE],
    )
    assert len(slow) == len(HOSTILE)
    for start, is_whole, milliseconds in slow:
        assert is_whole and milliseconds < 15_000, (start, milliseconds)


# -- the overview -----------------------------------------------------------------------------------------------------


def test_the_table_sorts_by_any_column(report):
    report.open()
    methods = (
        "return [...document.querySelectorAll('.main tbody tr')].map((row) => Number(row.children[3].dataset.order))"
    )
    rising = sorted(report.run(methods))
    assert rising[0] < rising[1]
    head = report.all(".main thead button")[3]
    head.click()
    assert report.run(methods) == rising[::-1]
    assert report.find(".main th:nth-child(4)").get_attribute("aria-sort") == "descending"
    head.send_keys(Keys.ENTER)
    assert report.run(methods) == rising
    assert report.find(".main th:nth-child(4)").get_attribute("aria-sort") == "ascending"


def test_the_table_is_copied_as_markdown_and_latex(report, browser):
    report.open()
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    for form, start in (("markdown", "**paper suite"), ("latex", "\\begin{tabular}")):
        report.find(f"button[data-form={form}]").click()
        report.until("return document.getElementById('toast').textContent.length > 0")
        text = browser.execute_async_script(
            "navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))"
        )
        assert text.startswith(start), text


def test_intervals_can_be_chosen(report):
    report.open()
    shown = "return getComputedStyle(document.querySelector(arguments[0])).display"
    assert report.run(shown, ".interval.like") == "block" and report.run(shown, ".interval.these") == "none"
    report.run(
        "const s = document.querySelector('.intervals'); s.value = 'these'; s.dispatchEvent(new Event('change'))"
    )
    assert report.run(shown, ".interval.these") == "block" and report.run(shown, ".interval.like") == "none"


# -- finding samples --------------------------------------------------------------------------------------------------


def outcomes(folder, run="run-a"):
    return grade_lines(folder, run, "math"), grade_lines(folder, run, "strict")


def test_filters_leave_the_samples_that_they_name(report, folder):
    math, strict = outcomes(folder)
    cut = sum(sample["finish_reason"] == "length" for sample in sample_lines(folder, "run-a"))
    disputed = sum(math[key] != strict[key] and "CORRECT" in (math[key], strict[key]) for key in math)
    unanswered = sum(outcome == "NO_ANSWER" for outcome in math.values())
    assert min(cut, disputed, unanswered) > 0
    for box, expected in (("disputed", disputed), ("truncated", cut), ("unanswered", unanswered)):
        report.open("#samples").shown()
        report.find(f"#only-{box}").click()
        report.until_count(expected)
        assert report.find(f"label:has(#only-{box}) output").text == str(expected)
    report.find("#clear").click()
    report.until_count(72)
    for letter, outcome in (("I", "INCORRECT"), ("C", "CORRECT"), ("N", "NO_ANSWER")):
        report.choose("#verdict", letter)
        expected = sum(found == outcome for found in math.values())
        report.until_count(expected)


def test_flipped_problems_are_those_that_one_run_solves_more_often_than_not_and_the_other_does_not(report, folder):
    def share(run, problem):
        found = [o == "CORRECT" for (p, _), o in grade_lines(folder, run, "math").items() if p == problem]
        return sum(found) / len(found)

    flipped = [
        p
        for p in sorted({p for p, _ in grade_lines(folder, "run-a", "math")})
        if (share("run-a", p) - 0.5) * (share("run-b", p) - 0.5) < 0
    ]
    assert 0 < len(flipped) < 9
    report.open("#halves/p0/0").shown()
    assert not report.find("#only-flipped").is_enabled()  # beside which run?
    report.choose("#beside", "1")
    report.until("return location.hash.endsWith('@run-a,run-b')")
    report.until("return document.querySelectorAll('#detail .columns > section').length === 2")
    report.find("#only-flipped").click()
    report.until_count(8 * len(flipped))
    names = report.run(
        "return [...document.querySelectorAll('#list .where')].map((e) => e.textContent.split(' / ')[0])"
    )
    assert set(names) <= set(flipped)


def test_search_finds_words_in_completions_answers_and_problems(report, folder):
    report.open("#samples").shown()
    found = sum("so \\boxed" in sample["completion"].lower() for sample in sample_lines(folder, "run-a"))
    report.keys("/")
    assert report.driver.switch_to.active_element.get_attribute("id") == "search"
    report.keys("SO \\BOXED")
    report.until_count(found)
    report.keys(Keys.ENTER)
    report.keys("j")
    report.shown().keys("r")
    report.until("return document.querySelector('#detail .text mark')?.textContent === 'so \\\\boxed'")
    report.find("#search").clear()
    report.find("#search").send_keys("p7")
    report.until_count(8)
    report.find("#search").send_keys("nothing like it")
    report.until_count(0)


# -- links and keys ---------------------------------------------------------------------------------------------------


def test_a_link_opens_its_sample_again_and_again(report):
    report.open("#halves/p4/3").shown()
    report.until_at("p4 / 3")
    report.driver.refresh()
    report.shown()
    report.until_at("p4 / 3")
    report.open("#halves/5/3").shown()  # the fifth problem
    report.until_at("p4 / 3")
    report.open("#halves/p4/3@run-b").shown()
    assert report.find("#detail h3").text.startswith("run-b")
    report.open("#halves/p4/3@run-b,run-a").shown()
    assert [h.text.split()[0] for h in report.all("#detail h3")] == ["run-b", "run-a"]
    report.open("#halves/9/3@run-b").shown()  # the ninth problem's id holds all that a link gives a meaning
    report.keys(Keys.ARROW_RIGHT)
    report.until_at("a/b@c,d % / 4")
    report.driver.refresh()
    report.shown().until_at("a/b@c,d % / 4")
    report.open("#nothing/of/this%")
    assert report.find("#overview").is_displayed() and report.complaints() == []


def test_the_keyboard_goes_everywhere(report):
    report.open("#halves/p4/3").shown()
    steps = (("j", "p4 / 4"), (Keys.ARROW_DOWN, "p4 / 5"), ("k", "p4 / 4"), (Keys.ARROW_UP, "p4 / 3"),
             (Keys.ARROW_RIGHT, "p4 / 4"), (Keys.ARROW_LEFT, "p4 / 3"))  # fmt: skip
    for key, expected in steps:
        report.keys(key)
        report.until_at(expected)
    report.driver.back()
    report.until_at("p4 / 4")
    for key, part in (("1", "overview"), ("4", "tokens"), ("3", "samples"), ("2", "overview")):
        report.keys(key)
        report.until("return !document.getElementById(arguments[0]).hidden", part)
    report.keys("?")
    assert report.find("#help").is_displayed()
    report.keys(Keys.ESCAPE)
    assert not report.find("#help").is_displayed()


def test_what_has_the_focus_shows_it(report):
    report.open("#halves/p4/3").shown()
    seen = set()
    for _ in range(40):
        report.keys(Keys.TAB)
        outline = report.run(
            "const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.id || e.tagName, s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1]"
        )
        seen.add(outline[0])
        assert outline[1] or outline[0] in ("BODY", "HTML"), outline
    assert {"search", "list", "raw", "run"} <= seen


def test_everything_that_can_be_used_has_a_name(report):
    unnamed = """
      const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent.trim();
      const used = document.querySelectorAll("button, input, select, a, [role=listbox], [role=region], svg[role=img]");
      return [...used].filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80));
    """
    for hash_ in ("#overview", "#halves/p4/3@run-a,run-b", "#tokens"):
        report.open(hash_)
        time.sleep(0.4)
        assert report.run(unnamed) == []
    report.open("#halves/p4/3").shown()
    row = report.find("#list .row[aria-selected=true]")
    assert row.get_attribute("role") == "option" and row.get_attribute("aria-setsize") == "72"
    assert report.find("#list").get_attribute("aria-activedescendant") == row.get_attribute("id")
    assert "sample 3," in row.get_attribute("aria-label")


# -- light and dark ---------------------------------------------------------------------------------------------------

# Every text in sight against the ground behind it, by WCAG 2.2's relative luminance: at least 4.5 to 1 (AA).
CONTRAST = """
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
const context = canvas.getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data];
};
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255];
};
const exempt = ":disabled, label:has(:disabled), script, style, select";
const poor = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !e.checkVisibility({ opacityProperty: true }) || e.closest(exempt)) continue;
  const [a, b] = [light(rgba(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) poor.add(`${e.className || e.tagName} ${ratio.toFixed(2)}`);
}
return [...poor];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_in_dark(report, browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    for hash_ in ("#overview", "#halves/p4/3@run-a,run-b", "#tokens"):
        report.open(hash_)
        time.sleep(0.4)
        assert report.run(CONTRAST) == [], hash_
    ground = report.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 24)"}[scheme]
    report.keys("t")
    assert report.run("return getComputedStyle(document.body).backgroundColor") != ground


def test_printed_pages_are_light_and_without_controls(report, browser):
    report.open()
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert report.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not report.find(".bar").is_displayed() and not report.find("button.copy").is_displayed()
    assert report.find(".main").is_displayed()


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_tokens_tell_their_numbers_and_silenced_ones_are_marked_beside_their_colour(report):
    report.open("#tokens")
    report.until("return document.querySelectorAll('#token-text .token').length === 4")
    tokens = report.all("#token-text .token")
    assert [t.get_attribute("class").split()[1:] for t in tokens] == [
        ["s0"],
        ["s5", "silenced"],
        ["s0", "candidate"],
        ["s0"],
    ]
    assert report.run("return getComputedStyle(arguments[0]).outlineStyle", tokens[1]) == "dashed"
    assert report.run("return getComputedStyle(arguments[0], '::before').content", tokens[1]) == '"⊘"'
    assert "4.00e-4" in report.find("#token-facts").text and "silenced" in report.find("#token-facts").text
    tokens[1].send_keys(Keys.ARROW_RIGHT)
    facts = report.find("#token-facts").text
    assert "0.600" in facts and "1.00 nats" in facts and "candidate, kept" in facts and '"So "' in facts
    report.choose("#shade", "entropy")
    classes = [t.get_attribute("class").split()[1] for t in report.all("#token-text .token")]
    assert classes == ["s1", "s5", "s3", "s0"]


# -- many samples, and samples still to come --------------------------------------------------------------------------


def test_fifty_thousand_samples_open_quickly(tmp_path):
    BENCH["write_run"](tmp_path / "run", 50_000, 300)
    size = BENCH["write_report"](BENCH["Contents"](runs=[tmp_path / "run"]), tmp_path / "report.html")
    found = BENCH["measure"](tmp_path / "report.html", repeats=1)
    print(f"\n50,000 samples, {size / 1e6:.1f} MB: {found}")
    assert found["open_s_median"] < 10  # 3 is the aim, and 0.4 was measured: this bound holds on a loaded machine
    assert found["rows_in_page"] < 60


def test_watch_shows_samples_as_they_come_and_only_on_its_own_address(browser, folder):
    import http.client

    if not (folder / "live").exists():
        draw(folder, "a", "live", 2)
    arguments = [sys.executable, "-m", "stapo_bench", "watch", "live", "--port", "0", "--data-dir", "."]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(arguments, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            line = server.stderr.readline()
            port = int(line.split("/")[2].split(":")[1])
            live = Report(browser, f"http://127.0.0.1:{port}/").open("#halves/p2/1")
            live.shown()
            live.until_count(18)
            draw(folder, "a", "live", 4)
            live.until_count(36)
            live.until_at("p2 / 1")
            assert live.complaints() == []

            def status(host: str) -> int:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.request("GET", "/", headers={"Host": host})
                return connection.getresponse().status

            assert status(f"localhost:{port}") == 200
            assert status(f"evil.example:{port}") == 421
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=20)
    assert server.returncode == 130
