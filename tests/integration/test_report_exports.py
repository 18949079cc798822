"""What a reader takes out of the report, in a real browser: verdicts, figures, and links that lead back to them.

scripts/integration.sh report
"""

# ruff: noqa: F401, F811  browser, folder and report are fixtures, which tests take as arguments

import json
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest
from report_reader import browser, folder, report, three


@pytest.fixture(autouse=True)
def allowed(browser) -> None:
    """The page may write to the clipboard, and a test may read it."""
    granted = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": granted})


def clipboard(browser):
    return browser.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))"
    )


def test_a_verdict_is_copied_as_the_command_prints_it(report, browser, folder):
    report.open("#overview/1")
    compare = [sys.executable, "-m", "stapo_bench", "compare", "run-a", "run-b"]
    printed = subprocess.run(compare, cwd=folder, capture_output=True, text=True, check=True).stdout
    report.find(".verdict button[data-form=markdown]").click()
    report.until("return document.getElementById('toast').textContent === 'Markdown copied'")
    assert clipboard(browser).strip() == printed.strip()


def test_links_lead_to_a_verdict_which_is_open_and_to_a_figure(report, browser):
    report.open("#overview")
    assert not report.run("return document.querySelector('.verdict').open")
    report.run("document.querySelector('.verdict').open = true")
    report.find(".verdict button[data-link]").click()
    report.until("return document.getElementById('toast').textContent === 'Link copied'")
    assert clipboard(browser) == f"{report.url}#overview/1"
    report.open("#overview/1")
    assert report.run("return document.querySelector('.verdict').open")
    name = report.find("#figures figure:last-of-type button.save").get_attribute("data-name")
    report.open(f"#figures/{name}")
    top = report.run("return document.getElementById(arguments[0]).getBoundingClientRect().top", f"figure-{name}")
    assert 0 <= top < report.run("return innerHeight")
    for lost in ("#overview/99", "#figures/nothing", "#overview/x"):
        report.open(lost)
        assert report.find("#overview").is_displayed() and report.complaints() == []


def test_a_figure_is_saved_as_a_file_in_dark_ink_whatever_the_pages_colours(report, browser, folder, tmp_path):
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    report.open("#figures").run("document.documentElement.dataset.theme = 'dark'")
    name = report.find("button.save").get_attribute("data-name")
    report.find("button.save").click()
    end = time.monotonic() + 60
    while not (saved := tmp_path / f"{name}.svg").exists():
        assert time.monotonic() < end, list(tmp_path.iterdir())
        time.sleep(0.05)
    drawing = ElementTree.fromstring(saved.read_text(encoding="utf-8"))
    assert drawing.tag.endswith("svg") and drawing.get("color") == "#1b1b1b"
    shown = report.run("return document.querySelectorAll(`#figure-${arguments[0]} svg path`).length", name)
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}path")) == shown > 0
    assert report.complaints() == []


def test_any_two_runs_are_chosen_and_show_the_verdict_that_compare_prints(three, folder):
    """A link opens the pair that it names."""
    report = three.open()
    shown = "return [...document.querySelectorAll('.pair')].filter((e) => !e.hidden).map((e) => e.dataset.runs)"
    report.until(shown)
    is_open = "return document.querySelector('.pair:not([hidden]) details').open"
    assert not report.run(is_open)  # until somebody asks
    for chosen, expected in ((("0", "1"), "0 1"), (("2", "1"), "1 2"), (("2", "0"), "0 2")):
        report.choose("#pair-first", chosen[0])
        report.choose("#pair-second", chosen[1])
        assert report.run(shown) == [expected] and report.run(is_open)
    report.choose("#pair-first", "0")  # which is the second already: they change places
    assert [report.find(f"#pair-{place}").get_attribute("value") for place in ("first", "second")] == ["0", "2"]
    report.choose("#pair-second", "1")
    arguments = [sys.executable, "-m", "stapo_bench", "compare", "run-a", "run-b", "--format", "json"]
    printed = json.loads(subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True).stdout)
    (verdict,) = report.run(
        "return [...document.querySelectorAll('.pair:not([hidden]) summary')].map((e) => e.textContent)"
    )
    assert verdict == printed["sentence"]
    last = report.run("return [...document.querySelectorAll('.pair details')].at(-1).id.split('-')[1]")
    report.open(f"#overview/{last}")
    assert report.until(shown) == ["1 2"] and report.complaints() == []
