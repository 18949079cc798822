"""verl's own trainer, managed by Ray, trains a random tiny model with our objective on a CPU: two workers, real draws.

``python -m verl.trainer.main_ppo`` as a user starts it; of verl's only the platform (verl_on_cpu.py) and the engine
that draws (verl_rollouts_on_cpu.py) are replaced. Run by ``scripts/integration.sh verl``.
"""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="verl is not installed: scripts/integration.sh runs this")
import torch
import transformers

from stapo_bench.presenting.figures import Sources
from stapo_bench.records import Gold, Problem
from stapo_train.integrations.verl_data import chat_template, verl_rows, write_parquet
from stapo_train.tiny.random_model import END, random_model, save

PLAIN = chat_template("plain")
OVERRIDES = [
    "algorithm.adv_estimator=stapo_train",
    "actor_rollout_ref.actor.policy_loss.loss_mode=stapo_train",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.actor.use_dynamic_bsz=true",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=128",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.actor.optim.lr=1e-3",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}",
    "actor_rollout_ref.model.use_remove_padding=false",
    "+actor_rollout_ref.model.override_config.attn_implementation=eager",
    f'actor_rollout_ref.model.custom_chat_template="{PLAIN}"',
    "actor_rollout_ref.rollout.name=cpu",
    "actor_rollout_ref.rollout.n=8",  # draws differ from run to run: few enough groups have equal rewards
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    "reward.custom_reward_function.path=pkg://verl_rollouts_on_cpu",
    "+reward.custom_reward_function.reward_kwargs.grader=strict",
    "+reward.custom_reward_function.reward_kwargs.workers=1",
    "data.train_batch_size=4",
    "data.max_prompt_length=32",
    "data.max_response_length=16",
    "data.dataloader_num_workers=0",
    "trainer.device=cpu",
    "trainer.n_gpus_per_node=2",
    "trainer.logger=[console]",
    "trainer.val_before_train=false",
    "trainer.save_freq=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    # What Ray believes to have: verl asks for a GPU per worker and for many CPUs.
    "+ray_kwargs.ray_init.num_gpus=2",
    "ray_kwargs.ray_init.num_cpus=16",
    "+ray_kwargs.ray_init.include_dashboard=false",
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = save(random_model(context_length=64, sharpness=6.0), tmp_path_factory.mktemp("checkpoint"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})  # verl expects it of every Qwen3
    assert len(tokenizer) == END + 2
    tokenizer.save_pretrained(folder)
    return folder


def train(folder: Path, checkpoint: Path, steps: int) -> dict[int, dict[str, float]]:
    """Run verl's trainer up to that many steps; its metrics by step."""
    files = [f"data.{split}_files={folder / 'train.parquet'}" for split in ("train", "val")]
    places = [f"actor_rollout_ref.model.path={checkpoint}", f"trainer.default_local_dir={folder / 'run'}"]
    hooks = "verl_on_cpu,verl_rollouts_on_cpu,stapo_train.integrations.verl"
    ran = subprocess.run(
        [sys.executable, "-m", "verl.trainer.main_ppo", *OVERRIDES, *files, *places,
         f"trainer.total_training_steps={steps}"],
        cwd=folder, capture_output=True, text=True, timeout=1800, check=False,
        env={
            **os.environ, "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
            "VERL_USE_EXTERNAL_MODULES": hooks, "STAPO_OBJECTIVE": "{name: stapo, tau_p: 0.9}",
            "RAY_USAGE_STATS_ENABLED": "0",
        },
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-6000:]
    assert "stapo_objective" in ran.stdout and "'tau_p': 0.9" in ran.stdout  # verl's own print of its configuration
    lines = re.findall(r"step:(\d+) - (.*)", ran.stdout)
    return {int(step): dict(re.findall(r"(\S+):(?:np\.\w+\()?([-+.\de]+|nan)", line)) for step, line in lines}


def test_ray_trains_saves_and_goes_on(checkpoint, tmp_path):
    problems = [
        Problem(task="sums", problem_id=str(i), question=f"{i} + 1 = ", gold=Gold(answer=str(i + 1))) for i in range(8)
    ]
    write_parquet(verl_rows(problems, "{{problem}}"), tmp_path / "train.parquet")
    # Started, and started again with more to do: verl goes on from its checkpoint.
    logs = train(tmp_path, checkpoint, 1)
    assert list(logs) == [1]
    logs |= train(tmp_path, checkpoint, 2)
    assert sorted(logs) == [1, 2]
    for log in logs.values():
        value = {name: float(text) for name, text in log.items()}
        assert 0 < value["actor/objective/num_kept"] < value["actor/objective/num_tokens"]
        assert 0 < value["actor/objective/num_silenced"] < value["actor/objective/num_candidates"]
        assert 0 < value["actor/grad_norm"] < math.inf
        assert value["training/rollout_probs_diff_max"] < 1e-4  # what draws has the trainer's weights
        assert math.isnan(value["critic/score/mean"])  # some rewards are unknown,
        assert value["critic/advantages/max"] > 0 > value["critic/advantages/min"]  # and cost their own rollout alone
    (training,) = Sources(logs=[tmp_path / "run"]).trainings  # the same numbers, as a training log of ours
    assert (training.method, training.iterations, training.objective["tau_p"]) == ("STAPO", (1, 2), 0.9)
    assert training.column("entropy").tolist() == pytest.approx(
        [float(logs[step]["actor/entropy"]) for step in (1, 2)], abs=1e-3
    )
    assert (training.column("masked_share") > 0).all()
    assert (training.column("rollout_mismatch") < 1e-3).all()

    merge = ["-m", "verl.model_merger", "merge", "--backend", "fsdp", "--target_dir", str(tmp_path / "merged")]
    actor = tmp_path / "run" / "global_step_2" / "actor"
    subprocess.run([sys.executable, *merge, "--local_dir", str(actor)], check=True, capture_output=True, timeout=300)
    before, after = (transformers.AutoModelForCausalLM.from_pretrained(f) for f in (checkpoint, tmp_path / "merged"))
    moved = [not torch.equal(p.bfloat16(), q) for p, q in zip(before.parameters(), after.parameters(), strict=True)]
    assert all(moved)
