"""What all objectives share: what nothing is learned from, what is refused, and what no split changes."""

import math
from dataclasses import FrozenInstanceError, asdict, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from objective_setup import loss, stats

from stapo_bench.errors import UsageError
from stapo_train.check.plain import Token
from stapo_train.check.reference import reference_loss
from stapo_train.objective import (
    Needs,
    TokenStats,
    policy_loss,
    quantile,
    select,
    uniform,
)
from stapo_train.objectives import REGISTRY, build, for_run


@pytest.mark.parametrize("name", REGISTRY)
def test_nothing_but_zero_where_nothing_is_learned(name):
    objective = for_run({"name": name}, seed=0, max_new_tokens=8)
    s = stats([0.5, 0.001], advantages=[0.0, 0.0])
    assert loss(s, objective) == 0


def test_a_silenced_token_has_gradient_zero_even_where_its_term_is_infinite():
    s = stats([0.001, 0.001], entropy=[0.1, 0.2], advantages=[math.inf, 1.0])
    leaf = s.log_probs.clone().requires_grad_()
    s = TokenStats(**{**vars(s), "log_probs": leaf})
    objective = build("stapo")
    policy_loss(s, select(s, objective), objective).numerator.sum().backward()
    assert leaf.grad.tolist() == [0.0, -1.0]


def test_importance_weights_scale_each_token():
    s = stats([0.5, 0.5])
    s = TokenStats(**{**vars(s), "importance": torch.tensor([0.5, 2.0], dtype=torch.float64)})
    assert loss(s, build("dapo")) == pytest.approx(-1.25)


def test_each_token_is_weighed_by_its_own_importance():
    s = stats([0.5, 0.5, 0.5], advantages=[1, 1, -1])
    s = replace(s, importance=torch.tensor([0.5, 4.0, 3.0], dtype=torch.float64))
    objective = build("dapo")
    assert policy_loss(s, select(s, objective), objective).numerator.tolist() == [-0.5, -4.0, 3.0]


def test_clipped_tokens_are_counted_by_hand():
    # ratios   1.5  1.2  0.5 | 0.5  0.9  1.5  0.5
    # A          1    1    1 |  -1   -1   -1   -1, under 0.2 / 0.28
    # high: the first alone; low: the fourth and the last, which is silenced and does not count
    probs, advantages = [0.6, 0.48, 0.2, 0.2, 0.36, 0.6, 0.2], [1, 1, 1, -1, -1, -1, -1]
    s = stats(probs, old=[0.4] * 7, advantages=advantages)
    selection = select(s, build("dapo"))
    selection = replace(selection, keep_mask=torch.arange(7) < 6)
    metrics = policy_loss(s, selection, build("dapo")).metrics
    assert (int(metrics["clipped_high"]), int(metrics["clipped_low"]), int(metrics["tokens"])) == (1, 1, 7)


def test_small_advantages_are_clipped_on_their_own_side_alone():
    # ratio 0.5 with A = 0.5, 0 and -0.5: below 1 - clip_low only the last one's clip holds
    s = stats([0.2] * 3, old=[0.4] * 3, advantages=[0.5, 0.0, -0.5])
    assert int(policy_loss(s, select(s, build("dapo")), build("dapo")).metrics["clipped_low"]) == 1
    s = stats([0.6] * 3, old=[0.4] * 3, advantages=[0.5, 0.0, -0.5])
    assert int(policy_loss(s, select(s, build("dapo")), build("dapo")).metrics["clipped_high"]) == 1


def test_a_token_as_likely_as_tau_p_is_no_candidate():
    s = stats([1.0, 0.5])  # ln 1 is 0 and its exponential 1, without rounding
    assert select(s, build("stapo", tau_p=1.0)).candidate_mask.tolist() == [False, True]


def test_stare_leaves_rollouts_without_advantage_and_entropy_at_the_bound_alone():
    # Half of the two with A > 0 and of the two with A < 0 are one each: the less likely. The first two have A = 0.
    s = stats([0.1, 0.1, 0.5, 0.6, 0.5, 0.6], entropy=[0.5] * 6, advantages=[0, 0, 1, 1, -1, -1])
    stare = build("stare", share=0.5, weight_positive=2.0, weight_negative=0.5, max_entropy=1.0)
    assert select(s, stare).weights.tolist() == [1, 1, 2, 1, 0.5, 1]
    assert select(s, replace(stare, max_entropy=0.5)).weights.tolist() == [1] * 6


def test_gspo_ratio_of_a_rollout_of_one_token_is_the_tokens():
    # 0.4 / 0.2; beside it two tokens of ratios 4 and 1: sqrt(4)
    s = stats([0.4, 0.4, 0.1], old=[0.2, 0.1, 0.1], sequence=[0, 1, 1])
    assert build("gspo").ratio(s).tolist() == pytest.approx([2.0, 2.0, 2.0])


@pytest.mark.parametrize(("low", "high", "num_eligible"), [(0.5, 1.5, 2), (0.5, 1.0, 0), (1.0, 1.5, 0)])
def test_clip_cov_draws_from_strictly_between_its_bounds(low, high, num_eligible):
    # A = 1, -1 and ln pi = -1, -3: the means are 0 and -2, both covariances exactly 1
    log_probs = torch.tensor([-1.0, -3.0], dtype=torch.float64)
    s = replace(stats([0.5, 0.5], advantages=[1, -1]), log_probs=log_probs, old_log_probs=log_probs)
    selection = select(s, build("clip-cov", seed=0, low=low, high=high))
    assert selection.num_candidates == num_eligible
    assert selection.num_kept == 2 - min(num_eligible, 1)


# The constants of the papers and of their authors' scripts, where they are not DAPO's 0.2 / 0.28 without a dual clip.
EVEN, JUSTRL, VERL = {"clip_high": 0.2}, {"dual_clip": 10.0}, {"clip_high": 0.2, "dual_clip": 3.0}
S2T = {**JUSTRL, "tau_p": 0.002, "q": 0.75}
CONSTANTS = {
    "dapo": {},
    "grpo": {**EVEN, "kl_beta": 0.0},
    "dr-grpo": {**EVEN, "max_length": 8},
    "justrl": JUSTRL,
    "20-entropy": {**JUSTRL, "share": 0.2, "denominator": "kept"},
    "stapo": S2T,
    "stapo-old": {**S2T, "q": 0.8},
    "random-mask": {**S2T, "seed": 7},
    "high-entropy-mask": S2T,
    "full-mask": S2T,
    "stapo-micro-batch": {**S2T, "micro_batch_rollouts": 8},
    "ar": {**JUSTRL, "clip_high": 0.24, "alpha": 0.2},
    "lopti": {**JUSTRL, "clip_high": 0.24, "alpha": 0.0, "eta": 0.4, "order": "passes"},
    "stare": {
        **JUSTRL, "share": 0.1, "weight_positive": 1.1, "weight_negative": 1.0, "max_entropy": 0.3, "gate": "iteration"
    },
    "taco": {**JUSTRL, "alpha": 0.01, "strength": 0.9},
    "lp-reg": {"clip_low": 1.0, "clip_high": 9.0, "share": 0.01, "beta": 1.0},
    "kl-cov": {"share": 0.002, "beta": 1.0},
    "clip-cov": {"clip_low": 1.0, "clip_high": 1.0, "share": 0.0002, "low": 1.0, "high": 5.0, "seed": 7},
    "gspo": {"clip_low": 3e-4, "clip_high": 4e-4},
    "cispo": {"clip_low": 1.0, "clip_high": 4.0},
    "sapo": {"tau_positive": 1.0, "tau_negative": 1.05},
    "dppo-tv": {"clip_low": 0.15, "clip_high": 0.15, "max_length": 8},
    "dppo-kl": {"clip_low": 0.05, "clip_high": 0.05, "max_length": 8},
    "gmpo": {"clip_low": 0.4, "clip_high": 0.4},
    "luspo": {"clip_low": 0.002, "clip_high": 0.0025},
    "vespo": {"k_positive": 2.0, "lambda_positive": 3.0, "k_negative": 3.0, "lambda_negative": 2.0},
    "ce-gppo": {**EVEN, **JUSTRL, "beta_low": 0.5, "beta_high": 1.0},
    "aspo": {**EVEN, "clip_wide": 0.4, "share": 0.2, "max_weight": 3.0},
    "maxrl": VERL,
    "rloo": VERL,
    "reinforce++": VERL,
    "reinforce++-baseline": VERL,
    "opo": VERL,
    "grpo-pass-k": VERL,
    "gpg": {},
    "dro": {"beta": 1.0},
}  # fmt: skip
ANY_DECISION = ("20-entropy", "stare", "taco", "lp-reg", "kl-cov", "clip-cov", "aspo")
S2T_ALIKE = ("stapo", "stapo-old", "random-mask", "high-entropy-mask", "full-mask", "stapo-micro-batch")


@pytest.mark.parametrize("name", REGISTRY)
def test_an_objective_is_its_papers_constants_and_what_it_says_of_itself(name):
    objective = for_run({"name": name}, seed=7, max_new_tokens=8)
    assert asdict(objective) == {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": None, **CONSTANTS[name]}
    assert objective.definition == (2 if name in ("lopti", "stare", "lp-reg", "clip-cov") else 1)
    assert objective.num_phases == (2 if name == "lopti" else 1)
    assert objective.min_p == (0.02 if name == "lp-reg" else None)
    assert objective.divide_by_std == (name not in ("dr-grpo", "dppo-tv", "dppo-kl"))
    assert objective.detaches_ratio == (name in ("cispo", "dppo-tv", "dppo-kl", "vespo", "ce-gppo", "aspo"))
    depends = "all" if name in ANY_DECISION else "few" if name in S2T_ALIKE else "none"
    assert objective.needs == Needs(
        current_policy=depends,
        zero_advantage_statistics=name in ("20-entropy", "stapo-old", "stare", "kl-cov", "clip-cov"),
        zero_advantage_gradient=name in ("kl-cov", "dro"),
    )
    with pytest.raises(FrozenInstanceError):
        objective.clip_low = 0.5
    s = stats([0.5, 0.2])  # ratio 1 and A = 1 everywhere: the value of the surrogate, whatever its clip
    assert select(s, objective).num_tokens == 2
    assert objective.ratio(s).tolist() == pytest.approx([1.0, 1.0])


def random_tokens(seed):
    """Sixty tokens of seven rollouts, from unlikely to likely, moved far in both directions; with plain numbers."""
    draw = torch.Generator().manual_seed(seed)

    def uniformly(low, high):
        return low + (high - low) * torch.rand(60, generator=draw, dtype=torch.float64)

    log_probs, entropy = uniformly(-7.0, -0.05), uniformly(0.0, 2.0)
    old = (log_probs + uniformly(-0.5, 0.5)).clamp(max=-0.02)
    sequence = torch.arange(60) ** 2 // 515  # 23, 10, 7, … tokens
    advantages = torch.tensor([0.7, -1.3, 2.0, 0.0, -0.4, 1.0, -0.1], dtype=torch.float64)[sequence]
    rest = uniformly(0.02, 0.5).unsqueeze(-1) ** torch.arange(1, 8)  # seven other tokens, ever less likely
    others = (1 - old.exp()).unsqueeze(-1) * rest / rest.sum(-1, keepdim=True)
    distribution = torch.cat([old.exp().unsqueeze(-1), others], dim=-1)
    kept = torch.where(distribution >= 0.02 * distribution.amax(-1, keepdim=True), distribution, 0.0)
    batch = torch.full((60,), 0.25, dtype=torch.float64)
    key = torch.arange(60) * 977 + seed
    tokens = TokenStats(
        log_probs=log_probs, old_log_probs=old, entropy=entropy, advantages=advantages, sequence=sequence, key=key,
        proxy_log_probs=(kept[:, 0] / kept.sum(-1)).log(), batch_entropy=batch,
    )  # fmt: skip
    columns = (log_probs, old, entropy, advantages, sequence, key, batch, distribution)
    names = ("log_prob", "old_log_prob", "entropy", "advantage", "sequence", "key", "batch_entropy", "distribution")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tokens, [Token(**dict(zip(names, row, strict=True))) for row in rows]


NARROW = {"clip_low": 0.1, "clip_high": 0.15, "dual_clip": 1.1}
MORE = {"lp-reg": [{"share": 1.0}]}  # the least likely tokens alone are all noise to the proxy


@pytest.mark.parametrize("name", REGISTRY)
def test_random_tokens_give_the_loss_of_the_slow_reference(name):
    for seed in range(3):
        s, tokens = random_tokens(seed)
        for settings in ({}, dict(REGISTRY[name].check_with), NARROW, *MORE.get(name, [])):
            objective = for_run({"name": name, **settings}, seed=seed, max_new_tokens=30)
            for phase in range(objective.num_phases):
                expected = reference_loss(name, objective, tokens, phase)
                assert loss(s, objective, phase=phase) == pytest.approx(expected, rel=1e-9, abs=1e-12), settings


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("grpo", {"kl_beta": 0.0}),
        ("sapo", {"tau_positive": 0.01, "tau_negative": 0.01}),
        ("taco", {"alpha": 0.01, "strength": 1.0}),
        ("taco", {"strength": 0.0}),
        ("stapo", {"tau_p": 0.0, "q": 0.0}),
        ("stapo", {"tau_p": 1.0, "q": 1.0}),
        ("stapo-micro-batch", {"micro_batch_rollouts": 1}),
        ("20-entropy", {"share": 0.0}),
        ("20-entropy", {"share": 1.0}),
        ("ar", {"alpha": 0.0}),
        ("ar", {"alpha": 1.0}),
        ("lopti", {"eta": 0.0}),
        ("lopti", {"eta": 1.0}),
        ("stare", {"share": 0.0, "weight_positive": 0.0, "weight_negative": 0.0, "max_entropy": 0.0}),
        ("stare", {"share": 1.0}),
        ("lp-reg", {"share": 0.0, "beta": 0.0}),
        ("lp-reg", {"share": 1.0}),
        ("kl-cov", {"share": 0.0, "beta": 0.0}),
        ("kl-cov", {"share": 1.0}),
        ("clip-cov", {"seed": 0, "share": 0.0, "high": 1.0}),
        ("clip-cov", {"seed": 0, "share": 1.0}),
        ("dr-grpo", {"max_length": 1}),
        ("dppo-tv", {"max_length": 1}),
        ("vespo", {"k_positive": 0.0, "k_negative": 0.0, "lambda_positive": 0.01, "lambda_negative": 0.01}),
        ("ce-gppo", {"beta_low": 0.0, "beta_high": 0.0}),
        ("aspo", {"clip_wide": 0.0, "share": 0.0}),
        ("aspo", {"share": 1.0}),
        ("dro", {"beta": 0.01}),
        ("dapo", {"clip_low": 0.0, "clip_high": 0.0, "dual_clip": 1.01}),
    ],
)
def test_settings_at_the_ends_of_their_ranges_are_taken(name, settings):
    objective = build(name, **settings)
    assert {key: getattr(objective, key) for key in settings} == settings
    assert select(stats([0.5, 0.2]), objective).num_tokens == 2


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'stapo'"):
        build("stappo")
    with pytest.raises(UsageError, match="did you mean 'tau_p'"):
        build("stapo", tau_q=0.1)


SHARES = (
    *((name, setting) for name in ("stapo", "stapo-old") for setting in ("tau_p", "q")),
    *((name, "share") for name in ("20-entropy", "stare", "lp-reg", "kl-cov", "aspo")),
    *(("ar", "alpha"), ("lopti", "alpha"), ("lopti", "eta"), ("taco", "strength")),
)


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("stapo", {"q": math.nan}, "q: expected at least 0 and at most 1, got nan"),
        ("random-mask", {"seed": 0.5}, "seed: expected int, got 0.5"),
        ("gspo", {"clip_low": "3e-4x"}, "clip_low: expected float"),
        ("grpo", {"kl_beta": -0.1}, "kl_beta: expected at least 0, got -0.1"),
        *(
            (name, {setting: value}, f"{setting}: expected at least 0 and at most 1, got {value}")
            for name, setting in SHARES
            for value in (-0.01, 1.01)
        ),
        ("aspo", {"clip_wide": -0.01}, "clip_wide: expected at least 0, got -0.01"),
        ("aspo", {"max_weight": 1}, "max_weight: expected above 1, got 1"),
        ("ce-gppo", {"beta_low": -0.01}, "beta_low: expected at least 0, got -0.01"),
        ("ce-gppo", {"beta_high": -0.01}, "beta_high: expected at least 0, got -0.01"),
        ("dapo", {"dual_clip": 1}, "dual_clip: expected above 1, got 1"),
        ("dro", {"beta": 0}, "beta: expected above 0, got 0"),
        ("taco", {"alpha": 0}, "alpha: expected above 0, got 0"),
        ("vespo", {"k_positive": -0.01}, "k_positive: expected at least 0, got -0.01"),
        ("vespo", {"k_negative": -0.01}, "k_negative: expected at least 0, got -0.01"),
        ("vespo", {"lambda_positive": 0}, "lambda_positive: expected above 0, got 0"),
        ("vespo", {"lambda_negative": 0}, "lambda_negative: expected above 0, got 0"),
        ("stapo-micro-batch", {"micro_batch_rollouts": 0}, "micro_batch_rollouts: expected at least 1, got 0"),
        ("stare", {"weight_positive": -0.1}, "weight_positive: expected at least 0, got -0.1"),
        ("stare", {"weight_negative": -0.1}, "weight_negative: expected at least 0, got -0.1"),
        ("stare", {"max_entropy": -0.1}, "max_entropy: expected at least 0, got -0.1"),
        ("lp-reg", {"beta": -0.1}, "beta: expected at least 0, got -0.1"),
        ("kl-cov", {"beta": -0.1}, "beta: expected at least 0, got -0.1"),
        ("clip-cov", {"seed": 0, "share": 1.01}, "share: expected at least 0 and at most 1, got 1.01"),
        ("clip-cov", {"seed": 0, "share": -0.01}, "share: expected at least 0 and at most 1, got -0.01"),
        ("clip-cov", {"seed": 0, "high": 0.5}, "high: expected at least 1, got 0.5"),
        ("dr-grpo", {"max_length": 0}, "max_length: expected at least 1, got 0"),
        ("sapo", {"tau_positive": 0}, "tau_positive: expected above 0, got 0"),
    ],
)
def test_impossible_settings_are_refused(name, setting, message):
    with pytest.raises(UsageError) as caught:
        build(name, **setting)
    assert str(caught.value).startswith(f"objective {name}: {message}")


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("setting", ["clip_low", "clip_high"])
def test_no_objective_takes_a_clip_range_below_zero(name, setting):
    with pytest.raises(UsageError, match=f"{setting}: expected at least 0, got -0.1"):
        for_run({"name": name, setting: -0.1}, seed=0, max_new_tokens=8)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0, 1))
def test_quantile_is_torchs(values, q):
    x = torch.tensor(values, dtype=torch.float64)
    assert quantile(x, q) == pytest.approx(float(torch.quantile(x, q)), abs=1e-9)


def test_uniform_draws_look_uniform_and_hang_on_the_seed():
    keys = torch.arange(20_000)
    draws = uniform(keys, 1)
    assert draws.min() >= 0 and draws.max() < 1
    # standard error of the mean 0.289 / sqrt(20000) = 0.002
    assert draws.mean() == pytest.approx(0.5, abs=0.01)
    assert torch.corrcoef(torch.stack([draws, uniform(keys, 2)]))[0, 1].abs() < 0.03


def test_random_numbers_of_tokens_are_those_of_splitmix64():
    # The first outputs of the published generator from state 0; their upper 53 bits are a number in [0, 1).
    published = (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC)
    found = [uniform(torch.tensor([0]), number).item() for number in (1, 2, 3, 4)]
    assert found == [(output >> 11) * 2.0**-53 for output in published]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("log_probs", torch.zeros(1, 2), r"expected \[N\], response tokens end to end, got \[1, 2\]"),
        ("entropy", torch.zeros(3), r"entropy: expected one value for each of the 2 tokens of log_probs, got \[3\]"),
        ("key", torch.zeros(2), r"key: expected int64, got torch\.float32"),
    ],
)
def test_statistics_that_do_not_fit_are_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        replace(stats([0.5, 0.2]), **{field: value})
