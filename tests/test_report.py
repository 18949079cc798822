"""The report as a file: what it holds, that it asks nobody for anything, and that text from outside stays text."""

import json
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from report_setup import PLANTED, two_runs

from stapo_bench.analysis.score_file import score_run
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.report.baselines import baselines, pairs
from stapo_bench.presenting.report.data import CHUNK, collect
from stapo_bench.presenting.report.encode import chunked, json_island, script_hash, unpack
from stapo_bench.presenting.report.overview import overview
from stapo_bench.presenting.report.page import Contents, render_page, without_inline_style, write_report
from stapo_bench.presenting.tables.rows import Cell, Row
from stapo_bench.runs.sealed import seal

pytestmark = pytest.mark.usefixtures("graded_here")

runs = pytest.fixture(two_runs)


class Parsed(HTMLParser):
    """The page as a browser's parser sees it: elements with their attributes, and the text of those with an id."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.is_open = False  # the last element: what follows its end is not its text
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        self.is_open = True

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            self.texts[-1] += data

    def text(self, id_: str) -> str:
        return next(t for (_, attrs), t in zip(self.elements, self.texts, strict=True) if attrs.get("id") == id_)

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, t) for (name, attrs), t in zip(self.elements, self.texts, strict=True) if name == tag]


@pytest.fixture
def page(runs) -> str:
    return render_page(Contents(runs=runs))


def test_columns_say_what_the_samples_are(runs):
    data = collect(runs)
    index = data.index
    first = index["runs"][0]
    assert data.num_samples == 12
    assert index["problems"] == [[0, "t-0"], [0, "t-1"], [0, "t-2"]]
    assert first["problem"] == [0, 0, 1, 1, 2, 2] and first["sample"] == [0, 1, 0, 1, 0, 1]
    assert first["finish"] == "slslsl"
    assert [(g["name"], g["version"], g["outcome"]) for g in first["graders"]] == [
        ("math", "math-1", "CINIII"),
        ("strict", "strict-1", "IINIII"),
    ]
    answers = [index["answers"][number] for number in first["graders"][0]["answer"]]
    assert answers == ["right", "wrong 1", None, "wrong 1", "wrong 0", "wrong 1"]
    assert index["details"][first["graders"][1]["detail"][0]] == PLANTED
    texts = unpack(data.chunks["text-0-0"])
    assert len(texts) == 6 and texts[0][0] == PLANTED and texts[0][2] == -1.5
    assert texts[0][1].isdecimal()  # the seed, as text


def test_the_chosen_grader_stands_first(runs):
    assert [g["name"] for g in collect(runs[:1], "strict").index["runs"][0]["graders"]] == ["strict", "math"]


def test_samples_without_a_grade_are_not_graded_and_not_wrong(runs):
    path = runs[1] / "grades" / "math.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:20])  # the last one is being written
    assert collect(runs[1:]).index["runs"][0]["graders"][0]["outcome"] == "CC----"


def test_a_damaged_grade_is_named(runs):
    path = runs[1] / "grades" / "math.jsonl"
    path.write_text(path.read_text().replace('"outcome": "CORRECT"', '"outcome": "RIGHT"', 1))
    with pytest.raises(StapoError, match=r"math.jsonl:2: expected a grade, got a damaged line"):
        collect(runs[1:])


def test_samples_and_grades_are_checked_as_scoring_checks_them(runs):
    """A grade with a digit turned round is still good JSON; a sample of other settings has the seed of ours."""
    run = runs[1]
    grades = run / "grades" / "math.jsonl"
    whole = grades.read_bytes()
    head, first, *rest = whole.splitlines(keepends=True)
    sealed = seal(json.loads(first))
    grades.write_bytes(b"".join([head, sealed, *rest]))
    assert collect([run]).num_samples == 6
    grades.write_bytes(b"".join([head, sealed.replace(b"right", b"rifht"), *rest]))
    with pytest.raises(StapoError, match=r"math.jsonl:2: expected a grade, .*: crc32 \w+ does not fit"):
        collect([run])
    grades.write_bytes(whole)
    (segment,) = (run / "samples").glob("*.jsonl")
    lines = segment.read_text().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), "stamp": "0badf00d"})
    segment.write_text("\n".join([*lines, ""]))
    with pytest.raises(StapoError, match=r"jsonl:3: .*got stamp 0badf00d: it belongs to another run"):
        collect([run])


def test_long_texts_are_cut_into_chunks_that_together_hold_them_all(make_run):
    run = make_run("long", {"t": [[1.0] * 5]}, sample=lambda task, i, j: {"completion": str(j) * (CHUNK // 2 - 1)})
    data = collect([run])
    assert data.index["runs"][0]["starts"] == [0, 2, 4]
    texts = [text for number in range(3) for text, *_ in unpack(data.chunks[f"text-0-{number}"])]
    assert [text[0] for text in texts] == ["0", "1", "2", "3", "4"]


def test_texts_stay_in_the_order_in_which_they_were_stored_and_columns_name_their_places(make_run):
    run = make_run("mixed", {"t": [[1.0] * 3, [0.0] * 2]}, sample=lambda task, i, j: {"completion": f"{i} {j}"})
    (segment,) = (run / "samples").glob("*.jsonl")
    lines = segment.read_text().splitlines(keepends=True)
    segment.write_text("".join(lines[::-1]))
    data = collect([run])
    columns = data.index["runs"][0]
    assert columns["problem"] == [0, 0, 0, 1, 1] and columns["sample"] == [0, 1, 2, 0, 1]
    assert columns["starts"] == [0] and sorted(columns["place"]) == [0, 1, 2, 3, 4]
    texts = unpack(data.chunks["text-0-0"])
    assert [texts[place][0] for place in columns["place"]] == ["0 0", "0 1", "0 2", "1 0", "1 1"]
    assert columns["place"] != [0, 1, 2, 3, 4]


def test_a_text_larger_than_a_chunk_stands_alone():
    assert list(chunked(["aaaaaaaaaa", "b", "cccccccccc"], len, most=5)) == [["aaaaaaaaaa"], ["b"], ["cccccccccc"]]
    assert list(chunked([], len, most=5)) == []


def test_nothing_planted_becomes_an_element_or_an_attribute(page):
    parsed = Parsed(page)
    assert "window.flag" not in page.replace(parsed.text("data-index"), "")  # texts are compressed
    assert not [attrs for _, attrs in parsed.elements if any(name.startswith("on") for name in attrs)]
    scripts = parsed.of("script")
    assert {attrs.get("type") for attrs, _ in scripts} == {None, "application/json", "text/plain"}
    assert json.loads(parsed.text("data-index"))["details"][1] == PLANTED
    assert "a--!&gt;&lt;b&gt;&amp;amp;" in page and "<b>," not in page


def test_the_policy_allows_the_page_s_own_scripts_and_style_and_nothing_else(page):
    parsed = Parsed(page)
    policy = next(attrs["content"] for attrs, _ in parsed.of("meta") if attrs.get("http-equiv"))
    assert policy is not None
    rules = {name: values for name, *values in (part.split() for part in policy.split("; "))}
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == ["'none'"]
    assert rules["worker-src"] == ["blob:"]  # which nothing but these scripts can make
    code = [text for attrs, text in parsed.of("script") if "type" not in attrs]
    assert rules["script-src"] == [script_hash(text) for text in code] and len(code) == 10
    assert rules["style-src"] == [script_hash(text) for _, text in parsed.of("style")]
    assert "unsafe" not in policy
    # The policy would refuse them: style attributes, event handlers, javascript links.
    assert not [attrs for _, attrs in parsed.elements if "style" in attrs]


def test_the_page_asks_nobody_for_anything(page):
    parsed = Parsed(page)
    assert not [tag for tag, _ in parsed.elements if tag in ("link", "iframe", "object", "embed", "base")]
    targets = [attrs[name] for _, attrs in parsed.elements for name in ("src", "href", "xlink:href") if name in attrs]
    assert targets and not [
        target for target in targets if not (target or "").startswith(("#", "data:image/png;base64,"))
    ]


def test_the_same_runs_give_the_same_page(runs, page):
    assert render_page(Contents(runs=runs)) == page


def test_the_table_has_both_errors_and_bold_only_where_something_was_measured_against(make_run, runs):
    shown = overview(Sources(runs=runs)).blocks[0]
    assert shown.columns == ("T @2", "Avg")
    first, second = shown.rows
    # 1 right of 6: no answer is not right. †: one sample alone differs from the other of its problem.
    assert [cell.text for cell in first.cells] == ["16.67†", "16.67"]
    assert [cell.text for cell in second.cells] == ["83.33†", "83.33"]
    title = (
        r"95 % intervals: these problems \[.*\]; problems like these \[.*\]; 3 problems × 2 samples; "
        r"T: half of the completions or more are cut off, .*; at most one sample differs .*"
    )
    assert re.fullmatch(title, first.cells[0].title)
    alone = overview(Sources(runs=[make_run("alone", {"t": [[1.0], [0.0]]})])).blocks[0]
    assert not any(cell.is_bold for row in alone.rows for cell in row.cells)
    assert any(cell.is_bold for row in shown.rows for cell in row.cells)


def test_what_makes_a_comparison_unfair_stands_on_top(make_run, runs):
    other = make_run(
        "other",
        {"t": [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]},
        identity={"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}},
    )
    shown = overview(Sources(runs=[runs[1], other]))
    assert any(text.startswith("Parity, other against b: sampling.max_new_tokens: 64 in A") for text in shown.warnings)
    assert shown.comparisons[0].sentence.startswith("Not a fair comparison: other scores")
    assert not any(text.startswith("Parity") for text in overview(Sources(runs=runs)).warnings)


def of_methods(make_run, *methods, **about):
    """Runs of these methods in this order; Base solves least."""
    rates = {"Base": [[1.0, 0.0, 0.0, 0.0]] * 30}
    better = [[1.0, 1.0, 1.0, 0.0]] * 30
    return [make_run(m, {"t": rates.get(m, better)}, about={"method": m, **about}) for m in methods]


def test_runs_are_compared_with_the_base_model_wherever_it_stands(make_run):
    shown = overview(Sources(runs=of_methods(make_run, "20-Entropy", "Base", "STAPO")))
    assert [view.sentence.split(":")[0] for view in shown.comparisons] == [
        "20-Entropy is better than Base",
        "STAPO is better than Base",
    ]
    assert shown.baselines == ("Compared with Base: the base model.",)


def test_the_base_model_is_the_one_that_others_started_from(make_run):
    runs = of_methods(make_run, "STAPO", "JustRL", model="Qwen3-1.7B-Base")
    runs += of_methods(make_run, "Qwen3-1.7B-Base", model=None)
    assert overview(Sources(runs=runs)).baselines == ("Compared with Qwen3-1.7B-Base: the base model.",)


def test_the_baseline_can_be_named_and_must_be_one_of_the_runs(make_run):
    runs = of_methods(make_run, "20-Entropy", "STAPO", "GRPO")
    assert overview(Sources(runs=runs)).baselines == (
        "Compared with 20-Entropy: the first of the runs; --baseline names another.",
    )
    shown = overview(Sources(runs=runs), baseline=runs[1])
    assert shown.baselines == ("Compared with STAPO: as asked.",)
    assert [view.about.split(";")[0] for view in shown.comparisons] == [
        "A = STAPO, B = 20-Entropy",
        "A = STAPO, B = GRPO",
    ]
    with pytest.raises(UsageError, match=r"--baseline: expected one of .*20-Entropy.*, got other"):
        overview(Sources(runs=runs), baseline=Path("other"))


def row_of(method, sampling, model="Tiny"):
    return Row(
        origin="measured", source=method, model=model, method=method, regime=None, sampling=sampling, cells={},
        titles={}, suites=(), average=Cell(value=0.5), details="",
    )  # fmt: skip


def test_each_decoding_regime_has_its_baseline_and_one_is_enough_where_none_has_two_runs():
    rows = [row_of(m, s) for m, s in (("a", "T=1"), ("a", "T=0.7"), ("b", "T=1"), ("b", "T=0.7"), ("c", "T=1"))]
    weights = ["a", "a", "b", "b", "c"]
    assert list(pairs(baselines(rows, weights))) == [(0, 2), (0, 4), (1, 3)]
    assert list(pairs(baselines(rows, weights, named=3))) == [(2, 0), (2, 4), (3, 1)]
    assert list(pairs(baselines(rows[:2], weights))) == [(0, 1)]
    assert baselines(rows[:1], weights) == []


def test_what_is_missing_stands_on_top(make_run):
    run = make_run("short", {"t": [[1.0, float("nan")]], "u": [[float("nan"), 0.0]]})
    of_t = "T: 1 of 2 samples drawn (avg@1 of whole rounds: 100.00)"
    assert overview(Sources(runs=[run])).warnings == (f"short: {of_t}; U: 1 of 2 samples drawn",)


def test_runs_without_a_common_task_still_have_their_table(make_run):
    shown = overview(Sources(runs=[make_run("x", {"t": [[1.0]]}), make_run("y", {"u": [[1.0]]})]))
    assert shown.comparisons == () and len(shown.blocks[0].rows) == 2
    assert any("nothing to compare" in text for text in shown.warnings)


def test_runs_of_other_problems_lose_only_the_figure_of_their_differences(make_run):
    other = make_run("y", {"t": [[0.0], [1.0]]})
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["about"]["tasks"]["t"]["problem_ids"] = ["q0", "q1"]
    (other / "manifest.json").write_text(json.dumps(manifest))
    page = render_page(Contents(runs=[make_run("x", {"t": [[1.0], [0.0]]}), other]))
    assert 'id="figure-heat-map"' in page or "<figure" in page
    assert "have no problem in common; compare runs of the same data" in page


def test_another_grader_s_opposite_sign_is_told(make_run):
    a, b = make_run("a", {"t": [[1.0, 0.0]] * 3}), make_run("b", {"t": [[1.0, 1.0]] * 3})
    for run, outcome in ((a, "CORRECT"), (b, "INCORRECT")):
        text = (run / "grades" / "math.jsonl").read_text().replace('"math-1"', '"strict-1"')
        text = re.sub(r'"outcome": "\w+"', f'"outcome": "{outcome}"', text)
        (run / "grades" / "strict.jsonl").write_text(text)
    assert "grader 'strict' sees the opposite sign on: T" in overview(Sources(runs=[a, b])).comparisons[0].remarks


def test_the_chosen_grader_decides_table_and_verdicts_alike(make_run):
    """By math A has 1/2 and B 1; by strict A has 1 and B 0. What a run was scored with before does not matter."""
    runs = [make_run("a", {"t": [[1.0, 0.0]] * 30}), make_run("b", {"t": [[1.0, 1.0]] * 30})]
    for run, outcome in zip(runs, ("CORRECT", "INCORRECT"), strict=True):
        text = (run / "grades" / "math.jsonl").read_text().replace('"math-1"', '"strict-1"')
        text = re.sub(r'"outcome": "\w+"', f'"outcome": "{outcome}"', text)
        (run / "grades" / "strict.jsonl").write_text(text)
    score_run(runs[0])
    scored = (runs[0] / "scores.json").read_bytes()
    shown = overview(Sources(runs=runs, grader="strict"))
    assert [[cell.text for cell in row.cells] for row in shown.blocks[0].rows] == [["100.00"] * 2, ["0.00"] * 2]
    assert [cell.is_bold for row in shown.blocks[0].rows for cell in row.cells] == [True, True, False, False]
    assert shown.comparisons[0].rows[0][1:3] == ("100.00", "0.00")
    assert (runs[0] / "scores.json").read_bytes() == scored
    assert not (runs[1] / "scores.json").exists()


def test_a_run_that_the_chosen_grader_alone_has_graded_is_shown(make_run):
    """Figures as well: they asked for scores by the math grader."""
    run = make_run("a", {"t": [[1.0, 0.0]] * 4}, grader="strict-1")
    parsed = Parsed(render_page(Contents(runs=[run], grader="strict")))
    assert parsed.of("figure") and "50.00" in parsed.texts
    assert not (run / "scores.json").exists()


def test_rows_under_another_token_limit_are_no_rivals(make_run, runs):
    other = {"identity": {"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}}}
    shown = overview(Sources(runs=[runs[0], make_run("longer", {"t": [[1.0, 1.0]] * 3}, **other)]))
    assert not any(cell.is_bold for row in shown.blocks[0].rows for cell in row.cells)


def test_a_greedy_cell_shows_the_interval_that_it_has(make_run):
    greedy = {"sampling": {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 64}}
    run = make_run("greedy", {"t": [[1.0], [0.0], [1.0], [0.0]]}, identity=greedy)
    ((cell, *_),) = (row.cells for row in overview(Sources(runs=[run])).blocks[0].rows)
    assert (cell.these, cell.like) == ("", "[6.1, 93.9]")
    assert cell.title == "95 % intervals: problems like these [6.1, 93.9]; 4 problems × 1 samples"
    page = render_page(Contents(runs=[run]))
    assert '<span class="interval like">[6.1, 93.9]</span>' in page and 'class="interval these"' not in page


@pytest.mark.parametrize("text", ["</script>", "<!--", "&amp;", "\u2028", "\ud800"])
def test_json_cannot_leave_its_element(text):
    island = json_island({"k": text})
    assert json.loads(island) == {"k": text}
    assert not set("<>&") & set(island) and island.isascii()


def test_drawings_keep_their_look_without_css():
    svg = '<svg><style>*{stroke: red}</style><path d="M0 0" style="fill: none; stroke: currentColor"/></svg>'
    assert without_inline_style(svg) == '<svg><path d="M0 0" fill="none" stroke="currentColor"/></svg>'


def test_a_figure_s_comments_hold_names_of_runs_and_stay_out(page):
    drawings = page[page.index('<section id="figures"') : page.index('<section id="samples"')]
    assert "<svg" in drawings and "<!--" not in drawings


def test_the_measurement_s_run_is_one_that_a_report_reads(tmp_path):
    bench = runpy.run_path(str(Path(__file__).parent.parent / "bench" / "report.py"))
    bench["write_run"](tmp_path / "run", 1000, 100)
    data = collect([tmp_path / "run"])
    assert data.num_samples == 1000 and data.index["runs"][0]["graders"][0]["outcome"].count("C") == 20
    assert all(99 <= len(text) < 130 for text, *_ in unpack(data.chunks["text-0-0"]))


def test_the_bundled_katex_is_the_published_one():
    import hashlib

    from stapo_bench.presenting.report.page import KATEX, KATEX_SHA256

    assert hashlib.sha256(KATEX.read_bytes()).hexdigest() == KATEX_SHA256
    assert "MIT" in KATEX.with_name("katex.LICENSE").read_text()


def test_what_cannot_be_written_or_read_is_one_line(runs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StapoError, match=r"cannot write .*file/report.html: File exists; put that right"):
        write_report(Contents(runs=runs), tmp_path / "file" / "report.html")
    with pytest.raises(StapoError, match=r"expected a training run .*, found none"):
        render_page(Contents(runs=runs, logs=[tmp_path]))
    with pytest.raises(StapoError, match="not a run folder"):
        render_page(Contents(runs=[tmp_path]))


def test_the_command_states_the_size(runs, tmp_path):
    out = tmp_path / "new" / "report.html"
    done = CliRunner().invoke(cli, ["report", *map(str, runs), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output == f"{out}: {out.stat().st_size / 1e6:.1f} MB\n"
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
