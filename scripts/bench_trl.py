"""Ours and TRL's GRPOTrainer: iterations per second, peak memory and learning curves, on one machine in turns.

    scripts/integration.sh trl     # makes .venv-trl
    .venv-trl/bin/python scripts/bench_trl.py --model runs/tiny/base [--rounds 3] [--iterations 20] [--json FILE]

Both train the same weights with the same objective (JustRL: DAPO's loss, dual clip), prompts in the same order, 32
prompts x 8 rollouts an iteration, four optimizer steps on 64 rollouts each, the same learning rates, and the strict
grader inside the process. Each turn is a process of its own with one thread; the first iteration warms up. What
differs: TRL shuffles an iteration's rollouts over its mini-batches where we keep groups together, divides by the
average mini-batch's tokens where we count each one's, and adds 1e-4 to the std where we add 1e-6.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "train" / "configs" / "tiny" / "justrl.yaml"
TRAINERS = ("ours", "trl")
TRL_ROWS = 16  # rollouts in a forward pass: of 8, 16, 32 and 64 what took least time, and least memory too
SETTINGS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What a trainer's process measured."""

    trainer: str
    seed: int
    wall_s: list[float]  # per iteration, from the second on
    cpu_s: list[float]
    rewards: list[float]  # mean per iteration, from the first on
    start_mib: float  # resident when the model stands in memory
    peak_mib: float  # the most that was ever resident


class Clock:
    """The end of each iteration."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []
        self.start_mib = peak_mib()

    def tick(self) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))

    def turn(self, trainer: str, seed: int, rewards: list[float]) -> Turn:
        pairs = list(zip(self.ends, self.ends[1:], strict=False))
        return Turn(
            trainer=trainer,
            seed=seed,
            wall_s=[after[0] - before[0] for before, after in pairs],
            cpu_s=[after[1] - before[1] for before, after in pairs],
            rewards=rewards,
            start_mib=self.start_mib,
            peak_mib=peak_mib(),
        )


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kB on Linux


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="checkpoint to start from")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each trainer, each with its seed")
    parser.add_argument("--iterations", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--trl-rows", type=int, default=TRL_ROWS, help="of a forward pass; default: %(default)s")
    parser.add_argument("--json", type=Path, help="where to write all of it")
    parser.add_argument("--turn", choices=TRAINERS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        with tempfile.TemporaryDirectory() as folder:
            run: Callable[[argparse.Namespace, str], Turn] = {"ours": run_ours, "trl": run_trl}[options.turn]
            print(json.dumps(asdict(run(options, folder))))
        return
    turns = [take_turn(name, seed, options) for seed in range(1, options.rounds + 1) for name in TRAINERS]
    report = {"summary": summarise(turns), **about(options), "turns": [asdict(turn) for turn in turns]}
    print(json.dumps(report["summary"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def take_turn(trainer: str, seed: int, options: argparse.Namespace) -> Turn:
    command = [sys.executable, __file__, "--model", options.model, "--iterations", str(options.iterations)]
    command += ["--trl-rows", str(options.trl_rows), "--turn", trainer, "--seed", str(seed)]
    ended = subprocess.run(command, env={**os.environ, **SETTINGS}, stdout=subprocess.PIPE, text=True, check=True)
    turn = Turn(**json.loads(ended.stdout.splitlines()[-1]))
    print(
        f"{trainer:<5} seed {seed}: {statistics.median(turn.wall_s):.2f} s an iteration, "
        f"{statistics.median(turn.cpu_s):.2f} s of CPU, {turn.peak_mib:.0f} MiB, last reward {turn.rewards[-1]:.3f}",
        file=sys.stderr,
    )
    return turn


def summarise(turns: list[Turn]) -> dict[str, Any]:
    """Medians over all iterations, the worst peak, rewards over all rounds; and TRL's by ours."""

    def of(name: str) -> dict[str, Any]:
        mine = [turn for turn in turns if turn.trainer == name]
        curves = [[round(r, 4) for r in turn.rewards] for turn in mine]
        return {
            "wall_s": round(statistics.median(s for turn in mine for s in turn.wall_s), 3),
            "cpu_s": round(statistics.median(s for turn in mine for s in turn.cpu_s), 3),
            "start_mib": round(max(turn.start_mib for turn in mine)),
            "peak_mib": round(max(turn.peak_mib for turn in mine)),
            "reward_first_3": round(statistics.mean(r for curve in curves for r in curve[:3]), 4),
            "reward_last_3": round(statistics.mean(r for curve in curves for r in curve[-3:]), 4),
            "mean_curve": [round(statistics.mean(rewards), 4) for rewards in zip(*curves, strict=True)],
        }

    ours, theirs = of("ours"), of("trl")
    ratios = {f"trl / ours: {key}": round(theirs[key] / ours[key], 2) for key in ("wall_s", "cpu_s", "peak_mib")}
    return {"ours": ours, "trl": theirs, **ratios}


def about(options: argparse.Namespace) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("trl", "torch", "transformers", "accelerate")},
        "machine": {"cpus": os.cpu_count(), "architecture": platform.machine(), "threads": 1},
        "iterations": options.iterations,
        "trl_rows": options.trl_rows,
    }


# --- the two trainers ------------------------------------------------------------------------------------------------


def run_ours(options: argparse.Namespace, folder: str) -> Turn:
    from stapo_train import run
    from stapo_train.config import load_config

    overrides = {"model": options.model, "out": f"{folder}/run", "seed": options.seed, "iterations": options.iterations}
    config = load_config(CONFIG, [f"{key}={value}" for key, value in overrides.items()])
    clock: list[Clock] = []
    rewards = []
    iterate = run.iterate

    def timed(*arguments: Any) -> Any:
        clock.extend([] if clock else [Clock()])
        state, record = iterate(*arguments)
        rewards.append(record.reward)
        clock[0].tick()
        return state, record

    run.iterate = timed
    run.train(config)
    return clock[0].turn("ours", options.seed, rewards)


def run_trl(options: argparse.Namespace, folder: str) -> Turn:
    import datasets
    import torch
    import transformers
    from trl import GRPOConfig, GRPOTrainer

    from stapo_bench.grading.strict import grade_answer
    from stapo_bench.records import Outcome
    from stapo_train.config import load_config
    from stapo_train.data import load_problems, problem_indices
    from stapo_train.run import render

    ours = load_config(CONFIG, [f"model={options.model}", f"seed={options.seed}"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    problems = load_problems(ours.data, ours.seed)
    asked = [
        problems[i] for i in problem_indices(len(problems), ours.seed, 0, ours.rollout.prompts * options.iterations)
    ]
    texts = [prompt.text for prompt in render(asked, ours, tokenizer)]
    rows = [{"prompt": text, "gold": problem.gold.answer} for text, problem in zip(texts, asked, strict=True)]
    rewards: list[float] = []

    def reward(completions: list[str], gold: list[str], **_: Any) -> list[float]:
        found = [float(grade_answer(c, g).outcome == Outcome.CORRECT) for c, g in zip(completions, gold, strict=True)]
        rewards.append(statistics.mean(found))
        return found

    steps = ours.update.mini_batches
    accumulate = ours.rollout.prompts * ours.rollout.group_size // steps // options.trl_rows
    settings = GRPOConfig(
        output_dir=folder,
        seed=options.seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=steps,
        max_steps=options.iterations * steps,
        per_device_train_batch_size=options.trl_rows,
        gradient_accumulation_steps=accumulate,
        steps_per_generation=accumulate * steps,
        num_generations=ours.rollout.group_size,
        max_completion_length=ours.rollout.max_new_tokens,
        shuffle_dataset=False,
        temperature=ours.rollout.temperature,
        top_p=ours.rollout.top_p,
        top_k=0,
        loss_type="dapo",
        epsilon=0.2,
        epsilon_high=0.28,
        delta=10.0,
        beta=0.0,
        learning_rate=ours.optim.lr,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=ours.optim.warmup_iterations * steps,
        weight_decay=ours.optim.weight_decay,
        max_grad_norm=ours.optim.clip_norm,
    )
    trainer = GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
        reward_funcs=reward,
        args=settings,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    clock = Clock()

    class Tick(transformers.TrainerCallback):
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            if state.global_step % steps == 0:
                clock.tick()

    trainer.add_callback(Tick())
    trainer.train()
    return clock.turn("trl", options.seed, rewards)


if __name__ == "__main__":
    main()
