"""The six benchmarks end to end, through the command line: known rates come out, and a real model really generates."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stapo_bench.tasks.loading import load_task, task_names

RATES = {"aime24": 0.25, "aime25": 0.1, "amc23": 0.5, "math500": 0.9, "minerva": 0.4, "olympiadbench": 0.6}


@pytest.fixture
def data_dir() -> str:
    if "STAPO_BENCH_DATA" not in os.environ:
        pytest.skip("needs the benchmark data: set STAPO_BENCH_DATA to their folder")
    return os.environ["STAPO_BENCH_DATA"]


def evaluate(out: Path, data_dir: str, *arguments: object) -> list[dict]:
    """Run ``stapo-bench eval`` under the justrl regime; the tasks of its scores."""
    command = [sys.executable, "-m", "stapo_bench", "eval", "--decoding", "justrl", "--data-dir", data_dir]
    subprocess.run([*command, "--out", str(out), *map(str, arguments)], check=True, capture_output=True, timeout=300)
    return json.loads((out / "scores.json").read_text())["tasks"]


def test_a_script_with_known_rates_gives_them_back(tmp_path, data_dir):
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"success": RATES}))
    scores = evaluate(tmp_path / "run", data_dir, "--engine", "scripted", "--ckpt", script)
    assert [score["task"] for score in scores] == task_names("paper")
    for score in scores:
        task = load_task(score["task"])
        rate, num_samples = RATES[task.name], task.num_problems * task.num_samples
        assert score["num_samples"] == num_samples
        # Four standard errors of a binomial share: one run in 2,600 would fail by chance, and the seed is fixed.
        assert abs(score["value"] - rate) < 4 * math.sqrt(rate * (1 - rate) / num_samples), task.name


def test_a_tiny_random_model_generates_for_all_six(tmp_path, data_dir):
    from stapo_train.tiny.pretrain import PretrainConfig, make_model, make_tokenizer

    config = PretrainConfig(out=str(tmp_path / "model"), steps=1, hidden_size=64, num_layers=1)
    tokenizer = make_tokenizer(config)
    model = make_model(config, tokenizer)
    model.config.max_position_embeddings = 8192  # byte by byte, some problems are 6,000 tokens long
    model.save_pretrained(config.out)
    tokenizer.save_pretrained(config.out)
    limits = ("--limit", 2, "--samples", 2, "--max-new-tokens", 8)
    scores = evaluate(tmp_path / "run", data_dir, "--ckpt", config.out, *limits)
    assert {score["task"]: score["num_samples"] for score in scores} == dict.fromkeys(task_names("paper"), 4)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["identity"]["sampling"] == {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 8}
    assert manifest["identity"]["tasks"]["aime24"]["prompt_format"] == "base"  # this tokenizer has no chat template
