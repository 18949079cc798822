"""Everybody can use the report: axe-core has no serious finding, in light and in dark, on every part of it.

scripts/integration.sh report
"""

# ruff: noqa: F401, F811  browser, folder and report are fixtures, which tests take as arguments

import pytest
from axe_reader import grave_findings, show_in
from report_reader import browser, folder, report, three

PARTS = {
    "overview": ("", "return true"),
    "comparison": ("#overview", "document.querySelectorAll('details').forEach((e) => (e.open = true)); return true"),
    "figures": ("#figures", "return document.querySelector('#figures svg') !== null"),
    "problem": ("#halves/p4/3", "return document.querySelector('#detail .text math') !== null"),
    "two runs on a problem": (
        "#halves/p4/3@run-a,run-b",
        "return document.querySelectorAll('#detail .columns > section').length === 2",
    ),
    "tokens": ("#tokens", "return document.querySelectorAll('#token-text .token').length === 4"),
    "help": ("#overview", "document.getElementById('help').showModal(); return true"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("part", PARTS)
def test_axe_has_no_serious_finding(report, browser, part, scheme):
    hash_, shown = PARTS[part]
    show_in(browser, scheme)
    report.open(hash_).until(shown)
    assert grave_findings(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding_where_two_runs_are_chosen(three, browser, scheme):
    show_in(browser, scheme)
    three.open("#overview").choose("#pair-second", "2")
    shown = (
        "const pair = document.querySelector('.pair:not([hidden]) details'); if (pair) pair.open = true; return pair"
    )
    three.until(shown)
    assert grave_findings(browser) == []


def test_a_page_that_some_cannot_use_is_noticed(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<html><title>x</title><main><h1>x</h1><button></button><img src=x><p>" + "x " * 9)
    browser.get(page.as_uri())
    assert [one.split()[0] for one in grave_findings(browser)] == ["button-name", "html-has-lang", "image-alt"]
