"""One GPU: what is run with which settings, the estimate, what is refused; the commands are ones that exist."""

import json
import sys
from pathlib import Path

import pytest

from stapo_bench.cli import cli
from stapo_bench.errors import UsageError
from stapo_bench.runs.checkpoint import read_checkpoint
from stapo_bench.tasks import loading as tasks
from stapo_bench.tasks import tiny
from stapo_train.config import load_config
from stapo_train.cost.shapes import GPUS, SHAPES, Setup
from stapo_train.reproduce import __main__ as reproduce
from stapo_train.reproduce import pretrain_on_gpu, small

QWEN = {
    "num_hidden_layers": 28, "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture
def qwen(tmp_path, monkeypatch):
    """A folder that says it is Qwen3-1.7B, and a data folder with something called DAPO-Math-17K."""
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "train" / "dapo_math_17k.jsonl").touch()
    monkeypatch.setenv("STAPO_BENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text(json.dumps(QWEN))
    return tmp_path / "qwen"


def setup(gpu="h100"):
    return Setup(gpu=GPUS[gpu], nodes=1, gpus_per_node=1, rollout_share=0.5)


def planned(base, out, pairs=(), gpu="h100"):
    plan = small.make_plan(base, out, pairs)
    return plan, small.jobs(plan, small.shape_of(plan), setup(gpu))


@pytest.mark.parametrize("from_base", [False, True])
def test_every_command_is_one_that_would_run(from_base, qwen, tmp_path):
    plan, jobs = planned(qwen if from_base else None, tmp_path, ["seed=3", "eval.samples=2", "eval.limit=5"])
    assert [job.name.split()[0] for job in jobs] == ["pretrain"] * (not from_base) + ["train"] * 4 + ["eval"] * 10
    for job in jobs:
        if job.name.startswith("train"):
            _, config, *overrides, resume = job.command
            loaded = load_config(Path(config), overrides)
            assert (loaded.objective["name"], resume) == (job.name.split()[1], "--resume")
            assert (loaded.seed, loaded.model, loaded.rollout.engine) == (3, str(plan.base), "vllm")
        elif job.name.startswith("eval"):
            command = cli.commands["eval"].make_context("eval", job.command[2:])
            assert (command.params["samples"], command.params["limit"]) == (2, 5)
            assert command.params["out"] == small.run_folder(tmp_path, *job.name.split()[1:])
    if from_base:
        assert all(str(qwen) in job.command for job in jobs if job.name.startswith("eval base"))


@pytest.mark.parametrize("gpu", ["a100", "h100", "h200"])
@pytest.mark.parametrize("from_base", [False, True])
def test_it_is_under_an_hour_and_fits_by_the_model_of_cost(gpu, from_base, qwen, tmp_path):
    plan, jobs = planned(qwen if from_base else None, tmp_path, gpu=gpu)
    assert 20 * 60 < sum(job.weight for job in jobs) < 3600
    memory = small.check_memory(small.shape_of(plan), setup(gpu), plan.config("stapo"))
    assert 1.05 * memory.most < 0.9 * GPUS[gpu].memory_gib


def test_the_shape_is_that_of_the_model_that_is_made(tmp_path):
    from stapo_train.tiny import pretrain

    sizes = ["hidden_size=64", "num_layers=2", "intermediate_size=96", "steps=1"]
    plan = small.make_plan(None, tmp_path, [f"pretrain.{size}" for size in sizes])
    config = pretrain.load_config(small.CONFIGS / "base.yaml", [*sizes, f"out={tmp_path}"])
    model = pretrain.make_model(config, pretrain.make_tokenizer(config))
    assert small.shape_of(plan).parameters == sum(p.numel() for p in model.parameters())


def test_the_samples_that_are_estimated_are_those_that_are_drawn():
    names = {"scratch": tasks.task_names("tiny"), "base": ["aime24", "amc23", "math500"]}
    for kind, found in names.items():
        loaded = [tasks.load_task(name) for name in found]
        each = [int(small.EVALUATION[kind].get("samples", task.num_samples)) for task in loaded]
        counts = [task.num_problems * samples for task, samples in zip(loaded, each, strict=True)]
        assert sum(counts) == small.NUM_SAMPLES[kind]


def test_the_harder_levels_are_training_problems_of_the_harder_kinds(tmp_path):
    small.write_problems(tmp_path / "x" / "harder.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "x" / "harder.jsonl").read_text().splitlines()]
    assert len({row["problem"] for row in rows}) == small.NUM_PROBLEMS
    assert {tiny.split_of(row["problem"]) for row in rows} == {"train"}
    assert any("remainder" in row["problem"] for row in rows) and not any("Solve" in row["problem"] for row in rows)


def test_options_of_an_evaluation_replace_one_another(tmp_path):
    plan = small.make_plan(None, tmp_path, ["eval.tasks=tiny_aime24", "eval.engine=transformers"])
    assert plan.evaluation == {"max-new-tokens": "96", "tasks": "tiny_aime24", "engine": "transformers"}
    assert small.make_plan(None, tmp_path, ["data.path=x"]).train == ("data.path=x",)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["iterations"], "'iterations': expected KEY=VALUE"),
        (["pretrain.steps=3"], "expected no making of a base model together with --base"),
    ],
)
def test_pairs_that_mean_nothing_are_refused(pairs, message, qwen, tmp_path):
    with pytest.raises(UsageError, match=message):
        small.make_plan(qwen, tmp_path, pairs)


def test_a_model_that_is_too_large_is_refused():
    with pytest.raises(UsageError, match=r"expected at most 71 GiB, got 1\d\d GiB .* use --scale paper"):
        small.check_memory(SHAPES["8b"], setup(), load_config(small.CONFIGS / "stapo.yaml"))


def test_every_setting_that_takes_memory_is_counted(qwen, tmp_path):
    def gib(*pairs):
        config = small.make_plan(qwen, tmp_path, pairs).config("stapo")
        return small.check_memory(SHAPES["1.7b"], setup("h200"), config).while_updating

    plain = gib()
    weights = 4 * SHAPES["1.7b"].parameters / 2**30
    cache = 2048 * 28 * 2 * 8 * 128 * 2 / 2**30  # tokens, layers, keys and values, their heads, width, bytes
    assert gib("rollout.engine=transformers", "rollout.ahead=1") == pytest.approx(plain + weights + cache)
    assert gib("gradient_checkpointing=true", "activation_offload=true") < gib("gradient_checkpointing=true")
    assert gib("lora={rank: 4, alpha: 8}") < plain - 2.9 * weights


def test_data_that_is_not_there_is_named(monkeypatch, tmp_path, qwen):
    monkeypatch.setenv("STAPO_BENCH_DATA", str(tmp_path))
    with pytest.raises(UsageError, match=r"dapo_math_17k\.jsonl: no such file; expected .* data\.source=hub"):
        small.make_plan(qwen, tmp_path, [])


def test_a_dry_run_starts_nothing(tmp_path, capsys):
    reproduce.main(["--scale", "small", "--dry-run", "--out", str(tmp_path / "o"), "iterations=2"])
    out = capsys.readouterr().out.splitlines()
    assert "21 M parameters" in out[0] and "minutes by stapo_train.cost, not measured" in out[1]
    assert len(out) == 2 + 15 and not (tmp_path / "o").exists()


def test_without_vllm_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(small, "find_spec", lambda name: None if name == "vllm" else object())
    monkeypatch.setattr(small, "run_jobs", lambda *_, **__: pytest.fail("a job was started"))
    with pytest.raises(SystemExit) as stop:
        reproduce.main(["--scale", "small", "--out", str(tmp_path / "o")])
    told = capsys.readouterr().err
    assert stop.value.code == 1 and not (tmp_path / "o").exists()
    assert told.startswith("reproduce_table.sh: rollout.engine vllm: expected vLLM in this environment, got none; ")
    assert "scripts/gpu_environment.sh vllm" in told
    started = []
    monkeypatch.setattr(small, "run_jobs", lambda jobs, lanes: started.extend(jobs))
    monkeypatch.setattr(small, "write_results", lambda out: None)
    monkeypatch.setattr(small.subprocess, "run", lambda *_, **__: None)
    reproduce.main(["--scale", "small", "--out", str(tmp_path / "o"), "rollout.engine=transformers"])
    assert len(started) == 15


def test_the_base_that_is_made_is_not_taken_for_the_tiny_one(tmp_path):
    sizes = ["hidden_size=32", "num_layers=1", "intermediate_size=32", "steps=1", "examples_per_step=2"]
    pretrain_on_gpu.main(small.CONFIGS / "base.yaml", [*sizes, f"out={tmp_path / 'base'}"])
    assert read_checkpoint(tmp_path / "base").model == "small"


def test_the_scales_by_name(monkeypatch, capsys, tmp_path):
    reproduce.main(["--dry-run", "--out", str(tmp_path)])  # tiny is the default
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 15 and lines[0].startswith("cp -r ") and "configs/tiny/base" in lines[0]
    reproduce.main(["--dry-run", "--from-scratch", "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 15 and lines[0].startswith("stapo-train pretrain ") and "configs/tiny" in lines[0]
    monkeypatch.setattr(sys, "stderr", sys.stdout)
    with pytest.raises(SystemExit) as stop:
        reproduce.main(["--scale", "large"])
    assert stop.value.code == 2 and "invalid choice: 'large'" in capsys.readouterr().out
