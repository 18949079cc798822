"""What would break on a GPU, met without one: the driver, the ranks, the memory, the length of a cache."""

import io
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from eval_setup import make_options
from fake_vllm import FakeVllm, install

from stapo_bench.cli import cli
from stapo_bench.engines import EngineOptions, default_device, default_dtype, gpu_names, open_engine
from stapo_bench.engines.engine import _resolved
from stapo_bench.engines.vllm import VllmEngine, reload_folder
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_tasks import EvalTask, most_positions
from stapo_bench.sampling.evaluation import evaluate
from stapo_train.tiny.random_model import random_model, save

LISTED = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n"
OLD_DRIVER = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12020)."


@pytest.fixture
def driver(monkeypatch, tmp_path: Path) -> Path:
    """``nvidia-smi`` that lists two GPUs, and a torch for CUDA 13 that sees none of them."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = -L ] && printf "{LISTED}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return program


def test_a_gpu_that_torch_does_not_see_is_an_error_with_the_ways_out(driver, monkeypatch):
    import warnings

    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(warnings.warn(OLD_DRIVER, stacklevel=1)))
    with pytest.raises(StapoError) as error:
        default_device()
    told = str(error.value)
    assert told.startswith("expected torch to see this machine's GPUs (GPU 0: NVIDIA H100 80GB HBM3, ...), got none: ")
    assert OLD_DRIVER in told and "update the driver" in told and "CUDA_VISIBLE_DEVICES= " in told and "\n" not in told
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(StapoError, match=r"torch \S+ is a build for CPUs; install the one for CUDA"):
        default_device()


@pytest.mark.parametrize("command", ["auto", "load", "train", "small"])
def test_nothing_starts_on_the_cpu_unasked(driver, tmp_path: Path, monkeypatch, command):
    from stapo_train.policy import load_model
    from stapo_train.reproduce import pretrain_on_gpu, small

    folder = save(random_model(), tmp_path / "model")
    monkeypatch.setattr("stapo_bench.engines.engine.find_spec", lambda _: object())
    actions = {
        "auto": lambda: _resolved(EngineOptions()),
        "load": lambda: open_engine(EngineOptions(name="transformers"), folder),
        "train": lambda: load_model(folder, SimpleNamespace(device="auto")),
        "small": lambda: pretrain_on_gpu.main(small.CONFIGS / "base.yaml", [f"out={tmp_path / 'base'}"]),
    }
    with pytest.raises(StapoError, match="expected torch to see this machine's GPUs"):
        actions[command]()


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_gpus_that_are_hidden_on_purpose_are_none(driver, monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert default_device() == "cpu"


def test_a_driver_that_lists_nothing_or_fails_means_a_cpu(driver):
    assert gpu_names() == ["GPU 0: NVIDIA H100 80GB HBM3", "GPU 1: NVIDIA H100 80GB HBM3"]
    for text in ("#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate'; exit 9\n", "no program\n"):
        driver.write_text(text)
        assert gpu_names() == [] and default_device() == "cpu"


@pytest.mark.parametrize(("has_bfloat16", "expected"), [(True, "bfloat16"), (False, "float16")])
def test_a_gpu_computes_in_half_precision_whatever_the_folder_holds(tmp_path, monkeypatch, has_bfloat16, expected):
    """A trained folder holds float32, its base bfloat16: both are to be sampled in one precision."""
    from stapo_bench.engines import transformers as engine

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bfloat16)
    assert (default_dtype("cuda"), default_dtype("cuda:1"), default_dtype("cpu")) == (expected, expected, "float32")
    monkeypatch.setattr(engine, "default_device", lambda: "cpu")
    monkeypatch.setattr(engine, "default_dtype", lambda device: expected)
    for kind in (torch.float32, torch.bfloat16):
        folder = save(random_model().to(kind), tmp_path / str(kind))
        assert open_engine(EngineOptions(name="transformers"), folder).identity()["dtype"] == expected


# --- vLLM -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def opened(folder: Path, **options) -> VllmEngine:
    return open_engine(EngineOptions(name="vllm", **options), folder)


def test_ranks_start_anew_since_a_question_for_gpus_spoils_forks(monkeypatch, folder):
    fake = install(monkeypatch, FakeVllm())
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    opened(folder, tensor_parallel=2)
    assert fake.asked["tensor_parallel_size"] == 2


def test_each_of_the_processes_that_train_together_has_a_vllm_of_its_own(monkeypatch, folder):
    fake = install(monkeypatch, FakeVllm())
    VllmEngine(folder, launched=True)
    assert fake.asked["distributed_executor_backend"] == "external_launcher"


def test_a_second_engine_of_a_process_is_no_rank_of_the_first_ones_group(monkeypatch, folder):
    """vLLM makes a process group of its own for an engine, even of one process."""
    fake = install(monkeypatch, FakeVllm())
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    opened(folder)
    assert "distributed_executor_backend" not in fake.asked


def test_flashinfers_sampler_is_not_compiled_at_every_start(monkeypatch, folder):
    monkeypatch.setenv("VLLM_USE_FLASHINFER_SAMPLER", "1")
    install(monkeypatch, FakeVllm())
    opened(folder)
    assert os.environ["VLLM_USE_FLASHINFER_SAMPLER"] == "0"


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ({"free_share": 0.6}, r"Free memory on device .* others use this GPU .*--gpu-memory"),
        ({"cached": 9000}, r"To serve at least one request .* fewer new tokens, or more memory: --gpu-memory"),
    ],
)
def test_what_does_not_fit_is_named_with_the_way_out(monkeypatch, folder, machine, message):
    install(monkeypatch, FakeVllm(**machine))
    with pytest.raises(StapoError, match=message) as error:
        opened(folder)
    assert str(error.value).startswith(f"{folder}: vLLM does not start: ") and "\n" not in str(error.value)


def test_the_ways_out_work(monkeypatch, folder):
    fake = install(monkeypatch, FakeVllm(free_share=0.6, cached=9000))
    opened(folder, gpu_memory=0.5, positions=8192)
    assert (fake.asked["gpu_memory_utilization"], fake.asked["max_model_len"]) == (0.5, 8192)
    assert fake.asked["trust_remote_code"] is False


@pytest.mark.parametrize(("asked", "expected"), [(None, 32_768), (8192, 8192), (40_000, 32_768)])
def test_vllm_is_ready_for_what_is_asked_and_never_for_more_than_the_model(monkeypatch, folder, asked, expected):
    fake = install(monkeypatch, FakeVllm())
    engine = opened(folder, positions=asked)
    assert fake.asked["max_model_len"] == expected
    assert engine.context_length == 32_768  # decides a sample, and stays the model's


def test_a_request_beyond_what_vllm_was_started_for_is_an_error_and_not_shorter(monkeypatch, folder):
    install(monkeypatch, FakeVllm())
    engine = opened(folder, positions=100)
    prompt = Prompt(task="t", problem_id="p", text="", token_ids=(1,) * 60)
    params = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=50)
    with pytest.raises(StapoError, match=r"at most 100 positions, .* got 60 of the prompt and 50 new ones"):
        engine.generate([Request(key=SampleKey("t", "p", 0), prompt=prompt, seed=1)], params)


def test_runner_and_scheduling_are_part_of_the_identity(monkeypatch, folder):
    monkeypatch.setattr(VllmEngine, "_effective", lambda *_: type("P", (), {"all_stop_token_ids": {1}}))
    install(monkeypatch, FakeVllm())
    one = opened(folder).identity()
    install(monkeypatch, FakeVllm(runner=False, asynchronous=False))
    other = opened(folder).identity()
    assert {name: (one[name], other[name]) for name in one if one[name] != other[name]} == {
        "runner": ("V2", "V1"),
        "scheduling": ("asynchronous", "synchronous"),
    }


def test_ranks_read_the_next_checkpoint_by_themselves(monkeypatch, tmp_path):
    fake = install(monkeypatch, FakeVllm())
    folder = save(random_model(), tmp_path / "next")
    opened(folder, tensor_parallel=2).load_folder(folder)
    ((how, arguments),) = fake.calls
    assert (how, arguments) == (reload_folder, {"checkpoint": str(folder)})  # a path goes to the ranks, no tensor

    class Rank:
        """vLLM's worker, which hands over to its model."""

        def reload_weights(self, weights_iterator):
            self.found = dict(weights_iterator)

    rank = Rank()
    reload_folder(rank, **arguments)
    assert rank.found.keys() == random_model().state_dict().keys()


# --- an evaluation ----------------------------------------------------------------------------------------------------


def eval_task(lengths: list[int], num_problems: int) -> EvalTask:
    """A task whose prompts have these lengths, the first ``num_problems`` of which are asked."""
    prompts = [Prompt(task="t", problem_id=str(i), text="", token_ids=(1,) * n) for i, n in enumerate(lengths)]
    return EvalTask(task=None, problems=[], prompts=prompts, prompt_format="", num_problems=num_problems, num_samples=1)


def test_positions_are_those_of_the_longest_prompt_that_is_asked():
    assert most_positions([eval_task([5, 9, 70], 2), eval_task([7], 1)], 100) == 109
    assert most_positions([], 100) is None
    text_alone = replace(eval_task([5], 1), prompts=[Prompt(task="t", problem_id="0", text="?", token_ids=None)])
    assert most_positions([eval_task([5], 1), text_alone], 100) is None


def test_an_engine_is_opened_anew_for_longer_prompts(monkeypatch, tmp_path):
    options = make_options(tmp_path, engine=EngineOptions(name="vllm"), decoding="training", max_new_tokens=100)
    fake = install(monkeypatch, FakeVllm())
    folder = save(random_model(), tmp_path / "model")
    options = replace(options, checkpoint=folder)
    monkeypatch.setattr(VllmEngine, "close", lambda self: None)
    with EngineCache() as engines:
        first = engines.engine(options, [eval_task([50], 1)])
        assert fake.asked["max_model_len"] == 150
        assert engines.engine(options, [eval_task([20], 1)]) is first
        assert engines.engine(options, [eval_task([60], 1)]) is not first
        assert fake.asked["max_model_len"] == 160


def test_a_context_shorter_than_the_limit_is_said_before_the_start(tmp_path):
    options = make_options(tmp_path, samples=1, limit=1, engine=EngineOptions(name="transformers"), decoding="training")
    folder = save(random_model(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    context = config["max_position_embeddings"]
    for limit, told in ((context - 1, True), (5, False)):
        watch = io.StringIO()
        evaluate(
            replace(options, checkpoint=folder, out=tmp_path / str(limit), max_new_tokens=limit),
            watch=watch,
        )
        assert (f"its context of {context:,} tokens is less than the longest prompt" in watch.getvalue()) == told
        if told:
            assert watch.getvalue().index("its context") < watch.getvalue().index("run folder")


def test_the_share_of_memory_is_an_option_that_other_engines_refuse(folder):
    context = cli.commands["eval"].make_context("eval", ["--ckpt", "x", "--decoding", "justrl", "--gpu-memory", "0.5"])
    assert context.params["gpu_memory"] == 0.5
    with pytest.raises(UsageError, match="--gpu-memory: expected engine vllm, got transformers"):
        open_engine(EngineOptions(name="transformers", gpu_memory=0.5), folder)
    shown = subprocess.run(
        ["python", "-m", "stapo_bench", "eval", "--ckpt", "x", "--decoding", "justrl", "--gpu-memory", "1.5"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.returncode == 2 and "1.5 is not in the range 0<x<=1" in shown.stderr
