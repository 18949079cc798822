"""The objectives in somebody's own training loop: what torch would stretch, and what is no number, is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from objective_setup import stats

from stapo_train.advantages import group_advantages
from stapo_train.batch import KEY_STRIDE
from stapo_train.objective import ONE_PROCESS, keep, policy_loss, select
from stapo_train.objectives import build
from stapo_train.objectives.baselines import by_group, whitened
from stapo_train.rows import token_stats
from stapo_train.token_statistics import token_distribution

MASK = torch.tensor([[1, 1, 0], [0, 1, 1]])


def rows(**others):
    """Two rows of three positions, NaN outside of the four response tokens."""
    values = torch.tensor([[-1.0, -2.0, math.nan], [math.nan, -3.0, -4.0]])
    given = {"log_probs": values, "old_log_probs": values, "entropy": -values, "advantages": torch.tensor([1.0, -1.0])}
    return token_stats(MASK, **{**given, **others})


# --- one value per token ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["old_log_probs", "entropy", "advantages", "sequence", "key", "ref_log_probs"])
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 1)])
def test_a_field_of_another_shape_is_refused(name, shape):
    with pytest.raises(ValueError, match=rf"^{name}: expected one value for each of the 3 tokens .* got \[{shape[0]}"):
        replace(stats([0.5, 0.5, 0.5]), **{name: torch.zeros(shape, dtype=torch.int64)})


def test_padded_rows_are_refused_with_the_way_to_give_them():
    s = stats([0.5, 0.5])
    with pytest.raises(ValueError, match=r"log_probs: expected \[N\].* got \[1, 2\]; stapo_train.rows.token_stats"):
        replace(s, log_probs=s.log_probs.unsqueeze(0))


@pytest.mark.parametrize("name", ["sequence", "key"])
def test_numbers_of_rollouts_and_tokens_are_whole(name):
    with pytest.raises(ValueError, match=f"^{name}: expected int64, got torch.float32"):
        replace(stats([0.5]), **{name: torch.zeros(1)})


def test_a_selection_that_was_not_cut_is_refused():
    s, objective = stats([0.5, 0.5], sequence=[0, 1]), build("stapo")
    whole = select(s, objective)
    with pytest.raises(ValueError, match=r"expected that of these 1 tokens, got 2; .*selection.take\(index\)"):
        policy_loss(s.take(torch.tensor([0])), whole, objective)


@pytest.mark.parametrize("mask", [torch.ones(1, dtype=torch.bool), torch.ones(2)])
def test_an_objectives_own_mask_has_a_bool_for_each_token(mask):
    with pytest.raises(ValueError, match="keep_mask: expected a bool for each of the 2 tokens"):
        keep(stats([0.5, 0.5]), mask, ONE_PROCESS)


# --- nothing kept ----------------------------------------------------------------------------------------------------


def test_a_mini_batch_of_which_nothing_is_kept_has_loss_and_gradient_0():
    # full-mask silences every candidate, and both tokens are: 0 kept, and 0 / 0 is no number
    s, objective = stats([0.001, 0.001]), build("full-mask")
    leaf = s.log_probs.requires_grad_()
    selection = select(s, objective)
    assert (selection.num_kept, selection.denominator.item(), selection.divisor) == (0, 0.0, 1.0)
    loss = policy_loss(s, selection, objective).numerator.sum() / selection.divisor
    loss.backward()
    assert (loss.item(), leaf.grad.tolist()) == (0.0, [0.0, 0.0])


def test_empty_completions_alone_have_loss_0():
    nothing = torch.zeros((2, 3))
    s = token_stats(
        nothing.bool(), log_probs=nothing, old_log_probs=nothing, entropy=nothing, advantages=torch.zeros(2)
    )
    for name in ("stapo", "grpo", "gspo"):
        selection = select(s, build(name))
        assert policy_loss(s, selection, build(name)).numerator.sum() / selection.divisor == 0.0


def test_the_divisor_is_the_denominator_where_tokens_are_kept():
    assert select(stats([0.5] * 3), build("stapo")).divisor == 3.0


# --- padded rows -----------------------------------------------------------------------------------------------------


def test_the_response_tokens_of_rows_are_laid_end_to_end():
    s = rows(first_row=5)
    assert s.log_probs.tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert s.entropy.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert s.advantages.tolist() == [1.0, 1.0, -1.0, -1.0]
    assert s.sequence.tolist() == [0, 0, 1, 1]
    assert s.key.tolist() == [5 * KEY_STRIDE, 5 * KEY_STRIDE + 1, 6 * KEY_STRIDE + 1, 6 * KEY_STRIDE + 2]


def test_the_gradient_reaches_the_rows():
    leaf = torch.tensor([[-1.0, -2.0, 0.0], [0.0, -3.0, -4.0]], requires_grad=True)
    s = rows(log_probs=leaf, old_log_probs=leaf.detach())
    objective = build("justrl")
    selection = select(s, objective)
    (policy_loss(s, selection, objective).numerator.sum() / selection.divisor).backward()
    # ratio 1: dJ / d ln pi = A / 4 tokens
    assert leaf.grad.tolist() == [[-0.25, -0.25, 0.0], [0.0, 0.25, 0.25]]


@pytest.mark.parametrize("name", ["log_probs", "old_log_probs", "entropy", "ref_log_probs", "importance"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_named_with_its_place(name, value):
    bad = torch.zeros((2, 3))
    bad[1, 2] = value
    with pytest.raises(ValueError, match=f"^{name}: expected a number at each response .* row 1, position 2"):
        rows(**{name: bad})


def test_an_advantage_that_is_no_number_is_named():
    with pytest.raises(ValueError, match=r"^advantages: expected a number .*, got nan at row 0"):
        rows(advantages=torch.tensor([math.nan, 1.0]))


def test_a_proxy_may_leave_a_token_out():
    assert rows(proxy_log_probs=torch.full((2, 3), -math.inf)).proxy_log_probs.tolist() == [-math.inf] * 4


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"entropy": torch.zeros(3)}, r"entropy: expected \[2, 3\] as response_mask, got \[3\]"),
        ({"advantages": torch.zeros((2, 3))}, r"advantages: expected one for each of 2 rows, got \[2, 3\]"),
    ],
)
def test_rows_of_another_shape_are_refused(others, message):
    with pytest.raises(ValueError, match=message):
        rows(**others)


@pytest.mark.parametrize(
    ("mask", "message"), [(torch.ones(3), r"expected rows \[B, T\]"), (torch.full((2, 3), 0.5), "expected True and")]
)
def test_a_mask_is_of_rows_and_of_0_and_1(mask, message):
    with pytest.raises(ValueError, match=f"response_mask: {message}"):
        token_stats(mask, log_probs=mask, old_log_probs=mask, entropy=mask, advantages=torch.zeros(2))


# --- rewards and logits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rewards", [np.array([1, 0, 0, 0]), np.array([True, False, False, False]), [1, 0, 0, 0]])
def test_whole_rewards_have_broken_advantages(rewards):
    # mean 1/4, sample std sqrt((9 + 3) / 16 / 3) = 1/2: 1.5 and -0.5, less a millionth
    assert group_advantages(rewards, np.zeros(4, dtype=int)).round(3).tolist() == [1.5, -0.5, -0.5, -0.5]


def test_whole_rewards_of_the_other_rules():
    whole, ids, lengths = np.array([1, 0, 0, 0]), np.zeros(4, dtype=int), np.ones(4, dtype=int)
    assert by_group(whole, ids, lambda r, _: r - r.mean()).tolist() == [0.75, -0.25, -0.25, -0.25]
    assert whitened(whole, lengths).round(3).tolist() == [1.5, -0.5, -0.5, -0.5]


def test_an_infinite_reward_is_refused():
    with pytest.raises(ValueError, match="rewards: expected numbers, or NaN where nothing is known, got inf at 1"):
        group_advantages(np.array([0.0, math.inf]), np.zeros(2, dtype=int))


@pytest.mark.parametrize("taken", [torch.zeros(1), torch.zeros(3), torch.zeros((2, 1))])
def test_logits_without_a_taken_token_are_refused(taken):
    with pytest.raises(ValueError, match=r"taken: expected one token id for each of the logits \[2, 5\]"):
        token_distribution(torch.zeros(2, 5), taken.long(), temperature=1.0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_statistics_need_a_temperature(temperature):
    with pytest.raises(ValueError, match="temperature: expected above 0"):
        token_distribution(torch.zeros(1, 5), torch.zeros(1).long(), temperature=temperature)
