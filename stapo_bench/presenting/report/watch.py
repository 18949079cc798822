"""The report of runs that still grow, served on this machine alone: ``stapo-bench watch RUN``.

A thread looks at the run folders; when something in them grew it grades what is new, makes the page again and gives it
a new ETag. An open page asks for the ETag every two seconds and loads itself again when it changed; its address keeps
the sample that is being read.

Only 127.0.0.1 is bound, and only requests that name it as their host are answered: a web page elsewhere that had its
own name resolve to this address (DNS rebinding) gets nothing.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.presenting.report.page import Contents, render_page
from stapo_bench.runs import JUDGED, grade_run

ADDRESS = "127.0.0.1"
LOOK_S = 1.0
"""Seconds between two looks at the folders; and making a page may take at most a third of the time."""

_WATCHED = ("manifest.json", "samples/*.jsonl", "grades/*.jsonl", "metrics.jsonl", "dumps/*/tokens.jsonl")
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Page:
    """A page as it is served; its version is its ETag."""

    version: str
    content: bytes


class Server(ThreadingHTTPServer):
    """Serves the latest page."""

    daemon_threads = True

    def __init__(self, port: int, page: Page) -> None:
        self.page = page
        super().__init__((ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is served."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def is_ours(self, host: str | None) -> bool:
        """Whether a request's Host header names this server."""
        return host in {f"{name}:{self.server_address[1]}" for name in (ADDRESS, "localhost")}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 30  # seconds: a client that says nothing does not keep its thread
    server_version = "stapo-bench"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with the headers alone."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        page = self.server.page  # one page for the whole answer, whatever is made meanwhile
        if not self.server.is_ours(self.headers.get("Host")):
            self._send(421, b"This server answers to its own address only.\n", {}, with_body=with_body)
        elif self.path.split("?")[0] != "/":
            self._send(404, b"There is one page here: /\n", {}, with_body=with_body)
        elif self.headers.get("If-None-Match") == f'"{page.version}"':
            self._send(304, b"", {"ETag": f'"{page.version}"'}, with_body=False)
        else:
            self._send(200, page.content, {"ETag": f'"{page.version}"', **_HEADERS}, with_body=with_body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: a page asks every two seconds."""


def state(folders: Sequence[Path]) -> str:
    """Names what the folders hold, by sizes and times: another state, another name."""
    files = sorted(str(file) for folder in folders for pattern in _WATCHED for file in folder.glob(pattern))
    facts = [f"{file} {facts.st_size} {facts.st_mtime_ns}" for file in files for facts in _stat(Path(file))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _stat(path: Path) -> Iterator[os.stat_result]:
    try:
        yield path.stat()
    except FileNotFoundError:  # replaced or removed between the two looks
        return


def keep_current(
    server: Server,
    read_state: Callable[[], str],
    make: Callable[[], Page],
    tell: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Make the page anew whenever ``read_state`` gives another state, until ``stop``; reports a failure once per state.

    Args:
        server: whose page is replaced.
        read_state: names the state of what is shown.
        make: the page; its version is the state that it holds at least.
        tell: takes a line for the person at the terminal.
        stop: ends it.
    """
    seen = server.page.version
    wait = LOOK_S
    while not stop.wait(wait):
        wait = LOOK_S
        if (now := read_state()) == seen:
            continue
        started = time.monotonic()
        try:
            server.page = make()
            seen = server.page.version
        except StapoError as error:
            tell(str(error))
            seen = now
        wait = max(LOOK_S, 2 * (time.monotonic() - started))


def watch_runs(contents: Contents, port: int, tell: Callable[[str], None]) -> None:
    """Grade, show and serve until it is stopped.

    Raises:
        StapoError: the port is taken, or there is nothing to show yet.
    """
    folders = (*contents.runs, *contents.logs)

    def make() -> Page:
        for run_dir in contents.runs:
            if not contents.grader.startswith(JUDGED):  # a judge is a model: it is asked by 'grade' alone
                grade_run(run_dir, contents.grader, data_dir=contents.data_dir)
        version = state(folders)  # before reading: what comes meanwhile makes another version
        return Page(version, render_page(contents, version).encode("utf-8"))

    try:
        server = Server(port, Page("", b""))  # the port first: a page may take a minute
    except OSError as error:
        raise StapoError(f"cannot listen on {ADDRESS}:{port}: {error.strerror}; choose another --port") from None
    stop = threading.Event()
    arguments = (server, lambda: state(folders), make, tell, stop)
    follower = threading.Thread(target=keep_current, args=arguments, daemon=True)
    with server:
        server.page = make()
        tell(f"{server.url} shows {', '.join(str(run) for run in contents.runs)}; Ctrl-C ends it")
        follower.start()
        try:
            server.serve_forever()
        finally:
            stop.set()
