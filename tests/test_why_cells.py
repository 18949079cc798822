"""Why a run and a printed cell differ, or the means of several tasks; and the command."""

import json
import math
import shutil

import pytest
from click.testing import CliRunner
from why_setup import rows, same_model

from stapo_bench.analysis import load_published, why_published, why_runs
from stapo_bench.analysis.why.cell import find_row
from stapo_bench.cli import cli
from stapo_bench.errors import UsageError
from stapo_bench.presenting.why import render_why, why_sentence
from stapo_bench.records import SamplingParams
from stapo_bench.runs import About


def test_what_is_bounded_in_one_task_is_bounded_in_the_mean(justrl, make_run):
    """The gap of one task is noise, that of the other is not: the slack of both is that of the mean."""
    run = make_run(
        "two",
        {"aime24": rows(*[17] * 30, num_samples=32), "aime25": rows(*[8] * 30, num_samples=32)},
        identity={
            "sampling": {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 20480},
            "tasks": {t: {"data": "d", "prompts": "p", "prompt_format": "chat"} for t in ("aime24", "aime25")},
        },
        about={"model": "DeepSeek-R1-Distill-Qwen-1.5B", "method": "JustRL"},
        sample=lambda task, row, index: {"finish_reason": "length" if index >= 28 else "stop"},
    )
    found = why_published(run, "justrl")
    assert [bool(task.part("unexplained").value) for task in found.tasks] == [False, True]
    rest = found.average.part("unexplained")
    assert rest.below == pytest.approx(0.125)  # 4 of 32 samples are cut off and wrong in both
    assert found.average.part("truncation").note == (
        "20480 tokens here, 31744 there; 12.5 % of the samples are cut off and wrong here"
    )


@pytest.fixture
def justrl(make_run):
    """A run of 30 problems of AIME24 as JustRL's page describes its own, but for the limit."""

    def make(right=14, limit=20480, truncated=4, **identity):
        return make_run(
            "mine",
            {"aime24": rows(*[right] * 30, num_samples=32)},
            identity={
                "sampling": {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": limit},
                "tasks": {"aime24": {"data": "d", "prompts": "p", "prompt_format": "chat"}},
                **identity,
            },
            about={"model": "DeepSeek-R1-Distill-Qwen-1.5B", "method": "JustRL"},
            sample=lambda task, row, index: {
                "finish_reason": "length" if index >= 32 - truncated else "stop",
                "num_tokens": limit if index >= 32 - truncated else 10,
            },
        )

    return make


def test_a_run_and_a_printed_cell(justrl):
    found = why_published(justrl(), "justrl")
    gap = found.average
    assert (gap.value_a, gap.value_b) == (14 / 32, pytest.approx(0.526))
    assert {part.cause: part.knowledge for part in gap.parts} == {
        "problems": "same",
        "golds": "unknown",
        "grader": "unknown",
        "truncation": "bounded",  # 31744 tokens there
        "prompt": "same",
        "decoding": "same",
        "prompt and decoding": "same",
        "sampling noise": "measured",
        "unexplained": "bounded",
    }
    # 4 of 32 samples are cut off and wrong: up to 12.5 points, more than the 8.9 that are missing.
    assert gap.part("truncation").above == pytest.approx(0.125)
    rest = gap.part("unexplained")
    assert rest.value == pytest.approx(0.526 - 14 / 32) and rest.interval.low < 0 < rest.interval.high
    assert "which what is bounded could make up" in why_sentence(found)
    assert sum(part.value for part in gap.parts) == pytest.approx(gap.gap)


def test_a_printed_cell_under_a_smaller_limit_is_measured(justrl):
    gap = why_published(justrl(right=32, limit=40000, truncated=8), "justrl").average
    # 8 of 32 samples took 40000 tokens, more than 31744: they would have been cut, and wrong.
    assert gap.part("truncation").value == pytest.approx(-0.25)
    assert gap.part("truncation").knowledge == "measured"


@pytest.mark.parametrize(("table", "row", "unit"), [("justrl", (), 0.01), ("deepseek_r1", ("1.5B",), 0.1)])
def test_a_run_without_variance_leaves_the_rounding_of_the_printed_number(justrl, table, row, unit):
    # All samples are right: no sampling error. Rounded to a unit u, a number is uniform within u / 2: u^2 / 12.
    rest = why_published(justrl(right=32, limit=31744, truncated=0), table, row).average.part("unexplained")
    assert rest.standard_error == pytest.approx(unit / 100 * math.sqrt(1 / 12))


def test_other_graders_of_the_run_bound_what_a_grader_does(justrl):
    run = justrl()
    lines = (run / "grades" / "math.jsonl").read_text().replace("math-1", "kind-1")
    (run / "grades" / "kind.jsonl").write_text(lines.replace("INCORRECT", "CORRECT", 96))
    part = why_published(run, "justrl", grader="math").average.part("grader")
    assert (part.knowledge, part.below) == ("bounded", 0.0)
    assert part.above == pytest.approx(96 / 960)  # 96 of 960 samples
    assert part.note.endswith("this run by kind +10.0")


def test_what_the_page_does_otherwise_or_does_not_say_is_unknown(justrl):
    found = why_published(justrl(), "sober_look", ["1.5B", "DeepSeek", "JustRL"])
    told = {part.cause: part.note for part in found.average.parts if part.knowledge == "unknown"}
    assert set(told) == {"golds", "grader", "prompt", "decoding"}
    assert told["decoding"] == "T=0.7, top-p 0.9 here, T=0.8, top-p 0.9 there"
    assert told["prompt"].startswith("chat here; there “Solve the following math problem efficiently and clearly.")
    assert found.suspects == ()  # both are of one model, as far as names say
    assert found.notes[0].startswith("arXiv:2504.07086, leaderboard at 8fceffd; ")
    assert "Not known: golds, grader, prompt, decoding." in why_sentence(found)


def test_a_prompt_format_that_is_not_known_is_called_so(justrl):
    run = justrl(tasks={"aime24": {"data": "d", "prompts": "p", "prompt_format": None}}, imported={"format": "rows"})
    note = why_published(run, "sober_look", ["1.5B", "DeepSeek", "JustRL"]).average.part("prompt").note
    assert note.startswith("form unknown here; there “Solve")


def test_a_row_is_chosen_by_words_and_else_by_the_run():
    cold = SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=1)

    def found(table, words=(), model=None, method=None, sampling=cold):
        row = find_row(load_published(table), words, About(tasks={}, model=model, method=method), sampling)
        return row.method, row.regime, row.scores["aime24"]

    assert found("justrl", (), "OpenMath-Nemotron-1.5B", "JustRL") == ("JustRL", "justrl", 0.6969)
    assert found("justrl", ["nemotron", "base"]) == ("base", "justrl", 0.5875)
    with pytest.raises(
        UsageError, match=r"expected one row for 'DeepSeek', got 2; choose by --row .* among: DeepSeek-"
    ):
        found("justrl", ["DeepSeek"])
    assert found("dapo", (), "Qwen2.5-32B", "my method")[0] == "DAPO"
    # Of two rows that differ in their decoding alone it is the run's, unless a word says which.
    assert found("stapo_v1", (), "Qwen3-1.7B-Base", "STAPO") == ("STAPO", "justrl", 0.1604)
    hot = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1)
    assert found("stapo_v1", ["1.7B", "STAPO"], sampling=hot) == ("STAPO", "training", 0.174)
    assert found("stapo_v1", ["1.7B", "STAPO", "training"]) == ("STAPO", "training", 0.174)


def test_the_command(justrl, make_run):
    run = justrl()
    done = CliRunner().invoke(cli, ["why", str(run), "justrl"], catch_exceptions=False)
    assert done.output.startswith("**JustRL: DeepSeek-R1-Distill-Qwen-1.5B JustRL justrl − mine is +8.9 points (AIME24")
    assert (
        "| truncation | 0.0 | [0.0, +12.5] | 20480 tokens here, 31744 there; 12.5 % of the samples are cut off"
        in done.output
    )
    copy = shutil.copytree(run, run.with_name("copy"))
    found = json.loads(CliRunner().invoke(cli, ["why", str(run), str(copy), "--format", "json"]).output)
    assert (found["average"]["gap"], found["average"]["main"]) == (0.0, "sampling noise")
    done = CliRunner().invoke(cli, ["why", str(run), "justr"])
    assert (
        done.exit_code == 2
        and "expected a run folder or a published table, got 'justr'; tables: stapo_v1, " in done.output
    )


def test_every_part_stands_in_the_table(make_run):
    a = same_model(make_run, "a", {t: rows(2, 2) for t in "tu"})
    b = same_model(make_run, "b", {t: rows(2, 3) for t in "tu"}, identity={"seed": 1})
    text = render_why(why_runs(a, b))
    causes = [line.split(" | ")[0][2:] for line in text.splitlines() if line.startswith("| ")]
    assert causes[:10] == [
        "Part", "problems", "golds", "grader", "truncation", "prompt", "decoding", "sampling noise", "unexplained",
        "**B − A**",
    ]  # fmt: skip
    assert "| T | 50.00 | 62.50 | +12.5 | same | same | same | same | same | same | +12.5 | none |" in text
