"""Thousands of requests open at once from one thread, and what an interruption leaves of them."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from fake_server import PARAMS, QUICK, make_requests, serving

from stapo_bench.engines import http
from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.errors import UsageError

serve = pytest.fixture(serving)


class PatientServer:
    """Answers no request before ``wanted`` of them are open; counts them, and the threads of this process meanwhile."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.open = self.num_threads = 0
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
                    self.num_threads = threading.active_count()
                    self._all_there.set()
                await self._all_there.wait()
        content = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


@pytest.fixture
def patient() -> Iterator[PatientServer]:
    server = PatientServer(500)
    yield server
    server.close()


def test_five_hundred_requests_are_open_at_once_in_one_more_thread(patient):
    engine = OpenAIEngine([patient.url], concurrency=500)
    before = threading.active_count()
    answers = list(engine.generate(make_requests(500), PARAMS))
    assert len({answer.key for answer in answers}) == 500
    assert patient.open == 500
    assert patient.num_threads == before + 1
    assert threading.active_count() == before


def test_what_was_answered_before_an_interruption_is_handed_out(serve, monkeypatch):
    server = serve()
    server.fault = lambda seed, attempt: "answer" if seed < 6 else "hang"
    engine = OpenAIEngine([server.url], retries=QUICK, concurrency=8)
    running = engine.generate(make_requests(8), PARAMS)
    safe = [next(running)]
    while len(server.attempts) < 8:  # the others answer, or hang
        pass
    threading.Event().wait(0.2)
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
