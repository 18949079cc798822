"""Folders, archives and packed files as one side of a comparison: the verdict of their files, and one line of error."""

import gzip
import json
import math
import shutil
import zipfile
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from compare_setup import refused
from import_setup import lines

from stapo_bench.analysis import compare_outcomes
from stapo_bench.cli import cli
from stapo_bench.presenting import render_comparison
from stapo_bench.runs.outcomes import read_outcomes

TIME = "2026-11-24T10-11-12.131415"
TASKS = ("gsm8k", "arc_challenge")


def sample(doc, metrics):
    """A line of lm-eval's samples of a choice, whose answers are log-likelihoods."""
    plain = {"doc_id": doc, "doc": {"query": "?"}, "target": 1, "arguments": [], "filtered_resps": []}
    return {**plain, "resps": [[["-1.5", "False"]]], "filter": "none", "metrics": list(metrics), **metrics}


@pytest.fixture
def sides(tmp_path):
    """What lm-eval writes for two models: a folder each, with a log for each task and the metrics beside them."""
    rng = np.random.default_rng(3)
    found = []
    for name, rate in (("a", 0.4), ("b", 0.6)):
        folder = tmp_path / name / "org__model"
        folder.mkdir(parents=True)
        for task in TASKS:
            rows = [sample(doc, {"acc": float(rng.random() < rate)}) for doc in range(40)]
            lines(folder / f"samples_{task}_{TIME}.jsonl", rows)
        results = {"results": {}, "configs": {}, "versions": {}}
        (folder / f"results_{TIME}.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        found.append(tmp_path / name)
    return found


def log(side, task):
    return side / "org__model" / f"samples_{task}_{TIME}.jsonl"


def verdict(a, b, *options):
    """What ``compare`` says as JSON, but for how the files were read."""
    done = CliRunner().invoke(cli, ["compare", str(a), str(b), "--format", "json", *options])
    assert done.exit_code == 0, done.output
    return json.dumps({name: value for name, value in json.loads(done.output).items() if name != "notes"})


def test_a_folder_of_logs_is_the_union_of_its_files(sides, tmp_path):
    tables = []
    for side in sides:  # the same outcomes in one table
        rows = [
            f"{task},{row['doc_id']},{row['acc']}"
            for task in sorted(TASKS)
            for row in map(json.loads, log(side, task).read_text(encoding="utf-8").splitlines())
        ]
        tables.append(tmp_path / "tables" / f"{side.name}.csv")
        tables[-1].parent.mkdir(exist_ok=True)
        tables[-1].write_text("\n".join(["task,item,score", *rows]), encoding="utf-8")
    assert verdict(*sides) == verdict(*tables) == verdict(sides[0], tables[1])
    both = compare_outcomes(*sides)
    assert [task.task for task in both.tasks] == sorted(TASKS)
    for task in both.tasks:  # and each task is what its two files alone give
        alone = compare_outcomes(*(log(side, task.task) for side in sides))
        assert [e.difference for e in alone.tasks[0].effects] == [e.difference for e in task.effects]
    shown = render_comparison(both)
    assert f"{sides[0]}: 2 files, verdicts of lm-eval; 80 items, 80 outcomes" in shown
    assert f"{sides[0]}: 1 of 3 files left out, without outcomes: org__model/results_{TIME}.json: metrics of" in shown


def packed_as(side, kind, out):
    if kind == "zip":
        with zipfile.ZipFile(out.with_suffix(".zip"), "w") as archive:
            for path in sorted(p for p in side.rglob("*") if p.is_file()):
                archive.write(path, f"{side.name}/{path.relative_to(side)}")
        return out.with_suffix(".zip")
    shutil.copytree(side, out)
    for path in sorted(out.rglob("samples_*")):
        if kind == "gz":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        else:
            pa = pytest.importorskip("pyarrow")
            with pa.output_stream(str(path) + ".zst", compression="zstd") as file:
                file.write(path.read_bytes())
        path.unlink()
    return out


@pytest.mark.parametrize("kind", ["gz", "zst", "zip"])
def test_packed_is_as_plain(sides, tmp_path, kind):
    (tmp_path / "packed").mkdir()
    packed = [packed_as(side, kind, tmp_path / "packed" / side.name) for side in sides]
    assert verdict(*packed) == verdict(*sides)
    assert verdict(packed[0], sides[1]).replace(str(packed[0]), "a") == verdict(*sides)
    if kind == "zip":  # a place within an archive, and a file there
        assert verdict(*(path / path.stem for path in packed)) == verdict(*sides)
        single = [log(path / path.stem, TASKS[0]) for path in packed]
    else:
        single = [next(path.rglob(f"samples_{TASKS[0]}*")) for path in packed]
    plain = compare_outcomes(*(log(side, TASKS[0]) for side in sides))
    assert compare_outcomes(*single).tasks[0].effects == plain.tasks[0].effects


def test_score_and_table_take_folders_and_archives(sides, tmp_path):
    archive = packed_as(sides[0], "zip", tmp_path / "a-packed")
    rows = []
    for path in (sides[0], archive):
        done = CliRunner().invoke(cli, ["score", str(path)])
        assert done.exit_code == 0, done.output
        rows.append([line for line in done.output.splitlines() if "40 × 1" in line])
    assert len(rows[0]) == 2 and [row.split("|")[2:] for row in rows[0]] == [row.split("|")[2:] for row in rows[1]]
    done = CliRunner().invoke(cli, ["table", *map(str, sides)])
    assert done.output.count("40 × 1") == 4


def test_of_several_metrics_one_is_named_and_files_without_it_are_left_out(sides):
    for side in sides:
        for task, metrics in zip(TASKS, ({"exact_match": 1.0, "f1": 0.5}, {"acc": 1.0, "acc_norm": 0.0}), strict=True):
            lines(log(side, task), [sample(doc, metrics) for doc in range(4)])
    assert "has verdicts by 'acc' and 'acc_norm'; say which: --map score=METRIC" in refused(*sides)
    (table,) = read_outcomes(sides[0], {"score": "f1"})
    assert list(table.tasks) == ["gsm8k"] and set(table.tasks["gsm8k"].outcomes.scores.ravel()) == {0.5}
    assert "expected verdicts by f1 in the log, got none; it has 'acc' and 'acc_norm'" in table.notes[1]
    assert "not a run folder" in refused(*sides, "--map", "score=bleu")


def test_tasks_of_files_may_be_the_clusters(sides):
    (table,) = read_outcomes(sides[0], {"cluster": "task"})
    assert table.tasks_are_clusters and sorted(table.tasks) == sorted(TASKS)


def test_files_that_differ_in_a_seed_are_samples_of_one_task(tmp_path):
    for seed, task in product((0, 1), ("x", "y")):
        rows = [f"p,{seed}", f"q,{1 - seed}"]
        (tmp_path / f"{task}-rs{seed}.csv").write_text("\n".join(["item,score", *rows]), encoding="utf-8")
    (table,) = read_outcomes(tmp_path)
    assert {task: of.outcomes.scores.tolist() for task, of in table.tasks.items()} == {
        "x": [[0.0, 1.0], [1.0, 0.0]],
        "y": [[0.0, 1.0], [1.0, 0.0]],
    }


def test_files_of_equal_seeds_are_compared_sample_by_sample(tmp_path):
    right = {"a": {"p": (1, 1, 0, 0), "q": (1, 0, 0, 0)}, "b": {"p": (1, 1, 1, 0), "q": (1, 1, 0, 0)}}
    for (name, items), index in product(right.items(), range(4)):
        (tmp_path / name).mkdir(exist_ok=True)
        rows = [f"{item},{scores[index]},{index + 1}" for item, scores in items.items()]
        path = tmp_path / name / f"sums-seed{index + 1}.csv"
        path.write_text("\n".join(["item,score,seed", *rows]), encoding="utf-8")
    (table,) = read_outcomes(tmp_path / "a")
    assert table.tasks["all items"].seeds.tolist() == [[1, 2, 3, 4]] * 2
    found = compare_outcomes(tmp_path / "a", tmp_path / "b")
    difference = found.average.effect("these problems").difference
    # Differences of samples 0, 0, 1, 0 and 0, 1, 0, 0: variance 1/4 each, of 4 samples; priors 1 / (2 * 16) twice.
    assert (difference.value, difference.standard_error) == pytest.approx((1 / 4, math.sqrt(3 / 16) / 2))
    assert "paired by problem and, as the seeds are equal, by sample" in render_comparison(found)


def test_what_is_no_side_is_one_line(sides, tmp_path, make_run):
    empty, unread = tmp_path / "empty", tmp_path / "unread"
    empty.mkdir()
    unread.mkdir()
    assert f"not a run folder: {empty}: expected manifest.json in it, or files with outcomes; it is empty" in refused(
        empty, sides[1]
    )
    (unread / "train.log").write_text("step 1\n", encoding="utf-8")
    (unread / "config.json").write_text('{\n"model": "m",\n"layers": 12}', encoding="utf-8")
    (unread / "nothing.jsonl").write_text("", encoding="utf-8")
    error = refused(sides[0], unread)
    assert "3 of 3 files left out, without outcomes: config.json: item 'model': expected a score" in error
    assert "nothing.jsonl: it is empty; train.log: expected a table of outcomes" in error
    shutil.copy(log(sides[0], TASKS[0]), unread)  # one that is read among others that are not
    (table,) = read_outcomes(unread)
    assert list(table.tasks) == ["gsm8k"] and "3 of 4 files left out" in table.notes[1]
    assert f"{tmp_path / 'a'}/none.zip/x: no such run folder or file" in refused(sides[0] / "none.zip" / "x", sides[1])
    run = make_run("run", {"x": [[1], [0]]})
    assert f"holds run folders ({run}); name those that are meant" in refused(run.parent, sides[1])


def test_two_models_or_two_files_of_a_task_are_not_mixed(sides, tmp_path):
    other = sides[0] / "org__other"
    shutil.copytree(sides[0] / "org__model", other)
    error = refused(*sides)
    assert f"{sides[0]}: holds outcomes in 2 folders; name that of one model: {sides[0]}/org__model; {other}" in error
    shutil.rmtree(other)
    shutil.copy(log(sides[0], "gsm8k"), log(sides[0], "gsm8k").with_name("samples_gsm8k_2026-11-25T01-02-03.4.jsonl"))
    assert "gsm8k stands in samples_gsm8k_2026-11-24T10-11-12.131415.jsonl and in samples_gsm8k_2026-11-25" in refused(
        *sides
    )
    damaged = sides[1] / "org__model" / f"samples_other_{TIME}.jsonl"
    damaged.write_text('{"doc_id": 0', encoding="utf-8")
    shutil.rmtree(sides[0] / "org__model")
    (sides[0] / "x.csv").write_text("item,score\n1,1\n2,7\n", encoding="utf-8")
    assert "row 2, 'score': expected a score from 0 to 1" in refused(*sides)  # damage is never left out
