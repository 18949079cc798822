"""Loss and gradient on two ranks, each with its share of the rollouts."""

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.multiprocessing.spawn import start_processes

from stapo_train.check.computed import Computed, loss_and_gradient
from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.distributed import ProcessGroup, end_rank

Asked = tuple[str, Mapping[str, Any] | None]
"""An objective's name and its settings; None: those of the toy."""


def two_ranks(objectives: Sequence[Asked]) -> list[Computed]:
    """Loss and gradient of each objective (phase 1), its rollouts divided between two gloo processes."""
    # Both are forks of a process that has imported this module and does nothing else: importing takes longest by far.
    multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
    with TemporaryDirectory() as folder:
        work = (Path(folder), objectives)
        start_processes(_rank, args=work, nprocs=2, start_method="forkserver")  # type: ignore[no-untyped-call]
        found = load_file(Path(folder) / "results")
    losses = found.pop("losses").tolist()
    return [Computed(loss=loss, gradient=found[str(number)]) for number, loss in enumerate(losses)]


def _rank(rank: int, folder: Path, objectives: Sequence[Asked]) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "meeting"), 2)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    found = []
    for name, settings in objectives:
        objective = toy_objective(name, settings)
        batch = toy_batch(objective)
        share = batch.select_rows(
            [r for r in range(len(batch.rows)) if r % 3 == 0]
            if rank == 0
            else [r for r in range(len(batch.rows)) if r % 3]
        )  # unequal shares
        computed = loss_and_gradient(toy_policy(objective), share, objective, reduce=ProcessGroup(torch.device("cpu")))
        found.append(computed)
    if rank == 0:
        losses = torch.tensor([computed.loss for computed in found], dtype=torch.float64)
        gradients = {str(number): computed.gradient for number, computed in enumerate(found)}
        save_file({"losses": losses, **gradients}, folder / "results")
    end_rank()
