#!/usr/bin/env python3
"""What a rank of a training computes, keeps and is sent, against the number of ranks: what depends on no GPU.

    python -m bench.ranks --json results/bench/ranks.json [--figure docs/ranks.svg] [--ranks 1 2 4]
    python -m bench.ranks --drawn results/bench/ranks.json --figure docs/ranks.svg     # the figure alone

The tiny suite's STAPO from its base model, a few iterations on CPU processes (gloo). By rank: CPU seconds of an
iteration, which other work on the machine does not draw out; tokens drawn and trained on; bytes that it keeps (weights,
moments, gradients) and those of the whole weights that it samples with besides; bytes that it is sent: whole weights
layer by layer, its share of the gradients' sums, and rollouts, statistics and counts. The fullest rank over the mean
says what the others wait for.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import spawn

from stapo_bench.presenting.figures.lines import Line, Lines, Panel, draw, layout_of
from stapo_bench.presenting.figures.registry import Plot
from stapo_bench.presenting.figures.render import save_data
from stapo_bench.runs import measured_with
from stapo_train import run
from stapo_train.batch import collate
from stapo_train.config import load_config
from stapo_train.distributed import ProcessGroup, end_rank
from stapo_train.objective import ONE_PROCESS, Reduce
from stapo_train.rollout import sample_rollouts

TINY = Path(__file__).resolve().parent.parent / "train" / "configs" / "tiny"
SENT: dict[str, tuple[str, Callable[[int, Any, Any], float]]] = {
    "all_gather_single": ("weights", lambda size, out, given: (size - 1) / size * out.nbytes),
    "all_gather_into_tensor": ("weights", lambda size, out, given: (size - 1) / size * out.nbytes),
    "reduce_scatter_single": ("gradients", lambda size, out, given: (size - 1) * out.nbytes),
    "reduce_scatter_tensor": ("gradients", lambda size, out, given: (size - 1) * out.nbytes),
    "all_gather": ("rollouts", lambda size, out, given: (size - 1) * given.nbytes),
    "all_reduce": ("rollouts", lambda size, out, given: 2 * (size - 1) / size * out.nbytes),
}
"""By torch's function: what the trainer sends with it, and the bytes that a ring sends to a rank."""


def here(tensors: Iterator[Tensor]) -> int:
    """Bytes of tensors that this process holds: of sharded ones its share."""
    own = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return sum(tensor.nbytes for tensor in own)


@contextmanager
def counted(found: Counter[str], size: int) -> Iterator[None]:
    """Within it what other ranks send is added to ``found``."""
    before = {name: getattr(dist, name) for name in SENT if hasattr(dist, name)}

    def counting(name: str) -> Callable[..., Any]:
        kind, sent = SENT[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            first, second, *_ = [*args, *(kwargs[k] for k in kwargs if isinstance(kwargs[k], Tensor)), None, None]
            found[f"sent_{kind}"] += round(sent(size, first, second))
            return before[name](*args, **kwargs)

        return call

    try:
        for name in before:
            setattr(dist, name, counting(name))
        yield
    finally:
        for name, function in before.items():
            setattr(dist, name, function)


def measured(ranks: Reduce, out: Path, iterations: int, prompts: int) -> None:
    """Train, and write what this rank has done, in all iterations together, as JSON."""
    found: Counter[str] = Counter()
    iterate = run.iterate

    def iterating(r: run.Run, state: Any) -> Any:
        def look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            found["kept_gradients"] = here(p.grad for p in r.policy.model.parameters() if p.grad is not None)

        start, hook = time.process_time(), r.optimizer.register_step_pre_hook(look)
        with counted(found, ranks.size):
            done = iterate(r, state)
        hook.remove()
        found["cpu_ms"] += round(1000 * (time.process_time() - start))
        found["kept_weights"] = here(r.policy.model.parameters())
        states = r.optimizer.state.values()
        found["kept_moments"] = here(one[name] for one in states for name in ("exp_avg", "exp_avg_sq"))
        found["whole_weights"] = sum(p.numel() * 4 for p in r.policy.model.parameters()) * (ranks.size > 1)
        return done

    def sampling(*args: Any, **kwargs: Any) -> Any:
        rollouts = sample_rollouts(*args, **kwargs)
        found["drawn_tokens"] += sum(len(one.response_ids) for one in rollouts)
        return rollouts

    def collating(share: Sequence[Any], *args: Any) -> Any:
        found["trained_tokens"] += sum(len(one.prompt_ids) + len(one.response_ids) for one in share)
        return collate(share, *args)

    asked = [f"out={out / 'run'}", f"model={TINY / 'base'}", f"iterations={iterations}", f"rollout.prompts={prompts}"]
    with patch.multiple(run, iterate=iterating, sample_rollouts=sampling, collate=collating):
        run.train(load_config(TINY / "stapo.yaml", [*asked, "device=cpu", "checkpoint.every=1000"]), ranks=ranks)
    (out / f"rank{ranks.rank}.json").write_text(json.dumps(found), encoding="utf-8")


def _rank(rank: int, size: int, out: Path, *work: Any) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(out / "meeting"), size), rank=rank, world_size=size)
    measured(ProcessGroup(torch.device("cpu")), out, *work)
    end_rank()


def measure(size: int, iterations: int, prompts: int) -> dict[str, Any]:
    """What each of ``size`` ranks has done, a number of each in order; of counted work and bytes sent per iteration."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        if size == 1:
            measured(ONE_PROCESS, out, iterations, prompts)
        else:
            spawn(_rank, args=(size, out, iterations, prompts), nprocs=size)  # type: ignore[no-untyped-call]
        each = [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(size)]
    per_iteration = ("cpu_ms", "drawn_tokens", "trained_tokens", "sent_weights", "sent_gradients", "sent_rollouts")
    names = [*per_iteration, "kept_weights", "kept_moments", "kept_gradients", "whole_weights"]
    return {"ranks": size} | {
        name: [round(one.get(name, 0) / (iterations if name in per_iteration else 1)) for one in each] for name in names
    }


def kept(row: dict[str, Any]) -> float:
    """Bytes that the fullest rank keeps while weights are updated."""
    return float(max(map(sum, zip(row["kept_weights"], row["kept_moments"], row["kept_gradients"], strict=True))))


def imbalance(values: Sequence[float]) -> float:
    """The fullest rank over the mean."""
    return max(values) * len(values) / sum(values)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown: of CPU seconds and tokens the fullest rank and, in brackets, how far above the mean."""
    lines = [
        "| ranks | CPU s | tokens drawn | tokens trained on | kept, MB | whole weights, MB | sent: weights, MB "
        "| gradients, MB | rollouts and counts, kB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [str(row["ranks"])]
        for name, unit in (("cpu_ms", 1000), ("drawn_tokens", 1), ("trained_tokens", 1)):
            most, above = max(row[name]) / unit, 100 * (imbalance(row[name]) - 1)
            cells.append((f"{most:.1f}" if unit > 1 else f"{most:,.0f}") + (f" (+{above:.0f} %)" * (row["ranks"] > 1)))
        cells += [f"{kept(row) / 1e6:.1f}", f"{max(row['whole_weights']) / 1e6:.1f}"]
        cells += [f"{max(row[f'sent_{name}']) / 1e6:.1f}" for name in ("weights", "gradients")]
        cells.append(f"{max(row['sent_rollouts']) / 1e3:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def save_figure(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """CPU seconds and memory of the fullest rank over the number of ranks, in percent of one process's."""
    alone, sizes = rows[0], tuple(float(row["ranks"]) for row in rows)
    curves = {
        "CPU seconds": [max(row["cpu_ms"]) / max(alone["cpu_ms"]) for row in rows],
        "memory while weights are updated": [kept(row) / kept(alone) for row in rows],
        "memory with whole weights to sample": [
            (kept(row) - max(row["kept_gradients"]) + max(row["whole_weights"])) / kept(alone) for row in rows
        ],
        "1 / ranks": [1 / size for size in sizes],
    }
    lines = tuple(Line(label=name, method=name, x=sizes, y=tuple(y)) for name, y in curves.items())
    data = Lines(
        panels=(Panel(lines=lines, x_label="ranks", log_x=2),),
        y_label="of the fullest rank, % of one process's",
        percent=True,
    )
    title = "A rank's time and memory over the number of ranks"
    plot = Plot(title=title, lacks=lambda _: None, read=lambda _: data, layout=layout_of, draw=draw, note="")
    save_data(plot, data, path, f"python -m bench.ranks --figure {path}")


def main() -> None:
    """Measure, or read what was measured; print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="default: 1 2 4")
    parser.add_argument("--iterations", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--prompts", type=int, default=32, help="of eight rollouts each; default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement here; the rest of the file stays")
    parser.add_argument("--drawn", type=Path, help="measure nothing, and draw what this file holds")
    parser.add_argument("--figure", type=Path, help="draw it, as SVG, PDF or PNG")
    options = parser.parse_args()
    if options.drawn:
        rows = json.loads(options.drawn.read_text(encoding="utf-8"))["rows"]
    else:
        rows = [measure(size, options.iterations, options.prompts) for size in options.ranks]
    print(table(rows))
    if options.json:
        command = f"python -m bench.ranks --iterations {options.iterations} --prompts {options.prompts}"
        facts = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        record = facts | {"command": command, "rows": rows, **measured_with(["torch", "transformers"])}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.figure:
        save_figure(rows, options.figure)


if __name__ == "__main__":
    main()
