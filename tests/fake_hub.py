"""A hub of data sets and models on loopback, with as much of the protocol as its clients need to load one."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

_Answer = tuple[int, bytes, dict[str, str]]  # status, body, headers


def parquet(rows: list[Mapping[str, Any]]) -> bytes:
    """Rows as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def commit_of(files: Mapping[str, bytes]) -> str:
    """40 hexadecimal digits that the content decides, as a commit's are."""
    return hashlib.sha1(b"".join(name.encode() + files[name] for name in sorted(files))).hexdigest()


@dataclass
class Hub:
    """``sets``: id -> the files of each revision, the first of which is ``main``. ``failing``: answer 503 to all."""

    sets: dict[str, list[dict[str, bytes]]]
    models: dict[str, list[dict[str, bytes]]] = field(default_factory=dict)  # as ``sets``
    failing: bool = False
    requests: list[str] = field(default_factory=list)
    endpoint: str = ""

    def find(self, versions: list[dict[str, bytes]], revision: str) -> tuple[str, dict[str, bytes]] | None:
        """(commit, files) of a revision: ``main``, or a commit."""
        commits = {commit_of(files): files for files in versions}
        wanted = next(iter(commits)) if revision == "main" else revision
        return (wanted, commits[wanted]) if wanted in commits else None


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """The hub at ``hub.endpoint`` for as long as the block runs."""

    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub})) as server:
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if "/datasets/" in path:  # the client asks for other things too, which no hub need have
            self.hub.requests.append(f"{self.command} {path}")
        status, found, headers = (503, b"{}", {}) if self.hub.failing else self._find(path)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(found))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found)

    def _find(self, path: str) -> _Answer:
        kind, _, rest = path.removeprefix("/api").removeprefix("/").partition("/")
        if kind not in ("datasets", "models"):  # a model's files lie directly under its name
            kind, rest = "models", f"{kind}/{rest}"
        owner, name, action, revision, file = [*rest.split("/", 4), *["", "", "", "", ""]][:5]
        set_id = f"{owner}/{name}"
        there = self.hub.sets if kind == "datasets" else self.hub.models
        if set_id not in there:
            return _missing("RepoNotFound")
        found = self.hub.find(there[set_id], revision or "main")
        if found is None:
            return _missing("RevisionNotFound")
        commit, files = found
        if action == "resolve":
            if file not in files:
                return _missing("EntryNotFound", commit)
            return 200, files[file], {"X-Repo-Commit": commit, "ETag": f'"{_etag(files[file])}"'}
        content: object = _tree(files, file)
        if action in ("", "revision"):
            content = {"id": set_id, "sha": commit, "siblings": [{"rfilename": name} for name in files], "tags": []}
        return 200, json.dumps(content).encode(), {"Content-Type": "application/json"}


def _tree(files: Mapping[str, bytes], folder: str) -> list[dict[str, object]]:
    """What lies directly in a folder of the set ("": its root)."""
    inside = {name: data for name, data in files.items() if not folder or name.startswith(f"{folder}/")}
    start = len(folder) + 1 if folder else 0
    folders = {name[:end] for name in inside if (end := name.find("/", start)) > 0}
    return [{"type": "directory", "path": name, "oid": _etag(name.encode())} for name in sorted(folders)] + [
        {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
        for name, data in inside.items()
        if "/" not in name[start:]
    ]


def _missing(code: str, commit: str = "") -> _Answer:
    return 404, b"{}", {"X-Error-Code": code, "X-Repo-Commit": commit}


def _etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
