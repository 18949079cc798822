"""Servers whose answers never end, or nest without end, in every part that an answer has: each is given up in time."""

import itertools
import ssl
import time
import tracemalloc

import anyio
import pytest
from fake_server import PARAMS, QUICK, Handler, make_requests, serving

from stapo_bench.engines.http import Http, PassingError
from stapo_bench.engines.openai import OpenAIEngine, Retries
from stapo_bench.errors import StapoError

serve = pytest.fixture(serving)

IMPATIENT = Retries(tries=2, first_pause_s=0.001, timeout_s=0.15)


def impatient(url: str) -> OpenAIEngine:
    """An engine that has 0.15 s for an answer, and is patient while it is opened: a busy machine may take longer."""
    engine = OpenAIEngine([url], retries=QUICK)
    engine._http._longest_s = IMPATIENT.timeout_s
    engine._servers._retries = IMPATIENT
    return engine


ONE_BY_ONE = itertools.repeat(b"x")
CONTINUE = itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")
HEADERS = itertools.repeat(b"X: y\r\n")
MANY_HEADERS = itertools.repeat(b"X: y\r\n" * 256)
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

ENDLESS = {
    "a status line, byte by byte": (b"HTTP/1.1 ", ONE_BY_ONE),
    "100 Continue, again and again": (b"", CONTINUE),
    "100 Continue with a header that goes on": (b"HTTP/1.1 100 Continue\r\nX: ", ONE_BY_ONE),
    "a header, byte by byte": (OK + b"X: ", ONE_BY_ONE),
    "headers, one by one": (OK, HEADERS),
    "a body, byte by byte": (OK + b"\r\n", ONE_BY_ONE),
    "a chunk's size": (CHUNKED, itertools.repeat(b"0")),
    "chunks of a byte": (CHUNKED, itertools.repeat(b"1\r\nx\r\n")),
    "headers behind the last chunk": (CHUNKED + b"0\r\n", HEADERS),
    "the page of an error": (b"HTTP/1.1 500 No\r\nContent-Length: 900\r\n\r\n", ONE_BY_ONE),
}

MORE = pytest.mark.slow(reason="two seconds for each place where an answer may have no end")


def sends(start, parts, pause_s):
    """A server's act: the start, then part after part until the client has gone."""

    def act(handler, *_) -> None:
        handler.close_connection = True
        try:
            handler.wfile.write(start)
            for part in parts:
                handler.wfile.write(part)
                handler.wfile.flush()
                time.sleep(pause_s)
        except OSError:
            return

    return act


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=[] if what in ("headers, one by one", "a chunk's size") else MORE) for what in ENDLESS],
)
@pytest.mark.parametrize("pause_s", [0.0, 0.05])  # at once, and so slowly that no two bytes are far apart
def test_an_answer_that_never_ends_is_given_up_in_time_and_in_little_memory(serve, monkeypatch, what, pause_s):
    monkeypatch.setattr("stapo_bench.engines.http.LARGEST_ANSWER", 1 << 20)
    server = serve()
    monkeypatch.setattr(Handler, "act", sends(*ENDLESS[what], pause_s))
    engine = impatient(server.url)
    started = time.perf_counter()
    tracemalloc.start()
    (completion,) = engine.generate(make_requests(1), PARAMS)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert completion.finish_reason == "error"
    assert time.perf_counter() - started < 60  # two tries of 0.15 s, on a machine that others use
    assert most < 16 << 20


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
    engine = OpenAIEngine([server.url], retries=Retries(tries=2, first_pause_s=0.001, timeout_s=0.2))
    (completion,) = engine.generate(make_requests(1), PARAMS)
    assert completion.finish_reason == "error"
    assert time.perf_counter() - started < 60  # two tries of 0.2 s; the answer has no end


def test_an_answer_nested_without_end_is_none(serve, monkeypatch):
    server = serve()
    monkeypatch.setattr(Handler, "act", lambda handler, action, seed: handler.reply(200, b"[" * 200_000))
    (completion,) = OpenAIEngine([server.url], retries=QUICK).generate(make_requests(1), PARAMS)
    assert completion.finish_reason == "error"


def test_a_list_of_models_that_never_ends_is_one_line(serve, monkeypatch):
    server = serve()
    monkeypatch.setattr(Handler, "do_GET", sends(*ENDLESS["100 Continue, again and again"], 0.05))
    started = time.perf_counter()
    with pytest.raises(StapoError, match=r"no whole answer after 0\.15 s.*start it or leave it out"):
        OpenAIEngine([server.url], retries=IMPATIENT)
    assert time.perf_counter() - started < 25  # 30 s without our timeout


def test_a_body_larger_than_any_head_is_read(serve):
    server = serve()  # h11 reads heads of up to 100 KiB
    server.models[0]["notes"] = "x" * (1 << 18)
    assert OpenAIEngine([server.url], retries=QUICK).context_length == 64


@pytest.mark.parametrize(
    ("start", "parts"),
    [(b"", itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 64)), (CHUNKED + b"0\r\n", MANY_HEADERS)],
    ids=["100 Continue, again and again", "headers behind the last chunk"],
)
def test_an_answer_of_too_many_bytes_is_given_up_before_its_time_is_over(serve, monkeypatch, start, parts):
    monkeypatch.setattr("stapo_bench.engines.http.LARGEST_ANSWER", 1 << 16)
    server = serve()
    monkeypatch.setattr(Handler, "act", sends(start, parts, 0.0))
    engine = OpenAIEngine([server.url], retries=Retries(tries=1, first_pause_s=0.001, timeout_s=60.0))
    with pytest.raises(StapoError, match=r"failed 1 times each.*an answer, or its head, of more than 64 KiB"):
        list(engine.generate(make_requests(3), PARAMS))


def test_no_question_before_the_first_sample_takes_longer_than_a_try_may(serve, monkeypatch):
    server = serve()
    monkeypatch.setattr(Handler, "act", sends(*ENDLESS["100 Continue, again and again"], 0.05))
    engine = impatient(server.url)
    started = time.perf_counter()
    assert engine.probe(make_requests(1)[0], PARAMS) == []
    assert time.perf_counter() - started < 50  # one of 0.15 s: the probe gives way; without it 60 s


def test_an_end_that_could_be_the_beginning_of_a_key_is_hidden_from_its_fourth_letter_on():
    masked = Http("sk-secret").masked
    assert [masked("got sk-secret"[:length]) for length in (7, 8, 12, 13)] == ["got sk-", *["got ***"] * 3]
    assert masked("sk-secret, twice: sk-secret") == "***, twice: ***"


def test_certificates_are_read_once_and_only_where_an_address_has_tls(serve, monkeypatch):
    made, original = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: made.append(original()) or made[-1])
    http, url = Http(None), f"{serve().url}/models"
    assert anyio.run(http.send, url, None, 30.0) and made == []
    for _ in range(2):  # the server speaks no TLS
        with pytest.raises(PassingError, match="SSL"):
            anyio.run(http.send, url.replace("http://", "https://"), None, 30.0)
    assert len(made) == 1 and made[0].verify_mode == ssl.CERT_REQUIRED and made[0].check_hostname
