"""The one sentence of a page about entropy, by hand; a page of trainings alone made again from its own archive."""

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from stapo_train.experiments import endings
from stapo_train.experiments.design import load_experiment
from stapo_train.experiments.pages import write_page

RESULTS = Path(__file__).resolve().parent.parent / "results" / "experiments"


def test_a_search_in_a_sentence():
    ends = {"A": [0.2], "B": [1.3], "C": [1.25], "D": [5.0], "E": [0.25]}
    assert endings._of_a_search(ends) == (
        "Entropy collapses in 1 of 5 settings (A), explodes in 1 of 5 settings (D) and ends above 1.25 of its start in "
        "2 of 5 settings (B: 1.30; D: 5.00); one seed each, so that there are no intervals."
    )


def test_several_seeds_in_a_sentence():
    growth = {"A": (0.1, 0.2, 0.3), "B": (-0.1, 0.0, 0.0), "C": (0.1, 0.25, 0.25)}
    rewards = {"A": [0.4, 0.4, 0.4], "B": [0.4, 0.5, 0.4], "C": [0.6, 0.61, 0.6]}
    found = SimpleNamespace(
        experiment=SimpleNamespace(reference="A"), stabilities=lambda: rewards, late_rewards=lambda: rewards
    )
    # A: 0.2 -+ 0.248. B less A: -0.2, -0.2, -0.3: -0.233 -+ 0.143, p 0.020, by Holm over two 0.040. C less A: 0 in the
    # mean. Rewards: C less A 0.203 -+ 0.014; B less A 0.033 -+ 0.143.
    said = endings._over_seeds(found, {name: [math.exp(x) for x in values] for name, values in growth.items()})
    assert said == (
        "A's entropy is not seen to grow or fall (ln(last / first) +0.200 [-0.048, +0.448], 3 seeds); in that growth "
        "B (below) is told apart from it; in entropy stability C (higher) is told apart from it; in late reward "
        "C (higher) is told apart from it. By itself, without Holm, growth differs for B -0.233 [-0.377, -0.090]."
    )


SEVERAL = pytest.mark.slow(reason="a page of all the trainings that the table is made from")


@pytest.mark.parametrize("name", [pytest.param("regime", marks=SEVERAL), "stability-search"])
def test_a_page_without_its_runs_is_made_from_its_archive(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    for kept in ("manifest.json", "trainings.tar.gz", "predictions.md"):
        if (RESULTS / name / kept).is_file():
            shutil.copy(RESULTS / name / kept, folder)
    write_page(load_experiment(name), Path("runs/experiments/none-here"), folder)
    for made in ("page.md", "summary.json", "manifest.json"):
        assert (folder / made).read_text() == (RESULTS / name / made).read_text()


def test_each_setting_has_a_row_in_the_order_of_the_experiment(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    endings.draw({"A": [0.2], "B": [1.3, 1.4], "C": [4.5]}, tmp_path / "endings.svg")
    (ax,) = drawn[0].axes
    bounds, rows = ax.lines[:4], ax.lines[4:]
    assert [line.get_xdata()[0] for line in bounds] == [0.25, 1.0, 1.25, 4.0]
    assert len({line.get_linestyle() for line in bounds}) == 3  # collapse and explosion alike
    assert [list(zip(*line.get_data(), strict=True)) for line in rows] == [[(0.2, 0)], [(1.3, 1), (1.4, 1)], [(4.5, 2)]]
    names = {label.get_position()[1]: label.get_text() for label in ax.get_yticklabels()}
    assert names == {0: "A", 1: "B", 2: "C"}
    low, high = ax.get_ylim()
    assert 2 < low < 3 and -1 < high < 0  # the first on top, each whole
    assert ax.get_xscale() == "log" and {0.25, 1.0, 1.25, 4.0} <= set(ax.get_xticks())
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"{tick:g}" for tick in ax.get_xticks()]
    endings.draw({name: [1.0] for name in "ABCDEF"}, tmp_path / "endings.svg")
    assert drawn[1].get_figheight() > drawn[0].get_figheight()
