"""Two runs, and the tables that are exported of them, are compared with equal numbers."""

import numpy as np
import pytest
from compare_setup import numbers

from stapo_bench.analysis import compare_models, compare_outcomes, compare_runs
from stapo_bench.runs import export_runs
from stapo_bench.runs.outcomes import read_outcomes

NAN = float("nan")


def draws(seed, num_problems, k, rate):
    rng = np.random.default_rng(seed)
    return (rng.random((num_problems, k)) < rate * rng.random((num_problems, 1))).astype(float).tolist()


MORE = pytest.mark.slow(reason="the same by another format and other numbers of samples")


@pytest.mark.parametrize("ending", ["csv", pytest.param("parquet", marks=MORE)])
@pytest.mark.parametrize("ks", [pytest.param((1, 1), marks=MORE), pytest.param((32, 32), marks=MORE), (4, 7)])
@pytest.mark.parametrize("seed_b", [0, 5])
def test_two_runs_and_their_exported_tables_have_equal_numbers(make_run, tmp_path, ending, ks, seed_b):
    pytest.importorskip("pyarrow")
    (k_a, k_b), seed = ks, {"seed": seed_b}
    runs = [
        make_run("a", {"x": draws(1, 12, k_a, 0.6), "y": draws(2, 9, k_a, 0.9)}),
        make_run("b", {"x": draws(3, 12, k_b, 1.2), "y": draws(4, 9, k_b, 1.0)}, identity=seed),
    ]
    files = [tmp_path / f"{run.name}.{ending}" for run in runs]
    for run, file in zip(runs, files, strict=True):
        export_runs([run], file)
    of_runs, of_files = compare_runs(*runs), compare_outcomes(*files)
    assert numbers(of_runs) == numbers(of_files)
    assert of_runs.same_seeds is of_files.same_seeds is (seed_b == 0)
    export_runs(runs, tmp_path / f"both.{ending}")
    both = compare_models(tmp_path, read_outcomes(tmp_path / f"both.{ending}"))
    assert numbers(both) == numbers(of_files)
    assert (both.name_a, both.name_b) == ("a", "b")
    mixed = compare_outcomes(runs[0], files[1])
    assert mixed.tasks[0].value_b == of_runs.tasks[0].value_b
    assert mixed.average.effects[1].difference.value == of_runs.average.effects[1].difference.value


def test_samples_that_no_grader_decided_or_that_were_not_drawn_are_equal_in_both(make_run, tmp_path):
    pytest.importorskip("pyarrow")
    a = make_run("a", {"x": [[1.0, -1.0], [0.0, NAN], [0.5, 1.0], [1.0, 1.0]]})
    b = make_run("b", {"x": [[1.0, 1.0], [1.0, 0.0], [1.0, NAN], [0.0, -1.0]]})
    for run in (a, b):
        export_runs([run], tmp_path / f"{run.name}.csv")
    of_runs, of_files = compare_runs(a, b), compare_outcomes(tmp_path / "a.csv", tmp_path / "b.csv")
    assert numbers(of_runs) == numbers(of_files)
    assert "X: a has 7 of 8 samples; the rest is not drawn" in of_runs.notes
    assert "x: a has 7 of 8 outcomes; the rest is not there" in of_files.notes
    assert any("7 outcomes, 1 of them without a score: undecided" in note for note in of_files.notes)
