"""The six benchmarks end to end, through the command line: known rates come out, and a real model really generates."""

import json
import math
import os

import pytest

from stapo_bench.tasks.loading import load_task, task_names

RATES = {"aime24": 0.25, "aime25": 0.1, "amc23": 0.5, "math500": 0.9, "minerva": 0.4, "olympiadbench": 0.6}


DATA = os.environ.get("STAPO_BENCH_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="needs the benchmark data: set STAPO_BENCH_DATA to their folder")


@pytest.fixture
def evaluate(stapo, tmp_path):
    """Runs ``stapo-bench eval`` under the justrl regime into ``run``; the tasks of its scores."""

    def run(*arguments: object) -> list[dict]:
        out = tmp_path / "run"
        code, _, error = stapo("eval", "--decoding", "justrl", "--data-dir", DATA, "--out", out, *arguments)
        assert code == 0, error
        return json.loads((out / "scores.json").read_text())["tasks"]

    return run


@pytest.mark.slow(reason="six benchmarks whole, all samples of the paper")
def test_a_script_with_known_rates_gives_them_back(tmp_path, evaluate):
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"success": RATES}))
    scores = evaluate("--engine", "scripted", "--ckpt", script)
    assert [score["task"] for score in scores] == task_names("paper")
    for score in scores:
        task = load_task(score["task"])
        rate, num_samples = RATES[task.name], task.num_problems * task.num_samples
        assert score["num_samples"] == num_samples
        # Four standard errors of a binomial share: one run in 2,600 would fail by chance, and the seed is fixed.
        assert abs(score["value"] - rate) < 4 * math.sqrt(rate * (1 - rate) / num_samples), task.name


@pytest.mark.slow(reason="a model samples for six benchmarks, some of whose prompts have thousands of tokens")
def test_a_tiny_random_model_generates_for_all_six(tmp_path, evaluate):
    from stapo_train.tiny.pretrain import PretrainConfig, make_model, make_tokenizer

    config = PretrainConfig(out=str(tmp_path / "model"), steps=1, hidden_size=64, num_layers=1)
    tokenizer = make_tokenizer(config)
    model = make_model(config, tokenizer)
    model.config.max_position_embeddings = 8192  # byte by byte, some problems are 6,000 tokens long
    model.save_pretrained(config.out)
    tokenizer.save_pretrained(config.out)
    limits = ("--limit", 2, "--samples", 2, "--max-new-tokens", 8)
    scores = evaluate("--ckpt", config.out, *limits)
    assert {score["task"]: score["num_samples"] for score in scores} == dict.fromkeys(task_names("paper"), 4)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["identity"]["sampling"] == {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 8}
    assert manifest["identity"]["tasks"]["aime24"]["prompt_format"] == "base"  # this tokenizer has no chat template
