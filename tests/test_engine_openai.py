"""The client of OpenAI-compatible servers against a server on loopback that fails in every way it can."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from fake_server import PARAMS, QUICK, Handler, make_requests, serving

from stapo_bench.engines import open_engine
from stapo_bench.engines.openai import OFF, OpenAIEngine, Retries
from stapo_bench.errors import StapoError, UsageError

KEY = "sk-very-secret"

serve = pytest.fixture(serving)


def test_what_goes_out_and_what_comes_back(serve):
    server = serve()
    engine = OpenAIEngine([server.url + "/"], api_key=KEY)
    completions = {c.key.problem_id: c for c in engine.generate(make_requests(20), PARAMS)}
    assert len(completions) == 20
    assert completions["p4"].text == "answer 4"
    assert (completions["p4"].finish_reason, completions["p4"].num_tokens) == ("stop", 5)
    assert completions["p3"].finish_reason == "length"
    body = next(body for body in server.bodies if body["seed"] == 4)
    # 64 positions less 4 of the prompt: fewer than the 100 asked for.
    expected = {"model": "tiny", "prompt": [1, 1, 1, 1], "max_tokens": 60, "temperature": 0.7, "top_p": 0.9, "seed": 4}
    assert body == {**expected, **OFF, "return_token_ids": True}
    assert (OFF["top_k"], OFF["min_p"], OFF["repetition_penalty"]) == (-1, 0.0, 1.0)
    assert server.keys == {f"Bearer {KEY}"}
    identity = engine.identity()
    assert identity["model"] == "tiny"
    assert KEY not in str(identity)
    assert server.url not in str(identity)


def test_every_passing_fault_is_tried_again_and_no_sample_is_lost_or_doubled(serve):
    server = serve()
    faults = ["500", "503", "429", "drop", "garbage", "cut", "empty", "abort", "hang"]
    server.fault = lambda seed, attempt: faults[(seed + attempt) % len(faults)] if attempt < seed % 4 else "answer"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=16)
    completions = list(engine.generate(make_requests(60), PARAMS))
    assert sorted(c.key.problem_id for c in completions) == sorted(f"p{seed}" for seed in range(60))
    assert all(c.text == f"answer {c.key.problem_id[1:]}" for c in completions)
    assert server.attempts == Counter({seed: seed % 4 + 1 for seed in range(60)})


def test_retry_after_is_honoured(serve):
    server = serve()
    server.fault = lambda seed, attempt: "429" if attempt == 0 else "answer"
    started = time.perf_counter()
    assert len(list(OpenAIEngine([server.url], retries=QUICK).generate(make_requests(3), PARAMS))) == 3
    assert time.perf_counter() - started >= 0.1


def test_a_request_that_always_fails_is_given_up_and_said_to_be(serve):
    server = serve()
    server.fault = lambda seed, attempt: "500" if seed == 5 else "answer"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=1)
    completions = {c.key.problem_id: c for c in engine.generate(make_requests(10), PARAMS)}
    assert len(completions) == 10
    assert {name for name, c in completions.items() if c.finish_reason == "error"} == {"p5"}
    assert completions["p5"].text == ""
    assert server.attempts[5] == QUICK.tries


def test_servers_that_are_gone_stop_the_run_after_what_was_answered(serve):
    server = serve()
    server.fault = lambda seed, attempt: "answer" if seed < 5 else "503"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=2, api_key=KEY)
    safe = []
    with pytest.raises(StapoError, match="3 requests in a row failed 4 times each") as caught:
        for completion in engine.generate(make_requests(1000), PARAMS):
            safe.append(completion)
    assert {c.key.problem_id for c in safe if c.finish_reason != "error"} == {f"p{seed}" for seed in range(5)}
    assert len(server.attempts) < 20
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refusal_is_not_repeated_and_the_key_stays_secret(serve):
    for action in ("400", "401", "redirect"):
        server = serve()

        def fault(seed: int, attempt: int, action: str = action) -> str:
            if seed == 2:
                time.sleep(0.1)  # until the others are on their way, on a busy machine too
            return action if seed == 2 else "slow"

        server.fault = fault
        engine = OpenAIEngine([server.url], retries=QUICK, concurrency=4, api_key=KEY)
        safe = []
        with pytest.raises(StapoError, match="refuses the request") as caught:
            for completion in engine.generate(make_requests(500), PARAMS):
                safe.append(completion.key.problem_id)
        assert {"p0", "p1", "p3"} <= set(safe)  # in flight when it happened, and not thrown away
        assert server.attempts[2] == 1
        assert KEY not in str(caught.value) + repr(caught.value.__cause__)


def test_concurrency_is_bounded(serve):
    server = serve()
    server.fault = lambda seed, attempt: "slow"
    list(OpenAIEngine([server.url], concurrency=3).generate(make_requests(40), PARAMS))
    assert server.busiest == 3


def test_token_ids_are_kept_where_the_server_gives_them(serve):
    server = serve()
    server.fault = lambda seed, attempt: "ids"
    (completion,) = OpenAIEngine([server.url]).generate(make_requests(1), PARAMS)
    assert completion.token_ids == (5, 6, 7)
    assert completion.num_tokens == 3


def test_opened_by_name_with_the_key_from_the_environment(serve, monkeypatch, tmp_path: Path):
    server = serve()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    engine = open_engine("openai", tmp_path, base_urls=[server.url], model="tiny", slots=2)
    assert len(list(engine.generate(make_requests(3), PARAMS))) == 3
    assert server.keys == {f"Bearer {KEY}"}


def test_closing_early_ends_quickly(serve):
    server = serve()
    server.fault = lambda seed, attempt: "answer" if seed == 0 else "503"
    patient = Retries(tries=9, first_pause_s=30.0, timeout_s=5.0)
    running = OpenAIEngine([server.url], retries=patient, concurrency=2).generate(make_requests(10), PARAMS)
    next(running)
    started = time.perf_counter()
    running.close()
    assert time.perf_counter() - started < 1
    assert len(server.attempts) <= 3


def test_a_prompt_beyond_the_context_is_refused_before_anything_is_sent(serve):
    server = serve()
    engine = OpenAIEngine([server.url])
    assert engine.context_length == 64
    with pytest.raises(StapoError, match=r"problem p0: expected a prompt of 1 to 63 tokens .*got 64"):
        engine.generate(make_requests(1, num_prompt=64), PARAMS)
    assert not server.bodies


def test_models_are_asked_for_and_named(serve):
    two = serve({"id": "base"}, {"id": "tuned"})
    with pytest.raises(StapoError, match=r"expected one model \(name it with --model\), got base, tuned"):
        OpenAIEngine([two.url])
    with pytest.raises(StapoError, match="expected model other, got base, tuned"):
        OpenAIEngine([two.url], model="other")
    assert OpenAIEngine([two.url], model="tuned").identity()["model"] == "tuned"
    with pytest.raises(StapoError, match="different models, base and tuned"):
        OpenAIEngine([serve({"id": "base"}).url, serve({"id": "tuned"}).url])


def test_addresses_that_cannot_work_are_refused():
    with pytest.raises(StapoError, match=r"OpenAI-compatible server .* got none at 127\.0\.0\.1:9: ") as caught:
        OpenAIEngine(["http://user:password@127.0.0.1:9/v1"], retries=QUICK)
    assert "password" not in str(caught.value)
    with pytest.raises(UsageError, match="expected http"):
        OpenAIEngine(["file:///etc/passwd"])
    with pytest.raises(UsageError, match="at least one --base-url"):
        OpenAIEngine([])


@pytest.mark.parametrize(
    "reply",
    [
        {"usage": {"completion_tokens": float("inf")}},
        {"usage": {"completion_tokens": -1}},
        {"usage": {"completion_tokens": "5"}},
        {"token_ids": "abc"},
        {"token_ids": [1, -1]},
        {"token_ids": [True]},
    ],
)
def test_counts_that_are_none_are_no_answer(serve, reply, monkeypatch):
    server = serve()
    choice = {"text": "x", "finish_reason": "stop"} | {k: v for k, v in reply.items() if k == "token_ids"}
    content = json.dumps({"choices": [choice], "usage": reply.get("usage")}).encode()
    monkeypatch.setattr(Handler, "act", lambda handler, action, seed: handler.reply(200, content))
    (completion,) = OpenAIEngine([server.url], retries=QUICK).generate(make_requests(1), PARAMS)
    assert completion.finish_reason == "error"


@pytest.mark.parametrize("part", [b" ", b"x" * 65536])
def test_an_answer_that_never_ends_is_given_up(serve, part, monkeypatch):
    def never_end(handler, action, seed):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(part)
            time.sleep(0.02)

    server = serve()
    monkeypatch.setattr(Handler, "act", never_end)
    monkeypatch.setattr("stapo_bench.engines.http.LARGEST_ANSWER", 1 << 18)
    started = time.perf_counter()
    engine = OpenAIEngine([server.url], retries=Retries(tries=2, first_pause_s=0.001, timeout_s=0.5))
    (completion,) = engine.generate(make_requests(1), PARAMS)
    assert completion.finish_reason == "error"
    assert time.perf_counter() - started < 5


def test_an_answer_nested_without_end_is_none(serve, monkeypatch):
    server = serve()
    monkeypatch.setattr(Handler, "act", lambda handler, action, seed: handler.reply(200, b"[" * 200_000))
    (completion,) = OpenAIEngine([server.url], retries=QUICK).generate(make_requests(1), PARAMS)
    assert completion.finish_reason == "error"
