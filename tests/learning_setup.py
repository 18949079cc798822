"""A base model that knows half of an easy task, made in seconds; for the tests that train until the reward rises."""

import json
import random
from pathlib import Path

from stapo_train.tiny.batches import encode, pack
from stapo_train.tiny.pretrain import PretrainConfig, Run, make_model, make_optimizers
from stapo_train.tiny.problems import Example
from stapo_train.tiny.tokenizer import train_tokenizer

SUMS = [(a, b) for a in range(1, 9) for b in range(a, 9) if a + b < 10][:16]
OPENINGS = {"": 8, "Well, ": 4, "So ": 2, "Clearly ": 1, "We get ": 1}
SHARE_RIGHT = 0.4
STEPS = 120


def example(rng: random.Random) -> Example:
    """A sum in one of several wordings, right two times in five."""
    a, b = rng.choice(SUMS)
    near = [n for n in (a + b - 2, a + b - 1, a + b + 1, a + b + 2) if 0 <= n < 10]
    answer = a + b if rng.random() < SHARE_RIGHT else rng.choice(near)
    opening = rng.choices(list(OPENINGS), list(OPENINGS.values()))[0]
    return Example(prompt=f"What is {a}+{b}?\n", solution=f"{opening}{a}+{b} is \\boxed{{{answer}}}")


def make_base(folder: Path) -> Path:
    """Two layers, 64 wide; head_dim 32, which vLLM's CPU build needs."""
    rng = random.Random(0)
    texts = [example(rng) for _ in range(400)]
    tokenizer = train_tokenizer([e.prompt + e.solution for e in texts], 280)
    settings = PretrainConfig(out=str(folder), steps=STEPS, hidden_size=64, intermediate_size=128, num_layers=2)
    model = make_model(settings, tokenizer)
    run = Run(model=model, optimizers=make_optimizers(model, settings))
    for step in range(STEPS):
        examples = [example(rng) for _ in range(64)]
        run.advance(pack(encode(tokenizer, examples), tokenizer.pad_token_id), 1 - step / STEPS)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_values(base: Path, folder: Path, **changes) -> dict:
    """Nested values of a config that asks every sum once an iteration."""
    problems = folder / "sums.jsonl"
    rows = [{"id": f"{a}+{b}", "problem": f"What is {a}+{b}?", "answer": str(a + b)} for a, b in SUMS]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "out": str(folder / "run"),
        "model": str(base),
        "seed": 1,
        "iterations": 8,
        "device": "cpu",
        "data": {"source": "jsonl", "path": str(problems), "question": "{{problem}}\n", "prompt_format": "plain"},
        "rollout": {"prompts": 16, "group_size": 16, "max_new_tokens": 16},
        "objective": {"name": "stapo", "tau_p": 0.02},
        "optim": {"lr": 1e-3, "warmup_iterations": 1, "weight_decay": 0.0},
        "update": {"mini_batches": 2, "micro_batch_tokens": 2048},
        "checkpoint": {"every": 100},
    }
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        (values[section] if section else values)[key] = value
    return values


def rewards(run: Path) -> list[float]:
    """Mean reward of each iteration."""
    return [json.loads(line)["reward"] for line in (run / "metrics.jsonl").read_text().splitlines()]
