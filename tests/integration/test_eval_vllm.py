"""``stapo-bench eval --engine vllm`` from a checkpoint to the table, and on from where it was.

Run by ``scripts/integration.sh vllm``, in an environment with vLLM.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stapo_bench.analysis.score_file import score_run
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.store import read_samples

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)


def evaluate(checkpoint: Path, run: Path, samples: int) -> str:
    command = [sys.executable, "-m", "stapo_bench", "eval", "--ckpt", str(checkpoint), "--decoding", "training"]
    command += ["--engine", "vllm", "--tasks", "tiny_aime24,tiny_minerva", "--limit", "3", "--samples", str(samples)]
    command += ["--max-new-tokens", "12", "--out", str(run)]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "PASSIVE"} | os.environ
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=environment)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def test_the_command_evaluates_with_vllm_and_adds_only_what_is_missing(checkpoint, tmp_path):
    run = tmp_path / "run"
    table = evaluate(checkpoint, run, samples=2)
    assert "Tiny AIME24" in table
    assert "Tiny Minerva" in table
    first = {sample.key: sample.completion for sample in read_samples(run)}
    assert len(first) == 2 * 3 * 2
    assert len(set(first.values())) > 8
    engine = load_manifest(run).identity.engine
    assert engine["engine"] == "vllm"
    evaluate(checkpoint, run, samples=4)
    again = {sample.key: sample.completion for sample in read_samples(run)}
    assert len(again) == 2 * 3 * 4
    assert first == {key: again[key] for key in first}
    assert all(task.complete and task.num_samples == 12 for task in score_run(run).tasks)


def test_checkpoints_in_one_go_share_one_engine_and_get_the_samples_that_each_gets_alone(checkpoint, tmp_path):
    """Run as a script of its own: vLLM gives memory back when its process ends."""
    ended = subprocess.run(
        [sys.executable, "-c", MANY, str(checkpoint), str(tmp_path)],
        check=False, capture_output=True, text=True, timeout=600,
        env={"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "PASSIVE"} | os.environ,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["engines"] == 1
    assert told["together"][0] == told["alone"]
    assert told["together"][0] != told["together"][1]
    assert told["together"][2] == told["alone"]  # back at the first weights


MANY = """
import io, json, shutil, sys
from dataclasses import replace
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file
from stapo_bench.engines import EngineOptions
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.runs.store import read_samples

first, folder = Path(sys.argv[1]), Path(sys.argv[2])
second = shutil.copytree(first, folder / "second")
weights = load_file(second / "model.safetensors")
torch.manual_seed(0)
weights = {name: weight + 0.02 * torch.randn_like(weight) for name, weight in weights.items()}
save_file(weights, second / "model.safetensors", metadata={"format": "pt"})
options = EvalOptions(checkpoint=first, decoding="training", tasks=("tiny_aime24",), out=folder / "alone", samples=2,
                      limit=3, max_new_tokens=24, engine=EngineOptions(name="vllm"))

def drawn(options, engines):
    run_dir = evaluate(options, engines=engines, watch=io.StringIO()).run_dir
    return sorted([*sample.key, sample.completion] for sample in read_samples(run_dir))

opened, together = set(), []
with EngineCache() as engines:
    alone = drawn(options, engines)
    for number, checkpoint in enumerate((first, second, first)):
        together.append(drawn(replace(options, checkpoint=checkpoint, out=folder / str(number)), engines))
        opened.add(id(engines._ours))
print(json.dumps({"alone": alone, "together": together, "engines": len(opened)}))
"""
