"""A paper-scale launch at toy size, on a CPU under Ray: its own scripts, from the data to the curves of training.

data -> verl's trainer -> conversion -> the checkpoints followed -> curves. Of the launch only what a CPU has not is
replaced: the GPUs and vLLM (verl_on_cpu.py, verl_rollouts_on_cpu.py), and with vLLM the evaluation after training, for
which the checkpoints are followed here. Run by ``scripts/integration.sh verl``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="verl is not installed: scripts/integration.sh runs this")
# The model is the one that is trained there.
from test_verl_ray import OVERRIDES, checkpoint  # noqa: F401

from stapo_bench.runs import read_checkpoint
from stapo_train.config import load_config
from stapo_train.cost.shapes import GPUS, Setup
from stapo_train.reproduce.paper_stages import CURVES, Stage, stages, write
from stapo_train.reproduce.paper_verl import verl_overrides

HERE = Path(__file__).resolve().parent
TINY = HERE.parents[1] / "train" / "configs" / "tiny" / "stapo.yaml"
STEPS = 2
SETTINGS = [
    f"iterations={STEPS}", "data.count=8", "data.prompt_format=chat", "rollout.prompts=4", "rollout.max_new_tokens=16",
    "update.mini_batches=2", "checkpoint.every=1", f"checkpoint.keep={STEPS}", "objective.tau_p=0.9",
]  # fmt: skip
HOOKS = "verl_on_cpu,verl_rollouts_on_cpu"


def toy(overrides: list[str]) -> list[str]:
    """The launch's overrides, and what a CPU wants instead; the plug-in is loaded behind the replacements."""
    values = dict(pair.split("=", 1) for pair in [*overrides, *OVERRIDES])
    modules = next(key for key in values if key.endswith("VERL_USE_EXTERNAL_MODULES"))
    values[modules] = f"'{HOOKS},{values[modules]}'"
    return [f"{key}={value}" for key, value in values.items()]


def run(command: list[str]) -> str:
    """A command in the environment of a user who has verl import our replacements; its output."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    here = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(paths), "VERL_USE_EXTERNAL_MODULES": HOOKS, "RAY_ADDRESS": "local",
        "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    ran = subprocess.run(
        command, env={**os.environ, **here}, capture_output=True, text=True, timeout=1800, check=False
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-6000:]
    return ran.stdout


def test_a_launch_at_toy_size_trains_converts_is_followed_and_draws_its_curves(checkpoint, tmp_path):  # noqa: F811
    config = load_config(TINY, [*SETTINGS, f"model={checkpoint}", f"out={tmp_path / 'unused'}"])
    setup = Setup(gpu=GPUS["h20"], nodes=1, gpus_per_node=2)
    own = verl_overrides(config, setup, data=tmp_path / "train.parquet", out=tmp_path / "stapo")
    plan = stages(tmp_path, {"stapo": config}, {"stapo": toy(own)}, setup)
    scripts = dict(zip([stage.name for stage in plan], write(plan, tmp_path, config), strict=True))
    named: dict[str, Stage] = {stage.name: stage for stage in plan}
    for name in ("data", "train stapo", "convert stapo", "figures"):
        assert not named[name].is_done()
        run(["bash", str(scripts[name])])
        assert named[name].is_done(), name

    assert read_checkpoint(tmp_path / "stapo" / "hf").method == "STAPO"
    curves = [tmp_path / "results" / f"{name}.pdf" for name in CURVES]
    assert all(path.read_bytes().startswith(b"%PDF") for path in curves)

    asked = ["--decoding", "training", "--tasks", "tiny_aime24", "--samples", "2", "--max-new-tokens", "8", "--once"]
    places = [str(tmp_path / "stapo" / "verl"), "--base", str(checkpoint), "--out", str(tmp_path / "followed")]
    said = run([str(Path(sys.executable).parent / "stapo-bench"), "follow", *places, *asked])
    assert [line.split(":")[0] for line in said.splitlines()][:3] == ["base", "step 1", "step 2"]
    points = json.loads((tmp_path / "followed" / "curve.json").read_text())["points"]
    assert [point["step"] for point in points] == [None, 1, 2]
