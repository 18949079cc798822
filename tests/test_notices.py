"""What pages say at their heads: no two say otherwise of the same pair without a notice; who made more steps."""

import json
import shutil
from pathlib import Path

import pytest

from stapo_train.experiments.notices import KINDS, by_design, disagreements, notices, restate, two_steps, verdicts

RESULTS = Path(__file__).resolve().parent.parent / "results" / "experiments"
PAGES = sorted(path.parent for path in RESULTS.glob("*/manifest.json"))
EARLIER = "**Intervals and verdicts of an earlier day"


@pytest.mark.parametrize("folder", PAGES, ids=lambda p: p.name)
def test_a_page_and_the_index_have_the_notices_that_the_page_should_have(folder):
    expected = notices(json.loads((folder / "manifest.json").read_text()), folder)
    said = [part for part in (folder / "page.md").read_text().split("\n\n") if part.startswith(KINDS)]
    assert said == expected
    section = (RESULTS / "README.md").read_text().split(f"\n## {folder.name}\n", 1)[1].split("\n## ", 1)[0]
    found = [part for part in section.strip().split("\n\n") if part.startswith(KINDS)]
    there = [part.replace("](", "](../").replace(f"](../{folder.name}/", "](") for part in found]
    assert there == expected


@pytest.mark.parametrize("folder", PAGES, ids=lambda p: p.name)
def test_no_two_pages_say_otherwise_of_the_same_pair_and_seeds_without_a_notice(folder):
    for own, other in disagreements(folder):
        older = min(own, other, key=lambda verdict: verdict.grader)
        newer = other if older is own else own
        assert older.grader < newer.grader, f"{own.page} and {other.page}: {own.variant} and {own.minus}"
        head = (RESULTS / older.page / "page.md").read_text().split("\n- ", 1)[0]
        assert EARLIER in head and f"[{newer.page}](../{newer.page}/page.md) says of {newer.variant}" in head


def test_the_pair_that_two_pages_tell_otherwise():
    found = {(own.variant, own.minus, own.decoding, other.page) for own, other in disagreements(RESULTS / "controls")}
    assert found == {("JustRL", "STAPO", "training", "main"), ("JustRL", "STAPO", "justrl", "main")}


def page(folder, name, *, verdict, grader, seeds=(1, 2), turned=False, rate="1e-4", tasks=None):
    (folder / name).mkdir()
    about = {
        "variants": {"A": ["objective.name=justrl"], "B": ["objective.name=stapo"]}, "overrides": [f"optim.lr={rate}"],
        "seeds": {"finished": list(seeds)}, "evaluation": {"max-new-tokens": 96}, "graders": [f"math-{grader}"],
        "definitions": {"A": 1, "B": 1}, "cpu_s": {"train": 3600.0},
    }  # fmt: skip
    about |= {"tasks": tasks} if tasks else {}
    pair = "B,A" if turned else "A,B"
    (folder / name / "manifest.json").write_text(json.dumps(about))
    (folder / name / "page.md").write_text("# title\n\n**Why?**\n\n- So.\n")
    rows = f"decoding,variant,minus,error,verdict\ntraining,A,,seeds,\ntraining,{pair},seeds,{verdict}\n"
    (folder / name / "table.csv").write_text(rows)
    return folder / name


def test_of_two_pages_that_differ_the_one_of_the_earlier_grader_says_so(tmp_path):
    old, new = page(tmp_path, "old", verdict="tied", grader=3), page(tmp_path, "new", verdict="better", grader=9)
    (said,) = restate(old)
    assert "graded by math-3, to be made again (about 1.0 CPU-hours)" in said
    assert "[new](../new/page.md) says of A and B at T=1.0, top-p 1.0, on seeds: better." in said
    assert (old / "page.md").read_text() == f"# title\n\n**Why?**\n\n{said}\n\n- So.\n"
    assert restate(new) == []
    shutil.rmtree(new)
    assert restate(old) == [] and (old / "page.md").read_text() == "# title\n\n**Why?**\n\n- So.\n"


@pytest.mark.parametrize(
    "other",
    [
        {"verdict": "better", "turned": False},
        {"verdict": "worse", "turned": True},
        {"verdict": "tied", "seeds": (1, 3)},
        {"verdict": "tied", "rate": "2e-4"},
        {"verdict": "tied", "tasks": ["tiny_aime24"]},
    ],
)
def test_the_same_verdict_the_other_way_round_or_other_seeds_or_tasks_are_no_disagreement(tmp_path, other):
    one = page(tmp_path, "one", verdict="better", grader=3)
    page(tmp_path, "other", grader=9, **other)
    assert len(list(verdicts(one))) == 1 and disagreements(one) == []


def test_what_is_left_out_and_what_is_not_run_yet_are_said(tmp_path):
    about = json.loads((RESULTS / "knights" / "manifest.json").read_text())
    about["variants"].pop("AR", None)
    (tmp_path / "knights").mkdir()
    kl, missing = by_design(about, tmp_path / "knights")
    assert kl == "**Left out: the authors' KL term, a penalty of 0.001 on the distance from the base model.**"
    assert missing.startswith("**Not run yet: ") and "AR" in missing
    (tmp_path / "knights" / "predictions.md").write_text("")
    assert "**Not run yet, with [predictions](predictions.md): " in list(by_design(about, tmp_path / "knights"))[1]
    assert list(by_design(about, tmp_path / "no-such")) == []


def test_a_method_with_two_steps_on_a_mini_batch_is_named_with_their_number():
    lopti = {"A": ["objective.name=justrl"], "L": ["objective.name=lopti"], "Base": []}
    about = {"variants": lopti, "overrides": ["iterations=6", "pretrain.steps=1"]}
    assert two_steps(about).startswith("**Two optimizer steps on each mini-batch: L, 48 in place of 24.**")
    assert two_steps({**about, "variants": {"A": lopti["A"], "Base": []}}) == ""
