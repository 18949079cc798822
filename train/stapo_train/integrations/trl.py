"""Our objectives inside TRL's GRPOTrainer (TRL 1.16, extra ``trl``).

    trainer = StapoGRPOTrainer(objective={"name": "stapo"}, args=GRPOConfig(...), model=..., train_dataset=...,
                               reward_funcs=grader_reward())

TRL does the sampling and keeps the optimizer and the ranks; advantages, selection and loss are ours. TRL calls its loss
once per micro-batch, but a selection covers the accumulation window: the micro-batches of all ranks behind one
optimizer step. ``_prepare_inputs`` therefore makes it when the window begins: a pass without gradient under the current
policy (none where the selection does not depend on it), ``select``, and the window's denominator. Each micro-batch's
loss is then

    num_processes * sum of its numerators / denominator of the window

TRL's trainer adds micro-batches up undivided (``loss_is_scaled_for_ga``) and averages over ranks, which cancels
``num_processes``. The model must be the same function in both passes: dropout has to be off.

GRPOConfig's own settings of loss and advantages have no effect here; changed ones are refused, but for those that say
what the objective does anyway. The objective is written into the model's configuration, which trackers store and every
checkpoint has.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found]
from trl.models.utils import disable_gradient_checkpointing  # type: ignore[import-not-found]

from stapo_bench.errors import UsageError, tell
from stapo_bench.grading import grader_reward
from stapo_train.batch import KEY_STRIDE
from stapo_train.distributed import ProcessGroup
from stapo_train.integrations.limits import check_supported
from stapo_train.integrations.metrics_file import TRL, MetricsFile, record_of
from stapo_train.integrations.metrics_file import stated as stated_settings
from stapo_train.integrations.mismatch import TRL_WEIGHTS, require_trls
from stapo_train.objective import ONE_PROCESS, Metrics, Objective, Reduce, Selection, TokenStats, policy_loss, select
from stapo_train.objectives import for_run

__all__ = ["StapoGRPOTrainer", "correction_in_words", "grader_reward"]

Inputs = dict[str, Any]
"""TRL's micro-batch: prompts padded left, completions padded right, [B, T] and [B] tensors by name."""

REFUSED = (
    "loss_type", "epsilon", "epsilon_high", "delta", "importance_sampling_level", "top_entropy_quantile",
    "entropy_coef", "use_adaptive_entropy", "off_policy_mask_threshold", "use_bias_correction_kl", "scale_rewards",
    "multi_objective_aggregation", "sapo_temperature_neg", "sapo_temperature_pos",
)  # fmt: skip
"""Settings of GRPOConfig that the objective replaces."""

FORWARD = (
    "pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask", "spatial_shapes", "num_tiles",
    "image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids",
)  # fmt: skip
"""Model inputs that a micro-batch may hold besides its tokens."""


class StapoGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with our objective; see the module's docstring."""

    def __init__(self, *, objective: Objective | Mapping[str, Any], args: GRPOConfig, **others: Any) -> None:
        """
        objective: one that is built, or the ``objective:`` section of a config, such as ``{"name": "stapo"}``.
        others: GRPOTrainer's other arguments, by name.
        """
        stated = stated_settings(objective)
        if not isinstance(objective, Objective):
            objective = for_run(objective, seed=args.seed, max_new_tokens=args.max_completion_length)
        _check(objective, args)
        tell(sys.stderr, f"{type(self).__name__}: {correction_in_words(args)}")
        super().__init__(args=args, **others)
        if self.aux_loss_enabled:
            raise UsageError("router_aux_loss_coef: expected 0, the objective has no such term; set it in GRPOConfig")
        self.objective = objective
        self._metrics_file = MetricsFile(
            Path(args.output_dir),
            seed=args.seed,
            objective=stated,
            iterations=args.max_steps,
            trainer="TRL",
        )
        self.model.config.stapo_objective = {"label": objective.label, **asdict(objective)}
        self._reduce: Reduce = (
            ProcessGroup(self.accelerator.device) if self.accelerator.num_processes > 1 else ONE_PROCESS
        )
        self._window: list[Selection] = []  # one part per micro-batch
        self._sums: Metrics = {}

    # --- advantages -------------------------------------------------------------------------------------------------

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(*arguments)  # [R, functions], of all ranks
        self._rewards = rewards
        return rewards

    def _generate_and_score_completions(self, inputs: list[Inputs]) -> Inputs:
        """TRL's, with the objective's advantages: TRL adds 1e-4 to the std."""
        batch: Inputs = super()._generate_and_score_completions(inputs)
        rewards = (self._rewards * self.reward_weights.to(self._rewards.device)).nansum(dim=1)
        rewards[self._rewards.isnan().all(dim=1)] = torch.nan  # every reward function failed: unknown, not 0
        group_size = self.num_generations if self.model.training else self.num_generations_eval
        lengths = self.accelerator.gather((batch["completion_mask"] * batch.get("tool_mask", 1)).sum(dim=1))
        advantages = self.objective.advantages(
            rewards.double().cpu().numpy(),
            np.arange(len(rewards)) // group_size,  # TRL's sampler lays a prompt's rollouts side by side
            lengths.cpu().numpy(),
        )
        if self.model.training:
            self._logs["advantages"].extend(advantages.tolist())  # a bounded deque: these displace TRL's own
        theirs = batch["advantages"]
        first = self.accelerator.process_index * len(theirs)
        return {**batch, "advantages": torch.tensor(advantages[first : first + len(theirs)]).to(theirs)}

    # --- selection --------------------------------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch: Any) -> Inputs:
        inputs: Inputs = super()._prepare_inputs(generation_batch)
        require_trls(_corrects(self.args), inputs)
        count = self.args.gradient_accumulation_steps if self.model.training else 1
        place = self._step % count
        if place == 0:
            first = self._step % self.args.steps_per_generation
            self._decide(self._buffered_inputs[first : first + count] if self.model.training else [inputs])
        return {**inputs, "place": place}

    @torch.no_grad()
    def _decide(self, window: Sequence[Inputs]) -> None:
        """Make the window's selection and cut it into the parts of its micro-batches."""
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            if self.objective.needs.current_policy == "none":
                parts = [self._stats(inputs, place, None, None) for place, inputs in enumerate(window)]
            else:
                parts = [self._measure(self.model, inputs, place) for place, inputs in enumerate(window)]
        selection = select(_end_to_end(parts), self.objective, self._reduce)
        ends = np.cumsum([0, *(len(part.log_probs) for part in parts)]).tolist()
        self._window = [
            selection.take(torch.arange(start, end, device=selection.weights.device)) for start, end in pairwise(ends)
        ]
        self._sums = {}
        self._note(
            num_tokens=selection.num_tokens,
            num_candidates=selection.num_candidates,
            num_silenced=selection.num_tokens - selection.num_kept,
            num_kept=selection.num_kept,
            **({} if (nats := selection.candidate_entropy) is None else {"candidate_entropy": nats}),
            **selection.thresholds,
        )

    def _measure(self, model: Any, inputs: Inputs, place: int) -> TokenStats:
        """[n] a micro-batch's tokens under the current policy, with gradient where it is enabled."""
        log_probs, entropy, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
            inputs["completion_ids"].size(1),
            compute_entropy=True,
            **{name: inputs[name] for name in FORWARD if name in inputs},
        )
        return self._stats(inputs, place, log_probs, entropy.detach())

    def _stats(self, inputs: Inputs, place: int, log_probs: Tensor | None, entropy: Tensor | None) -> TokenStats:
        """[n] from TRL's [B, T]; row numbers are offset by the micro-batch's place and so unique in the window."""
        mask = (inputs["completion_mask"] * inputs.get("tool_mask", 1)).bool()  # [B, T]
        rows, width = mask.shape
        advantages = inputs["advantages"].unsqueeze(1).expand(rows, width)
        unknown = torch.full_like(advantages, torch.nan)
        log_probs = unknown if log_probs is None else log_probs
        # Without old log-probs in the batch the policy is still the one that sampled, and the ratio is 1.
        old = inputs.get("old_per_token_logps", log_probs.detach())
        row = torch.arange(rows, device=mask.device).unsqueeze(1).expand(rows, width) + place * rows
        column = torch.arange(width, device=mask.device).expand(rows, width)
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        window_rows = rows * self.args.gradient_accumulation_steps
        key = ((self.state.global_step * world + rank) * window_rows + row) * KEY_STRIDE + column
        reference, importance = inputs.get("ref_per_token_logps"), inputs.get(TRL_WEIGHTS)
        return TokenStats(
            log_probs=log_probs[mask],
            old_log_probs=old[mask],
            entropy=(unknown if entropy is None else entropy)[mask],
            advantages=advantages[mask],
            sequence=row[mask],
            key=key[mask],
            ref_log_probs=None if reference is None else reference[mask],
            importance=None if importance is None else importance.expand(rows, width)[mask],
        )

    # --- loss -------------------------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: Inputs) -> Tensor:
        place = inputs["place"]
        selection = self._window[place]
        stats = self._measure(model, inputs, place)
        out = policy_loss(stats, selection, self.objective)
        self._add({**out.metrics, "entropy": stats.entropy.sum()}, is_last=place == len(self._window) - 1)
        num_processes: int = self.accelerator.num_processes
        return out.numerator.sum() * (num_processes / selection.divisor)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, and a line of ``metrics.jsonl`` in its ``output_dir``, next to the checkpoints."""
        known = {name: [v for v in values if not np.isnan(v)] for name, values in self._metrics["train"].items()}
        means = {name: float(np.mean(values)) for name, values in known.items() if values}
        record = record_of(TRL, {**logs, **means})
        if self.model.training and record is not None and self.accelerator.is_main_process:
            self._metrics_file.add(self.state.global_step, record)
        super().log(logs, start_time)

    def _add(self, sums: Metrics, is_last: bool) -> None:
        """Add a micro-batch's sums; note the means over the window's tokens when it ends."""
        self._sums = {name: self._sums[name] + value if self._sums else value for name, value in sums.items()}
        if is_last:
            total = {name: float(self._reduce.sum(value.double())) for name, value in self._sums.items()}
            tokens = max(total.pop("tokens"), 1.0)
            self._note(**{name: value / tokens for name, value in total.items()})

    def _note(self, **values: float) -> None:
        for name, value in values.items():
            self._metrics["train" if self.model.training else "eval"][f"objective/{name}"].append(float(value))


def _corrects(args: GRPOConfig) -> bool:
    return bool(args.use_vllm and args.vllm_importance_sampling_correction)


def correction_in_words(args: GRPOConfig) -> str:
    """What TRL's own correction for vLLM's mismatch does to our loss; TRL turns it on by default."""
    if not _corrects(args):
        return "no correction for the mismatch of training and inference"
    bounds = f"{args.vllm_importance_sampling_clip_min} to {args.vllm_importance_sampling_clip_max}"
    return (
        "TRL's vllm_importance_sampling_correction weighs every token: "
        f"{args.vllm_importance_sampling_mode}, {bounds}; "
        "vllm_importance_sampling_correction=False turns it off, as in the paper's recipe"
    )


def own_settings(objective: Objective) -> dict[str, Any]:
    """What the objective does, in GRPOConfig's names; its ``delta`` bounds failed tokens as a dual clip does."""
    own: dict[str, Any] = {
        "epsilon": objective.clip_low,
        "epsilon_high": objective.clip_high,
        "delta": objective.dual_clip,
    }
    if type(objective).advantages is Objective.advantages:
        own["scale_rewards"] = "group" if objective.divide_by_std else "none"
    return {name: value for name, value in own.items() if value is not None}


def _check(objective: Objective, args: GRPOConfig) -> None:
    """Refuse objectives that cannot be computed here, and settings that would have no effect."""
    check_supported(objective, "TRL")
    defaults = {f.name: f.default for f in fields(GRPOConfig)}
    expected = {name: defaults[name] for name in REFUSED} | {"beta": getattr(objective, "kl_beta", 0.0)}
    own = own_settings(objective)
    for name, value in expected.items():
        got = getattr(args, name)
        if got != value and (name not in own or got != own[name]):
            raise UsageError(f"GRPOConfig.{name}: expected {value!r}, got {got!r}; set the objective's")
    if args.steps_per_generation % args.gradient_accumulation_steps:
        raise UsageError(
            f"GRPOConfig.steps_per_generation: expected a multiple of gradient_accumulation_steps "
            f"({args.gradient_accumulation_steps}), got {args.steps_per_generation}: a mini-batch is of one generation"
        )


def _end_to_end(parts: Sequence[TokenStats]) -> TokenStats:
    def joined(name: str) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat(values)

    return TokenStats(**{f.name: joined(f.name) for f in fields(TokenStats)})  # type: ignore[arg-type]
