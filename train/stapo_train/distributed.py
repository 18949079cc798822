"""Sums and gathers over the ranks of a torch process group, for ``select``."""

import torch
import torch.distributed as dist
from torch import Tensor


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

    def sum(self, x: Tensor) -> Tensor:
        """Elementwise sum over ranks."""
        total = x.to(self._device, copy=True)
        dist.all_reduce(total, group=self._group)
        return total.to(x.device)

    def gather(self, x: Tensor) -> Tensor:
        """1-d tensors of any lengths, end to end in rank order."""
        ranks = dist.get_world_size(self._group)
        mine = x.to(self._device)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self._device) for _ in range(ranks)]
        dist.all_gather(sizes, torch.tensor([len(mine)], device=self._device), group=self._group)
        longest = max(int(size) for size in sizes)
        padded = torch.cat([mine, mine.new_zeros(longest - len(mine))])
        parts = [torch.empty_like(padded) for _ in range(ranks)]
        dist.all_gather(parts, padded, group=self._group)
        return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)]).to(x.device)
