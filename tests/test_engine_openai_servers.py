"""The client of OpenAI-compatible servers against several, of which some die, are killed or come back."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eval_setup import NUM_PROBLEMS, NUM_SAMPLES, make_options
from fake_server import PARAMS, QUICK, FakeServer, leave, make_requests, serving

from stapo_bench import cli
from stapo_bench.engines import openai
from stapo_bench.engines.http import Http
from stapo_bench.engines.openai import OpenAIEngine, Retries
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import SampleKey
from stapo_bench.runs.store import scan_keys

serve = pytest.fixture(serving)


def test_requests_take_turns_and_move_on_from_a_dead_server(serve):
    servers = [serve(), serve()]
    engine = OpenAIEngine([server.url for server in servers], retries=QUICK)
    assert len(list(engine.generate(make_requests(40), PARAMS))) == 40
    assert [len(server.bodies) for server in servers] == [20, 20]
    with leave(servers[0]):
        assert {c.finish_reason for c in engine.generate(make_requests(40), PARAMS)} == {"stop", "length"}


def test_a_dead_server_is_passed_over_at_once_and_taken_back(serve):
    servers = [serve(), serve()]
    patient = Retries(tries=9, first_pause_s=30.0, rest_s=0.5, timeout_s=60.0)
    engine = OpenAIEngine([server.url for server in servers], retries=patient, concurrency=4)
    asked: Counter[str] = Counter()
    send = engine._http.send
    is_back = threading.Event()

    async def counting(url, body, timeout_s):
        base = url.removesuffix("/completions")
        asked[base] += 1
        answer = await send(url, body, timeout_s)
        if base == servers[0].url:
            is_back.set()
        return answer

    def fault(seed: int, attempt: int) -> str:
        is_back.wait(20)  # there is work left when the first has answered again
        return "answer"

    engine._http.send = counting
    with leave(servers[0]):
        started = time.perf_counter()
        assert {c.finish_reason for c in engine.generate(make_requests(200), PARAMS)} == {"stop", "length"}
        seconds = time.perf_counter() - started
        assert seconds < 20  # no request waited for its pause
        assert asked[servers[1].url] == 200
        # Of the 100 whose turn it was those of four at first, and then one each half second.
        assert 1 <= asked[servers[0].url] <= 4 + seconds / 0.5
        servers[1].fault = fault
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
        command = [sys.executable, str(Path(__file__).with_name("fake_server.py")), str(dies_after)]
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


@pytest.mark.slow(reason="two servers in processes of their own, one killed")
def test_one_of_two_servers_killed_mid_run_costs_nothing(start_process, tmp_path, capsys, monkeypatch):
    urls = [start_process(dies_after=30), start_process()]
    code, said = draw(tmp_path, urls, capsys, monkeypatch)
    assert code == 0, said
    assert keys_of(tmp_path / "run") == EVERY_KEY
    with pytest.raises(StapoError, match="1 of 2 answer"):  # it is dead indeed
        OpenAIEngine(urls, retries=QUICK)


@pytest.mark.slow(reason="four servers in processes of their own, two killed")
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


# -- servers that are not what is needed ------------------------------------------------------------------------------


def test_a_server_that_only_chats_is_named_before_a_sample_is_asked_for(serve):
    server = serve()
    server.chats_only = True
    expected = r"speaks /v1/chat/completions only, .*: --chat asks it that way; vllm serve, SGLang"
    with pytest.raises(StapoError, match=expected):
        OpenAIEngine([server.url], retries=QUICK)
    assert server.bodies == []


def test_an_address_without_its_version_is_completed(serve):
    server = serve()
    short = server.url.removesuffix("/v1")
    with pytest.raises(StapoError, match=rf"--base-url ends before the version: expected {short}/v1"):
        OpenAIEngine([short], retries=QUICK)
    with pytest.raises(StapoError, match=r"expected an OpenAI-compatible server with /models .* HTTP 404 not here"):
        OpenAIEngine([short + "/v2"], retries=QUICK)


@pytest.mark.parametrize(("key", "words"), [(None, "it is not set"), ("wrong", "the key in it is not accepted")])
def test_a_refused_key_names_its_variable(serve, key, words):
    server = serve()
    server.fault = lambda seed, attempt: "401"
    engine = OpenAIEngine([server.url], api_key=key, retries=QUICK)
    with pytest.raises(StapoError, match=f"the key is read from the environment variable OPENAI_API_KEY: {words}"):
        list(engine.generate(make_requests(1), PARAMS))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", " "])
def test_what_files_add_around_a_key_is_no_part_of_it(serve, end):
    server = serve()
    OpenAIEngine([server.url], api_key=f" sk-secret{end}", retries=QUICK)
    assert server.keys == {"Bearer sk-secret"}
    OpenAIEngine([server.url], api_key=end, retries=QUICK)
    assert server.keys == {"Bearer sk-secret", None}


@pytest.mark.parametrize("within", ["\r", "\n", "\0", "\x1b", " ", "\u2026"])
def test_a_key_that_no_header_holds_is_refused_and_not_shown(within):
    with pytest.raises(UsageError, match="OPENAI_API_KEY: expected a key of visible ASCII") as caught:
        Http(f"sk-secret{within}tail")
    assert "secret" not in str(caught.value) and "tail" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "masked"),
    [
        ("sk-secret", "no, says Bearer sk-secret.", "no, says Bearer ***."),
        ("sk-se\\cret", r"Illegal header value b'Bearer sk-se\\cret'", "Illegal header value b'Bearer ***'"),
        ("sk-secret", "a page that is cut off: sk-secr", "a page that is cut off: ***"),
        ("sk-secret", "a task-", "a task-"),
    ],
)
def test_no_way_to_write_a_key_is_shown(key, text, masked):
    assert Http(key).masked(text) == masked


def test_a_server_that_counts_another_prompt_is_refused(serve):
    server = serve()
    engine = OpenAIEngine([server.url], retries=QUICK)
    server.prompt_tokens = 4
    assert len(list(engine.generate(make_requests(3, num_prompt=4), PARAMS))) == 3
    server.prompt_tokens = 5  # a BOS token more
    with pytest.raises(
        StapoError, match=r"expected a prompt of the 4 tokens that were sent, the server counts 5: it has"
    ):
        list(engine.generate(make_requests(3, num_prompt=4), PARAMS))


def test_a_server_that_dies_is_named_once_and_again_when_it_is_back(serve):
    servers = [serve(), serve()]
    engine = OpenAIEngine([server.url for server in servers], retries=Retries(rest_s=0.2, timeout_s=5.0), concurrency=4)
    told: list[str] = []
    engine.tell = told.append
    with leave(servers[0]):
        assert len(list(engine.generate(make_requests(60), PARAMS))) == 60
        dead = f"127.0.0.1:{servers[0].server_address[1]}"
        (line,) = told
        assert line.startswith(f"{dead}: ConnectionRefusedError: ")
        assert line.endswith(": passed over until it is back, as 1 of 2 servers answer")
        back = FakeServer(servers[0].models, port=servers[0].server_address[1])
        threading.Thread(target=back.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        time.sleep(0.25)
        try:
            assert len(list(engine.generate(make_requests(20), PARAMS))) == 20
        finally:
            back.shutdown()
            back.server_close()
    assert told[1:] == [f"{dead}: answers again"]
