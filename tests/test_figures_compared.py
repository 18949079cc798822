"""The figure of a comparison, whatever was compared: what stands in it, and that tables give what runs give."""

import re
from pathlib import Path

import numpy as np
import pytest
from cli_setup import one_line
from matplotlib.figure import Figure

from stapo_bench.analysis import compare_outcomes, compare_several, read_sides
from stapo_bench.presenting.figures import compared, forest, ranking

SCORES = {"base": [0, 0, 0, 1, 0, 0, 1, 0], "mine": [1, 1, 1, 1, 1, 1, 1, 0], "yours": [0, 1, 0, 1, 0, 0, 1, 1]}


@pytest.fixture
def tables(tmp_path):
    for name, right in SCORES.items():
        rows = [f"q{i},{j},{x}" for i, x in enumerate(right * 4) for j in (0, 1)]
        (tmp_path / f"{name}.csv").write_text("item,sample,score\n" + "\n".join(rows) + "\n")
    return [str(tmp_path / f"{name}.csv") for name in SCORES]


@pytest.fixture
def drawn(monkeypatch):
    """What is handed on to be drawn."""
    found = []
    monkeypatch.setattr(compared, "save_data", lambda plot, data, path, command: found.append((plot.title, data)))
    return found


def test_two_tables_are_drawn_as_their_difference(tables, drawn):
    found = compare_outcomes(*tables[:2])
    compared.save_comparison(found, Path("a.svg"), "")
    ((title, [panel]),) = drawn
    (bar,) = panel.bars
    assert title == "Paired differences" and panel.title == "mine − base" and bar.label == "all items"
    assert bar.value == pytest.approx(5 / 8)  # five of eight items more
    assert bar.problems_like_these == found.average.effect("problems like these").difference.interval()


def test_several_against_one_point_the_same_way_as_the_sentence(tables, drawn):
    sides = read_sides(tables)
    compared.save_comparison(compare_several(sides, against="base"), Path("a.svg"), "")
    compared.save_comparison(compare_several(sides, against="mine"), Path("a.svg"), "")
    (_, [base]), (_, [mine]) = drawn
    assert isinstance(base, forest.Forest) and base.title == "against base"
    assert {bar.label: bar.value for bar in base.bars} == pytest.approx({"mine": 5 / 8, "yours": 2 / 8})
    assert {bar.label: bar.value for bar in mine.bars} == pytest.approx({"yours": -3 / 8, "base": -5 / 8})
    up, down = base.bars[0], mine.bars[1]  # of one pair, seen from both ends
    for one, other in ((up.these_problems, down.these_problems), (up.problems_like_these, down.problems_like_these)):
        assert np.allclose([one.low, one.high], [-other.high, -other.low], atol=0.02)  # the other pairs differ
        assert one.low < 5 / 8 < one.high


def test_a_line_stands_where_nothing_differs_from_the_one(tables, drawn):
    compared.save_comparison(compare_several(read_sides(tables), against="base"), Path("a.svg"), "")
    ((_, [base]),) = drawn
    ax = Figure(layout="constrained").subplots()
    forest.draw([ax], [base])
    upright = [list(line.get_xdata()) for line in ax.get_lines() if list(line.get_ydata()) == [0, 1]]
    assert upright == [[0.0, 0.0]] and ax.get_xlim()[0] < 0.0


def test_several_tables_are_drawn_as_their_order(tables, drawn):
    found = compare_several(read_sides(tables))
    compared.save_comparison(found, Path("a.svg"), "")
    assert drawn == [("Several runs together", [ranking.Ranking(title="", found=found)])]


def test_the_command_writes_it_with_the_command_inside(tables, tmp_path, stapo):
    out = tmp_path / "fig.svg"
    code, text, error = stapo("compare", *tables, "-o", out)
    assert code == 0 and "mine" in text and error == f"figure written to {out}\n"
    assert re.search(r"stapo-bench compare .*base\.csv .*-o .*fig\.svg", out.read_text())
    gate = ("compare", *tables[:2], "--require", "better-by", "0", "-o", tmp_path / "gate.png")
    assert stapo(*gate)[0] == 0 and (tmp_path / "gate.png").read_bytes().startswith(b"\x89PNG")
    code, _, error = stapo("compare", "--seeds", "a*", "b*", "-o", out)
    assert code == 2 and "plot seeds" in one_line(error)
