"""Ranks without their processes: how work is spread, what a rank without any does, what is exchanged, what is said."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from objective_setup import every_objective
from torch.utils._pytree import tree_flatten
from train_setup import make_config

from stapo_bench.records import Completion, Prompt
from stapo_train.batch import spread
from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.distributed import ProcessGroup
from stapo_train.objective import ONE_PROCESS, select
from stapo_train.objectives import REGISTRY
from stapo_train.rollout import sample_rollouts
from stapo_train.rollout_files import from_all_ranks
from stapo_train.update import Step, accumulate_gradient

# --- spreading --------------------------------------------------------------------------------------------------------


def largest(lengths, owners, size):
    """Tokens of the rank that has most."""
    return max(sum(n for n, owner in zip(lengths, owners, strict=True) if owner == rank) for rank in range(size))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7), st.integers(1, 3))
def test_the_fullest_rank_has_at_most_four_thirds_of_what_is_possible(lengths, size):
    owners = spread(lengths, [0] * len(lengths), size)
    best = min(largest(lengths, way, size) for way in itertools.product(range(size), repeat=len(lengths)))
    assert largest(lengths, owners, size) <= (4 / 3 - 1 / (3 * size)) * best + 1e-9


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2)), max_size=30), st.integers(1, 8))
def test_every_part_is_spread_by_itself(rows, size):
    lengths, parts = [n for n, _ in rows], [part for _, part in rows]
    owners = spread(lengths, parts, size)
    assert all(0 <= owner < size for owner in owners)
    for part in set(parts):
        alone = [i for i, p in enumerate(parts) if p == part]
        loads = [sum(lengths[i] for i in alone if owners[i] == rank) for rank in range(size)]
        assert max(loads) - min(loads) <= max(lengths[i] for i in alone)


def test_ranks_with_equal_loads_take_turns_over_parts():
    assert spread([4, 4], ["first", "second"], 2) == [0, 1]


def test_one_rank_has_all():
    assert spread([3, 1, 2], [0, 1, 0], 1) == [0, 0, 0]


class Beside:
    """Rank 0 of two, of which the other always has ``more`` passes, and no tokens."""

    rank, size = 0, 2

    def __init__(self, more: int) -> None:
        self.more = more

    def sum(self, x):
        return x

    def gather(self, x):
        return x + self.more if x.dtype == torch.int64 and x.shape == (1,) else x


@pytest.mark.parametrize("name", every_objective())
def test_a_pass_without_rows_changes_no_gradient(name):
    objective = toy_objective(name)
    batch = toy_batch(objective)
    found = []
    for ranks in (ONE_PROCESS, Beside(2)):
        policy = replace(toy_policy(objective, micro_batch_tokens=64), ranks=ranks)
        accumulate_gradient(policy, batch, Step(objective=objective, clip_norm=1.0, first=False))
        found.append(torch.cat([p.grad.flatten() for p in policy.model.parameters()]))
    assert torch.equal(*found)
    assert found[0].abs().max() > 0


def test_a_rank_without_rows_makes_as_many_passes_as_the_other():
    policy = replace(toy_policy(toy_objective("stapo")), ranks=Beside(3))
    batch = toy_batch(toy_objective("stapo"))
    assert [len(micro.tokens) for micro in policy.split(batch, [])] == [0, 0, 0]


# --- rollouts ---------------------------------------------------------------------------------------------------------


class Echo:
    """An engine whose completion is its request's seed, and which remembers what it was asked."""

    def generate(self, requests, params):
        for request in requests:
            yield Completion(
                key=request.key,
                text=str(request.seed),
                finish_reason="stop",
                num_tokens=1,
                token_ids=(1,),
                log_probs=(0.0,),
            )


class Rank:
    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


def drawn(tmp_path, ranks):
    config = make_config(tmp_path).rollout
    prompts = [Prompt(task="t", problem_id=str(i), text="p", token_ids=(2,)) for i in range(3)]
    return sample_rollouts(Echo(), prompts, config, seed=5, iteration=2, first_group=4, ranks=ranks)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_rollout_is_the_same_on_whichever_rank_and_each_rank_has_its_share_of_each_group(tmp_path, size):
    whole = drawn(tmp_path, ONE_PROCESS)
    shares = [drawn(tmp_path, Rank(rank, size)) for rank in range(size)]
    assert sorted((r for share in shares for r in share), key=lambda r: (r.group_id, r.index)) == whole
    for group in (4, 5, 6):
        counts = [sum(r.group_id == group for r in share) for share in shares]
        assert max(counts) - min(counts) <= 1


class InTurn:
    """Gathers what was handed in up to now, as from ranks that come one after the other."""

    size = 3

    def __init__(self) -> None:
        self.parts: list[torch.Tensor] = []

    def gather(self, x):
        self.parts.append(x)
        return torch.cat(self.parts)


def test_what_ranks_exchange_is_what_they_drew(tmp_path):
    share = drawn(tmp_path, ONE_PROCESS)
    share[0] = replace(share[0], text="zwei\n\u2028 \u03c0", reward=float("nan"), rollout_log_probs=(-0.1, -1e-17))
    ranks = InTurn()
    assert from_all_ranks([], ranks) == []
    assert str(from_all_ranks(share, ranks)) == str(share)  # as text: NaN is not itself
    assert str(from_all_ranks(share[:2], ranks)) == str(share + share[:2])


# --- what NCCL refuses ------------------------------------------------------------------------------------------------


class OnGpu(torch.Tensor):
    """A tensor that stands for one on a GPU: it mixes with no other."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            tensors = [t for t in tree_flatten((args, kwargs or {}))[0] if isinstance(t, torch.Tensor) and t.dim()]
        if function not in _MOVES and any(not isinstance(t, OnGpu) for t in tensors):
            raise RuntimeError("Expected all tensors to be on the same device")
        return super().__torch_function__(function, types, args, kwargs or {})


_MOVES = {torch.Tensor.to, torch.Tensor.copy_, torch.Tensor.as_subclass}


class FakeGpu:
    """``dist`` over one rank beside a twin, with NCCL's demands: tensors of one shape on a GPU, and no objects."""

    def __init__(self, monkeypatch) -> None:
        self.calls: list[str] = []
        made = {name: getattr(torch, name) for name in ("zeros", "tensor")}
        for name, make in made.items():
            monkeypatch.setattr(torch, name, lambda *a, make=make, device=None, **k: self.placed(make(*a, **k), device))
        move = torch.Tensor.to
        monkeypatch.setattr(torch.Tensor, "to", lambda x, *a, **k: self.moved(move, x, *a, **k))
        for name in ("all_gather_object", "broadcast_object_list", "gather_object", "barrier"):
            monkeypatch.setattr(torch.distributed, name, self.refuse)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 0)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
        monkeypatch.setattr(torch.distributed, "all_reduce", self.all_reduce)
        monkeypatch.setattr(torch.distributed, "all_gather", self.all_gather)

    def placed(self, x, device):
        return x.as_subclass(OnGpu) if device is not None and torch.device(device).type == "cuda" else x

    def moved(self, move, x, *args, **kwargs):
        if args and isinstance(args[0], torch.device):
            plain = x.as_subclass(torch.Tensor)
            plain = plain.clone() if kwargs.get("copy") else plain
            return self.placed(plain, args[0])
        return move(x, *args, **kwargs)

    def refuse(self, *_args, **_kwargs):
        raise RuntimeError("an object cannot be exchanged without a copy to the CPU")

    def check(self, *tensors):
        assert all(isinstance(x, OnGpu) and x.is_contiguous() for x in tensors), "No backend type associated with cpu"
        assert len({(x.dtype, x.shape) for x in tensors}) == 1, "NCCL wants equal sizes and types"

    def all_reduce(self, x, group=None):
        self.check(x)
        self.calls.append("all_reduce")
        x.as_subclass(torch.Tensor).mul_(2)

    def all_gather(self, parts, x, group=None):
        self.check(*parts, x)
        self.calls.append("all_gather")
        for part in parts:
            part.as_subclass(torch.Tensor).copy_(x.as_subclass(torch.Tensor))


def test_sums_and_gathers_are_of_tensors_on_the_gpu(monkeypatch):
    FakeGpu(monkeypatch)
    ranks = ProcessGroup(torch.device("cuda"))
    counts = torch.arange(3)  # on the CPU, where counts are
    assert (ranks.rank, ranks.size) == (0, 2)
    assert ranks.sum(counts).tolist() == [0, 2, 4] and counts.tolist() == [0, 1, 2]
    found = ranks.gather(torch.tensor([1.5, 2.5]))
    assert type(found) is torch.Tensor and found.tolist() == [1.5, 2.5, 1.5, 2.5]
    assert ranks.gather(torch.zeros(0)).tolist() == []


@pytest.mark.parametrize("name", REGISTRY)
def test_no_objective_asks_of_nccl_what_it_refuses(name, monkeypatch):
    objective = toy_objective(name)
    stats = toy_batch(objective).stats
    gpu = FakeGpu(monkeypatch)
    selection = select(stats, objective, ProcessGroup(torch.device("cuda")))
    assert gpu.calls
    assert selection.num_tokens == 2 * len(stats.key)


def test_the_double_refuses(monkeypatch):
    gpu = FakeGpu(monkeypatch)
    with pytest.raises(AssertionError, match="No backend type"):
        gpu.all_reduce(torch.ones(2))
    with pytest.raises(AssertionError, match="No backend type"):
        ProcessGroup(torch.device("cpu")).sum(torch.ones(2))
    with pytest.raises(RuntimeError, match="object"):
        torch.distributed.all_gather_object([None], "text")
