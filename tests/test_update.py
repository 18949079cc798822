"""One optimizer step: every way to the selection gives the same gradient, however the mini-batch is split."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from stapo_train.batch import collate, micro_batches
from stapo_train.check.check_objective import check_objective
from stapo_train.check.computed import loss_and_gradient
from stapo_train.check.ranks import two_ranks
from stapo_train.check.toy import VOCABULARY, toy_batch, toy_objective, toy_policy
from stapo_train.objective import keep, select
from stapo_train.objectives import REGISTRY
from stapo_train.objectives.dapo import Dapo
from stapo_train.train_records import Rollout
from stapo_train.update import Step, accumulate_gradient, optimizer_step


def gradient(policy, total):
    grads = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    return grads / total.selection.denominator


def assert_same(found, expected):
    """To 1e-6 of the largest element: Qwen3's norms compute in float32 even in a float64 model."""
    assert (found - expected).abs().max() <= 1e-6 * expected.abs().max()


def accumulated(name, method="exact", stale=0.3, settings=None):
    """The trainer's gradient on the toy mini-batch, whose stored statistics are off by ``stale`` nats."""
    objective = toy_objective(name, settings)
    policy, batch = toy_policy(objective, micro_batch_tokens=64), toy_batch(objective)
    exact = loss_and_gradient(policy, batch, objective)
    generator = torch.Generator().manual_seed(4)
    off = stale * torch.randn(len(batch.stats.key), generator=generator, dtype=torch.float64)
    stored = replace(batch.stats, log_probs=batch.stats.log_probs + off, entropy=batch.stats.entropy + off)
    policy.model.zero_grad()
    step = Step(objective=objective, clip_norm=1.0, method=method, first=False)
    total = accumulate_gradient(policy, replace(batch, stats=stored), step)
    return exact, gradient(policy, total), total


@pytest.mark.parametrize("name", [name for name, objective in REGISTRY.items() if objective.num_phases == 1])
def test_the_cheapest_exact_way_gives_the_exact_gradient(name):
    exact, found, total = accumulated(name)
    assert_same(found, exact.gradient)
    assert total.numerator / float(total.selection.denominator) == pytest.approx(exact.loss, rel=1e-6)


def test_rollouts_without_advantage_feel_the_kl_penalty():
    exact, found, _ = accumulated("grpo", settings={"kl_beta": 0.5})
    assert_same(found, exact.gradient)


def test_correction_runs_only_the_rows_whose_decisions_changed():
    _, _, total = accumulated("stapo")
    assert 0 < total.num_decisions_changed < total.selection.num_candidates
    assert 0 < total.num_rows_rerun < 15
    _, found, probe = accumulated("stapo", method="probe")
    assert probe.num_rows_rerun == 0
    assert_same(found, accumulated("stapo")[1])


def test_nothing_is_run_again_where_the_statistics_were_right():
    _, _, total = accumulated("stapo", stale=0.0)
    assert (total.num_decisions_changed, total.num_rows_rerun) == (0, 0)


def test_old_policy_is_an_approximation_that_says_how_far_off_it_is():
    exact, found, total = accumulated("stapo", method="old-policy")
    assert total.num_decisions_changed == accumulated("stapo")[2].num_decisions_changed > 0
    assert (found - exact.gradient).abs().max() > 1e-6


def test_clip_shares_are_those_of_the_exact_selection():
    by_probe = accumulated("stapo", method="probe")[2].metrics
    by_correction = accumulated("stapo")[2].metrics
    for name, value in by_probe.items():
        if name in ("clipped_high", "clipped_low"):
            assert by_correction[name] == value


@pytest.mark.parametrize("name", ["grpo", "stapo"])
def test_rollouts_that_say_nothing_are_counted_and_not_run(name, monkeypatch):
    objective = toy_objective(name)
    policy, batch = toy_policy(objective), toy_batch(objective)
    whole = loss_and_gradient(policy, batch, objective)
    rows_run = []
    monkeypatch.setattr(
        "stapo_train.policy.micro_batches",
        lambda batch, rows, *rest: rows_run.extend(rows) or micro_batches(batch, rows, *rest),
    )
    policy.model.zero_grad()
    total = accumulate_gradient(policy, batch, Step(objective=objective, clip_norm=1.0, first=True))
    assert sorted(rows_run) == [r for r in range(15) if r % 5]  # every fifth has advantage 0
    assert total.selection.num_tokens == len(batch.stats.key)
    assert_same(gradient(policy, total), whole.gradient)


def test_a_step_moves_the_weights_as_adamw_would():
    objective = toy_objective("justrl")
    policy, batch = toy_policy(objective), toy_batch(objective)
    exact = loss_and_gradient(policy, batch, objective)
    before = torch.cat([p.detach().flatten() for p in policy.model.parameters()])
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=1.0)
    record = optimizer_step(policy, optimizer, batch, Step(objective=objective, clip_norm=0.5, first=True))
    after = torch.cat([p.detach().flatten() for p in policy.model.parameters()])
    norm = float(exact.gradient.norm())
    assert record.grad_norm == pytest.approx(norm, rel=1e-6)
    torch.testing.assert_close(before - after, exact.gradient * min(1, 0.5 / norm), rtol=1e-5, atol=1e-9)
    assert all(p.grad is None for p in policy.model.parameters())  # while rollouts are drawn their memory is vLLM's


@pytest.mark.parametrize("shift", [0.5, -0.5])
def test_the_record_of_a_step_by_hand(shift):
    """Every ratio is exp(0.5) = 1.65, or exp(-0.5) = 0.61: all tokens of one sign of advantage are clipped."""
    objective = toy_objective("dapo")
    policy, batch = toy_policy(objective), toy_batch(objective)
    now = policy.measure(batch).log_probs
    moved = replace(batch, stats=replace(batch.stats, log_probs=now, old_log_probs=now - shift))
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    record = optimizer_step(policy, optimizer, moved, Step(objective=objective, clip_norm=1.0, first=False))
    tokens_of = batch.stats.advantages
    num_tokens = len(tokens_of)
    positive, negative = int((tokens_of > 0).sum()), int((tokens_of < 0).sum())
    assert 0 < positive < num_tokens > negative > 0
    expected = (positive / num_tokens, 0.0) if shift > 0 else (0.0, negative / num_tokens)
    assert (record.clip_high_share, record.clip_low_share) == expected
    # min(rho A, clip(rho) A): 1.28 A and rho A above 1.28, rho A and 0.8 A below 0.8
    up, down = (1.28, math.exp(0.5)) if shift > 0 else (math.exp(-0.5), 0.8)
    total = up * float(tokens_of.clamp(min=0).sum()) + down * float(tokens_of.clamp(max=0).sum())
    assert record.loss == pytest.approx(-total / num_tokens)
    assert record.ratio_mean == pytest.approx(math.exp(shift))


def test_where_no_row_runs_nothing_is_clipped():
    objective = toy_objective("dapo")
    policy, batch = toy_policy(objective), toy_batch(objective)
    silent = batch.select_rows([0, 5, 10])  # those with advantage 0
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    record = optimizer_step(policy, optimizer, silent, Step(objective=objective, clip_norm=1.0, first=True))
    assert record.num_tokens == len(silent.stats.key) > 0
    assert (record.clip_high_share, record.clip_low_share, record.loss) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", [name for name, objective in REGISTRY.items() if objective.num_phases == 1])
def test_the_first_step_is_the_same_for_every_split_in_float32(name):
    # ln rho is rounding alone there: an objective that reads its sign would step along noise.
    objective = toy_objective(name)
    policy = toy_policy(objective)
    policy = replace(policy, model=policy.model.float())
    batch = toy_batch(objective)
    floats = {k: v.float() for k, v in vars(batch.stats).items() if v is not None and v.is_floating_point()}
    batch = replace(batch, stats=replace(batch.stats, **floats))
    old = policy.measure(batch)
    batch = replace(batch, stats=replace(old, old_log_probs=old.log_probs))

    def first_step(micro_batch_tokens):
        policy.model.zero_grad()
        split = replace(policy, micro_batch_tokens=micro_batch_tokens)
        return gradient(split, accumulate_gradient(split, batch, Step(objective=objective, clip_norm=1.0, first=True)))

    whole = first_step(10_000)
    for tokens in (1, 64):
        assert (first_step(tokens) - whole).abs().max() < 1e-4 * whole.abs().max()


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone():
    objective = toy_objective("justrl")
    policy, batch = toy_policy(objective), toy_batch(objective)
    broken = replace(batch, stats=replace(batch.stats, old_log_probs=batch.stats.old_log_probs * float("nan")))
    before = [p.detach().clone() for p in policy.model.parameters()]
    optimizer = torch.optim.AdamW(policy.model.parameters())
    record = optimizer_step(policy, optimizer, broken, Step(objective=objective, clip_norm=1.0, first=True))
    assert record.skipped is not None and "nan" in record.skipped
    assert all(torch.equal(a, b) for a, b in zip(before, policy.model.parameters(), strict=True))


# --- the user's suite ------------------------------------------------------------------------------------------------


EXACT = [name for name in REGISTRY if name != "stapo-micro-batch"]
"""What does not depend on how a mini-batch is cut up."""


@pytest.mark.parametrize("name", EXACT)
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


def test_two_ranks_agree_with_one():
    for name, found in zip(EXACT, two_ranks([(name, None) for name in EXACT]), strict=True):
        objective = toy_objective(name)
        whole = loss_and_gradient(toy_policy(objective), toy_batch(objective), objective)
        assert_same(found.gradient, whole.gradient)
        assert found.loss == pytest.approx(whole.loss, rel=1e-6)


def test_a_quantile_per_micro_batch_is_refused_as_inexact():
    name, settings = "stapo-micro-batch", {"tau_p": 0.05, "micro_batch_rollouts": 4}
    failed = {c.name for c in check_objective(name, ranks=False, large_vocabulary=False) if not c.passed}
    assert failed == {"order of rollouts"}  # not the trainer's own split: a micro-batch is so many rollouts in a row

    def whole(name, settings):
        objective = toy_objective(name, settings)
        return loss_and_gradient(toy_policy(objective), toy_batch(objective), objective)

    alone = whole(name, settings)
    (on_ranks,) = two_ranks([(name, settings)])
    for other in (on_ranks, whole(name, {**settings, "micro_batch_rollouts": 5}), whole("stapo", {"tau_p": 0.05})):
        assert (alone.gradient - other.gradient).abs().max() > 1e-3 * alone.gradient.abs().max()
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


# --- batches ---------------------------------------------------------------------------------------------------------


def rollout(seed, prompt, response):
    return Rollout(
        group_id=0,
        problem_id="p",
        index=0,
        seed=seed,
        prompt_ids=prompt,
        response_ids=response,
        rollout_log_probs=None,
        text="",
        finish_reason="stop",
    )


def test_micro_batches_by_hand():
    rollouts = [rollout(1, (1, 2), (3, 4)), rollout(2, (5,), (6,)), rollout(3, (7, 8), ())]
    batch = collate(rollouts, np.array([1.0, -1.0, 0.5]), torch.float32, torch.device("cpu"))
    assert batch.stats.sequence.tolist() == [0, 0, 1]
    assert batch.stats.advantages.tolist() == [1.0, 1.0, -1.0]
    assert (batch.stats.key[1] - batch.stats.key[0]).item() == 1
    (micro,) = micro_batches(batch, range(3), max_tokens=100, device=torch.device("cpu"))
    assert micro.input_ids.tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]]  # the empty response predicts nothing
    assert micro.taken.tolist() == [3, 4, 6]
    assert micro.predictor.tolist() == [1, 2, 4]  # the positions of 2, 3 and 5
    assert micro.tokens.tolist() == [0, 1, 2]


def test_micro_batches_respect_their_limit_and_lose_nothing():
    rng = np.random.default_rng(0)
    rollouts = [rollout(i, (1,) * int(rng.integers(1, 9)), (2,) * int(rng.integers(1, 30))) for i in range(40)]
    batch = collate(rollouts, np.ones(40), torch.float32, torch.device("cpu"))
    micros = list(micro_batches(batch, range(40), max_tokens=70, device=torch.device("cpu")))
    assert sorted(torch.cat([m.tokens for m in micros]).tolist()) == list(range(len(batch.stats.key)))
    assert all(m.input_ids.numel() <= 70 for m in micros)


def test_a_part_of_a_batch_keeps_names_and_numbers_its_rollouts_anew():
    rollouts = [rollout(10, (1,), (2, 3)), rollout(20, (1,), (4,)), rollout(30, (1,), (5, 6))]
    batch = collate(rollouts, np.array([1.0, 2.0, 3.0]), torch.float32, torch.device("cpu"))
    part = batch.select_rows([2, 0])
    assert part.stats.sequence.tolist() == [0, 0, 1, 1]
    assert part.stats.advantages.tolist() == [3.0, 3.0, 1.0, 1.0]
    assert part.stats.key.tolist() == batch.stats.key[[3, 4, 0, 1]].tolist()
    assert part.starts == (0, 2)
