"""What selects and weighs tokens, by hand: in one process, and beside another rank whose sums are given."""

import math
from types import SimpleNamespace

import pytest
import torch
from objective_setup import stats

from stapo_train.objective import (
    MAX_LOG_RATIO,
    ONE_PROCESS,
    keep,
    log_ratio,
    mean,
    policy_loss,
    sequence_mean,
    top_mask,
    wait_for_all,
)
from stapo_train.objectives import build


def other_rank_has(*values):
    """Of two ranks the first; the other sums and gathers these values, in order."""
    theirs = iter(torch.as_tensor(value) for value in values)
    return SimpleNamespace(
        size=2, sum=lambda x: x + next(theirs).to(x.dtype), gather=lambda x: torch.cat([x, next(theirs).to(x.dtype)])
    )


def test_the_largest_of_all_ranks_by_hand():
    x, eligible = torch.tensor([0.9, 0.5, 0.7, 0.5, 0.8]), torch.tensor([False, True, True, True, True])
    assert top_mask(x, eligible, 0, ONE_PROCESS).tolist() == [False] * 5
    assert top_mask(x, eligible, 1, ONE_PROCESS).tolist() == [False, False, False, False, True]
    assert top_mask(x, eligible, 2, other_rank_has([0.75, 0.6])).tolist() == [False, False, False, False, True]
    assert top_mask(x, eligible, 3, ONE_PROCESS).tolist() == [False, True, True, True, True]  # both that tie
    assert top_mask(x, eligible, 9, ONE_PROCESS).tolist() == eligible.tolist()
    assert top_mask(x, torch.zeros(5, dtype=torch.bool), 2, ONE_PROCESS).tolist() == [False] * 5
    drawn = {tuple(top_mask(x, eligible, 3, ONE_PROCESS, key=torch.arange(5) + 5 * i).tolist()) for i in range(20)}
    assert drawn == {(False, True, True, False, True), (False, False, True, True, True)}  # one of both, at random


def test_a_mean_and_rollouts_over_ranks_by_hand():
    x = torch.tensor([1.0, 2.0])
    assert mean(x, other_rank_has([9.0, 1.0])) == 4.0
    assert math.isnan(mean(torch.zeros(0), ONE_PROCESS))
    s = stats([0.5] * 5, sequence=[0, 2, 2, 2, 2])  # the second rollout has no token: there are two
    weights, number = sequence_mean(s, ONE_PROCESS)
    assert (weights.tolist(), number.item()) == ([1.0, 0.25, 0.25, 0.25, 0.25], 2.0)
    nothing = s.take(torch.zeros(0, dtype=torch.int64))
    weights, number = sequence_mean(nothing, other_rank_has(3.0))
    assert (weights.tolist(), number.item()) == ([], 3.0)


def test_what_is_kept_is_counted_over_ranks():
    s = stats([0.5, 0.5, 0.5], entropy=[0.25, 0.5, 0.75])
    kept, candidates = torch.tensor([True, False, True]), torch.tensor([True, True, False])
    found = keep(s, kept, other_rank_has([5, 2, 4], 0.25), candidate_mask=candidates)
    assert (found.num_tokens, found.num_candidates, found.num_kept, found.divisor) == (8, 4, 6, 6.0)
    assert found.candidate_entropy == 0.25  # 0.25 + 0.5 here and 0.25 there, of four
    assert found.weights.tolist() == [1.0, 0.0, 1.0]
    assert keep(s, ~(kept | True), ONE_PROCESS).divisor == 1.0
    with pytest.raises(ValueError, match="keep_mask: expected a bool for each of the 3 tokens"):
        keep(s, kept[:2], ONE_PROCESS)
    with pytest.raises(ValueError, match=r"got torch\.float32 \[3\]"):
        keep(s, kept.float(), ONE_PROCESS)
    with pytest.raises(ValueError, match=r"expected that of these 2 tokens, got 3"):
        policy_loss(s.take(torch.tensor([0, 1])), found, build("dapo"))


def test_ratios_stop_at_twenty_nats():
    s = stats([1.0, 1e-30, 0.5], old=[1e-30, 1.0, 0.25])
    assert log_ratio(s).tolist() == [MAX_LOG_RATIO, -MAX_LOG_RATIO, pytest.approx(math.log(2))] and MAX_LOG_RATIO == 20


def test_ranks_wait_for_each_other_and_one_process_for_nobody():
    asked = []
    for size in (1, 2):
        wait_for_all(SimpleNamespace(size=size, sum=lambda x, size=size: asked.append(size) or x))
    assert asked == [2]
