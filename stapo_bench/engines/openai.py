"""Any server that speaks OpenAI's completions protocol: `vllm serve`, SGLang, llama.cpp, one of them or several alike.

    engine = OpenAIEngine(["http://gpu1:8000/v1", "http://gpu2:8000/v1"], api_key=os.environ.get("OPENAI_API_KEY"))

The exact prompt goes out (token ids where it has them): chat templates are ours, not the server's. Where it is asked to
chat, what stands around the question is the server's affair, and the manifest says so. Every sampling setting is sent,
so that no default of the server's applies, but for those that are off and that it refuses (``server_settings``). The
server seeds each request with the sample's seed.

Every server must answer when the engine starts. Requests are under way together in one event loop, which has a thread
of its own: thousands of them cost memory for their prompts and a connection each. ``servers`` says which failures are
tried again, and where.

When several requests in a row fail with every try, the run stops; what was answered by then is returned first, and so
it is where Ctrl-C ends it. Another model's answer is no sample and is asked for again: ``answering_model`` says what
counts as another.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal

from stapo_bench.engines.engine import AS_DRAWN, EVERY_SETTING
from stapo_bench.engines.http import API_KEY, Http, PassingError, RefusedError, address, make_room
from stapo_bench.engines.openai_answers import read_completion
from stapo_bench.engines.options import EngineOptions, check_urls
from stapo_bench.engines.params import check_params, refuse_generated_ids, token_budget
from stapo_bench.engines.probe import probe
from stapo_bench.engines.served_model import ServedModel, check_completions, find_model
from stapo_bench.engines.server_log_probs import asking_for, gives_as_drawn, log_probs_of
from stapo_bench.engines.server_questions import TIMEOUT_S, Questions
from stapo_bench.engines.server_settings import Telling, learn, refused_though_on
from stapo_bench.engines.servers import Retries, Servers
from stapo_bench.engines.spent import Purse, Spent
from stapo_bench.errors import StapoError, UsageError, tell
from stapo_bench.records import Completion, Request, SamplingParams

LOST_IN_A_ROW = 3  # requests with every try failed, after which the servers count as gone
START_TIMEOUT_S = 30.0  # for a server to say what it serves

_ANY_LENGTH = 1 << 31


class OpenAIEngine:
    """Has servers generate completions; see the module's docstring."""

    continues_exactly = False  # a server seeds a request from its first token on
    takes = frozenset({"adapter", "base_urls", "chat", "model", "price", "slots"})
    applies = EVERY_SETTING

    def __init__(
        self,
        base_urls: Sequence[str],
        *,
        model: str | None = None,
        chat: bool = False,
        api_key: str | None = None,
        concurrency: int | None = None,
        price: str | None = None,
        retries: Retries | None = None,
    ) -> None:
        """Ask every server what it serves.

        base_urls: with the version, as ``http://host:8000/v1``; requests take turns.
        model: the served name; default the one model that the servers have.
        chat: prompts are user's messages for ``/chat/completions``, which puts the server's template around them.
        concurrency: requests in flight over all servers; default 128 a server.
        price: of a million prompt and completion tokens, ``0.15/0.60``: what was spent is then said in money, too.
        """
        check_urls(base_urls)
        if concurrency is not None and concurrency < 1:
            raise UsageError(f"concurrency: expected at least 1, got {concurrency}")
        self._urls = [url.rstrip("/") for url in base_urls]
        self._purse = Purse(price)
        self._nothing, self._has_begun = self._purse.spent, False
        self._retries = retries or Retries()
        self._http = Http(api_key, self._retries.timeout_s, self._purse.add)
        self._chat = chat
        self._path = "/chat/completions" if chat else "/completions"
        self._log_probs = False  # whether the servers' are those with which tokens were drawn
        self._telling = Telling()
        self._concurrency = concurrency or 128 * len(base_urls)
        make_room(self._concurrency)
        with start_blocking_portal() as portal:
            self._served = portal.call(self._ask, model)
        self.tell: Callable[[str], None] = lambda line: tell(sys.stderr, line)
        if line := self._telling.line:
            self.tell(line)
        self._servers = Servers(self._urls, self._http, self._retries, self._read, self._say)
        self.turned_away = self._servers.turned_away
        self._probed: set[SamplingParams] = set()

    async def _ask(self, model: str | None) -> ServedModel:
        """What every server serves, and whether it can be asked for completions."""
        served = await find_model(self._http, self._urls, model, START_TIMEOUT_S)
        questions = Questions(self._http, self._chat)
        for url in self._urls:
            check = partial(check_completions, self._http, url, served.name, self._chat)
            self._telling, is_answered = await learn(self._telling, check)
            # Kinds that are known leave aside what they do not know.
            if not is_answered and "server" not in served.facts:
                self._telling, _ = await learn(self._telling, partial(questions.refusal, url, served.name))
        if served.facts.get("server", "").startswith("vllm "):  # no other is known to give them as drawn
            given = [await gives_as_drawn(partial(questions.first_token, url, served.name)) for url in self._urls]
            self._log_probs = all(given)
        return served

    @classmethod
    def open(cls, checkpoint: Path, options: EngineOptions) -> "OpenAIEngine":
        """The key is read from the environment, and nothing of the checkpoint: the servers have a model."""
        return cls(
            options.base_urls,
            model=options.model,
            chat=options.chat,
            api_key=os.environ.get(API_KEY),
            concurrency=options.slots,
            price=options.price,
        )

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
        """The served name, what servers tell of themselves and what is sent; not their addresses, which may change."""
        return {
            **self._served.facts,
            **({"log_probs": AS_DRAWN} if self._log_probs else {}),
            "engine": "openai",
            "model": self._served.name,
            "context_length": str(self._served.context_length),
            **self._telling.identity,
            **({"api": "chat"} if self._chat else {}),  # /completions is not named, as it never was
        }

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """Yield one completion per request as each is answered. What cannot be sampled is refused before the first."""
        check_params(params)
        todo: deque[Request] = deque()
        for request in requests:
            self._budget(request, params)
            todo.append(request)  # not its body: a million prompts with their ids would take gigabytes
        return self._run(todo, params)

    def probe(self, request: Request, params: SamplingParams) -> list[str]:
        """What each server does otherwise than it is asked to, see ``probe``; a line says it once."""
        if params in self._probed:
            return []
        self._probed.add(params)
        self._has_begun = True
        with start_blocking_portal() as portal:
            return portal.call(self._probe, request, params)

    async def _probe(self, request: Request, params: SamplingParams) -> list[str]:
        found: list[str] = []
        for url in self._urls:

            async def ask(seed: int, asked: SamplingParams, url: str = url) -> Completion | None:
                one = replace(request, seed=seed)
                try:
                    answer = await self._http.send(url + self._path, self._body(one, asked), TIMEOUT_S)
                    return read_completion(one, self._served, _ANY_LENGTH, answer, 0.0)
                except StapoError:  # a setting that it does not take
                    return None

            try:
                await self._check_taken(url, self._body(request, params))
                found += [f"{address(url)}: {line}" for line in await probe(ask, params)]
            except PassingError:  # busy or down: the samples' own requests are more patient
                continue
            except StapoError as error:
                raise StapoError(f"{address(url)}: {error}") from None
        return found

    async def _check_taken(self, url: str, body: Mapping[str, Any]) -> None:
        """Refuse a server that refuses a setting which the run has on."""
        try:
            await self._http.send(url + self._path, {**body, self._telling.limit: 1}, TIMEOUT_S)
        except RefusedError as error:
            if on := refused_though_on(error.page, body):
                raise StapoError(
                    f"the server refuses {on}: {error.said}; a run without it would be another one"
                ) from None

    @property
    def spent(self) -> Spent:
        """What all answers so far cost; those to the questions at the start with the run that is asked for first."""
        return self._purse.spent if self._has_begun else self._nothing

    def close(self) -> None:
        """Say what was spent. Nothing is kept open between requests."""
        if line := self._purse.line():
            self.tell(line)

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
            **self._telling.settings(params, self._budget(request, params), request.seed),
            **(asking_for(self._chat) if self._log_probs else {}),
        }

    def _say(self, line: str) -> None:
        self.tell(line)  # which a caller may have set since

    def _read(self, request: Request, body: Mapping[str, Any], answer: Mapping[str, Any], seconds: float) -> Completion:
        found = read_completion(request, self._served, body[self._telling.limit], answer, seconds)
        drawn = log_probs_of(answer["choices"][0], found.num_tokens) if self._log_probs else None
        return replace(found, log_probs=drawn)

    def _run(self, todo: deque[Request], params: SamplingParams) -> Iterator[Completion]:
        self._has_begun = True
        done: SimpleQueue[Completion | None] = SimpleQueue()
        with start_blocking_portal() as portal:  # left early, it cancels what is under way
            running = portal.start_task_soon(self._complete_all, todo, params, done.put)
            running.add_done_callback(lambda _: done.put(None))
            try:
                yield from iter(done.get, None)
            except KeyboardInterrupt:
                running.cancel()
                with suppress(Empty):
                    while (answered := done.get_nowait()) is not None:
                        yield answered
                raise
            running.result()

    async def _complete_all(
        self, todo: deque[Request], params: SamplingParams, put: Callable[[Completion], None]
    ) -> None:
        """Complete requests until none is left. After a failure none is begun, and those under way come to an end."""
        stop = anyio.Event()
        failures: list[Exception] = []
        lost = 0

        async def work() -> None:
            nonlocal lost
            while todo and not stop.is_set():
                request = todo.popleft()
                try:
                    completion = await self._servers.complete(request, self._path, self._body(request, params), stop)
                except Exception as error:  # raised in the caller's thread, after what was answered
                    failures.append(error)
                    stop.set()
                    return
                is_lost = completion.finish_reason == "error"
                lost = lost + 1 if is_lost else 0
                put(replace(completion, text="") if is_lost else completion)
                if lost == LOST_IN_A_ROW:
                    failures.append(
                        StapoError(
                            f"{lost} requests in a row failed {self._retries.tries} times each, the last with: "
                            f"{completion.text}; see to {', '.join(map(address, self._urls))} and run the same command "
                            "again"
                        )
                    )
                    stop.set()

        self._servers.begin()
        async with anyio.create_task_group() as workers:
            for _ in range(min(self._concurrency, len(todo))):
                workers.start_soon(work)
        if failures:
            raise failures[0]
