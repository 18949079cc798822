"""A checkpoint, problems and a config small enough to train on in a second; imported by the trainer's tests."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from stapo_bench.records import Outcome
from stapo_bench.runs.sealed import unseal
from stapo_train import run
from stapo_train.config import parse_config
from stapo_train.tiny.tokenizer import train_tokenizer


def make_base(folder: Path, sharpness: float = 1.0, head_dim: int = 16, hidden: int = 32) -> Path:
    """A random two-layer Qwen3 with a byte-level tokenizer.

    sharpness: factor on the embeddings, and so on the logits. At 1 entropies differ by less than a thousandth, and
        which token stands at a quantile of them may hang on how a processor rounds.
    head_dim: vLLM computes with no fewer than 32 on a CPU.
    hidden: with 256 most of its tensors are large enough for moments in 8 bits.
    """
    tokenizer = train_tokenizer(["What is 1+1?\n2\n"], 260)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=hidden, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, head_dim=head_dim, max_position_embeddings=128,
            tie_word_embeddings=True, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    model.model.embed_tokens.weight.data.mul_(sharpness)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_values(folder: Path, **changes) -> dict:
    """Nested values of a config: 4 prompts of 4 rollouts, 2 mini-batches, a checkpoint each iteration."""
    problems = folder / "problems.jsonl"
    rows = [{"id": str(i), "problem": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(10)]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "out": str(folder / "run"),
        "model": str(folder / "base"),
        "iterations": 3,
        "device": "cpu",
        "data": {"source": "jsonl", "path": str(problems), "question": "{{problem}}\n", "prompt_format": "plain"},
        "rollout": {"prompts": 4, "group_size": 4, "max_new_tokens": 8},
        "objective": {"name": "stapo", "tau_p": 0.02},
        "optim": {"lr": 1e-2, "warmup_iterations": 2},
        "update": {"mini_batches": 2, "micro_batch_tokens": 128},
        "checkpoint": {"every": 1},
    }
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        (values[section] if section else values)[key] = value
    return values


def make_config(folder: Path, **changes):
    return parse_config(make_values(folder, **changes), "test")


def grade_by_hash(rollouts, golds, pool):
    """Rewards that a random model earns: half of all texts are right, always the same half."""
    return [
        replace(r, outcome=Outcome.CORRECT if right else Outcome.INCORRECT, reward=float(right))
        for r in rollouts
        for right in [hashlib.sha256(r.text.encode()).digest()[0] % 2]
    ]


def result(out: Path) -> tuple[bytes, list[dict]]:
    """Weights as bytes, and the metrics without what a repetition may change."""
    rows = [unseal(line) for line in (out / "metrics.jsonl").read_bytes().splitlines()]
    for row in rows:
        del row["seconds"], row["memory"]
    return (out / "checkpoints" / "final" / "model.safetensors").read_bytes(), rows


def stop_after(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    """Have trainings stop behind so many iterations, as by Ctrl-C."""
    iterate = run.iterate

    def stopping(r, state):
        if state.iteration == iterations:
            raise KeyboardInterrupt
        return iterate(r, state)

    monkeypatch.setattr(run, "iterate", stopping)


def make_dump(folder: Path, iterations: int) -> Path:
    """Train for so many iterations, graded by hash; the last one's last mini-batch, with the weights that it met."""
    make_base(folder / "base")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "grade", grade_by_hash)
        run.train(make_config(folder, iterations=iterations), dump_iterations=[iterations])
    return folder / "run" / "dumps" / f"iteration-{iterations:06d}"
