"""Trainings whose rollouts call a tool: its tokens are read by the policy, and nothing is ever computed of them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from objective_setup import every_objective
from tool_setup import USE, Clerk, ids_of, request
from train_setup import grade_by_hash, make_base, make_config, result, stop_after

from stapo_bench.errors import UsageError
from stapo_bench.records import ToolOutput
from stapo_bench.tasks import Tool
from stapo_train import rollout, run
from stapo_train.batch import Batch, collate, micro_batches
from stapo_train.check.computed import TOLERANCE, distance, loss_and_gradient, packed
from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.config import RolloutConfig
from stapo_train.inspect.dump import load_dump
from stapo_train.rollout import sample_rollouts
from stapo_train.rollout_files import load_rollouts, save_rollouts
from stapo_train.train_records import Rollout

CPU = torch.device("cpu")


def rolled(response: tuple[int, ...], *outputs: ToolOutput, prompt: tuple[int, ...] = (1, 2)) -> Rollout:
    return Rollout(
        group_id=0, problem_id="p", index=0, seed=5, prompt_ids=prompt, response_ids=response, rollout_log_probs=None,
        text="", finish_reason="stop", tool_outputs=outputs,
    )  # fmt: skip


def batch_of(*rollouts: Rollout) -> Batch:
    return collate(rollouts, np.ones(len(rollouts)), torch.float64, CPU)


def test_where_each_token_stands_by_hand():
    one = rolled((3, 4, 5), ToolOutput(2, (9, 9)))
    twice = rolled((3, 4, 5), ToolOutput(0, (8,)), ToolOutput(2, (9, 9)))
    last = rolled((6,), ToolOutput(1, (7,)))
    batch = batch_of(one, twice, last)
    assert batch.laid_out(0) == ([1, 2, 3, 4, 9, 9, 5], [2, 3, 6])
    assert batch.laid_out(1) == ([1, 2, 8, 3, 4, 9, 9, 5], [3, 4, 7])
    assert batch.laid_out(2) == ([1, 2, 6, 7], [2])
    assert [r.num_positions for r in (one, twice, last)] == [7, 8, 4]
    assert batch.stats.sequence.tolist() == [0, 0, 0, 1, 1, 1, 2]  # seven tokens, the policy's
    (micro,) = micro_batches(batch, [0, 1, 2], 1000, CPU)
    assert micro.input_ids.tolist() == [[1, 2, 8, 3, 4, 9, 9, 5], [1, 2, 3, 4, 9, 9, 5, 0], [1, 2, 6, 7, 0, 0, 0, 0]]
    assert micro.predictor.tolist() == [2, 3, 6, 9, 10, 13, 17]  # the positions before 3 4 5, 3 4 5 and 6
    assert micro.taken.tolist() == [3, 4, 5, 3, 4, 5, 6]
    (end_to_end,) = micro_batches(batch, [0, 1, 2], 1000, CPU, packed=True)
    assert end_to_end.taken.tolist() == [3, 4, 5, 3, 4, 5, 6] and end_to_end.input_ids.shape == (1, 19)
    assert batch.select_rows([2, 0]).laid_out(1) == batch.laid_out(0)
    # 8 positions a row: the tool's count towards what fits
    assert [len(part.input_ids) for part in micro_batches(batch, [0, 1, 2], 16, CPU)] == [2, 1]


def with_outputs(batch: Batch) -> Batch:
    """The batch with outputs of one to four tokens in two rows of three."""
    rng = np.random.default_rng(7)
    outputs = []
    for number, (_, response) in enumerate(batch.rows):
        places = sorted(rng.integers(0, len(response), size=number % 3).tolist())
        outputs.append(
            tuple(ToolOutput(place, tuple(rng.integers(64, size=1 + number % 4).tolist())) for place in places)
        )
    return replace(batch, tool_outputs=tuple(outputs))


def as_prompts(batch: Batch) -> Batch:
    """The same response tokens in rows of their own, all that stood before them their prompt: no tool any more."""
    rows, starts = [], []
    for number, (_, response) in enumerate(batch.rows):
        ids, places = batch.laid_out(number)
        cuts = [0, *(after for after, _ in batch.outputs(number)), len(response)]
        for begin, end in pairwise(cuts):
            if begin < end:
                rows.append((tuple(ids[: places[begin]]), response[begin:end]))
                starts.append(batch.starts[number] + begin)
    return replace(batch, rows=tuple(rows), starts=tuple(starts), tool_outputs=())


@pytest.mark.parametrize("name", every_objective())
def test_a_tools_tokens_are_to_every_objective_what_a_prompts_are(name):
    objective = toy_objective(name)
    batch = with_outputs(toy_batch(objective))
    policy = toy_policy(objective, micro_batch_tokens=128)
    batch = replace(batch, stats=replace(policy.measure(batch), old_log_probs=batch.stats.old_log_probs))
    whole = loss_and_gradient(policy, batch, objective)
    together = replace(policy, micro_batch_tokens=10_000)  # a sequence in several rows may not be parted
    assert distance(whole, loss_and_gradient(together, as_prompts(batch), objective)) < TOLERANCE
    assert distance(whole, packed(policy, batch, objective)) < TOLERANCE
    without = loss_and_gradient(policy, replace(batch, tool_outputs=()), objective)
    assert distance(whole, without) > 1e-3  # the policy does read them


def test_rollouts_by_calls_are_stored_and_read_back(tmp_path):
    config = RolloutConfig(prompts=1, group_size=2, max_new_tokens=200, tool="calculator")
    found = sample_rollouts(Clerk(), [request(4).prompt], config, seed=0, iteration=1, tokenizer=USE.tokenizer)
    one, other = found
    assert "<calculator>4 * 3</calculator><output>12</output>" in one.text and one.text != other.text
    assert [ids for _, ids in one.tool_outputs] == [ids_of("<output>12</output>"), ids_of("<output>13</output>")]
    told = sum(len(ids) for _, ids in one.tool_outputs)
    assert len(one.response_ids) == len(one.rollout_log_probs) == len(one.text) - told
    save_rollouts(tmp_path, 1, found, 1)
    assert str(load_rollouts(tmp_path, 1)) == str(
        (found, 1)
    )  # as text, for rewards that are NaN differ from themselves
    plain = sample_rollouts(Clerk(), [request(4).prompt], replace(config, tool=None), seed=0, iteration=1)
    assert all(r.tool_outputs == () and "<output>" not in r.text for r in plain)


class AtAnE(Tool):
    """A tool whose call ends at a letter that a random model draws now and then."""

    @property
    def end(self) -> str:
        return "e"

    def answer(self, text: str) -> str:
        return "[ok]"


@pytest.fixture
def training(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    monkeypatch.setattr(rollout, "get_tool", lambda name: AtAnE(name=name, version=1, run=str))
    make_base(tmp_path / "base")
    return {"rollout__max_new_tokens": 60, "rollout__tool": "calculator", "update__micro_batch_tokens": 512}


def test_the_trainers_log_probs_are_the_engines_and_lengths_are_the_policys(tmp_path, training, monkeypatch):
    drawn = []

    def grade(rollouts, golds, pool):
        drawn.extend(rollouts)
        return grade_by_hash(rollouts, golds, pool)

    monkeypatch.setattr(run, "grade", grade)
    run.train(make_config(tmp_path, iterations=1, **training), dump_iterations=[1])
    assert sum(len(r.tool_outputs) for r in drawn) >= 2
    (row,) = result(tmp_path / "run")[1]
    # Of a token behind an output that was left out, or one place off, both would differ by a tenth and more.
    assert row["rollout_mismatch"] < 1e-5
    assert row["num_tokens"] == sum(len(r.response_ids) for r in drawn)
    assert row["response_length"] == pytest.approx(np.mean([len(r.response_ids) for r in drawn]))
    dump = load_dump(tmp_path / "run" / "dumps" / "iteration-000001")
    of_second_half = [r.tool_outputs for r in drawn if r.group_id >= 2]
    assert sorted(dump.batch.outputs(row) for row in range(8)) == sorted(of_second_half)


@pytest.mark.slow(reason="three trainings with tool calls, one stopped")
def test_stopped_and_resumed_it_ends_with_the_same_weights(tmp_path, training):
    run.train(make_config(tmp_path, out=str(tmp_path / "whole"), **training))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_after(patch, 2)
        run.train(make_config(tmp_path, **training))
    run.train(make_config(tmp_path, **training), resume=True)
    assert result(tmp_path / "run") == result(tmp_path / "whole")


def test_the_tool_is_part_of_what_a_training_computes(tmp_path):
    with_tool, without = make_config(tmp_path, rollout__tool="calculator"), make_config(tmp_path)
    assert with_tool.digest() != without.digest()
    with pytest.raises(UsageError, match=r"rollout: tool: expected one of calculator or null, got abacus"):
        make_config(tmp_path, rollout__tool="abacus")
