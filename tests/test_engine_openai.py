"""The client of OpenAI-compatible servers against a server on loopback that fails in every way it can.

Run as a script it is a server in a process of its own that prints its address: ``test_engine_openai.py DIES_AFTER``.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from eval_setup import NUM_PROBLEMS, NUM_SAMPLES, make_options

from stapo_bench import cli
from stapo_bench.engines import open_engine, openai
from stapo_bench.engines.openai import OFF, OpenAIEngine, Retries
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.store import scan_keys

KEY = "sk-very-secret"
PARAMS = SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=100)
QUICK = Retries(tries=4, first_pause_s=0.001, timeout_s=1.0)

Fault = Callable[[int, int], str]  # (seed, attempt) -> what to do


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, models: list[dict], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.models = models
        self.fault: Fault = lambda seed, attempt: "answer"
        self.bodies: list[dict] = []
        self.attempts: Counter[int] = Counter()
        self.keys: set[str | None] = set()
        self.busy = self.busiest = 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address) -> None:
        """A client that went away is part of the test."""


class Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def log_message(self, *arguments) -> None:
        pass

    def reply(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.get("length", str(len(content))))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.server.keys.add(self.headers["Authorization"])
        self.reply(200, json.dumps({"data": self.server.models}).encode())

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seed = body["seed"]
        with server.lock:
            server.bodies.append(body)
            attempt = server.attempts[seed]
            server.attempts[seed] += 1
            server.keys.add(self.headers["Authorization"])
        self.act(server.fault(seed, attempt), seed)

    def work_for(self, seconds: float) -> None:
        server = self.server
        with server.lock:
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
        time.sleep(seconds)
        with server.lock:
            server.busy -= 1

    def act(self, action: str, seed: int) -> None:
        choice = {"text": f"answer {seed}", "finish_reason": "stop" if seed % 3 else "length"}
        answer = {"choices": [choice], "usage": {"completion_tokens": seed % 7 + 1}}
        if action == "hang":
            time.sleep(1.5)
        elif action == "slow":
            self.work_for(0.02)
        if action in ("500", "503", "400", "401"):
            self.reply(int(action), f"no, says {self.headers['Authorization']}".encode())
        elif action == "429":
            self.reply(429, b"slow down", Retry_After="0.1")
        elif action == "drop":
            self.close_connection = True
        elif action == "garbage":
            self.reply(200, b"<html>gateway</html>")
        elif action == "cut":
            self.reply(200, json.dumps(answer).encode()[:20], length="500")
        elif action == "empty":
            self.reply(200, json.dumps({"choices": []}).encode())
        elif action == "abort":
            self.reply(200, json.dumps(answer | {"choices": [choice | {"finish_reason": "abort"}]}).encode())
        elif action == "ids":
            self.reply(200, json.dumps({"choices": [choice | {"token_ids": [5, 6, 7]}]}).encode())
        elif action == "redirect":
            self.reply(302, b"", Location="http://127.0.0.1:9/v1/completions")
        else:
            self.reply(200, json.dumps(answer).encode())


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeServer]]:
    servers = []

    def start(*models: dict) -> FakeServer:
        server = FakeServer(list(models) or [{"id": "tiny", "max_model_len": 64}])
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def make_requests(count: int, num_prompt: int = 4) -> list[Request]:
    return [
        Request(
            key=SampleKey("t", f"p{seed}", 0),
            prompt=Prompt(task="t", problem_id=f"p{seed}", text="?", token_ids=(1,) * num_prompt),
            seed=seed,
        )
        for seed in range(count)
    ]


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


def test_requests_take_turns_and_move_on_from_a_dead_server(serve):
    servers = [serve(), serve()]
    engine = OpenAIEngine([server.url for server in servers], retries=QUICK)
    assert len(list(engine.generate(make_requests(40), PARAMS))) == 40
    assert [len(server.bodies) for server in servers] == [20, 20]
    servers[0].shutdown()
    servers[0].server_close()
    assert {c.finish_reason for c in engine.generate(make_requests(40), PARAMS)} == {"stop", "length"}


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


def test_a_dead_server_is_passed_over_at_once_and_taken_back(serve):
    servers = [serve(), serve()]
    patient = Retries(tries=9, first_pause_s=30.0, rest_s=0.5, timeout_s=5.0)
    engine = OpenAIEngine([server.url for server in servers], retries=patient, concurrency=4)
    asked: Counter[str] = Counter()
    send = engine._http.send

    def counting(url, body, timeout_s):
        asked[url.removesuffix("/completions")] += 1
        return send(url, body, timeout_s)

    engine._http.send = counting
    servers[0].shutdown()
    servers[0].server_close()
    started = time.perf_counter()
    assert {c.finish_reason for c in engine.generate(make_requests(200), PARAMS)} == {"stop", "length"}
    assert time.perf_counter() - started < 5  # no request waited for its pause
    assert asked[servers[1].url] == 200
    assert 1 <= asked[servers[0].url] < 30  # of the 100 whose turn it was
    servers[1].fault = lambda seed, attempt: "slow"  # there is work left when the first has answered again
    back = FakeServer(servers[0].models, port=servers[0].server_address[1])
    threading.Thread(target=back.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    time.sleep(0.55)
    try:
        assert len(list(engine.generate(make_requests(40), PARAMS))) == 40
        assert 1 < len(back.bodies) <= 20
    finally:
        back.shutdown()
        back.server_close()


@pytest.fixture
def start_process() -> Iterator[Callable[..., str]]:
    """Starts servers in processes of their own, each killed at its n-th request: what it was answering is cut off."""
    running: list[subprocess.Popen] = []

    def start(dies_after: int = 1_000_000) -> str:
        command = [sys.executable, __file__, str(dies_after)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return running[-1].stdout.readline().strip()

    yield start
    for process in running:
        process.kill()
        process.communicate()


def draw(folder: Path, urls: list[str], capsys, monkeypatch) -> tuple[int, list[str]]:
    """`stapo-bench eval` of two tasks at these servers: its exit code and what it said in the end."""
    options = make_options(folder)
    arguments = ["stapo-bench", "eval", "--engine", "openai", "--ckpt", options.checkpoint, "--decoding", "justrl"]
    arguments += ["--tasks", ",".join(options.tasks), "--data-dir", folder, "--out", options.out, "--slots", 8]
    arguments += ["--max-new-tokens", 16]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments), *(part for url in urls for part in ("--base-url", url))])
    monkeypatch.setattr(openai, "Retries", lambda: QUICK)
    code = 0
    try:
        cli.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr().err.splitlines()


def keys_of(run_dir: Path) -> list[SampleKey]:
    """The keys in a run's files, which hold none of them twice."""
    found: list[SampleKey] = []
    _, num_repeated = scan_keys(run_dir, 0, lambda sample: found.append(sample.key))
    assert num_repeated == 0
    return sorted(found)


EVERY_KEY = sorted(
    SampleKey(task, f"{task}-{problem}", index)
    for task in ("one", "two") for problem in range(NUM_PROBLEMS) for index in range(NUM_SAMPLES)
)  # fmt: skip


def test_one_of_two_servers_killed_mid_run_costs_nothing(start_process, tmp_path, capsys, monkeypatch):
    urls = [start_process(dies_after=30), start_process()]
    code, said = draw(tmp_path, urls, capsys, monkeypatch)
    assert code == 0, said
    assert keys_of(tmp_path / "run") == EVERY_KEY
    with pytest.raises(StapoError, match="1 of 2 answer"):  # it is dead indeed
        OpenAIEngine(urls, retries=QUICK)


def test_both_servers_killed_is_one_line_and_the_run_goes_on_later(start_process, tmp_path, capsys, monkeypatch):
    urls = [start_process(dies_after=30) for _ in range(2)]
    code, said = draw(tmp_path, urls, capsys, monkeypatch)
    assert code == 1
    assert sum(line.startswith("stapo-bench: ") for line in said) == 1
    assert "requests in a row failed" in said[-1]
    safe = keys_of(tmp_path / "run")
    assert 0 < len(safe) < 60  # each server saw 30 requests, and died at the last
    assert set(safe) < set(EVERY_KEY)

    code, said = draw(tmp_path, [urls[0], start_process()], capsys, monkeypatch)
    address = urls[0].removeprefix("http://").removesuffix("/v1")
    assert code == 1
    assert f"got none at {address}: " in said[-1]
    assert "(1 of 2 answer); start it or leave it out" in said[-1]

    code, said = draw(tmp_path, [start_process()], capsys, monkeypatch)
    assert code == 0, said
    assert keys_of(tmp_path / "run") == EVERY_KEY


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


def mortal(dies_after: int) -> FakeServer:
    server = FakeServer([{"id": "tiny", "max_model_len": 64}])

    def fault(seed: int, attempt: int) -> str:
        if len(server.bodies) >= dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return "slow"

    server.fault = fault
    return server


if __name__ == "__main__":
    mine = mortal(int(sys.argv[1]))
    print(mine.url, flush=True)
    mine.serve_forever(poll_interval=0.01)
