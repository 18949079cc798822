"""Run folders made by hand, for the tests of everything that reads one."""

import gc
import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stapo_bench.runs.nested import canonical_digest
from stapo_bench.seeds import derive_seed

collect_ignore = ["compile_for_hopper.py", "bare_platform"]  # scripts that doctests would import

with suppress(ImportError):  # environments made for a part of scripts/integration.sh lack it
    from hypothesis import HealthCheck, settings

    # On a busy machine an example takes as long as it takes; and two runs of the same code try the same examples.
    settings.register_profile("stapo", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("stapo")

# The tests' own servers are on loopback, which an environment's proxy would be asked for, too.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that at the end no process waits for one."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: no collection of garbage has to walk through them."""
    gc.freeze()


OUTCOMES = {1.0: "CORRECT", 0.0: "INCORRECT", 0.5: "NO_ANSWER", -1.0: "GRADER_ERROR"}


def write_run(folder: Path, tasks, *, identity=None, about=None, grader="math-1", sample=None, num_samples=None):
    """Write a finished run folder.

    tasks: task -> [num_problems, k] rows of 1 right, 0 wrong, 0.5 no answer, -1 grader error, NaN not drawn.
    identity, about: override parts of the manifest. num_samples: asked for, where it is more than the matrix has.
    sample: a function of (task, row, index) giving fields of the stored sample that differ from the plain ones.
    """
    folder.mkdir(parents=True)
    seed = (identity or {}).get("seed", 0)
    identity = {
        "checkpoint": {"digest": folder.name},
        "tasks": {name: {"data": f"data-{name}", "prompts": "p", "prompt_format": "plain"} for name in tasks},
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 64},
        "seed": seed,
        "engine": {"name": "scripted", "dtype": "float32"},
        **(identity or {}),
    }
    about = {
        "checkpoint": f"ckpt/{folder.name}",
        "model": "Tiny",
        "method": folder.name,
        "regime": "training",
        "commit": "abc1234",
        "tasks": {
            name: {
                "title": name.upper(),
                "num_problems": len(rows),
                "num_samples": num_samples or len(rows[0]),
                "problem_ids": [f"{name}-{i}" for i in range(len(rows))],
            }
            for name, rows in tasks.items()
        },
        **(about or {}),
    }
    digest = canonical_digest(identity)
    manifest = {"format": 1, "digest": digest, "identity": identity, "about": about}
    (folder / "manifest.json").write_text(json.dumps(manifest, sort_keys=True))
    samples, grades = [], [json.dumps({"grader": grader})]
    for task, rows in tasks.items():
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                if math.isnan(value):
                    continue
                key = {"task": task, "problem_id": f"{task}-{i}", "sample_index": j}
                plain = {
                    "seed": derive_seed(seed, *key.values()),
                    "completion": f"{folder.name} {task} {i} {j}",
                    "num_tokens": 10,
                    "finish_reason": "stop",
                }
                samples.append(json.dumps({**key, **plain, **(sample(task, i, j) if sample else {})}))
                extracted = None if value == 0.5 else "right" if value == 1.0 else f"wrong {j}"
                grades.append(json.dumps({**key, "outcome": OUTCOMES[value], "extracted": extracted, "detail": ""}))
    (folder / "samples").mkdir()
    (folder / "samples" / "0001-all.jsonl").write_text("".join(f"{line}\n" for line in samples))
    (folder / "grades").mkdir()
    (folder / "grades" / f"{grader.split('-')[0]}.jsonl").write_text("".join(f"{line}\n" for line in grades))
    return folder


@pytest.fixture
def make_run(tmp_path):
    """``make_run("name", {task: rows}, ...)`` writes a run folder under the test's own folder."""
    return lambda name, tasks, **how: write_run(tmp_path / name, tasks, **how)


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """A random two-layer model to train."""
    from train_setup import make_base

    return make_base(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture
def folder(tmp_path, base) -> Path:
    """Where a training finds its base, as ``make_config`` of ``train_setup`` says."""
    (tmp_path / "base").symlink_to(base)
    return tmp_path


@pytest.fixture
def graded_by_hash(monkeypatch) -> None:
    """Rewards that a random model earns, from one thread."""
    import torch
    from train_setup import grade_by_hash

    monkeypatch.setattr("stapo_train.run.grade", grade_by_hash)
    torch.set_num_threads(1)


class GradedHere:
    """Stands in for ``GradingProcess``: the same request, rules and reply, in this process and without its limits."""

    def __init__(self, grader: Any, limits: object) -> None:
        self._module = grader.load()

    def is_alive(self) -> bool:
        return True

    def ask(self, request: Any) -> dict[str, Any]:
        from stapo_bench.grading import serve

        return serve._reply(self._module, json.loads(request.line()), 0.0, lambda cpu_s: None)

    def end(self) -> str:
        return ""


@pytest.fixture
def graded_here(monkeypatch) -> None:
    """For tests of what is graded, and not of who grades it: every evaluation would start grading processes anew."""
    monkeypatch.setattr("stapo_bench.grading.pool.GradingProcess", GradedHere)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """One token a byte, for the models of ``random_model``."""
    from stapo_train.tiny.random_model import byte_tokenizer

    return byte_tokenizer()


@pytest.fixture(scope="module")
def model() -> Any:
    """A random tiny Qwen3."""
    from stapo_train.tiny.random_model import random_model

    return random_model()


@pytest.fixture
def stapo(capsys, monkeypatch):
    """Runs a command line in this process: (exit code, output, error output)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        from stapo_bench import cli

        monkeypatch.setattr(sys, "argv", ["stapo-bench", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    monkeypatch.delenv("STAPO_BENCH_DATA", raising=False)
    return run


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """The working directory, with one small task, its data, and a script that is right half the time."""
    from cli_setup import make_sums

    make_sums(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """A run of twelve problems, one sample each, graded and scored; its options are ``make_options(tmp_path)``."""
    from dataclasses import replace

    from eval_setup import make_options, run

    from stapo_bench.presenting import finish_run

    options = replace(make_options(tmp_path), samples=1, tasks=(str(tmp_path / "one.yaml"),))
    run(options)
    finish_run(options.out, data_dir=tmp_path)
    return options.out
