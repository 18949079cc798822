"""Items that belong together: the cluster-robust error by hand and by brute force, and what ``compare`` says of it."""

import csv
import json
import shutil

import numpy as np
import pytest
from cli_setup import one_line
from click.testing import CliRunner

import stapo_bench as sb
from stapo_bench.analysis import average_of_table, curve_tables, plan_tables, score_tables
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.records import Gold, Problem
from stapo_bench.runs import data_digest, export_runs, load_run
from stapo_bench.runs.outcomes import read_outcomes
from stapo_bench.statistics import clustering, interval, paired_difference
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


@pytest.mark.parametrize("common", [0.0, 1.0])
def test_degrees_of_unequal_clusters_are_those_of_the_whole_matrix(common):
    rng = np.random.default_rng(2)
    numbers = np.sort(rng.integers(0, 7, 40))
    changes = rng.normal(size=40) + common * rng.normal(size=7)[numbers]
    sizes, shares = np.bincount(numbers), np.bincount(numbers) / 40
    rho = max(0.0, clustering(changes, numbers).correlation)
    assert (rho > 0.0) == (common > 0.0)
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


def test_a_single_cluster_is_one_unit_without_a_degree_of_freedom():
    units = units_of(np.array([1.0, 2.0]), np.zeros(2, int))
    assert (units.value, units.totals.tolist(), units.centered.tolist(), units.degrees) == (1.5, [1.5], [0.0], 0)
    found = clustering(np.array([1.0, 2.0]), np.zeros(2, int))
    assert (found.num_clusters, found.largest) == (1, 2)
    assert np.isnan(found.correlation) and np.isnan(found.design_effect)


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


@pytest.fixture
def grouped_runs(grouped, make_run):
    """The tables of ``grouped`` as run folders, with the data of their task beside them."""
    problems = [
        Problem(task="t", problem_id=f"t-{i}", question=f"What is {i}?", gold=Gold(answer=str(i))) for i in range(100)
    ]
    rows = [
        {"id": p.problem_id, "problem": p.question, "answer": p.gold.answer, "family": f"f{i // 5}", "odd": None}
        for i, p in enumerate(problems)
    ]
    (grouped / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (grouped / "t.yaml").write_text("task: t\nrepeats: 1\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 100}\n")
    asked = {"data": data_digest(problems), "prompts": "p", "prompt_format": "plain"}
    about = {"title": "T", "num_problems": 100, "num_samples": 1, "problem_ids": [p.problem_id for p in problems]}
    found = []
    for name in "ab":
        scores = [[float(line.split(",")[1])] for line in (grouped / f"{name}.csv").read_text().splitlines()[1:]]
        about_tasks = {"tasks": {"t": {**about, "file": str(grouped / "t.yaml")}}}
        found.append(make_run(f"run-{name}", {"t": scores}, identity={"tasks": {"t": asked}}, about=about_tasks))
    return found


def test_runs_have_clusters_by_a_column_of_their_tasks_data(grouped, grouped_runs):
    tables = ["compare", str(grouped / "a.csv"), str(grouped / "b.csv"), "--cluster", "family", "--format", "json"]
    runs = ["compare", *map(str, grouped_runs), "--cluster", "family", "--data-dir", str(grouped), "--format", "json"]
    by_table, by_run = (json.loads(printed(command))["tasks"][0] for command in (tables, runs))
    assert by_run["clusters"] == by_table["clusters"] and by_run["clusters"]["num_clusters"] == 20
    for error in ("these problems", "problems like these"):
        assert by_run["errors"][error]["interval"] == pytest.approx(by_table["errors"][error]["interval"])
    loaded = [load_run(run) for run in grouped_runs]
    for sides in (grouped_runs, loaded):
        found = sb.compare(*sides, columns={"cluster": "family"}, data_dir=grouped)
        assert found.tasks[0].clustering.num_clusters == 20
    third = shutil.copytree(grouped_runs[1], grouped / "third")
    several = json.loads(printed(["compare", str(third), *runs[1:]]))
    (pair,) = (p for p in several["errors"]["problems like these"]["pairs"] if {p["a"], p["b"]} == {"run-a", "run-b"})
    assert pair["standard_error"] == pytest.approx(by_table["errors"]["problems like these"]["standard_error"])


def test_a_column_that_names_no_clusters_of_runs_is_refused(grouped, grouped_runs, stapo):
    a, b = grouped_runs
    for column in ("kind", "odd"):
        code, _, error = stapo("compare", a, b, "--cluster", column, "--data-dir", grouped)
        assert code == 1 and one_line(error).endswith(
            f"run-a: expected '{column}' to name a cluster of every problem, got none of t-0 in t; its columns: "
            "problem, answer, id, family\n"
        )
    code, _, error = stapo("compare", a, b, "--data-dir", grouped)
    assert code == 2 and "name the column" in one_line(error)
    code, _, error = stapo("compare", a, b, "--map", "score=x", "--cluster", "family", "--data-dir", grouped)
    assert code == 2 and "--map names columns of tables" in one_line(error)


@pytest.fixture
def by_task(make_run, tmp_path):
    """Two runs of six tasks with one and four samples of each problem, and the tables of their outcomes."""
    rng = np.random.default_rng(6)
    runs, files = [], []
    for seed, name in enumerate("ab"):
        shape = [(3 + t, 1 if t < 3 else 4, 0.2 + 0.6 * rng.random()) for t in range(6)]
        tasks = {f"t{t}": (rng.random((n, k)) < rate).astype(float).tolist() for t, (n, k, rate) in enumerate(shape)}
        runs.append(make_run(name, tasks, identity={"seed": seed}))
        files.append(tmp_path / f"{name}.csv")
        export_runs([runs[-1]], files[-1])
    return runs, files


def test_tasks_are_clusters_of_one_set_in_tables_and_runs(by_task, tmp_path):
    runs, files = by_task
    found = [
        json.loads(printed(["compare", *map(str, pair), "--cluster", "task", "--format", "json"]))
        for pair in (runs, files)
    ]
    (of_runs,), (of_tables,) = (each["tasks"] for each in found)
    assert of_runs == of_tables and not any("the rest is" in note for each in found for note in each["notes"])
    assert (of_runs["clusters"]["num_clusters"], of_runs["clusters"]["largest"]) == (6, 8)
    # The same 33 items under names of their own in one set, whose cluster is a column.
    rows = [list(csv.DictReader(file.open(encoding="utf-8"))) for file in files]
    renamed = [
        [{"item": row["problem_id"], "sample": row["sample_index"], "score": row["correct"], "cluster": row["task"]}
         for row in of_run]
        for of_run in rows
    ]  # fmt: skip
    expected = sb.compare(*renamed).tasks[0]
    for error, effect in zip(("these problems", "problems like these"), expected.effects, strict=True):
        interval = effect.difference.interval()
        assert of_runs["errors"][error]["interval"] == [interval.low, interval.high]
    third = shutil.copytree(runs[1], tmp_path / "third")
    several = json.loads(printed(["compare", str(third), *map(str, runs), "--cluster", "task", "--format", "json"]))
    (pair,) = (p for p in several["errors"]["problems like these"]["pairs"] if {p["a"], p["b"]} == {"a", "b"})
    assert pair["standard_error"] == pytest.approx(of_runs["errors"]["problems like these"]["standard_error"])
    # The copy of b differs from a as b does, and never from b: one design effect.
    cost = f"design effect {of_runs['clusters']['design_effect']:.1f} (its variance over that of independent items)"
    (said,) = [note for note in several["notes"] if "clusters of up to" in note]
    assert said.startswith("all items: 6 clusters of up to 8 items are what varies on problems like these")
    assert said.endswith(cost) and f"- {said}\n" in printed(
        ["compare", str(third), *map(str, runs), "--cluster", "task"]
    )


def test_tasks_are_one_set_where_they_were_named_and_not_where_a_column_holds_their_names():
    items = [{"task": task, "item": item} for task in "xyz" for item in ("q1", "q2")]
    rows = [{**item, "score": int(item["item"] == "q1"), "cluster": item["task"]} for item in items]
    after = [{**row, "score": 1} for row in rows]
    assert sb.compare(rows, after, columns={"cluster": "task"}).tasks[0].clustering.num_clusters == 3
    with pytest.raises(
        StapoError, match=r"^x: all 2 items that are compared are in cluster 'x': expected at least two"
    ):
        sb.compare(rows, after)
    assert (
        sb.compare(rows, after, columns={"task": "cluster"}).tasks[0].clustering is None
    )  # one column, named for tasks
    # The tasks have another name, and a column named task says something else: what was named counts.
    renamed = [[{**row, "benchmark": row["task"], "task": row["item"]} for row in of_run] for of_run in (rows, after)]
    (task, *others) = sb.compare(*renamed, columns={"task": "benchmark", "cluster": "benchmark"}).tasks
    assert (task.clustering.num_clusters, others) == (3, [])


def test_one_task_is_no_cluster_among_others(by_task, tmp_path, stapo):
    runs, files = by_task
    for file in files:
        rows = list(csv.DictReader(file.open(encoding="utf-8")))
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(row for row in rows if row["task"] == "t5")
    third = shutil.copy(files[0], tmp_path / "third.csv")
    for sides in (files, [runs[0], files[1]], [*files, third]):
        code, _, error = stapo("compare", *sides, "--cluster", "task")
        assert code == 1 and one_line(error) == (
            "stapo-bench: all items: all 8 items that are compared are in cluster 't5': expected at least two "
            "clusters, which are what varies on problems like these; name another column with --cluster\n"
        )


def test_problems_of_equal_names_in_two_tasks_stay_two_and_what_is_missing_is_said_by_task(tmp_path):
    rows = [{"task": task, "item": f"q{i}", "sample": j, "score": (i + j) % 2} for task in "xyz" for i in range(4)
            for j in range(2)]  # fmt: skip
    found = sb.compare(rows[:-1], rows, columns={"cluster": "task"})
    assert found.tasks[0].effects[0].difference.num_problems == 12
    assert found.tasks[0].clustering.num_clusters == 3
    assert "z: A has 7 of 8 outcomes; the rest is not there" in found.notes and found.unfinished == ("A",)


def test_the_interval_of_a_score_covers_where_items_belong_together():
    """20 clusters of 5 items that correlate by .5; 400 sets, standard error 1.1 points, and for independent items 2."""
    rng = np.random.default_rng(5)
    labels, covered = np.repeat(np.arange(20), 5), np.zeros(2)
    for _ in range(400):
        own, shared = (0.1 + 0.8 * (rng.random(num) < 0.6) for num in (100, 20))
        rates = np.where(rng.random(100) < 0.5**0.5, shared[labels], own)
        scores = (rng.random((100, 4)) < rates[:, None]).astype(float)
        found = [interval(scores, "problems like these", clusters=of) for of in (labels, None)]
        covered += [each.low <= 0.1 + 0.8 * 0.6 <= each.high for each in found]
    assert 0.93 <= covered[0] / 400 <= 0.98
    assert covered[1] / 400 < 0.85


def test_the_interval_of_a_score_knows_as_many_units_as_there_are_clusters():
    rng = np.random.default_rng(6)
    scores = (rng.random((30, 4)) < 0.4).astype(float)
    alone = interval(scores, "problems like these")
    named = interval(scores, "problems like these", clusters=rng.permutation(30))
    assert (named.low, named.high) == pytest.approx((alone.low, alone.high), abs=1e-12)
    assert interval(scores, "these problems", clusters=np.zeros(30)) == interval(scores, "these problems")
    # of nothing solved as much is known as of 10 problems: Wilson's t^2 / (10 + t^2), t of 9 degrees, 2.2622
    nothing = interval(np.zeros((30, 4)), "problems like these", clusters=np.repeat(np.arange(10), 3))
    assert nothing.high == pytest.approx(2.2622**2 / (10 + 2.2622**2), abs=1e-4)
    assert np.isnan(interval(scores, "problems like these", clusters=np.zeros(30)).low)  # one cluster tells nothing


@pytest.fixture
def families(tmp_path):
    """Two tables of 20 families of 5 items that are right together."""
    rng = np.random.default_rng(7)
    for name in ("a", "b"):
        right = rng.random(20) < 0.5
        rows = [f"q{i},{int(right[i // 5])},f{i // 5},f{i // 5}" for i in range(100)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item,score,family,task", *rows]) + "\n", encoding="utf-8")
    return tmp_path / "a.csv", tmp_path / "b.csv"


def test_scores_and_the_page_take_clusters(families, tmp_path):
    columns = {"item": "item", "score": "score", "cluster": "family", "task": "family"}
    (score,) = score_tables(families[:1], columns).scores
    (table,) = read_outcomes(families[0], columns)
    alike = [float(task.outcomes.scores[0, 0]) for task in table.tasks.values()]
    expected = interval(np.array(alike)[:, None], "problems like these")  # 20 families that are right or wrong in full
    found = score.intervals["problems like these"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-3)  # but for the pseudo-count
    assert score.task == "all items" and score.clustering.num_clusters == 20
    assert score.clustering.design_effect == pytest.approx(5.0, abs=0.3)
    assert average_of_table(table) == (score.value, found)
    output = printed(["score", str(families[0]), "--map", "cluster=family,task=family"])
    assert "20 clusters of up to 5 items are what varies on problems like these: the score of two items in" in output
    out = tmp_path / "page.html"
    printed(["leaderboard", *map(str, families), "--map", "cluster=family,task=family", "-o", str(out)])
    assert f"{100 * found.low:.1f}, {100 * found.high:.1f}" in out.read_text(encoding="utf-8")


def test_a_score_in_a_single_cluster_is_refused_as_a_comparison_is(families):
    families[0].write_text("item,score,cluster\nx,1,f\ny,0,f\n", encoding="utf-8")
    with pytest.raises(StapoError, match="all 2 items that are compared are in cluster 'f'"):
        score_tables(families[:1])


def test_plan_and_curve_say_that_they_do_not_take_clusters(families):
    paths, taken = list(families), "items stand in clusters and were taken for independent"
    of_one = {"item": "item", "score": "score", "cluster": "family"}
    for path in paths:
        path.write_text(path.read_text(encoding="utf-8").replace("family,task", "family,part"), encoding="utf-8")
    assert any(taken in note and "bands are too narrow" in note for note in curve_tables(paths, of_one).notes)
    assert not any(taken in note for note in curve_tables(paths, {"item": "item", "score": "score"}).notes)
    for path in paths:
        twice = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join([twice[0], *(line for line in twice[1:] for _ in "ab")]), encoding="utf-8")
    assert any(taken in note and "more items" in note for note in plan_tables(*paths, 0.05, columns=of_one).notes)
