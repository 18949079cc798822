"""Micro-batches and packed rows: what goes together, what is run, and that nothing is lost."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from stapo_bench.records import ToolOutput
from stapo_train.batch import collate, micro_batches, nothing_to_run
from stapo_train.check.toy import toy_objective
from stapo_train.train_records import Rollout
from stapo_train.update import Step, _rows_with_gradient, _way


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


@pytest.mark.parametrize(
    ("packed", "max_tokens", "made"),
    [
        (False, 9, [[0], [1, 2], [3, 4]]),  # longest rows first: one of 6 at a time, then two of 4, of 2 and 1
        (False, 12, [[0, 1], [2, 3, 4]]),
        (False, 11, [[0], [1, 2], [3, 4]]),
        (False, 1, [[0], [1], [2], [3], [4]]),  # a longer row goes alone
        (True, 9, [[0], [1, 2], [3, 4]]),
        (True, 10, [[0, 1], [2, 3, 4]]),
        (True, 17, [[0, 1, 2, 3, 4]]),
        (True, 16, [[0, 1, 2, 3], [4]]),
        (True, 1, [[0], [1], [2], [3], [4]]),
    ],
)
def test_rows_of_similar_length_go_together_as_many_as_fit(packed, max_tokens, made):
    lengths = [(3, 3), (1, 3), (2, 2), (1, 1), (0, 1)]  # of prompt and response: rows of 6, 4, 4, 2, 1
    rollouts = [rollout(i, (1,) * prompt, (2,) * response) for i, (prompt, response) in enumerate(lengths)]
    batch = collate(rollouts, np.ones(5), torch.float32, torch.device("cpu"))
    micros = micro_batches(batch, [4, 2, 0, 1, 3], max_tokens, torch.device("cpu"), packed)
    assert [batch.stats.sequence[micro.tokens].unique().tolist() for micro in micros] == made


def test_what_tools_wrote_stands_between_the_response_tokens():
    told = (ToolOutput(1, (90,)), ToolOutput(1, (91, 92)), ToolOutput(3, (93,)))  # behind the first token twice
    one = replace(rollout(1, (1, 2), (3, 4, 5, 6)), tool_outputs=told)
    batch = collate([one, rollout(2, (7,), (8,))], np.array([1.0, -1.0]), torch.float32, torch.device("cpu"))
    assert batch.laid_out(0) == ([1, 2, 3, 90, 91, 92, 4, 5, 93, 6], [2, 6, 7, 9])
    assert batch.laid_out(1) == ([7, 8], [1])
    (micro,) = micro_batches(batch, [0, 1], max_tokens=100, device=torch.device("cpu"), packed=True)
    assert (micro.predictor.tolist(), micro.taken.tolist()) == ([1, 5, 6, 8, 10], [3, 4, 5, 6, 8])


def test_packed_rows_by_hand():
    rollouts = [rollout(1, (1, 2), (3, 4)), rollout(2, (5,), (6,)), rollout(3, (7,), (8, 9))]
    batch = collate(rollouts, np.array([1.0, -1.0, 0.5]), torch.float32, torch.device("cpu"))
    (micro,) = micro_batches(batch, [1, 0, 2], max_tokens=9, device=torch.device("cpu"), packed=True)
    assert micro.input_ids.tolist() == [[1, 2, 3, 4, 7, 8, 9, 5, 6]]
    assert micro.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 2, 0, 1]]
    assert (micro.predictor.tolist(), micro.taken.tolist()) == ([1, 2, 4, 5, 7], [3, 4, 8, 9, 6])
    assert micro.tokens.tolist() == [0, 1, 3, 4, 2]
    (padded,) = micro_batches(batch, [1, 0], max_tokens=9, device=torch.device("cpu"))
    assert padded.position_ids is None and padded.input_ids.shape == (2, 4)
    assert batch.starts == (0, 2, 3)
    assert batch.stats.key.tolist() == [1 << 24, (1 << 24) + 1, 2 << 24, 3 << 24, (3 << 24) + 1]
    empty = nothing_to_run(torch.device("cpu"), packed=True)
    assert (empty.input_ids.tolist(), empty.position_ids.tolist(), len(empty.tokens)) == ([[0]], [[0]], 0)
    assert nothing_to_run(torch.device("cpu"), packed=False).position_ids is None


@pytest.mark.parametrize(
    ("name", "first", "phase", "method", "way"),
    [
        ("dapo", False, 0, "exact", "known"),  # the old policy decides
        ("stapo", True, 0, "exact", "known"),  # of an iteration: the current policy is the old one
        ("stapo", True, 1, "exact", "correct"),  # behind another step on the same tokens
        ("stapo", False, 0, "exact", "correct"),
        ("20-entropy", False, 0, "exact", "probe"),
        ("stapo", False, 0, "probe", "probe"),
        ("stapo", False, 0, "old-policy", "old-policy"),
        ("dapo", False, 0, "probe", "known"),
    ],
)
def test_the_cheapest_way_that_is_exact(name, first, phase, method, way):
    assert _way(Step(objective=toy_objective(name), clip_norm=1.0, first=first, phase=phase, method=method)) == way


@pytest.mark.parametrize(
    ("name", "settings", "rows"),
    [("dapo", None, [1, 2]), ("grpo", {"kl_beta": 0.5}, [0, 1, 2, 3]), ("dro", None, [0, 1, 2, 3])],
)
def test_rows_with_a_gradient(name, settings, rows):
    rollouts = [rollout(i, (1,), (2,)) for i in range(4)]
    batch = collate(rollouts, np.array([0.0, 1.0, -1e-9, 0.0]), torch.float64, torch.device("cpu"))
    assert _rows_with_gradient(batch, toy_objective(name, settings)) == rows


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
    nothing = batch.select_rows([])
    assert (nothing.rows, nothing.starts, nothing.tool_outputs) == ((), (), ())
    assert len(nothing.row_advantages) == len(nothing.stats.key) == 0


def test_the_batches_of_all_ranks_end_to_end():
    rollouts = [rollout(1, (1,), (2, 3)), rollout(2, (1,), ()), rollout(3, (4, 5), (6,))]
    rollouts[2] = replace(rollouts[2], tool_outputs=(ToolOutput(1, (90,)),))
    batch = collate(rollouts, np.array([1.0, 2.0, 3.0]), torch.float32, torch.device("cpu"))
    other_rank_has_the_same = SimpleNamespace(gather=lambda x: torch.cat([x, x]))
    whole = batch.of_all_ranks(other_rank_has_the_same, rollouts * 2)
    assert whole.stats.sequence.tolist() == [0, 0, 2, 3, 3, 5]
    assert whole.starts == (0, 2, 2, 3, 5, 5)
    assert whole.rows == batch.rows * 2 and whole.tool_outputs == batch.tool_outputs * 2
    assert whole.row_advantages.tolist() == [1.0, 2.0, 3.0] * 2
    assert whole.stats.advantages.tolist() == [1.0, 1.0, 3.0] * 2
    assert whole.stats.key.tolist() == batch.stats.key.tolist() * 2
    assert whole.stats.ref_log_probs is None
