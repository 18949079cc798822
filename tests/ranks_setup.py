"""Trainings on several processes of this machine; imported by the tests of ranks."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load
from torch.multiprocessing.spawn import spawn
from train_setup import grade_by_hash, make_config, result

from stapo_train import run
from stapo_train.distributed import ProcessGroup, end_rank

TOLERANCE = 1e-6
RELATIVE = 1e-4  # of metrics: float32 sums over ranks are made in another order

SETTINGS = {
    "iterations": 5,
    "checkpoint__every": 5,
    # AdamW divides by the gradient's size: with its usual epsilon a gradient that is rounding alone moves weights.
    "optim": {"lr": 1e-3, "warmup_iterations": 2, "eps": 1e-4},
}
"""Of the trainings that are compared: enough steps for a difference to show, and none that rounding alone makes."""


GRADED_BY_HASH = """
from train_setup import grade_by_hash
from stapo_train import run
run.grade = grade_by_hash
"""
"""A ``sitecustomize.py`` for processes whose rollouts are graded so."""

HELD = """
import os, time
from pathlib import Path
def held(*rollouts):
    while Path({metrics!r}).read_bytes().count(b"\\n") >= int(os.environ.get("HELD_AT", "1000")):
        time.sleep(0.02)
    return grade_by_hash(*rollouts)
run.grade = held
"""
"""Behind it: a training that has logged so many iterations grades no further and waits to be killed, however late."""


def on_ranks(size: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call ``work(ranks, *arguments)`` on each of ``size`` gloo processes."""
    with TemporaryDirectory() as folder:
        spawn(_rank, args=(size, f"{folder}/meeting", work, arguments), nprocs=size)


def _rank(rank: int, size: int, meeting: str, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}  # as a launcher says them
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(meeting, size), rank=rank, world_size=size)
    work(ProcessGroup(torch.device("cpu")), *arguments)
    end_rank()


def train_each(
    ranks: Any,
    folder: Path,
    wanted: Mapping[str, Mapping[str, Any]],
    resume: bool = False,
    dump_iterations: Sequence[int] = (),
) -> None:
    """Train by each of the named changes of the small config, into a folder of that name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "grade", grade_by_hash)
        for name, changes in wanted.items():
            config = make_config(folder, out=str(folder / f"{ranks.size}" / name), **{**SETTINGS, **changes})
            run.train(config, ranks=ranks, resume=resume, dump_iterations=dump_iterations)


def assert_same_training(a: Path, b: Path) -> None:
    """The same final weights to ``TOLERANCE``, and the same metrics as ``assert_same`` has them."""
    (weights, rows), (others, other_rows) = result(a), result(b)
    ours, theirs = load(weights), load(others)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert float((tensor - theirs[name]).abs().max()) <= TOLERANCE, name
    assert len(rows) == len(other_rows)
    for row, other in zip(rows, other_rows, strict=True):
        for key in row.keys() - {"crc32"}:
            assert_same(row[key], other[key], f"{key} of iteration {row['iteration']}")


def assert_same(a: Any, b: Any, what: str) -> None:
    """Numbers to ``TOLERANCE``, or to a ten-thousandth of their size where that is more; everything else exactly."""
    if isinstance(a, Mapping):
        assert a.keys() == b.keys(), what
        for key, value in a.items():
            assert_same(value, b[key], f"{what}, {key}")
    elif isinstance(a, Sequence) and not isinstance(a, str):
        assert len(a) == len(b), what
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, what)
    elif isinstance(a, float):
        assert np.isclose(a, b, rtol=RELATIVE, atol=TOLERANCE), f"{what}: {a} and {b}"
    else:
        assert a == b, what


def rank_processes(launcher: int) -> dict[str, int]:
    """Process ids by rank."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    found = {}
    for pid in map(int, children):
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found.update({entry[5:].decode(): pid for entry in environment if entry.startswith(b"RANK=")})
    return found
