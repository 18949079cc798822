"""A server on loopback that fails in every way it can, and what the tests of its client ask.

Run as a script it is one in a process of its own that prints its address: ``fake_server.py DIES_AFTER``.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from recorded_refusals import Refuses

from stapo_bench.engines.openai import Retries
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams

PARAMS = SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=100)
QUICK = Retries(tries=4, first_pause_s=0.001, timeout_s=5.0)  # which a busy machine keeps, and "hang" does not

BUSY = {"429": (429, {"Retry_After": "0.1"}), "full": (429, {}), "full503": (503, {"Retry_After": "0"})}

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
        self.slow_s = 0.02  # that the action "slow" takes
        self.chats_only = False
        self.thought: dict[str, str | None] = {}  # what a message holds beside its content, or in place of it
        self.wanted_key: str | None = None  # without it, 401
        self.prompt_tokens: int | None = None  # that it counts; None: it does not say
        self.refuses: Refuses = lambda body: None  # settings that it does not take, see ``recorded_refusals``
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
        if self.server.wanted_key and self.headers["Authorization"] != f"Bearer {self.server.wanted_key}":
            self.reply(401, b"who are you?")
            return
        if self.path != "/v1/models":
            self.reply(404, b"not here")
            return
        self.reply(200, json.dumps({"data": self.server.models}).encode())

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions" or server.chats_only:
            is_chat = server.chats_only and self.path == "/v1/chat/completions"
            if not is_chat or not body.get("messages"):
                self.reply(400 if is_chat else 404, b"no messages" if is_chat else b"not here")
                return
        elif "prompt" not in body:
            self.reply(400, b"no prompt")
            return
        if refused := server.refuses(body):
            self.reply(refused[0], json.dumps(refused[1]).encode())
            return
        if 1 in (body.get("max_tokens"), body.get("max_completion_tokens")):  # asks how settings are taken: no sample
            counted = {"prompt_tokens": server.prompt_tokens, "completion_tokens": 1}
            self.reply(200, b"{}" if server.prompt_tokens is None else json.dumps({"usage": counted}).encode())
            return
        seed = body.get("seed", body.get("random_seed", -1))  # who asks for log-probabilities names none
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

    def said(self, seed: int) -> dict:
        if not self.server.chats_only:
            return {"text": f"answer {seed}"}
        return {"message": {"role": "assistant", "content": f"answer {seed}", **self.server.thought}}

    def act(self, action: str, seed: int) -> None:
        choice = {**self.said(seed), "finish_reason": "stop" if seed % 3 else "length"}
        counted = {} if self.server.prompt_tokens is None else {"prompt_tokens": self.server.prompt_tokens}
        answer = {"choices": [choice], "usage": {"completion_tokens": seed % 7 + 1, **counted}}
        if action == "hang":
            time.sleep(6.0)
        elif action == "slow":
            self.work_for(self.server.slow_s)
        if action in ("500", "503", "400", "401"):
            self.reply(int(action), f"no, says {self.headers['Authorization']}".encode())
        elif action in BUSY:
            status, headers = BUSY[action]
            self.reply(status, b"no place", **headers)
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


def leave(server: FakeServer) -> socket.socket:
    """End a server and keep its port, on which nobody listens then: no other process is given it meanwhile."""
    server.shutdown()
    server.server_close()
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does that comes back on it
    held.bind(server.server_address)
    return held


def serving() -> Iterator[Callable[..., FakeServer]]:
    """Starts servers that name these models; what each test file makes its fixture ``serve`` of."""
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
