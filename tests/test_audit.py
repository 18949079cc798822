"""Each fault is injected and must be named; clean runs, however repetitive, must pass."""

import json

import numpy as np
import pytest

from stapo_bench.analysis.audits import audit_runs
from stapo_bench.analysis.compare import compare_runs, compare_several
from stapo_bench.presenting import render_audit
from stapo_bench.presenting.verdicts import sentence
from stapo_bench.runs import load_run

NAN = float("nan")


def rows(rng, num_problems=20, num_samples=16, rate=0.4):
    return (rng.random((num_problems, num_samples)) < rate).astype(float).tolist()


def results(checks):
    return {check.name: check.result for check in checks}


def message(checks, name):
    return next(check.message for check in checks if check.name == name and check.result == "finding")


def split_by(run, writer_of):
    """Move the samples of a run into one segment per writer."""
    (whole,) = (run / "samples").glob("*.jsonl")
    writers = {}
    for line in whole.read_text().splitlines():
        writers.setdefault(writer_of(json.loads(line)), []).append(line)
    whole.unlink()
    for number, (name, lines) in enumerate(sorted(writers.items()), start=1):
        (run / "samples" / f"{number:04d}-{name}-0f0f.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def test_a_clean_run_has_nothing_to_say(make_run, rng):
    checks = audit_runs(make_run("a", {"t": rows(rng)}))
    assert results(checks) == {
        "missing draws": "ok",
        "equal seeds": "ok",
        "repeated completions": "ok",
        "writer unlike the rest": "not testable",
    }
    assert render_audit(checks).startswith("**Nothing found.**")


def test_missing_draws_are_counted_and_named(make_run, rng):
    matrix = rows(rng)
    matrix[3][5] = matrix[4][0] = NAN
    checks = audit_runs(make_run("a", {"t": matrix}))
    assert message(checks, "missing draws") == "a: T 2 of 320 (first: t-3/5, t-4/0)"
    assert render_audit(checks).startswith(
        "**1 of 4 checks found something: missing draws.**\n\n- finding: missing draws"
    )


def test_equal_seeds_are_found(make_run, rng):
    run = make_run("a", {"t": rows(rng)}, sample=lambda _t, i, j: {"seed": 7} if i == 0 and j < 3 else {})
    assert message(audit_runs(run), "equal seeds") == "a: 2 of 320 samples repeat the seed of another"


@pytest.mark.parametrize("temperature", [0.0, 0.6, None])
def test_tools_that_seed_every_problem_alike_are_no_finding(make_run, rng, temperature):
    nowhere = {
        "imported": {"format": "rows"},
        "sampling": {"temperature": temperature, "top_p": None, "max_new_tokens": None},
    }

    def audited(name, seed_of):
        run = make_run(name, {"t": rows(rng)}, identity=nowhere, sample=lambda _t, i, j: {"seed": seed_of(j)})
        return next(check for check in audit_runs(run) if check.name == "equal seeds")

    each, once = audited("a", lambda j: j), audited("b", lambda j: 7)
    if temperature == 0:
        assert each.result == once.result == "not testable"
        assert each.message == "a: at temperature 0 a seed decides nothing"
    else:
        assert (each.result, once.result) == ("ok", "finding")
        assert each.message == "a: 0 of 320 samples repeat the seed of another on the same problem"
        assert once.message == "b: 300 of 320 samples repeat the seed of another on the same problem"


def test_copies_at_one_distance_are_beyond_chance(make_run, rng):
    """Samples 8 to 15 repeat samples 0 to 7: two workers with one seed."""
    run = make_run("a", {"t": rows(rng)}, sample=lambda _t, i, j: {"completion": f"text {i} {j % 8}"})
    assert "160 equal pairs on the same problem, 160 of them between indices 8 apart" in message(
        audit_runs(run), "repeated completions"
    )


def test_a_few_copies_of_the_neighbour_are_found(make_run, rng):
    run = make_run("a", {"t": rows(rng)}, sample=lambda _t, i, j: {"completion": f"text {i} {j - (j == 1)}"})
    assert "20 of them between indices 1 apart" in message(audit_runs(run), "repeated completions")


def test_a_model_that_repeats_itself_by_nature_is_not_accused(make_run, rng):
    """Three possible answers per problem: many equal pairs, at no distance in particular."""
    texts = rng.integers(0, 3, (20, 16))
    run = make_run("a", {"t": rows(rng)}, sample=lambda _t, i, j: {"completion": f"text {texts[i, j]}"})
    assert results(audit_runs(run))["repeated completions"] == "ok"


def test_chance_repetition_rarely_alarms(make_run):
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        texts = rng.geometric(0.2, (10, 8))
        run = make_run(
            f"r{seed}", {"t": rows(rng, 10, 8)}, sample=lambda _t, i, j, x=texts: {"completion": f"{x[i, j]}"}
        )
        alarms += results(audit_runs(run))["repeated completions"] == "finding"
    assert alarms == 0


def test_improbable_copies_are_found_by_their_log_probs(make_run, rng):
    def sample(_task, i, j):
        copied = i < 5 and j == 9
        return {"completion": f"long text {i} {0 if copied else j}", "sum_log_prob": -80.0}

    run = make_run("a", {"t": rows(rng)}, sample=sample)
    assert message(audit_runs(run), "repeated completions").startswith("a: 5 completions equal another")


def test_probable_repetitions_are_not_copies(make_run, rng):
    run = make_run("a", {"t": rows(rng)}, sample=lambda *_: {"completion": "42", "sum_log_prob": -1.5, "num_tokens": 2})
    assert results(audit_runs(run))["repeated completions"] == "ok"


def test_a_shard_that_scores_lower_is_named(make_run, rng):
    """One of four shards lost a third of its right answers."""
    matrix = np.array(rows(rng, 40, 16, rate=0.6))
    bad = np.arange(16) % 4 == 2
    matrix[:, bad] *= rng.random((40, 4)) < 0.5
    run = make_run("a", {"t": matrix.tolist()})
    split_by(run, lambda s: f"shard{s['sample_index'] % 4}of4")
    found = message(audit_runs(run), "writer unlike the rest")
    assert "shard2of4 is right less than the others" in found
    assert "shard0of4" not in found


def test_a_worker_with_another_token_limit_is_named(make_run, rng):
    def sample(_task, _i, j):
        return {"num_tokens": int(rng.integers(50, 100)) // (2 if j % 2 else 1)}

    run = make_run("a", {"t": rows(rng)}, sample=sample)
    split_by(run, lambda s: f"worker{s['sample_index'] % 2}")
    assert "worker1 writes less than the others" in message(audit_runs(run), "writer unlike the rest")


def test_equal_shards_pass_and_a_resumed_writer_is_one_writer(make_run, rng):
    run = make_run("a", {"t": rows(rng)})
    split_by(run, lambda s: f"shard{s['sample_index'] % 4}of4")
    assert results(audit_runs(run))["writer unlike the rest"] == "ok"
    resumed = make_run("b", {"t": rows(rng)})
    first, second = (f"{n:04d}-shard0of1-{n}{n}.jsonl" for n in (1, 2))
    lines = (resumed / "samples" / "0001-all.jsonl").read_text().splitlines()
    (resumed / "samples" / "0001-all.jsonl").unlink()
    (resumed / "samples" / first).write_text("".join(f"{line}\n" for line in lines[:100]))
    (resumed / "samples" / second).write_text("".join(f"{line}\n" for line in lines[100:]))
    assert results(audit_runs(resumed))["writer unlike the rest"] == "not testable"


def test_samples_shared_by_two_runs_are_counted(make_run, rng):
    def copied(_task, i, j):
        return {"completion": f"shared {i} {j}"} if j < 4 else {}

    a, b, alike = (
        make_run(name, {"t": rows(rng)}, sample=copied, identity={"seed": seed})
        for name, seed in (("a", 1), ("b", 2), ("alike", 1))
    )
    assert message(audit_runs(a, b), "shared samples").startswith("80 of 320 samples are equal in a and b")
    assert results(audit_runs(a, b))["shared samples"] == "finding"
    clean = make_run("c", {"t": rows(rng)}, identity={"seed": 2})
    assert results(audit_runs(a, clean))["shared samples"] == "ok"
    (check,) = [check for check in audit_runs(a, alike) if check.name == "shared samples"]
    assert check.result == "not testable"  # under one seed alike models write alike
    assert check.message.endswith("both drew with seed 1, so models that are alike write alike")


def test_runs_that_both_repeat_a_few_answers_share_nothing(make_run, rng):
    texts = rng.integers(0, 3, (2, 20, 16))
    a, b = (
        make_run(name, {"t": rows(rng)}, sample=lambda _t, i, j, r=r: {"completion": f"{texts[r, i, j]}"})
        for r, name in enumerate("ab")
    )
    assert results(audit_runs(a, b))["shared samples"] == "ok"


def test_engine_drift_is_seen_between_runs_of_the_same_weights(make_run, rng):
    same = {"checkpoint": {"digest": "c"}}
    a = make_run("a", {"t": rows(rng, 40, 16, rate=0.5)}, identity={**same, "seed": 1})
    drifted = make_run("b", {"t": rows(rng, 40, 16, rate=0.35)}, identity={**same, "seed": 2})
    assert "b is right less than a" in message(audit_runs(a, drifted), "engine drift")
    again = make_run("c", {"t": rows(rng, 40, 16, rate=0.5)}, identity={**same, "seed": 3})
    assert results(audit_runs(a, again))["engine drift"] == "ok"
    other = make_run("d", {"t": rows(rng)})
    assert results(audit_runs(a, other))["engine drift"] == "not testable"


@pytest.mark.parametrize(("num_problems", "result"), [(12, "ok"), (25, "finding")])
def test_log_probabilities_tell_of_drift_that_scores_hide(make_run, num_problems, result):
    """One sample a problem in each run, B's surer by 0.3 nats a token: with d = 0.3 a problem adds d / 2 to the excess
    and 1 * 1 / 2 * d^2 / 2 to its variance, so z = n (d / 2) / sqrt(n d^2 / 4) = sqrt(n); 3.5 is within chance.
    """
    same, rows = {"checkpoint": {"digest": "c"}}, [[1]] * num_problems
    a = make_run("a", {"t": rows}, identity={**same, "seed": 1}, sample=lambda *_: {"sum_log_prob": -10.0})
    surer = {"num_tokens": 20, "sum_log_prob": -14.0}  # as many tokens on average, half of them each way
    shorter = {"num_tokens": 5, "sum_log_prob": -3.5}
    b = make_run("b", {"t": rows}, identity={**same, "seed": 2}, sample=lambda _t, i, _j: shorter if i % 3 else surer)
    (check,) = [check for check in audit_runs(a, b) if check.name == "engine drift"]
    assert check.result == result
    if result == "finding":
        assert check.message == "b is sure of its tokens more than a (z = +5.0)"
        assert compare_runs(a, b, "math").drift == check.message
        assert sentence(compare_runs(a, b, "math")).endswith(
            f" Their samples differ beyond chance: {check.message}, so one of them was not drawn as its settings say."
        )
        several = compare_several([load_run(run, "math") for run in (a, b)])
        assert check.message in several.notes
    else:
        assert check.message == "a and b agree in score, length, truncation and log-probabilities"
        assert compare_runs(a, b, "math").drift is None


def test_log_probabilities_of_two_kinds_are_not_held_beside_one_another(make_run):
    """Before and after the cut of the distribution: others, whatever was drawn."""
    same, rows = {"checkpoint": {"digest": "c"}}, [[1]] * 25
    drawn = {"engine": {"name": "scripted", "log_probs": "as drawn"}}
    a = make_run("a", {"t": rows}, identity=same, sample=lambda *_: {"sum_log_prob": -10.0})
    b = make_run("b", {"t": rows}, identity={**same, **drawn}, sample=lambda *_: {"sum_log_prob": -7.0})
    (check,) = [check for check in audit_runs(a, b) if check.name == "engine drift"]
    assert (check.result, check.message) == ("ok", "a and b agree in score, length and truncation")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (
            {"tasks": {"t": {"data": "data-t", "prompts": "other", "prompt_format": "message"}}},
            "tasks.t.prompt_format, tasks.t.prompts differ as well",
        ),
        ({"engine": {"name": "scripted", "quantization": "fp8"}}, "engine.dtype, engine.quantization differ as well"),
        ({"versions": {"scripted": "2"}}, "versions.scripted differs as well"),
        (
            {"versions": dict.fromkeys("abcdef", "2")},
            "versions.a, versions.b, versions.c, versions.d and 2 more differ as well",
        ),
    ],
)
def test_settings_that_differ_are_named_beside_the_drift_and_no_sampling_blamed(make_run, rng, other, named):
    same = {"checkpoint": {"digest": "c"}}
    a = make_run("a", {"t": rows(rng, 40, 16, rate=0.5)}, identity={**same, "seed": 1})
    b = make_run("b", {"t": rows(rng, 40, 16, rate=0.3)}, identity={**same, **other, "seed": 2})
    assert message(audit_runs(a, b), "engine drift").endswith(f"; {named}")
    assert sentence(compare_runs(a, b, "math")).endswith(f"; {named}.")


def test_json(make_run, rng):
    found = json.loads(render_audit(audit_runs(make_run("a", {"t": rows(rng)})), "json"))
    assert found[0] == {"name": "missing draws", "result": "ok", "message": "a: every sample asked for is stored"}


@pytest.mark.parametrize(("num_problems", "result"), [(5, "not testable"), (6, "ok")])
def test_a_writer_is_tested_where_no_single_value_makes_up_the_variance(make_run, num_problems, result):
    # One sample right, one wrong, of two writers: a problem adds 1 * 1 / 2 * 1/2 = 1/4 to the variance, and a value is
    # (1/2)^2 = 1/4 from its mean. Five times that has to be exceeded; 6 problems do.
    run = make_run("a", {"t": [[1, 0]] * num_problems})
    split_by(run, lambda s: f"worker{s['sample_index']}")
    assert results(audit_runs(run))["writer unlike the rest"] == result


def test_samples_shared_by_chance_are_counted_by_hand(make_run):
    # Texts all differ: of 4 * 3 pairs at different places none is equal, chance is (0 + 1) / (12 + 2) of 4 places: 0.29
    a, b = make_run("a", {"t": [[1, 0, 1, 0]]}), make_run("b", {"t": [[1, 0, 1, 0]]}, identity={"seed": 1})
    (check,) = [check for check in audit_runs(a, b) if check.name == "shared samples"]
    assert check.message == "0 of 4 samples are equal in a and b, 0.3 by chance"
