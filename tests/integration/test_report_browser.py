"""The report in a real browser: it renders, sorts, prints and follows, and nothing that a model wrote runs.

scripts/integration.sh report
"""

# ruff: noqa: F401, F811  browser, folder and report are fixtures, which tests take as arguments

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from report_reader import BENCH, Report, browser, draw, folder, report, sample_lines
from selenium.webdriver.common.keys import Keys

# -- it renders, and asks nobody --------------------------------------------------------------------------------------


def test_every_part_renders_without_a_complaint_or_a_request_and_nothing_planted_runs(report, browser):
    report.open().driver.get_log("performance")
    for hash_ in ("#overview", "#figures", "#samples", "#tokens", "#halves/p3/2@run-a,run-b"):
        report.settle(hash_)
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
    for form, start in (("markdown", "**avg@k in percent"), ("latex", "\\begin{tabular}")):
        report.find(f".table-head button[data-form={form}]").click()
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
        report.settle(hash_)
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


@pytest.mark.parametrize("hash_", ["#overview/1", "#figures", "#halves/p4/3@run-a,run-b", "#tokens"])
def test_on_a_telephone_nothing_makes_the_page_wider_than_the_screen(report, browser, hash_):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        report.settle(hash_)
        wide = "return [...document.querySelectorAll('body *')].filter((e) => e.scrollWidth > e.clientWidth + 1)"
        assert report.run("return document.documentElement.scrollWidth") <= 390, report.run(
            wide + ".slice(0, 5).map((e) => e.outerHTML.slice(0, 120))"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


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
    made = BENCH["make_report"](tmp_path / "run", tmp_path / "report.html")
    found = BENCH["measure"](tmp_path / "report.html", repeats=1)
    print(f"\n50,000 samples: {made | found}")
    assert found["open_s_median"] < 10  # 3 is the aim, and 0.4 was measured: this bound holds on a loaded machine
    assert found["rows_in_page"] < 60


def test_watch_shows_samples_as_they_come_and_only_on_its_own_address(browser, folder):
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
            server.terminate()  # SIGINT would be ignored where the tests run in the background
            server.wait(timeout=60)
    assert server.returncode == 143
