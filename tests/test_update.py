"""One optimizer step: every way to the selection gives the same gradient, however the mini-batch is split."""

import math
from dataclasses import replace

import pytest
import torch
from objective_setup import assert_same, every_objective

from stapo_train import update
from stapo_train.batch import micro_batches
from stapo_train.check.computed import loss_and_gradient
from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.objective import select
from stapo_train.objectives import REGISTRY
from stapo_train.update import GradientSum, Step, accumulate_gradient, optimizer_step

IN_PHASES = [name for name, objective in REGISTRY.items() if objective.num_phases > 1]


def gradient(policy, total):
    grads = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    return grads / total.selection.denominator


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


@pytest.mark.parametrize("name", every_objective(*IN_PHASES))
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


@pytest.mark.parametrize(("shift", "kl"), [(0.5, 0.148721), (-0.5, 0.106531)])
def test_the_record_of_a_step_by_hand(shift, kl):
    """Every ratio is exp(0.5) = 1.65, or exp(-0.5) = 0.61: all tokens of one sign of advantage are clipped. The
    divergence, k3 of ln rho = ±0.5, is 1.648721 - 1 - 0.5, or 0.606531 - 1 + 0.5, at every token.
    """
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
    assert record.kl_to_old == pytest.approx(kl, rel=1e-5)


def test_where_no_row_runs_nothing_is_clipped():
    objective = toy_objective("dapo")
    policy, batch = toy_policy(objective), toy_batch(objective)
    silent = batch.select_rows([0, 5, 10])  # those with advantage 0
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    record = optimizer_step(policy, optimizer, silent, Step(objective=objective, clip_norm=1.0, first=True))
    assert record.num_tokens == len(silent.stats.key) > 0
    assert (record.clip_high_share, record.clip_low_share, record.loss) == (0.0, 0.0, 0.0)
    assert (record.ratio_mean, record.kl_to_old, record.grad_norm, record.skipped) == (1.0, 0.0, 0.0, None)


@pytest.mark.parametrize("name", every_objective(*IN_PHASES))
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


@pytest.mark.parametrize(
    ("loss", "slope", "skipped"),
    [(3.0, 1.0, None), (math.inf, 1.0, "loss inf, gradient norm "), (3.0, math.inf, "loss 3.0, gradient norm inf")],
)
def test_a_step_is_left_out_where_the_loss_or_the_gradient_is_not_finite(monkeypatch, loss, slope, skipped):
    objective = toy_objective("justrl")
    policy, batch = toy_policy(objective), toy_batch(objective)
    selection = select(batch.stats, objective)

    def accumulate(*_):
        for p in policy.model.parameters():
            assert p.grad is None  # what an earlier failure may have left is gone
            p.grad = torch.full_like(p, slope * selection.divisor)
        metrics = {"tokens": torch.tensor(8), "ratio": torch.tensor(12.0), "clipped_high": torch.tensor(2)}
        return GradientSum(selection=selection, numerator=loss * selection.divisor, metrics=metrics)

    monkeypatch.setattr(update, "accumulate_gradient", accumulate)
    parameters = list(policy.model.parameters())
    parameters[0].grad = torch.ones_like(parameters[0])
    before = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.SGD(parameters, lr=1.0)
    record = optimizer_step(policy, optimizer, batch, Step(objective=objective, clip_norm=1.0, first=True))
    moved = [not torch.equal(a, b) for a, b in zip(before, parameters, strict=True)]
    assert moved == [skipped is None] * len(parameters)
    assert (record.skipped or "").startswith(skipped or "") and (record.skipped is None) == (skipped is None)
    assert (record.ratio_mean, record.clip_high_share) == (1.5, 2 / len(batch.stats.key))
    assert all(p.grad is None for p in parameters)
