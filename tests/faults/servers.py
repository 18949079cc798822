"""Servers on loopback that speak OpenAI's protocol well, slowly, or not at all; each in a process of its own."""

import json
import random
import socket
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.faults.bench import until
from tests.faults.process import Command, fork
from tests.faults.trial import check

Act = Callable[["Handler", dict[str, Any]], None]
"""What a server does with a request's body."""


class Server(ThreadingHTTPServer):
    """Answers ``/models``, and leaves completions to ``act``."""

    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True

    def __init__(self, port: int, act: Act, models: object = None) -> None:
        self.act = act
        self.models = {"data": [{"id": "tiny", "max_model_len": 4096}]} if models is None else models
        super().__init__(("127.0.0.1", port), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is part of the campaign."""


class Handler(BaseHTTPRequestHandler):
    """Answers as the fault wants it."""

    server: Server

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""

    def reply(self, content: bytes, status: int = 200, length: int | None = None) -> None:
        """Send an answer; ``length`` is what its header claims."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        """Send the list of models."""
        self.reply(json.dumps(self.server.models).encode())

    def do_POST(self) -> None:
        """Hand the request's body to the server's ``act``."""
        self.server.act(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, a function of its seed alone."""
    choice = {"text": f"so \\boxed{{{body['seed'] % 9}}}", "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"completion_tokens": 5}}


def in_two_parts(handler: Handler, body: dict[str, Any]) -> None:
    """Answer with a pause in the middle, so that a kill cuts answers off."""
    content = json.dumps(answer(body)).encode()
    cut = random.Random(body["seed"]).randrange(1, len(content))
    handler.reply(content[:cut], length=len(content))
    handler.wfile.flush()
    time.sleep(0.1)
    handler.wfile.write(content[cut:])


def answering(port: int, folder: Path, act: Act = in_two_parts, models: object = None) -> Command:
    """A server in a process of its own, listening by now."""
    server = fork(lambda: Server(port, act, models).serve_forever(poll_interval=0.01), folder)
    check(until(lambda: is_listening(port) or server.poll() is not None), "the campaign's own server did not start")
    return server


def is_listening(port: int) -> bool:
    """Can a connection be made to this port?"""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port that nobody listens on, and that no other process is given while this one lives."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers on it do
    held.bind(("127.0.0.1", 0))
    _HELD.append(held)
    return int(held.getsockname()[1])
