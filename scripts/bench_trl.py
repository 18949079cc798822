"""Ours and TRL's GRPOTrainer: iterations per second, peak memory and learning curves, on one machine in turns.

    scripts/integration.sh trl     # makes .venv-trl
    .venv-trl/bin/python scripts/bench_trl.py --model runs/tiny/base [--rounds 2] [--iterations 20] [--json FILE]

Both train the same weights with the same objective (JustRL: DAPO's loss, dual clip), prompts in the same order, 32
prompts x 8 rollouts an iteration, four optimizer steps on 64 rollouts each, the same learning rates, and the strict
grader inside the process. Each is a process of its own with one thread, and they take turns iteration by iteration, so
that whatever else the machine does meets both alike; the first iteration warms up. What differs: TRL shuffles an
iteration's rollouts over its mini-batches where we keep groups together, divides by the average mini-batch's tokens
where we count each one's, and adds 1e-4 to the std where we add 1e-6.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measured import measured_with

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "train" / "configs" / "tiny" / "justrl.yaml"
TRAINERS = ("ours", "trl")
TRL_ROWS = 16  # rollouts in a forward pass: of 8, 16, 32 and 64 what took least time, and least memory too
SETTINGS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
TICK = "iteration done"  # on a worker's standard output; a line on its standard input lets it go on


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a trainer's process measured."""

    trainer: str
    seed: int
    wall_s: list[float]  # per iteration, from the second on
    cpu_s: list[float]
    rewards: list[float]  # mean per iteration, from the first on
    start_mib: float  # resident when the model stands in memory
    peak_mib: float  # the most that was ever resident


class Clock:
    """Times each iteration between the word to go on and its end."""

    def __init__(self) -> None:
        self.start_mib = peak_mib()
        self.spent: list[tuple[float, float]] = []
        self.start = _now()

    def tick(self) -> None:
        """An iteration is done: say so, and wait."""
        end = _now()
        self.spent.append((end[0] - self.start[0], end[1] - self.start[1]))
        print(TICK, flush=True)
        sys.stdin.readline()
        self.start = _now()

    def measured(self, trainer: str, seed: int, rewards: list[float]) -> Measured:
        wall_s, cpu_s = zip(*self.spent[1:], strict=True)
        return Measured(
            trainer=trainer,
            seed=seed,
            wall_s=list(wall_s),
            cpu_s=list(cpu_s),
            rewards=rewards,
            start_mib=self.start_mib,
            peak_mib=peak_mib(),
        )


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kB on Linux


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="checkpoint to start from")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each trainer, each with its seed")
    parser.add_argument("--iterations", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--trl-rows", type=int, default=TRL_ROWS, help="of a forward pass; default: %(default)s")
    parser.add_argument("--json", type=Path, help="where to write all of it")
    parser.add_argument("--trainer", choices=TRAINERS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trainer:
        with tempfile.TemporaryDirectory() as folder:
            run: Callable[[argparse.Namespace, str], Measured] = {"ours": run_ours, "trl": run_trl}[options.trainer]
            print(json.dumps(asdict(run(options, folder))))
        return
    found = [measured for seed in range(1, options.rounds + 1) for measured in take_turns(seed, options)]
    report = {"summary": summarise(found), **about(options), "measured": [asdict(m) for m in found]}
    print(json.dumps(report["summary"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def take_turns(seed: int, options: argparse.Namespace) -> list[Measured]:
    """Both trainers from one seed, an iteration each in turn."""
    workers = {name: start(name, seed, options) for name in TRAINERS}
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
    command = [sys.executable, __file__, "--model", options.model, "--iterations", str(options.iterations)]
    command += ["--trl-rows", str(options.trl_rows), "--trainer", trainer, "--seed", str(seed)]
    environment = {**os.environ, **SETTINGS}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_until(worker: Any, line: str) -> None:
    for found in worker.stdout:
        if found.strip() == line:
            return
    raise SystemExit(f"{' '.join(worker.args)}: ended before its time")


def summarise(found: list[Measured]) -> dict[str, Any]:
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

    ours, theirs = of("ours"), of("trl")
    ratios = {f"trl / ours: {key}": round(theirs[key] / ours[key], 2) for key in ("wall_s", "cpu_s", "peak_mib")}
    return {"ours": ours, "trl": theirs, **ratios}


def about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        **measured_with(("trl", "torch", "transformers", "accelerate")),
        "threads": 1,
        "iterations": options.iterations,
        "trl_rows": options.trl_rows,
    }


# --- the two trainers ------------------------------------------------------------------------------------------------


def run_ours(options: argparse.Namespace, folder: str) -> Measured:
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
    return clock[0].measured("ours", options.seed, rewards)


def run_trl(options: argparse.Namespace, folder: str) -> Measured:
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
    return clock.measured("trl", options.seed, rewards)


if __name__ == "__main__":
    main()
