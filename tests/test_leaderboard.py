"""The leaderboard: places that no shown difference rules out, groups, and a page that runs nothing."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.presenting.leaderboard import render_leaderboard

EASY, HARD = [1.0] * 4, [0.0] * 4


def cells(page: str, name: str) -> list[str]:
    """What stands in the row of a run, without markup."""
    (row,) = re.findall(rf"<tr[^>]*>(?:(?!</tr>).)*<b>{name}</b>.*?</tr>", page, flags=re.S)
    found = [re.sub(r"<[^>]+>", " ", cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, flags=re.S)]
    return [" ".join(cell.split()) for cell in found]


def outcomes(seed: int, chance: float, num_problems: int = 60) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return (rng.random((num_problems, 4)) < chance).astype(float).tolist()


def test_equal_runs_share_a_place_and_one_that_is_worse_does_not(make_run):
    runs = [make_run(f"equal{seed}", {"t": outcomes(seed, 0.7)}) for seed in range(2)]
    page = render_leaderboard([*runs, make_run("worse", {"t": outcomes(9, 0.1)})])
    assert "<h1>3 runs on T</h1>" in page
    for seed in range(2):
        place, first, second, *_ = cells(page, f"equal{seed}")
        assert (place, first, second) == ("1–2", "a", "")
    place, first, second, name, value, *_ = cells(page, "worse")
    assert (place, first, second, name) == ("3", "", "b", "worse Tiny")
    assert re.fullmatch(r"\d+\.\d\d \[\d+\.\d, \d+\.\d\]", value)
    assert page.index("<b>worse</b>") > page.index("<b>equal1</b>")  # the highest first


@pytest.mark.slow(reason="coverage by simulation, 100 leaderboards")
def test_equal_models_share_their_place_in_95_of_100_leaderboards():
    """The rule itself on 100 sets of five equal models of 30 problems, whose chances differ: at most 5 of 100, ±2 s."""
    from stapo_bench.analysis import compare_several
    from stapo_bench.runs.outcomes import outcomes_from

    rng = np.random.default_rng(1)
    shared = 0
    for _ in range(100):
        chances = rng.beta(0.7, 0.7, size=(30, 1))
        drawn = (rng.random((5, 30, 8)) < chances).astype(float)
        places = (
            compare_several([outcomes_from(matrix, f"run {i}", {}) for i, matrix in enumerate(drawn)])
            .standings["problems like these"]
            .places
        )
        shared += set(places) == {(1, 5)}
    assert shared >= 90


def test_names_of_strangers_do_nothing_and_the_page_runs_no_script(make_run):
    evil = {"about": {"model": "<script>alert(1)</script>\u202e"}}
    runs = [make_run("a", {"t": [EASY, HARD] * 5}, **evil), make_run("b", {"t": [EASY, EASY] * 5}, **evil)]
    page = render_leaderboard(runs)
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page
    assert "connect-src &#39;none&#39;" in page  # nor asks it anybody for news
    assert "default-src &#39;none&#39;" in page and "http" not in page.replace("http-equiv", "")


def test_several_tasks_have_a_column_each_and_what_is_left_out_is_said(make_run):
    tasks = {"t": [EASY, HARD] * 5, "u": [EASY, EASY] * 5}
    page = render_leaderboard([make_run("a", tasks), make_run("b", {**tasks, "v": [HARD]})])
    assert cells(page, "a")[-3:] == ["50.00", "100.00", "measured T=1.0, top-p 1.0, token limit 64"]
    assert "not in all runs, left out: V" in page


def test_the_command_writes_the_page_and_refuses_a_single_run(make_run, tmp_path):
    runs = [make_run(name, {"t": [EASY, HARD] * 5}) for name in "ab"]
    found = CliRunner().invoke(cli, ["leaderboard", *map(str, runs), "-o", str(tmp_path / "new" / "l.html")])
    assert found.exit_code == 0, found.exception
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/new/l.html: \d+ kB\n", found.stdout)
    with pytest.raises(StapoError, match="expected at least two runs, got 1"):
        CliRunner().invoke(cli, ["leaderboard", str(runs[0]), "-o", "x.html"], catch_exceptions=False)
