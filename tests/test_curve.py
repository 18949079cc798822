"""Learning curves: bands that hold for all steps at once, and a best step without its luck."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from bench.pairs import AIME24, from_aime
from stapo_bench.analysis.curve import curve, curve_runs
from stapo_bench.errors import StapoError
from stapo_bench.presenting.curves import curve_sentence, render_curve
from stapo_bench.statistics import confidence_of, paired_difference
from stapo_bench.statistics.sequential import boundary


def logistic(x):
    return 1 / (1 + np.exp(-x))


def sample_matrix(rng, rates, num_samples):
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(float)


def simulated(rng, shifts, num_problems=40, num_samples=16, spread=0.0):
    """One task: checkpoints that are all ``shifts`` better in logits, with problem-wise luck of the training."""
    logits = rng.normal(0, 1.5, num_problems)
    return [
        sample_matrix(rng, logistic(logits + s + spread * rng.normal(size=num_problems)), num_samples) for s in shifts
    ]


def named(matrices):
    number = len(matrices[0])
    return curve(matrices, [f"s{i}" for i in range(number)], list(range(number)), ["t"] * len(matrices))


def test_values_gains_and_the_first_step_above():
    rng = np.random.default_rng(0)
    found = named([simulated(rng, [0, 0.1, 1.0, 1.5])])
    values = [m.mean() for m in simulated(np.random.default_rng(0), [0, 0.1, 1.0, 1.5])]
    assert [point.value for point in found.points] == pytest.approx(values)
    assert found.points[2].gain == pytest.approx(values[2] - values[0])
    assert found.first_above == 2
    assert found.best == 3
    assert curve_sentence(found).startswith("The first checkpoint clearly above s0 is s2 (+")


@pytest.mark.slow(reason="coverage by simulation")
def test_the_whole_curve_lies_in_the_bands_95_times_in_100():
    rng = np.random.default_rng(1)
    covered = alone = 0
    for _ in range(250):
        # exchangeable checkpoints: no true gain on problems like these
        logits = rng.normal(0, 1.5, 40)
        matrices = [[sample_matrix(rng, logistic(logits + rng.normal(0, 0.7, 40)), 8) for _ in range(9)]]
        found = named(matrices)
        covered += all(point.band.low <= 0 <= point.band.high for point in found.points[1:])
        half = [2.02 * (p.band.high - p.gain) / found.critical for p in found.points[1:]]  # t of one step alone
        alone += all(abs(p.gain) <= h for p, h in zip(found.points[1:], half, strict=True))
    assert 0.92 <= covered / 250 <= 0.98
    assert alone / 250 < 0.88  # bands of single steps would not do


def test_the_critical_value_of_one_step_is_students():
    rng = np.random.default_rng(2)
    found = named([simulated(rng, [0, 0.3], num_problems=30)])
    assert found.critical == pytest.approx(2.045, abs=0.1)  # t with 29 degrees; 4000 bootstraps
    more = named([simulated(np.random.default_rng(2), [0] + [0.3] * 9, num_problems=30)])
    assert more.critical > found.critical + 0.3


def test_the_best_step_is_corrected_for_having_been_picked():
    rng = np.random.default_rng(3)
    picked, corrected = [], []
    for _ in range(120):
        logits = np.linspace(-2, 2, 30)
        found = named([[sample_matrix(rng, logistic(logits), 8) for _ in range(10)]])
        picked.append(found.best_value)
        corrected.append(found.best_corrected)
    # all steps have the value 0.5; the highest of ten looks some 1.5 standard errors of 2.5 points better
    assert np.mean(picked) > 0.53
    assert np.mean(corrected) == pytest.approx(0.5, abs=0.006)


def test_no_gain_is_said():
    same = np.array([[1.0, 0.0]] * 10)
    found = named([[same, same, same]])
    assert found.first_above is None
    assert curve_sentence(found).startswith("No checkpoint is clearly above the first")
    assert found.points[1].band.high > 0.01


def checkpoints(make_run, *labels):
    """Runs of checkpoints given as (name, method, step) or (name, method, step, training)."""
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 1.5, 30)
    return [
        make_run(
            name,
            {"t": sample_matrix(rng, logistic(logits + 0.4 * place), 16).tolist()},
            about={"method": method, "step": step, **({"training": training[0]} if training else {})},
        )
        for place, (name, method, step, *training) in enumerate(labels)
    ]


def test_the_first_run_is_the_base_whatever_its_step_and_the_others_stand_by_step(make_run):
    base, late, early = checkpoints(make_run, ("base", "Base", 1400), ("late", "STAPO", 40), ("early", "STAPO", 20))
    found = curve_runs([base, late, early])
    assert [(point.name, point.step) for point in found.points] == [("base", None), ("early", 20), ("late", 40)]
    assert (found.points[0].gain, found.notes) == (0.0, ())
    text = render_curve(found)
    assert "| base | – | " in text  # it has none of this training
    assert json.loads(render_curve(found, "json"))["sentence"] == curve_sentence(found)


def test_the_first_run_is_never_replaced_as_the_base(make_run):
    base, final = checkpoints(make_run, ("base", "Base", 1400), ("final", "STAPO", 60))
    assert [point.name for point in curve_runs([base, final]).points] == ["base", "final"]
    assert [point.name for point in curve_runs([final, base]).points] == ["final", "base"]
    late, early = checkpoints(make_run, ("s40", "STAPO", 40), ("s20", "STAPO", 20))
    assert [point.name for point in curve_runs([early, late]).points] == ["s20", "s40"]
    found = curve_runs([late, early])  # as a shell sorts them
    assert ([point.name for point in found.points], found.points[0].gain) == (["s20", "s40"], 0.0)
    assert found.notes == ("s40, named first, is a later checkpoint of this training than s20",)


def test_two_models_are_not_one_training(make_run):
    """As imported with --model alone: nothing says that one was trained from the other."""
    runs = [make_run(model, {"t": [[1, 0]] * 4}, about={"model": model, "step": None}) for model in ("A", "B")]
    with pytest.raises(StapoError, match="got A of model A and B of model B, which states no training step"):
        curve_runs(runs)
    steps = [
        make_run(f"s{step}", {"t": [[1, 0]] * 4}, about={"model": "B", "method": "M", "step": step}) for step in (2, 1)
    ]
    assert [point.name for point in curve_runs([runs[0], *steps]).points] == ["A", "s1", "s2"]  # the base's may differ


@pytest.mark.parametrize("kind", ["methods", "seeds of one method"])
def test_checkpoints_of_two_trainings_are_refused(make_run, kind):
    labels = {
        "methods": [("justrl", "JustRL", 100), ("stapo", "STAPO", 100), ("stapo-50", "STAPO", 50)],
        "seeds of one method": [("justrl", "S", 100, "aa"), ("stapo", "S", 100, "bb"), ("stapo-50", "S", 50, "bb")],
    }
    base, *rest = checkpoints(make_run, ("base", "Base", 1400), *labels[kind])
    with pytest.raises(StapoError, match=r"those of 2, as of justrl \(1\) and stapo \(2\); draw a curve for each"):
        curve_runs([base, *rest])


def test_without_steps_the_order_is_the_one_given_and_is_said(make_run):
    runs = checkpoints(make_run, ("base", "Base", None), ("b", "b", None), ("a", "a", None))
    found = curve_runs(runs)
    assert [point.name for point in found.points] == ["base", "b", "a"]
    assert found.notes == ("b, a: no training step is stated, so the runs stand in the order given",)


def test_unequal_settings_are_refused(make_run):
    a = make_run("a", {"t": [[1, 0]] * 3})
    sampling = {"temperature": 0.7, "top_p": 1.0, "max_new_tokens": 64}
    b = make_run("b", {"t": [[1, 0]] * 3}, identity={"sampling": sampling})
    with pytest.raises(StapoError, match=r"differ besides the weights: sampling\.temperature"):
        curve_runs([a, b])
    with pytest.raises(StapoError, match="at least two runs"):
        curve_runs([a])


def test_checkpoints_with_one_sample_have_no_corrected_best():
    found = named([[np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])]])
    assert np.isnan(found.best_corrected)
    assert (
        "with 100.00; how much of that is the luck of the samples that it was picked by is not known."
        in curve_sentence(found)
    )


def test_a_checkpoint_that_stopped_itself_has_a_band_for_every_look(make_run):
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 1.5, 30)
    rows = [{"t": sample_matrix(rng, logistic(logits + s), 16).tolist()} for s in (0.0, 0.5, 0.5)]
    stopping = {"stopping": {"rule": "--until-width 0.02", "aim": 0.01}}

    def bands(label, stopped):
        runs = [
            make_run(f"{label}{i}", of, about=stopping if i == stopped else None, identity={"seed": i})
            for i, of in enumerate(rows)
        ]
        found = curve_runs(runs)
        return [point.band.width for point in found.points], render_curve(found)

    fixed, text = bands("fixed", None)
    assert "anytime-valid" not in text
    later, text = bands("later", 2)
    assert later[1] == pytest.approx(fixed[1])
    # the error of a step is that of ``compare``; the bound at its variance instead of 1.96 widens it
    gain = paired_difference(*(np.array(rows[i]["t"]) for i in (0, 2)), "problems like these")
    error = gain.standard_error
    widened = replace(gain, standard_error=error * boundary(error**2, 0.01) / 1.95996)
    confidence = confidence_of(named([[np.array(of["t"]) for of in rows]]).critical, 29)
    assert later[2] == pytest.approx(widened.interval(confidence).width, rel=1e-4)
    assert "- later2 stopped under --until-width 0.02: bands that involve it are widened" in text
    base, _ = bands("base", 0)  # every gain is over the first
    assert base[1] > 1.4 * fixed[1]
    assert base[2] == pytest.approx(later[2])


def test_samples_that_are_not_drawn_are_declared(make_run):
    a = make_run("a", {"t": [[1, 0], [1, 1], [0, 0]]})
    b = make_run("b", {"t": [[1, float("nan")], [1, 0], [0, 0]]})
    assert curve_runs([a, b]).notes == ("T: b has 5 of 6 samples; the rest is not drawn",)
    assert "\n- T: b has 5 of 6 samples" in render_curve(curve_runs([a, b]))
    assert curve_runs([a, a]).notes == ()


def test_a_band_is_never_narrower_than_the_noise_of_one_problem():
    # No difference on 10 problems of 2 and 4 samples: the sum of squares is taken for (1 / 4 + 1 / 16) / 2, the
    # variance of the mean gain for 5 / 32 / (10 * 9). A tenth problem may have changed: see ``statistics.difference``.
    twice, often = np.array([[1.0, 0.0]] * 10), np.array([[1.0, 0.0, 1.0, 0.0]] * 10)
    found = named([[twice, often]])
    assert found.points[1].gain == 0.0
    length = found.critical * (5 / 32 / 90) ** 0.5
    unseen = 1 - ((1 - confidence_of(found.critical, 9)) / 2) ** (1 / 10)
    assert found.points[1].band.high == pytest.approx(unseen / 2 + math.hypot(unseen / 2, length))


def test_bands_cover_gains_that_few_problems_have():
    """Ten steps up to a tenth of the problems newly solved, at AIME24's rates: each step adds to the ones before."""
    rng, covered = np.random.default_rng(6), 0
    for _ in range(120):
        base, place = from_aime(rng, 30), rng.random(30)
        rates = [np.where(place < 0.01 * step, 1.0, base) for step in range(11)]
        found = named([[sample_matrix(rng, of_step, 32) for of_step in rates]])
        gains = [0.01 * step * (1 - AIME24.mean()) for step in range(11)]
        covered += all(p.band.low <= gain <= p.band.high for p, gain in zip(found.points[1:], gains[1:], strict=True))
    assert covered / 120 >= 0.91  # 95 % and two standard errors; bands of t alone: 75 %


def test_the_critical_value_of_independent_steps_is_that_of_their_maximum():
    # Four problems; the gains of the two steps, +-1/2 in patterns that are orthogonal, are independent. The 95 %
    # quantile of the larger |t| of two with 3 degrees and one variance in common: 3.96; of one alone: 3.18.
    start = np.array([[1.0, 0.0]] * 4)
    one = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    other = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert named([[start, one, other]]).critical == pytest.approx(3.96, abs=0.25)


def test_the_corrected_best_by_hand():
    # Samples 0 and 2 pick the step, 1 and 3 score it, and the other way round. The second step has 1, 1 of the first
    # two and 0, 1 of the others: it is picked both times, with 1 and 1/2, and scores 1/2 and 1. The first has none.
    none, some = np.zeros((2, 4)), np.array([[1.0, 0.0, 1.0, 1.0]] * 2)
    found = named([[none, some]])
    assert found.best_value == 0.75
    assert found.best_corrected == 0.75
    # Now each is best on one half: the first has samples 1 and 3, the second 0 and 2. What is picked scores nothing.
    found = named([[np.array([[0.0, 1.0, 0.0, 1.0]] * 2), np.array([[1.0, 0.0, 1.0, 0.0]] * 2)]])
    assert (found.best_value, found.best_corrected) == (0.5, 0.0)
