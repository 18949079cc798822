"""Finding samples in the report, in a real browser: filters, search, links and keys.

scripts/integration.sh report
"""

# ruff: noqa: F401, F811  browser, folder and report are fixtures, which tests take as arguments

import sys
import time
from pathlib import Path

from report_reader import browser, folder, grade_lines, report, sample_lines
from selenium.webdriver.common.keys import Keys

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
        report.settle(hash_)
        assert report.run(unnamed) == []
    report.open("#halves/p4/3").shown()
    row = report.find("#list .row[aria-selected=true]")
    assert row.get_attribute("role") == "option" and row.get_attribute("aria-setsize") == "72"
    assert report.find("#list").get_attribute("aria-activedescendant") == row.get_attribute("id")
    assert "sample 3," in row.get_attribute("aria-label")


# -- the search's workers ---------------------------------------------------------------------------------------------

COUNT_QUESTIONS = """
const lane = lanes()[0].constructor.prototype;
const ask = lane.ask;
window.asked = [];
lane.ask = function (id, places, words) {
  window.asked.push([words, places.length]);
  return ask.call(this, id, places, words);
};
"""


def test_a_longer_word_is_looked_for_where_the_shorter_was_found_and_other_filters_ask_nothing_anew(report, folder):
    texts = [sample["completion"].lower() for sample in sample_lines(folder, "run-a")]
    short, long = (sum(words in text for text in texts) for words in ("boxed{", "boxed{1"))
    assert 0 < long < short
    report.open("#samples").shown().run(COUNT_QUESTIONS)
    report.find("#search").send_keys("boxed{")
    report.until_count(short)
    report.find("#search").send_keys("1")
    report.until_count(long)
    questions = report.run("return window.asked")
    assert [number for words, number in questions if words == "boxed{1"] == [short]
    report.choose("#verdict", "C")
    report.until("return browser.found.every((i) => data.runs[0].outcome[i] === 'C')")
    report.choose("#verdict", "")
    report.until_count(long)
    assert report.run("return window.asked.length") == len(questions)
    assert report.complaints() == []


FAIL = """
const post = Worker.prototype.postMessage;
window.fails = true;  // asked with each question: no worker that was made meanwhile goes on failing
Worker.prototype.postMessage = function (question) {
  if (window.fails) this.onerror({ message: "no memory" });
  else post.call(this, question);
};
"""


def test_a_search_that_breaks_off_says_so_and_the_next_one_is_whole(report, folder):
    found = sum("boxed{" in sample["completion"].lower() for sample in sample_lines(folder, "run-a"))
    report.open("#samples").shown()
    report.run(FAIL)
    report.find("#search").send_keys("boxed")
    report.until("return byId('status').textContent.endsWith('(no memory); change its words to search again')")
    report.run("window.fails = false")
    report.find("#search").send_keys("{")
    report.until_count(found)


def test_who_waits_for_a_worker_that_another_search_stopped_is_told(report):
    report.open("#samples").shown()
    report.run("""
      const lane = lanes()[0];
      lane.worker.postMessage = () => {};  // still at work
      window.told = [];
      const ask = () => lane.ask("text-0-0", [0], "boxed").catch((error) => told.push(error.message));
      ask();
      setTimeout(() => { dropLanes(lanes(), new Error("no memory")); ask(); }, 20);
    """)
    report.until("return told.join() === 'no memory,no memory'")
