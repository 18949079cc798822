"""Samples that one run has from another: found at their own places or at others, and honest runs left alone."""

from itertools import product

import numpy as np
import pytest

from stapo_bench.analysis import audit_runs
from stapo_bench.analysis.passed_on import _moved_pairs, common_problems
from stapo_bench.runs import load_run


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def two_runs(make_run, rng, texts_b, num_tokens=20, names="ab"):
    a, b = (
        make_run(
            name,
            {"t": (rng.random((20, 16)) < 0.5).astype(float).tolist()},
            identity={"seed": seed},
            sample=lambda _t, i, j, texts=texts: {"completion": f"{i} {texts(i, j)}", "num_tokens": num_tokens},
        )
        for seed, (name, texts) in enumerate(zip(names, (lambda i, j: j, texts_b), strict=True))
    )
    return {check.name: check for check in audit_runs(a, b)}


def test_samples_passed_on_in_another_order_are_found(make_run, rng):
    order = [rng.permutation(16) for _ in range(20)]
    checks = two_runs(make_run, rng, lambda i, j: order[i][j])
    assert checks["samples shared at other places"].result == "finding"
    at_their_places = sum(int(row[j] == j) for row in order for j in range(16))
    message = checks["samples shared at other places"].message
    assert message.startswith(f"{320 - at_their_places} pairs of samples are equal at different places of a and b")


def test_few_long_samples_passed_on_are_found(make_run, rng):
    """Three samples of a whole run: a random division often splits three pairs, but texts so long never recur."""
    checks = two_runs(make_run, rng, lambda i, j: 3 if (i < 3 and j == 9) else f"own {j}", num_tokens=5000)
    assert checks["samples shared at other places"].result == "finding"


def test_samples_at_their_own_places_are_not_said_to_be_moved(make_run, rng):
    checks = two_runs(make_run, rng, lambda i, j: j, num_tokens=5000)
    assert checks["samples shared at other places"].result == "ok"
    assert checks["shared samples"].message.startswith("320 of 320 samples are equal in a and b")


def test_independent_runs_of_few_or_many_texts_share_nothing(make_run, rng):
    texts = rng.integers(0, 3, (20, 16))
    for names, texts_b in (("ab", lambda i, j: f"own {j}"), ("cd", lambda i, j: texts[i, j])):
        checks = two_runs(make_run, rng, texts_b, names=names)
        assert checks["samples shared at other places"].result == "ok"


@pytest.mark.parametrize(("num_tokens", "result"), [(5000, "finding"), (20, "ok")])
def test_single_samples_passed_on_are_found_by_their_length(make_run, rng, num_tokens, result):
    """One sample per problem leaves no other places to count equal texts at: long ones tell by themselves."""
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 8192}
    a, b = (
        make_run(
            name,
            {"t": rng.integers(0, 2, (30, 1)).astype(float).tolist()},
            identity={"seed": seed, "sampling": sampling},
            sample=lambda _task, i, _j, name=name: {
                "completion": f"shared {i}" if i < 12 else f"{name} {i}",
                "num_tokens": num_tokens,
            },
        )
        for seed, name in enumerate("ab")
    )
    (check,) = [check for check in audit_runs(a, b) if check.name == "shared samples"]
    assert check.message.startswith("12 of 30 samples are equal in a and b") and "by chance" not in check.message
    assert check.result == result


def test_single_samples_at_temperature_zero_prove_nothing_by_being_equal(make_run, rng):
    sampling = {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 8192}
    a, b = (
        make_run(
            name,
            {"t": rng.integers(0, 2, (30, 1)).astype(float).tolist()},
            identity={"seed": seed, "sampling": sampling},
            sample=lambda _task, i, _j: {"completion": f"shared {i}", "num_tokens": 5000},
        )
        for seed, name in enumerate("ab")
    )
    (check,) = [check for check in audit_runs(a, b) if check.name == "shared samples"]
    assert check.result == "not testable" and check.message.startswith("30 of 30 samples are equal in a and b; one")


def test_pairs_are_counted_as_one_problem_and_one_permutation_after_the_other_would(make_run, rng):
    def drawn(name):
        scores = np.where(rng.random((12, 6)) < 0.2, np.nan, 1.0)  # places differ between problems
        return load_run(make_run(name, {"t": scores.tolist()}, sample=lambda *_: {"completion": str(rng.integers(4))}))

    a, b = drawn("a"), drawn("b")
    common = common_problems(a, b)
    expected, pairs = [], np.zeros(4, dtype=int)
    for problem in sorted({s.problem_id for s in a.samples["t"]} & {s.problem_id for s in b.samples["t"]}):
        of_a, of_b = ([s for s in run.samples["t"] if s.problem_id == problem] for run in (a, b))
        places = [(i, len(of_a) + j) for i, j in product(range(len(of_a)), range(len(of_b)))]
        texts = np.array([s.text_digest for s in (*of_a, *of_b)])
        index = [s.sample_index for s in (*of_a, *of_b)]
        for i, j in places:
            pairs[2 * (index[i] != index[j]) :][:2] += texts[i] == texts[j], 1
        rng_of_problem = np.random.default_rng(0)
        dealt = [texts, *rng_of_problem.permuted(np.tile(texts, (200, 1)), axis=1)]
        counts = [sum(row[i] == row[j] for i, j in places if index[i] != index[j]) for row in dealt]
        expected.append([counts[0], np.mean(counts[1:]), np.var(counts[1:])])
    assert common.equal_pairs() == tuple(pairs) and pairs.all()
    assert _moved_pairs(common).T.tolist() == expected
