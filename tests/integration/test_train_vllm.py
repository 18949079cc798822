"""``stapo-train`` with ``rollout.engine: vllm``: the reward rises, the weights are in sync, and a kill costs nothing.

Run by ``scripts/integration.sh vllm``, in an environment with vLLM.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from ranks_setup import assert_same_training

from stapo_bench.engines import EngineOptions
from stapo_bench.runs.sealed import unseal
from stapo_bench.runs.store import scan_keys
from stapo_bench.sampling import evaluate
from stapo_train.config import load_config
from stapo_train.evaluation import eval_options

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)
IN_SYNC = 1e-5
"""Nats between the log-probs of trainer and engine, both in float32; rounding alone leaves about 1e-7."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    import torch
    from learning_setup import make_base

    torch.set_num_threads(1)  # on a busy machine several would wait for each other most of the time
    return make_base(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def whole(base, tmp_path_factory):
    """The run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    ended = train(write_config(base, folder))
    assert ended.wait(timeout=600) == 0, log(folder)
    return folder / "run"


def write_config(base: Path, folder: Path, **changes) -> Path:
    from learning_setup import make_values

    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(make_values(base, folder, rollout__engine="vllm", checkpoint__every=2, **changes)))
    return path


def train(config: Path, *options: str, before: str = "") -> subprocess.Popen:
    """The command in a process of its own, after ``before`` in the same process."""
    program = f"{before}\nfrom stapo_train.cli import main\nmain()"
    command = [sys.executable, "-c", program, str(config), *options]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"} | os.environ
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    with (config.parent / "log").open("a") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=environment)


def log(folder: Path) -> str:
    return (folder / "log").read_text()[-3000:]


def records(run: Path) -> list[dict]:
    path = run / "metrics.jsonl"
    return [unseal(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def without_times(run: Path) -> list[dict]:
    return [{key: value for key, value in row.items() if key not in ("seconds", "memory")} for row in records(run)]


def test_the_reward_rises_on_rollouts_of_the_present_weights(whole):
    rows = records(whole)
    curve = [row["reward"] for row in rows]
    assert sum(curve[-3:]) / 3 - sum(curve[:2]) / 2 > 0.15, curve
    assert len(rows) == 8
    assert all(0 < row["rollout_mismatch"] < IN_SYNC for row in rows)
    assert json.loads((whole / "checkpoints" / "final" / "stapo.json").read_text())["step"] == 8


def test_an_engine_left_with_old_weights_is_seen_in_the_first_iteration_after_an_update(base, tmp_path):
    forget = "from stapo_train import run\nrun.load_weights = lambda engine, model, config: None"
    process = train(write_config(base, tmp_path, iterations=3), before=forget)
    assert process.wait(timeout=600) == 0, log(tmp_path)
    first, *others = records(tmp_path / "run")
    assert first["rollout_mismatch"] < IN_SYNC
    assert all(row["rollout_mismatch"] > 1000 * IN_SYNC for row in others)


def test_a_killed_run_goes_on_to_the_same_numbers(whole, base, tmp_path):
    """Killed after a checkpoint and before the next: what vLLM drew is on disk or drawn again by the same seeds."""
    config, run = write_config(base, tmp_path), tmp_path / "run"
    for kill_after in (3, 6):
        process = train(config, "--resume")
        deadline = time.monotonic() + 600
        while len(records(run)) < kill_after:
            assert process.poll() is None, log(tmp_path)
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert train(config, "--resume").wait(timeout=600) == 0, log(tmp_path)
    assert without_times(run) == without_times(whole)
    weights = Path("checkpoints", "final", "model.safetensors")
    assert (run / weights).read_bytes() == (whole / weights).read_bytes()


EVAL = {"every": 4, "tasks": ["tiny_aime24"], "samples": 1}


def test_evaluated_on_the_way_it_trains_the_same_and_draws_what_eval_draws(whole, base, tmp_path):
    config = write_config(base, tmp_path, eval=EVAL)
    assert train(config).wait(timeout=600) == 0, log(tmp_path)
    run, weights = tmp_path / "run", Path("checkpoints", "final", "model.safetensors")
    assert (run / weights).read_bytes() == (whole / weights).read_bytes()
    assert [{**row, "evaluation": {}, "crc32": 0} for row in without_times(run)] == [
        {**row, "evaluation": {}, "crc32": 0} for row in without_times(whole)
    ]
    assert [row["iteration"] for row in records(run) if row["evaluation"]] == [4, 8]
    options = eval_options(load_config(config), run / "checkpoints" / "final", 8)
    options = replace(options, engine=EngineOptions(name="vllm"))
    assert evaluate(options).num_sampled == 0  # the command finds its own run, with nothing missing
    evaluate(replace(options, out=tmp_path / "again"))
    assert drawn(options.out) == drawn(tmp_path / "again") and len(drawn(options.out)) == 30


def drawn(place: Path) -> dict:
    """The texts of a run folder."""
    found = {}
    scan_keys(place, 0, lambda sample: found.update({sample.key: sample.completion}))
    return found


AT_ONCE = "from stapo_train import run\nfrom test_ahead import AtOnce\nrun.ThreadPoolExecutor = AtOnce"


def test_drawn_ahead_in_a_thread_and_killed_it_is_what_is_drawn_before_the_updates(base, tmp_path):
    beside = {"rollout__ahead": 1, "eval": {**EVAL, "every": 2}, "iterations": 4}
    folders = [tmp_path / name for name in ("whole", "killed")]
    for folder in folders:
        folder.mkdir()
    first, second = (write_config(base, folder, **beside) for folder in folders)
    assert train(first, before=AT_ONCE).wait(timeout=600) == 0, log(folders[0])
    process, deadline = train(second), time.monotonic() + 600
    while len(records(folders[1] / "run")) < 3:
        assert process.poll() is None and time.monotonic() < deadline, log(folders[1])
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert train(second, "--resume").wait(timeout=600) == 0, log(folders[1])
    whole, killed = (folder / "run" for folder in folders)
    ahead = Path("state", "rollouts-000005.jsonl")  # the same tokens and log-probs to the end, to the bit
    assert (killed / ahead).read_bytes() == (whole / ahead).read_bytes()
    assert without_times(killed)[:3] == without_times(whole)[:3]
    assert_same_training(killed, whole)  # a process that goes on rounds the updates otherwise, by 1e-7
    for step in ("step-000000", "step-000002", "step-000004"):
        assert drawn(killed / "eval" / step) == drawn(whole / "eval" / step) != {}
    mismatch = [row["rollout_mismatch"] for row in records(killed)]
    assert mismatch[0] < IN_SYNC and min(mismatch[1:]) > 1000 * IN_SYNC, "one step off policy"


@pytest.fixture(scope="module", params=["tied embeddings", "embeddings apart"])
def engine_and_model(request, base, tmp_path_factory):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from stapo_bench.engines.vllm import VllmEngine

    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    model = AutoModelForCausalLM.from_pretrained(base, tie_word_embeddings=request.param == "tied embeddings")
    torch.manual_seed(0)
    model.lm_head.weight.data.normal_(std=0.1)
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    AutoTokenizer.from_pretrained(base).save_pretrained(path)
    engine = VllmEngine(path, dtype="float32")
    yield engine, model
    engine.close()


def test_weights_change_in_place_and_nothing_of_the_old_ones_is_left(engine_and_model):
    import torch

    from bench.sleep import mismatch

    engine, model = engine_and_model
    for _ in range(2):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.03)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        assert mismatch(engine, model) > 1000 * IN_SYNC
        engine.load_weights(model.state_dict())
        assert mismatch(engine, model) < IN_SYNC
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_an_engine_that_shares_its_gpu_sleeps_until_it_gets_weights(engine_and_model, monkeypatch):
    # On a CPU vLLM goes through the same states and gives back nothing.
    from bench.sleep import mismatch

    engine, model = engine_and_model
    calls = []
    for name in ("sleep", "wake_up", "collective_rpc", "reset_prefix_cache"):
        real = getattr(engine._llm, name)
        monkeypatch.setattr(
            engine._llm,
            name,
            lambda *a, n=name, f=real, **k: calls.append((n, k.get("level"), k.get("tags"))) or f(*a, **k),
        )
    engine.sleep()
    assert calls == []  # it does not share
    monkeypatch.setattr(engine, "_can_sleep", True)
    engine.sleep()
    engine.sleep()
    engine.load_weights(model.state_dict())
    assert calls == [
        ("sleep", 2, None),
        ("wake_up", None, ["weights"]),
        ("collective_rpc", None, None),
        ("wake_up", None, ["kv_cache"]),
        ("reset_prefix_cache", None, None),
    ]
    assert mismatch(engine, model) < IN_SYNC
