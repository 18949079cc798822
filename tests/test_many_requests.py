"""Thousands of requests open at once from one thread, and what an interruption leaves of them."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
from fake_server import PARAMS, QUICK, make_requests, serving

from stapo_bench.engines import http
from stapo_bench.engines.openai import OpenAIEngine, Retries
from stapo_bench.errors import UsageError

serve = pytest.fixture(serving)


class PatientServer:
    """Answers no request before ``wanted`` of them are open; counts them, and the threads of this process meanwhile."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.open = 0
        self.threads: set[threading.Thread] = set()
        self.url = ""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()], daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._all_there, self._end = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=self.wanted)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        answer = {"data": [{"id": "tiny", "max_model_len": 64}]}
        if head.startswith(b"POST"):
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = json.loads(await reader.readexactly(int(length.split(b":")[1])))
            answer = {"choices": [{"text": "4", "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
            if "prompt" in asked:
                self.open += 1
                if self.open == self.wanted:
                    self.threads = set(threading.enumerate())
                    self._all_there.set()
                await asyncio.wait_for(self._all_there.wait(), 120)
        content = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


@pytest.fixture
def patient() -> Iterator[PatientServer]:
    resource = pytest.importorskip("resource")
    soft, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2048  # both ends of each connection, and what else is open here
    if soft not in range(wanted, hard + 1) and soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))
    server = PatientServer(500)
    yield server
    server.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_five_hundred_requests_are_open_at_once_in_one_more_thread(patient):
    engine = OpenAIEngine([patient.url], concurrency=500, retries=Retries(tries=1))
    before = set(threading.enumerate())
    answers = list(engine.generate(make_requests(500), PARAMS))
    assert len({answer.key for answer in answers}) == 500
    assert patient.open == 500
    assert len(patient.threads - before) == 1
    assert set(threading.enumerate()) <= before


def test_what_was_answered_before_an_interruption_is_handed_out(serve, monkeypatch):
    server = serve()
    server.fault = lambda seed, attempt: "answer" if seed < 6 else "hang"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=8)
    done: SimpleQueue = SimpleQueue()
    monkeypatch.setattr("stapo_bench.engines.openai.SimpleQueue", lambda: done)
    running = engine.generate(make_requests(8), PARAMS)
    safe = [next(running)]
    deadline = time.monotonic() + 15
    while done.qsize() < 5:  # the two others hang
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(KeyboardInterrupt):
        safe.append(running.throw(KeyboardInterrupt))  # as Ctrl-C does while an answer is waited for
        safe += running
    assert {answer.key.problem_id for answer in safe} == {f"p{seed}" for seed in range(6)}


def test_more_requests_than_files_may_be_open_are_refused(serve, monkeypatch):
    resource = pytest.importorskip("resource")
    limits = {"now": (256, 1000)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda which, wanted: limits.update(now=wanted))
    http.make_room(100)
    assert limits["now"] == (256, 1000)
    http.make_room(900)
    assert limits["now"] == (964, 1000)
    with pytest.raises(UsageError, match=r"--slots: expected at most 936 requests at once.*1000 files.*got 937"):
        OpenAIEngine(["http://127.0.0.1:9/v1"], concurrency=937)


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "http://host/v1", None),
        ({"http_proxy": "http://me:p%40w@proxy:3128"}, "http://host:8000/v1", b"proxy:3128 me:p@w"),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "host"}, "http://host:8000/v1", None),
        ({"http_proxy": "proxy:3128"}, "https://host/v1", None),
        ({"https_proxy": "proxy:3128"}, "https://host/v1", b"proxy:3128"),
    ],
)
def test_the_environments_proxy_is_used(monkeypatch, environment, url, proxy):
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = http._proxy(url)
    told = found and b"%b:%d" % (found.url.host, found.url.port) + (b" %b:%b" % found.auth if found.auth else b"")
    assert told == proxy
