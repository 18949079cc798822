"""Our objectives inside verl's trainer (verl 0.9.1, extra ``verl``): FSDP2 actors, any number of ranks.

    export VERL_USE_EXTERNAL_MODULES=stapo_train.integrations.verl STAPO_OBJECTIVE=stapo
    python -m verl.trainer.main_ppo algorithm.adv_estimator=stapo_train \\
        actor_rollout_ref.actor.policy_loss.loss_mode=stapo_train actor_rollout_ref.actor.strategy=fsdp2 ...

verl imports this module in every process, which replaces the actor's worker by ``StapoTrainingWorker`` and registers
the advantages. The two names in the configuration select both; where the module was not loaded, verl does not know the
names and stops.

verl calls a policy loss once per micro-batch, without entropies, but a selection covers the mini-batch behind one
optimizer step: all micro-batches of all data-parallel ranks. ``train_batch`` therefore makes it before the first
micro-batch: a pass without gradient under the current policy (none where the selection does not depend on it),
``select`` over the ranks, and the mini-batch's denominator. Each micro-batch's loss is then

    data-parallel size * sum of its numerators / denominator of the mini-batch

FSDP2 averages gradients over ranks, which cancels the size. The loss replaces verl's completely: weights, mask and
denominator are the selection's. verl counts its own denominator from ``loss_mask``, which silencing in
``response_mask`` would not change; ours depends on neither. verl_launch.py says which of verl's settings are taken.
verl's rollout correction is used where it is on, and the launch says which way.
The model must be the same function in both passes: dropout has to be off.

Tested on a CPU: steps of the engine, its checkpoints, and Ray-managed training of a tiny model from sampling to merged
weights (tests/integration/test_verl.py, test_verl_ray.py). Not tested: GPUs, sequence parallelism, fused kernels, LoRA.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est
from verl.utils import tensordict_utils
from verl.utils.device import get_device_id
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.padding import no_padding_2_padding

from stapo_bench.errors import StapoError
from stapo_train.batch import KEY_STRIDE
from stapo_train.distributed import ProcessGroup
from stapo_train.integrations.mismatch import VERL_LOG_PROBS, VERL_WEIGHTS, require_verls
from stapo_train.integrations.verl_entropy import chunked_entropy
from stapo_train.integrations.verl_launch import check_actor, check_advantages, check_correction, extend_verls_check
from stapo_train.integrations.verl_log import extend_verls_log
from stapo_train.integrations.verl_settings import NAME, objective_from_environment
from stapo_train.objective import Selection, TokenStats, policy_loss, select

ROW = "stapo_row"
"""Field of a mini-batch, [B] int64: each row's number, so that rows can be identified in verl's micro-batches."""

OPTIONAL = {"ref_log_prob": "ref_log_probs", VERL_WEIGHTS: "importance"}
"""Optional fields of a mini-batch: verl's name, ours."""


@dataclass(frozen=True, kw_only=True)
class MiniBatch:
    """This rank's share of the mini-batch behind one optimizer step, response tokens laid end to end."""

    stats: TokenStats  # [N] under the policy before the step; NaN where the selection does not depend on it
    selection: Selection
    starts: tuple[int, ...]  # [B + 1] where a row's tokens begin in [N], and where the last row's end
    mismatch: float | None  # mean |ln pi_trainer - ln pi_engine| per token of all ranks, nats; None: not reported

    def tokens(self, rows: Tensor) -> Tensor:
        """[n] where the tokens of these rows stand in [N]."""
        spans = [torch.arange(self.starts[r], self.starts[r + 1]) for r in rows.tolist()]
        return torch.cat(spans).to(self.stats.advantages.device)


class StapoTrainingWorker(TrainingWorker):  # type: ignore[misc]
    """verl's actor worker with our objective; see the module's docstring."""

    def set_loss_fn(self, loss_fn: Callable[..., Any]) -> None:
        """Read the actor's settings from verl's loss, then replace that loss by ours."""
        self.objective = objective_from_environment()
        actor: Any = getattr(loss_fn, "keywords", {}).get("config")
        check_actor(self.objective, actor)
        self._correction = getattr(actor.policy_loss, "rollout_correction", None)  # noted there by check_launch
        self._device = torch.device(get_device_id())
        self.engine.compute_entropy_from_logits = chunked_entropy(compiled=self.engine_config.use_torch_compile)
        self._reduce = ProcessGroup(self._device, self.engine.get_data_parallel_group())
        super().set_loss_fn(self._loss)

    # --- selection --------------------------------------------------------------------------------------------------

    def train_batch(self, data: TensorDict) -> TensorDict | None:
        """One optimizer step; ``data`` is this rank's share of the mini-batch."""
        self._mini_batch = self._decide(data)
        data = data.copy()  # of the keys, not of the tensors
        data[ROW] = torch.arange(len(data))
        output: TensorDict | None = super().train_batch(data)
        if output is not None:  # else another rank of this one's sequence-parallel group reports
            metrics = tensordict_utils.get(output, "metrics") | _notes(self._mini_batch)
            tensordict_utils.assign_non_tensor(output, metrics=metrics)
        return output

    def _decide(self, data: TensorDict) -> MiniBatch:
        """Make the mini-batch's selection, together with the other ranks."""
        require_verls(self._correction, data)
        optional = (name for name in (*OPTIONAL, VERL_LOG_PROBS) if name in data)
        names = ["response_mask", "old_log_probs", "advantages", *optional]
        padded = data.select(*names).to_padded_tensor()  # each [B, T]
        mask = padded["response_mask"].bool()
        given = {name: padded[name].to(self._device)[mask.to(self._device)] for name in names[1:]}
        if not torch.isfinite(given["advantages"]).all():
            raise StapoError(
                f"advantages: expected numbers, got NaN, as of a rollout that could not be graded; "
                f"algorithm.adv_estimator={NAME} leaves such rollouts out"
            )
        lengths = mask.sum(dim=1)
        rows = torch.arange(len(mask)).repeat_interleave(lengths.cpu())
        columns = torch.arange(mask.shape[1]).expand(mask.shape)[mask.cpu()]
        log_probs, entropy = self._probe(data, mask)
        stats = TokenStats(
            log_probs=log_probs,
            old_log_probs=given["old_log_probs"],
            entropy=entropy,
            advantages=given["advantages"],
            sequence=rows.to(self._device),
            key=(row_names(data["input_ids"])[rows] * KEY_STRIDE + columns).to(self._device),
            **{ours: given.get(theirs) for theirs, ours in OPTIONAL.items()},
        )
        starts = tuple(accumulate(lengths.tolist(), initial=0))
        selection, mismatch = select(stats, self.objective, self._reduce), None
        if (theirs := given.get(VERL_LOG_PROBS)) is not None:
            apart = (stats.old_log_probs.double() - theirs.double()).abs().sum()
            mismatch = float(self._reduce.sum(apart)) / max(selection.num_tokens, 1)
        return MiniBatch(stats=stats, selection=selection, starts=starts, mismatch=mismatch)

    def _probe(self, data: TensorDict, mask: Tensor) -> tuple[Tensor, Tensor]:
        """[N] log-probs and entropies under the current policy, NaN where the selection does not depend on them.

        It uses the step's own micro-batches, so that rounding is the same.
        """
        if self.objective.needs.current_policy == "none":
            unknown = torch.full((int(mask.sum()),), torch.nan, device=self._device)
            return unknown, unknown
        probe = data.copy()
        tensordict_utils.assign_non_tensor(
            probe,
            calculate_entropy=True,
            use_remove_padding=self.model_config.get("use_remove_padding", False),
            use_dynamic_bsz=self.engine_config.use_dynamic_bsz,
            max_token_len_per_gpu=self.engine_config.max_token_len_per_gpu,
            micro_batch_size_per_gpu=self.engine_config.micro_batch_size_per_gpu,
            use_fused_kernels=self.engine_config.use_fused_kernels,
        )
        with self.engine.eval_mode(disable_auto_offload=tensordict_utils.get(data, "disable_auto_offload", False)):
            found = self.engine.infer_batch(probe)["model_output"]
        mask = mask.to(self._device)
        log_probs, entropy = (
            no_padding_2_padding(found[name].to(self._device), data)[mask] for name in ("log_probs", "entropy")
        )
        return log_probs, entropy

    # --- loss -------------------------------------------------------------------------------------------------------

    def _loss(self, model_output: Mapping[str, Tensor], data: TensorDict, **_: Any) -> tuple[Tensor, dict[str, Metric]]:
        """A micro-batch's part of the loss, and of the means over the mini-batch's tokens."""
        mini = self._mini_batch
        index = mini.tokens(data[ROW])
        selection = mini.selection.take(index)
        mask = data.select("response_mask").to_padded_tensor()["response_mask"].bool()
        log_probs = no_padding_2_padding(model_output["log_probs"], data)[mask]
        out = policy_loss(replace(mini.stats.take(index), log_probs=log_probs), selection, self.objective)
        ranks: int = self.engine.get_data_parallel_size()
        loss = out.numerator.sum() * (ranks / selection.divisor)
        per_token = ranks / max(selection.num_tokens, 1)
        means = {f"objective/{name}": value * per_token for name, value in out.metrics.items() if name != "tokens"}
        # verl sums over micro-batches and averages over ranks.
        return loss, Metric.from_dict({"pg_loss": loss.detach(), **means}, aggregation=AggregationType.SUM)


def row_names(input_ids: Tensor) -> Tensor:
    """[B] int64, a hash of each row's tokens, so that random numbers depend neither on ranks nor on the order.

    Rollouts with equal tokens share the hash and therefore their random numbers.

    Args:
        input_ids: [B, *] nested.
    """
    names = []
    for ids in input_ids.unbind():
        powers = torch.full_like(ids, -7046029254386353131).cumprod(0)  # odd, in arithmetic that wraps at 64 bits
        names.append((powers * (ids + 1)).sum())
    return torch.stack(names).cpu()


@register_adv_est(NAME)  # type: ignore[untyped-decorator]
def advantages(
    token_level_rewards: Tensor, response_mask: Tensor, index: Any, config: Any = None, **others: Any
) -> tuple[Tensor, Tensor]:
    """The objective's advantages for verl's trainer, where a NaN reward is a rollout that could not be graded.

    Args:
        token_level_rewards: [B, T], the reward at a response's last token.
        response_mask: [B, T].
        index: [B] which prompt.
        config: verl's ``algorithm`` section.
        others: what verl hands to every estimator.

    Returns:
        [B, T] advantages, 0 outside of responses; twice, since verl asks for returns too.
    """
    _, groups = np.unique(np.asarray(index).astype(str), return_inverse=True)
    objective = objective_from_environment()
    if config is not None:  # again, for a driver that has not loaded this module
        check_advantages(objective, config)
        check_correction(config.get("rollout_correction"), has_log_probs=True)
    of_rows = objective.advantages(
        token_level_rewards.sum(dim=-1).double().cpu().numpy(),
        groups.astype(np.int64),
        response_mask.sum(dim=-1).cpu().numpy(),
    )
    spread = torch.tensor(of_rows).to(token_level_rewards).unsqueeze(-1) * response_mask
    return spread, spread


def _notes(mini: MiniBatch) -> dict[str, float]:
    """What the trainer logs of a mini-batch, under ``actor/objective/``."""
    selection = mini.selection
    return {
        **({} if mini.mismatch is None else {"objective/rollout_mismatch": mini.mismatch}),
        **({} if (nats := selection.candidate_entropy) is None else {"objective/candidate_entropy": nats}),
        "objective/num_tokens": float(selection.num_tokens),
        "objective/num_candidates": float(selection.num_candidates),
        "objective/num_silenced": float(selection.num_tokens - selection.num_kept),
        "objective/num_kept": float(selection.num_kept),
        **{f"objective/{name}": value for name, value in selection.thresholds.items()},
    }


ActorRolloutRefWorker.actor_worker_cls = StapoTrainingWorker
extend_verls_check()
extend_verls_log()
