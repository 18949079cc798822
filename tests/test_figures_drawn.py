"""What stands where in a figure's panels, and how they fill a page: marks at their values, each in its own row."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from stapo_bench.presenting.figures import heatmap, layout, lines, ranking, seeds, tokens
from stapo_bench.presenting.figures.style import DOUBLE, SINGLE
from stapo_bench.statistics import ERROR_NAMES


def panels(number=1):
    """Axes side by side."""
    return Figure(layout="constrained").subplots(1, number, squeeze=False)[0]


def ticks(axis) -> dict[float, str]:
    """Place to text."""
    return {tick: label.get_text() for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)}


# -- how panels fill a page -------------------------------------------------------------------------------------------


def test_panels_fill_rows_and_columns():
    assert (layout.Layout().panels, layout.Layout().columns, layout.Layout().rows) == (1, 1, 1)
    shapes = {number: (layout.grid(number).columns, layout.grid(number).rows) for number in (1, 2, 4, 5, 6, 7, 9)}
    assert shapes == {1: (1, 1), 2: (2, 1), 4: (4, 1), 5: (4, 2), 6: (3, 2), 7: (4, 2), 9: (3, 3)}
    assert (layout.grid(1).width, layout.grid(2).width) == (SINGLE, DOUBLE)
    assert (layout.grid(5, columns=2).columns, layout.grid(5, columns=2).rows) == (2, 3)
    assert layout.grid(2, share_y=True).share_y and not layout.grid(2).share_y
    one, two, three = (layout.grid(number).height for number in (4, 8, 9))
    assert two - one == pytest.approx(three - two) and 0 < one < 2 * (two - one)  # each row as high as the others


def seed_map(num_seeds, num_problems=3):
    return seeds.SeedMap(
        title="B − A",
        seeds=tuple(str(seed) for seed in range(101, 101 + num_seeds)),
        changes=np.zeros((num_seeds, num_problems)),
    )


def test_maps_of_seeds_are_as_high_as_their_rows():
    def height(panels, num_seeds):
        return seeds.maps_layout([seed_map(num_seeds)] * panels).height

    found = seeds.maps_layout([seed_map(number) for number in (4, 5, 2, 1)])
    assert (found.panels, found.columns, found.rows, found.width) == (4, 2, 2, DOUBLE)
    assert found.height == height(4, 5)  # the highest decides
    of_a_seed = height(1, 6) - height(1, 5)
    assert of_a_seed > 0 and height(4, 6) - height(4, 5) == pytest.approx(2 * of_a_seed)
    assert height(4, 5) - height(1, 5) > 5 * of_a_seed  # a second row of panels, with its title


def test_heat_maps_of_a_way_of_decoding_stand_in_a_row():
    def found(number, decodings, runs=("A", "B")):
        maps = [
            heatmap.HeatMap(title="T", decoding=f"d{i % decodings}", problems=("p",), runs=runs, rates=np.zeros((1, 2)))
            for i in range(number)
        ]
        return heatmap.layout_of(maps)

    assert [(found(n, d).columns, found(n, d).rows) for n, d in ((1, 1), (2, 1), (4, 2), (6, 1), (7, 1), (14, 2))] == [
        (1, 1), (2, 1), (2, 2), (6, 1), (6, 2), (6, 3),
    ]  # fmt: skip
    assert [found(n, 1).width for n in (1, 2, 3)] == [SINGLE, SINGLE, DOUBLE]
    assert found(4, 2).height == pytest.approx(2 * found(2, 1).height)
    assert found(1, 1, ("A", "a longer name")).height > found(1, 1).height


# -- maps -------------------------------------------------------------------------------------------------------------


def test_a_map_of_seeds_has_a_cell_for_each_seed_and_problem_and_gains_are_blue():
    changes = np.array([[1.0, 0.0, -1.0], [0.5, 0.0, math.nan]])
    (ax,) = panels()
    seeds.draw_maps([ax], [replace(seed_map(2), changes=changes)])
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    assert (left, right) == (0.5, 3.5) and (top, bottom) == (-0.5, 1.5)  # problem 1 at 1, the first seed at 0, on top
    assert ticks(ax.yaxis) == {0: "101", 1: "102"} and list(ax.get_xticks()) == [1, 3]
    gain, none, loss = image.to_rgba(np.array([1.0, 0.0, -1.0]))
    assert gain[2] > gain[0] and loss[0] > loss[2] and min(none[:3]) > 0.9
    assert image.get_clim() == (-1.0, 1.0)
    bar = ax.figure.axes[-1]
    assert ticks(bar.xaxis) == {-1.0: "−100", 0.0: "0", 1.0: "+100"} and "points" in bar.get_xlabel()


def test_a_heat_map_has_a_column_for_each_run_and_its_key_is_in_percent():
    rates = np.array([[1.0, 0.5], [0.0, math.nan], [0.0, 0.0]])
    found = heatmap.HeatMap(title="T", decoding="d", problems=("p", "q", "r"), runs=("A", "B"), rates=rates)
    axes = panels(2)
    heatmap.draw(axes, [found, found])
    left, right, bottom, top = axes[0].images[0].get_extent()
    assert (left, right) == (-0.5, 1.5) and (top, bottom) == (0.5, 3.5)
    assert ticks(axes[0].xaxis) == {0: "A", 1: "B"} and list(axes[0].get_yticks()) == [1, 3]
    assert axes[0].images[0].get_clim() == (0.0, 1.0)
    assert axes[0].get_ylabel().startswith("d\n") and axes[1].get_ylabel() == ""  # once in a row
    assert ticks(axes[0].figure.axes[-1].xaxis) == {0.0: "0", 0.5: "50", 1.0: "100"}


# -- several runs together --------------------------------------------------------------------------------------------


def ranked(values, groups, tied=()):
    runs = [SimpleNamespace(name=f"run {i}", value=value) for i, value in enumerate(values)]
    standings = {ERROR_NAMES[1]: SimpleNamespace(groups=groups, tied=tied)}
    return ranking.Ranking(title="T", found=SimpleNamespace(runs=runs, standings=standings))


def test_rankings_stand_below_each_other_as_high_as_their_rows():
    one, two = ranked([0.5, 0.4], []), ranked([0.6, 0.5, 0.4, 0.3], [])
    found = ranking.layout_of([one, two])
    assert (found.panels, found.columns, found.rows) == (2, 1, 2)
    alone = [ranking.layout_of([each]).height for each in (one, two)]
    again = ranking.layout_of([one, one]).height - alone[0]  # a panel without what stands above all
    assert found.height - alone[1] == pytest.approx(again)
    assert alone[1] > alone[0]
    assert alone[1] - alone[0] == pytest.approx(ranking.layout_of([ranked([0.5] * 6, [])]).height - alone[1])


def test_sets_of_runs_are_bars_to_the_right_and_who_does_not_belong_is_crossed_out():
    (ax,) = panels()
    ranking.draw([ax], [ranked([0.6, 0.5, 0.4, 0.3], [(0, 1), (1, 3), (2,)], tied=[(0, 1)])])
    points, first, second, absent, tied = ax.get_lines()
    assert list(zip(*points.get_data(), strict=True)) == [(0.6, 0), (0.5, 1), (0.4, 2), (0.3, 3)]
    assert [list(bar.get_ydata()) for bar in (first, second, tied)] == [[-0.2, 1.2], [0.8, 3.2], [-0.2, 1.2]]
    assert [bar.get_label() for bar in (first, second, tied)] == ["not told apart"] * 2 + ["shown to be tied"]
    places = [bar.get_xdata()[0] for bar in (first, second, tied)]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1]) and 0.6 < places[0] < places[1]
    assert list(absent.get_xdata()) == [places[1]] and list(absent.get_ydata()) == [2]  # run 2 between 1 and 3
    low, high = ax.get_xlim()
    assert low < 0.3 and high > places[2]
    assert all(low <= tick <= places[0] for tick in ax.get_xticks())  # none under the bars
    assert ticks(ax.yaxis) == {i: f"run {i}" for i in range(4)}
    bottom, top = ax.get_ylim()
    assert 3.2 < bottom < 4 and -1 < top < -0.2


# -- lines ------------------------------------------------------------------------------------------------------------


def line(**how):
    return lines.Line(**{"label": "A", "method": "A", "x": (1.0, 2.0, 4.0), "y": (0.1, 0.2, 0.4), **how})


def test_error_bars_reach_both_ends_and_a_logarithmic_axis_has_a_tick_for_each_point():
    panel = lines.Panel(lines=(line(low=(0.0, 0.1, 0.1), high=(0.2, 0.5, 0.5)),), x_label="k", log_x=2)
    (ax,) = panels()
    data = lines.Lines(panels=(panel,), y_label="pass@k (%)", spread="95 %", bars=True, percent=True)
    lines.draw([ax], data)
    (bars,) = ax.collections
    ends = [[tuple(map(float, end)) for end in segment] for segment in bars.get_segments()]
    assert [[x for x, _ in pair] for pair in ends] == [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]
    assert [y for pair in ends for _, y in pair] == pytest.approx([0.0, 0.2, 0.1, 0.5, 0.1, 0.5])
    assert ticks(ax.xaxis) == {1.0: "1", 2.0: "2", 4.0: "4"} and ax.get_xscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("k", "pass@k (%)")
    assert ax.yaxis.get_major_formatter()(0.25, 0) == "25"
    assert [text.get_text() for text in ax.figure.legends[-1].get_texts()] == ["bar: 95 %"]


def test_bands_of_many_lines_are_fainter_and_their_key_is_called_band():
    def alphas(number):
        (ax,) = panels()
        many = tuple(line(label=str(i), low=(0.0,) * 3, high=(1.0,) * 3) for i in range(number))
        lines.draw([ax], lines.Lines(panels=(lines.Panel(lines=many, x_label="x"),), y_label="y", spread="min–max"))
        assert [text.get_text() for text in ax.figure.legends[-1].get_texts()] == ["band: min–max"]
        return {band.get_alpha() for band in ax.collections}

    (one,), (two,), (ten,) = alphas(1), alphas(2), alphas(10)
    assert one == two and ten == pytest.approx(0.07)


def test_a_long_legend_takes_the_width_of_the_page():
    def width(*numbers):
        found = tuple(lines.Panel(lines=(line(),) * number, x_label="x") for number in numbers)
        return lines.layout_of(lines.Lines(panels=found, y_label="y")).width

    assert [width(1), width(8), width(9), width(1, 1)] == [SINGLE, SINGLE, DOUBLE, DOUBLE]


def test_a_method_with_five_variants_has_a_panel_and_four_share_one():
    def of(*variants):
        found = tuple(
            line(label=f"{method} (q={i})", method=method) for method, number in variants for i in range(number)
        )
        return lines.by_method(lines.Lines(panels=(lines.Panel(lines=found, x_label="x"),), y_label="y"))

    assert not of(("STAPO", 4), ("GRPO", 4)).of_methods
    apart = of(("STAPO", 5), ("GRPO", 1))
    assert apart.of_methods and sorted(panel.title for panel in apart.panels) == ["GRPO", "STAPO"]
    (stapo,) = (panel for panel in apart.panels if panel.title == "STAPO")
    assert [each.label for each in stapo.lines] == [f"q={i}" for i in range(5)]


# -- tokens -----------------------------------------------------------------------------------------------------------


def minibatch(**how):
    plain = {
        "title": "STAPO", "prob": np.array([0.001, 0.5, 0.9]), "entropy": np.array([0.1, 2.0, 0.5]),
        "advantage": np.array([1.0, 1.0, -1.0]), "vocabulary": 10, "tau_p": 0.002, "tau_h": 0.3,
    }  # fmt: skip
    return tokens.Tokens(**{**plain, **how})


def test_every_token_is_a_dot_of_its_kind_and_the_quadrant_ends_at_both_thresholds():
    axes = panels(2)
    other = minibatch(prob=np.array([0.0004, 0.5]), entropy=np.array([0.1, 4.0]), advantage=np.ones(2), tau_h=math.nan)
    tokens.draw_scatter(axes, [minibatch(), other])
    dots = {dot.get_label(): [tuple(map(float, at)) for at in dot.get_offsets()] for dot in axes[0].collections}
    assert dots == {"A ≤ 0": [(0.9, 0.5)], "A > 0": [(0.5, 2.0)], "silenced": [(0.001, 0.1)]}
    zorders = {dot.get_label(): dot.get_zorder() for dot in axes[0].collections}
    assert zorders["silenced"] > zorders["A > 0"] == zorders["A ≤ 0"]
    (quadrant,) = axes[0].patches
    assert (quadrant.get_x(), quadrant.get_y()) == (0.0002, 0.0)  # half of the least probability of both
    assert quadrant.get_x() + quadrant.get_width() == pytest.approx(0.002) and quadrant.get_height() == 0.3
    assert not axes[1].patches
    for ax in axes:
        assert ax.get_xscale() == "log" and ax.get_xlim()[0] == 0.0002 and ax.get_xlim()[1] > 1
        assert ax.get_ylim()[0] < 0 and 4.0 < ax.get_ylim()[1] < 5
    assert axes[0].get_ylabel() and not axes[1].get_ylabel()


def test_a_bar_reaches_from_bound_to_bound_and_a_count_stands_behind_it():
    (ax,) = panels()
    found = minibatch()
    tokens.draw_gradients([ax], [found])
    rows = tokens.quadrants(found)
    assert [row.num_tokens for row in rows] == [1, 0, 0, 2]
    bars = [(bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    wanted = [(place, row.least, row.most) for place, row in enumerate(rows) if row.num_tokens]
    assert bars == [pytest.approx(row) for row in wanted]
    first, other = ax.patches
    assert first.get_hatch() and not other.get_hatch() and first.get_facecolor() != other.get_facecolor()
    said = [(text.get_text(), text.xy) for text in ax.texts]
    assert said == [
        ("n = 1", (rows[0].most, 0)),
        ("n = 0", (0.0, 1)),
        ("n = 0", (0.0, 2)),
        ("n = 2", (rows[3].most, 3)),
    ]
    assert ticks(ax.yaxis) == {place: row.name for place, row in enumerate(rows)}
    assert ax.get_xlim()[0] == 0.0 and ax.get_xlim()[1] > 1.2 * max(rows[0].most, rows[3].most)  # room for the counts
    assert ax.get_ylim() == (3.5, -0.5)
    assert tokens.gradients_layout([found] * 4).rows == tokens.layout_of([found] * 4).rows == 2
    assert tokens.gradients_layout([found]).height < tokens.layout_of([found]).height
    heights = [tokens.gradients_layout([found] * number).height for number in (1, 4, 7)]  # rows of three panels
    assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0])
