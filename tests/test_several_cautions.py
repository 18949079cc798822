"""Many runs are shown with as much caution as two of them: open samples, shared ones, graders that disagree."""

import re
from itertools import combinations

import pytest

from stapo_bench.analysis import compare_loaded, compare_several
from stapo_bench.presenting import render_several
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.report.overview import overview
from stapo_bench.presenting.verdicts_of_several import notes_of_several, several_sentence
from stapo_bench.runs import load_run

NAN = float("nan")
# Right, wrong, undecided (-1) and not drawn (NaN) samples of four problems; ``base`` has its wrong ones cut off.
OUTCOMES = {
    "base": [[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]],
    "plain": [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]],
    "open": [[1, 1, -1, -1], [1, 0, -1, 0], [1, 1, 0, 0], [0, 0, 0, 0]],
    "short": [[1, 1, 1, NAN], [1, 0, 0, NAN], [1, 1, 0, 0], [0, 0, 1, 0]],
}


@pytest.fixture
def runs(make_run):
    """The last two share the texts of all their samples, as where one is a copy."""

    def run(seed, name):
        def sample(task, row, index):
            text = f"shared {task} {row} {index}" if name in ("open", "short") else f"{name} {task} {row} {index}"
            right = OUTCOMES[name][row][index] == 1
            cut = {"finish_reason": "length"} if name == "base" and not right else {}
            return {"completion": text, "num_tokens": 5000, **cut}

        tasks = {task: [list(map(float, row)) for row in OUTCOMES[name]] for task in ("t", "u")}
        return make_run(name, tasks, identity={"seed": seed, "checkpoint": {"digest": name}}, sample=sample)

    return [run(seed, name) for seed, name in enumerate(OUTCOMES)]


def test_what_could_flip_the_sign_of_two_runs_is_told_of_them_among_several(runs):
    found = compare_several([load_run(run) for run in runs])
    names, kinds = [run.name for run in found.runs], set()
    for a, b in combinations(range(len(names)), 2):
        of_two = compare_loaded(*(load_run(run.parent / names[i]) for run, i in ((runs[0], a), (runs[0], b))))
        assert tuple(each.risk for each in found.risks if (each.a, each.b) == (a, b)) == of_two.average.warnings
        kinds |= {risk.what for risk in of_two.average.warnings}
    assert kinds == {"truncated", "ungraded", "missing or ungraded"}
    num = len({(each.a, each.b) for each in found.risks})
    said = f"With caution: short lacks samples; the sign of {num} of 6 pairs could flip with samples that are cut off, "
    assert said in several_sentence(found) and said in render_several(found)
    (line,) = (line for line in notes_of_several(found) if line.startswith("truncated samples could flip the sign: "))
    # plain has 5 of 16 right, base 4: +1/16; were the other 12 of base right, 5/16 - 1.
    assert "plain − base between -68.8 and +6.2 points" in line
    of_one = compare_several([load_run(run) for run in runs], against="base")
    assert {0, 1, 2, 3} - {of_one.against} >= {each.a + each.b - of_one.against for each in of_one.risks}


def test_a_report_of_four_runs_warns_of_all_that_one_of_two_of_them_warns_of(runs):
    warned = set(overview(Sources(runs=runs)).warnings)
    for two in combinations(runs, 2):
        assert set(overview(Sources(runs=two)).warnings) <= warned
    assert any(text.startswith("Audit, shared samples: ") for text in warned)


def test_runs_together_name_pairs_on_which_graders_disagree(runs):
    for run, outcome in zip(runs, ("CORRECT", "INCORRECT", "INCORRECT", "INCORRECT"), strict=True):
        text = (run / "grades" / "math.jsonl").read_text().replace('"math-1"', '"strict-1"')
        text = re.sub(r'"outcome": "\w+"', f'"outcome": "{outcome}"', text)
        (run / "grades" / "strict.jsonl").write_text(text)
    (view,) = overview(Sources(runs=runs)).several
    found = {run.name: run.value for run in compare_several([load_run(run) for run in runs]).runs}
    worse = [f"{name} − base" for name in found if found[name] > found["base"]]
    assert f"grader 'strict' sees the opposite sign: {', '.join(worse)}" in view.notes
