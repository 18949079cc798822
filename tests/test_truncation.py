"""Bounds for cut-off samples and the score at smaller limits, against hand values."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from stapo_bench.analysis.token_limits import truncation
from stapo_bench.presenting import render_truncation
from stapo_bench.records import Outcome, SamplingParams, StatedSampling
from stapo_bench.runs.graded_samples import GradedSample
from stapo_bench.runs.identity import Identity, TaskIdentity
from stapo_bench.runs.loaded_run import LoadedRun, load_run
from stapo_bench.runs.manifest import About, AskedTask, Manifest

RIGHT, WRONG, NONE = Outcome.CORRECT, Outcome.INCORRECT, Outcome.NO_ANSWER


def draw(problem: str, index: int, outcome: Outcome, num_tokens: int, truncated: bool = False) -> GradedSample:
    return GradedSample(
        problem_id=problem, sample_index=index, outcome=outcome, num_tokens=num_tokens, truncated=truncated
    )


@pytest.fixture
def run() -> LoadedRun:
    """Two problems of two samples under a limit of 300 tokens."""
    draws = [
        draw("a", 0, RIGHT, 64),
        draw("a", 1, RIGHT, 300, truncated=True),  # answered before it was cut
        draw("b", 0, NONE, 300, truncated=True),
        draw("b", 1, WRONG, 100),
        draw("gone", 0, RIGHT, 1),  # no longer asked for
        draw("b", 2, RIGHT, 1),
    ]
    identity = Identity(
        checkpoint_digest="c0ffee",
        tasks={"t": TaskIdentity(data="d", prompts="p", prompt_format="plain")},
        sampling=SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=300),
        seed=0,
        engine={},
    )
    about = About(tasks={"t": AskedTask(title="T", problem_ids=("a", "b"), num_samples=2)})
    manifest = Manifest(run_dir=Path("r"), identity=identity, about=about)
    return LoadedRun(manifest=manifest, grader="math-1", samples={"t": draws})


def test_the_cut_off_samples_bound_the_score(run):
    (task,) = truncation(run)
    assert (task.num_samples, task.num_cut) == (4, 2)
    assert task.score == 0.5  # a: 2 of 2, b: 0 of 2
    assert task.cut_wrong == 0.25  # a: 1 of 2, b: 0 of 2
    assert task.cut_excluded == 0.5  # a: 1 of 1, b: 0 of 1
    assert task.cut_right == 0.75  # a: 2 of 2, b: 1 of 2


def test_a_run_that_states_no_limit_goes_up_to_its_longest_sample(run):
    identity = replace(run.manifest.identity, sampling=StatedSampling())
    imported = replace(run, manifest=replace(run.manifest, identity=identity))
    assert truncation(imported)[0].curve == ((64, 0.25), (128, 0.25), (256, 0.25), (300, 0.5))
    (nothing,) = truncation(replace(imported, samples={}))
    assert [limit for limit, _ in nothing.curve] == [0] and math.isnan(nothing.curve[0][1])


def test_the_curve_counts_longer_samples_wrong_and_ends_at_the_score(run):
    (task,) = truncation(run)
    assert task.curve == ((64, 0.25), (128, 0.25), (256, 0.25), (300, 0.5))
    assert [value for _, value in task.curve] == sorted(value for _, value in task.curve)


def test_a_task_without_samples_is_shown_as_not_measured(run):
    run.samples["t"].clear()
    assert "| T | 0 | – | – | – | – | – |" in render_truncation(truncation(run)).splitlines()


def test_a_limit_that_is_a_power_of_two_stands_once_on_the_curve(make_run):
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 256}
    run = load_run(make_run("a", {"t": [[1, 0]]}, identity={"sampling": sampling}))
    assert [limit for limit, _ in truncation(run)[0].curve] == [64, 128, 256]
