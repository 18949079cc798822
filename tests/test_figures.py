"""Figures over iterations, from runs and from both: the values that are drawn."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from figure_setup import axes_of, band, drawn, drawn_line, trained, write_log

from stapo_bench.analysis import score_run
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.presenting.figures import Sources, available, render
from stapo_bench.presenting.figures.groups import by_setting
from stapo_bench.presenting.figures.registry import REGISTRY
from stapo_bench.presenting.figures.settings import entropy_stability, threshold
from stapo_bench.presenting.figures.sources import MissingDataError, TrainingLog
from stapo_bench.presenting.figures.style import METHODS
from stapo_bench.runs.loaded_run import load_run
from stapo_bench.statistics.intervals import normal_quantile, sampling_interval
from stapo_bench.statistics.paired import paired_difference
from stapo_train.inspect.stability import stability

# -- over iterations --------------------------------------------------------------------------------------------------


def test_a_line_per_method_in_the_order_of_tables(tmp_path):
    write_log(tmp_path / "a", [{"entropy": 0.4}, {"entropy": 0.3}, {"entropy": None}])
    write_log(tmp_path / "b", [{"entropy": 0.5}, {"entropy": 0.25}], name="grpo")
    (ax,) = axes_of("entropy", Sources(logs=[tmp_path]))
    lines = drawn(ax)
    assert list(lines) == ["GRPO", "STAPO"]
    assert lines["GRPO"] == ([1, 2], [0.5, 0.25])
    assert lines["STAPO"][0] == [1, 2, 3]
    assert lines["STAPO"][1] == pytest.approx([0.4, 0.3, np.nan], nan_ok=True)  # not measured: a gap, not a zero


def test_seeds_become_a_mean_with_a_band_from_least_to_greatest(tmp_path):
    for seed, rewards in enumerate([(0.1, 0.2, 0.9), (0.3, 0.6)]):
        write_log(tmp_path / f"s{seed}", [{"reward": r} for r in rewards], seed=seed)
    (ax,) = axes_of("reward", Sources(logs=[tmp_path]))
    assert drawn(ax)["STAPO"] == ([1, 2], pytest.approx([0.2, 0.4]))  # only where both seeds are
    corners = {tuple(np.round(corner, 9)) for corner in band(ax)}
    assert corners == {(1, 0.1), (2, 0.2), (1, 0.3), (2, 0.6)}
    assert [text.get_text() for text in ax.figure.legends[1].get_texts()] == ["band: min–max over seeds"]


def test_settings_that_differ_are_lines_of_their_own(tmp_path):
    write_log(tmp_path / "a")
    write_log(tmp_path / "b", tau_p=0.01)
    (ax,) = axes_of("length", Sources(logs=[tmp_path]))
    assert list(drawn(ax)) == ["STAPO", r"STAPO ($\tau_p$=0.01)"]
    assert len({line.get_color() for line in ax.get_lines()}) == 1
    assert len({line.get_marker() for line in ax.get_lines()}) == 2


def test_quantiles_have_a_panel_each(tmp_path):
    write_log(tmp_path / "a", [{"entropy_quantiles": {"0.5": 0.1, "0.99": 2.0}}] * 2)
    first, second = axes_of("entropy-quantiles", Sources(logs=[tmp_path]))
    assert (first.get_title(), second.get_title()) == ("50 % quantile", "99 % quantile")
    assert drawn(second)["STAPO"][1] == [2.0, 2.0]


def test_the_masked_ratio_is_logarithmic_without_zeros(tmp_path):
    write_log(tmp_path / "a", [{"masked_share": share} for share in (1e-3, 0.0, 1e-4)])
    write_log(tmp_path / "b", name="grpo")
    (ax,) = axes_of("masked", Sources(logs=[tmp_path]))
    assert ax.get_yscale() == "log"
    assert list(drawn(ax)) == ["STAPO"]
    assert drawn(ax)["STAPO"][1] == pytest.approx([1e-3, np.nan, 1e-4], nan_ok=True)


def test_the_entropy_of_candidates_is_of_those_that_have_any(tmp_path):
    write_log(tmp_path / "b", name="grpo")
    with pytest.raises(MissingDataError, match="expected the log of a training with candidates to silence"):
        axes_of("candidate-entropy", Sources(logs=[tmp_path]))
    earlier = write_log(tmp_path.with_name("earlier"), [{"num_candidates": 3}] * 2)
    with pytest.raises(MissingDataError, match="got logs of an earlier version, which only count them; train again"):
        axes_of("candidate-entropy", Sources(logs=[earlier]))
    write_log(tmp_path / "a", [{"candidate_entropy": nats} for nats in (0.5, None, 0.25)])
    (ax,) = axes_of("candidate-entropy", Sources(logs=[tmp_path]))
    assert list(drawn(ax)) == ["STAPO"]
    assert drawn(ax)["STAPO"][1] == pytest.approx([0.5, np.nan, 0.25], nan_ok=True)


# -- from runs --------------------------------------------------------------------------------------------------------


BASE = {"method": "Base", "step": 1400}


def test_accuracy_starts_at_the_base_model(make_run):
    runs = [
        trained(make_run, "s20", {"t": [[1, 1], [0, 0]]}, training="runs/a", step=20),
        trained(make_run, "s10", {"t": [[1, 0], [0, 0]]}, training="runs/a", step=10),
        make_run("base", {"t": [[0, 0], [0, 0]]}, about=BASE),
    ]
    (ax,) = axes_of("accuracy", Sources(runs=runs))
    assert drawn(ax) == {"STAPO": ([0, 10, 20], [0.0, 0.25, 0.5])}
    assert ax.figure.legends[1].get_texts()[0].get_text() == "band: 95 % interval, these problems"
    low, high = sampling_interval(np.array([[1.0, 1.0], [0.0, 0.0]]), normal_quantile(0.95)).__dict__.values()
    at_20 = sorted(y for x, y in np.unique(band(ax), axis=0) if x == 20)
    assert at_20 == pytest.approx([low, high])


def test_a_run_whose_step_is_not_known_is_no_base_model(make_run):
    runs = [make_run("a", {"t": [[1, 1]]}), trained(make_run, "b", {"t": [[1, 1]]}, training="runs/b", step=5)]
    assert "accuracy" not in available(Sources(runs=runs))
    runs[0] = make_run("c", {"t": [[1, 1]]}, about={"method": "Tiny", "model": None})  # what b says it was trained from
    assert "accuracy" in available(Sources(runs=runs))


def test_runs_of_other_graders_are_not_drawn_together(make_run):
    runs = [
        *(make_run(name, {"t": [[1, 1], [0, 1]]}, about={"method": name}) for name in ("GRPO", "JustRL")),
        make_run("STAPO", {"t": [[1, 1], [0, 1]]}, about={"method": "STAPO"}, grader="math-2"),
    ]
    (ax,) = axes_of("differences", Sources(runs=runs))
    assert ax.get_title() == "JustRL − GRPO\nT=1.0, top-p 1.0\n64 tokens; T @2; math-1"
    with pytest.raises(StapoError, match=r"decoding and grader, got 2 runs, graded by math-1 and math-2; 'stapo"):
        axes_of("differences", Sources(runs=runs[1:]))


def test_a_figure_has_one_grader_whatever_a_run_was_scored_with(make_run, tmp_path):
    a, b = (make_run(name, {"t": [[1, 1], [0, 1]]}, grader="math-1") for name in ("a", "b"))
    for run, verdict in ((a, "CORRECT"), (b, "INCORRECT")):
        lines = (run / "grades/math.jsonl").read_text().replace('"INCORRECT"', '"CORRECT"')
        (run / "grades/qwen.jsonl").write_text(lines.replace('"CORRECT"', f'"{verdict}"').replace("math-1", "qwen-1"))
    score_run(a, "qwen")

    def difference(**grader):
        (ax,) = axes_of("differences", Sources(runs=[a, b], **grader))
        return list(ax.get_lines()[-1].get_xdata())

    assert (difference(), difference(grader="qwen")) == ([0.0], [-1.0])
    plotted = CliRunner().invoke(cli, ["plot", "differences", str(a), str(b), "-o", str(tmp_path / "fig.svg")])
    assert (plotted.exit_code, (tmp_path / "fig.svg").is_file()) == (0, True), plotted.exception
    refused = CliRunner().invoke(cli, ["plot", "accuracy", str(a), "--grader", "strict", "-o", "fig.svg"])
    assert "expected grades by 'strict', found math, qwen" in str(refused.exception)


def test_checkpoints_of_different_trainings_are_not_joined_but_seeds_are(make_run, tmp_path):
    runs = [
        trained(make_run, f"{training}-{step}", {"t": [[value] * 2] * 2}, training=f"runs/{training}", step=step)
        for training, step, value in (("a", 10, 0), ("a", 20, 1), ("b", 10, 1), ("b", 20, 1))
    ]
    (ax,) = axes_of("accuracy", Sources(runs=runs))
    assert drawn(ax) == {"STAPO, a": ([10, 20], [0.0, 1.0]), "STAPO, b": ([10, 20], [1.0, 1.0])}
    twin = trained(make_run, "c", {"t": [[1, 1]] * 2}, training="other/b", step=10)
    (ax,) = axes_of("accuracy", Sources(runs=[*runs, twin, make_run("base", {"t": [[0, 0]] * 2}, about=BASE)]))
    assert list(drawn(ax)) == ["STAPO, a", "STAPO, runs/b", "STAPO, other/b"]
    logs = [write_log(tmp_path / "logs" / name, seed=i, out=f"runs/{name}") for i, name in enumerate("ab")]
    (ax,) = axes_of("accuracy", Sources(runs=runs, logs=logs))
    assert drawn(ax) == {"STAPO": ([10, 20], [0.5, 1.0])}
    assert {tuple(corner) for corner in band(ax)} == {(10, 0.0), (10, 1.0), (20, 1.0)}
    assert ax.figure.legends[1].get_texts()[0].get_text() == "band: min–max over training seeds"


def test_pass_at_k_is_the_unbiased_estimate_per_task_and_decoding(make_run):
    rows = [[1, 0, 0, 0], [1, 1, 0, 0]]
    cold = {"identity": {"sampling": {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64}}}
    runs = [make_run("a", {"t": rows, "u": rows}), make_run("b", {"t": rows, "u": rows}, **cold)]
    axes = axes_of("pass-at-k", Sources(runs=runs))
    titles = [ax.get_title() for ax in axes]
    assert titles == [f"{task}\n{words}" for words in ("T=1.0, top-p 1.0", "T=0.7, top-p 0.9") for task in "TU"]
    # 1 - C(3, 2) / C(4, 2) = 1/2 and 1 - C(2, 2) / C(4, 2) = 5/6
    assert drawn(axes[0])["a"] == ([1, 2, 4], pytest.approx([3 / 8, 2 / 3, 1.0]))


def test_the_budget_counts_longer_samples_as_wrong(make_run):
    run = make_run(
        "a",
        {"t": [[1, 1], [1, 0]]},
        identity={"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}},
        sample=lambda task, row, index: {"num_tokens": 100 if row == 0 and index == 1 else 10},
    )
    (ax,) = axes_of("budget", Sources(runs=[run]))
    assert drawn(ax)["a"] == ([64, 128], [0.5, 0.75])


IMPORTED = {"imported": {"format": "rows"}}
"""What a manifest says where another tool drew the samples."""


def without_lengths(make_run, name, rows, **sampling):
    """A run of samples that another tool drew, which does not say how long they are."""
    return make_run(
        name,
        {"t": rows},
        identity={"sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": None, **sampling}, **IMPORTED},
        sample=lambda task, row, index: {"num_tokens": None, "finish_reason": None},
    )


def test_a_figure_of_lengths_that_nobody_knows_is_refused(make_run, tmp_path):
    unknown = without_lengths(make_run, "a", [[1, 1], [1, 0]])
    sources = Sources(runs=[unknown])
    assert "budget" not in available(sources) and "problems" in available(sources)
    done = CliRunner().invoke(cli, ["plot", "budget", str(unknown), "-o", str(tmp_path / "figure.svg")])
    assert (done.exit_code, (tmp_path / "figure.svg").exists()) == (1, False)
    assert str(done.exception) == (
        "budget: expected a run that knows how many tokens its samples have; the lengths are unknown in all of these"
    )
    # Beside a run whose lengths are known it stands in the legend, without a line.
    limit = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 128}
    known = make_run("b", {"t": [[1, 1], [1, 0]]}, identity={"sampling": limit})
    mixed = without_lengths(make_run, "c", [[1, 1], [1, 0]], **limit)
    (ax,) = axes_of("budget", Sources(runs=[known, mixed]))
    assert drawn(ax) == {"b": ([64, 128], [0.75, 0.75]), "c (imported) (lengths unknown)": ([], [])}


def test_a_token_limit_that_is_not_known_is_called_so_in_titles(make_run):
    runs = [without_lengths(make_run, "a", [[1, 0]]), make_run("b", {"t": [[1, 0]]})]
    titles = list(by_setting(Sources(runs=runs).scores))
    assert titles == ["T=1.0, top-p 1.0\ntoken limit unknown; T @2", "T=1.0, top-p 1.0\n64 tokens; T @2"]


def test_the_heat_map_has_easy_problems_on_top_and_runs_in_the_order_of_tables(make_run):
    stapo = make_run("s", {"t": [[0, 0], [1, 1], [1, math.nan]]}, about={"method": "STAPO"})
    grpo = make_run("g", {"t": [[0, 1], [1, 1], [0, 0]]}, about={"method": "GRPO"})
    sources = Sources(runs=[stapo, grpo])
    (heat_map,) = REGISTRY["problems"].read(sources)
    assert heat_map.problems == ("t-1", "t-2", "t-0")  # means 1, 1/2 and 1/4
    assert heat_map.runs == ("GRPO", "STAPO")
    assert heat_map.rates.tolist() == [[1.0, 1.0], [0.0, 1.0], [0.5, 0.0]]
    ax = axes_of("problems", sources)[0]
    image = ax.images[0].get_array()
    assert image[:: len(image) // 3, :: image.shape[1] // 2].tolist() == heat_map.rates.tolist()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["GRPO", "STAPO"]


def test_a_problem_without_a_decided_sample_stays_blank(make_run):
    run = make_run("a", {"t": [[1, 0], [math.nan, math.nan]]})
    image = axes_of("problems", Sources(runs=[run]))[0].images[0].get_array()
    assert image.mask.mean() == 0.5


def intervals_drawn(ax) -> list[tuple[float, list[float]]]:
    """Width and ends of the horizontal bars of a forest plot."""
    return [(line.get_linewidth(), list(line.get_xdata())) for line in ax.get_lines() if len(line.get_xdata()) == 2]


def test_differences_are_paired_and_carry_both_intervals_by_name(make_run):
    base = make_run("b", {"t": [[0, 0], [0, 1], [1, 0]]}, about={"method": "Base"})
    stapo = make_run("s", {"t": [[1, 0], [0, 1], [1, 1]]}, about={"method": "STAPO"}, identity={"seed": 1})
    (ax,) = axes_of("differences", Sources(runs=[stapo, base]))
    assert ax.get_title() == "STAPO − Base"
    a, b = (run.outcomes["t"].scores for run in (load_run(base), load_run(stapo)))
    like, these = (paired_difference(a, b, error).interval() for error in ("problems like these", "these problems"))
    zero, thin, thick = intervals_drawn(ax)
    assert zero[1] == [0.0, 0.0]
    assert thin == (0.9, pytest.approx([like.low, like.high]))
    assert thick == (3.4, pytest.approx([these.low, these.high]))
    assert list(ax.get_lines()[-1].get_xdata()) == pytest.approx([1 / 3])
    named = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert named == ["95 %, problems like these", "95 %, these problems"]


def test_one_bar_has_room(make_run):
    runs = [make_run(name, {"t": [[1, 1], [0, 1]]}) for name in ("a", "b")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib gives up on a layout with no more than a warning
        render("differences", Sources(runs=runs), "png")


def test_the_mean_over_tasks_is_the_last_row(make_run):
    tasks = {"t": [[0, 1]] * 3, "u": [[1, 1]] * 3}
    runs = [make_run("a", tasks), make_run("b", tasks)]
    (ax,) = axes_of("differences", Sources(runs=runs))
    assert ax.get_title() == "b − a"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["T", "U", "mean of 2 tasks"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row on top


def test_the_ablation_takes_the_last_checkpoint_of_each_mask(make_run):
    runs = [
        make_run(f"{name}{step}", {"t": [[value] * 2] * 2}, about={"method": name, "step": step})
        for name, step, value in (("Random mask", 1, 0), ("Random mask", 2, 1), ("STAPO", 2, 0), ("GRPO", 2, 0))
    ]
    (ax,) = axes_of("ablation", Sources(runs=runs))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["low entropy (STAPO)", "random"]
    points = [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata()) == 1]
    assert points == [0.0, 1.0]


# -- from runs and logs -----------------------------------------------------------------------------------------------


def test_stability_is_the_trainers():
    entropies = [0.5, 0.4, 0.45, 0.5, 0.4, 0.3, 0.6, 0.2, 0.1, 0.3, 0.35]
    assert entropy_stability(entropies) == pytest.approx(stability(entropies).score, rel=1e-12)
    assert math.isnan(entropy_stability(entropies[:9]))


def test_pareto_places_and_front(make_run, tmp_path):
    def sources():
        for name, steady, right in (("steady", 0.5, 0.25), ("good", 0.25, 0.75), ("neither", 0.25, 0.5)):
            rows = [{"entropy": 0.5}] * 5 + [{"entropy": steady}] * 5
            log = write_log(tmp_path / "logs" / name, rows, out=f"runs/{name}", alpha=len(name))
            samples = [1] * int(4 * right) + [0] * int(4 - 4 * right)
            yield log, trained(make_run, name, {"t": [samples] * 2}, training=f"/elsewhere/runs/{name}", step=5)

    logs, runs = zip(*sources(), strict=True)
    both = Sources(runs=runs, logs=logs)
    (plane,) = REGISTRY["pareto"].read(both)
    assert {(p.stability, p.accuracy) for p in plane.places} == {(1.0, 0.25), (0.5, 0.75), (0.5, 0.5)}
    assert plane.front == [(0.5, 0.75), (1.0, 0.25)]
    (ax,) = axes_of("pareto", both)
    front = ax.get_lines()[-1]
    assert list(zip(front.get_xdata(), front.get_ydata(), strict=True)) == plane.front


def test_sensitivity_has_a_line_per_other_setting_and_the_default_where_none_is_stated(make_run, tmp_path):
    runs, logs = [], []
    for name, settings, right in (
        ("plain", {}, [1, 1]),
        ("rare", {"tau_p": 0.0005}, [1, 0]),
        ("half", {"q": 0.5}, [0, 0]),
    ):
        logs.append(write_log(tmp_path / "logs" / name, out=f"runs/{name}", **settings))
        runs.append(trained(make_run, name, {"t": [right] * 2}, training=f"runs/{name}", step=5))
    over_tau, over_q = axes_of("sensitivity", Sources(runs=runs, logs=logs))
    line, *_ = over_tau.get_lines()
    assert drawn_line(line) == ("$q$=0.75", [0.0005, 0.002], [0.5, 1.0])
    line, *_ = over_q.get_lines()
    assert drawn_line(line) == (r"$\tau_p$=0.002", [0.5, 0.75], [0.0, 1.0])
    assert (over_tau.get_xscale(), over_q.get_xscale()) == ("log", "linear")


def test_labels_and_defaults_are_the_trainers():
    from stapo_train.objectives import REGISTRY as OBJECTIVES

    labels = {name: method.label for name, method in METHODS.items() if name != "base"}
    assert labels == {name: objective.label for name, objective in OBJECTIVES.items()}
    for name in ("stapo", "stapo-old"):
        training = TrainingLog(folder=Path(), out=Path(), seed=0, objective={"name": name}, config={}, records=())
        for setting in ("tau_p", "q"):
            assert threshold(training, setting) == getattr(OBJECTIVES[name](), setting)
