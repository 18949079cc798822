"""What ``check-objective`` measures, by hand: how far two results lie apart, and what a wrong gradient shows."""

import math
from dataclasses import replace

import pytest
import torch

from stapo_train.check import check_objective as suite
from stapo_train.check import plain
from stapo_train.check.computed import TOLERANCE, Check, Computed, distance, loss_and_gradient, worst_of
from stapo_train.check.token_checks import RandomTokens, token_checks
from stapo_train.check.toy import GROUP_SIZE, NUM_GROUPS, toy_batch, toy_objective, toy_policy


@pytest.mark.parametrize(
    ("loss", "gradient", "apart"),
    [
        (2.0, [0.0, 4.0, -8.0], 0.0),
        (2.1, [0.0, 4.0, -6.0], 0.25),  # 2 of the largest, 8
        (1.2, [0.0, 4.0, -7.0], 0.4),  # 0.8 of 2
        (2.0, [0.0, math.nan, -8.0], math.nan),
    ],
)
def test_the_distance_of_two_results(loss, gradient, apart):
    one = Computed(loss=2.0, gradient=torch.tensor([0.0, 4.0, -8.0]))
    assert distance(one, Computed(loss=loss, gradient=torch.tensor(gradient))) == pytest.approx(apart, nan_ok=True)


def test_a_check_passes_up_to_a_millionth():
    assert TOLERANCE == 1e-6 and Check(name="", deviation=1e-6).passed
    assert not Check(name="", deviation=1.01e-6).passed
    unknown = Check(name="", deviation=math.nan)
    assert unknown.deviation == math.inf and not unknown.passed
    assert Check(name="", deviation=math.nan, applicable=False).passed
    assert worst_of(1.0, 3.0, 2.0) == 3.0 and math.isnan(worst_of(math.nan, 1.0))


@pytest.fixture(scope="module")
def batch():
    return toy_batch(toy_objective("stapo"))


def found(batch, wrong):
    """The deviations of STAPO's token checks, by name, where the gradient is ``wrong(gradient, silenced tokens)``."""
    objective = toy_objective("stapo", {"tau_p": 0.2})
    tokens = RandomTokens.make(64, batch.stats, objective, 0)
    silenced, right = ~tokens.selection.keep_mask, tokens.gradient()
    assert 0 < silenced.sum() < len(silenced)
    object.__setattr__(tokens, "gradient", lambda: wrong(right.clone(), silenced))
    return {check.name: check.deviation for check in token_checks(tokens)}


def test_a_gradient_that_is_a_hundredth_too_large_is_seen(batch):
    assert max(found(batch, lambda gradient, _: gradient).values()) <= TOLERANCE
    off = found(batch, lambda gradient, _: 1.01 * gradient)
    assert off["0 at silenced tokens"] == 0.0
    # Slopes are of 1 / 1.01 of what is expected; squared norms 1.0201 times as large.
    assert off["finite differences"] == pytest.approx(1 - 1 / 1.01, rel=0.02)
    assert off["gradient norm"] == pytest.approx(0.0201, rel=1e-6)
    # Twice as long: the squared norm stands 3 above the identity, and less above the upper bound.
    assert 1.0 < found(batch, lambda gradient, _: 2 * gradient)["its bounds"] < 3.0
    assert found(batch, lambda gradient, _: 0 * gradient)["its bounds"] > 0.1


def test_any_gradient_at_a_silenced_token_is_too_much(batch):
    def leaks(gradient, silenced):
        gradient[silenced.nonzero()[-1], 0] = 1e-300
        return gradient

    off = found(batch, leaks)
    assert off["0 at silenced tokens"] == math.inf and off["finite differences"] <= TOLERANCE


def test_a_loss_unlike_the_slow_references_is_seen(batch):
    objective = toy_objective("stapo")
    policy = toy_policy(objective)
    loss = loss_and_gradient(policy, batch, objective).loss
    for factor, apart in ((1.0, 0.0), (2.0, 0.5), (0.5, 1.0)):  # relative to the loss that is held against it
        found = suite._against_reference("stapo", objective, policy, batch, phase=0, loss=factor * loss)
        assert found.deviation == pytest.approx(apart, abs=1e-9)
    assert not suite._against_reference("mine", objective, policy, batch, phase=0, loss=loss).applicable


def test_what_the_suite_is_asked_on_has_every_kind_of_token(batch):
    stats, rows = batch.stats, batch.row_advantages
    assert len(batch.rows) == NUM_GROUPS * GROUP_SIZE and (rows == 0).nonzero().flatten().tolist() == [0, 5, 10]
    assert (rows > 0).any() and (rows < 0).any()
    lengths = torch.bincount(stats.sequence)
    assert lengths.min() < lengths.max() < 20
    ratio = (stats.log_probs - stats.old_log_probs).exp()
    # Both clips act on both signs: below 0.8, above 1.28, and between.
    for sign in (stats.advantages > 0, stats.advantages < 0):
        assert all(part.any() for part in (sign & (ratio < 0.8), sign & (ratio > 1.28), sign & (abs(ratio - 1) < 0.1)))
    assert not torch.equal(stats.ref_log_probs, stats.old_log_probs)
    assert set(stats.batch_entropy.tolist()) == {1.5} and abs(stats.entropy.mean() - 1.5) > 0.05


def test_the_slow_references_parts_by_hand():
    assert plain.quantile([3.0, 1.0, 2.0, 5.0], 0.5) == 2.5  # half way between the second and the third
    assert plain.quantile([3.0, 1.0, 2.0, 5.0], 0.9) == pytest.approx(3 + 0.7 * 2)  # place 2.7 of 0 to 3
    assert plain.quantile([4.0], 0.3) == plain.quantile([1.0, 4.0], 1.0) == 4.0
    clips = toy_objective("justrl")  # 0.8 to 1.28, dual clip 10
    by_hand = {(2.0, 1.0): 1.28, (0.5, 1.0): 0.5, (0.5, -1.0): -0.8, (2.0, -1.0): -2.0, (20.0, -3.0): -30.0}
    assert {given: plain.clip(clips, *given) for given in by_hand} == by_hand
    assert plain.clip(replace(clips, dual_clip=None), 20.0, -3.0) == -60.0
    token = plain.Token(log_prob=math.log(0.2), old_log_prob=math.log(0.1), entropy=0, advantage=0, sequence=0, key=0)
    assert (token.prob, token.ratio) == pytest.approx((0.2, 2.0))
