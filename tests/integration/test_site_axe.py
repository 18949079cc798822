"""Everybody can read the site: axe-core has no serious finding on its pages, in light and in dark.

scripts/integration.sh site, which builds the site before
"""

# ruff: noqa: F401, F811  browser is a fixture, which tests take as an argument

from pathlib import Path

import pytest
from axe_reader import grave_findings, show_in
from report_reader import browser
from selenium.webdriver.support.ui import WebDriverWait

SITE = Path(__file__).resolve().parents[2] / "site"
PAGES = ("index.html", "start.html", "how-to/report.html", "reference/python.html", "results/experiments/index.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_has_no_serious_finding(browser, page, scheme):
    show_in(browser, scheme)
    browser.get((SITE / page).as_uri())
    browser.execute_script("localStorage.clear()")  # what an earlier visit chose
    browser.refresh()
    shown = "return document.body.getAttribute('data-md-color-scheme') === arguments[0]"
    WebDriverWait(browser, 20).until(
        lambda seen: seen.execute_script(shown, {"light": "default", "dark": "slate"}[scheme])
    )
    assert grave_findings(browser) == []
