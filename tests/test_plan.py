"""Plans: variance components by hand and by simulation, and predictions that come true on held-out halves."""

import json
import math
import re
import warnings
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from stapo_bench.analysis.plan import Components, components, need, plan_runs, redraw
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import render_plan
from stapo_bench.statistics.intervals import ERROR_NAMES
from stapo_bench.statistics.paired import paired_difference


def sample_matrix(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float)


def test_components_by_hand():
    a = np.array([[1, 1, 0, 0], [0, 0, 0, 0]], dtype=float)
    b = np.array([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=float)
    found = components(a, b)
    # s^2: A 1/4 * 4/3 = 1/3 and 0, B 0 and 3/16 * 4/3 = 1/4; mean over problems of the sums
    assert found.within == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert found.noise == pytest.approx(found.within / 4)
    # differences 1/2 and 1/4: variance 1/32, less the noise in it; negative, so none
    assert found.between == 0.0
    assert found.num_problems == 2


def test_components_are_unbiased():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        p = rng.uniform(0.2, 0.6, 200)
        q = p + rng.choice([0.0, 0.3], 200)  # true differences: variance 0.0225
        found.append(components(sample_matrix(rng, p, 8), sample_matrix(rng, q, 8)))
    # E p (1 - p) = 0.4 - (0.16 + 0.4^2 / 12) = 0.22667; E q (1 - q) = mean over both shifts
    shifted = 0.7 - (0.49 + 0.4**2 / 12)
    assert np.mean([c.within for c in found]) == pytest.approx(0.2266667 + (0.2266667 + shifted) / 2, rel=0.01)
    assert np.mean([c.between for c in found]) == pytest.approx(0.0225, rel=0.05)


def test_equal_seeds_need_fewer_samples():
    rng = np.random.default_rng(5)
    numbers, rates = rng.random((40, 16)), rng.uniform(0.2, 0.6, 40)
    a, b = ((numbers < r[:, None]).astype(float) for r in (rates, rates + 0.05))
    coupled, independent = components(a, b, same_seeds=True), components(a, b)
    # a sample differs with chance 0.05: variance 0.05 * 0.95; taken for independent, p (1 - p) twice
    assert coupled.within == pytest.approx(0.0475, abs=0.015)
    assert independent.within > 0.4
    assert (
        need(coupled, "these problems", 0.02, 0.8).num_samples
        < need(independent, "these problems", 0.02, 0.8).num_samples / 5
    )


def test_problems_sampled_once_show_no_variance():
    once = np.array([[1.0, np.nan], [0.0, np.nan], [1.0, 0.0]])
    assert components(once, once) is None


@pytest.mark.parametrize(("num_problems", "num_samples"), [(30, 32), (200, 8)])
def test_predicted_and_realised_errors_agree_on_held_out_halves(num_problems, num_samples):
    rng = np.random.default_rng(1)
    ratios = {error: [] for error in ERROR_NAMES}
    for _ in range(150):
        logits = rng.normal(-0.5, 1.5, num_problems)
        rates = [1 / (1 + np.exp(-(logits + shift))) for shift in (0.0, rng.normal(0.4, 0.6, num_problems))]
        a, b = (sample_matrix(rng, r, num_samples) for r in rates)
        half = num_samples // 2
        predicted = components(a[:, :half], b[:, :half])
        for error in ERROR_NAMES:
            realised = paired_difference(a[:, half:], b[:, half:], error).standard_error
            ratios[error].append(predicted.standard_error(error, half) / realised)
    for error in ERROR_NAMES:
        assert 0.9 < np.mean(ratios[error]) < 1.1


@pytest.mark.slow(reason="errors by simulation, 3,000 pairs of runs")
def test_predicted_errors_are_those_with_which_held_out_halves_vary():
    """Realised: the spread of the difference itself over repetitions, not another estimate of it."""
    rng = np.random.default_rng(6)
    easier = rng.normal(-0.5, 1.5, 30)
    gains = rng.normal(0.4, 0.6, 30)
    for error in ERROR_NAMES:
        predicted, values = [], []
        for _ in range(1500):
            if error == "problems like these":
                easier, gains = rng.normal(-0.5, 1.5, 30), rng.normal(0.4, 0.6, 30)
            rates = [1 / (1 + np.exp(-logits)) for logits in (easier, easier + gains)]
            a, b = (sample_matrix(rng, r, 16) for r in rates)
            predicted.append(components(a[:, :8], b[:, :8]).standard_error(error, 8) ** 2)
            values.append(paired_difference(a[:, 8:], b[:, 8:], error).value)
        assert np.sqrt(np.mean(predicted)) / np.std(values) == pytest.approx(1.0, abs=0.1)


def test_the_number_of_samples_gives_the_promised_power():
    """Draw with the N that the plan names: the difference is found in 80 % of the repetitions."""
    rng = np.random.default_rng(2)
    rates = rng.uniform(0.2, 0.7, 60)
    better = rates + 0.05
    pilot = components(sample_matrix(rng, rates, 64), sample_matrix(rng, better, 64))
    wanted = need(pilot, "these problems", detect=0.05, power=0.80).num_samples
    found = [
        paired_difference(
            sample_matrix(rng, rates, wanted), sample_matrix(rng, better, wanted), "these problems"
        ).p_value
        < 0.05
        for _ in range(600)
    ]
    assert np.mean(found) == pytest.approx(0.80, abs=0.05)


def test_needs_by_hand():
    found = Components(within=0.4, noise=0.4 / 32, between=0.02, num_problems=30)  # 32 samples of each
    # (0.05 / 2.8016)^2 = 3.1853e-4; these: 0.4 / (30 * 3.1853e-4) = 41.86
    assert need(found, "these problems", 0.05, 0.8).num_samples == 42
    # problems like these: tau^2 / n = 6.7e-4 alone is above it: no N; problems: (0.02 + 0.4 / 32) / 3.1853e-4 = 102.03
    like = need(found, "problems like these", 0.05, 0.8)
    assert (like.num_samples, like.num_problems) == (None, 103)
    # power now: se = sqrt(0.4 / 960) = 0.020412; Phi(0.05 / 0.020412 - 1.96) = Phi(0.4895)
    assert need(found, "these problems", 0.05, 0.8).power == pytest.approx(0.6877, abs=1e-3)


def test_a_plan_for_two_runs_with_its_cost(make_run):
    rng = np.random.default_rng(3)
    rates = rng.uniform(0.2, 0.8, 20)
    rows = [sample_matrix(rng, rates, 4).tolist() for _ in range(2)]
    fields = {"num_tokens": 50, "seconds": 2.0}
    a, b = (make_run(n, {"t": r}, sample=lambda *_: fields) for n, r in zip("ab", rows, strict=True))
    plan = plan_runs(a, b, detect=0.05)
    (task,) = plan.tasks
    assert (task.tokens_per_sample, task.seconds_per_sample) == (50, 2.0)
    further = 2 * 20 * (task.these_problems.num_samples - 4)
    assert task.these_problems.num_samples > 40
    text = render_plan(plan)
    wanted = task.problems_like_these.num_samples or task.these_problems.num_samples
    assert f"| {2 * 20 * (wanted - 4) * 50:,} | {2 * 20 * (wanted - 4) * 2.0 / 3600:.2f} |" in text
    assert further > 0
    assert json.loads(render_plan(plan, "json"))["detect"] == 0.05
    like, these = task.problems_like_these.num_samples, task.these_problems.num_samples
    assert like is not None
    assert f"{like} samples per problem for problems like these, {these} for these problems" in text


def test_a_plan_counts_the_samples_that_were_drawn_and_not_those_asked_for(make_run):
    rows = [[1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 1, 0]] * 10
    fields = {"num_tokens": 50, "seconds": 2.0}
    a, b, part = (
        make_run(name, {"t": of}, num_samples=32, identity={"seed": i}, sample=lambda *_: fields)
        for i, (name, of) in enumerate({"a": rows, "b": rows, "part": [row[:2] for row in rows]}.items())
    )
    plan = plan_runs(a, b, detect=0.05)
    asked_for_four = [make_run(f"{r.name}4", {"t": rows}, identity={"seed": i}) for i, r in enumerate((a, b))]
    assert plan.tasks[0].these_problems == plan_runs(*asked_for_four, detect=0.05).tasks[0].these_problems
    assert plan.notes == tuple(f"T: {run} has 120 of 960 samples; the rest is not drawn" for run in "ab")
    assert "| T | 30 × 4 | " in render_plan(plan)
    # each run is charged for what it lacks itself
    plan = plan_runs(a, part, detect=0.05)
    (task,) = plan.tasks
    wanted = task.problems_like_these.num_samples or task.these_problems.num_samples
    assert task.num_samples == (4, 2)
    assert "| T | 30 × 4 / 2 | " in render_plan(plan)
    assert f"| {30 * (wanted - 4 + wanted - 2) * 50:,} |" in render_plan(plan)


def test_samples_now_are_those_that_give_the_same_noise(make_run):
    nan = math.nan
    # 2 and 6 decided samples, in turn: 1 / N = (1/2 + 1/6) / 2, so N = 3
    rows = [[1, 0, nan, nan, nan, nan], [1, 0, 1, 0, 1, 0]] * 5
    a, b = (make_run(n, {"t": rows}, identity={"seed": i}) for i, n in enumerate("ab"))
    (task,) = plan_runs(a, b, detect=0.05).tasks
    assert task.num_samples == pytest.approx((3, 3))
    assert "| T | 10 × 3 | " in render_plan(plan_runs(a, b, detect=0.05))


def test_power_now_of_equal_seeds_and_few_samples_is_that_of_the_samples_there_are():
    """Wholly coupled runs differ only by the samples that one of them lacks: that noise is there, though w is none."""
    whole = np.array([[1.0, 0.0] * 4] * 10)
    part = np.where(np.arange(8) < 2, whole, np.nan)
    found = components(whole, part, same_seeds=True)
    # s^2 = 2/7 of 8, 1/2 of 2, covariance 1/2 of 2 in common: 2/7 + 1/2 - 1 < 0; 2/7 / 8 + 1/2 / 2 - 2 * 2 * 1/2 / 16
    assert found.within == 0.0
    assert found.noise == pytest.approx(2 / 56 + 1 / 4 - 1 / 8)
    # z = 0.1 / sqrt(0.16071 / 10) - 1.96 = -1.1712
    assert need(found, "these problems", 0.1, 0.8).power == pytest.approx(0.1208, abs=1e-3)


def test_when_no_number_of_samples_is_enough_it_says_so(make_run):
    # true differences of -1 and +1 in turn: only more problems can help
    a = make_run("a", {"t": [[1] * 4, [0] * 4] * 5})
    b = make_run("b", {"t": [[0] * 4, [1] * 4] * 5})
    plan = plan_runs(a, b, detect=0.02)
    assert plan.tasks[0].problems_like_these.num_samples is None
    assert plan.tasks[0].more_problems_help_more
    assert "no number of samples is enough on T; more problems are needed" in render_plan(plan)
    assert "not measured" in render_plan(plan)


def test_bad_questions_are_refused(make_run):
    a, b = make_run("a", {"t": [[1], [0]]}), make_run("b", {"t": [[1], [0]]})
    with pytest.raises(UsageError, match=r"0\.02 is two points"):
        plan_runs(a, b, detect=2)
    with pytest.raises(StapoError, match=r"two common problems and two samples each.*plan --problems N"):
        plan_runs(a, b, detect=0.02)


def test_prediction_for_other_sizes():
    found = Components(within=0.4, noise=0.4 / 32, between=0.02, num_problems=30)
    assert found.standard_error("problems like these", 10, 60) == pytest.approx(math.sqrt(0.02 / 60 + 0.4 / 600))


def test_a_plan_from_a_run_that_stopped_itself_says_that_it_is_rough(make_run):
    rows = {"t": [[1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 1, 0]]}
    a = make_run("a", rows, about={"stopping": {"rule": "--until-width 0.1", "aim": 0.05}})
    b = make_run("b", rows, identity={"seed": 1})
    assert "- a stopped under --until-width 0.1: its scores decided how many samples" in render_plan(
        plan_runs(a, b, detect=0.05)
    )
    assert plan_runs(b, b, detect=0.05).notes == ()


@pytest.mark.parametrize("detect", [0.0, 1.0, 1.5])
def test_a_difference_to_be_found_lies_between_none_and_all(make_run, detect):
    run = make_run("a", {"t": [[1, 0]] * 3})
    with pytest.raises(UsageError, match="expected a fraction between 0 and 1"):
        plan_runs(run, run, detect=detect)


def test_the_sentence_says_where_more_problems_help_more(make_run):
    # Differences of 0 and 1/2 in turn, and of 0 alone: only the first vary from problem to problem.
    a = make_run("a", {"t": [[1, 0] * 8, [1, 0] * 8] * 20})
    varied = make_run("varied", {"t": [[1, 0] * 8, [1, 1] * 8] * 20}, identity={"seed": 1})
    equal = make_run("equal", {"t": [[1, 0] * 8, [0, 1] * 8] * 20}, identity={"seed": 1})
    assert "; more problems would help more on T.**" in render_plan(plan_runs(a, varied, detect=0.2))
    first, *_ = render_plan(plan_runs(a, equal, detect=0.2)).splitlines()
    assert "more problems" not in first
    assert re.search(r", \d+ for these problems \(these runs leave open \d+ to \d+, and \d+ to \d+\)\.\*\*$", first)


@pytest.mark.slow(reason="sixty pairs of runs, written, read and planned from")
def test_a_plan_does_not_send_to_more_problems_and_deny_that_they_help(make_run):
    rng = np.random.default_rng(0)
    open_ = 0
    for number in range(60):
        rates = rng.uniform(0.2, 0.8, 6)
        a, b = (
            make_run(f"{name}{number}", {"t": sample_matrix(rng, rates, 4).tolist()}, identity={"seed": seed})
            for seed, name in enumerate("ab")
        )
        (task,) = plan_runs(a, b, detect=0.05).tasks
        if task.problems_like_these.num_samples is None:
            open_ += 1
            assert task.more_problems_help_more
    assert open_ > 10


def test_runs_without_a_seed_share_no_noise(make_run):
    """Neither run has a seed, so nothing pairs sample j of one with sample j of the other."""
    rows = {"t": [[1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 1, 0]] * 5}
    nowhere = {"seed": None, "imported": {"format": "rows"}}
    unknown = [make_run(name, rows, identity=nowhere) for name in "ab"]
    other = [make_run(name, rows, identity={"seed": seed}) for seed, name in enumerate("cd")]
    (one,), (two,) = (plan_runs(*runs, detect=0.05).tasks for runs in (unknown, other))
    assert one.these_problems == two.these_problems


def pilots(seed, num_pilots):
    """Pilots of two samples: 30 problems, logits normal(-0.5, 2), of which B gains 0.4 on the mean, sd 0.3."""
    rng = np.random.default_rng(seed)
    for _ in range(num_pilots):
        logits = rng.normal(-0.5, 2.0, 30)
        yield tuple(sample_matrix(rng, 1 / (1 + np.exp(-x)), 2) for x in (logits, logits + rng.normal(0.4, 0.3, 30)))


@pytest.mark.slow(reason="power by simulation, sixty pilots with their redraws")
def test_small_pilots_name_a_range_and_do_not_call_noise_hopeless():
    """True w = 0.299, tau^2 = 0.0035: N = 8.6 finds ten points. Taking the pilot for certain, 18 of 100 despair."""
    detect, like = 0.10, "problems like these"
    certain, powers, inside, hopeless = 0, [], 0, 0
    for a, b in pilots(1, 60):
        found = components(a, b)
        certain += need(found, like, detect, 0.8).num_samples is None
        wanted = need(found, like, detect, 0.8, redraw(a, b))
        hopeless += wanted.shown_hopeless
        inside += (wanted.fewest or math.inf) <= 9 <= (wanted.most or math.inf)
        if wanted.num_samples is not None:
            error = math.sqrt(0.0035 / 30 + 0.299 / 30 / wanted.num_samples)
            powers.append(NormalDist().cdf(detect / error - NormalDist().inv_cdf(0.975)))
    assert certain >= 6
    assert hopeless <= 1
    assert inside >= 48
    assert np.mean(powers) >= 0.80


def test_a_case_that_leaves_nothing_over_needs_no_division():
    """tau^2 / n is all that may be left, and w = 0: no number is enough, whatever the samples, and nothing warns."""
    left = (0.1 / (NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8))) ** 2
    none = Components(within=0.0, noise=0.0, between=16 * left, num_problems=16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = need(none, "problems like these", 0.1, 0.8, (none, replace(none, between=32 * left)))
    assert (found.fewest, found.num_samples) == (None, None)


def test_needs_average_over_what_the_runs_leave_open_by_hand():
    low, high = (Components(within=w, noise=w / 2, between=0.0, num_problems=30) for w in (0.1, 0.4))
    # (0.05 / 2.8016)^2 = 3.1853e-4; 0.1 / (30 * 3.1853e-4) = 10.46 and 0.4 / ... = 41.86
    found = need(low, "problems like these", 0.05, 0.8, (low, high))
    assert (found.fewest, found.most) == (11, 42)
    # mean power at N = 26: se = sqrt(0.1 / 780), sqrt(0.4 / 780): (Phi(2.456) + Phi(0.2480)) / 2 = 0.795; at 27: 0.804
    assert found.num_samples == 27
    none = Components(within=0.1, noise=0.05, between=0.02, num_problems=30)  # tau^2 / n = 6.7e-4: no N
    unsure = need(low, "problems like these", 0.05, 0.8, (low, none))
    assert (unsure.num_samples, unsure.fewest, unsure.most) == (None, 11, None)
    assert not unsure.shown_hopeless
    assert need(low, "problems like these", 0.05, 0.8, (none, none)).shown_hopeless


def test_a_plan_that_the_runs_leave_open_says_so(make_run):
    like = "problems like these"
    a, b = next(p for p in pilots(1, 60) if need(components(*p), like, 0.10, 0.8).num_samples is None)
    runs = [make_run(n, {"t": of.tolist()}, identity={"seed": i}) for i, (n, of) in enumerate({"a": a, "b": b}.items())]
    plan = plan_runs(*runs, detect=0.10)
    (task,) = plan.tasks
    assert task.problems_like_these.num_samples is None
    assert not task.problems_like_these.shown_hopeless
    first, *_ = render_plan(plan).splitlines()
    assert "these runs do not tell how many samples it takes on T (" in first
    assert ", perhaps no number is enough); a pilot with more samples would" in first
