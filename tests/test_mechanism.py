"""The mechanism of docs/mechanism.md: identities by hand and by enumeration, limits, tiny runs by value."""

import itertools
import json
import math
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from stapo_bench.errors import StapoError
from stapo_train.experiments.mechanism import __main__ as command
from stapo_train.experiments.mechanism import figure, maps, page, study
from stapo_train.experiments.mechanism.identities import (
    adam_spike,
    drift,
    effect_of_step,
    entropy_of,
    surprise_moment,
    token_effect,
)
from stapo_train.experiments.mechanism.policy import Setting, draw, make_world, sample, train
from stapo_train.experiments.mechanism.predictions import predictions

PI = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
SMALL = Setting(contexts=4, vocabulary=60, iterations=3, prompts=4, length=8, mini_batches=2, lr=10.0)


def moved_entropy(token, step, pi=PI):
    logits = pi.log() - step * pi
    logits[token] += step
    return float(entropy_of(logits.log_softmax(-1)))


def test_three_tokens_by_hand():
    # H = 3/2 ln 2. ln pi + H is +1/2 ln 2 for the first token and -1/2 ln 2 for the others.
    # M_2 = (1/4 - 1/16 - 1/16) ln 2 / 2 = 1/16 ln 2; effects: M_2 - 1/4 ln 2 = -3/16 ln 2, M_2 + 1/8 ln 2 = 3/16 ln 2.
    assert float(entropy_of(PI.log())) == pytest.approx(1.5 * math.log(2))
    assert float(surprise_moment(PI.log(), 1)) == pytest.approx(0, abs=1e-15)
    assert float(surprise_moment(PI.log(), 2)) == pytest.approx(math.log(2) / 16)
    ln2 = math.log(2) * 3 / 16
    assert token_effect(PI.log()).tolist() == pytest.approx([-ln2, ln2, ln2])
    # S = 3/8, Q = 5/32, M_3 = (1/8 - 2/64) ln 2 / 2 = 3/64 ln 2: -1/2 (13/64 + (7/4 - 9/4) ln 2 / 16 + ...)
    # = -1/2 (3/8 - 5/16 + 9/64 + 7/64 ln 2 - 9/64 ln 2) = -1/2 (13 - 2 ln 2) / 64
    assert float(drift(PI.log())) == pytest.approx(-(13 - 2 * math.log(2)) / 128)


@pytest.mark.parametrize("step", [0.01, 0.5])
def test_the_effect_of_a_step_is_that_of_each_token_alone(step):
    before = float(entropy_of(PI.log()))
    expected = [(moved_entropy(token, step) - before) / step for token in range(3)]
    assert effect_of_step(PI.log(), step).tolist() == pytest.approx(expected, rel=1e-9)


def test_the_page_measures_the_tokens_whose_first_order_it_gives():
    rows = [line.split("|") for line in page._tokens() if line.startswith("| 0.")]
    assert len(rows) == 4
    for row in rows:
        first_order, measured = float(row[5]), float(row[6])
        assert measured == pytest.approx(first_order, rel=0.006)  # a step of 0.01 has little of a second order


@pytest.mark.parametrize("pi", [[0.5, 0.25, 0.25], [0.96, 0.03, 0.01], [0.1, 0.3, 0.6]])
def test_effect_and_drift_are_what_small_steps_do(pi):
    pi = torch.tensor(pi, dtype=torch.float64)
    start, step = float(entropy_of(pi.log())), 1e-4
    second = 0.0
    for token in range(3):
        up, down = moved_entropy(token, step, pi), moved_entropy(token, -step, pi)
        assert (up - down) / (2 * step) == pytest.approx(float(token_effect(pi.log())[token]), abs=1e-7)
        second += float(pi[token]) * (up + down - 2 * start) / (2 * step**2)
    assert second == pytest.approx(float(drift(pi.log())), abs=1e-6)
    assert float((pi * token_effect(pi.log())).sum()) == pytest.approx(0, abs=1e-15)


def test_noise_lowers_entropy_of_undecided_contexts_and_raises_that_of_confident_ones():
    others, found = 10_000, []
    for p in (0.3, 0.5, 0.6, 0.9, 0.99):
        pi = torch.full((others + 1,), (1 - p) / others, dtype=torch.float64)
        pi[0] = p
        odds = math.log(p * others / (1 - p))
        found.append(float(drift(pi.log())))
        assert found[-1] == pytest.approx(0.5 * p**2 * (1 - p) ** 2 * ((2 * p - 1) * odds - 1), abs=1e-4)
        # what the page says S2T can take at most
        assert 0 < float(surprise_moment(pi.log(), 2)) <= float((pi**2).sum() * entropy_of(pi.log()))
    assert [value > 0 for value in found] == [False, False, True, True, True]


def test_adam_answers_a_lone_gradient_by_its_sign():
    parameters = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([parameters], lr=1.0, betas=(0.9, 0.99), eps=1e-30)
    for step in range(900):  # bias corrections are gone, but for 0.1 %, before the gradient comes
        parameters.grad = torch.tensor([1e-3, -2e-2] if step == 700 else [0.0, 0.0], dtype=torch.float64)
        optimizer.step()
    spike = adam_spike((0.9, 0.99))
    assert parameters.tolist() == pytest.approx([-spike, spike], rel=3e-3)
    assert adam_spike((0.0, 0.5)) == pytest.approx(2**0.5)  # g / sqrt(g^2 / 2)


def test_tokens_are_drawn_by_their_probability():
    generator = torch.Generator().manual_seed(3)
    pi = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]], dtype=torch.float64)
    context = torch.arange(20_000) % 2
    taken = sample(pi, context, generator)
    assert (taken[context == 1] == 2).all()
    shares = torch.bincount(taken[context == 0], minlength=3) / 10_000
    assert shares.tolist() == pytest.approx([0.7, 0.2, 0.1], abs=0.02)


def test_the_tail_has_its_mass_and_longer_successes_their_length():
    setting = replace(SMALL, longer=2.0, harmful=0.5, effect=50.0, tail=0.3)
    world = make_world(setting, torch.Generator().manual_seed(1))
    pi = world.start.exp()
    assert pi.sum(-1).tolist() == pytest.approx([1.0] * 4)
    # likely tokens stand in the shared tail too: their tail's part is counted with them
    assert ((pi * world.is_tail).sum(-1) <= 0.3).all() and ((pi * world.is_tail).sum(-1) > 0.15).all()
    found = draw(setting, world, world.start, torch.Generator().manual_seed(2))
    lengths = torch.bincount(found.rollout)
    assert set(lengths[found.rewards == 1].tolist()) == {8} and set(lengths[found.rewards == 0].tolist()) == {4}
    # An effect of 50 lets no rollout with a harmful token among those that are kept succeed.
    worth = torch.where(world.is_tail[found.context, found.taken], world.worth[found.taken], 0)
    spoiled = set(found.rollout[worth == -1].tolist())
    assert spoiled and not any(found.rewards[rollout] for rollout in spoiled)


def test_one_update_moves_entropy_by_the_sum_of_its_tokens_effects():
    """To first order, through the objective, the optimizer and the advantages of a run."""
    setting = replace(SMALL, iterations=1, mini_batches=1, lr=1e-3)
    records = train(setting, 5)
    generator = torch.Generator().manual_seed(5)
    world = make_world(setting, generator)
    rollouts = draw(setting, world, world.start.log_softmax(-1), generator)
    groups = rollouts.rewards.view(-1, setting.group)
    deviation = groups.std(1, keepdim=True)
    advantages = ((groups - groups.mean(1, keepdim=True)) / (deviation + 1e-6)).flatten()
    weights = advantages[rollouts.rollout] / len(rollouts.taken)
    effects = token_effect(world.start.log_softmax(-1))[rollouts.context, rollouts.taken]
    expected = setting.lr * float((weights * effects).sum()) / setting.contexts
    assert records[1]["entropy"] - records[0]["entropy"] == pytest.approx(expected, rel=1e-2)


def test_a_tiny_run_by_value_and_by_seed():
    run = train(SMALL, 1)
    assert run == train(SMALL, 1) and run != train(SMALL, 2) and len(run) == 4
    assert run[-1]["entropy"] == pytest.approx(0.9787010897915618, rel=1e-6)
    silenced = train(replace(SMALL, objective="stapo", tail=0.2, vocabulary=2000), 1)
    assert all(record["masked"] > 0 for record in silenced[1:])


def test_a_flatter_sampler_and_longer_successes_make_entropy_grow_and_s2t_takes_from_it():
    setting = replace(
        SMALL, contexts=8, vocabulary=400, iterations=10, prompts=8, lr=30.0, temperature=1.25, longer=2.0
    )
    ends = [train(replace(setting, objective=name), 1) for name in ("justrl", "stapo")]
    ratios = [run[-1]["entropy"] / run[0]["entropy"] for run in ends]
    assert ratios[0] > 1.5 and ratios[1] < ratios[0]
    shorter = train(replace(setting, longer=0.5), 1)
    assert shorter[-1]["entropy"] < shorter[0]["entropy"]


def test_spill_moves_a_token_in_contexts_where_it_was_not_drawn():
    base = replace(SMALL, contexts=2, iterations=1, mini_batches=1, lr=1.0)
    apart, together = (train(replace(base, spill=spill), 3)[-1] for spill in (0.0, 1.0))
    assert apart["entropy"] != pytest.approx(together["entropy"], abs=1e-9)


def test_predictions_are_those_that_were_committed_and_every_case_has_its_runs():
    folder = Path(__file__).resolve().parent.parent / "results" / "experiments" / "mechanism"
    assert (folder / "predictions.md").read_text(encoding="utf-8") == predictions()
    assert {name for case in study.CASES for name in case.runs} <= set(study.SETTINGS)
    assert {name for case in maps.MAP_CASES for name in case.runs} <= set(maps.CELLS)
    codes = [case.code for case in (*study.CASES, *maps.MAP_CASES)]
    assert len(set(codes)) == len(codes) and set(codes) >= maps.SEEN
    assert not set(study.SETTINGS) & set(maps.CELLS)


def ended(**ends):
    first = dict.fromkeys(("entropy", "drift", "tail", "useful", "harmful"), 1.0)
    last = {**first, **ends, "reward": 0.5, "masked": 0.0, "clipped_high": 0.0, "clipped_low": 0.0}
    return [first, last]


def test_outcomes_by_the_interval():
    case = next(case for case in study.CASES if case.code == "T1")
    (name,) = case.runs
    for ends, outcome in (
        ((2.0, 2.1, 2.2, 2.1, 2.0), "as predicted"),
        ((0.5, 0.6, 0.5, 0.4, 0.5), "**refuted**"),
        ((0.5, 2.0, 0.5, 2.0, 1.0), "not told from 0"),
    ):
        runs = {(name, 101 + number): ended(entropy=end) for number, end in enumerate(ends)}
        found, said = study.judge(case, runs)
        assert said == outcome
        assert found.value == pytest.approx(sum(map(math.log, ends)) / 5)
        # The same numbers where less was predicted, and where no difference was.
        fewer = {"as predicted": "**refuted**", "**refuted**": "as predicted"}.get(outcome, outcome)
        assert study.judge(replace(case, sign=-1), runs)[1] == fewer
        none = "not told from 0, as predicted" if outcome == "not told from 0" else "**refuted**"
        assert study.judge(replace(case, sign=0), runs)[1] == none
    assert study.judge(case, {(name, 101): ended(entropy=2.0)})[1] == "not run"
    assert study.of_seeds({("a", 2): 1, ("b", 2): 2, ("a", 1): 3, ("b", 3): 4}, ["a", "b"]) == [[1, 2]]
    pair = study.growth("tail")([ended(tail=2.0), ended(tail=6.0)])
    assert pair == pytest.approx(math.log(3))


@pytest.mark.slow(reason="six trainings, and twice a page with its figures")
def test_the_command_goes_on_where_it_was_and_writes_the_page(tmp_path, monkeypatch):
    tiny = {name: replace(setting, **vars_of_small()) for name, setting in itertools.islice(study.SETTINGS.items(), 3)}
    monkeypatch.setattr(command, "PLAN", [((101, 102), tiny)])
    monkeypatch.setattr(figure, "MAPS", maps.MAPS[:1])
    arguments = ["--out", str(tmp_path / "out"), "--results", str(tmp_path / "page")]
    first = CliRunner().invoke(command.main, [*arguments, "--seeds", "1"], catch_exceptions=False)
    assert first.output.count("seed 101") == 3 and "Partial: 0 of 10" in (tmp_path / "page" / "page.md").read_text()
    second = CliRunner().invoke(command.main, [*arguments, "--seeds", "2"], catch_exceptions=False)
    assert "seed 101" not in second.output and second.output.count("seed 102") == 3
    text = (tmp_path / "page" / "page.md").read_text()
    assert "| T1 | " in text and "not run" in text and (tmp_path / "page" / "maps.svg").is_file()
    assert "| L1 | " in text and (tmp_path / "page" / "phases.svg").is_file()
    with tarfile.open(tmp_path / "page" / "trainings.tar.gz") as archive:
        kept = archive.extractfile("runs.jsonl").read()
    assert kept == (tmp_path / "out" / "runs.jsonl").read_bytes() and len(kept.splitlines()) == 6
    assert json.loads((tmp_path / "page" / "summary.json").read_text())["seeds"]["finished"] == []
    monkeypatch.setattr(command, "PLAN", [((101,), {name: replace(each, lr=2.0) for name, each in tiny.items()})])
    with pytest.raises(StapoError, match=r"line 1: expected the settings of 'noise top 0.4', got others"):
        command.read_runs(tmp_path / "out" / "runs.jsonl")


def vars_of_small():
    return {"contexts": 2, "vocabulary": 40, "iterations": 2, "mini_batches": 1, "prompts": 2, "length": 4}


def test_the_page_tells_how_far_noise_alone_moves_entropy():
    name = next(name for name in study.SETTINGS if name.startswith("noise"))
    ends = {1: (1.0, 1.5), 2: (2.0, 2.7)}  # + 0.5 and + 0.7: 0.6 +- 12.706 * 0.1, Student's with one degree
    runs = {(name, seed): [{"entropy": end, "drift": 0.0} for end in (a, 9.0, b)] for seed, (a, b) in ends.items()}
    (row,) = [line for line in page._noise(runs) if line.startswith("| 0.")]
    assert row.split("|")[2].strip() == "+0.600 [-0.671, +1.871]"


def test_the_noise_that_the_page_expects():
    # eta^2 E[A^2] / (N C): 4 * (7/8)(1 - 2/256) / (4*8*8 * 4)
    setting = replace(SMALL, lr=2.0)
    assert page.expected_noise(setting) == pytest.approx(4 * 7 / 8 * (1 - 2 / 256) / (256 * 4))


def test_the_maps_have_their_axes():
    cell = maps.CELLS["map L, GRPO: learning rate 300, updates per iteration 4"]
    assert (cell.objective, cell.lr, cell.mini_batches, cell.iterations) == ("grpo", 300, 4, 40)
    cell = maps.CELLS["map K, STAPO: upper clip 1.2, lower clip 0.4"]
    assert (cell.objective, dict(cell.constants)) == ("stapo", {"clip_high": 1.2, "clip_low": 0.4})
    cell = maps.CELLS["map R, JustRL: spurious share of the tail 0.67, tail mass 0.08"]
    assert (round(cell.useful, 2), cell.tail, cell.harmful) == (0.33, 0.08, 0)
    cell = maps.CELLS["map G, STAPO, Adam: success rate 0.9, group size 2"]
    assert (cell.success, cell.group, cell.prompts, cell.optimizer) == (0.9, 2, 64, "adam")
    assert len(maps.CELLS) == 27 + 36 + 36 + 27
    # What an axis does not name stays: the number of updates in L, that of rollouts in G.
    assert {c.mini_batches * c.iterations for name, c in maps.CELLS.items() if name.startswith("map L")} == {160}
    assert {c.prompts * c.group for name, c in maps.CELLS.items() if name.startswith("map G")} == {128}


def test_with_one_update_per_iteration_grpo_and_justrl_are_one_method():
    far = replace(SMALL, lr=200.0, spill=0.5)
    for updates, same in ((1, True), (4, False)):
        grpo, justrl = (train(replace(far, objective=o, mini_batches=updates), 1) for o in ("grpo", "justrl"))
        assert (grpo[-1]["entropy"] == pytest.approx(justrl[-1]["entropy"], rel=1e-9)) is same
        assert (sum(record["clipped_high"] for record in grpo[1:]) == 0) is same


def test_a_claim_about_cells_is_the_difference_of_their_means():
    case = next(case for case in maps.MAP_CASES if case.code == "G1")
    low, high = case.runs
    assert "group size 2" in low and "group size 16" in high
    assert case.number([ended(tail=2.0), ended(tail=6.0)]) == pytest.approx(math.log(3))
    case = next(case for case in maps.MAP_CASES if case.code == "L3")
    assert case.number([ended(entropy=2.0), ended(entropy=8.0)]) == pytest.approx(math.log(4))
    # K3: 1.1 * 0.8, 1.1 * 0.6, 1.28 * 0.6 and 1.6 * 0.6 are below 0.97; 1.1 * 0.9 and 1.28 * 0.8 lie at the boundary
    case = next(case for case in maps.MAP_CASES if case.code == "K3")
    assert [name.partition(": ")[2] for name in case.runs] == [
        f"upper clip {high}, lower clip {low}" for high, low in ((0.1, 0.2), (0.1, 0.4), (0.28, 0.4), (0.6, 0.4))
    ]


def signs(group, success):
    """Positive over negative advantages among the rollouts of groups that have both outcomes, by enumeration."""
    found = {True: 0.0, False: 0.0}
    for wins in range(1, group):
        chance = math.comb(group, wins) * success**wins * (1 - success) ** (group - wins)
        found[True] += wins * chance
        found[False] += (group - wins) * chance
    return found[True] / found[False]


@pytest.mark.parametrize(("group", "success"), [(2, 0.1), (2, 0.9), (4, 0.9), (16, 0.9), (16, 0.1), (8, 0.5)])
def test_signs_in_groups_as_the_predictions_have_them(group, success):
    fail = 1 - success
    said = success * (1 - success ** (group - 1)) / (fail * (1 - fail ** (group - 1)))
    assert signs(group, success) == pytest.approx(said)
    known = {(2, 0.9): 1.0, (4, 0.9): 2.4, (16, 0.9): 7.1}
    assert said == pytest.approx(known.get((group, success), said), abs=0.05)


def test_the_line_parts_what_grows_from_what_falls():
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    runs = {("a", 1): ended(entropy=2.0), ("b", 1): ended(entropy=0.5), ("c", 1): ended(entropy=0.25)}
    figure._heat(axis, runs, [["a", "b"], ["absent", "c"]], "entropy", 2.0)
    assert [text.get_text() for text in axis.texts] == ["2.00", "0.50", "–", "0.25"]
    assert [line.get_xydata().tolist() for line in axis.lines] == [[[0.5, -0.5], [0.5, 0.5]]]


def test_lines_part_rows_too_and_cells_far_from_1_are_written_in_white():
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    ends = {"a": 2.0, "b": 0.5, "c": 0.25, "d": 0.25}
    runs = {(name, seed): ended(entropy=end) for name, end in ends.items() for seed in (1, 2)}
    image = figure._heat(axis, runs, [["a"], ["b"], ["c"], ["d"]], "entropy", 2.0)
    assert [line.get_xydata().tolist() for line in axis.lines] == [[[-0.5, 0.5], [0.5, 0.5]]]
    assert [(text.get_position(), text.get_text()) for text in axis.texts] == [
        ((0, 0), "2.00"), ((0, 1), "0.50"), ((0, 2), "0.25"), ((0, 3), "0.25"),
    ]  # fmt: skip
    assert [text.get_color() for text in axis.texts] == ["black", "black", "white", "white"]  # |ln| 0.69 and 1.39
    assert image.get_clim() == (-2.0, 2.0) and axis.get_ylim() == (-0.5, 3.5)  # the first row below
    assert image.get_array().flatten().tolist() == pytest.approx([math.log(end) for end in ends.values()])
    # The geometric mean over seeds: of 2 and 8 it is 4.
    assert figure._end({("a", 1): ended(tail=2.0), ("a", 2): ended(tail=8.0)}, "a", "tail") == pytest.approx(4.0)
    assert math.isnan(figure._end({}, "a", "tail"))


def test_a_run_in_a_row_by_hand():
    def run(entropies, shares):
        plain = {"tail": 0.5, "useful": 0.5, "harmful": 0.0, "clipped_high": 0.0, "clipped_low": 0.25}
        return [{**plain, "entropy": e, "masked": m} for e, m in zip(entropies, shares, strict=True)]

    # Entropy ends at 2 and 1 times its start; masked 0.02 and 0.04 of the tokens after the start, whose 0.5 is no step.
    runs = {
        ("justrl useful", 1): run((1.0, 5.0, 2.0), (0.5, 0.01, 0.03)),
        ("justrl useful", 2): run((2.0, 5.0, 2.0), (0.5, 0.04, 0.04)),
    }
    assert list(page._runs(runs))[6:] == ["| JustRL useful | 2 | 1.50 | 1.00 | 1.00 | – | 3.00 | 0.00 | 25.00 |"]
    assert page._label("noise top 0.4") == "noise top 0.4"


def test_the_verdict_names_what_came_out_as_predicted():
    cases = {case.code: case for case in study.CASES}

    def verdict(*held):
        told = {True: "as predicted", False: "not told from 0"}
        return page._verdict([(case, None, told[code in held]) for code, case in cases.items()])

    assert verdict() == (
        "Entropy grows where one of these holds: none that was tried. S2T takes some or all of that growth in 0 of 5 "
        "such cases."
    )
    assert verdict("U1", "C4", "M2", "U2") == (
        "Entropy grows where one of these holds: rare tokens help; the upper clip is wide. S2T takes some or all of "
        "that growth in 2 of 5 such cases."
    )
    lowers = verdict("S1", "S3", "U2", "U3")
    assert lowers.endswith(
        "in 2 of 5 such cases. It lowers entropy as well where nothing makes it grow. What helps is silenced with the "
        "rest."
    )
