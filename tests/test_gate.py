"""A gate: shown, refuted and undecided, each with its exit code, and forms that machines read."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from bench.gate import share
from stapo_bench.analysis import better_by, compare_outcomes, judge, not_worse, not_worse_than
from stapo_bench.analysis.gate import Settling
from stapo_bench.analysis.plan import Components
from stapo_bench.cli import cli
from stapo_bench.errors import UsageError
from stapo_bench.presenting.gates import render_gate
from stapo_bench.statistics import Clustering, Difference

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "gate"
MAIN, BETTER, WORSE, SAME = (str(DATA / f"{name}.csv") for name in ("main", "better", "worse", "same"))
SCHEMA = json.loads((ROOT / "stapo_bench" / "presenting" / "comparison.schema.json").read_text(encoding="utf-8"))


def gate(*arguments):
    result = CliRunner().invoke(cli, ["compare", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("b", "options", "code", "said"),
    [
        (
            BETTER,
            ["--fail-if", "worse"],
            0,
            "**Passed**: it is shown that better is less than 2 points worse than main, if worse at all",
        ),
        (WORSE, ["--fail-if", "worse"], 4, "**Failed**: it is shown that worse is worse than main."),
        (SAME, ["--fail-if", "worse"], 5, "**Undecided** whether same is worse than main."),
        (BETTER, ["--require", "not-worse-than", "0.01"], 0, "better is at most 1 point worse than main"),
        (WORSE, ["--require", "not-worse-than", "0.01"], 4, "worse is at most 1 point worse than main"),
        (SAME, ["--require", "not-worse-than", "0.01"], 5, "would settle it (power 80 %)"),
        (BETTER, ["--require", "better-by", "0"], 0, "better is better than main"),
        (BETTER, ["--require", "better-by", "0.5"], 4, "better is more than 50 points better than main"),
        (WORSE, ["--require", "better-by", "0"], 4, "worse is better than main"),
    ],
)
def test_each_answer_has_its_exit_code_and_its_first_line(b, options, code, said):
    found, output = gate(MAIN, b, *options)
    assert (found, said in output.splitlines()[0]) == (code, True), output.splitlines()[0]
    assert "| Task | A | B |" in output  # the comparison follows


def test_the_interval_decides_and_a_wider_one_for_many_looks():
    found = compare_outcomes(MAIN, BETTER)
    effect = found.average.effect("problems like these")
    low, high = effect.difference.interval().low, effect.difference.interval().high
    for bound, state in ((low - 1e-6, "shown"), (low + 1e-6, "undecided"), (high + 1e-6, "refuted")):
        assert judge(found, better_by(bound)).state == state
    once, often = judge(found, better_by(0.0)), judge(found, better_by(0.0, looks=50))
    assert (once.confidence, often.confidence) == (0.95, 0.999)
    assert often.interval == effect.difference.interval(0.999)
    these = judge(found, not_worse_than(0.01, "these problems"))
    assert these.interval == found.average.effect("these problems").difference.interval()


def test_worse_within_the_margin_passes_and_worse_at_all_fails_first():
    found = compare_outcomes(MAIN, WORSE)
    interval = found.average.effect("problems like these").difference.interval()
    assert judge(found, not_worse(-interval.low + 0.01)).state == "refuted"  # within the margin, yet shown to be worse
    same = compare_outcomes(MAIN, SAME)
    interval = same.average.effect("problems like these").difference.interval()
    assert interval.low < 0 < interval.high
    assert judge(same, not_worse(-interval.low + 1e-6)).state == "shown"
    assert judge(same, not_worse(-interval.low - 1e-6)).state == "undecided"


def test_what_is_missing_leaves_a_gate_open(tmp_path):
    rows = Path(BETTER).read_text(encoding="utf-8").splitlines()
    (tmp_path / "b.csv").write_text("\n".join(rows[:-2]) + "\n", encoding="utf-8")
    code, output = gate(MAIN, tmp_path / "b.csv", "--require", "not-worse-than", "0.01")
    assert (code, "Not decided, since 2 items are in one side only" in output) == (5, True)
    empty = [re.sub(r",.*", ",,,,", row) if i > 35 else row for i, row in enumerate(rows)]
    (tmp_path / "b.csv").write_text("\n".join(empty) + "\n", encoding="utf-8")
    code, output = gate(MAIN, tmp_path / "b.csv", "--require", "better-by", "0")
    assert (code, "Not decided, since samples that are missing or without a verdict could change that" in output) == (
        5,
        True,
    )


def test_rows_that_are_missing_open_a_gate_as_empty_cells_do(tmp_path):
    """Of 4 samples of each item A has 2 right and B 1, but B leaves out what it got wrong, on all items but one."""
    a, full, crash, few = (tmp_path / f"{name}.csv" for name in ("a", "full", "crash", "few"))
    rows = {
        path: [(item, j, right(item, j)) for item in range(30) for j in range(4)]
        for path, right in ((a, lambda item, j: (item + j) % 4 < 2), (full, lambda item, j: (item + j) % 4 < 1))
    }
    rows[crash] = [row for row in rows[full] if row[2] or row[0] == 0]
    rows[few] = [row for row in rows[a] if row[1] < 2]  # fewer of every item: another design, nothing is missing
    for path, listed in rows.items():
        lines = [f"{item},{j},{int(right)}" for item, j, right in listed]
        path.write_text("\n".join(["item,sample,score", *lines]) + "\n", encoding="utf-8")
    assert gate(a, full, "--require", "better-by", "0")[0] == 4
    code, said = gate(a, crash, "--require", "better-by", "0", "--format", "pr")
    reason = "Not decided, since samples that are missing or without a verdict could change that"
    assert (code, reason in said) == (5, True)
    assert "missing or ungraded samples (0.0 % of A, 72.5 % of B) could flip the sign" in gate(a, crash)[1]
    code, said = gate(a, few, "--require", "not-worse-than", "0.5", "--format", "pr")
    assert (code, "missing" in said) == (0, False)


def write_rows(path, rows):
    lines = [f"{item},{sample},{score}" for item, sample, score in rows]
    path.write_text("\n".join(["item,sample,score", *lines]) + "\n", encoding="utf-8")
    return path


def test_missing_rows_open_a_gate_where_they_could_move_the_difference_over_its_bound(tmp_path):
    """400 items, 4 of 8 right in A; in B 5 of 8 on every other item, and one wrong row is left out on all but one."""
    a = write_rows(tmp_path / "a.csv", [(i, j, int(j < 4)) for i in range(400) for j in range(8)])
    full = [(i, j, int(j < 4 + i % 2)) for i in range(400) for j in range(8)]
    b = write_rows(tmp_path / "b.csv", full)
    crash = write_rows(tmp_path / "crash.csv", [row for row in full if row[0] == 0 or row[1] < 7])
    assert gate(a, b, "--require", "better-by", "0.08")[0] == 4  # by 6.25 points
    code, said = gate(a, crash, "--require", "better-by", "0.08", "--format", "pr")  # by 14.1 as it stands
    assert (code, "missing or without a verdict could change that" in said) == (5, True)
    assert gate(a, crash, "--require", "better-by", "0")[0] == 0  # that is shown, whatever they would have been


def test_as_many_rows_of_each_item_in_both_are_a_design(tmp_path):
    """Two benchmarks in one file, of 8 and of 4 samples an item: nothing is missing."""
    sizes = [8 if item < 30 else 4 for item in range(60)]
    a, b = (
        write_rows(
            tmp_path / f"{name}.csv", [(i, j, int((i + j) % 4 < n)) for i, k in enumerate(sizes) for j in range(k)]
        )
        for name, n in (("a", 1), ("b", 2))
    )
    assert "missing" not in gate(a, b)[1]
    assert gate(a, b, "--require", "better-by", "0")[0] == 0


def test_nothing_in_both_to_tell_by_is_undecided_and_said(tmp_path):
    (tmp_path / "a.csv").write_text("item,score\np,1\nq,\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("item,score\np,1\nq,1\n", encoding="utf-8")
    code, output = gate(tmp_path / "a.csv", tmp_path / "b.csv", "--fail-if", "worse")
    assert (code, "Too few problems are decided in both to tell what would settle it." in output) == (5, True)


def known(difference, components):
    """A comparison of one task with this difference, and these parts of its variance."""
    found = compare_outcomes(MAIN, SAME)
    effects = tuple(replace(effect, difference=difference) for effect in found.average.effects)
    (task,) = (replace(task, effects=effects, components=components) for task in found.tasks)
    return replace(found, tasks=(task,), average=replace(found.average, effects=effects))


def test_what_would_settle_it_by_hand():
    difference = Difference(value=0.05, standard_error=0.03, degrees=np.inf, num_problems=100)
    parts = Components(within=0.24, noise=0.06, between=0.012, num_problems=100)
    # The variance that settles it: (0.05 / (1.96 + 0.8416))^2 = 0.00031851. Samples: 0.0024 / (0.00031851 - 0.00012) =
    # 12.09, so 13. Problems: 100 x 0.0009 / 0.00031851 = 282.6, so 283, and one more.
    found = judge(known(difference, parts), better_by(0.0))
    assert (found.state, found.settled_by) == ("undecided", Settling(num_samples=13, num_problems=284))
    # Of these problems the part between them is no error: 0.0024 / 0.00031851 = 7.5.
    assert judge(known(difference, parts), better_by(0.0, "these problems")).settled_by.num_samples == 8
    # A distance of 1 point takes 25 times as much, more than the 0.00012 that no number of samples removes.
    assert judge(known(difference, parts), better_by(0.04)).settled_by.num_samples is None
    # In clusters 0.0009 - 0.06 / 100 = 0.0003 stays with any number of samples: 0.0024 / 0.00001851 = 129.7.
    clustered = known(difference, parts)
    together = Clustering(num_clusters=20, largest=5, correlation=0.5, design_effect=3.0)
    clustered = replace(clustered, tasks=(replace(clustered.tasks[0], clustering=together),))
    found = judge(clustered, better_by(0.0))
    assert found.settled_by == Settling(num_samples=130, num_problems=284)
    assert "284 problems with as many samples and as large clusters as now" in render_gate(clustered, found, "pr")
    assert judge(clustered, better_by(0.0, "these problems")).settled_by.num_samples == 8
    # At the bound itself nothing settles it; one sample per problem does not tell its parts.
    assert judge(known(difference, parts), better_by(0.05)).settled_by == Settling(num_samples=None, num_problems=None)
    assert judge(known(difference, None), better_by(0.0)).settled_by == Settling(num_samples=None, num_problems=284)
    # Fail-if worse can be settled on either side: from -0.5 points 1.5 to the margin, 0.5 to zero.
    near = replace(difference, value=-0.005)
    assert (
        judge(known(near, None), not_worse(0.02)).settled_by.num_problems == 3140 + 1
    )  # 0.09 / (0.015 / 2.8016)^2 = 3139.6


@pytest.mark.slow(reason="a rate of false alarms by simulation")
def test_fifty_looks_give_a_false_alarm_in_at_most_five_of_a_hundred_series():
    for kind in ("new", "grows"):
        of_these, like_these, each_these, each_like = share(kind, 30, 8, 40)
        assert max(of_these, like_these) <= 0.10  # 5 % of 40 series are 2; more than 4 come by chance in 5 of 100
        assert kind == "grows" or min(each_these, each_like) > 0.15  # what --looks is for


def test_json_is_as_its_schema_says():
    for b, options in ((BETTER, []), (WORSE, ["--fail-if", "worse"]), (SAME, ["--require", "better-by", "0"])):
        found = json.loads(gate(MAIN, b, *options, "--format", "json")[1])
        assert list(broken(found, SCHEMA)) == []
    assert found["gate"]["state"] == "undecided" and found["gate"]["settled_by"]["num_problems"] > 60
    assert list(broken({**found, "a": 1, "gate": {**found["gate"], "state": "maybe"}}, SCHEMA)) == [
        "a: expected string", "gate.state: expected one of ['shown', 'refuted', 'undecided']",
    ]  # fmt: skip
    properties = set(SCHEMA["properties"])
    assert found.keys() <= properties and properties - found.keys() == {"drift"}  # of two runs of the same weights


TYPES = {"string": str, "boolean": bool, "number": (int, float), "integer": int, "null": type(None)}
TYPES |= {"object": dict, "array": list}


def broken(value, schema, place=""):
    """Where a value is not as a JSON Schema says: of its words, those that ours uses."""
    schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    known = {"type", "const", "enum", "required", "properties", "additionalProperties", "items", "minItems", "maxItems"}
    assert schema.keys() <= known | {"minimum", "description", "title", "$schema", "$defs"}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, TYPES[t]) and (t == "boolean" or value is not True) for t in types):
        yield f"{place[1:]}: expected {' or '.join(types)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{place[1:]}: expected {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place[1:]}: expected one of {schema['enum']}"
    if isinstance(value, dict):
        named = schema.get("properties", {})
        yield from (f"{place}.{name}: missing" for name in schema.get("required", ()) if name not in value)
        for name, inner in value.items():
            if name in named:
                yield from broken(inner, named[name], f"{place}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{place}.{name}: not expected"
    if isinstance(value, list):
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        for i, inner in enumerate(value):
            yield from broken(inner, schema.get("items", {}), f"{place}.{i}")


def test_one_line_for_a_pull_request_and_a_test_case_for_ci(tmp_path):
    code, line = gate(MAIN, WORSE, "--fail-if", "worse", "--format", "pr")
    assert (code, line.count("\n")) == (4, 1)
    assert line.startswith("**Failed**: it is shown that worse is worse than main.") and "95 % interval [" in line
    first = gate(MAIN, WORSE)[1].splitlines()[0].strip("*")
    assert "6 settings (below) are" in first
    assert gate(MAIN, WORSE, "--format", "pr") == (0, first.replace(" (below)", "") + "\n")  # nothing is below
    for b, counts in ((BETTER, ("0", "0")), (WORSE, ("1", "0")), (SAME, ("0", "1"))):
        suite = ElementTree.fromstring(gate(MAIN, b, "--fail-if", "worse", "--format", "junit")[1])
        assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", *counts)
        assert len(suite.findall("testcase/failure")) == int(counts[0])
        assert len(suite.findall("testcase/skipped")) == int(counts[1])
    odd = tmp_path / "both.csv"
    odd.write_text("model,item,score\nold\x1b<&,p,1\nold\x1b<&,q,1\n{new},p,0\n{new},q,0\n", encoding="utf-8")
    suite = ElementTree.fromstring(gate(odd, "--fail-if", "worse", "--format", "junit")[1])
    assert suite.find("testcase").get("name") == "{new} is not worse than old\\x1b<& (margin: 2 points)"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--looks", "50"], "--about and --looks belong to a gate"),
        (["--fail-if", "worse", "--require", "better-by", "0"], "expected one gate, got --fail-if and --require"),
        (["--format", "junit"], "--format junit shows a gate"),
        (["--require", "not-worse-than"], "requires 2 arguments"),
        (["--require", "not-worse-than", "1"], "1.0 is not in the range 0<=x<1"),
        (["--require", "worse", "0.1"], "'worse' is not one of 'not-worse-than', 'better-by'"),
        (["--seeds", "--fail-if", "worse"], "--seeds compares methods"),
    ],
)
def test_a_gate_that_is_not_understood(options, error):
    result = CliRunner().invoke(cli, ["compare", MAIN, SAME, *options])
    assert result.exit_code == 2 or result.exception.exit_code == 2
    assert error in result.output + str(result.exception)


def test_the_workflow_in_the_docs_works_here_and_offline(tmp_path):
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    (workflow,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    steps = yaml.safe_load(workflow)["jobs"]["gate"]["steps"]
    commands = [step["run"] for step in steps if step.get("run", "").startswith("stapo-bench")]
    assert len(commands) == 2
    for command in commands:
        words, target = command.rsplit(">", 1)
        arguments = shlex.split(words.removesuffix(">"))[1:]
        done = subprocess.run(
            [sys.executable, "-m", "stapo_bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert target.strip().strip('"') in ("$GITHUB_STEP_SUMMARY", "gate.xml")
        assert "better is at most 1 point worse than main" in done.stdout


def test_a_figure_that_nothing_can_draw_is_said_before_a_gate_is(monkeypatch, tmp_path):
    monkeypatch.setattr("stapo_bench.commands.options.find_spec", lambda _: None)
    arguments = ["compare", MAIN, BETTER, "--require", "better-by", "0", "-o", str(tmp_path / "fig.png")]
    result = CliRunner().invoke(cli, arguments)
    assert "a figure cannot be drawn" in str(result.exception) and "[plots]" in str(result.exception)
    assert result.output == ""


def test_one_decided_problem_is_the_same_difference_everywhere(tmp_path):
    (tmp_path / "a.csv").write_text("item,score\nx,1\ny,0\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("item,score\nx,0\ny,\n", encoding="utf-8")
    said = gate(tmp_path / "a.csv", tmp_path / "b.csv")[1]
    assert "Not enough data to tell b from a: -100.0 points" in said and "| 100.00 | 0.00 | -100.0 |" in said


def test_a_figure_of_no_known_format_is_refused_before_anything_is_compared(tmp_path):
    arguments = ["compare", MAIN, SAME, "--require", "not-worse-than", "0.01", "-o", str(tmp_path / "fig.txt")]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, UsageError) and "unknown format 'txt' of a figure" in str(result.exception)
    assert result.output == ""
