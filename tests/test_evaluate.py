"""What an evaluation draws, how it grows, and which settings it refuses to mix."""

import io
from collections import Counter
from dataclasses import replace

import pytest
from eval_setup import (
    NUM_PROBLEMS,
    NUM_SAMPLES,
    FakeEngine,
    completions,
    make_options,
    make_task,
    run,
    unbroken_run,
)

from stapo_bench.engines import EngineOptions
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Prompt, SampleKey
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.store import read_samples, scan_keys
from stapo_bench.sampling.eval_tasks import EvalTask, requests
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.generate import to_sample
from stapo_bench.sampling.preflight import check_context
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks.loading import load_task


@pytest.fixture
def unbroken(tmp_path) -> dict[SampleKey, str]:
    return unbroken_run(tmp_path)


# -- what is drawn ----------------------------------------------------------------------------------------------------


def test_every_sample_is_drawn_once_with_the_seed_of_its_key(tmp_path, unbroken):
    assert len(unbroken) == 2 * NUM_PROBLEMS * NUM_SAMPLES
    for sample in read_samples(tmp_path / "unbroken"):
        assert sample.seed == derive_seed(0, *sample.key)
        assert sample.sum_log_prob == -0.75
    assert len(set(unbroken.values())) == len(unbroken)


def test_rounds_are_interleaved_so_that_every_prefix_is_fair(tmp_path):
    engine = FakeEngine()
    run(make_options(tmp_path), engine)
    indices = [request.key.sample_index for request in engine.requested]
    assert indices == sorted(indices)
    for start in range(0, len(indices), 2 * NUM_PROBLEMS):  # each round holds every problem of every task
        assert len({r.key[:2] for r in engine.requested[start : start + 2 * NUM_PROBLEMS]}) == 2 * NUM_PROBLEMS


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7])
def test_shards_share_the_keys_out_and_each_meets_every_problem(tmp_path, num_shards):
    task = load_task(make_task(tmp_path, "one"))
    prompts = [Prompt(task="one", problem_id=str(i), text="") for i in range(NUM_PROBLEMS)]
    work = EvalTask(
        task=task,
        problems=[],
        prompts=prompts,
        prompt_format="plain",
        num_problems=NUM_PROBLEMS,
        num_samples=NUM_SAMPLES,
    )
    shards = [[r.key for r in requests([work], 0, (i, num_shards))] for i in range(num_shards)]
    assert Counter(key for shard in shards for key in shard) == Counter(
        SampleKey("one", str(i), j) for i in range(NUM_PROBLEMS) for j in range(NUM_SAMPLES)
    )
    assert all(len({key.problem_id for key in shard}) == NUM_PROBLEMS for shard in shards)
    assert max(map(len, shards)) - min(map(len, shards)) <= NUM_SAMPLES


def test_a_finished_run_asks_for_nothing(tmp_path):
    options = make_options(tmp_path)
    run(options)
    engine = FakeEngine()
    assert run(options, engine).num_sampled == 0
    assert engine.requested == []


@pytest.fixture
def no_engine(monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise AssertionError("an engine was opened")

    monkeypatch.setattr("stapo_bench.sampling.engine_cache.open_for", refuse)


def test_a_finished_run_is_found_finished_before_an_engine_is_opened(tmp_path, request):
    options = make_options(tmp_path, samples=2, engine=EngineOptions(name="scripted"), max_new_tokens=4096)
    drawn = evaluate(options, watch=io.StringIO())
    assert drawn.num_sampled == 2 * NUM_PROBLEMS * 2
    request.getfixturevalue("no_engine")
    watch = io.StringIO()
    again = evaluate(options, watch=watch)
    assert (again.run_dir, again.num_sampled, again.num_missing) == (tmp_path / "run", 0, 0)
    assert watch.getvalue() == f"run folder: {tmp_path / 'run'}; nothing is missing\n"
    evaluate(replace(options, samples=1, limit=3, shard=(1, 2)), watch=watch)  # nor is a part of it
    with pytest.raises(AssertionError, match="an engine was opened"):
        evaluate(replace(options, samples=3), watch=watch)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"decoding": "training"}, "sampling.temperature: the run has 0.7, now 1.0"),
        ({"seed": 1}, "seed: the run has 0, now 1"),
        ({"engine": EngineOptions(name="transformers")}, "engine.engine: the run has scripted, now transformers"),
        (
            {"engine": EngineOptions(name="vllm", tensor_parallel=2)},
            "engine.tensor_parallel: the run has nothing, now 2",
        ),
    ],
)
def test_other_settings_are_refused_before_an_engine_is_opened(tmp_path, request, change, field):
    options = make_options(tmp_path, samples=1, engine=EngineOptions(name="scripted"), max_new_tokens=4096)
    evaluate(options, watch=io.StringIO())
    request.getfixturevalue("no_engine")
    for more in ({}, {"samples": 2}):  # whether the run is finished or not
        with pytest.raises(StapoError, match="other settings") as caught:
            evaluate(replace(options, **change, **more), watch=io.StringIO())
        assert f"\n  {field}" in str(caught.value)


def test_another_script_is_refused_before_an_engine_is_opened(tmp_path, request):
    options = make_options(tmp_path, samples=1, engine=EngineOptions(name="scripted"), max_new_tokens=4096)
    evaluate(options, watch=io.StringIO())
    options.checkpoint.write_text("success: 0.25\n")
    request.getfixturevalue("no_engine")
    with pytest.raises(StapoError, match=r"\n  engine\.script_sha256: the run has"):
        evaluate(options, watch=io.StringIO())


def test_a_run_next_to_it_is_found_finished_too(tmp_path, request):
    options = make_options(tmp_path, samples=1, engine=EngineOptions(name="scripted"), max_new_tokens=4096)
    evaluate(options, watch=io.StringIO())
    other = replace(options, seed=1, allow_different=True)
    assert evaluate(other, watch=io.StringIO()).run_dir == tmp_path / "run-2"
    request.getfixturevalue("no_engine")
    assert evaluate(other, watch=io.StringIO()).run_dir == tmp_path / "run-2"


def test_an_engine_that_turns_out_to_differ_is_refused_once_it_is_open(tmp_path):
    options = make_options(tmp_path, samples=1)
    run(options)
    with pytest.raises(StapoError, match=r"\n  engine\.version: the run has 1, now 2"):
        run(replace(options, samples=2), FakeEngine(version="2"))


def test_token_ids_are_kept_of_what_was_cut_off_only():
    key = SampleKey("one", "1", 0)
    done = Completion(key=key, text="x", finish_reason="stop", num_tokens=2, token_ids=(5, 6))
    assert to_sample(done, 7, "5eed").token_ids is None
    assert to_sample(replace(done, finish_reason="length"), 7, "5eed").token_ids == (5, 6)


# -- growing ----------------------------------------------------------------------------------------------------------


def test_more_samples_and_problems_draw_only_the_new_ones(tmp_path, unbroken):
    options = make_options(tmp_path)
    run(replace(options, samples=2, limit=5))
    assert len(completions(tmp_path / "run")) == 2 * 5 * 2
    engine = FakeEngine()
    run(options, engine)
    assert len(engine.requested) == len(unbroken) - 2 * 5 * 2
    assert completions(tmp_path / "run") == unbroken
    about = load_manifest(tmp_path / "run").about.tasks["one"]
    assert (about.num_problems, about.num_samples) == (NUM_PROBLEMS, NUM_SAMPLES)


def test_a_smaller_command_says_that_the_run_is_larger(tmp_path):
    both = make_options(tmp_path)
    said = {}
    for name, options in (
        ("first", both),
        ("again", both),
        ("fewer samples", replace(both, samples=2)),
        ("fewer tasks", replace(both, tasks=both.tasks[:1], limit=5)),
    ):
        watch = io.StringIO()
        evaluate(options, engine=FakeEngine(), watch=watch)
        said[name] = [line for line in watch.getvalue().splitlines() if "more than was asked" in line]
    one, two = (f"{name} 12 problems × 8 samples" for name in ("one", "two"))
    assert said["first"] == said["again"] == []
    run = f"{tmp_path / 'run'} holds more than was asked for now: "
    now, rest = " (now asked 12 × 2)", "; its scores rest on all of it"
    assert said["fewer samples"] == [f"{run}{one}{now}, {two}{now}{rest}"]
    assert said["fewer tasks"] == [f"{run}{one} (now asked 5 × 8), {two}{rest}"]


def test_tasks_are_added_to_a_run(tmp_path, unbroken):
    options = make_options(tmp_path)
    run(replace(options, tasks=options.tasks[:1]))
    run(replace(options, tasks=options.tasks[1:]))
    assert completions(tmp_path / "run") == unbroken
    assert sorted(load_manifest(tmp_path / "run").identity.tasks) == ["one", "two"]


def test_other_shards_in_any_order_make_the_same_run(tmp_path, unbroken):
    options = make_options(tmp_path)
    for index in (2, 0, 1):
        run(replace(options, shard=(index, 3)))
    assert completions(tmp_path / "run") == unbroken
    assert scan_keys(tmp_path / "run", 0)[1] == 0


# -- refusing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"decoding": "training"}, "sampling.temperature: the run has 0.7, now 1.0"),
        ({"max_new_tokens": 32}, "sampling.max_new_tokens: the run has 16, now 32"),
        ({"seed": 1}, "seed: the run has 0, now 1"),
        ({"prompt_format": "plain"}, "tasks.one.prompt_format: the run has base, now plain"),
    ],
)
def test_other_settings_are_refused_by_field(tmp_path, change, field):
    options = make_options(tmp_path, samples=1)
    run(options)
    before = completions(tmp_path / "run")
    with pytest.raises(StapoError, match="other settings") as caught:
        run(replace(options, **change))
    assert f"\n  {field}" in str(caught.value)
    assert completions(tmp_path / "run") == before
    assert run(replace(options, allow_different=True, **change)).run_dir == tmp_path / "run-2"


def test_replaced_weights_an_edited_problem_another_template_another_engine_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setattr("stapo_bench.sampling.evaluation.load_tokenizer", lambda checkpoint: None)
    options = make_options(tmp_path, samples=1, checkpoint=folder)
    run(options)

    def refusal(engine: FakeEngine | None = None) -> str:
        with pytest.raises(StapoError, match="other settings") as caught:
            run(replace(options, data_dir=data), engine)
        return str(caught.value)

    data = tmp_path
    assert "\n  engine.version: the run has 1, now 2" in refusal(FakeEngine(version="2"))
    (folder / "model.safetensors").write_bytes(b"trained on")
    assert "\n  checkpoint.digest: " in refusal()
    (folder / "model.safetensors").write_bytes(b"weights")

    data = tmp_path / "edited"
    data.mkdir()
    make_task(data, "two")
    text = (tmp_path / "one.jsonl").read_text()
    (data / "one.jsonl").write_text(text.replace("one: 3 - 3", "one: 3 - 4"))
    lines = refusal().splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == ["tasks.one.data", "tasks.one.prompts"]

    data = tmp_path
    make_task(tmp_path, "one", template="{{problem}} Box it.")
    lines = refusal().splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == ["tasks.one.prompts"]


def test_a_prompt_that_fills_the_context_is_refused_and_a_short_context_is_told():
    prompt = Prompt(task="t", problem_id="p", text="?", token_ids=(1,) * 60)
    one = EvalTask(
        task=load_task("tiny_aime24"),
        problems=[],
        prompts=[prompt],
        prompt_format="plain",
        num_problems=1,
        num_samples=1,
    )
    told = io.StringIO()
    check_context([one], 64, 16, "model", told)
    assert "its context of 64 tokens is less than the longest prompt (60) and 16 new tokens" in told.getvalue()
    assert told.getvalue().endswith("a completion of that one is cut off after 4\n")
    with pytest.raises(StapoError, match=r"t, problem p: expected a prompt of 1 to 59 tokens .* got 60"):
        check_context([one], 60, 16, "model", told)
    check_context([one], None, 16, "model", told)  # not known


def test_what_fails_before_the_first_sample_leaves_no_folder(tmp_path):
    class Broken(FakeEngine):
        def generate(self, requests, params):
            raise RuntimeError("out of memory")

    with pytest.raises(StapoError, match="the engine stopped: RuntimeError: out of memory"):
        run(make_options(tmp_path), Broken())
    assert not (tmp_path / "run").exists()
