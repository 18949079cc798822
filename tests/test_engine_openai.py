"""The client of OpenAI-compatible servers against a server on loopback that fails in every way it can."""

import asyncio
import json
import threading
import time
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from fake_server import PARAMS, QUICK, Handler, make_requests, serving

from stapo_bench.engines import EngineOptions, http, open_engine, servers
from stapo_bench.engines.openai import OpenAIEngine, Retries
from stapo_bench.engines.server_settings import OFF
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


HANGS = pytest.mark.slow(reason="answers that do not come are waited for, five seconds")


@pytest.mark.parametrize("last", ["abort", pytest.param("hang", marks=HANGS)])
def test_every_passing_fault_is_tried_again_and_no_sample_is_lost_or_doubled(serve, last):
    server = serve()
    faults = ["500", "503", "429", "drop", "garbage", "cut", "empty", "abort", last]
    server.fault = lambda seed, attempt: faults[(seed + attempt) % len(faults)] if attempt < seed % 4 else "answer"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=16)
    completions = list(engine.generate(make_requests(60), PARAMS))
    assert sorted(c.key.problem_id for c in completions) == sorted(f"p{seed}" for seed in range(60))
    assert all(c.text == f"answer {c.key.problem_id[1:]}" for c in completions)
    assert server.attempts == Counter({seed: seed % 4 + 1 for seed in range(60)})


def test_retry_after_is_honoured_and_is_no_part_of_a_samples_time(serve):
    server = serve()
    server.fault = lambda seed, attempt: "429" if attempt == 0 else "answer"
    started = time.perf_counter()
    completions = list(OpenAIEngine([server.url], retries=QUICK).generate(make_requests(3), PARAMS))
    waited_and_drawn = time.perf_counter() - started
    assert len(completions) == 3
    assert all(0 < c.seconds <= waited_and_drawn - 0.1 for c in completions)


@pytest.mark.parametrize(
    "value, seconds",
    [
        (None, 0),
        ("2.5", 2.5),
        ("-1", 0),
        ("1e9", http.LONGEST_PAUSE_S),
        ("nan", 0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0),
    ],
)
def test_how_long_a_server_asks_to_wait(value, seconds):
    assert http._retry_after(value) == seconds


@pytest.fixture
def waits(monkeypatch) -> dict[asyncio.Task, list[float]]:
    """The pauses that each worker asked for, which then are none."""
    asked: dict[asyncio.Task, list[float]] = {}
    wait = servers.is_set_within

    async def record(stop: anyio.Event, seconds: float) -> bool:
        asked.setdefault(asyncio.current_task(), []).append(seconds)
        return await wait(stop, 0.001)

    monkeypatch.setattr(servers, "is_set_within", record)
    return asked


def test_pauses_grow_up_to_the_longest_and_differ_between_requests(serve, waits):
    server = serve()
    server.fault = lambda seed, attempt: "500"
    engine = OpenAIEngine([server.url], retries=Retries(tries=9, first_pause_s=1.0, timeout_s=1.0))
    assert len(list(engine.generate(make_requests(2), PARAMS))) == 2
    one, other = waits.values()
    expected = [1, 2, 4, 8, 16, 32, 60, 60]
    for pauses in (one, other):
        assert all(pause <= got <= 1.5 * pause for pause, got in zip(expected, pauses, strict=True))
    assert all(a != b for a, b in zip(one, other, strict=True))
    assert len({got / pause for pause, got in zip(expected, one, strict=True)}) == len(expected)


def test_those_told_the_same_time_do_not_come_back_together_nor_earlier(serve, waits):
    server = serve()
    server.fault = lambda seed, attempt: "429" if attempt == 0 else "answer"  # Retry-After: 0.1
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=20)
    assert len(list(engine.generate(make_requests(20), PARAMS))) == 20
    delays = sorted(delay for delays in waits.values() for delay in delays)
    assert len(set(delays)) == len(delays) == 20
    assert delays[0] >= 0.1
    assert 0.02 < delays[-1] - delays[0] <= 0.05  # of 20 even draws from 0.05 s all but never less


@pytest.mark.parametrize("refusal", ["full", "full503"])
def test_a_server_with_fewer_places_than_requests_answers_them_all(serve, refusal, monkeypatch):
    monkeypatch.setattr(servers, "LONGEST_PAUSE_S", 0.02)
    server = serve()
    used_up = threading.Event()  # nothing is answered before one that is refused has used up its tries

    def fault(seed: int, attempt: int) -> str:
        if attempt > 4:
            used_up.set()
        with server.lock:
            is_kept = server.busy < 4
            server.busy += is_kept
        if not is_kept:
            return refusal
        used_up.wait(20)
        time.sleep(0.02)
        with server.lock:
            server.busy -= 1
        return "answer"

    server.fault = fault
    engine = OpenAIEngine([server.url], retries=Retries(tries=4, first_pause_s=0.01, timeout_s=60), concurrency=12)
    completions = list(engine.generate(make_requests(24), PARAMS))
    assert sorted(c.key.problem_id for c in completions) == sorted(f"p{seed}" for seed in range(24))
    assert {c.finish_reason for c in completions} == {"stop", "length"}
    assert max(server.attempts.values()) > 4


TOLD = pytest.mark.slow(reason="the pauses of requests that are told to wait, once more")


@pytest.mark.parametrize("refusal", ["full", pytest.param("full503", marks=TOLD)])
def test_a_server_that_only_tells_to_wait_ends_the_run(serve, refusal, monkeypatch):
    monkeypatch.setattr(servers, "LONGEST_PAUSE_S", 0.3)
    server = serve()

    def fault(seed: int, attempt: int) -> str:
        time.sleep(0.05)  # some of the 32 are under way at any moment
        return "answer" if seed < 5 else refusal

    server.fault = fault
    engine = OpenAIEngine([server.url], retries=Retries(tries=4, first_pause_s=0.3, timeout_s=20), concurrency=32)
    safe = []
    with pytest.raises(StapoError, match=r"3 requests in a row failed 4 times each.* no place; see to 127"):
        for completion in engine.generate(make_requests(1000), PARAMS):
            safe.append(completion)
    assert {c.key.problem_id for c in safe if c.finish_reason != "error"} == {f"p{seed}" for seed in range(5)}
    # Four, and few more where an answer takes longer than a pause. In the 20 s of the timeout there would be 50.
    assert max(server.attempts.values()) < 30


def test_a_server_that_keeps_requests_and_answers_none_ends_the_run(serve, monkeypatch):
    monkeypatch.setattr(servers, "LONGEST_PAUSE_S", 0.02)
    server = serve()

    def fault(seed: int, attempt: int) -> str:
        with server.lock:
            is_kept = server.busy < 2
            server.busy += is_kept
        if not is_kept:
            return "full"
        time.sleep(0.5)
        with server.lock:
            server.busy -= 1
        return "drop"

    server.fault = fault
    engine = OpenAIEngine([server.url], retries=Retries(tries=20, first_pause_s=0.02, timeout_s=0.6), concurrency=12)
    with pytest.raises(StapoError, match="3 requests in a row failed 20 times each"):
        list(engine.generate(make_requests(1000), PARAMS))
    # In 0.6 s, with pauses of 0.02 s and more, 30 tries do not count; 20 do. If one alone counted for each 0.5 s in
    # which something is kept, there would be hundreds.
    assert max(server.attempts.values()) <= 50


def test_one_request_that_is_always_told_to_wait_is_given_up_in_the_end(serve, monkeypatch):
    monkeypatch.setattr(servers, "LONGEST_PAUSE_S", 0.02)
    server = serve()
    server.fault = lambda seed, attempt: "full" if seed == 5 else "slow"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=4)
    completions = {c.key.problem_id: c for c in engine.generate(make_requests(40), PARAMS)}
    assert len(completions) == 40
    assert {name for name, c in completions.items() if c.finish_reason == "error"} == {"p5"}
    assert server.attempts[5] > QUICK.tries


@pytest.mark.parametrize("action", ["500", "503"])
def test_a_request_that_always_fails_is_given_up_and_said_to_be(serve, action):
    server = serve()
    server.fault = lambda seed, attempt: action if seed == 5 else "slow"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=4)
    completions = {c.key.problem_id: c for c in engine.generate(make_requests(40), PARAMS)}
    assert len(completions) == 40
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
    server.slow_s = 0.1  # long enough for three to meet
    server.fault = lambda seed, attempt: "slow"
    list(OpenAIEngine([server.url], concurrency=3).generate(make_requests(20), PARAMS))
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
    engine = open_engine(EngineOptions(name="openai", base_urls=(server.url,), model="tiny", slots=2), tmp_path)
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
    assert time.perf_counter() - started < 25  # the pause is 30 s
    assert len(server.attempts) <= 3


def test_a_prompt_beyond_the_context_is_refused_before_anything_is_sent(serve):
    server = serve()
    engine = OpenAIEngine([server.url])
    assert engine.context_length == 64
    with pytest.raises(StapoError, match=r"problem p0: expected a prompt of 1 to 63 tokens .*got 64"):
        engine.generate(make_requests(100)[1:] + make_requests(1, num_prompt=64), PARAMS)
    assert not server.bodies


def test_waiting_requests_share_their_prompt(serve):
    (first,) = make_requests(1, num_prompt=1000)
    requests = [replace(first, key=first.key._replace(sample_index=index), seed=index) for index in range(1000)]
    engine = OpenAIEngine([serve({"id": "tiny"}).url], concurrency=1)
    tracemalloc.start()
    try:
        running = engine.generate(requests, PARAMS)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(requests) < 100  # bytes; a copy of the prompt alone takes 8000
    assert next(running).num_tokens == 1
    running.close()


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
    with pytest.raises(StapoError, match=r"OpenAI-compatible server .* got none at 127\.0\.0\.1:9: "):
        OpenAIEngine(["http://127.0.0.1:9/v1"], retries=QUICK)
    with pytest.raises(UsageError, match="at least one --base-url"):
        OpenAIEngine([])


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gpu1:8000/v1",
        "http:///v1",
        "http://:8000/v1",
        "http://gpu1:80o0/v1",
        "http://gpu1:0/v1",
        "http://gpu1:65536/v1",
        "http://[gpu1/v1",
    ],
)
def test_what_is_no_address_is_a_mistake_of_usage(url):
    with pytest.raises(UsageError, match=r"--base-url: expected http:// or https://, a host") as caught:
        OpenAIEngine(["http://127.0.0.1:9/v1", url])
    assert url in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pa55@127.0.0.1:9/v1",
        "http://user:pa55/word@127.0.0.1:9/v1",
        "http://pa55@127.0.0.1:80o0/v1",
        "user:pa55@127.0.0.1:9/v1",
        "ftp://user:pa55@[127.0.0.1/v1",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(url):
    with pytest.raises(UsageError, match=r"without user and password.* read from OPENAI_API_KEY") as caught:
        OpenAIEngine([url])
    assert "pa55" not in str(caught.value)


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
