"""select and policy_loss against hand-computed values; the mask as set operations."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_setup import loss, stats

from stapo_bench.errors import UsageError
from stapo_train.objective import TokenStats, policy_loss, select
from stapo_train.objectives import build, for_run

# --- S2T -------------------------------------------------------------------------------------------------------------


def test_new_mask_by_hand():
    # Candidates: tokens 0-4 (A > 0, pi < 0.002). Their entropies 0.1 0.2 0.3 0.4 0.5; the 75 % quantile stands at
    # place 0.75 * 4 = 3: tau_h = 0.4. Strictly below: 0, 1, 2. Token 3 is at tau_h and kept.
    # Token 5 has A < 0, token 6 pi = 0.002 exactly, token 7 is likely: no candidates.
    s = stats(
        probs=[0.001, 0.0005, 0.0019, 0.001, 0.001, 0.0001, 0.002, 0.9],
        entropy=[0.1, 0.2, 0.3, 0.4, 0.5, 0.0, 0.0, 0.0],
        advantages=[1, 1, 1, 1, 1, -1, 1, 1],
    )
    selection = select(s, build("stapo"))
    assert selection.thresholds["tau_h"] == pytest.approx(0.4)
    assert selection.keep_mask.tolist() == [False, False, False, True, True, True, True, True]
    assert (selection.num_candidates, selection.num_kept, selection.num_tokens) == (5, 5, 8)
    assert selection.candidate_entropy == pytest.approx(0.3)  # (0.1 + 0.2 + 0.3 + 0.4 + 0.5) / 5
    assert select(s, build("grpo")).candidate_entropy is None  # it silences nothing
    assert select(replace(s, entropy=torch.full((8,), torch.nan)), build("full-mask")).candidate_entropy is None
    # ratio 1: J = sum of A over kept / kept = (1 + 1 - 1 + 1 + 1) / 5
    assert loss(s, build("stapo")) == pytest.approx(-3 / 5)


def test_new_quantile_interpolates_linearly():
    # two candidates, H = 1 and 2: the 75 % quantile is 1.75, so the first is silenced and the second kept
    selection = select(stats([0.001, 0.001], entropy=[1.0, 2.0]), build("stapo"))
    assert selection.thresholds["tau_h"] == 1.75
    assert selection.keep_mask.tolist() == [False, True]


def test_old_mask_takes_the_quantile_over_all_tokens():
    # entropies 0..4 over all tokens: the 80 % quantile is 0.8 * 4 = 3.2; both candidates (H = 0, 1) lie below
    s = stats([0.001, 0.001, 0.5, 0.5, 0.5], entropy=[0.0, 1.0, 2.0, 3.0, 4.0])
    selection = select(s, build("stapo-old"))
    assert selection.thresholds["tau_h"] == pytest.approx(3.2)
    assert selection.keep_mask.tolist() == [False, False, True, True, True]
    # NEW: the quantile of 0 and 1 is 0.75, so only the first goes
    assert select(s, build("stapo")).keep_mask.tolist() == [False, True, True, True, True]


def test_no_candidates_nothing_silenced():
    selection = select(stats([0.5, 0.9]), build("stapo"))
    assert math.isnan(selection.thresholds["tau_h"])
    assert selection.keep_mask.all()


def test_one_candidate_is_its_own_quantile_and_kept():
    assert select(stats([0.001, 0.9]), build("stapo")).keep_mask.all()


def test_switched_off_is_justrl_bit_for_bit():
    torch.manual_seed(0)
    s = stats(torch.rand(200).tolist(), old=torch.rand(200).tolist(), advantages=torch.randn(200).tolist())
    off, plain = build("stapo", tau_p=0.0), build("justrl")
    a, b = policy_loss(s, select(s, off), off), policy_loss(s, select(s, plain), plain)
    assert torch.equal(a.numerator, b.numerator)
    assert select(s, off).denominator == select(s, plain).denominator


def test_ablations_silence_as_many_otherwise():
    # nine candidates: ceil(0.75 * 8) = 6 strictly below the quantile
    s = stats([0.001] * 9 + [0.5], entropy=[0.1 * i for i in range(10)])
    masks = {
        name: (~select(s, for_run({"name": name}, seed=1, max_new_tokens=8)).keep_mask).nonzero().flatten().tolist()
        for name in ("stapo", "high-entropy-mask", "random-mask", "full-mask")
    }
    assert masks["stapo"] == [0, 1, 2, 3, 4, 5]
    assert masks["high-entropy-mask"] == [3, 4, 5, 6, 7, 8]
    assert masks["full-mask"] == list(range(9))
    assert len(masks["random-mask"]) == 6 and set(masks["random-mask"]) < set(range(9))
    other_seed = select(s, for_run({"name": "random-mask"}, seed=2, max_new_tokens=8)).keep_mask
    assert (~other_seed).nonzero().flatten().tolist() != masks["random-mask"]


def test_per_micro_batch_by_hand():
    # Six rollouts of one candidate each. Whole: entropies 1..6, the 75 % quantile at place 3.75 is 4.75: 1-4 go.
    # Micro-batches of two: the quantiles of (1, 2), (3, 4), (5, 6) are 1.75, 3.75, 5.75: 1, 3 and 5 go.
    # Of four: that of 1..4 at place 2.25 is 3.25: 1-3 go; that of (5, 6) is 5.75: 5 goes. Of one: nothing goes.
    s = stats([0.001] * 6, entropy=[1, 2, 3, 4, 5, 6], advantages=[1, 1, 2, 1, 1, 1], sequence=list(range(6)))
    assert (~select(s, build("stapo")).keep_mask).nonzero().flatten().tolist() == [0, 1, 2, 3]
    silenced = {
        size: (~select(s, build("stapo-micro-batch", micro_batch_rollouts=size)).keep_mask).nonzero().flatten().tolist()
        for size in (1, 2, 4, 6)
    }
    assert silenced == {1: [], 2: [0, 2, 4], 4: [0, 1, 2, 4], 6: [0, 1, 2, 3]}
    # The denominator is over the mini-batch: with twos rollouts 1, 3 and 5 are kept, J = (1 + 1 + 1) / 3; with ones
    # all are, J = (1 + 1 + 2 + 1 + 1 + 1) / 6.
    assert loss(s, build("stapo-micro-batch", micro_batch_rollouts=2)) == pytest.approx(-1)
    assert loss(s, build("stapo-micro-batch", micro_batch_rollouts=1)) == pytest.approx(-7 / 6)
    with pytest.raises(UsageError, match="expected at least 1, got 0"):
        build("stapo-micro-batch", micro_batch_rollouts=0)


@settings(max_examples=50)
@given(st.data())
def test_mask_is_what_the_definition_says(data):
    n = data.draw(st.integers(1, 30))
    floats = st.floats(1e-4, 4e-3)
    s = stats(
        data.draw(st.lists(floats, min_size=n, max_size=n)),
        entropy=data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n, max_size=n)),
        advantages=data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=n, max_size=n)),
    )
    selection = select(s, build("stapo"))
    tau_h = selection.thresholds["tau_h"]
    for i in range(n):
        candidate = s.advantages[i] > 0 and s.log_probs[i].exp() < 0.002
        assert bool(selection.candidate_mask[i]) == candidate
        assert bool(selection.keep_mask[i]) == (not (candidate and s.entropy[i] < tau_h))
    assert selection.denominator == selection.keep_mask.sum()
    if selection.num_candidates:  # whatever the ties, the candidate with the most entropy stays
        assert selection.num_kept > selection.num_tokens - selection.num_candidates


# --- the others ------------------------------------------------------------------------------------------------------


def test_clip_by_hand():
    # ratios 1.5, 0.5, 1.5, 0.5 with A = 1, 1, -1, -1 under 0.2 / 0.28:
    # min(1.5, 1.28) = 1.28; min(0.5, 0.8) = 0.5; min(-1.5, -1.28) = -1.5; min(-0.5, -0.8) = -0.8; sum -0.52
    s = stats([0.3, 0.1, 0.3, 0.1], old=[0.2] * 4, advantages=[1, 1, -1, -1])
    assert loss(s, build("dapo")) == pytest.approx(0.52 / 4)
    # GRPO clips above at 1.2: sum 1.2 + 0.5 - 1.5 - 0.8 = -0.6
    assert loss(s, build("grpo")) == pytest.approx(0.6 / 4)


def test_dual_clip_bounds_what_a_failed_rollout_can_push():
    # ratio 0.9 / 0.03 = 30, A = -1: -30 plain, -10 with the dual clip
    s = stats([0.9], old=[0.03], advantages=[-1])
    assert loss(s, build("dapo")) == pytest.approx(30)
    assert loss(s, build("justrl")) == pytest.approx(10)


def test_denominators_by_hand():
    # rollout 0: one token, A = 1; rollout 1: three tokens, A = -1; ratio 1
    s = stats([0.5] * 4, advantages=[1, -1, -1, -1], sequence=[0, 1, 1, 1])
    assert loss(s, build("grpo")) == pytest.approx(0.0)  # (1/1 - 3/3) / 2 rollouts
    assert loss(s, build("dapo")) == pytest.approx(0.5)  # -(1 - 3) / 4 tokens
    assert loss(s, build("dr-grpo", max_length=10)) == pytest.approx(0.1)  # -(1 - 3) / (2 rollouts * 10)


def test_grpo_kl_penalty_by_hand():
    # pi = 0.5, pi_ref = 0.25: k3 = 0.5 - ln 0.5 - 1 = 0.19315; J = 1 - 0.1 * 0.19315
    s = stats([0.5])
    s = TokenStats(**{**vars(s), "ref_log_probs": torch.tensor([0.25], dtype=torch.float64).log()})
    assert loss(s, build("grpo", kl_beta=0.1)) == pytest.approx(-(1 - 0.1 * 0.1931472), abs=1e-7)


def test_20_entropy_keeps_the_top_fifth_whatever_the_sign():
    # entropies 0..9: the 80 % quantile is 7.2; tokens 8 and 9 stay
    s = stats([0.5] * 10, entropy=[float(i) for i in range(10)], advantages=[1] * 9 + [-2])
    kept = select(s, build("20-entropy"))
    assert kept.keep_mask.nonzero().flatten().tolist() == [8, 9]
    assert loss(s, build("20-entropy")) == pytest.approx(-(1 - 2) / 2)
    assert loss(s, build("20-entropy", denominator="all")) == pytest.approx(-(1 - 2) / 10)


def test_advantage_reweighting_by_hand():
    # alpha 0.2, pi_old 0.5: A * (0.1 + 0.8)
    assert loss(stats([0.5]), build("ar")) == pytest.approx(-0.9)


def test_lopti_takes_unlikely_tokens_first():
    s = stats([0.1, 0.5, 0.4])
    masks = [select(s, build("lopti"), phase=phase).keep_mask.tolist() for phase in (0, 1)]
    assert masks == [[True, False, False], [False, True, True]]
    assert [loss(s, build("lopti"), phase=phase) for phase in (0, 1)] == [pytest.approx(-1 / 3), pytest.approx(-2 / 3)]


def test_stare_weighs_surprise_only_while_entropy_is_low():
    probs = [0.1] + [0.5] * 9 + [0.1] + [0.5] * 9
    low = stats(probs, entropy=[0.2] * 20, advantages=[1] * 10 + [-1] * 10)
    high = stats(probs, entropy=[0.4] * 20, advantages=[1] * 10 + [-1] * 10)
    both = build("stare", weight_negative=0.9)
    assert select(low, both).weights.tolist() == [1.1] + [1] * 9 + [0.9] + [1] * 9
    assert select(high, both).weights.tolist() == [1] * 20
    assert loss(low, both) == pytest.approx(-(10.1 - 9.9) / 20)


def test_gspo_has_one_ratio_per_rollout():
    # ratios 2 and 0.5 in one rollout: geometric mean 1, nothing clipped; J = A
    s = stats([0.4, 0.1], old=[0.2, 0.2], advantages=[1, 1])
    assert build("gspo").ratio(s).tolist() == [pytest.approx(1.0)] * 2
    assert loss(s, build("gspo")) == pytest.approx(-1)


def test_cispo_bounds_the_weight_and_keeps_the_gradient():
    s = stats([0.9], old=[0.1])  # ratio 9, bounded at 5
    leaf = s.log_probs.clone().requires_grad_()
    s = TokenStats(**{**vars(s), "log_probs": leaf})
    policy_loss(s, select(s, build("cispo")), build("cispo")).numerator.sum().backward()
    assert leaf.grad.tolist() == [pytest.approx(-5.0)]


def test_sapo_has_slope_one_at_ratio_one():
    s = stats([0.5, 0.5], advantages=[1, -1])
    leaf = s.log_probs.clone().requires_grad_()
    s = TokenStats(**{**vars(s), "log_probs": leaf})
    policy_loss(s, select(s, build("sapo")), build("sapo")).numerator.sum().backward()
    # d/d rho of (4 / tau) sigmoid(tau (rho - 1)) at 1 is 1; over two tokens of one rollout: weights 1/2
    assert leaf.grad.tolist() == [pytest.approx(-0.5), pytest.approx(0.5)]


def test_covariance_methods_mark_what_costs_entropy():
    # 1,000 tokens; token 0 is likely and good: the largest covariance. KL-Cov marks int(0.002 * 1000) = 2 tokens.
    probs, advantages = [0.9, 0.8] + [0.3] * 998, [3.0, 2.0] + [0.0] * 998
    s = stats(probs, advantages=advantages, old=[0.45, 0.4] + [0.3] * 998)
    marked = select(s, build("kl-cov")).marked_mask
    assert marked.nonzero().flatten().tolist() == [0, 1]
    # J = sum rho A - |ln rho| at the marked = 2 * 3 + 2 * 2 - 2 ln 2
    assert loss(s, build("kl-cov")) == pytest.approx(-(10 - 2 * math.log(2)) / 1000)
    silenced = ~select(stats(probs, advantages=advantages), build("clip-cov", seed=0)).keep_mask
    assert silenced.sum() == 1 and silenced.nonzero().item() in (0, 1)


def test_kl_cov_marks_as_many_as_asked_where_covariances_tie():
    # One good token and 999 others of two kinds, of which 500 tie for the second place of int(0.002 * 1000) = 2.
    s = stats([0.9] + [0.5] * 500 + [0.3] * 499, advantages=[3.0] + [0.0] * 999)
    marked = select(s, build("kl-cov")).marked_mask
    assert marked.sum() == 2 and marked[0]
    back = torch.arange(999, -1, -1)  # which of them is told by lot and not by place
    assert select(s.take(back), build("kl-cov")).marked_mask[back].tolist() == marked.tolist()


@pytest.mark.parametrize("advantage", [0.0, 0.1])
def test_kl_cov_marks_nothing_where_all_covariances_are_equal(advantage):
    s = stats(torch.linspace(0.1, 0.9, 142).tolist(), advantages=[advantage] * 142)
    assert not select(s, build("kl-cov")).marked_mask.any()
    nobody = s.take(torch.arange(0))
    assert not select(nobody, build("kl-cov")).marked_mask.any()


def test_kl_cov_takes_rounding_for_no_move():
    # J = rho A - |ln rho|: slope rho A, and 1 less where the token has moved up
    objective = build("kl-cov", share=1)
    for moved, pay in ((1e-6, 0), (-1e-6, 0), (0.01, 1), (-0.01, -1)):
        s = stats([0.5, 0.4, 0.3], advantages=[1.0, 2.0, 1.0])
        s = replace(s, log_probs=(s.log_probs + moved).requires_grad_())
        policy_loss(s, select(s, objective), objective).numerator.sum().backward()
        assert s.log_probs.grad.tolist() == pytest.approx([pay - math.exp(moved) * a for a in (1, 2, 1)])


def lp_reg_tokens(proxies, old=None):
    """Four unlikely tokens (0.01) among 400 failed ones: 1 %; the rest has probability 0.5; ratio 1 unless given."""
    probs = [0.01] * 4 + [0.5] * 396
    s = stats(probs, advantages=[-1.0] * 400, old=(old or probs[:4]) + probs[4:])
    found = torch.tensor(proxies + [0.9] * 396, dtype=torch.float64).log()
    return replace(s, log_probs=s.log_probs.requires_grad_(), proxy_log_probs=found)


def test_lp_reg_holds_the_least_likely_failed_tokens_that_the_proxy_would_raise():
    # Proxies 0.02 and 0.011 are above 0.01; 0.005 is below; 0 is what the cut leaves out, noise.
    s = lp_reg_tokens([0.02, 0.011, 0.005, 0.0])
    assert select(s, build("lp-reg")).marked_mask.nonzero().flatten().tolist() == [0, 1]
    # k3 at 0.02: 2 - ln 2 - 1 = 0.3069; at 0.011: 1.1 - ln 1.1 - 1 = 0.0047; all else has ratio 1: -A rho = 1
    k3 = (2 - math.log(2) - 1) + (1.1 - math.log(1.1) - 1)
    assert loss(s, build("lp-reg")) == pytest.approx((400 + k3) / 400)


@pytest.mark.parametrize(("share", "marked"), [(0.005, [0, 1]), (0.00499, [])])
def test_lp_reg_marks_two_tokens_and_no_single_one(share, marked):
    s = lp_reg_tokens([0.04, 0.03, 0.0, 0.0])
    probs = torch.tensor([0.001, 0.002, 0.01, 0.01], dtype=torch.float64)  # 2 of 400, and 1
    s = replace(s, log_probs=torch.cat([probs.log(), s.log_probs[4:].detach()]))
    assert select(s, build("lp-reg", share=share)).marked_mask.nonzero().flatten().tolist() == marked


def test_lp_reg_raises_a_held_token_where_the_surrogate_alone_lowers_it():
    # slope of the loss by ln pi: -A rho = 1, and 1 - proxy / pi of the KL: 1 - 3 = -2; in all -1, upwards
    s = lp_reg_tokens([0.03, 0.0, 0.0, 0.0])
    objective = build("lp-reg")
    policy_loss(s, select(s, objective), objective).numerator.sum().backward()
    assert s.log_probs.grad[:4].tolist() == pytest.approx([-1.0, 1.0, 1.0, 1.0])


def test_lp_reg_clips_others_at_ten_and_the_held_not_at_all():
    # ratios 0.01 / 0.0005 = 20: the surrogate's minimum of -20 and -10 is -20, as min() has no lower bound at A < 0;
    # at A > 0 the clip of 1 + 9 holds: 10
    s = lp_reg_tokens([0.02, 0.0, 0.0, 0.0], old=[0.0005] * 4)
    found = policy_loss(s, select(s, build("lp-reg")), build("lp-reg")).numerator
    assert found[:2].tolist() == pytest.approx([20 + 1 - math.log(2), 20])
    good = replace(s, advantages=-s.advantages)
    assert policy_loss(good, select(good, build("lp-reg")), build("lp-reg")).numerator[0].item() == pytest.approx(-10)
    # in a clip of 0.2 a ratio of 0.01 / 0.05 = 0.2 is 0.8 at A < 0, and at the held token 0.2
    s = lp_reg_tokens([0.02, 0.0, 0.0, 0.0], old=[0.05] * 4)
    narrow = build("lp-reg", clip_low=0.2, clip_high=0.2)
    found = policy_loss(s, select(s, narrow), narrow).numerator
    assert found[:2].tolist() == pytest.approx([0.2 + 1 - math.log(2), 0.8])


def test_lp_reg_counts_a_kl_up_to_ten_nats():
    # proxy / pi = 50: 50 - ln 50 - 1 = 45 is cut to 10 and has no slope: that of the surrogate is left
    s = lp_reg_tokens([0.5, 0.0, 0.0, 0.0])
    objective = build("lp-reg")
    found = policy_loss(s, select(s, objective), objective).numerator
    found.sum().backward()
    assert (found[0].item(), s.log_probs.grad[0].item()) == (pytest.approx(11), pytest.approx(1))


def test_clip_cov_has_the_authors_wide_clip():
    # rho = 3 at A > 0: 2 by the clip at 1 + 1; rho = 0.05 at A < 0 stays, as 1 - 1 = 0 is below
    s = stats([0.6, 0.01, 0.5], old=[0.2, 0.2, 0.5], advantages=[1, -1, 0])
    objective = build("clip-cov", seed=0, low=1e8, high=1e9)  # nothing is drawn
    assert policy_loss(s, select(s, objective), objective).numerator.tolist() == pytest.approx([-2, 0.05, 0])


def test_lopti_goes_through_the_iteration_twice():
    assert build("lopti").schedule(3) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert build("lopti", order="steps").schedule(3) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert build("stapo").schedule(2) == [(0, 0), (1, 0)]


def test_stare_decides_once_for_an_iteration():
    # The mini-batch's own entropy is 0.5, the iteration's 0.2: below 0.3, and the reverse
    s = replace(stats([0.1, 0.5], entropy=[0.5, 0.5]), batch_entropy=torch.full((2,), 0.2, dtype=torch.float64))
    assert select(s, build("stare")).weights.tolist() == [1.1, 1]
    assert select(s, build("stare", gate="mini-batch")).weights.tolist() == [1, 1]
    s = replace(stats([0.1, 0.5], entropy=[0.2, 0.2]), batch_entropy=torch.full((2,), 0.5, dtype=torch.float64))
    assert select(s, build("stare")).weights.tolist() == [1, 1]
    assert select(s, build("stare", gate="mini-batch")).weights.tolist() == [1.1, 1]


@pytest.mark.parametrize(("eligible", "weighed"), [(1, 1), (10, 1), (11, 2), (20, 2)])
def test_stare_rounds_its_share_up(eligible, weighed):
    s = stats([(i + 1) / (eligible + 2) for i in range(eligible)], entropy=[0.1] * eligible)
    assert int((select(s, build("stare")).weights > 1).sum()) == weighed


def test_stare_bounds_the_ratio_of_failed_tokens_at_ten():
    s = stats([0.8], old=[0.01], advantages=[-1.0])  # rho = 80
    assert loss(s, build("stare")) == pytest.approx(10)


@pytest.mark.parametrize(
    ("name", "settings", "lacking", "message"),
    [
        ("grpo", {"kl_beta": 0.5}, "ref_log_probs", "kl_beta 0.5: expected ref_log_probs in the token statistics"),
        ("lp-reg", {}, "proxy_log_probs", "lp-reg: expected proxy_log_probs in the token statistics"),
        ("stare", {}, "batch_entropy", "stare: expected batch_entropy in the token statistics"),
    ],
)
def test_statistics_that_an_objective_needs_and_has_not_are_named(name, settings, lacking, message):
    objective, whole = build(name, **settings), stats([0.5, 0.2])
    whole = replace(whole, ref_log_probs=whole.log_probs)
    loss(whole, objective)
    with pytest.raises(ValueError, match=message):
        loss(replace(whole, **{lacking: None}), objective)
