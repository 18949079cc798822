"""The two trainers of ``bench.trl``, each run inside a process of its own that times its iterations."""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import gpu_setup as setup
from stapo_bench.records import Outcome
from stapo_train.config import TrainConfig, load_config

CONFIG = Path(__file__).resolve().parent.parent / "train" / "configs" / "tiny" / "justrl.yaml"
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

    def __init__(self, device: str) -> None:
        self.device = device
        self.start_mib = peak_mib(device)
        self.spent: list[tuple[float, float]] = []
        self.start = self._now()

    def tick(self) -> None:
        """An iteration is done: say so, and wait."""
        end = self._now()
        self.spent.append((end[0] - self.start[0], end[1] - self.start[1]))
        print(TICK, flush=True)
        sys.stdin.readline()
        self.start = self._now()

    def measured(self, trainer: str, seed: int, rewards: list[float]) -> Measured:
        """The times so far and the memory, as a record."""
        wall_s, cpu_s = zip(*self.spent[1:], strict=True)
        return Measured(
            trainer=trainer,
            seed=seed,
            wall_s=list(wall_s),
            cpu_s=list(cpu_s),
            rewards=rewards,
            start_mib=self.start_mib,
            peak_mib=peak_mib(self.device),
        )

    def _now(self) -> tuple[float, float]:
        setup.synchronized(self.device)
        return time.perf_counter(), time.process_time()


def peak_mib(device: str) -> float:
    """The most memory so far: of tensors on a GPU, else of the process."""
    on_gpu = setup.peak_bytes(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if on_gpu is None else on_gpu / 2**20


def trainer_config(options: argparse.Namespace, out: str) -> TrainConfig:
    """The tiny suite's JustRL, on the model at hand."""
    values = {"model": options.model, "out": out, "seed": options.seed, "iterations": options.iterations}
    values["device"] = options.device
    if options.size:
        size = setup.SIZES[options.size]
        values["rollout.prompts"] = min(32, size.rollouts // setup.GROUP_SIZE)
        values["rollout.max_new_tokens"] = min(256, size.max_new_tokens)
        values["update.micro_batch_tokens"] = size.micro_batch_tokens
        values["optim.lr"], values["autocast"] = 1e-6, options.device == "cuda"
    return load_config(CONFIG, [f"{key}={value}" for key, value in values.items()])


def checksum_reward(token_ids: Sequence[int]) -> float:
    """Reward of a random model's rollout, by the parity of its token ids, so that about half get 1."""
    return float(sum(token_ids) % 2 == 0)


def run_ours(options: argparse.Namespace, folder: str) -> Measured:
    """One training by our trainer, timed per iteration."""
    from stapo_train import run

    config = trainer_config(options, f"{folder}/run")
    if options.size:
        run.grade = lambda drawn, *_: [
            replace(r, outcome=Outcome.NO_ANSWER, reward=checksum_reward(r.response_ids)) for r in drawn
        ]
    clock: list[Clock] = []
    rewards = []
    iterate = run.iterate

    def timed(*arguments: Any) -> Any:
        clock.extend([] if clock else [Clock(options.device)])
        state, record = iterate(*arguments)
        rewards.append(record.reward)
        clock[0].tick()
        return state, record

    run.iterate = timed
    run.train(config)
    return clock[0].measured("ours", options.seed, rewards)


def run_trl(options: argparse.Namespace, folder: str) -> Measured:
    """The same training by TRL's trainer."""
    import datasets
    import torch
    import transformers
    from trl import GRPOConfig, GRPOTrainer

    from stapo_bench.grading.graders.strict import grade_answer
    from stapo_train.data import load_problems, problem_indices
    from stapo_train.prompts import render

    ours = trainer_config(options, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    problems = load_problems(ours.data, ours.seed)
    asked = [
        problems[i] for i in problem_indices(len(problems), ours.seed, 0, ours.rollout.prompts * options.iterations)
    ]
    texts = [prompt.text for prompt in render(asked, ours, tokenizer)]
    rows = [{"prompt": text, "gold": problem.gold.answer} for text, problem in zip(texts, asked, strict=True)]
    rewards: list[float] = []

    def reward(completions: list[str], gold: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        if options.size:
            found = [checksum_reward(ids) for ids in completion_ids]
        else:
            pairs = zip(completions, gold, strict=True)
            found = [float(grade_answer(c, g).outcome == Outcome.CORRECT) for c, g in pairs]
        rewards.append(statistics.mean(found))
        return found

    steps = ours.update.mini_batches
    per_step = ours.rollout.prompts * ours.rollout.group_size // steps
    rows_each = min(options.trl_rows, per_step)
    accumulate = per_step // rows_each
    settings = GRPOConfig(
        output_dir=folder,
        seed=options.seed,
        use_cpu=options.device == "cpu",
        bf16=options.device == "cuda",
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=steps,
        max_steps=options.iterations * steps,
        per_device_train_batch_size=rows_each,
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
    clock = Clock(options.device)

    class Tick(transformers.TrainerCallback):
        """Tells the parent that an iteration has ended."""

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            """After each optimizer step."""
            if state.global_step % steps == 0:
                clock.tick()

    trainer.add_callback(Tick())
    trainer.train()
    return clock.measured("trl", options.seed, rewards)
