"""Fixtures of the campaign: a task, a script, a training run, and their results when nothing breaks."""

import json
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from stapo_bench.runs.sealed import unseal

NUM_PROBLEMS, NUM_SAMPLES = 20, 8


class Bench:
    """Files and unbroken runs, each made when first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.outputs = root / "outputs"

    # -- evaluation ---------------------------------------------------------------------------------------------------

    @cached_property
    def task(self) -> Path:
        """Twenty problems; their golds are fractions, so that answers need a grading process."""
        rows = [{"id": f"p{i}", "problem": f"{i} / 7?", "answer": f"{i}/7"} for i in range(1, NUM_PROBLEMS + 1)]
        (self.root / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        path = self.root / "sums.yaml"
        path.write_text(
            f"task: sums\nrepeats: {NUM_SAMPLES}\ndoc_to_text: '{{{{problem}}}}'\n"
            f"metadata: {{num_problems: {NUM_PROBLEMS}}}\n"
        )
        return path

    def script(self, **faults: object) -> Path:
        """A script for the scripted engine; faults change its behaviour but not its samples."""
        values = {"success": 0.5, "median_tokens": 20, "truncated": 0.1, "wrong": ["1/3", "982451653"], **faults}
        path = (
            self.root / f"script-{'-'.join(f'{k}{v}' for k, v in sorted(faults.items())) or 'plain'}" / "scripted.yaml"
        )
        if not path.exists():  # others may be reading it
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(values))
        return path

    def eval(self, run: Path, *more: object, **faults: object) -> list[object]:
        """The command line of an evaluation."""
        where = ("--tasks", self.task, "--data-dir", self.root, "--out", run)
        script = ("--engine", "scripted", "--ckpt", self.script(**faults))
        return ["stapo-bench", "eval", *script, "--decoding", "justrl", "--max-new-tokens", 64, *where, *more]

    @cached_property
    def whole(self) -> Path:
        """A finished run that nothing interrupted."""
        from tests.faults.process import start

        run = self.root / "whole" / "run"  # scores name their run's folder: all are called "run"
        if not (run / "table.md").exists():
            shutil.rmtree(run, ignore_errors=True)
            run.parent.mkdir(exist_ok=True)
            start(self.eval(run), self.outputs).succeed()
        return run

    def copy(self, folder: Path) -> Path:
        """The finished run again, to be damaged."""
        return Path(shutil.copytree(self.whole, folder / "run"))

    # -- training -----------------------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> Path:
        """A random two-layer checkpoint, in a shape that vLLM takes."""
        import transformers

        from stapo_train.tiny.random_model import random_model, save

        transformers.utils.logging.disable_progress_bar()
        path = self.root / "base"
        if not (path / "generation_config.json").exists():
            save(random_model(num_heads=2), path)
        return path

    def train(self, out: Path, *more: object) -> list[object]:
        """The command line of three iterations, a checkpoint after each."""
        problems = self.root / "train.jsonl"
        rows = [{"id": str(i), "problem": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(10)]
        problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = {
            "out": str(out),
            "model": str(self.base),
            "iterations": 3,
            "device": "cpu",
            "data": {"source": "jsonl", "path": str(problems), "question": "{{problem}}\n", "prompt_format": "plain"},
            "rollout": {"prompts": 4, "group_size": 4, "max_new_tokens": 8},
            "objective": {"name": "stapo", "tau_p": 0.02},
            "optim": {"lr": 1e-2, "warmup_iterations": 2},
            "update": {"mini_batches": 2, "micro_batch_tokens": 128},
            "checkpoint": {"every": 1},
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        config = out.parent / f"{out.name}.yaml"
        config.write_text(json.dumps(values))  # JSON is YAML
        return ["stapo-train", config, "--resume", *more]

    @cached_property
    def trained(self) -> Path:
        """A finished training run that nothing interrupted."""
        from tests.faults.process import start

        out = self.root / "trained"
        start(self.train(out), self.outputs, before=reward_by_hash).succeed()
        return out


def reward_by_hash() -> None:
    """In a new process: replace grading by a hash of the text, under which half of all texts are right."""
    import hashlib
    from dataclasses import replace

    from stapo_bench.records import Outcome
    from stapo_train import run

    def grade(rollouts: Any, golds: Any, pool: Any) -> list[Any]:
        """Right or wrong by a digest of the text: no grading process, the same each time."""
        rights = [hashlib.sha256(rollout.text.encode()).digest()[0] % 2 for rollout in rollouts]
        outcomes = [Outcome.CORRECT if right else Outcome.INCORRECT for right in rights]
        return [
            replace(rollout, outcome=outcome, reward=float(right))
            for rollout, outcome, right in zip(rollouts, outcomes, rights, strict=True)
        ]

    run.grade = grade


# -- what came out ----------------------------------------------------------------------------------------------------


def stored(run: Path) -> list[dict[str, Any]]:
    """Every whole line of a run's segments, without times; torn lines and duplicates as they stand."""
    found = []
    for path in sorted((run / "samples").glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                found.append(json.loads(line))
    return sorted(found, key=key_of)


def key_of(row: dict[str, Any]) -> tuple[str, str, int]:
    """What identifies a sample or a grade."""
    return row["task"], row["problem_id"], row["sample_index"]


def grades(run: Path) -> list[dict[str, Any]]:
    """Every complete line of the grade file after the first, sorted, each once: two commands may grade one sample."""
    path = run / "grades" / "math.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)[1:] if path.exists() else []
    rows = {line: json.loads(line) for line in lines if line.endswith(b"\n")}
    return sorted(rows.values(), key=key_of)


def results(run: Path) -> tuple[Any, ...]:
    """Everything that determines a run's numbers, for exact comparison."""
    return stored(run), grades(run), (run / "scores.json").read_bytes(), (run / "table.md").read_bytes()


def trained_results(out: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """The final weights, and the metrics without the fields that may differ between repetitions."""
    rows = [unseal(line) for line in (out / "metrics.jsonl").read_bytes().splitlines()]
    for row in rows:
        del row["seconds"], row["memory"]
    return (out / "checkpoints" / "final" / "model.safetensors").read_bytes(), rows


def num_lines(path: Path) -> int:
    """Whole lines of a file; 0 where there is none."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def until(holds: Callable[[], bool], patience_s: float = 60.0) -> bool:
    """Wait until a condition holds; False on timeout."""
    import time

    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
