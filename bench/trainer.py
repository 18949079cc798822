#!/usr/bin/env python3
"""What does an exact mask cost? The same updates under JustRL and every way to STAPO's, in one run.

    python -m bench.trainer --model runs/tiny/base [--rounds 9] [--json OUT]                 # CPU seconds
    python -m bench.trainer --size 0.6b --rounds 3 [--json results/bench/trainer_gpu.json]   # an NVIDIA GPU

Draws one iteration's rollouts (with --size: a model of random weights, rollouts of random tokens and the paper's
learning rate), then runs its four optimizer steps from the same weights, in turns: under JustRL (no mask), and under
STAPO exactly (by correction: ``update.selection: exact``), by a pass without gradient (``probe``), and
by the old policy's statistics (``old-policy``, an approximation). Candidates are planted by the threshold: tau_p is put
where the asked share of all response tokens has A > 0 and a smaller probability.

A round runs each way once, on a CPU all of them a step at a time, in an order that rotates. Ratios are taken within a
round and their median is told, so that what else the machine does falls on all alike. On a GPU the time is the wall's
and the ways run one after another, so that memory holds one of them. What can be counted is counted beside it:
the rollouts that run twice, of those that have a gradient.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import gpu_setup as setup
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.grading import GraderPool
from stapo_bench.runs import measured_with
from stapo_train.advantages import group_advantages
from stapo_train.batch import Batch, collate
from stapo_train.config import TrainConfig, load_config
from stapo_train.data import load_problems, problem_indices
from stapo_train.objective import TokenStats
from stapo_train.objectives import for_run
from stapo_train.optimizer import make_optimizer
from stapo_train.policy import Policy, load_model
from stapo_train.prompts import render
from stapo_train.reward import grade
from stapo_train.rollout import sample_rollouts
from stapo_train.train_records import UpdateRecord
from stapo_train.update import Method, Step, optimizer_step

CONFIG = Path(__file__).resolve().parent.parent / "train" / "configs" / "tiny" / "stapo.yaml"
RATES = (1e-4, 1e-2)  # candidates per response token: the paper's order of magnitude, and a hundred times as many
WAYS: tuple[Method, ...] = ("exact", "probe", "old-policy")


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """An objective and how its selection is made."""

    label: str
    objective: dict[str, Any]
    method: Method
    rate: float | None = None  # of candidates; None: no mask


def main() -> None:
    """Measure each contestant, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="checkpoint to start from")
    setup.add_options(parser)
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    parser.add_argument("--prompts", type=int, default=128, help="of eight rollouts each; default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement to this file")
    options = parser.parse_args()
    if (options.model is None) == (options.size is None):
        parser.error("expected --model or --size, and not both")
    torch.set_num_threads(1)
    if options.size:
        config, policy, parts = prepare_random(setup.SIZES[options.size], options.device)
    else:
        config = load_config(CONFIG, [f"model={options.model}", f"rollout.prompts={options.prompts}", "seed=1"])
        policy, parts = prepare(config)
    stats = [part.stats for part in parts]
    contestants = [Contestant(label="justrl", objective={"name": "justrl"}, method="exact")] + [
        Contestant(label=f"stapo, {way}", objective=objective, method=way, rate=rate)
        for rate in RATES
        for objective in [{"name": "stapo", "tau_p": planted_threshold(stats, rate)}]
        for way in WAYS
    ]
    seconds: list[list[float]] = []  # [round][contestant]
    done: list[Ran] = []
    for number in range(options.rounds + 1):
        done = one_round(config, policy, parts, contestants, number)
        if number:  # the first round warms up
            seconds.append([ran.seconds for ran in done])
    result = {
        "size": options.size or options.model,
        "num_rollouts": sum(len(part.rows) for part in parts),
        "num_tokens": sum(len(s.key) for s in stats),
        "num_rollouts_with_gradient": sum(int((part.row_advantages != 0).sum()) for part in parts),
        "optimizer_steps": len(parts),
        "clock": "wall" if policy.device.type == "cuda" else "cpu",
        "rounds": options.rounds,
        "ways": [summary(c, done[i], [row[i] for row in seconds], [row[0] for row in seconds])
                 for i, c in enumerate(contestants)],
        **measured_with(["stapo-bench", "torch", "transformers"]),
    }  # fmt: skip
    print(render_table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


@dataclass(kw_only=True)
class Ran:
    """One way's optimizer steps of a round."""

    seconds: float = 0.0
    records: list[UpdateRecord] = field(default_factory=list)
    peak_bytes: int | None = None


def one_round(
    config: TrainConfig, policy: Policy, parts: Sequence[Batch], contestants: Sequence[Contestant], number: int
) -> list[Ran]:
    """Every way once, from the same weights."""
    done, count = [Ran() for _ in contestants], len(contestants)

    def run(i: int, running: Iterator[tuple[float, UpdateRecord]]) -> None:
        spent, record = next(running)
        done[i].seconds += spent
        done[i].records.append(record)

    if policy.device.type == "cuda":
        for place in range(count):
            i = (place + number) % count
            torch.cuda.reset_peak_memory_stats()
            running = steps(config, policy, parts, contestants[i])
            for _ in parts:
                run(i, running)
            done[i].peak_bytes = setup.peak_bytes("cuda")
        return done
    all_running = [steps(config, policy, parts, contestant) for contestant in contestants]
    for step in range(len(parts)):
        for place in range(count):
            i = (place + step + number) % count
            run(i, all_running[i])
    return done


def prepare_random(size: setup.Size, device: str) -> tuple[TrainConfig, Policy, list[Batch]]:
    """The same of random weights and tokens."""
    limits = [f"rollout.max_new_tokens={size.max_new_tokens}", f"rollout.prompts={size.rollouts // setup.GROUP_SIZE}"]
    config = load_config(CONFIG, ["model=random", "optim.lr=1e-6", *limits])
    policy = Policy(
        model=setup.random_model(size, device),
        temperature=1.0,
        micro_batch_tokens=size.micro_batch_tokens,
        autocast=device == "cuda",
    )
    batch, group_ids = setup.random_batch(size, device)
    return config, policy, mini_batches(config, policy, batch, np.array(group_ids))


def prepare(config: TrainConfig) -> tuple[Policy, list[Batch]]:
    """The policy, and an iteration's mini-batches with the statistics of the policy that drew them."""
    model, tokenizer = load_model(Path(config.model), config)
    problems = load_problems(config.data, config.seed)
    asked = [problems[i] for i in problem_indices(len(problems), config.seed, 0, config.rollout.prompts)]
    prompts = render(asked, config, tokenizer)
    drawn = sample_rollouts(
        TransformersEngine(model, tokenizer), prompts, config.rollout, seed=config.seed, iteration=1
    )
    with GraderPool(1, grader="strict") as pool:
        rollouts = grade(drawn, {group: problem.gold for group, problem in enumerate(asked)}, pool)
    group_ids = np.array([r.group_id for r in rollouts])
    advantages = group_advantages(np.array([r.reward for r in rollouts]), group_ids)
    batch = collate(rollouts, advantages, torch.float32, torch.device("cpu"))
    policy = Policy(model=model, temperature=1.0, micro_batch_tokens=config.update.micro_batch_tokens)
    return policy, mini_batches(config, policy, batch, group_ids)


def mini_batches(config: TrainConfig, policy: Policy, batch: Batch, group_ids: np.ndarray) -> list[Batch]:
    """The iteration's mini-batches, measured by the policy at its start."""
    old = policy.measure(batch)
    batch = replace(batch, stats=replace(old, old_log_probs=old.log_probs))
    groups_each = config.rollout.prompts // config.update.mini_batches
    rows = [np.flatnonzero(group_ids // groups_each == n).tolist() for n in range(config.update.mini_batches)]
    return [batch.select_rows(part) for part in rows]


def planted_threshold(stats: Sequence[TokenStats], rate: float) -> float:
    """tau_p under which ``rate`` of all response tokens are candidates, halfway to the next token."""
    good = torch.cat([s.log_probs[s.advantages > 0] for s in stats]).double().exp().sort().values
    count = max(1, round(rate * sum(len(s.key) for s in stats)))
    around = good[count - 1 : count + 1]
    return float(around.mean()) if len(around) else 0.0  # fewer tokens than that have A > 0


def steps(
    config: TrainConfig, policy: Policy, parts: Sequence[Batch], contestant: Contestant
) -> Iterator[tuple[float, UpdateRecord]]:
    """An iteration's optimizer steps on a copy of the weights: seconds of each, and what it did."""
    device = policy.device.type
    policy = replace(policy, model=copy.deepcopy(policy.model))
    objective = for_run(contestant.objective, seed=0, max_new_tokens=config.rollout.max_new_tokens)
    optimizer = make_optimizer(policy.model, config.optim)
    for number, part in enumerate(parts):
        step = Step(objective=objective, clip_norm=1.0, method=contestant.method, first=number == 0)
        start = now(device)
        record = optimizer_step(policy, optimizer, part, step)
        yield now(device) - start, record


def now(device: str) -> float:
    """Seconds: of CPU time, on a GPU of the wall's when its work is done."""
    setup.synchronized(device)
    return time.perf_counter() if device == "cuda" else time.process_time()


def summary(contestant: Contestant, ran: Ran, spent: Sequence[float], base: Sequence[float]) -> dict[str, Any]:
    """One way's times, their ratio to JustRL's of the same round, and what its optimizer steps decided."""
    ratios = [a / b for a, b in zip(spent, base, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    counts = ("num_candidates", "num_silenced", "num_decisions_changed", "num_rows_rerun")
    return {
        "way": contestant.label,
        "candidate_rate": contestant.rate,
        "tau_p": contestant.objective.get("tau_p"),
        "seconds": statistics.median(spent),
        "ratio_to_justrl": middle,
        "ratio_quartiles": [low, high],
        "peak_bytes": ran.peak_bytes,
        **{name: sum(getattr(record, name) for record in ran.records) for name in counts},
    }


def render_table(result: dict[str, Any]) -> str:
    """A short table: seconds, ratios to JustRL, tokens."""
    lines = [
        f"| way | candidate rate | {result['clock']} s | of JustRL's | quartiles | candidates | silenced | changed | "
        "rows again | peak MB |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for way in result["ways"]:
        low, high = way["ratio_quartiles"]
        rate = "" if way["candidate_rate"] is None else f"{way['candidate_rate']:.0e}"
        lines.append(
            f"| {way['way']} | {rate} | {way['seconds']:.3f} | {way['ratio_to_justrl']:.3f} | "
            f"{low:.3f} to {high:.3f} | {way['num_candidates']} | {way['num_silenced']} | "
            f"{way['num_decisions_changed']} | {way['num_rows_rerun']} | {setup.megabytes(way['peak_bytes'])} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
