"""Items that belong together: the cluster-robust error by hand and by brute force, and what ``compare`` says of it."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import stapo_bench as sb
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.statistics import clustering, paired_difference
from stapo_bench.statistics.clusters import units_of


def printed(arguments):
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def t_of(changes):
    return changes.mean(), changes.std(ddof=1) / len(changes) ** 0.5


def test_clusters_of_equal_sizes_give_the_t_interval_of_their_means():
    changes = np.random.default_rng(0).normal(size=40)
    units = units_of(changes, np.repeat(np.arange(8), 5))
    value, error = t_of(changes.reshape(8, 5).mean(axis=1))
    assert units.value == pytest.approx(value) and units.degrees == pytest.approx(7)
    assert (units.centered**2).sum() / 7 / 8 == pytest.approx(error**2)


def test_clusters_of_one_are_problems():
    rng = np.random.default_rng(1)
    a, b = ((rng.random((30, 4)) < 0.5).astype(float) for _ in "ab")
    alone = paired_difference(a, b, "problems like these")
    named = paired_difference(a, b, "problems like these", clusters=rng.permutation(30))
    assert named.interval().low == pytest.approx(alone.interval().low, abs=1e-12)
    assert named.interval().high == pytest.approx(alone.interval().high, abs=1e-12)
    assert named.p_value == pytest.approx(alone.p_value) and named.num_clusters == 30 == alone.num_problems


def test_degrees_of_unequal_clusters_are_those_of_the_whole_matrix():
    rng = np.random.default_rng(2)
    numbers = np.sort(rng.integers(0, 7, 40))
    changes = rng.normal(size=40)
    sizes, shares = np.bincount(numbers), np.bincount(numbers) / 40
    rho = max(0.0, clustering(changes, numbers).correlation)
    weights = np.diag((1 - shares) ** -0.5)
    residual = weights @ (np.eye(7) - np.outer(shares, np.ones(7)))
    covariances = residual @ np.diag(sizes * (1 + (sizes - 1) * rho)) @ residual.T
    expected = np.trace(covariances) ** 2 / np.trace(covariances @ covariances)
    assert units_of(changes, numbers).degrees == pytest.approx(expected)


def test_correlation_and_design_effect_by_hand():
    # Means 1 and 0 of two clusters of two: MSB = 4 * 0.25, MSW = 0. Variance 0.25 of the means' mean against 1/12.
    found = clustering(np.array([1.0, 1.0, 0.0, 0.0]), np.array([5, 5, 9, 9]))
    assert (found.num_clusters, found.largest, found.correlation) == (2, 2, 1.0)
    assert found.design_effect == pytest.approx(0.25 / (1 / 12))
    # Each cluster holds both: MSB = 0, MSW = 1/2.
    assert clustering(np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 0, 1, 1])).correlation == pytest.approx(-1.0)
    assert np.isnan(clustering(np.array([1.0, 0.0]), np.array([0, 1])).correlation)


def test_one_cluster_tells_nothing_of_problems_like_these_and_leaves_these_problems():
    rng = np.random.default_rng(3)
    a, b = ((rng.random((10, 8)) < 0.5).astype(float) for _ in "ab")
    assert np.isnan(paired_difference(a, b, "problems like these", clusters=np.zeros(10, int)).standard_error)
    assert paired_difference(a, b, "these problems", clusters=np.zeros(10, int)) == paired_difference(
        a, b, "these problems"
    )


def test_twenty_clusters_of_five_are_covered():
    rng, labels, held, plain, fixed = np.random.default_rng(4), np.repeat(np.arange(20), 5), 0, 0, 0
    for _ in range(300):
        rates = []
        for _run in range(2):
            own, common = rng.random(100) < 0.8, (rng.random(20) < 0.8)[labels]
            rates.append(0.1 + 0.8 * np.where(rng.random(100) < 0.5**0.5, common, own))
        a, b = ((rng.random((100, 4)) < of_run[:, None]).astype(float) for of_run in rates)
        interval = paired_difference(a, b, "problems like these", clusters=labels).interval()
        held += interval.low <= 0.0 <= interval.high
        interval = paired_difference(a, b, "problems like these").interval()
        plain += interval.low <= 0.0 <= interval.high
        interval = paired_difference(a, b, "these problems", clusters=labels).interval()
        fixed += interval.low <= (rates[1] - rates[0]).mean() <= interval.high
    assert held / 300 >= 0.92 and fixed / 300 >= 0.92  # 95 less 2.4 standard errors
    assert plain / 300 < 0.85


@pytest.fixture
def grouped(tmp_path):
    rng = np.random.default_rng(5)
    for name in "ab":
        common = (rng.random(20) < 0.6).astype(int)
        rows = [f"task-{g}/{part},{common[g]},{g}" for g in range(20) for part in "abcde"]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,score,family", *rows]) + "\n")
    return tmp_path


def test_names_that_look_grouped_are_said_and_naming_the_clusters_widens(grouped):
    files = [str(grouped / "a.csv"), str(grouped / "b.csv")]
    plain = json.loads(printed(["compare", *files, "--format", "json"]))
    said = [note for note in plain["notes"] if "look grouped" in note]
    assert len(said) == 1 and "task-0/a, task-0/b" in said[0] and "--cluster COLUMN" in said[0]
    found = json.loads(printed(["compare", *files, "--cluster", "family", "--format", "json"]))
    assert not [note for note in found["notes"] if "look grouped" in note]
    clusters = found["tasks"][0]["clusters"]
    assert (clusters["num_clusters"], clusters["largest"]) == (20, 5)
    assert clusters["correlation"] == pytest.approx(1.0) and clusters["design_effect"] == pytest.approx(99 / 19)
    (before, after) = (np.ptp(doc["tasks"][0]["errors"]["problems like these"]["interval"]) for doc in (plain, found))
    assert after > 2 * before
    assert "20 clusters of up to 5 items are what varies on problems like these" in printed(
        ["compare", *files, "--cluster", "family"]
    )


def test_an_item_has_one_cluster():
    a = [{"item": f"q{i}", "score": i % 2, "cluster": i // 2} for i in range(6)]
    with pytest.raises(StapoError, match="item 'q0' is in cluster '0' of A and '9' of B"):
        sb.compare(a, [{**row, "cluster": 9} for row in a])
    with pytest.raises(StapoError, match="A: row 2: item 'q0' is in cluster '1' here and in '0' before"):
        sb.compare([{**a[0], "sample": 0}, {**a[0], "sample": 1, "cluster": 1}], a)
    with pytest.raises(StapoError, match="A: item 'q5' has no cluster: expected one of each item"):
        sb.compare([*a[:5], {**a[5], "cluster": None}], a)
