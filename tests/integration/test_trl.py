"""The gradient of our objectives is TRL's, where TRL has the same one, on the same completions and advantages.

Run by ``scripts/integration.sh trl``, in an environment with TRL.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("trl", reason="TRL is not installed: scripts/integration.sh runs this")
import datasets
import transformers
from trl import GRPOConfig, GRPOTrainer

from stapo_train.advantages import group_advantages
from stapo_train.batch import Batch, collate
from stapo_train.objectives import for_run
from stapo_train.policy import Policy
from stapo_train.train_records import Rollout
from stapo_train.update import Step, accumulate_gradient

GROUPS, GROUP_SIZE, MAX_NEW_TOKENS = 4, 4, 24
SAME = 1e-5  # of the gradient's norm, in float32


def rollouts(vocabulary: int) -> list[Rollout]:
    """Random prompts and responses of all lengths, with rewards that differ inside each group."""
    rng = np.random.default_rng(0)
    made = []
    for group in range(GROUPS):
        prompt = tuple(rng.integers(0, vocabulary, rng.integers(3, 12)).tolist())
        for index in range(GROUP_SIZE):
            length = MAX_NEW_TOKENS if index == 0 else int(rng.integers(1, MAX_NEW_TOKENS))
            made.append(
                Rollout(
                    group_id=group, problem_id=f"p{group}", index=index, seed=group * GROUP_SIZE + index,
                    prompt_ids=prompt, response_ids=tuple(rng.integers(0, vocabulary, length).tolist()),
                    rollout_log_probs=None, text="", finish_reason="stop", reward=float(index < 1 + group % 3),
                )
            )  # fmt: skip
    return made


@dataclass(frozen=True)
class Case:
    """An objective of ours and what TRL calls it."""

    name: str
    theirs: dict
    ours: dict
    accumulate: int = 4  # micro-batches


CASES = [
    Case("grpo", {"loss_type": "grpo", "epsilon": 0.2}, {}),
    # TRL's default multiplies the penalty by the ratio (DeepSeek-V3.2), DeepSeekMath's GRPO does not.
    Case("grpo", {"loss_type": "grpo", "beta": 0.05, "use_bias_correction_kl": False}, {"kl_beta": 0.05}),
    Case("dapo", {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}, {}),
    # The dual clip, in a mini-batch where it is reached: TRL bounds the ratio from above.
    Case("justrl", {"loss_type": "dapo", "epsilon_high": 0.28, "delta": 2.0}, {"dual_clip": 2.0}),
    Case("dr-grpo", {"loss_type": "dr_grpo", "epsilon": 0.2}, {}),
    Case("gspo", {"loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4,
                  "importance_sampling_level": "sequence"}, {}),
    Case("cispo", {"loss_type": "cispo", "epsilon_high": 5.0}, {}),
    Case("sapo", {"loss_type": "sapo"}, {}),
    Case("luspo", {"loss_type": "luspo", "epsilon": 2e-3, "epsilon_high": 2.5e-3,
                   "importance_sampling_level": "sequence"}, {}),
    Case("vespo", {"loss_type": "vespo"}, {}),
    # TRL takes the quantile over a micro-batch and divides by all tokens.
    Case("20-entropy", {"loss_type": "dapo", "epsilon_high": 0.28, "top_entropy_quantile": 0.2, "delta": 10.0},
         {"denominator": "all"}, accumulate=1),
]  # fmt: skip


def trl_trainer(checkpoint: Path, folder: Path, case: Case) -> GRPOTrainer:
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    settings = GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, report_to="none", gradient_checkpointing=False,
        per_device_train_batch_size=GROUPS * GROUP_SIZE // case.accumulate,
        gradient_accumulation_steps=case.accumulate, steps_per_generation=case.accumulate,
        num_generations=GROUP_SIZE, max_completion_length=MAX_NEW_TOKENS, **case.theirs,
    )  # fmt: skip
    return GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=datasets.Dataset.from_list([{"prompt": "1"}] * GROUPS),
        processing_class=transformers.AutoTokenizer.from_pretrained(checkpoint),
    )


def trl_gradient(trainer: GRPOTrainer, batch: Batch, accumulate: int) -> torch.Tensor:
    """What TRL's own loss gives for the batch: prompts padded left, responses right, micro-batches in their order."""
    stats, count = batch.stats, len(batch.rows)
    prompt_width = max(len(prompt) for prompt, _ in batch.rows)
    width = max(len(response) for _, response in batch.rows)

    def padded(values: list, columns: int, left: bool = False) -> torch.Tensor:
        rows = [torch.as_tensor(v) for v in values]
        pads = [(columns - len(v), 0) if left else (0, columns - len(v)) for v in rows]
        return torch.stack([torch.nn.functional.pad(v, pad) for v, pad in zip(rows, pads, strict=True)])

    def of_rows(values: torch.Tensor) -> torch.Tensor:
        return padded([values[batch.token_index([r])] for r in range(count)], width)

    prompts, responses = ([row[side] for row in batch.rows] for side in (0, 1))
    inputs = {
        "prompt_ids": padded(prompts, prompt_width, left=True),
        "prompt_mask": padded([[1] * len(p) for p in prompts], prompt_width, left=True),
        "completion_ids": padded(responses, width),
        "completion_mask": padded([[1] * len(r) for r in responses], width),
        "advantages": batch.row_advantages,
        "old_per_token_logps": of_rows(stats.old_log_probs),
        "ref_per_token_logps": of_rows(stats.ref_log_probs),
    }
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = accumulate
    for rows in torch.arange(count).chunk(accumulate):
        part = {name: value[rows] for name, value in inputs.items()}
        part["num_items_in_batch"] = torch.tensor(float(len(stats.log_probs)))
        trainer.compute_loss(trainer.model, part).backward()
    return flat_gradient(trainer.model)


def flat_gradient(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name + "".join(f"-{key}" for key in case.ours))
def test_gradients_are_trl_s(case, checkpoint, tmp_path):
    trainer = trl_trainer(checkpoint, tmp_path, case)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    objective = for_run({"name": case.name, **case.ours}, seed=0, max_new_tokens=MAX_NEW_TOKENS)
    drawn = rollouts(model.config.vocab_size)
    rewards, group_ids = (np.array([getattr(r, name) for r in drawn]) for name in ("reward", "group_id"))
    advantages = group_advantages(rewards, group_ids, divide_by_std=objective.divide_by_std)
    batch = collate(drawn, advantages, torch.float32, torch.device("cpu"))
    policy = Policy(model=model, temperature=1.0, micro_batch_tokens=100)
    now = policy.measure(batch)
    # The policy has moved since the rollouts: ratios from 0.3 to 3, so that every clip is met.
    noise = torch.randn(len(now.log_probs), generator=torch.Generator().manual_seed(1)).clamp(-3, 3) * 0.4
    old = now.log_probs + (1e-2 if case.name == "gspo" else 1.0) * noise
    batch = replace(batch, stats=replace(now, old_log_probs=old, ref_log_probs=now.log_probs + 0.3 * noise.flip(0)))

    total = accumulate_gradient(policy, batch, Step(objective=objective, clip_norm=1.0, first=True))
    ours = flat_gradient(model) / total.selection.denominator.item()
    theirs = trl_gradient(trainer, batch, case.accumulate)
    assert theirs.norm() > 1e-3
    assert (ours - theirs).norm() < SAME * theirs.norm()
    clipped = SimpleNamespace(**{name: float(value) for name, value in total.metrics.items()})
    assert case.name in ("cispo", "sapo", "vespo") or min(clipped.clipped_high, clipped.clipped_low) > 0


def test_a_changed_constant_is_seen(checkpoint, tmp_path):
    case = Case("dapo", {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28}, {"clip_high": 0.27})
    with pytest.raises(AssertionError):
        test_gradients_are_trl_s(case, checkpoint, tmp_path)
