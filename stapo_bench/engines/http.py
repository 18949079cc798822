"""JSON over HTTP to servers that may fail; this module alone decides which failures are worth another try.

    answer = await Http(api_key=None).send("http://localhost:8000/v1/models", None, timeout_s=30.0)

Thousands of requests may be under way in one event loop, each on a connection of its own: an answer takes minutes, so
that nothing is won by keeping one open, and the next request never meets a connection that has died in the meantime.

No message contains the key. An answer is bounded in size and time as a whole, heads that go on or come byte by byte
included. Bounds on bytes hang on the stream from the network, which httpcore, the layer beneath httpx, lets be given.
"""

import json
import math
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, TypeGuard
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import httpcore2

from stapo_bench.errors import StapoError, UsageError

API_KEY = "OPENAI_API_KEY"
"""The environment variable that holds the key."""
LONGEST_PAUSE_S = 60.0
CONNECT_S = 60.0  # for a connection; a server with a thousand requests may take its time
LARGEST_ANSWER = 64 << 20  # bytes, its head included; a million tokens with their ids take less

_SHOWN = 500  # bytes of an error page
_READ = 16 << 10  # bytes of it that are read: it may name every setting that it refuses
_PAUSES_S = (0.0, 0.5, 2.0)  # before each question for what a server tells of itself
_TELLING = 3  # characters of a key, its "sk-", that tell nothing
_FILES = 64  # that a process needs beside its connections


class PassingError(Exception):
    """Worth another try, after ``pause_s`` where the server names a time."""

    def __init__(
        self,
        reason: str,
        pause_s: float = 0.0,
        *,
        is_unreachable: bool = False,
        is_busy: bool = False,
        is_json: bool = True,
        other_model: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
        self.is_unreachable = is_unreachable  # no connection: the server is down, the request is not at fault
        self.is_busy = is_busy  # told to wait: neither is at fault
        self.is_json = is_json  # else something answered, in another language
        self.other_model = other_model  # that answered in place of the one asked for


class RefusedError(StapoError):
    """The server answers, and refuses the request for good."""

    def __init__(self, where: str, said: str, page: str) -> None:
        super().__init__(f"{where}: the server refuses the request: {said}")
        self.said = said  # its status and the beginning of its page, on one line
        self.page = page


class NoSuchPathError(RefusedError):
    """The server answers, and has nothing at this address (404, 405, 501)."""


class Http:
    """Sends JSON with a key; nothing is kept open between requests."""

    def __init__(
        self, api_key: str | None, longest_s: float = math.inf, answered: Callable[[object], None] | None = None
    ) -> None:
        """``longest_s``: for any answer, however long its question allows; ``answered``: gets each answer to a body."""
        self._api_key = _checked(api_key)
        self._answered = answered
        self._longest_s = longest_s
        self._tls = cache(ssl.create_default_context)  # reads all certificates of the system, in 20 ms
        self._proxy = cache(_proxy)  # the environment is read once for each address

    async def send(self, url: str, body: Mapping[str, Any] | None, timeout_s: float) -> Any:
        """Send a body, or none, and return the answer; PassingError, or RefusedError where trying again is no use."""
        timeout_s = min(timeout_s, self._longest_s)
        try:
            with anyio.fail_after(timeout_s):
                status, headers, content = await self._exchange(url, body)
            if 200 <= status < 300:
                answer = json.loads(content)
                if body is not None and self._answered is not None:
                    self._answered(answer)
                return answer
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.ProxyError) as error:
            raise PassingError(_cause(error), is_unreachable=True) from None
        except TimeoutError:
            raise PassingError(f"no whole answer after {timeout_s:g} s") from None
        except (ValueError, RecursionError) as error:
            raise PassingError(_cause(error), is_json=False) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            raise PassingError(_cause(error)) from None  # cut off, not HTTP
        message = self.masked(f"HTTP {status} {' '.join(content[:_SHOWN].decode(errors='replace').split())}")
        if status in (408, 425, 429) or (status >= 500 and status != 501):
            wait = headers.get("retry-after")
            is_busy = status == 429 or (status == 503 and wait is not None)
            raise PassingError(message, _retry_after(wait), is_busy=is_busy)
        if status in (401, 403):
            given = "the key in it is not accepted" if self._api_key else "it is not set"
            message += f"; the key is read from the environment variable {API_KEY}: {given}"
        refused = NoSuchPathError if status in (404, 405, 501) else RefusedError
        raise refused(address(url), message, content.decode(errors="replace"))

    async def told(
        self, url: str, body: Mapping[str, Any] | None, timeout_s: float, *, or_why_not: bool = False
    ) -> Any:
        """What a server tells of itself; None where it clearly does not: it refuses, or never answers in JSON.

        A busy moment is no answer: what a run is known by would change with it.

        Raises:
            RefusedError: it refuses, and ``or_why_not`` asks for that.
            StapoError: every try failed in passing.
        """
        failure = PassingError("")
        for pause_s in _PAUSES_S:
            await anyio.sleep(max(pause_s, failure.pause_s) if failure.is_json else 0.0)
            try:
                return await self.send(url, body, timeout_s)
            except RefusedError:
                if or_why_not:
                    raise
                return None
            except PassingError as error:
                failure = error
        if not failure.is_json:
            return None
        raise StapoError(
            f"{address(url)}: expected an answer from {urlsplit(url).path}, or that nothing is there, got "
            f"{len(_PAUSES_S)} times none, the last time {self.masked(str(failure))}; see to the server and run the "
            "same command again"
        )

    async def _exchange(self, url: str, body: Mapping[str, Any] | None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by their names in small letters, and content; of an error page its beginning."""
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        sent = None if body is None else json.dumps(body).encode()
        content = bytearray()
        tls = self._tls() if urlsplit(url).scheme == "https" else None
        async with (
            httpcore2.AsyncConnectionPool(tls, self._proxy(url), network_backend=_Bounding()) as connections,
            connections.stream(
                "GET" if body is None else "POST",
                url,
                headers=headers,
                content=sent,
                extensions={"timeout": {"connect": CONNECT_S}},
            ) as response,
        ):
            is_error = not 200 <= response.status < 300
            with suppress(*([httpcore2.NetworkError, httpcore2.ProtocolError] if is_error else [])):
                async for part in response.aiter_stream():
                    content += part
                    if is_error and len(content) >= _READ:
                        break
        told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return response.status, told, bytes(content)

    def masked(self, text: str) -> str:
        """A message without the key, as it is or as Python writes it, cut off at the end or whole."""
        if not self._api_key:
            return text
        for key in (self._api_key, repr(self._api_key)[1:-1]):
            text = text.replace(key, "***")
            cut = next((length for length in range(len(key), _TELLING, -1) if text.endswith(key[:length])), 0)
            text = f"{text[:-cut]}***" if cut else text
        return text


class _Bounded(httpcore2.AsyncNetworkStream):
    """A connection from which at most LARGEST_ANSWER bytes are read."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._most = self._left = LARGEST_ANSWER

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there; ReadError for an answer that never ends."""
        content = await self._stream.read(max_bytes, timeout)
        self._left -= len(content)
        if self._left < 0:
            raise httpcore2.ReadError(f"an answer, or its head, of more than {self._most >> 10} KiB")
        return content

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send it all."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """The same connection, encrypted from now on."""
        self._stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return self

    def get_extra_info(self, info: str) -> Any:
        """What the connection is known to be."""
        return self._stream.get_extra_info(info)


class _Bounding(httpcore2.AnyIOBackend):
    """Makes connections that are bounded."""

    async def connect_tcp(self, *arguments: Any, **keywords: Any) -> httpcore2.AsyncNetworkStream:
        """One to a server."""
        return _Bounded(await super().connect_tcp(*arguments, **keywords))


def _checked(api_key: str | None) -> str | None:
    """A key as a header can hold it: without the blanks and line ends around it that files and terminals add.

    Raises:
        UsageError: something in it is no visible ASCII; the key is not shown.
    """
    key = (api_key or "").strip()
    if not re.fullmatch(r"[!-~]*", key):
        raise UsageError(
            f"{API_KEY}: expected a key of visible ASCII, got a blank, a control character or another letter "
            "within it; copy it again"
        )
    return key or None


def _proxy(url: str) -> httpcore2.Proxy | None:
    """The proxy that the environment names for an address (``https_proxy``, ``no_proxy``, …)."""
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    named = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    auth = (unquote(named.username), unquote(named.password or "")) if named.username else None
    return httpcore2.Proxy(f"{named.scheme}://{named.netloc.rpartition('@')[2]}", auth=auth)


def make_room(connections: int) -> None:
    """Raise this process's limit of open files where that many connections need it.

    Raises:
        UsageError: the system allows fewer.
    """
    try:
        import resource
    except ImportError:  # a system without such a limit
        return
    soft, hard = (math.inf if one < 0 else one for one in resource.getrlimit(resource.RLIMIT_NOFILE))
    wanted = connections + _FILES
    if wanted > hard:
        raise UsageError(
            f"--slots: expected at most {hard - _FILES:.0f} requests at once, as a process may open {hard:.0f} files "
            f"here (ulimit -Hn), got {connections}"
        )
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def address(url: str) -> str:
    """Host and port alone."""
    parts = urlsplit(url)
    return parts.hostname + (f":{parts.port}" if parts.port else "") if parts.hostname else url


def _cause(error: BaseException) -> str:
    """What the system said: httpcore's own errors hold it as their argument, and a group of attempts one for each."""
    while inner := [one for one in (error.__cause__, *error.args, *getattr(error, "exceptions", ())) if _is_error(one)]:
        error = inner[0]
    return f"{type(error).__name__}: {error}"


def _is_error(value: object) -> TypeGuard[BaseException]:
    return isinstance(value, BaseException)


def _retry_after(value: str | None) -> float:
    """Seconds that the server asks for, up to LONGEST_PAUSE_S; 0 where it does not, or names a date."""
    try:
        return min(max(0.0, float(value or 0)), LONGEST_PAUSE_S)  # in this order, "nan" gives 0
    except ValueError:
        return 0.0
