"""JSON over HTTP to servers that may fail; this module alone decides which failures are worth another try.

    answer = Http(api_key=None).send("http://localhost:8000/v1/models", None, timeout_s=30.0)

No message contains the key, and answers are bounded in size and time.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from stapo_bench.errors import StapoError

LONGEST_PAUSE_S = 60.0
LARGEST_ANSWER = 64 << 20  # bytes; a million tokens with their ids take less


class PassingError(Exception):
    """Worth another try, after ``pause_s`` where the server names a time."""

    def __init__(
        self, reason: str, pause_s: float = 0.0, *, is_unreachable: bool = False, is_busy: bool = False
    ) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
        self.is_unreachable = is_unreachable  # no connection: the server is down, the request is not at fault
        self.is_busy = is_busy  # told to wait: neither is at fault


class Http:
    """Sends JSON with a key; nothing is kept open between requests."""

    def __init__(self, api_key: str | None) -> None:
        self._api_key = api_key
        self._open = urllib.request.build_opener(_NoRedirect).open

    def send(self, url: str, body: Mapping[str, Any] | None, timeout_s: float) -> Any:
        """Send a body, or none, and return the answer; PassingError, or StapoError where trying again is no use."""
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
        try:
            with self._open(request, timeout=timeout_s) as response:
                return json.loads(_read(response, timeout_s))
        except urllib.error.HTTPError as error:
            detail = _detail(error)
            message = self.masked(f"HTTP {error.code} {detail}")
            if error.code in (408, 425, 429) or error.code >= 500:
                wait = error.headers.get("Retry-After")
                is_busy = error.code == 429 or (error.code == 503 and wait is not None)
                raise PassingError(message, _retry_after(wait), is_busy=is_busy) from None
            raise StapoError(f"{address(url)}: the server refuses the request: {message}") from None
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


def _read(response: Any, timeout_s: float) -> bytes:
    """A whole answer; OSError for one that takes too long, or never ends."""
    deadline = time.monotonic() + timeout_s  # the socket's own limit is per part of an answer
    content = bytearray()
    while part := response.read1(1 << 16):
        content += part
        if len(content) > LARGEST_ANSWER:
            raise OSError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError(f"an answer that had not ended after {timeout_s:g} s")
    return bytes(content)


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
