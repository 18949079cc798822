"""Tables: layout, named errors, and a wall between measured and published numbers."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
from click.testing import CliRunner

from stapo_bench.analysis import current_score, score_run
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import published_rows, render_table, rows_from_runs, rows_from_scores, score_interval
from stapo_bench.presenting.tables.blocks import blocks

PAPER = ["aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench"]
NAN = float("nan")


def printed(model: str):
    return [row for row in published_rows() if row.model == model]


def lines_with(text, word):
    return [line for line in text.splitlines() if word in line]


@pytest.fixture
def stapo(make_run):
    tasks = {name: [[1, 0, 0, 0]] * 5 for name in PAPER}
    return make_run("STAPO", tasks, about={"model": "Qwen3-14B-Base"})


def test_measured_rows_carry_both_errors_by_name(stapo):
    text = render_table(rows_from_runs([stapo]), "md")
    (row,) = [line for line in lines_with(text, "| measured") if "25.00 [" in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["Qwen3-14B-Base", "STAPO", "T=1.0, top-p 1.0"]
    assert len(cells) == 3 + 6 + 2
    assert cells[-2].startswith("25.00 [")
    assert "interval for these problems" in text
    assert "intervals for problems like these" in text
    assert "*Problems like these*: the problems drawn anew as well" in text
    assert "AIME24 5×4" in text
    assert "grader math-1, commit abc1234" in text


def test_published_rows_have_no_interval_and_say_so(stapo):
    text = render_table([*rows_from_runs([stapo]), *printed("Qwen3-14B-Base")], "md")
    (row,) = [line for line in lines_with(text, "| published") if "STAPO" in line and "T=0.7" in line]
    assert "| 54.27" in row
    assert "[" not in row
    assert "68.66" in row
    assert len(lines_with(text, "| published")) == 8
    assert "† Qwen3-14B-Base STAPO training average: printed 64.38, recomputed 64.905" in text
    assert "64.38†" in text


def test_rows_are_in_the_papers_order():
    (block,) = blocks(list(reversed(printed("Qwen3-8B-Base"))))
    assert [row.method for row in block.rows] == ["GRPO", "20-Entropy", "JustRL", "STAPO"] * 2
    assert [row.regime for row in block.rows] == ["training"] * 4 + ["justrl"] * 4


def test_the_tiny_suite_never_shares_a_column_with_the_benchmarks(make_run):
    tiny = make_run("base", {"tiny_aime24": [[1, 0]] * 3, "tiny_amc23": [[1, 1]] * 3})
    found = blocks([*rows_from_runs([tiny]), *printed("Qwen3-8B-Base")])
    assert [(block.suite, block.tasks[0]) for block in found] == [("tiny", "tiny_aime24"), ("paper", "aime24")]
    assert [row.origin for row in found[0].rows] == ["measured"]


def test_an_average_over_fewer_tasks_is_not_shown_beside_one_over_six(make_run):
    part = make_run("part", {"aime24": [[1, 0]] * 3})
    assert blocks(rows_from_runs([part]))[0].average(rows_from_runs([part])[0]).value == 0.5
    (block,) = blocks([*rows_from_runs([part]), *printed("Qwen3-8B-Base")])
    assert [block.average(row) is None for row in block.rows if row.origin == "measured"] == [True]


def test_an_incomplete_cell_is_marked_and_explained(make_run):
    run = make_run("part", {"aime24": [[1, NAN], [1, -1]]})
    text = render_table(rows_from_runs([run]), "md")
    assert "100.00*" in text
    # 2 problems x 2 samples; one not drawn; one undecided: (1 + 0.5) / 2 to (1 + 1) / 2
    assert r"- \* part, AIME24: 3 of 4" in text
    assert "* part, AIME24: 3 of 4" in render_table(rows_from_runs([run]), "latex")
    assert "textbackslash" not in render_table(rows_from_runs([run]), "latex")
    assert "AIME24: 3 of 4 samples drawn (avg@1 of whole rounds: 100.00), 1 samples undecided by the grader" in text
    assert "so between 75.00 and 100.00" in text


def test_an_unmeasured_cell_is_a_dash(make_run):
    run = make_run("none", {"aime24": [[NAN, NAN]] * 2})
    (row,) = lines_with(render_table(rows_from_runs([run]), "md").split("like these**")[0], "| measured")
    assert row.count("–") == 2


def test_column_titles_name_k_when_all_rows_agree(make_run):
    two, four = make_run("two", {"aime24": [[1, 0]]}), make_run("four", {"aime24": [[1, 0, 0, 0]]})
    assert blocks(rows_from_runs([two]))[0].title("aime24") == "AIME24 @2"
    assert blocks(rows_from_runs([two, four]))[0].title("aime24") == "AIME24"


def test_csv_has_one_line_per_number(stapo):
    rows = list(csv.DictReader(io.StringIO(render_table([*rows_from_runs([stapo]), *published_rows()], "csv"))))
    assert len(rows) == 25 * 7
    measured = [row for row in rows if row["origin"] == "measured"]
    assert [row["task"] for row in measured] == [*PAPER, "average"]
    assert measured[0]["value"] == "25.00"
    assert float(measured[0]["these_problems_low"]) < 25 < float(measured[0]["problems_like_these_high"])
    assert {row["these_problems_low"] for row in rows if row["origin"] == "published"} == {""}


def test_json_keeps_fractions_and_all_digits(stapo):
    (row,) = json.loads(render_table(rows_from_runs([stapo]), "json"))
    assert row["tasks"]["aime24"]["value"] == 0.25
    assert row["average"]["these_problems"][0] < 0.25
    assert row["origin"] == "measured"


def test_checkpoints_of_one_method_are_told_apart_where_they_meet(make_run):
    early, late = (
        make_run(f"s{step}", {"aime24": [[1, 0]] * 2}, about={"method": "STAPO", "step": step}) for step in (20, 120)
    )
    assert lines_with(render_table(rows_from_runs([late])), "| STAPO  |")
    (block,) = blocks(rows_from_runs([late, early]))
    assert [block.method(row) for row in block.rows] == ["STAPO @20", "STAPO @120"]


def sampled(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float).tolist()


@pytest.fixture
def methods(make_run):
    """GRPO at 0.3, JustRL at 0.5 and STAPO at 0.52 on 30 problems: STAPO and JustRL cannot be told apart."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(-0.15, 0.15, 30)
    return [
        make_run(name, {"aime24": sampled(rng, level + spread, 16)})
        for name, level in (("GRPO", 0.3), ("JustRL", 0.5), ("STAPO", 0.52))
    ]


def test_latex_is_bold_where_nothing_beats_a_number(methods):
    text = render_table(rows_from_runs(methods), "latex")
    assert text.startswith(r"\begin{tabular}{lllrrl}")
    assert r"AIME24 @16 & Avg & Origin \\" in text
    bold = {line.split(" & ")[1]: line.count(r"\textbf") for line in text.splitlines() if "& measured " in line}
    assert bold == {"GRPO": 0, "JustRL": 2, "STAPO": 2}
    assert r"95 \% interval for problems like these" in text
    assert r"Tiny & STAPO & T=1.0, top-p 1.0 & \textbf{" in text


def test_latex_and_markdown_show_the_same_interval_short_and_long(make_run):
    rows = rows_from_runs([make_run("a", {"aime24": [[1] * 4, [1, 0, 0, 0], [0] * 4]})])
    these, like = (
        score_interval(getattr(rows[0].average, error)) for error in ("these_problems", "problems_like_these")
    )
    assert these != like
    for long, shown, other in ((False, these, like), (True, like, these)):
        latex = render_table(rows, "latex", long=long)
        assert shown in latex and other not in latex
    assert these in render_table(rows, "md", long=False)
    assert r"95 \% interval for the same problems with samples drawn again" in render_table(rows, "latex", long=False)


def test_greedy_runs_have_no_interval_for_these_problems(make_run):
    def row_of(temperature, rows):
        sampling = {"temperature": temperature, "top_p": 1.0, "max_new_tokens": 64}
        name = f"{temperature}-{len(rows[0])}"
        return rows_from_runs([make_run(name, {"aime24": rows}, identity={"sampling": sampling})])[0]

    greedy = row_of(0.0, [[1], [1], [0]])
    assert all(math.isnan(cell.these_problems.low) for cell in (*greedy.cells.values(), greedy.average))
    assert greedy.average.problems_like_these.low > 0
    text = render_table([greedy], long=False)
    assert "| 66.67† " in text and "66.67† [" not in text and "these problems leave no sampling error" in text
    for drawn in (row_of(1.0, [[1], [1], [0]]), row_of(0.0, [[1, 0], [1, 1], [0, 0]])):
        assert drawn.average.these_problems.low > 0
    # Where no cell has them, no heading and no note names them; one row that has them is enough to.
    assert "interval" not in text.splitlines()[0] and "Intervals are 95 %" not in text
    assert "--long adds 95 % intervals for problems like these." in text
    long = render_table([greedy], long=True)
    assert "interval for these problems" not in long and "*These problems*" not in long
    assert "**paper suite: intervals for problems like these**" in long and "Intervals are 95 %. *Problems like" in long
    assert "brackets" not in render_table([greedy], "latex", long=False)
    assert "brackets: 95" in render_table([greedy], "latex", long=True)
    for rows in ([drawn], [greedy, drawn]):
        assert ", [interval for these problems]**" in render_table(rows, long=False).splitlines()[0]
        assert "brackets: 95" in render_table(rows, "latex", long=False)


def test_a_run_that_stopped_itself_beats_only_what_it_beats_at_every_look(make_run):
    """GRPO is beaten by STAPO by 3 standard errors: enough for one look, not for all of them."""
    rows = {"GRPO": [[1] * 8 + [0] * 8] * 30, "STAPO": [[1] * c + [0] * (16 - c) for c in [8, 9, 9, 7, 10] * 6]}
    stopping = {"rule": "--until-width 0.02", "aim": 0.01}
    fixed = [make_run(name, {"aime24": of}) for name, of in rows.items()]
    stopped = [make_run(f"{n}-x", {"aime24": of}, about={"method": n, "stopping": stopping}) for n, of in rows.items()]
    texts = {}
    for name, runs in (("fixed", fixed), ("stopped", stopped)):
        texts[name] = render_table(rows_from_runs(runs), "latex")
        bold = {line.split(" & ")[1] for line in texts[name].splitlines() if r"\textbf" in line}
        assert bold == ({"STAPO"} if name == "fixed" else {"STAPO", "GRPO"})
    (short,), (wide,) = (lines_with(text, "measured, T=1.0") for text in texts.values())
    ends = [[float(end) for end in re.findall(r"[+-]\d+\.\d(?=[,\]])", line)] for line in (short, wide)]
    # both ends under both errors; the headline is 8.6 / 8 - 1
    assert len(ends[0]) == 4
    assert all(abs(b - 7.5) > 1.3 * abs(a - 7.5) for a, b in zip(*ends, strict=True))


def bold_cells(text):
    """By method: which of a LaTeX row's numbers are bold."""
    rows = [line.split(" & ") for line in text.splitlines() if "& measured " in line]
    return {cells[1]: [r"\textbf" in cell for cell in cells[3:-1]] for cells in rows}


def test_an_average_is_not_beaten_on_one_task_alone(make_run):
    """B has A's first task alone and is better there; the only average shown is A's."""
    a = make_run("A", {"aime24": [[1, 0, 0, 0]] * 30, "aime25": [[1, 1, 1, 1]] * 30})
    b = make_run("B", {"aime24": [[1, 1, 1, 0]] * 30})
    text = render_table(rows_from_runs([a, b]), "latex")
    assert bold_cells(text) == {"A": [False, True, True], "B": [True, False, False]}


@pytest.mark.parametrize(
    "how",
    [
        {"grader": "math-2"},
        {"identity": {"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}}},
    ],
)
def test_rows_of_other_graders_or_token_limits_are_not_tested_against_each_other(make_run, how):
    weak, strong = {"aime24": [[1, 0, 0, 0]] * 30}, {"aime24": [[1, 1, 1, 0]] * 30}
    grpo, stapo, other = make_run("GRPO", weak), make_run("STAPO", strong), make_run("other", strong, **how)
    text = render_table(rows_from_runs([grpo, stapo]), "latex")
    assert (bold_cells(text)["GRPO"], "strongest other method" in text) == ([False, False], True)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["about"]["method"] = "STAPO"
    (other / "manifest.json").write_text(json.dumps(manifest))
    text = render_table(rows_from_runs([grpo, other]), "latex")
    assert (bold_cells(text)["GRPO"], "strongest other method" in text) == ([True, True], False)
    # beside it, the headline of the two that belong together stands, and says whose it is
    (line,) = lines_with(render_table(rows_from_runs([grpo, stapo, other])), "strongest other method")
    assert line.startswith(
        "- measured, T=1.0, top-p 1.0, at most 64 new tokens, grader math-1: relative gain of STAPO over"
    )


def test_what_is_not_known_of_a_run_is_called_unknown(make_run):
    unknown = {"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": None}, "imported": {"format": "rows"}}
    weak, strong = {"aime24": [[1, 0, 0, 0]] * 30}, {"aime24": [[1, 1, 1, 0]] * 30}
    runs = [make_run("GRPO", weak, identity=unknown), make_run("STAPO", strong, identity=unknown)]
    runs += [make_run(name, weak, about={"method": method}) for name, method in (("g", "GRPO"), ("s", "STAPO"))]
    for number, run in enumerate(runs):  # two models: each has one run of a method
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["about"]["model"] = f"model {number // 2}"
        (run / "manifest.json").write_text(json.dumps(manifest))
    text = render_table(rows_from_runs(runs))
    first, second = lines_with(text, "strongest other method")
    assert "T=1.0, top-p 1.0, token limit unknown, grader math-1:" in first and "at most 64 new tokens" in second
    none = make_run("none", {"aime24": [[float("nan")] * 2] * 3})
    text = render_table(rows_from_runs([none]))
    assert "truncated unknown, no answer unknown, grader errors unknown" in text and "nan" not in text


def test_a_table_with_a_base_that_solves_nothing_has_no_headline(make_run):
    runs = [make_run("Base", {"aime24": [[0, 0]] * 5}), make_run("STAPO", {"aime24": [[1, 0]] * 5})]
    assert "strongest other method" not in render_table(rows_from_runs(runs))


def test_decoding_is_told_apart_by_all_its_digits(make_run):
    runs = [
        make_run(str(top_p), {"aime24": [[1, 0]] * 5}, identity={"sampling": sampling})
        for top_p in (0.9, 0.95)
        for sampling in [{"temperature": 0.65, "top_p": top_p, "max_new_tokens": 64}]
    ]
    assert [row.sampling for row in rows_from_runs(runs)] == ["T=0.65, top-p 0.9", "T=0.65, top-p 0.95"]


def test_latex_of_published_rows_claims_no_significance():
    text = render_table(printed("Qwen3-8B-Base"), "latex")
    assert r"\textbf" not in text
    assert r"61.50" in text
    assert r"$^\dagger$" in text


def test_the_headline_stands_below_measured_and_published_rows(methods):
    text = render_table([*rows_from_runs(methods), *published_rows()], "md")
    (measured,) = lines_with(
        text, "- measured, T=1.0, top-p 1.0, on AIME24 alone: relative gain of STAPO over the strongest other method: "
    )
    assert "over JustRL" in measured
    assert "these problems" in measured
    (hot, cold) = lines_with(text, "- published, ")
    assert "+7.13 % on average" in hot
    assert "+3.71 % on average" in cold


def test_two_runs_of_one_method_make_no_headline(methods, make_run):
    again = make_run("again", {"aime24": [[1, 0]] * 30}, about={"method": "STAPO"})
    assert "strongest other method" not in render_table(rows_from_runs([*methods, again]))


def test_nothing_to_show_and_unknown_formats_are_refused():
    with pytest.raises(UsageError, match="nothing to show"):
        render_table([], "md")
    with pytest.raises(UsageError, match="unknown table format 'html'"):
        render_table(published_rows(), "html")


def test_csv_labels_each_number(make_run):
    named, unnamed = make_run("STAPO", {"aime24": [[1, 0]] * 3}), make_run("other", {"aime24": [[1, 0]] * 3})
    manifest = json.loads((unnamed / "manifest.json").read_text())
    manifest["about"] |= {"model": None, "regime": None}
    (unnamed / "manifest.json").write_text(json.dumps(manifest))
    rows = list(csv.DictReader(io.StringIO(render_table(rows_from_runs([named, unnamed]), "csv"))))
    labels = {(row["source"], row["model"], row["method"], row["regime"], row["sampling"]) for row in rows}
    (sampling,) = {row["sampling"] for row in rows}
    assert labels == {("STAPO", "Tiny", "STAPO", "training", sampling), ("other", "", "other", "", sampling)}


def test_undecided_samples_are_explained_by_their_bounds_and_not_called_missing(make_run):
    # 1 right, 1 wrong, 2 undecided on each problem: between 1 and 3 of 4
    run = make_run("STAPO", {"aime24": [[1, 0, -1, -1]] * 3})
    (row,) = rows_from_runs([run])
    assert row.cells["aime24"].note == (
        "AIME24: 6 samples undecided by the grader, so between 25.00 and 75.00; not all of the task's problems (how "
        "many stands with the run)"
    )
    assert (row.average.bounds.low, row.average.bounds.high) == (0.25, 0.75)


def test_a_table_has_one_grader_however_a_run_was_scored_last(make_run):
    run = make_run("a", {"aime24": [[1, 0], [1, 1]]})
    lines = (run / "grades/math.jsonl").read_text().splitlines()[1:]
    wrong = [line.replace('"CORRECT"', '"INCORRECT"') for line in lines]
    (run / "grades/qwen.jsonl").write_text("\n".join(['{"grader": "qwen-1"}', *wrong, ""]))
    score_run(run, "qwen")
    assert "grader qwen-1" in render_table(rows_from_scores([current_score(run)]))
    assert [row.average.value for row in rows_from_runs([run])] == [0.75]
    assert [row.average.value for row in rows_from_runs([run], grader="qwen")] == [0.0]
    other = make_run("b", {"aime24": [[1, 0], [1, 1]]})
    with pytest.raises(StapoError, match=r"b: expected grades by 'qwen', found math; run 'stapo-bench grade .*b --gra"):
        rows_from_runs([run, other], grader="qwen")


def test_versions_of_a_grader_in_one_table_are_said(make_run):
    runs = [make_run(name, {"aime24": [[1, 0]] * 3}, grader=f"math-{name}") for name in ("2", "3")]
    (line,) = lines_with(render_table(rows_from_runs(runs)), "different versions")
    assert line == "- graded by different versions, math-2 and math-3: 'stapo-bench grade' brings runs up to date"
    assert not lines_with(render_table(rows_from_runs(runs[:1])), "different versions")


def test_a_table_is_headed_by_the_suites_of_its_tasks(make_run, tmp_path):
    heads = {}
    for suite in ("metadata: {num_problems: 1, suite: mine}", "metadata: {num_problems: 1}"):
        (tmp_path / f"own{len(heads)}.yaml").write_text(f"task: own\nrepeats: 2\ndoc_to_text: x\n{suite}\n")
        asked = {
            "title": "Own",
            "num_samples": 2,
            "problem_ids": ["own-0"],
            "file": str(tmp_path / f"own{len(heads)}.yaml"),
        }
        run = make_run(f"run{len(heads)}", {"own": [[1, 0]]}, about={"tasks": {"own": asked}})
        heads[run] = render_table(rows_from_runs([run])).splitlines()[0]
    assert list(heads.values()) == [
        "**mine suite: avg@k in percent, [interval for these problems]**",
        "**avg@k in percent, [interval for these problems]**",
    ]
    aime, hmmt = make_run("aime", {"aime24": [[1, 0]]}), make_run("hmmt", {"hmmt25": [[1, 0]], "aime24": [[1, 1]]})
    assert [block.suite for block in blocks(rows_from_runs([aime, next(iter(heads))]))] == ["paper", "mine"]
    (block,) = blocks(rows_from_runs([aime, hmmt]))
    assert (block.heading, len(block.rows)) == ("paper and justrl suites: ", 2)


def test_a_run_that_lacks_samples_is_not_labelled_with_the_k_it_aims_at(make_run):
    part, whole = make_run("part", {"aime24": [[1, NAN, NAN, NAN]] * 3}), make_run("whole", {"aime24": [[1] * 4] * 3})
    text = render_table(rows_from_runs([part]))
    assert "| AIME24 " in text and "AIME24 @" not in text
    assert "AIME24 3 samples of 3×4" in text
    assert blocks(rows_from_runs([whole]))[0].title("aime24") == "AIME24 @4"
    rows = list(csv.DictReader(io.StringIO(render_table(rows_from_runs([part, whole]), "csv"))))
    assert [row["k"] for row in rows if row["task"] == "aime24"] == ["", "4"]


def test_the_short_table_of_one_task_has_one_interval_and_no_average(make_run):
    rows = rows_from_runs([make_run("STAPO", {"aime24": [[1, 0]] * 3})])
    short, long = render_table(rows, long=False), render_table(rows)
    assert (short.count("| Model"), long.count("| Model")) == (1, 2)
    assert ("| Avg" in short, "| Avg" in long) == (False, True)
    assert "--long adds those for problems like these" in short
    assert "| Avg" in render_table(rows_from_runs([make_run("two", {"a": [[1]], "b": [[1]]})]), long=False)
    refused = CliRunner().invoke(cli, ["table", str(rows[0].folder), "--long", "--format", "csv"])
    assert "--long: expected with --format md or latex, got csv" in str(refused.exception)
