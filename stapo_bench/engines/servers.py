"""Several servers of one model, asked as if they were one: a request has one answer or none, never two.

    completion = await Servers(urls, http, Retries(), read, print).complete(request, "/completions", body, stop)

Servers take turns. One that dies is named and passed over: its requests in flight go to the others, and now and then
one request checks whether it is back.

A request that fails temporarily (429, 5xx, a timeout, a broken answer) is sent again after a pause, to the next server.
One whose last try fails comes back with finish_reason ``error``. Being told to wait (429, or 503 with Retry-After) uses
up no try while the servers work on other requests of ours.
"""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from stapo_bench.engines.http import LONGEST_PAUSE_S, Http, PassingError, address
from stapo_bench.engines.waiting import Waiting
from stapo_bench.records import Completion, Request, SampleKey

ReadAnswer = Callable[[Request, Mapping[str, Any], Mapping[str, Any], float], Completion]
"""(request, what was sent, answer, seconds) -> its completion; PassingError where it is none."""


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often and how patiently a request is tried: two to three minutes in all, enough for a server to restart.

    Told to wait by servers that work on other requests of ours, a request waits for as long as they do.
    """

    tries: int = 9
    first_pause_s: float = 0.5  # doubled each time, up to LONGEST_PAUSE_S; a random part of up to half is added
    rest_s: float = 10.0  # for which an unreachable server is passed over, where there are others
    timeout_s: float = 3600.0  # of one try: an answer comes whole, after its last token


class Servers:
    """Asks servers of one model; see the module's docstring. One event loop at a time uses it."""

    def __init__(
        self, urls: Sequence[str], http: Http, retries: Retries, read: ReadAnswer, tell: Callable[[str], None]
    ) -> None:
        """``read``: makes a completion of an answer; ``tell``: says a line to the person watching."""
        self.urls = urls
        self.turned_away: Counter[str] = Counter()  # answers by models that were not asked for, which are no samples
        self._http = http
        self._retries = retries
        self._read = read
        self._tell = tell
        self._turns = itertools.count()
        self._waiting = Waiting(f"each is sent up to {retries.tries} times, over minutes; see to the server")
        self._rests_until = dict.fromkeys(urls, 0.0)  # this and the next two on the monotonic clock
        self._answered_at = time.monotonic()  # when a request was last answered, at first when the run began
        self._sent_at: dict[SampleKey, float] = {}  # of each request that a server has now

    def begin(self) -> None:
        """Requests are sent from now on; whatever was not answered before is no sign of servers that hang."""
        self._answered_at = time.monotonic()

    async def complete(self, request: Request, path: str, body: Mapping[str, Any], stop: anyio.Event) -> Completion:
        """One request to its end; if given up, ``text`` holds the reason. ``stop``: no other try is begun."""
        jitter, pause, tries, reason = random.Random(request.seed), self._retries.first_pause_s, 0, ""
        since = time.monotonic()  # this request's last failure; before it, its beginning
        for turn in itertools.count(next(self._turns)):
            url = self._pick(turn)
            try:
                return await self._try(url, path, request, body)
            except PassingError as error:
                reason = f"{address(url)}: {self._http.masked(str(error))}"
                if error.other_model:
                    self.turned_away[error.other_model] += 1
                self._waiting.failed(reason, self._tell)
                tries += not (error.is_busy and self._is_at_work(since))
                since = time.monotonic()
                # Jitter: without it all requests of a restarting server, or all given the same Retry-After, would come
                # back at once. It only adds: no request comes earlier than asked.
                delay = max(error.pause_s, pause) * jitter.uniform(1.0, 1.5)
                if error.is_unreachable:
                    self._pass_over(url, reason)
                    delay = 0.0 if self._awake() else delay
                pause = min(2 * pause, LONGEST_PAUSE_S)
                if tries >= self._retries.tries or await is_set_within(stop, delay):
                    break
        return Completion(key=request.key, text=reason, finish_reason="error", num_tokens=0)

    async def _try(self, url: str, path: str, request: Request, body: Mapping[str, Any]) -> Completion:
        """One try; only its duration counts as the completion's, not the waiting before it."""
        started = self._sent_at[request.key] = time.monotonic()
        try:
            answer = await self._http.send(url + path, body, self._retries.timeout_s)
            self._take_back(url)
            completion = self._read(request, body, answer, time.monotonic() - started)
            self._answered_at = time.monotonic()
            self._waiting.answered(self._tell)
            return completion
        finally:
            del self._sent_at[request.key]

    def _is_at_work(self, since: float) -> bool:
        """Whether servers that refuse a request have answered another since ``since``, or still hold one sent before.

        They are then full, not gone, and only waiting helps. A held request counts, as a completion may take longer
        than all tries of another. It must be from before, as some of several refused requests are always under way.
        After a whole try's time without any answer none counts: they hang.
        """
        may_answer = time.monotonic() - self._answered_at < self._retries.timeout_s
        return self._answered_at > since or (may_answer and any(sent < since for sent in self._sent_at.values()))

    def _awake(self) -> list[str]:
        """The servers that are not passed over."""
        now = time.monotonic()
        return [url for url in self.urls if self._rests_until[url] <= now]

    def _pick(self, turn: int) -> str:
        """Servers take turns, those that are not passed over; all of them where none is left."""
        urls = self._awake() or self.urls
        url = urls[turn % len(urls)]
        if self._rests_until[url]:  # this request checks whether it is back; the others wait for its answer
            self._rests_until[url] = time.monotonic() + self._retries.rest_s
        return url

    def _pass_over(self, url: str, reason: str) -> None:
        """No request for a while to a server that cannot be reached."""
        is_news = not self._rests_until[url]
        self._rests_until[url] = time.monotonic() + self._retries.rest_s
        if is_news and (others := len(self.urls) - sum(map(bool, self._rests_until.values()))):
            self._tell(f"{reason}: passed over until it is back, as {others} of {len(self.urls)} servers answer")

    def _take_back(self, url: str) -> None:
        """It answers."""
        if self._rests_until[url] and len(self.urls) > 1:
            self._tell(f"{address(url)}: answers again")
        self._rests_until[url] = 0.0


async def is_set_within(stop: anyio.Event, seconds: float) -> bool:
    """Wait for an event, for so long at most."""
    with anyio.move_on_after(seconds):
        await stop.wait()
    return stop.is_set()
