"""Any two runs of a report: the verdict of every pair is that of ``compare``, made with the report."""

import json
import re
from dataclasses import replace

import pytest

from stapo_bench.analysis import compare_loaded, compare_runs
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.report import page, verdict_views
from stapo_bench.presenting.report.overview import overview
from stapo_bench.presenting.report.verdict_views import MOST_PAIRED, pair_views
from stapo_bench.presenting.verdicts import render_comparison, sentence
from stapo_bench.runs import load_run

ROWS = {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [0.0, 0.0]}


def test_every_two_runs_have_the_verdict_that_compare_gives_them(make_run):
    runs = [make_run(name, {"t": [row] * 6}) for name, row in ROWS.items()]
    shown = overview(Sources(runs=runs), baseline=runs[2])
    found = {(pair.a, pair.b): pair.verdict for pair in shown.pairs}
    assert list(found) == [(0, 1), (2, 0), (2, 1)]  # as above them, where a run is compared with the baseline
    for (a, b), verdict in found.items():
        of_two = compare_runs(runs[a], runs[b])
        assert verdict.sentence == sentence(of_two) and verdict.markdown == render_comparison(of_two)
    assert [shown.comparisons[0], shown.comparisons[1]] == [found[2, 0], found[2, 1]]
    assert found[0, 1].rows[0][1:4] == ("50.00", "100.00", "+50.0")


def test_two_that_share_no_task_say_so_where_their_verdict_would_stand(make_run):
    runs = [make_run("x", {"t": [[1.0]]}), make_run("y", {"u": [[1.0]]}), make_run("z", {"t": [[0.0]]})]
    failures = {(pair.a, pair.b): pair.failure for pair in overview(Sources(runs=runs)).pairs}
    assert failures[0, 2] == "" and "nothing to compare" in failures[0, 1] and "nothing to compare" in failures[1, 2]


@pytest.fixture
def three_runs(make_run, monkeypatch):
    """For a page without figures, which are not what these tests are about."""
    monkeypatch.setattr(page, "figures", lambda sources: ([], []))
    return [make_run(name, {"t": [row] * 6}) for name, row in ROWS.items()]


def test_the_page_holds_a_choice_of_two_and_their_verdicts_as_markdown(three_runs, monkeypatch):
    seen = []
    monkeypatch.setattr(page, "overview", lambda *given, **named: seen.append(overview(*given, **named)) or seen[-1])
    text = page.render_page(page.Contents(runs=three_runs))
    assert re.findall(r'class="pair" data-runs="(\d \d)" hidden', text) == ["0 1", "0 2", "1 2"]
    ids = [int(number) for number in re.findall(r'class="verdict" id="verdict-(\d+)"', text)]
    (copies,) = re.findall(r'id="data-copies">(.*?)</script>', text)
    texts = [one["markdown"] for one in json.loads(copies)["verdict"]]
    assert ids == list(range(1, len(texts) + 1)) and len(ids) == 2 + 1 + 3  # to the baseline, together, any two
    assert [pair.verdict.markdown for pair in seen[0].pairs] == texts[3:]


def test_two_runs_need_no_choice_and_many_runs_are_told_what_to_do(three_runs, monkeypatch):
    for number in (2, MOST_PAIRED + 1):
        assert list(pair_views([{}] * number, "math", {})) == []
    for module in (page, verdict_views):
        monkeypatch.setattr(module, "MOST_PAIRED", 2)
    text = page.render_page(page.Contents(runs=three_runs))
    assert "in a report of up to 2; this one has 3" in text and 'class="pair"' not in text


class CountedList(list):
    """Samples that know how often they were gone through."""

    rounds = 0

    def __iter__(self):
        self.rounds += 1
        return super().__iter__()


def test_a_runs_samples_are_gone_through_for_the_run_and_not_for_each_pair(make_run):
    runs = [load_run(make_run(name, {"t": [row] * 6})) for name, row in ROWS.items()]
    counted = [CountedList(run.samples["t"]) for run in runs]
    runs = [replace(run, samples={"t": samples}) for run, samples in zip(runs, counted, strict=True)]
    compare_loaded(runs[0], runs[1])
    first = counted[0].rounds
    found = [compare_loaded(runs[0], runs[2]), compare_loaded(runs[0], runs[1])]
    assert first > 0 and counted[0].rounds == first
    assert [one.average.value_b - one.average.value_a for one in found] == [-0.5, 0.5]
