"""Experiments in figures: what trainings are called, how their lines look, and what stands for several seeds."""

import pytest
from figure_setup import axes_of, band, drawn, legend_of, trained, write_log

from stapo_bench.presenting.figures import Sources, available, caption
from stapo_bench.presenting.figures.registry import REGISTRY
from stapo_bench.presenting.figures.style import METHODS, look
from stapo_bench.presenting.figures.training import experiments

# -- what they are called ---------------------------------------------------------------------------------------------


def labels(folder) -> list[str]:
    return [experiment.label for experiment in experiments(Sources(logs=[folder]).trainings)]


def settings(lr=1e-4, mini_batches=16, **others):
    return {"optim": {"lr": lr, "betas": [0.9, 0.999]}, "update": {"mini_batches": mini_batches}, **others}


def test_a_label_names_the_settings_whose_value_is_not_the_most_common(tmp_path):
    write_log(tmp_path / "a", name="grpo", settings=settings(lr=1e-3))
    write_log(tmp_path / "b", name="grpo", settings=settings(lr=3e-4, mini_batches=32))
    write_log(tmp_path / "c", name="grpo", settings=settings(lr=3e-4))
    write_log(tmp_path / "d", name="grpo", settings=settings())
    write_log(tmp_path / "e", name="grpo", settings=settings(), seed=1)
    # Among those of GRPO a rate of 0.0003 is the most common; JustRL's say which one is usual here: 0.0001, 3 of 6.
    write_log(tmp_path / "f", name="justrl", settings=settings())
    write_log(tmp_path / "g", name="justrl", settings=settings(data={"people": None}), clip_high=0.5)
    assert labels(tmp_path) == [
        "GRPO",
        "GRPO (lr=0.0003)",
        "GRPO (lr=0.001)",
        "GRPO (lr=0.0003, mini_batches=32)",
        "JustRL",
        "JustRL (clip_high=0.5, people=None)",
    ]


def test_one_method_in_each_setting_needs_no_more_than_its_name(tmp_path):
    write_log(tmp_path / "a", name="grpo", settings=settings(lr=1e-3))
    write_log(tmp_path / "b", name="justrl", settings=settings())
    assert labels(tmp_path) == ["GRPO", "JustRL"]


def test_of_two_values_equally_common_both_are_named(tmp_path):
    for lr in (1e-3, 1e-4):
        write_log(tmp_path / str(lr), settings=settings(lr=lr))
    assert labels(tmp_path) == ["STAPO (lr=0.0001)", "STAPO (lr=0.001)"]


def test_settings_of_the_same_name_are_told_apart_by_their_whole_names(tmp_path):
    for i, (rollout, evaluation, tau_p) in enumerate([(1.0, 1.0, 0.1), (0.7, 1.0, 0.2), (1.0, 0.6, 0.3)]):
        parts = {"rollout": {"temperature": rollout}, "eval": {"temperature": evaluation, "tau_p": tau_p}}
        write_log(tmp_path / str(i), name="grpo", settings=parts, tau_p=0.5)
    tau = r"$\tau_p$=0.5"
    assert sorted(labels(tmp_path)) == [
        f"GRPO ({tau}, eval.tau_p=0.1)",
        f"GRPO ({tau}, eval.tau_p=0.2, rollout.temperature=0.7)",
        f"GRPO ({tau}, eval.tau_p=0.3, eval.temperature=0.6)",
    ]


def test_the_folder_is_named_where_no_value_tells_them_apart(tmp_path):
    write_log(tmp_path / "a", settings={"optim": {"lr": 1e-4}})
    write_log(tmp_path / "b", settings={"optim": {"lr": 1e-4, "eps": None}})
    write_log(tmp_path / "c", settings={"optim": {"lr": 1e-4, "eps": None, "warmup": {}}})
    assert labels(tmp_path) == ["STAPO, a", "STAPO, b", "STAPO, c"]  # absent, none and empty: no value to name


# -- how they look ----------------------------------------------------------------------------------------------------

TOGETHER = ("base", "grpo", "dapo", "20-entropy", "justrl", "stapo", "stapo-old", "ar", "lopti", "stare")


def test_methods_shown_together_have_colours_of_their_own():
    looks = {name: METHODS[name].look for name in TOGETHER}
    assert len({found.colour for found in looks.values()}) == 9  # STAPO's two versions share one
    assert looks["stapo"].colour == looks["stapo-old"].colour
    assert len({(found.marker, found.dash) for found in looks.values()}) == 10
    assert (looks["ar"].colour, looks["lopti"].colour, looks["stare"].colour) == ("#009E73", "#1b1b1b", "#882255")


def test_stapos_versions_and_variants_differ_in_marker_and_dash():
    # What stability's figures show together: STAPO, STAPO with another tau_p, STAPO (v1-v3).
    shown = [look("STAPO"), look("STAPO", variant=1), look("STAPO (v1-v3)")]
    assert len({found.marker for found in shown}) == len({found.dash for found in shown}) == 3
    family = [look("STAPO", variant=i) for i in range(7)]
    family += [look(METHODS[name].label, variant=i) for name in ("stapo-old", "stapo-micro-batch") for i in range(2)]
    assert len({(found.marker, found.dash) for found in family}) == 11


def write_rates(folder, method, count):
    for i in range(count):
        rate = round(1e-4 * (i + 1), 6)
        write_log(folder / f"{method}{i}", [{"entropy": i / 10}] * 3, name=method, settings=settings(lr=rate))


def test_a_method_in_more_than_four_variants_gets_a_panel_with_colours_and_a_legend(tmp_path):
    write_rates(tmp_path, "grpo", 4)
    write_rates(tmp_path, "justrl", 2)
    (ax,) = axes_of("entropy", Sources(logs=[tmp_path]))
    assert len(drawn(ax)) == 6
    assert len({line.get_color() for line in ax.get_lines()}) == 2
    write_rates(tmp_path / "more", "justrl", 9)
    first, second = axes_of("entropy", Sources(logs=[tmp_path / "more", *tmp_path.glob("grpo*")]))
    legends = [(ax.get_legend().get_title().get_text(), len(ax.get_legend().get_texts())) for ax in (first, second)]
    assert legends == [("GRPO", 4), ("JustRL", 9)]
    assert not first.figure.legends
    rates = ["lr=0.0002", "lr=0.0003", "lr=0.0004"]  # as many have one as the other: none of the four is usual
    assert list(drawn(first)) == ["lr=0.0001", *rates]
    assert drawn(first)["lr=0.0003"] == ([1, 2, 3], [0.2] * 3)
    assert len({line.get_color() for line in second.get_lines()}) == 9
    assert second.get_lines()[0].get_color() == look("JustRL").colour
    assert first.get_ylim() == second.get_ylim()


def test_the_plain_variant_is_first_and_keeps_the_methods_name(tmp_path):
    write_rates(tmp_path, "grpo", 5)
    write_log(tmp_path / "z", name="justrl", settings=settings(lr=3e-4))
    first, second = axes_of("entropy", Sources(logs=[tmp_path]))
    assert list(drawn(first)) == ["GRPO", "lr=0.0001", "lr=0.0002", "lr=0.0004", "lr=0.0005"]
    assert first.get_lines()[0].get_color() == look("GRPO").colour
    assert list(drawn(second)) == ["JustRL"]


def test_quantiles_of_many_variants_have_a_row_per_method(tmp_path):
    for name, count in (("stapo", 5), ("grpo", 1)):
        for i in range(count):
            rows = [{"entropy_quantiles": {"0.5": 0.1, "0.99": 2.0}}] * 2
            write_log(tmp_path / f"{name}{i}", rows, name=name, settings=settings(lr=1e-4 * (i + 1)))
    axes = axes_of("entropy-quantiles", Sources(logs=[tmp_path]))
    titles = [ax.get_legend().get_title().get_text() for ax in axes]
    assert titles == ["GRPO\n50 % quantile", "GRPO\n99 % quantile", "STAPO\n50 % quantile", "STAPO\n99 % quantile"]
    assert [ax.get_subplotspec().rowspan.start for ax in axes] == [0, 0, 1, 1]


# -- several seeds ----------------------------------------------------------------------------------------------------


def steady(stability: float):
    """Rows of a log whose entropy has this stability."""
    return [{"entropy": 0.5}] * 5 + [{"entropy": 0.5 * stability}] * 5


def write_places(make_run, folder, places) -> Sources:
    """A training with a run for each (objective, seed, stability, right of four samples)."""
    logs, runs = [], []
    for method, seed, stability, right in places:
        name = f"{method}-{seed}"
        logs.append(write_log(folder / "logs" / name, steady(stability), name=method, seed=seed, out=f"runs/{name}"))
        samples = {"t": [[1] * right + [0] * (4 - right)] * 2}
        runs.append(trained(make_run, name, samples, training=f"runs/{name}", step=5, method=METHODS[method].label))
    return Sources(runs=runs, logs=logs)


def test_pareto_draws_an_experiment_once_with_the_spread_of_its_seeds(make_run, tmp_path):
    sources = write_places(
        make_run,
        tmp_path,
        [("grpo", 0, 0.5, 4), ("grpo", 1, 0.75, 0), ("justrl", 0, 0.5, 3), ("justrl", 1, 1.0, 2), ("stapo", 0, 0.5, 1)],
    )
    (plane,) = REGISTRY["pareto"].read(sources)
    grpo, _, stapo = plane.places
    assert (grpo.stability, grpo.accuracy) == pytest.approx((0.625, 0.5))
    assert grpo.stability_ends == pytest.approx((0.5, 0.75)) and grpo.accuracy_ends == (0.0, 1.0)
    # GRPO's seed with everything right is no point of the front: its mean is not.
    assert plane.front == [pytest.approx((0.75, 0.625))]
    (ax,) = axes_of("pareto", sources)
    bars = [segment.round(9).tolist() for bar in ax.collections for segment in bar.get_segments()]
    assert bars == [
        [[0.5, 0.5], [0.75, 0.5]],
        [[0.625, 0.0], [0.625, 1.0]],
        [[0.5, 0.625], [1.0, 0.625]],
        [[0.75, 0.5], [0.75, 0.75]],
    ]
    assert stapo.num_seeds == 1  # one seed has no spread, and another kind of bar beside these would mislead
    assert legend_of(ax) == ["GRPO", "JustRL", "STAPO"]
    assert "the mean over training seeds; bars reach from the least to the greatest of the seeds, a point without" in (
        caption("pareto", sources)
    )


def test_pareto_of_single_trainings_keeps_the_interval(make_run, tmp_path):
    sources = write_places(make_run, tmp_path, [("grpo", 0, 0.5, 3), ("stapo", 0, 1.0, 1)])
    (plane,) = REGISTRY["pareto"].read(sources)
    interval = sources.scores[0].macro.problems_like_these
    assert plane.places[0].accuracy_ends == (interval.low, interval.high)
    assert plane.places[0].stability_ends == (plane.places[0].stability,) * 2
    assert "Each training's last evaluated checkpoint; bars are 95 % intervals" in caption("pareto", sources)


def test_pareto_needs_two_experiments(make_run, tmp_path):
    sources = write_places(make_run, tmp_path, [("grpo", 0, 0.5, 3), ("grpo", 1, 1.0, 1)])
    assert "pareto" not in available(sources)
    assert "pareto" in available(write_places(make_run, tmp_path / "b", [("stapo", 0, 0.5, 3), ("ar", 0, 1.0, 1)]))


HALF, ALL, NONE = {"t": [[1, 0]]}, {"t": [[1, 1]]}, {"t": [[0, 0]]}  # pass@1 and pass@2: 1/2 and 1; 1 and 1; 0 and 0


def test_pass_at_k_is_a_line_per_experiment_and_per_base_model(make_run, tmp_path):
    runs, logs = [], []
    for name, seed, lr, tasks in (("a", 0, 1e-4, ALL), ("b", 1, 1e-4, NONE), ("c", 0, 1e-3, HALF), ("d", 1, 1e-3, ALL)):
        logs.append(write_log(tmp_path / "logs" / name, seed=seed, out=f"runs/{name}", settings=settings(lr=lr)))
        runs.append(trained(make_run, f"run-{name}", tasks, training=f"runs/{name}", step=5))
    for seed, tasks in ((7, ALL), (8, HALF)):
        about = {"method": "Base", "checkpoint": "runs/base", "step": 1400}
        runs.append(make_run(f"base-{seed}", tasks, about=about, identity={"seed": seed}))
    sources = Sources(runs=runs, logs=logs)
    (ax,) = axes_of("pass-at-k", sources)
    assert drawn(ax) == {
        "Base": ([1, 2], [0.75, 1.0]),
        "STAPO (lr=0.0001)": ([1, 2], [0.5, 0.5]),
        "STAPO (lr=0.001)": ([1, 2], [0.75, 1.0]),
    }
    assert {tuple(corner) for corner in band(ax, 1)} == {(1, 0.0), (2, 0.0), (1, 1.0), (2, 1.0)}
    assert legend_of(ax, 1) == ["band: min–max over training seeds"]
    assert caption("pass-at-k", sources).endswith("of a checkpoint that was sampled with several seeds, over those.")


def test_a_band_of_sampling_seeds_is_called_that(make_run):
    about = {"method": "Base", "checkpoint": "runs/base"}
    runs = [make_run(f"{seed}", tasks, about=about, identity={"seed": seed}) for seed, tasks in ((1, ALL), (2, HALF))]
    (ax,) = axes_of("pass-at-k", Sources(runs=runs))
    assert drawn(ax) == {"Base": ([1, 2], [0.75, 1.0])}
    assert legend_of(ax, 1) == ["band: min–max over sampling seeds"]


def test_pass_at_k_of_runs_that_no_log_joins_is_a_line_per_run(make_run):
    runs = [
        trained(make_run, name, tasks, training=f"runs/{name}", step=5) for name, tasks in (("a", ALL), ("b", HALF))
    ]
    sources = Sources(runs=runs)
    (ax,) = axes_of("pass-at-k", sources)
    assert drawn(ax) == {"STAPO, a": ([1, 2], [1.0, 1.0]), "STAPO, b": ([1, 2], [0.5, 1.0])}
    assert not ax.collections
    assert caption("pass-at-k", sources) == "pass@k. Unbiased estimate (Chen et al. 2021)."


def test_pass_at_k_joins_neither_steps_nor_two_runs_of_one_seed(make_run, tmp_path):
    logs = [write_log(tmp_path / "logs" / name, out=f"runs/{name}", seed=i) for i, name in enumerate("ab")]
    runs = [
        trained(make_run, f"at-{step}", HALF, training=f"runs/{name}", step=step)
        for name, step in (("a", 5), ("b", 10))
    ]
    (ax,) = axes_of("pass-at-k", Sources(runs=runs, logs=logs))
    assert list(drawn(ax)) == ["STAPO @5", "STAPO @10"]
    runs.append(trained(make_run, "again", ALL, training="runs/b", step=10))
    (ax,) = axes_of("pass-at-k", Sources(runs=runs, logs=logs))
    assert list(drawn(ax)) == ["STAPO @5", "STAPO @10, at-10", "STAPO @10, again"]


@pytest.mark.parametrize(("share", "lower_end"), [(2.2e-4, 1e-5), (4e-4, 1e-4), (0.5, 0.1)])
def test_the_masked_axis_begins_at_a_power_of_ten_below_half_the_least_mean(tmp_path, share, lower_end):
    write_log(tmp_path / "a", [{"masked_share": share}, {"masked_share": 0.0}], seed=0)
    write_log(tmp_path / "b", [{"masked_share": share}, {"masked_share": 2 * share}], seed=1)
    write_log(tmp_path / "c", [{"masked_share": share / 2}, {"masked_share": share}], seed=2)
    (ax,) = axes_of("masked", Sources(logs=[tmp_path]))
    # The least mean is 2.5/3 of the share, the least of all half of it: half of that is 5.5e-5, 1e-4 and 0.125.
    assert ax.get_ylim()[0] == lower_end
    assert {tuple(corner) for corner in band(ax)} >= {(1, share / 2), (2, lower_end)}  # a zero reaches the axis, 1 of 3


def test_a_seed_that_silenced_few_does_not_reach_the_end_of_the_axis(tmp_path):
    for seed, share in enumerate((4e-3, 4e-4)):
        write_log(tmp_path / str(seed), [{"masked_share": share}] * 2, seed=seed)
    (ax,) = axes_of("masked", Sources(logs=[tmp_path]))
    # Half the mean, 1.1e-3, would begin the axis at 1e-3, above the lower seed.
    assert ax.get_ylim()[0] == 1e-4
    assert band(ax)[:, 1].min() == 4e-4


def test_a_seed_that_silenced_nothing_counts_in_the_masked_ratio(tmp_path):
    write_log(tmp_path / "a", [{"masked_share": 4e-3}], seed=0)
    write_log(tmp_path / "b", [{"masked_share": 0.0}], seed=1)
    (ax,) = axes_of("masked", Sources(logs=[tmp_path]))
    assert drawn(ax)["STAPO"] == ([1], [pytest.approx(2e-3)])
    assert "reaches the lower end of the axis: in one of the seeds none was silenced" in caption(
        "masked", Sources(logs=[tmp_path])
    )
