"""A run whose cut-off samples go on is the run that the larger limit gives."""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from stapo_bench.engines import EngineOptions
from stapo_bench.engines.params import refuse_generated_ids
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Prompt, Request, Sample, SampleKey, SamplingParams
from stapo_bench.runs.manifest import ContinuedFrom, load_manifest
from stapo_bench.runs.store import read_samples, sample_to_line, scan_keys
from stapo_bench.sampling.continuation import ContinueOptions, continue_run
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate
from stapo_bench.sampling.generate import sole_writer
from stapo_bench.tasks import render_prompts
from stapo_train.tiny.random_model import random_model, save

pytestmark = pytest.mark.usefixtures("graded_here")

NUM_PROBLEMS, NUM_SAMPLES = 6, 2


class Chain:
    """A "model" whose next character follows from the text so far, without chance: going on must change nothing."""

    continues_exactly = False

    def __init__(self, *, fail_after: int | None = None) -> None:
        self.fail_after = fail_after
        self.num_drawn = 0
        self.num_requests = 0

    def identity(self) -> dict[str, str]:
        return {"engine": "chain"}

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        for request in requests:
            if self.num_requests == self.fail_after:
                raise RuntimeError("out of luck")
            self.num_requests += 1
            text, ended = "", False
            while len(text) < params.max_new_tokens and not ended:
                byte = hashlib.sha256((request.prompt.text + text).encode()).digest()[0]
                ended = byte < 16  # one in sixteen
                text += chr(ord("a") + byte % 26)
            self.num_drawn += len(text)
            yield Completion(
                key=request.key,
                text=text,
                finish_reason="stop" if ended else "length",
                num_tokens=len(text),
                token_ids=tuple(text.encode()),
                log_probs=(-1.0,) * len(text),
                seconds=1.0,
            )

    def close(self) -> None:
        """Nothing to give back."""


@pytest.fixture
def options(tmp_path) -> EvalOptions:
    rows = [{"id": f"p{i}", "problem": f"{i} + {i}?", "answer": str(2 * i)} for i in range(NUM_PROBLEMS)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = f"repeats: {NUM_SAMPLES}\nmetadata: {{num_problems: {NUM_PROBLEMS}}}\n"
    (tmp_path / "sums.yaml").write_text("task: sums\ndoc_to_text: '{{problem}}'\n" + counts)
    (tmp_path / "script.yaml").write_text("success: 0.5\n")
    return EvalOptions(
        checkpoint=tmp_path / "script.yaml",
        decoding="justrl",
        tasks=(str(tmp_path / "sums.yaml"),),
        out=tmp_path / "run",
        data_dir=tmp_path,
        max_new_tokens=8,
    )


def run(options: EvalOptions) -> dict[SampleKey, Sample]:
    evaluate(options, engine=Chain(), watch=io.StringIO())
    return samples(options.out)


def samples(run_dir: Path) -> dict[SampleKey, Sample]:
    return {sample.key: sample for sample in read_samples(run_dir)}


def go_on(options: EvalOptions, limit: int, engine: Chain | None = None, **more: object) -> dict[SampleKey, Sample]:
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=limit, data_dir=options.data_dir, **more)
    drawn = continue_run(asked, engine=engine or Chain(), watch=io.StringIO())
    return samples(drawn.run_dir)


def test_going_on_gives_what_the_larger_limit_gives(tmp_path, options):
    short = run(options)
    long = run(replace(options, out=tmp_path / "long", max_new_tokens=20))
    cut = [sample for sample in short.values() if sample.finish_reason == "length"]
    assert 0 < len(cut) < len(short)
    engine = Chain()
    found = go_on(options, 20, engine)
    assert {key: replace(s, seconds=None) for key, s in found.items()} == {
        key: replace(s, seconds=None) for key, s in long.items()
    }
    assert engine.num_requests == len(cut)  # nothing that ended was drawn again,
    assert engine.num_drawn == sum(long[s.key].num_tokens - 8 for s in cut)  # and nothing before the cut
    assert samples(options.out) == short  # the old run stays as it is
    sample = next(s for s in found.values() if s.num_tokens > 8)
    assert (sample.sum_log_prob, sample.seconds) == (-sample.num_tokens, 2.0)


def test_the_new_run_is_one_of_the_larger_limit(tmp_path, options):
    run(options)
    go_on(options, 20)
    manifest = load_manifest(tmp_path / "run-20")
    assert manifest.identity.sampling.max_new_tokens == 20
    assert manifest.about.continued_from == ContinuedFrom(run="run", max_new_tokens=8)
    evaluate(  # so it may grow like one
        replace(options, out=tmp_path / "run-20", max_new_tokens=20, samples=4), engine=Chain(), watch=io.StringIO()
    )
    assert len(samples(tmp_path / "run-20")) == NUM_PROBLEMS * 4


def test_interrupted_and_repeated_it_ends_the_same(tmp_path, options):
    run(options)
    expected = go_on(options, 20, out=tmp_path / "whole")
    with pytest.raises(StapoError, match="out of luck"):
        go_on(options, 20, Chain(fail_after=2))
    assert len(samples(tmp_path / "run-20")) < len(expected)
    assert go_on(options, 20) == expected
    engine = Chain()
    assert go_on(options, 20, engine) == expected
    assert engine.num_requests == 0
    assert scan_keys(tmp_path / "run-20", 0)[1] == 0


def test_tasks_without_a_cut_off_sample_are_taken_over_beside_others(tmp_path, options, monkeypatch):
    """Even where they are synced with the first that went on."""
    asked = [
        Request(
            key=SampleKey("e", str(i), 0),
            prompt=Prompt(task="e", problem_id=str(i), text=f"User: e{i}\n\nAssistant:"),
            seed=0,
        )
        for i in range(99)
    ]
    params = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=12)
    ending = next(c.key.problem_id for c in Chain().generate(asked, params) if c.finish_reason == "stop")
    (tmp_path / "ends.jsonl").write_text(json.dumps({"id": "e", "problem": f"e{ending}", "answer": "1"}) + "\n")
    counts = "repeats: 2\nmetadata: {num_problems: 1}\n"
    (tmp_path / "ends.yaml").write_text("task: ends\ndoc_to_text: '{{problem}}'\n" + counts)
    both = replace(options, tasks=(str(tmp_path / "ends.yaml"), *options.tasks), max_new_tokens=12)
    run(both)
    stored = samples(both.out)
    assert {key.task: sample.finish_reason for key, sample in stored.items() if key.task == "ends"} == {"ends": "stop"}
    assert any(sample.finish_reason == "length" for sample in stored.values())
    engine, watch = Chain(), io.StringIO()
    monkeypatch.setattr("stapo_bench.runs.sample_writer.Pace.due", lambda _: engine.num_requests > 0)
    drawn = continue_run(
        ContinueOptions(run_dir=both.out, max_new_tokens=30, data_dir=tmp_path), engine=engine, watch=watch
    )
    assert samples(drawn.run_dir).keys() == stored.keys()
    assert f"{len(stored)} samples are safe" in watch.getvalue()


def test_a_failure_says_what_is_safe_and_a_run_with_gaps_what_it_lacks(tmp_path, options):
    with pytest.raises(StapoError, match="out of luck"):
        evaluate(options, engine=Chain(fail_after=7), watch=io.StringIO())
    assert len(samples(options.out)) == 7
    watch, asked = io.StringIO(), ContinueOptions(run_dir=options.out, max_new_tokens=20, data_dir=tmp_path)
    with pytest.raises(StapoError, match="out of luck"):
        continue_run(asked, engine=Chain(fail_after=1), watch=watch)
    num_safe = len(samples(tmp_path / "run-20"))
    (segment,) = (options.out / "samples").glob("*.jsonl")
    whole = segment.read_bytes()
    segment.write_bytes(whole + b"damage\n")
    with pytest.raises(StapoError, match="damaged line"):
        continue_run(replace(asked, out=tmp_path / "other"), engine=Chain(), watch=watch)
    assert "; 0 of them went on" in watch.getvalue()
    segment.write_bytes(whole)
    assert f"{num_safe} samples are safe in {tmp_path / 'run-20'}; 1 of them went on" in watch.getvalue()
    continue_run(asked, engine=Chain(), watch=watch)
    assert f"{options.out} holds 7 of its 12 samples: 'stapo-bench eval' draws the others" in watch.getvalue()


def test_two_cannot_continue_into_one_run(tmp_path, options, monkeypatch):
    monkeypatch.setattr("stapo_bench.sampling.generate._PATIENCE_S", 0.05)
    run(options)
    with pytest.raises(StapoError, match="out of luck"):
        go_on(options, 20, Chain(fail_after=2))
    with sole_writer(tmp_path / "run-20", "shard0of1"), pytest.raises(StapoError, match="another process is drawing"):
        go_on(options, 20)
    go_on(options, 20)


def test_twice_continued(tmp_path, options):
    run(options)
    go_on(options, 12)
    again = go_on(replace(options, out=tmp_path / "run-12"), 20)
    long = run(replace(options, out=tmp_path / "long", max_new_tokens=20))
    assert {k: s.completion for k, s in again.items()} == {k: s.completion for k, s in long.items()}


def test_a_smaller_limit_or_another_checkpoint_is_refused(tmp_path, options):
    run(options)
    with pytest.raises(StapoError, match="expected more than the run's 8, got 8"):
        go_on(options, 8)

    class Other(Chain):
        def identity(self):
            return {"engine": "other"}

    with pytest.raises(StapoError, match=r"under other settings than its own:\n  engine\.engine: the run has chain"):
        go_on(options, 20, Other())


def test_what_the_context_cut_off_stays_cut_off(tmp_path, options, monkeypatch):
    monkeypatch.setattr(Chain, "context_length", 10, raising=False)
    real = __import__("stapo_bench.sampling.continuation", fromlist=["render_prompts"]).render_prompts
    monkeypatch.setattr(
        "stapo_bench.sampling.evaluation.render_prompts",
        with_ids := lambda *a: [replace(p, token_ids=(1, 2)) for p in real(*a)],
    )
    monkeypatch.setattr("stapo_bench.sampling.continuation.render_prompts", with_ids)
    short = run(options)  # 2 + 8 tokens fill the context
    engine = Chain()
    assert {key: replace(sample, stamp=None) for key, sample in go_on(options, 20, engine).items()} == {
        key: replace(sample, stamp=None) for key, sample in short.items()
    }
    assert engine.num_requests == 0


# -- engines that go on exactly ---------------------------------------------------------------------------------------


def lines(run_dir: Path) -> dict[SampleKey, bytes]:
    """What is stored of each sample, byte for byte, but for its time and the last digits of a sum in another order."""
    return {
        key: sample_to_line(replace(sample, seconds=None, sum_log_prob=round(sample.sum_log_prob or 0.0, 3)))
        for key, sample in samples(run_dir).items()
    }


@pytest.mark.parametrize("name", ["transformers", "scripted"])
def test_cut_at_16_and_continued_to_64_is_the_run_at_64(tmp_path, options, name, monkeypatch):
    if name == "scripted":
        (tmp_path / "script.yaml").write_text("{success: 0.5, median_tokens: 40, truncated: 0.2}")
        checkpoint = tmp_path / "script.yaml"
    else:
        checkpoint = save(random_model(end_ids=range(256, 262)), tmp_path / "model")
    options = replace(options, checkpoint=checkpoint, engine=EngineOptions(name=name), max_new_tokens=16)
    evaluate(options, watch=io.StringIO())
    evaluate(replace(options, out=tmp_path / "long", max_new_tokens=64), watch=io.StringIO())
    for limit in (30, 64):  # a continued run may be continued again
        asked = ContinueOptions(
            run_dir=options.out, max_new_tokens=limit, out=tmp_path / f"at-{limit}", data_dir=tmp_path
        )
        continue_run(asked, watch=io.StringIO())
        options = replace(options, out=tmp_path / f"at-{limit}")
    monkeypatch.setattr(
        "stapo_bench.sampling.engine_cache.open_for", None
    )  # nothing is left to draw: no engine is opened
    again = continue_run(asked, watch=io.StringIO())
    assert (again.run_dir, again.num_sampled) == (tmp_path / "at-64", 0)
    long = lines(tmp_path / "long")
    assert lines(tmp_path / "at-64") == long
    num_tokens = sorted(sample.num_tokens for sample in samples(tmp_path / "long").values())
    assert num_tokens[-1] == 64
    assert any(30 < num < 64 for num in num_tokens)  # the test cuts some twice


def test_an_engine_that_cannot_go_on_refuses_drawn_ids():
    request = Request(key=SampleKey("t", "p", 3), prompt=Prompt(task="t", problem_id="p", text="?"), seed=1)
    refuse_generated_ids(request)
    with pytest.raises(StapoError, match="t/p/3: this engine cannot go on behind drawn ids"):
        refuse_generated_ids(replace(request, generated_ids=(5,)))


def test_what_a_continued_run_reports(tmp_path, options, monkeypatch):
    short = run(options)
    cut = sum(sample.finish_reason == "length" for sample in short.values())
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=20, data_dir=options.data_dir)
    watch = io.StringIO()
    for pace in ("sampling.progress.LOG", "runs.sample_writer.SYNC"):
        monkeypatch.setattr(f"stapo_bench.{pace}_SECONDS", 0.0)
    monkeypatch.setattr("stapo_bench.sampling.progress._SHARE", 1e9)
    monkeypatch.setattr("stapo_bench.runs.sample_writer.SYNC_SHARE", 1e9)
    drawn = continue_run(asked, engine=Chain(), watch=watch)
    assert (drawn.num_sampled, drawn.num_missing, drawn.num_repeated) == (cut, 0, 0)
    told = [line for line in watch.getvalue().splitlines() if "samples/s" in line]
    counts = [re.findall(r"(\d+)/(\d+)", line.partition(" · ")[0]) for line in told]
    assert [sum(int(done) for done, _ in tasks) for tasks in counts] == list(range(1, cut + 1))
    assert all(sum(int(total) for _, total in tasks) == cut for tasks in counts)
    assert not any(" · 0.0 samples/s" in line for line in told)  # counted from where the samples go on
    again = continue_run(asked, engine=Chain(), watch=io.StringIO())
    assert (again.num_sampled, again.num_missing, again.num_repeated) == (0, 0, 0)
    assert again.run_dir == drawn.run_dir == tmp_path / "run-20"


def test_an_engine_is_asked_behind_prompt_and_completion_in_token_ids_too(tmp_path, options, monkeypatch):
    class Noting(Chain):
        asked: ClassVar[list[Request]] = []

        def generate(self, requests, params):
            requests = list(requests)
            self.asked.extend(requests)
            return super().generate(requests, params)

    def with_ids(*arguments):
        return tuple(replace(p, token_ids=tuple(p.text.encode())) for p in render_prompts(*arguments))

    for module in ("evaluation", "continuation"):
        monkeypatch.setattr(f"stapo_bench.sampling.{module}.render_prompts", with_ids)
    short = run(options)
    go_on(options, 20, Noting())
    assert Noting.asked
    for request in Noting.asked:
        assert request.prompt.text.endswith(short[request.key].completion)
        assert request.prompt.token_ids == tuple(request.prompt.text.encode())


class Fixed(Chain):
    """Writes "42. Q: and 7?" as vLLM does: what it drew of a stop text is among the ids, and not in the text."""

    def generate(self, requests, params):
        for request in requests:
            rest = "42. Q: and 7?"[len(request.prompt.text.partition("Assistant:")[2]) :]
            drawn = rest[: params.max_new_tokens]
            ended = any(stop in drawn for stop in params.stop)
            if ended:
                drawn = drawn[: drawn.index("Q:") + 2]
            yield Completion(
                key=request.key,
                text=drawn.removesuffix("Q:") if ended else drawn,
                finish_reason="stop" if ended or drawn == rest else "length",
                num_tokens=len(drawn),
                token_ids=tuple(drawn.encode()),
            )


@pytest.mark.parametrize("limit", [2, 5])  # the stop text behind the cut, and across it
def test_a_joined_sample_ends_before_its_stop_text(options, monkeypatch, limit):
    class Characters:
        def __call__(self, text, **more):
            return {"input_ids": list(text.encode())}

        def decode(self, ids, **more):
            return bytes(ids).decode()

    for module in ("evaluation", "continuation"):
        monkeypatch.setattr(f"stapo_bench.sampling.{module}.load_tokenizer", lambda checkpoint: Characters())
    sampling = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=limit, stop=("Q:",))
    cut = replace(options, sampling=sampling, max_new_tokens=limit)
    evaluate(cut, engine=Fixed(), watch=io.StringIO())
    for sample in go_on(cut, 10, Fixed()).values():
        assert (sample.completion, sample.finish_reason) == ("42. ", "stop")
