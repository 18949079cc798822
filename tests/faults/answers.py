"""Bad answers of servers, made by hypothesis: completions that never end or are none, lists of models that are none."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.faults.bench import Bench, stored
from tests.faults.inputs import GOOD, ROWS, SCALARS, TEXT, VALUES, batches, evaluation, mutated, try_cases, write_rows
from tests.faults.process import impatient, start
from tests.faults.servers import Handler, answer, answering, free_port
from tests.faults.trial import Trial, check

FAULTY: dict[str, Callable[[Handler, dict[str, Any]], None]] = {
    "endless stream": lambda handler, body: endless(handler, b"x" * 65536, 0.0),
    "slow loris": lambda handler, body: endless(handler, b" ", 0.05),
    "half a header": lambda handler, body: handler.wfile.write(b"HTTP/1.1 200 O"),
    "no HTTP": lambda handler, body: handler.wfile.write(b"\x00\xff" * 100 + b"\r\n\r\n"),
    "cut off": lambda handler, body: handler.reply(json.dumps(answer(body)).encode()[:20], length=5000),
    "endless header": lambda handler, body: handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000),
    "100 Continue, for ever": lambda handler, body: repeated(handler, b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "a head, byte by byte": lambda handler, body: repeated(handler, b"x", 0.02, start=b"HTTP/1.1 200 OK\r\nX: "),
    "trailers, for ever": lambda handler, body: repeated(
        handler, b"X: y\r\n", 0.0, start=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    ),
    "another model": lambda handler, body: handler.reply(json.dumps({**answer(body), "model": "small"}).encode()),
    "deep": lambda handler, body: handler.reply(b"[" * 200_000),
    "error, cut off": lambda handler, body: handler.reply(b"no", status=500, length=5000),
}


def endless(handler: Handler, part: bytes, pause_s: float) -> None:
    """An answer whose body never ends."""
    handler.send_response(200)
    handler.end_headers()
    repeated(handler, part, pause_s)


def repeated(handler: Handler, part: bytes, pause_s: float, start: bytes = b"") -> None:
    """The same bytes until the client has gone."""
    handler.close_connection = True
    try:
        handler.wfile.write(start)
        while True:
            handler.wfile.write(part)
            time.sleep(pause_s)
    except OSError:
        return


def wrong_answers() -> st.SearchStrategy[Any]:
    """Replies that are no answer: by name, as a status with a text, or as JSON."""
    good = {"choices": [{"text": "x", "finish_reason": "stop", "token_ids": None}], "usage": {"completion_tokens": 5}}
    choice = good["choices"][0]  # type: ignore[index]
    numbers = st.sampled_from([[], [choice, choice], [choice] * 9, {}, None, "x", [None], [[]]])
    tokens = st.sampled_from([-1, 10**9, float("inf"), float("nan"), "many", None, [], True, 1.5])
    ids = st.sampled_from(["abc", 7, {}, ["a"], [None], [-1], [1.5], [10**30], [True]])
    return st.one_of(
        st.sampled_from(sorted(FAULTY)),
        st.tuples(st.sampled_from([301, 400, 401, 403, 404, 413, 429, 500, 502, 503]), TEXT),
        numbers.map(lambda choices: good | {"choices": choices}),
        tokens.map(lambda count: good | {"usage": {"completion_tokens": count}}),
        ids.map(lambda found: good | {"choices": [choice | {"token_ids": found}]}),  # type: ignore[operator]
        SCALARS.filter(lambda r: r not in ("stop", "length")).map(
            lambda reason: good | {"choices": [choice | {"finish_reason": reason}]}  # type: ignore[operator]
        ),
        VALUES.filter(lambda value: not isinstance(value, str)).map(lambda value: [value]),
    )


def server_answers(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """A server that answers wrongly and never well: the evaluation ends in one line, and has drawn nothing."""
    port, script = free_port(), folder / "say.json"

    def act(handler: Handler, body: dict[str, Any]) -> None:
        reply = json.loads(script.read_text())
        if isinstance(reply, str):
            FAULTY[reply](handler, body)
        elif isinstance(reply, list) and len(reply) == 2 and isinstance(reply[0], int):
            handler.reply(str(reply[1]).encode(), status=reply[0])
        else:
            handler.reply(json.dumps(reply).encode())

    def judge(case: Any) -> None:
        script.write_text(json.dumps(case))
        done = start(command, folder / "output", before=impatient)
        check(done.wait(90) != 0, f"taken for an answer: {[row['completion'] for row in stored(folder / 'run')][:3]}")
        done.fail(1)
        check(not stored(folder / "run"), "samples were made of it")
        for name in ("run", "output"):  # whoever asks the server first makes no run
            shutil.rmtree(folder / name, ignore_errors=True)

    (folder / "task.yaml").write_text(GOOD)
    write_rows(folder, b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))
    command = [*evaluation(bench, folder), "--base-url", f"http://127.0.0.1:{port}/v1", "--samples", 4]
    command[command.index("scripted")] = "openai"
    server = answering(port, folder / "server", act)
    try:
        return try_cases(wrong_answers(), count, rng, judge)
    finally:
        server.kill()


def model_lists(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """Servers whose list of models is none."""
    (folder / "task.yaml").write_text(GOOD)
    write_rows(folder, b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))

    def judge(models: Any) -> None:
        port = free_port()
        server = answering(port, folder / "server", models=models)
        command = [*evaluation(bench, folder), "--base-url", f"http://127.0.0.1:{port}/v1"]
        command[command.index("scripted")] = "openai"
        try:
            done = start(command, folder / "output", before=impatient)
            if done.wait(90) != 0:
                done.fail(1)
                check(not stored(folder / "run"), "samples were made of it")
        finally:
            server.kill()
            for name in ("run", "output", "server"):
                shutil.rmtree(folder / name, ignore_errors=True)

    card = mutated({"id": "tiny", "max_model_len": 4096})
    return try_cases(VALUES | st.lists(card | VALUES, max_size=2).map(lambda cards: {"data": cards}), count, rng, judge)


FAULTS = (
    batches("wrong server answers", server_answers, 20, 4, 1),
    batches("wrong lists of models", model_lists, 10, 3, 0),
)
