"""Losses and advantages of those who made an objective, beside ours on the same random tokens, in float64.

A difference is that of the loss, or of the gradient by the log-probs over its largest element, whichever is larger.
``python -m bench.objectives`` runs each oracle in its environment.
"""

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.objectives_page import AUTHORS, OTHERWISE, TRL, VERL, Row
from stapo_train.check.check_objective import check_objective
from stapo_train.check.plain import Token
from stapo_train.check.reference import reference_loss
from stapo_train.objective import TokenStats, policy_loss, select
from stapo_train.objectives import BUILT_IN, REGISTRY, for_run

ROLLOUTS, WIDTH = 12, 16
SETTINGS = {"seed": 3, "max_new_tokens": WIDTH}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rollouts padded to one width, as verl lays them; [B, T] each."""

    log_probs: Tensor
    old_log_probs: Tensor
    entropy: Tensor
    advantages: Tensor
    mask: Tensor  # float, 1 at response tokens
    proxy_log_probs: Tensor


def random_batch(seed: int = 0) -> Batch:
    """Probabilities from 1e-4 to 0.99, ratios from a third to three, so that clips and bounds are reached."""
    g = torch.Generator().manual_seed(seed)
    shape = (ROLLOUTS, WIDTH)
    old = torch.empty(shape, dtype=torch.float64).uniform_(-9.2, -0.01, generator=g)
    new = (old + 0.6 * torch.randn(shape, generator=g, dtype=torch.float64)).clamp(max=-0.005)
    advantages = torch.randn(ROLLOUTS, 1, generator=g, dtype=torch.float64).expand(shape)
    lengths = torch.randint(3, WIDTH + 1, (ROLLOUTS, 1), generator=g)
    return Batch(
        log_probs=new,
        old_log_probs=old,
        entropy=torch.empty(shape, dtype=torch.float64).uniform_(0, 3, generator=g),
        advantages=advantages.contiguous(),
        mask=(torch.arange(WIDTH) < lengths).double(),
        proxy_log_probs=old + 0.5 * torch.randn(shape, generator=g, dtype=torch.float64).abs(),
    )


def ours(name: str, settings: dict[str, Any], batch: Batch) -> tuple[float, Tensor]:
    """Loss and [B, T] gradient by the log-probs of our objective."""
    objective = for_run({"name": name, **settings}, **SETTINGS)
    inside = batch.mask.bool()
    leaf = batch.log_probs.clone().requires_grad_()
    rows = torch.arange(ROLLOUTS).unsqueeze(1).expand_as(inside)
    stats = TokenStats(
        log_probs=leaf[inside],
        old_log_probs=batch.old_log_probs[inside],
        entropy=batch.entropy[inside],
        advantages=batch.advantages[inside],
        sequence=rows[inside],
        key=torch.arange(int(inside.sum())),
        proxy_log_probs=batch.proxy_log_probs[inside],
        batch_entropy=torch.full((int(inside.sum()),), 0.2, dtype=torch.float64),
    )
    selection = select(replace(stats, log_probs=stats.log_probs.detach()), objective)
    loss = policy_loss(stats, selection, objective).numerator.sum() / selection.denominator
    (gradient,) = torch.autograd.grad(loss, leaf)
    return float(loss.detach()), gradient


Loss = Callable[[Tensor, Batch], Tensor]
"""Somebody's loss, from the current policy's log-probs with gradient."""


def difference(name: str, settings: dict[str, Any], theirs: Loss) -> float:
    """The larger of the losses' and the gradients' relative differences, over three batches."""
    worst = 0.0
    for seed in range(3):
        batch = random_batch(seed)
        leaf = batch.log_probs.clone().requires_grad_()
        loss = theirs(leaf, batch)
        (gradient,) = torch.autograd.grad(loss, leaf)
        value, slope = ours(name, settings, batch)
        apart = abs(value - float(loss.detach())) / max(abs(value), 1e-12)
        by_gradient = float((slope - gradient).abs().max() / slope.abs().max())
        worst = max(worst, apart, by_gradient)
    return worst


def row_of(name: str, oracle: str, theirs: Loss) -> Row:
    """An objective beside somebody's loss, in the settings that the page states."""
    settings, _ = OTHERWISE.get((name, oracle), ({}, ""))
    return Row(objective=name, oracle=oracle, difference=difference(name, dict(settings), theirs))


# --- verl -------------------------------------------------------------------------------------------------------------

OFF = 1e9
"""verl has no way to leave its dual clip out; no ratio reaches this one."""


def verl_rows() -> Iterator[Row]:
    """What verl has of the same name, losses and then advantages."""
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
    from verl.workers.config import FSDPActorConfig, PolicyLossConfig

    def loss(mode: str, how: str, extra: dict[str, Any], **actor: Any) -> Loss:
        base = {"strategy": "fsdp2", "rollout_n": 1, "ppo_micro_batch_size_per_gpu": 1, "ppo_mini_batch_size": ROLLOUTS}
        config = FSDPActorConfig(**base, policy_loss=PolicyLossConfig(loss_mode=mode, **extra), **actor)
        if how == "seq-mean-token-sum-norm":
            config.global_batch_info["loss_scale_factor"] = WIDTH

        def compute(log_probs: Tensor, batch: Batch) -> Tensor:
            found: Tensor = get_policy_loss_fn(mode)(
                old_log_prob=batch.old_log_probs, log_prob=log_probs, advantages=batch.advantages,
                response_mask=batch.mask, loss_agg_mode=how, config=config,
            )[0]  # fmt: skip
            return found

        return compute

    mean, of_means, summed = "token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"
    plain = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2}
    dapo = {**plain, "clip_ratio_high": 0.28}

    def around(low: float, high: float) -> dict[str, float]:
        return {"clip_ratio": high, "clip_ratio_low": low, "clip_ratio_high": high}

    cases: dict[str, Loss] = {
        "grpo": loss("vanilla", of_means, {}, **plain, clip_ratio_c=OFF),
        "dapo": loss("vanilla", mean, {}, **dapo, clip_ratio_c=OFF),
        "justrl": loss("vanilla", mean, {}, **dapo, clip_ratio_c=10.0),
        "dr-grpo": loss("vanilla", summed, {}, **plain, clip_ratio_c=OFF),
        "gspo": loss("gspo", of_means, {}, **around(3e-4, 4e-4)),
        "cispo": loss("cispo", mean, {}, **around(1.0, 4.0)),
        "sapo": loss("sapo", of_means, {}, tau_pos=1.0, tau_neg=1.05),
        "dppo-tv": loss("dppo_tv", summed, {}, **around(0.15, 0.15), clip_ratio_c=OFF),
        "dppo-kl": loss("dppo_kl", summed, {}, **around(0.05, 0.05), clip_ratio_c=OFF),
        "gmpo": loss("geo_mean", of_means, {}, **around(0.4, 0.4)),
        "kl-cov": loss("kl_cov", mean, {"kl_cov_ratio": 0.002, "ppo_kl_coef": 1.0}, **plain),
        "gpg": loss("gpg", mean, {}),
        "dro": loss("dro", mean, {"dro_beta": 1.0}),
    }
    everything, _ = OTHERWISE["clip-cov", VERL]
    theirs_way = dict(zip(("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub"), everything.values(), strict=True))
    cases["clip-cov"] = loss("clip_cov", mean, theirs_way, **around(1, 1))
    for name, theirs in cases.items():
        yield row_of(name, VERL, theirs)

    estimators = {
        "rloo": "rloo", "reinforce++": "reinforce_plus_plus", "opo": "opo", "grpo-pass-k": "grpo_passk",
        "reinforce++-baseline": "reinforce_plus_plus_baseline", "gpg": "gpg", "justrl": "grpo",
    }  # fmt: skip
    for name, theirs_name in estimators.items():
        apart = advantages_apart(name, get_adv_estimator_fn(theirs_name))
        yield Row(objective=name, oracle=f"{VERL}, advantages", difference=apart)


def advantages_apart(name: str, theirs: Callable[..., tuple[Tensor, Tensor]]) -> float:
    """The largest difference of advantages, over their largest, on groups of distinct rewards."""
    rng = np.random.default_rng(5)
    rewards, groups = rng.normal(size=ROLLOUTS), np.arange(ROLLOUTS) // 4
    batch = random_batch()
    lengths = batch.mask.sum(dim=1).long()
    token_rewards = torch.zeros_like(batch.mask)
    token_rewards[torch.arange(ROLLOUTS), lengths - 1] = torch.tensor(rewards)
    config = SimpleNamespace(gamma=1.0, get=lambda key, default=None: default)
    found = theirs(token_level_rewards=token_rewards, response_mask=batch.mask, index=groups, config=config)[0][:, 0]
    own = for_run({"name": name}, **SETTINGS).advantages(rewards, groups, lengths.numpy())
    return float(np.abs(found.numpy() - own).max() / np.abs(own).max())


# --- TRL --------------------------------------------------------------------------------------------------------------


def trl_rows() -> Iterator[Row]:
    """TRL's own loss, on a trainer that has nothing but its settings and the log-probs given."""
    from collections import defaultdict

    from trl import GRPOTrainer  # type: ignore[import-not-found]

    def loss(kind: str, low: float, high: float, level: str = "token", share: float = 1.0) -> Loss:
        settings = {"delta": None, "use_bias_correction_kl": False, "steps_per_generation": 1}
        settings |= {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05}
        settings |= {"vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0}
        trainer = SimpleNamespace(
            loss_type=kind, epsilon_low=low, epsilon_high=high, importance_sampling_level=level, beta=0.0,
            top_entropy_quantile=share, off_policy_mask_threshold=None, use_vllm=False, aux_loss_enabled=False,
            vllm_importance_sampling_correction=False, _entropy_bonus_enabled=False, max_completion_length=WIDTH,
            current_gradient_accumulation_steps=1, model=SimpleNamespace(training=True),
            _metrics=defaultdict(lambda: defaultdict(list)), get_gamma_weights=GRPOTrainer.get_gamma_weights,
            accelerator=SimpleNamespace(
                num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x, pad_across_processes=lambda x, **_: x
            ),
            get_high_entropy_mask=lambda *given: GRPOTrainer.get_high_entropy_mask(trainer, *given),
            args=SimpleNamespace(**settings),
        )  # fmt: skip

        def compute(log_probs: Tensor, batch: Batch) -> Tensor:
            trainer._get_per_token_logps_and_entropies = lambda *_, **__: (log_probs, batch.entropy, None)
            ids = torch.zeros(batch.mask.shape, dtype=torch.int64)
            found: Tensor = GRPOTrainer._compute_loss(trainer, None, {
                "prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": batch.mask,
                "advantages": batch.advantages[:, 0], "old_per_token_logps": batch.old_log_probs,
                "num_items_in_batch": batch.mask.sum(),
            })  # fmt: skip
            return found

        return compute

    cases: dict[str, Loss] = {
        "grpo": loss("grpo", 0.2, 0.2),
        "dapo": loss("dapo", 0.2, 0.28),
        "dr-grpo": loss("dr_grpo", 0.2, 0.2),
        "gspo": loss("grpo", 3e-4, 4e-4, "sequence"),
        "cispo": loss("cispo", 0.0, 5.0),
        "sapo": loss("sapo", 0.2, 0.2),
        "luspo": loss("luspo", 2e-3, 2.5e-3, "sequence"),
        "vespo": loss("vespo", 0.2, 0.2),
        "20-entropy": loss("dapo", 0.2, 0.28, share=0.2),
    }
    for name, theirs in cases.items():
        yield row_of(name, TRL, theirs)


# --- authors ----------------------------------------------------------------------------------------------------------


def functions_of(path: Path, *names: str) -> SimpleNamespace:
    """Some functions of a file of somebody's, run without the package that they stand in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    chosen = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert {node.name for node in chosen} == set(names), f"{path}: expected {', '.join(names)}"
    for node in chosen:
        node.decorator_list, node.returns = [], None
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            argument.annotation = None
    masked = SimpleNamespace(masked_mean=lambda x, mask: (x * mask).sum() / mask.sum())
    there: dict[str, Any] = {
        "torch": torch, "np": np, "math": math, "verl_F": masked, "print": lambda *_: None, "Any": Any,
        "AlgoConfig": type(None),
        "agg_loss": lambda loss_mat, loss_mask, loss_agg_mode, **_: masked.masked_mean(loss_mat, loss_mask),
    }  # fmt: skip
    exec(compile(ast.Module(body=chosen, type_ignores=[]), str(path), "exec"), there)
    return SimpleNamespace(**{name: there[name] for name in names})


def surrogate(log_probs: Tensor, b: Batch, advantages: Tensor) -> Tensor:
    """[B, T] the clipped surrogate with a dual clip of 10, which authors who change weights alone leave as it is."""
    rho = (log_probs - b.old_log_probs).exp()
    term = torch.minimum(rho * advantages, rho.clamp(0.8, 1.28) * advantages)
    return torch.where(advantages < 0, torch.maximum(term, 10 * advantages), term)


def author_rows(checkouts: Path) -> Iterator[Row]:
    """What the authors' own functions give, for the repositories that are there."""
    core = "verl/trainer/ppo/core_algos.py"
    lp_reg = functions_of(checkouts / "Lp-Reg-dev" / core, "compute_policy_loss_lp_reg", "kl_penalty")
    lp_reg.compute_policy_loss_lp_reg.__globals__["kl_penalty"] = lp_reg.kl_penalty
    stare = functions_of(checkouts / "STARE" / core, "compute_stare_token_weights")
    ce_gppo = functions_of(checkouts / "CE-GPPO" / core, "compute_gppo_loss_general_beta")
    aspo = functions_of(checkouts / "Archer2.0" / core, "compute_policy_loss_archer")
    taco = functions_of(checkouts / "TACO" / core, "compute_taco_token_advantages")
    forking = functions_of(
        checkouts / "Beyond-the-80-20-Rule-RLVR" / core, "get_global_entropy_top_mask", "compute_policy_loss_vanilla"
    )
    ar = functions_of(checkouts / "AR-Lopti" / core, "compute_policy_loss")
    reweight = functions_of(checkouts / "AR-Lopti/verl/trainer/ppo/ray_trainer.py", "compute_reweight_advantage")

    def of_lp_reg(log_probs: Tensor, b: Batch) -> Tensor:
        found: Tensor = lp_reg.compute_policy_loss_lp_reg(
            b.old_log_probs, log_probs, b.proxy_log_probs, b.proxy_log_probs, b.advantages, b.mask,
            cliprange_low=1.0, cliprange_high=9.0, logp_neg_k_percent=0.2,
        )[0]  # fmt: skip
        return found

    def of_stare(log_probs: Tensor, b: Batch) -> Tensor:
        config = {"stare": {"enabled": True, "variant": "C2"}}
        weights, _ = stare.compute_stare_token_weights(log_probs, b.advantages, b.mask, config, {"gate_on": True})
        return -(surrogate(log_probs, b, b.advantages) * weights * b.mask).sum() / b.mask.sum()

    def of_taco(log_probs: Tensor, b: Batch) -> Tensor:
        found, _ = taco.compute_taco_token_advantages(
            log_probs, b.entropy, b.advantages, b.mask, alpha=0.01, lambda_=0.9
        )
        return -(surrogate(log_probs, b, found) * b.mask).sum() / b.mask.sum()

    def of_ce_gppo(log_probs: Tensor, b: Batch) -> Tensor:
        found: Tensor = ce_gppo.compute_gppo_loss_general_beta(
            b.old_log_probs, log_probs, b.advantages, b.mask, cliprange_low=0.2, cliprange_high=0.2, clip_ratio_c=10.0,
            gppo_loss_beta1=0.5, gppo_loss_beta2=1.0,
        )[0]  # fmt: skip
        return found

    def of_aspo(log_probs: Tensor, b: Batch) -> Tensor:
        seen = b.entropy.masked_fill(~b.mask.bool(), torch.nan)
        common = seen <= torch.nanquantile(seen, 0.8, dim=-1, keepdim=True)  # what the authors call high_entropy_mask
        found: Tensor = aspo.compute_policy_loss_archer(
            b.old_log_probs, log_probs, b.advantages, b.mask.bool(), common
        )[0]
        return found

    def of_20_entropy(log_probs: Tensor, b: Batch) -> Tensor:
        config = SimpleNamespace(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, get=lambda *_: 10.0)
        found: Tensor = forking.compute_policy_loss_vanilla(
            b.old_log_probs, log_probs, b.advantages, b.mask, config=config,
            entropy_top_mask=forking.get_global_entropy_top_mask(b.entropy, b.mask),
        )[0]  # fmt: skip
        return found

    def of_ar(log_probs: Tensor, b: Batch) -> Tensor:
        advantages = reweight.compute_reweight_advantage(
            b.advantages, b.old_log_probs, "both_linear_normal", 0.2, 0.8, neg_adv_weight=1.0
        )
        found: Tensor = ar.compute_policy_loss(
            b.old_log_probs, log_probs, advantages, b.mask, cliprange_low=0.2, cliprange_high=0.24, clip_ratio_c=10.0
        )[0]
        return found

    for name, theirs, whose in (
        ("lp-reg", of_lp_reg, "CarlanLark/Lp-Reg-dev"),
        ("stare", of_stare, "hp-luo/STARE"),
        ("ce-gppo", of_ce_gppo, "Kwai-Klear/CE-GPPO"),
        ("aspo", of_aspo, "wizard-III/Archer2.0"),
        ("taco", of_taco, "xiuyilou/TACO"),
        ("20-entropy", of_20_entropy, "Shenzhi-Wang/Beyond-the-80-20-Rule-RLVR"),
        ("ar", of_ar, "zhyang2226/AR-Lopti"),
    ):
        yield row_of(name, f"{AUTHORS}{whose}", theirs)
    maxrl = functions_of(checkouts / "maxrl" / core, "compute_maxrl_outcome_advantage")
    from collections import defaultdict

    maxrl.compute_maxrl_outcome_advantage.__globals__["defaultdict"] = defaultdict

    def of_maxrl(token_level_rewards: Tensor, response_mask: Tensor, index: Any, **_: Any) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = maxrl.compute_maxrl_outcome_advantage(token_level_rewards, response_mask, index)
        return found

    apart = advantages_apart("maxrl", of_maxrl)
    yield Row(objective="maxrl", oracle=f"{AUTHORS}tajwarfahim/maxrl, advantages", difference=apart)


def reference_rows() -> Iterator[Row]:
    """Our own slow references, written from the papers."""
    for name in BUILT_IN:
        kind = REGISTRY[name]
        found = [c for c in check_objective(name, ranks=False, large_vocabulary=False) if c.name.startswith("slow ref")]
        worst = max(check.deviation for check in found)
        yield Row(objective=name, oracle="slow reference, from the paper", difference=worst)
        if kind.num_phases == 1 and kind.min_p is None:  # a batch here has neither phases nor whole distributions
            worst = max(map(partial(reference_apart, name), map(random_batch, range(3))))
            yield Row(objective=name, oracle="slow reference, at the defaults", difference=worst)


def reference_apart(name: str, batch: Batch) -> float:
    """The relative difference of the loss at the default constants from the slow reference's; STARE's gate is open."""
    inside = batch.mask.bool()
    rows = torch.arange(ROLLOUTS).unsqueeze(1).expand_as(inside)
    columns = (batch.log_probs, batch.old_log_probs, batch.entropy, batch.advantages, rows)
    tokens = [
        Token(log_prob=now, old_log_prob=old, entropy=h, advantage=a, sequence=row, key=key, batch_entropy=0.2)
        for key, (now, old, h, a, row) in enumerate(zip(*(x[inside].tolist() for x in columns), strict=True))
    ]
    value, _ = ours(name, {}, batch)
    return abs(reference_loss(name, for_run({"name": name}, **SETTINGS), tokens) - value) / max(abs(value), 1e-12)
