"""Everybody can read the site: axe-core has no serious finding on its pages, in light and in dark.

scripts/integration.sh site, which builds the site before
"""

# ruff: noqa: F401, F811  browser is a fixture, which tests take as an argument

from pathlib import Path

import pytest
from axe_reader import grave_findings, show_in
from report_reader import browser
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SITE = Path(__file__).resolve().parents[2] / "site"
PAGES = (
    *("index.html", "start.html", "how-to/report.html", "reference/python.html", "results/experiments/index.html"),
    *("objectives.html", "notebooks/compare.html", "results/experiments/main/page.html"),  # wider than the page
)


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


BOXES = "return [...document.querySelectorAll('.md-typeset__scrollwrap')].filter((e) => {})"


def test_what_is_wider_than_the_page_is_named_and_scrolled_by_the_keyboard_which_passes_over_the_rest(browser):
    browser.get((SITE / "objectives.html").as_uri())
    is_wide = BOXES.format("e.scrollWidth > e.clientWidth && e.getAttribute('role') === 'region'")
    (wide, *_) = WebDriverWait(browser, 20).until(lambda seen: seen.execute_script(is_wide))
    assert wide.get_attribute("aria-label") == "Wide content 1: Weights"
    browser.execute_script("arguments[0].focus()", wide)
    wide.send_keys(Keys.ARROW_RIGHT)
    WebDriverWait(browser, 20).until(lambda seen: seen.execute_script("return arguments[0].scrollLeft", wide) > 0)
    browser.get((SITE / "gate.html").as_uri())
    narrow = WebDriverWait(browser, 20).until(lambda seen: seen.execute_script(BOXES.format("true")))
    assert [box.get_attribute("tabindex") for box in narrow] == [None] * len(narrow)
