"""Sums and gathers over the ranks of a torch process group, for ``select``."""

import atexit
import os
import sys
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from stapo_train.objective import Reduce

PATIENCE = timedelta(hours=4)
"""With the other ranks: until the longest rollouts are drawn, or a checkpoint is on disk."""


class ProcessGroup:
    """``stapo_train.objective.Reduce`` over the ranks of a group.

    Tensors are moved to ``device`` for the exchange and back afterwards: counts are on the CPU, which NCCL does not
    support.

    Args:
        device: where the group's backend exchanges: a rank's GPU under NCCL, the CPU under gloo.
        group: default: all ranks.
    """

    def __init__(self, device: torch.device, group: dist.ProcessGroup | None = None) -> None:
        self._device = device
        self._group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def sum(self, x: Tensor) -> Tensor:
        """Elementwise sum over ranks."""
        total = x.to(self._device, copy=True)
        dist.all_reduce(total, group=self._group)
        return total.to(x.device)

    def gather(self, x: Tensor) -> Tensor:
        """1-d tensors of any lengths, end to end in rank order."""
        mine = x.to(self._device)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self._device) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(mine)], device=self._device), group=self._group)
        longest = max(int(size) for size in sizes)
        if not longest:
            return x
        padded = torch.cat([mine, mine.new_zeros(longest - len(mine))])
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded, group=self._group)
        return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)]).to(x.device)


def for_another_thread(ranks: Reduce) -> Reduce:
    """The same ranks over connections of their own: two threads of a rank exchange in an order that nobody knows.

    Every rank has to call this. What is exchanged is on the CPU.
    """
    if ranks.size == 1:
        return ranks
    return ProcessGroup(torch.device("cpu"), dist.new_group(backend="gloo", timeout=PATIENCE))


def end_rank() -> NoReturn:
    """Leave the group, and end this process with exit code 0, its interpreter as it stands.

    Threads of gloo outlive the group, which caches of DTensor hold. Where one lets go of the last tensors exchanged as
    the interpreter is taken apart, the process aborts (https://github.com/pytorch/pytorch/pull/179291): a training that
    has succeeded would be told as one that was killed.
    """
    if dist.is_initialized():  # vLLM's engine takes the group along as it closes
        dist.destroy_process_group()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)
