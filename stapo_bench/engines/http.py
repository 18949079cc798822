"""JSON over HTTP to servers that may fail; this module alone decides which failures are worth another try.

    answer = Http(api_key=None).send("http://localhost:8000/v1/models", None, timeout_s=30.0)

No message contains the key. An answer is bounded in size and time as a whole, heads that go on or come byte by byte
included: Python's limits are for a line, and for the time between two bytes.
"""

import http.client
import io
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from stapo_bench.errors import StapoError

API_KEY = "OPENAI_API_KEY"
"""The environment variable that holds the key."""
LONGEST_PAUSE_S = 60.0
LONGEST_TRY_S = 86400.0  # where no limit is set
LARGEST_ANSWER = 64 << 20  # bytes; a million tokens with their ids take less
LARGEST_HEAD = 256 << 10  # bytes before the body: status, headers, and any number of "100 Continue"


class PassingError(Exception):
    """Worth another try, after ``pause_s`` where the server names a time."""

    def __init__(
        self,
        reason: str,
        pause_s: float = 0.0,
        *,
        is_unreachable: bool = False,
        is_busy: bool = False,
        other_model: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
        self.is_unreachable = is_unreachable  # no connection: the server is down, the request is not at fault
        self.is_busy = is_busy  # told to wait: neither is at fault
        self.other_model = other_model  # that answered in place of the one asked for


class NoSuchPathError(StapoError):
    """The server answers, and has nothing at this address (404, 405, 501)."""


class Http:
    """Sends JSON with a key; nothing is kept open between requests."""

    def __init__(self, api_key: str | None) -> None:
        self._api_key = api_key
        self._open = urllib.request.build_opener(_NoRedirect, _Plain, _Encrypted).open

    def send(self, url: str, body: Mapping[str, Any] | None, timeout_s: float) -> Any:
        """Send a body, or none, and return the answer; PassingError, or StapoError where trying again is no use."""
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
        try:
            with self._open(request, timeout=timeout_s) as response:
                return json.loads(_read(response))
        except urllib.error.HTTPError as error:
            detail = _detail(error)
            message = self.masked(f"HTTP {error.code} {detail}")
            if error.code in (408, 425, 429) or (error.code >= 500 and error.code != 501):
                wait = error.headers.get("Retry-After")
                is_busy = error.code == 429 or (error.code == 503 and wait is not None)
                raise PassingError(message, _retry_after(wait), is_busy=is_busy) from None
            if error.code in (401, 403):
                given = "the key in it is not accepted" if self._api_key else "it is not set"
                message += f"; the key is read from the environment variable {API_KEY}: {given}"
            refused = NoSuchPathError if error.code in (404, 405, 501) else StapoError
            raise refused(f"{address(url)}: the server refuses the request: {message}") from None
        except urllib.error.URLError as error:  # before anything was answered
            raise PassingError(f"{type(error).__name__}: {error}", is_unreachable=True) from None
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            # cut off, timed out, not JSON
            raise PassingError(f"{type(error).__name__}: {error}") from None

    def masked(self, text: str) -> str:
        """A message without the key."""
        return text.replace(self._api_key, "***") if self._api_key else text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: one would carry the key to a place that nobody named."""

    def redirect_request(self, *arguments: Any, **keywords: Any) -> None:
        """No request: the redirect becomes an error."""
        return


def address(url: str) -> str:
    """Host and port alone: a URL may hold a password."""
    parts = urlsplit(url)
    return parts.hostname + (f":{parts.port}" if parts.port else "") if parts.hostname else url


def _read(response: Any) -> bytes:
    """A whole answer, a part at a time: a length that the server states is not made room for."""
    content = bytearray()
    while part := response.read1(1 << 16):
        content += part
    return bytes(content)


class _Bounded(io.RawIOBase):
    """What a server sends, up to ``most`` bytes and until the socket's time is over, counted from now."""

    def __init__(self, connection: socket.socket, most: int) -> None:
        self._socket = connection
        self._raw = connection.makefile("rb", buffering=0)
        self._seconds = connection.gettimeout() or LONGEST_TRY_S
        self._until = time.monotonic() + self._seconds
        self._num_read = 0
        self.most = most

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, once; OSError for an answer that takes too long, or never ends."""
        left = self._until - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            count = self._raw.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(f"no whole answer after {self._seconds:g} s") from None
        self._num_read += count or 0
        if self._num_read > self.most:
            raise OSError(f"an answer, or its head, of more than {self.most >> 10} KiB")
        return count

    def close(self) -> None:
        """Let go of the socket."""
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer that is read through ``_Bounded``, from its first byte on."""

    def __init__(self, sock: socket.socket, *arguments: Any, **keywords: Any) -> None:
        super().__init__(sock, *arguments, **keywords)
        self._bounded = _Bounded(sock, LARGEST_HEAD)
        self.fp.close()
        self.fp = io.BufferedReader(self._bounded)

    def begin(self) -> None:
        """Read the head; the body may be larger."""
        super().begin()
        self._bounded.most = LARGEST_ANSWER


class _PlainConnection(http.client.HTTPConnection):
    response_class = _Response


class _EncryptedConnection(http.client.HTTPSConnection):
    response_class = _Response


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Over a connection whose answers are bounded."""
        return self.do_open(_PlainConnection, req)


class _Encrypted(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """The same, encrypted."""
        return self.do_open(_EncryptedConnection, req)


def _detail(error: urllib.error.HTTPError) -> str:
    """The beginning of what an error page says, on one line."""
    try:
        content = error.read(500)
    except (OSError, http.client.HTTPException):  # cut off
        content = b""
    return " ".join(content.decode(errors="replace").split())


def _retry_after(value: str | None) -> float:
    """Seconds that the server asks for, up to LONGEST_PAUSE_S; 0 where it does not, or names a date."""
    try:
        return min(max(0.0, float(value or 0)), LONGEST_PAUSE_S)  # in this order, "nan" gives 0
    except ValueError:
        return 0.0
