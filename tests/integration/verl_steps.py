"""Optimizer steps of verl's own FSDP2 engine on a CPU, on planted rollouts; several processes under torchrun.

    torchrun --nproc_per_node 2 verl_steps.py CHECKPOINT CASE... FOLDER

A case is OBJECTIVE:MICRO-BATCHES[:FAULT], where micro-batches are ``fixed`` (3 rows each), ``dynamic`` (by tokens),
``packed`` (by tokens, without padding) or ``padded`` (fixed, in the layout of verl's older trainer). Each rank writes
CASE.RANK.pt: the gradient that the optimizer saw, and the step's metrics. The case ``resume`` saves a checkpoint after
two of three steps, and takes the third with another worker too: it writes the weights after each.
"""

import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import transformers
import verl_on_cpu  # noqa: F401
from random_rollouts import GROUP_SIZE, GROUPS, MAX_NEW_TOKENS, drawn
from tensordict import TensorDict
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils
from verl.utils.metric import Metric
from verl.workers.config import (
    ActorConfig,
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    PolicyLossConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import ActorRolloutRefWorker
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import left_right_2_no_padding

from stapo_train.advantages import group_advantages
from stapo_train.batch import KEY_STRIDE, Batch, collate
from stapo_train.distributed import end_rank
from stapo_train.integrations.verl import ROW, StapoTrainingWorker, row_names
from stapo_train.integrations.verl_settings import NAME, VARIABLE, parse_objective
from stapo_train.objective import select
from stapo_train.objectives import REGISTRY
from stapo_train.policy import Policy

MICRO_BATCH_ROWS, MICRO_BATCH_TOKENS = 3, 70
KL_BETA = 0.05
SETTINGS = {
    "justrl": {"dual_clip": 2.0},
    "grpo": {"kl_beta": KL_BETA},
    **{name: {"max_length": MAX_NEW_TOKENS} for name in ("dr-grpo", "dppo-tv", "dppo-kl")},
    "stare": {"max_entropy": 9.0, "gate": "mini-batch"},
    "kl-cov": {"share": 0.05},
    "clip-cov": {"share": 0.05, "low": -1e9, "high": 1e9, "seed": 3},
    "random-mask": {"seed": 3},
}
"""With these every objective finds something to decide on among the random model's tokens."""

OBJECTIVES = {
    name: SETTINGS.get(name, {})
    for name, objective in REGISTRY.items()
    if objective.num_phases == 1 and objective.min_p is None and name != "stapo-micro-batch"
}
"""All that verl's trainer can compute, but for the one that knows its own rank alone."""


def settings(name: str) -> str:
    return json.dumps({"name": name, **OBJECTIVES[name]})


# --- rollouts ---------------------------------------------------------------------------------------------------------


def planted(checkpoint: Path, name: str) -> Batch:
    """The mini-batch as our trainer has it; the policy has moved since it was drawn, past every clip."""
    rollouts = drawn()
    rewards, group_ids = (np.array([getattr(r, field) for r in rollouts]) for field in ("reward", "group_id"))
    objective = parse_objective(settings(name))
    advantages = group_advantages(rewards, group_ids, divide_by_std=objective.divide_by_std)
    batch = collate(rollouts, advantages, torch.float32, torch.device("cpu"))
    now = Policy(model=model_of(checkpoint), temperature=1.0, micro_batch_tokens=100).measure(batch)
    noise = torch.randn(len(now.log_probs), generator=torch.Generator().manual_seed(1)).clamp(-3, 3)
    names = row_names(nested([[*prompt, *response] for prompt, response in batch.rows]))
    places = torch.cat([torch.arange(len(response)) for _, response in batch.rows])
    stats = replace(
        now,
        old_log_probs=now.log_probs + (4e-3 if name == "gspo" else 0.4) * noise,
        entropy=now.entropy.flip(0),  # old entropies: a selection that used them would be another one
        key=names[now.sequence] * KEY_STRIDE + places,
        ref_log_probs=now.log_probs + 0.3 * noise.flip(0),
    )
    return replace(batch, stats=stats)


def model_of(checkpoint: Path):
    return transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)


def nested(rows) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.as_tensor(row) for row in rows], layout=torch.jagged)


def mini_batch(batch: Batch, rows: list[int], padded: bool) -> TensorDict:
    """Rows of the batch as verl's trainer hands them to a worker, filled up with rows of its own without a token."""
    extra = -len(rows) % MICRO_BATCH_ROWS

    def of_rows(values: torch.Tensor) -> list[torch.Tensor]:
        return [values[batch.token_index([r])] for r in rows] + [torch.zeros(1)] * extra

    prompts, responses = ([list(batch.rows[r][side]) for r in rows] + [[256]] * extra for side in (0, 1))
    masks = [torch.ones(len(batch.rows[r][1])).long() for r in rows] + [torch.zeros(1).long()] * extra
    values = {
        "old_log_probs": of_rows(batch.stats.old_log_probs),
        "advantages": of_rows(batch.stats.advantages),
        "ref_log_prob": of_rows(batch.stats.ref_log_probs),
        "response_mask": masks,
    }
    if not padded:
        whole = [p + r for p, r in zip(prompts, responses, strict=True)]
        fields = {name: nested(rows) for name, rows in values.items()} | {
            "prompts": nested(prompts),
            "responses": nested(responses),
            "input_ids": nested(whole),
            "position_ids": nested([range(len(ids)) for ids in whole]),
        }
        data = TensorDict(fields, batch_size=len(prompts))
        data["loss_mask"] = data["response_mask"]
    else:
        left, right = (max(len(ids) for ids in side) for side in (prompts, responses))
        fields = {name: torch.stack([pad(v, right) for v in rows]) for name, rows in values.items()}
        before = torch.stack([pad(torch.tensor(p), left, at_left=True) for p in prompts])
        after = torch.stack([pad(torch.tensor(r), right) for r in responses])
        attention = torch.cat(
            [torch.stack([pad(torch.ones(len(p)), left, at_left=True) for p in prompts]),
             torch.stack([pad(torch.ones(len(r)), right) for r in responses])], dim=1
        ).long()  # fmt: skip
        data = TensorDict(
            fields | {
                "prompts": before, "responses": after, "input_ids": torch.cat([before, after], dim=1),
                "attention_mask": attention, "position_ids": (attention.cumsum(1) - 1).clamp(min=0),
            }, batch_size=len(prompts),
        )  # fmt: skip
        data = left_right_2_no_padding(data)
    tensordict_utils.assign_non_tensor(data, temperature=1.0, global_token_num=None, calculate_entropy=False)
    return data


def pad(x: torch.Tensor, width: int, at_left: bool = False) -> torch.Tensor:
    missing = width - len(x)
    return torch.nn.functional.pad(x, (missing, 0) if at_left else (0, missing))


# --- verl -------------------------------------------------------------------------------------------------------------


class Recording(StapoTrainingWorker):
    """Keeps what the optimizer sees."""

    fault = ""

    def reset(self):
        super().reset()
        step = self.engine.optimizer_step

        def optimizer_step():
            self.gradient = torch.cat([p.grad.full_tensor().flatten() for p in self.engine.module.parameters()])
            return step()

        self.engine.optimizer_step = optimizer_step

    def _loss(self, model_output, data, **others):
        mini = self._mini_batch
        if self.fault == "per-micro-batch":
            index = mini.tokens(data[ROW])
            chosen = select(mini.stats.take(index), self.objective)
            weights, keep_mask = mini.selection.weights.clone(), mini.selection.keep_mask.clone()
            weights[index], keep_mask[index] = chosen.weights, chosen.keep_mask
            self._mini_batch = replace(mini, selection=replace(mini.selection, weights=weights, keep_mask=keep_mask))
        if self.fault == "all-tokens":
            every = torch.tensor(float(data["batch_num_tokens"]))  # what verl counts from loss_mask
            self._mini_batch = replace(mini, selection=replace(mini.selection, denominator=every))
        found = super()._loss(model_output, data, **others)
        self._mini_batch = mini
        return found


def actor_config(kind: type = FSDPActorConfig, **changed) -> ActorConfig:
    base = {"strategy": "fsdp2", "rollout_n": GROUP_SIZE, "ppo_micro_batch_size_per_gpu": MICRO_BATCH_ROWS}
    return kind(**base | {"policy_loss": PolicyLossConfig(loss_mode=NAME, rollout_correction=None)} | changed)


def worker_of(checkpoint: Path, name: str, split: str, **optimizer) -> Recording:
    os.environ[VARIABLE] = settings(name)
    worker = Recording(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=str(checkpoint),
                use_remove_padding=split == "packed",
                enable_gradient_checkpointing=False,
                override_config={"attn_implementation": "eager"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                use_dynamic_bsz=split in ("dynamic", "packed"),
                micro_batch_size_per_gpu=MICRO_BATCH_ROWS,
                max_token_len_per_gpu=MICRO_BATCH_TOKENS,
                use_torch_compile=False,
                mixed_precision=dict.fromkeys(("param_dtype", "reduce_dtype", "buffer_dtype"), "fp32"),
            ),
            optimizer_config=FSDPOptimizerConfig(
                **{"lr": 0.0, "clip_grad": 1e9, "total_training_steps": 8} | optimizer
            ),
            checkpoint_config=CheckpointConfig(),
        )
    )
    worker.reset()
    kl = parse_objective(settings(name)).needs_reference
    worker.set_loss_fn(partial(ppo_loss, config=actor_config(use_kl_loss=kl)))
    return worker


def rows_of_rank(rank: int, ranks: int) -> list[int]:
    """A rank's share, mixed over groups."""
    every: list[int] = np.random.default_rng(5).permutation(GROUPS * GROUP_SIZE).tolist()
    return every[rank::ranks]


def step(checkpoint: Path, case: str) -> dict:
    name, split, *fault = case.split(":")
    worker = worker_of(checkpoint, name, split)
    worker.fault = fault[0] if fault else ""
    data = mini_batch(
        planted(checkpoint, name), rows_of_rank(dist.get_rank(), dist.get_world_size()), split == "padded"
    )
    output = worker.train_batch(data)
    return {"gradient": worker.gradient, "metrics": plain(tensordict_utils.get(output, "metrics"))}


def resume(checkpoint: Path, folder: Path) -> dict:
    # The learning rate rises with every step: a resumed run has to remember where it was.
    rising = {"lr": 1e-3, "lr_warmup_steps": 4}
    rows = rows_of_rank(dist.get_rank(), dist.get_world_size())

    def train(worker) -> torch.Tensor:
        data = mini_batch(planted(checkpoint, "stapo"), rows, False)
        worker.train_batch(tensordict_utils.assign_non_tensor(data, update_lr_scheduler=True))
        return torch.cat([p.full_tensor().flatten() for p in worker.engine.module.parameters()]).detach()

    first_worker = worker_of(checkpoint, "stapo", "dynamic", **rising)
    start = train(first_worker)
    first = train(first_worker)
    first_worker.save_checkpoint(str(folder / "actor"), global_step=2)
    unbroken = train(first_worker)
    other_worker = worker_of(checkpoint, "stapo", "dynamic", **rising)
    other_worker.load_checkpoint(str(folder / "actor"))
    return {"start": start, "first": first, "unbroken": unbroken, "resumed": train(other_worker)}


def plain(metrics: dict) -> dict[str, float]:
    """As verl's trainer reduces them: over ranks, then over micro-batches."""
    return {name: float(Metric.aggregate_dp(v) if isinstance(v, list) else v) for name, v in metrics.items()}


def main(checkpoint: str, *cases_and_folder: str) -> None:
    *cases, folder = cases_and_folder
    dist.init_process_group("gloo")
    assert ActorRolloutRefWorker.actor_worker_cls is StapoTrainingWorker
    for case in cases:
        found = resume(Path(checkpoint), Path(folder)) if case == "resume" else step(Path(checkpoint), case)
        torch.save(found, Path(folder) / f"{case}.{dist.get_rank()}.pt")
    end_rank()


if __name__ == "__main__":
    main(*sys.argv[1:])
