"""The checks of ``stapo-train check-objective``: which objectives pass them, and what they find."""

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from objective_setup import assert_same, every_objective

from stapo_train.check.check_objective import check_objective
from stapo_train.check.computed import loss_and_gradient
from stapo_train.check.ranks import two_ranks
from stapo_train.check.toy import VOCABULARY, toy_batch, toy_objective, toy_policy
from stapo_train.objective import keep, select
from stapo_train.objectives import REGISTRY
from stapo_train.objectives.dapo import Dapo

EXACT = [name for name in REGISTRY if name != "stapo-micro-batch"]
"""What does not depend on how a mini-batch is cut up."""


@pytest.mark.parametrize("name", every_objective("stapo-micro-batch"))
def test_invariances(name):
    for check in check_objective(name, ranks=False, large_vocabulary=False):
        assert check.passed, check


def test_settings_reach_the_slow_reference():
    (usual,), (wider,) = (
        [
            c
            for c in check_objective("stapo", settings, ranks=False, large_vocabulary=False)
            if c.name == "slow reference"
        ]
        for settings in (None, {"tau_p": 0.2, "q": 0.25, "clip_high": 0.01})
    )
    assert usual.passed and wider.passed


def test_the_gradient_norm_identity_at_qwen3s_vocabulary():
    checks = [c for c in check_objective("stapo", ranks=False) if "151936" in c.name]
    assert {c.name.split(",")[0] for c in checks} >= {"gradient norm", "its bounds"}
    assert all(c.passed for c in checks), checks


MICRO = {"tau_p": 0.05, "micro_batch_rollouts": 4}


@pytest.fixture(scope="module")
def on_ranks():
    """What two ranks find, by objective: all from one pair of processes, as starting one takes seconds."""
    asked = {**dict.fromkeys(EXACT), "stapo-micro-batch": MICRO}
    return dict(zip(asked, two_ranks(list(asked.items())), strict=True))


@pytest.mark.slow(reason="two processes that load torch")
def test_two_ranks_agree_with_one(on_ranks):
    for name in EXACT:
        found = on_ranks[name]
        objective = toy_objective(name)
        whole = loss_and_gradient(toy_policy(objective), toy_batch(objective), objective)
        assert_same(found.gradient, whole.gradient)
        assert found.loss == pytest.approx(whole.loss, rel=1e-6)


def whole(name, settings):
    objective = toy_objective(name, settings)
    return loss_and_gradient(toy_policy(objective), toy_batch(objective), objective)


def assert_far(found, other):
    assert (found.gradient - other.gradient).abs().max() > 1e-3 * found.gradient.abs().max()


@pytest.mark.slow(reason="two processes that load torch")
def test_a_quantile_per_micro_batch_is_another_on_two_ranks(on_ranks):
    assert_far(whole("stapo-micro-batch", MICRO), on_ranks["stapo-micro-batch"])


def test_a_quantile_per_micro_batch_is_refused_as_inexact():
    name, settings = "stapo-micro-batch", MICRO
    failed = {c.name for c in check_objective(name, ranks=False, large_vocabulary=False) if not c.passed}
    assert failed == {"order of rollouts"}  # not the trainer's own split: a micro-batch is so many rollouts in a row
    alone = whole(name, settings)
    assert_far(alone, whole(name, {**settings, "micro_batch_rollouts": 5}))
    assert_far(alone, whole("stapo", {"tau_p": 0.05}))
    # One micro-batch of all 15 rollouts is the mini-batch.
    assert_same(
        whole(name, {**settings, "micro_batch_rollouts": 15}).gradient, whole("stapo", {"tau_p": 0.05}).gradient
    )


def test_a_new_objective_is_one_class_and_one_line(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class PositiveOnly(Dapo):  # as in train/README.md
        label: ClassVar[str] = "Positive only"
        source: ClassVar[str] = "an example"

        def select(self, stats, reduce, phase):
            return keep(stats, stats.advantages > 0, reduce)

    monkeypatch.setitem(REGISTRY, "positive-only", PositiveOnly)
    checks = list(check_objective("positive-only", ranks=False, large_vocabulary=False))
    assert all(c.passed for c in checks)
    assert any("silenced" in c.note and not c.note.startswith("0") for c in checks)


def test_the_suite_finds_a_selection_made_per_micro_batch(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Wrong(Dapo):  # a term that looks at its neighbours in the micro-batch
        label: ClassVar[str] = "Wrong"
        source: ClassVar[str] = "a fault"

        def term(self, stats, selection):
            return super().term(stats, selection) * (stats.entropy > stats.entropy.median())

    monkeypatch.setitem(REGISTRY, "wrong", Wrong)
    failed = {c.name for c in check_objective("wrong", ranks=False, large_vocabulary=False) if not c.passed}
    assert failed >= {"micro-batches", "one rollout per micro-batch"}


@pytest.mark.parametrize("said", [{"silences": "nothing"}, {"divides_by": "all response tokens of the mini-batch"}])
def test_the_suite_fails_a_class_that_says_what_it_does_not_do(said, monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Half(Dapo):
        label: ClassVar[str] = "Half"
        source: ClassVar[str] = "an example"

        def select(self, stats, reduce, phase):
            return keep(stats, stats.advantages > 0, reduce)

    for name, value in said.items():
        monkeypatch.setattr(Half, name, value)
    monkeypatch.setitem(REGISTRY, "half", Half)
    failed = [c for c in check_objective("half", ranks=False, large_vocabulary=False) if not c.passed]
    assert [c.name for c in failed] == ["says what it silences"]
    assert next(iter(said.values())) in failed[0].note


@pytest.mark.parametrize("what", ["value", "gradient"])
def test_the_suite_fails_what_is_no_number(what, monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Broken(Dapo):
        label: ClassVar[str] = "Broken"
        source: ClassVar[str] = "a fault"

        def term(self, stats, selection):
            term = super().term(stats, selection)
            return (
                term * math.nan if what == "value" else term + (stats.log_probs - stats.log_probs.detach()) * math.nan
            )

    monkeypatch.setitem(REGISTRY, "broken", Broken)
    checks = list(check_objective("broken", ranks=False, large_vocabulary=False))
    not_applicable = {c.name for c in checks if not c.applicable}
    assert not_applicable == {f"0 at silenced tokens, V = {VOCABULARY}", "slow reference"}
    # A number that comes out wrong is inf: NaN, which the command prints as n/a, is for what does not apply.
    computed = [c for c in checks if c.applicable and c.name != "says what it silences"]
    assert all(c.deviation == math.inf and not c.passed for c in computed), checks


def test_what_does_not_apply_is_said_to_and_passes():
    checks = list(check_objective("cispo", ranks=False, large_vocabulary=False))
    assert {c.name.split(",")[0] for c in checks if not c.applicable} == {"0 at silenced tokens", "finite differences"}
    assert all(c.passed and math.isnan(c.deviation) for c in checks if not c.applicable)


def test_a_quantile_per_micro_batch_would_be_seen():
    # The suite can fail: a selection made on each rollout alone silences other tokens.
    objective = toy_objective("stapo")
    batch = toy_batch(objective)
    whole = select(batch.stats, objective)
    alone = [select(batch.select_rows([row]).stats, objective) for row in range(15)]
    assert torch.cat([s.keep_mask for s in alone]).tolist() != whole.keep_mask.tolist()
