"""``compare A B C …``: what it says of several runs and tables, in words, as JSON, and what it refuses."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from figure_setup import axes_of, legend_of

from stapo_bench.analysis import compare_several, read_sides
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import several_sentence
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.report.overview import overview

SHIFTS = {"base": 0.0, "same": 0.0, "best": 0.3, "worst": -0.4}


def outcome(shift, *, seed, num=60, k=8):
    rates = np.random.default_rng(0).beta(0.5, 0.5, num)
    draws = np.random.default_rng(seed).random((num, k))
    return (draws < np.clip(rates + shift, 0, 1)[:, None]).astype(int)


def write(path, matrix, prefix="q"):
    rows = [f"{prefix}{i},{j},{x}" for i, row in enumerate(matrix) for j, x in enumerate(row)]
    path.write_text("\n".join(["item,sample,score", *rows]) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path):
    shifts = enumerate(SHIFTS.items(), start=1)
    return [write(tmp_path / f"{name}.csv", outcome(shift, seed=seed)) for seed, (name, shift) in shifts]


def run_compare(*arguments):
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)])


def test_groups_places_and_every_pair(files):
    document = json.loads(run_compare(*files, "--format", "json").output)
    assert [run["run"] for run in document["runs"]][0::3] == ["best", "worst"]
    assert document["sentence"] == "best is the best of 4 runs on problems like these."
    assert document["fair"] is None and document["against"] is None
    for standing in document["errors"].values():
        assert [sorted(group) for group in standing["not_told_apart"]] == [["best"], ["base", "same"], ["worst"]]
        assert standing["places"] == {"best": [1, 1], "base": [2, 3], "same": [2, 3], "worst": [4, 4]}
        assert standing["shown_to_be_tied"] == []
        assert len(standing["pairs"]) == 6
        for pair in standing["pairs"]:
            low, high = pair["interval"]
            assert low < pair["effect"] < high and pair["effect"] <= 0.0  # b is the lower one
            assert pair["verdict"] == ("not enough data" if {pair["a"], pair["b"]} == {"base", "same"} else "worse")


def test_in_words(files):
    out = run_compare(*files).output
    assert "**best is the best of 4 runs on problems like these.**" in out
    assert f"| best | {100 * outcome(0.3, seed=3).mean():.2f} | a | 1 | a | 1 |" in out and "| c | 4 | c | 4 |" in out
    assert "intervals, p and ties of all 6 pairs hold together in 95 of 100 (max-t)" in out
    assert "which does not show that they are equal" in out


def test_against_one_has_shorter_intervals_and_no_places(files):
    every = json.loads(run_compare(*files, "--format", "json").output)["errors"]["problems like these"]
    found = json.loads(run_compare(*files, "--against", "base", "--format", "json").output)
    standing = found["errors"]["problems like these"]
    assert found["schema"] == "stapo-bench/comparison-of-several/1"
    assert found["against"] == "base" and standing["places"] is None and standing["not_told_apart"] == []
    assert found["sentence"].startswith("Against base on problems like these: better: best; worse: worst; not told ap")
    assert len(standing["pairs"]) == 3
    widths = {(pair["a"], pair["b"]): np.ptp(pair["interval"]) for pair in every["pairs"]}
    assert all(np.ptp(pair["interval"]) < widths[pair["a"], pair["b"]] for pair in standing["pairs"])


def test_not_told_apart_is_not_tied(tmp_path):
    few = [write(tmp_path / f"few{i}.csv", outcome(0, seed=i, num=10, k=1)) for i in range(3)]
    settled = np.arange(400)[:, None] % 2 == 1  # but for one sample in a hundred: few show a tie
    flips = [np.random.default_rng(i).random((400, 4)) < 0.01 for i in range(3)]
    many = [write(tmp_path / f"many{i}.csv", (settled ^ flip).astype(int)) for i, flip in enumerate(flips)]
    names = {}
    for paths in (few, many):
        found = compare_several(read_sides(paths))
        names[paths[0]] = [found.standings[error] for error in found.standings]
        assert several_sentence(found).startswith("Any of the 3 runs may be the best on problems like these: none is")
    assert all(standing.groups == ((0, 1, 2),) and standing.tied == () for standing in names[few[0]])
    assert all(standing.groups == ((0, 1, 2),) and standing.tied == ((0, 1, 2),) for standing in names[many[0]])
    out = run_compare(*many).output
    assert out.count("Shown to be tied within ±2 points: many") == 1
    assert "On these problems: shown to be tied within ±2 points: many" in out


def test_one_file_with_several_models_and_what_all_have(tmp_path):
    rows = [
        f"{model},q{i},{x}"
        for seed, (model, shift) in enumerate(SHIFTS.items())
        for i, (x,) in enumerate(outcome(shift, seed=seed, k=1))
        if (model, i) != ("worst", 3)
    ]
    (tmp_path / "all.csv").write_text("\n".join(["model,item,score", *rows]) + "\n")
    found = json.loads(run_compare(tmp_path / "all.csv", "--format", "json").output)
    assert {run["run"] for run in found["runs"]} == set(SHIFTS)
    assert "all items: 1 problem is not in all runs and left out; 59 are compared" in found["notes"]
    assert all(pair["num_problems"] == 59 for e in found["errors"].values() for pair in e["pairs"])


def test_run_folders_and_tables_give_the_same(make_run, files):
    tasks = [
        {"sums": outcome(shift, seed=seed).astype(float).tolist()} for seed, shift in enumerate(SHIFTS.values(), 1)
    ]
    folders = [make_run(name, of_run) for name, of_run in zip(SHIFTS, tasks, strict=True)]
    of_runs = compare_several(read_sides(folders))
    of_files = compare_several(read_sides(files))
    assert not of_runs.unknown and of_files.unknown and not of_runs.unfair
    assert [run.value for run in of_runs.runs] == [run.value for run in of_files.runs]
    standing, same = of_runs.standings["problems like these"], of_files.standings["problems like these"]
    assert standing.groups == same.groups and standing.places == same.places
    assert standing.pairs[0].joint == same.pairs[0].joint


def test_what_cannot_be_compared_is_refused(files, tmp_path):
    other = write(tmp_path / "other.csv", outcome(0, seed=1), prefix="p")
    with pytest.raises(StapoError, match=r"the runs have no problem in common \(base and other have none\); compare"):
        compare_several(read_sides([*files, other]))
    with pytest.raises(UsageError, match="--against nobody: expected one of "):
        compare_several(read_sides(files), against="nobody")
    with pytest.raises(UsageError, match=r"expected every run once, got base\.csv 2 times"):
        read_sides([*files, files[0]])
    for options, said in (
        (("--format", "pr"), "a gate, and the formats pr and junit, are of two runs, got 4"),
        (("--fail-if", "worse"), "a gate, and the formats pr and junit, are of two runs, got 4"),
        (("--detect", "0.02"), "--detect counts seeds and needs --seeds"),
    ):
        done = run_compare(*files, *options)
        assert done.exit_code == 2 and said in done.output
    done = run_compare("--seeds", "a*", "b*", "--against", "a")
    assert done.exit_code == 2 and "--against names one of several runs" in done.output


def test_names_that_are_equal_are_told_apart_by_their_files(tmp_path):
    paths = []
    for name in ("x", "y", "z"):
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name / "run.csv", outcome(0, seed=1)))
    assert {run.name for run in compare_several(read_sides(paths)).runs} == set(paths)


@pytest.fixture
def runs(make_run):
    found = {}
    for seed, (name, shift) in enumerate(SHIFTS.items(), 1):
        found[name] = make_run(name, {"sums": outcome(shift, seed=seed).astype(float).tolist()})
    return list(found.values())


def test_the_table_has_groups_where_they_are_asked_for(runs, make_run):
    plain = CliRunner().invoke(cli, ["table", *map(str, runs)]).output
    asked = CliRunner().invoke(cli, ["table", *map(str, runs), "--groups"]).output
    assert asked.startswith(plain.rstrip("\n")) and "groups:" not in plain
    assert "**best is the best of 4 runs on problems like these.**" in asked
    assert "| worst | " in asked.split("groups: problems like these")[1]
    done = CliRunner().invoke(cli, ["table", str(runs[0]), "--groups"])
    assert done.exit_code != 0 and str(done.exception).endswith("decoding and grader, got 1 run")
    other = make_run("other", {"products": outcome(0, seed=9).astype(float).tolist()})
    done = CliRunner().invoke(cli, ["table", str(runs[0]), str(other), "--groups"])
    assert str(done.exception).endswith("decoding and grader, got 2 runs, no two alike")
    done = CliRunner().invoke(cli, ["table", *map(str, runs), "--groups", "--format", "csv"])
    assert done.exit_code != 0 and "--groups: expected with --format md" in str(done.exception)


def test_the_figure_joins_those_that_are_not_told_apart(runs):
    pytest.importorskip("matplotlib")
    (ax,) = axes_of("ranking", Sources(runs=runs))
    assert [label.get_text() for label in ax.get_yticklabels()][0::3] == ["best", "worst"]
    bars = [line for line in ax.get_lines() if line.get_label() == "not told apart"]
    assert [list(bar.get_ydata()) for bar in bars] == [[0.8, 2.2]]  # rows 1 and 2: base and same
    assert legend_of(ax) == ["not told apart", "shown to be tied"]


@pytest.mark.slow(reason="the overview of a report of four runs, twice")
def test_the_report_has_runs_together(runs):
    (view,) = overview(Sources(runs=runs)).several
    assert view.sentences == ("best is the best of 4 runs on problems like these.",)
    assert [row[0] for row in view.tables[0][1]][0::3] == ["best", "worst"] and len(view.tables[1][1]) == 6
    assert overview(Sources(runs=runs[:2])).several == ()
