"""Any server that speaks OpenAI's completions protocol: `vllm serve`, SGLang, llama.cpp, one of them or several alike.

    engine = OpenAIEngine(["http://gpu1:8000/v1", "http://gpu2:8000/v1"], api_key=os.environ.get("OPENAI_API_KEY"))

The exact prompt goes out (token ids where it has them): chat templates are ours, not the server's. Where it is asked to
chat, what stands around the question is the server's affair, and the manifest says so. Every sampling setting is sent,
so that no default of the server's applies. The server seeds each request with the sample's seed.

Every server must answer when the engine starts. One that dies later is passed over: its requests in flight go to the
others, and now and then one request checks whether it is back.

Failures: a request that fails temporarily (429, 5xx, a timeout, a broken answer) is sent again after a pause, to the
next server; it has one answer or none, never two. One whose last try fails comes back with finish_reason ``error``.
When several in a row do, the run stops; what was answered by then is returned first. Being told to wait (429, or 503
with Retry-After) uses up no try while the servers work on other requests of ours.

Another model's answer is no sample and is asked for again: ``answering_model`` says what counts as another.
"""

import itertools
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from stapo_bench.engines.engine import EVERY_SETTING, EngineOptions, check_urls
from stapo_bench.engines.http import API_KEY, LONGEST_PAUSE_S, Http, PassingError, address
from stapo_bench.engines.openai_answers import check_completions, find_model, read_completion
from stapo_bench.engines.params import check_params, refuse_generated_ids, token_budget
from stapo_bench.engines.waiting import Waiting
from stapo_bench.errors import StapoError, UsageError, tell
from stapo_bench.records import Completion, Request, SamplingParams

OFF = {"n": 1, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""What every request says besides its own sampling: everything else is off, top-k and min-p where not asked for."""

LOST_IN_A_ROW = 3  # requests with every try failed, after which the servers count as gone
START_TIMEOUT_S = 30.0  # for a server to say what it serves


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often and how patiently a request is tried: two to three minutes in all, enough for a server to restart.

    Told to wait by servers that work on other requests of ours, a request waits for as long as they do.
    """

    tries: int = 9
    first_pause_s: float = 0.5  # doubled each time, up to LONGEST_PAUSE_S; a random part of up to half is added
    rest_s: float = 10.0  # for which an unreachable server is passed over, where there are others
    timeout_s: float = 3600.0  # of one try: an answer comes whole, after its last token


class OpenAIEngine:
    """Has servers generate completions; see the module's docstring."""

    continues_exactly = False  # a server seeds a request from its first token on
    takes = frozenset({"adapter", "base_urls", "chat", "model", "slots"})
    applies = EVERY_SETTING

    def __init__(
        self,
        base_urls: Sequence[str],
        *,
        model: str | None = None,
        chat: bool = False,
        api_key: str | None = None,
        concurrency: int | None = None,
        retries: Retries | None = None,
    ) -> None:
        """Ask every server what it serves.

        base_urls: with the version, as ``http://host:8000/v1``; requests take turns.
        model: the served name; default the one model that the servers have.
        chat: prompts are user's messages for ``/chat/completions``, which puts the server's template around them.
        concurrency: requests in flight over all servers; default 128 a server.
        """
        check_urls(base_urls)
        if concurrency is not None and concurrency < 1:
            raise UsageError(f"concurrency: expected at least 1, got {concurrency}")
        self._urls = [url.rstrip("/") for url in base_urls]
        self._rests_until = dict.fromkeys(self._urls, 0.0)  # this and the next two on the monotonic clock
        self._answered_at = 0.0  # when a request was last answered, at first when the run began
        self._sent_at: dict[int, float] = {}  # of each request that a server has now, by the thread that waits for it
        self._lock = threading.Lock()  # for that table and the next
        self.turned_away: Counter[str] = Counter()  # answers by models that were not asked for, which are no samples
        self.tell: Callable[[str], None] = lambda line: tell(sys.stderr, line)
        self._http = Http(api_key)
        self._retries = retries or Retries()
        self._waiting = Waiting(f"each is sent up to {self._retries.tries} times, over minutes; see to the server")
        self._chat = chat
        self._concurrency = concurrency or 128 * len(base_urls)
        self._served = find_model(self._http, self._urls, model, min(START_TIMEOUT_S, self._retries.timeout_s))
        for url in self._urls:
            check_completions(self._http, url, self._served.name, chat)

    @classmethod
    def open(cls, checkpoint: Path, options: EngineOptions) -> "OpenAIEngine":
        """The key is read from the environment, and nothing of the checkpoint: the servers have a model."""
        key = os.environ.get(API_KEY)
        return cls(options.base_urls, model=options.model, chat=options.chat, api_key=key, concurrency=options.slots)

    @classmethod
    def declared_identity(cls, checkpoint: Path, options: EngineOptions) -> dict[str, str]:
        """The engine, and the served name where that is asked for."""
        model = {"model": options.model} if options.model else {}
        return {"engine": "openai", **model, **({"api": "chat"} if options.chat else {})}

    @property
    def context_length(self) -> int | None:
        """Positions that the servers take, prompt and completion together; None where they do not say."""
        return self._served.context_length

    def identity(self) -> dict[str, str]:
        """The served name and what is sent; not the addresses, which may change between two parts of a run."""
        return {
            "engine": "openai",
            "model": self._served.name,
            "context_length": str(self._served.context_length),
            "sent": json.dumps(OFF, sort_keys=True),
            **({"api": "chat"} if self._chat else {}),  # /completions is not named, as it never was
        }

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request as each is answered. What cannot be sampled is refused before the first."""
        check_params(params)
        todo: SimpleQueue[Request] = SimpleQueue()
        for request in requests:
            self._budget(request, params)
            todo.put(request)  # not its body: a million prompts with their ids would take gigabytes
        return self._run(todo, params)

    def close(self) -> None:
        """Nothing is kept open between requests."""

    def _budget(self, request: Request, params: SamplingParams) -> int:
        """New tokens to ask for; StapoError for a request that cannot be sampled."""
        refuse_generated_ids(request)
        prompt = request.prompt
        if prompt.token_ids is None or self._served.context_length is None:
            return params.max_new_tokens
        return token_budget(prompt, len(prompt.token_ids), params.max_new_tokens, self._served.context_length)

    def _body(self, request: Request, params: SamplingParams) -> dict[str, Any]:
        prompt = request.prompt
        if self._chat:
            asked: dict[str, Any] = dict(prompt.chat or {"messages": [{"role": "user", "content": prompt.text}]})
        else:
            asked = {"prompt": prompt.text if prompt.token_ids is None else prompt.token_ids}
        return {
            "model": self._served.name,
            **asked,
            "max_tokens": self._budget(request, params),
            "temperature": params.temperature,
            "top_p": params.top_p,
            "seed": request.seed,
            "return_token_ids": True,  # vLLM; others leave it aside
            **OFF,
            **({} if params.top_k is None else {"top_k": params.top_k}),
            **({} if params.min_p is None else {"min_p": params.min_p}),
            **({"stop": list(params.stop)} if params.stop else {}),
        }

    def _run(self, todo: SimpleQueue[Request], params: SamplingParams) -> Iterator[Completion]:
        done: SimpleQueue[Completion | Exception | None] = SimpleQueue()
        turns = itertools.count()
        stop = threading.Event()
        self._answered_at = time.monotonic()

        def work() -> None:
            """Complete requests until none is left; what goes wrong is the caller's to raise."""
            try:
                while not stop.is_set():
                    request = todo.get_nowait()
                    done.put(self._complete(request, self._body(request, params), next(turns), stop))
            except Empty:
                pass
            except Exception as error:  # carried to the caller's thread, where it is raised
                stop.set()
                done.put(error)
            finally:
                done.put(None)

        running = min(self._concurrency, todo.qsize())
        for _ in range(running):
            # Daemons: a request may run for minutes, and Ctrl-C has to end the program now.
            threading.Thread(target=work, daemon=True).start()
        failure: Exception | None = None
        lost = 0
        try:
            while running:
                item = done.get()
                if item is None:
                    running -= 1
                elif isinstance(item, Exception):
                    failure = failure or item
                else:
                    lost = lost + 1 if item.finish_reason == "error" else 0
                    if lost == LOST_IN_A_ROW:
                        stop.set()
                        failure = failure or StapoError(
                            f"{lost} requests in a row failed {self._retries.tries} times each, the last with: "
                            f"{item.text}; see to {', '.join(map(address, self._urls))} and run the same command again"
                        )
                    yield replace(item, text="") if item.finish_reason == "error" else item
        finally:
            stop.set()
        if failure:
            raise failure

    def _complete(self, request: Request, body: Mapping[str, Any], first: int, stop: threading.Event) -> Completion:
        """One request to its end, from the server whose turn is ``first``; if given up, ``text`` holds the reason."""
        jitter, pause, tries, reason = random.Random(request.seed), self._retries.first_pause_s, 0, ""
        since = time.monotonic()  # this request's last failure; before it, its beginning
        for turn in itertools.count(first):
            url = self._pick(turn)
            try:
                return self._try(url, request, body)
            except PassingError as error:
                reason = f"{address(url)}: {self._http.masked(str(error))}"
                if error.other_model:
                    with self._lock:
                        self.turned_away[error.other_model] += 1
                self._waiting.failed(reason, self.tell)
                tries += not (error.is_busy and self._is_at_work(since))
                since = time.monotonic()
                # Jitter: without it all requests of a restarting server, or all given the same Retry-After, would come
                # back at once. It only adds: no request comes earlier than asked.
                delay = max(error.pause_s, pause) * jitter.uniform(1.0, 1.5)
                if error.is_unreachable:
                    self._rests_until[url] = since + self._retries.rest_s
                    delay = 0.0 if self._awake() else delay
                pause = min(2 * pause, LONGEST_PAUSE_S)
                if tries >= self._retries.tries or stop.wait(delay):
                    break
        return Completion(key=request.key, text=reason, finish_reason="error", num_tokens=0)

    def _try(self, url: str, request: Request, body: Mapping[str, Any]) -> Completion:
        """One try; only its duration counts as the completion's, not the waiting before it."""
        me, started = threading.get_ident(), time.monotonic()
        with self._lock:
            self._sent_at[me] = started
        try:
            answer = self._http.send(f"{url}{'/chat' if self._chat else ''}/completions", body, self._retries.timeout_s)
            self._rests_until[url] = 0.0
            completion = read_completion(request, self._served, body["max_tokens"], answer, time.monotonic() - started)
            self._answered_at = time.monotonic()
            self._waiting.answered(self.tell)
            return completion
        finally:
            with self._lock:
                del self._sent_at[me]

    def _is_at_work(self, since: float) -> bool:
        """Whether servers that refuse a request have answered another since ``since``, or still hold one sent before.

        They are then full, not gone, and only waiting helps. A held request counts, as a completion may take longer
        than all tries of another. It must be from before, as some of several refused requests are always under way.
        After a whole try's time without any answer none counts: they hang.
        """
        with self._lock:
            may_answer = time.monotonic() - self._answered_at < self._retries.timeout_s
            return self._answered_at > since or (may_answer and any(sent < since for sent in self._sent_at.values()))

    def _awake(self) -> list[str]:
        """The servers that are not passed over."""
        now = time.monotonic()
        return [url for url in self._urls if self._rests_until[url] <= now]

    def _pick(self, turn: int) -> str:
        """Servers take turns, those that are not passed over; all of them where none is left."""
        urls = self._awake() or self._urls
        url = urls[turn % len(urls)]
        if self._rests_until[url]:  # this request checks whether it is back; the others wait for its answer
            self._rests_until[url] = time.monotonic() + self._retries.rest_s
        return url
