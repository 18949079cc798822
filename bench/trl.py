"""Ours and TRL's GRPOTrainer: iterations per second, peak memory and learning curves, on one machine in turns.

    scripts/integration.sh trl     # makes .venv-trl
    .venv-trl/bin/python -m bench.trl --model runs/tiny/base [--rounds 2] [--iterations 20] [--json FILE]

Both train the same weights with the same objective (JustRL: DAPO's loss, dual clip), prompts in the same order, 32
prompts x 8 rollouts an iteration, four optimizer steps on 64 rollouts each, the same learning rates, and the strict
grader inside the process. Each is a process of its own with one thread, and they take turns iteration by iteration, so
that whatever else the machine does meets both alike; the first iteration warms up.

    python -m bench.trl --size 0.6b --rounds 1 --iterations 4 [--json results/bench/trl_gpu.json]

is the same on an NVIDIA GPU with a model of random weights, in bfloat16 over float32 weights. A random model answers
nothing, so a rollout earns 1 where its token ids have an even sum; memory is then that of tensors on the GPU. Without
TRL ours is measured alone. What differs: TRL shuffles an
iteration's rollouts over its mini-batches where we keep groups together, divides by the average mini-batch's tokens
where we count each one's, and adds 1e-4 to the std where we add 1e-6.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import gpu_setup as setup
from bench.trl_trainers import TICK, Measured, run_ours, run_trl
from stapo_bench.runs import measured_with

TRAINERS = ("ours", "trl")
TRL_ROWS = 16  # rollouts in a forward pass: of 8, 16, 32 and 64 what took least time, and least memory too
SETTINGS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


def main() -> None:
    """Run both trainers in turns, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="checkpoint to start from")
    setup.add_options(parser)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each trainer, each with its seed")
    parser.add_argument("--iterations", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--trl-rows", type=int, default=TRL_ROWS, help="of a forward pass; default: %(default)s")
    parser.add_argument("--json", type=Path, help="where to write all of it")
    parser.add_argument("--trainer", choices=TRAINERS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.trainer and (options.model is None) == (options.size is None):
        parser.error("expected --model or --size, and not both")
    if options.trainer:
        with tempfile.TemporaryDirectory() as folder:
            run: Callable[[argparse.Namespace, str], Measured] = {"ours": run_ours, "trl": run_trl}[options.trainer]
            print(json.dumps(asdict(run(options, folder))))
        return
    trainers = TRAINERS if find_spec("trl") else TRAINERS[:1]
    if len(trainers) < len(TRAINERS):
        print("trl: not run: No module named 'trl'")
    with tempfile.TemporaryDirectory() as folder:
        if options.size:
            options.model = save_random(setup.SIZES[options.size], Path(folder) / "model")
        seeds = range(1, options.rounds + 1)
        found = [measured for seed in seeds for measured in take_turns(trainers, seed, options)]
    report = {"summary": summarise(trainers, found), **about(options), "measured": [asdict(m) for m in found]}
    print(render(report["summary"], options.size or options.model))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def save_random(size: setup.Size, folder: Path) -> str:
    """A checkpoint of random weights. Its tokenizer knows a few of its tokens, the others are read as nothing."""
    from stapo_train.tiny.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(["What is 1+1?\n2\n"], 260)
    model = setup.random_model(size, "cpu")
    model.generation_config.pad_token_id = model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def take_turns(trainers: Sequence[str], seed: int, options: argparse.Namespace) -> list[Measured]:
    """The trainers from one seed, an iteration each in turn."""
    workers = {name: start(name, seed, options) for name in trainers}
    for iteration in range(1, options.iterations + 1):
        for worker in workers.values():
            if iteration > 1:
                worker.stdin.write("go on\n")
                worker.stdin.flush()
            read_until(worker, TICK)
        print(f"seed {seed}: iteration {iteration}/{options.iterations}", file=sys.stderr)
    found = []
    for worker in workers.values():
        rest, _ = worker.communicate("go on\n")
        found.append(Measured(**json.loads(rest.splitlines()[-1])))
    return found


def start(trainer: str, seed: int, options: argparse.Namespace) -> Any:
    """A process of its own for one trainer and seed."""
    command = [sys.executable, "-m", "bench.trl", "--iterations", str(options.iterations), "--model", options.model]
    command += ["--trl-rows", str(options.trl_rows), "--trainer", trainer, "--seed", str(seed)]
    command += ["--size", options.size] * bool(options.size) + ["--device", options.device]
    environment = {**os.environ, **SETTINGS}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_until(worker: Any, line: str) -> None:
    """Skip a worker's output up to this line."""
    for found in worker.stdout:
        if found.strip() == line:
            return
    raise SystemExit(f"{' '.join(worker.args)}: ended before its time")


def summarise(trainers: Sequence[str], found: list[Measured]) -> dict[str, Any]:
    """Medians over all iterations, the worst peak, rewards over all rounds; and TRL's by ours."""

    def of(name: str) -> dict[str, Any]:
        mine = [m for m in found if m.trainer == name]
        curves = [[round(r, 4) for r in m.rewards] for m in mine]
        return {
            "wall_s": round(statistics.median(s for m in mine for s in m.wall_s), 3),
            "cpu_s": round(statistics.median(s for m in mine for s in m.cpu_s), 3),
            "start_mib": round(max(m.start_mib for m in mine)),
            "peak_mib": round(max(m.peak_mib for m in mine)),
            "reward_first_3": round(statistics.mean(r for curve in curves for r in curve[:3]), 4),
            "reward_last_3": round(statistics.mean(r for curve in curves for r in curve[-3:]), 4),
            "mean_curve": [round(statistics.mean(rewards), 4) for rewards in zip(*curves, strict=True)],
        }

    both = {name: of(name) for name in trainers}
    if len(both) == 1:
        return both
    ours, theirs = both["ours"], both["trl"]
    ratios = {f"trl / ours: {key}": round(theirs[key] / ours[key], 2) for key in ("wall_s", "cpu_s", "peak_mib")}
    return {**both, **ratios}


def render(summary: dict[str, Any], model: str) -> str:
    """A short table: seconds, memory, rewards."""
    lines = [
        f"an iteration, {model}:",
        f"  {'':<6}{'wall s':>9}{'a second':>10}{'CPU s':>9}{'peak MiB':>10}{'before':>8}{'reward':>16}",
    ]
    for name in TRAINERS:
        if name in summary:
            row = summary[name]
            lines.append(
                f"  {name:<6}{row['wall_s']:>9.2f}{1 / row['wall_s']:>10.2f}{row['cpu_s']:>9.2f}{row['peak_mib']:>10}"
                f"{row['start_mib']:>8}{row['reward_first_3']:>8.3f} to {row['reward_last_3']:.3f}"
            )
    return "\n".join(lines + [f"  {key}: {value}" for key, value in summary.items() if key not in TRAINERS])


def about(options: argparse.Namespace) -> dict[str, Any]:
    """What was compared, in words."""
    return {
        **measured_with(("trl", "torch", "transformers", "accelerate")),
        "model": options.size or options.model,
        "threads": 1,
        "iterations": options.iterations,
        "trl_rows": options.trl_rows,
    }


if __name__ == "__main__":
    main()
