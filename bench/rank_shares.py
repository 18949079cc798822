#!/usr/bin/env python3
"""What one queue of rollouts for all ranks of a training would save: shares fixed beforehand against ideal taking.

    python -m bench.rank_shares --json results/bench/ranks.json

Simulated: engines that draw a token of every open rollout in a step, as a GPU does that memory holds up. Lengths are
log-normal around 2,000 tokens (spread 0.8 between prompts and 0.6 within a group) and end at 20,480. Fixed: each rank
has every N-th rollout, a share of each group, as in the trainer. Queue: a rank takes the next one of all as one of its
own ends. Bound: no way to hand rollouts out ends before the longest of them, nor before all have drawn their part.
"""

import argparse
import json
from collections.abc import Sequence
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any

import numpy as np

from stapo_bench.runs import measured_with

LIMIT = 20_480
CASES = ((2, 16), (4, 16), (8, 16), (8, 64), (8, 256))
"""Ranks, and rollouts that run at once on each."""


def lengths_of(prompts: int, group: int, rng: np.random.Generator) -> list[int]:
    """Tokens of an iteration's rollouts, group by group."""
    logs = np.log(2000) + 0.8 * rng.standard_normal((prompts, 1)) + 0.6 * rng.standard_normal((prompts, group))
    return [int(n) for n in np.clip(np.exp(logs), 1, LIMIT).ravel()]


def ends(lengths: Sequence[int], ranks: int, slots: int) -> list[int]:
    """The step at which each rank is done, where whichever slot of any rank is free first takes the next rollout.

    >>> ends([3, 1, 1, 5], ranks=2, slots=1)  # rank 0: 3, then 5 would begin at 2 on rank 1
    [3, 7]
    """
    free = [(0, slot) for slot in range(ranks * slots)]
    heapify(free)
    for length in lengths:
        now, slot = free[0]
        heapreplace(free, (now + length, slot))
    return [max(end for end, slot in free if slot % ranks == rank) for rank in range(ranks)]


def measure(ranks: int, slots: int, prompts: int, group: int, trials: int) -> dict[str, Any]:
    """Means over iterations: the last rank's end over the bound, and what part of that time ranks wait."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {f"{way}_{what}": [] for way in ("fixed", "queue") for what in ("end", "waiting")}
    for _ in range(trials):
        lengths = lengths_of(prompts, group, rng)
        bound = max(*lengths, sum(lengths) / (ranks * slots))
        fixed = [ends(lengths[rank::ranks], 1, slots)[0] for rank in range(ranks)]
        for way, done in (("fixed", fixed), ("queue", ends(lengths, ranks, slots))):
            found[f"{way}_end"].append(max(done) / bound)
            found[f"{way}_waiting"].append(1 - float(np.mean(done)) / max(done))
    means = {name: round(float(np.mean(values)), 4) for name, values in found.items()}
    return {"ranks": ranks, "slots": slots, "rollouts": prompts * group, **means}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| ranks | at once on each | end over the bound: fixed | queue | ranks wait: fixed | queue |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        late = [f"{row[f'{way}_end']:.3f}" for way in ("fixed", "queue")]
        waits = [f"{100 * row[f'{way}_waiting']:.1f} %" for way in ("fixed", "queue")]
        lines.append(f"| {row['ranks']} | {row['slots']} | {' | '.join(late + waits)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40, help="iterations; default: %(default)s")
    parser.add_argument("--prompts", type=int, default=256, help="of eight rollouts each; default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement here; the rest of the file stays")
    options = parser.parse_args()
    rows = [measure(ranks, slots, options.prompts, 8, options.trials) for ranks, slots in CASES]
    print(table(rows))
    if options.json:
        facts = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        design = {"prompts": options.prompts, "trials": options.trials}
        facts["shares"] = {**measured_with(["numpy"]), **design, "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
