"""One of several engines: what runs in its own process (``stapo_bench.engines.replicas`` starts it) or Ray actor.

Messages in:  the opening; then, for every generation, {"params"}, {"requests"} as often as there are more, {"end"}.
Messages out: {"ready", …}; {"completion"} as each ends; {"done"} after an end; {"error"}, and nothing more.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from queue import SimpleQueue

from stapo_bench.engines.engine import Engine, open_here
from stapo_bench.engines.feed import Feed, arrived
from stapo_bench.engines.replica_wire import Message, as_json, opened_by, params_of, request_of
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, SamplingParams


def serve(inbox: "SimpleQueue[Message | None]", send: Callable[[Message], None]) -> None:
    """Open the engine of the first message and generate until the inbox says None."""
    engine = None
    try:
        opening = inbox.get()
        if opening is None:
            return
        options, checkpoint = opened_by(opening)
        engine = open_here(options, checkpoint)
        at_once = getattr(engine, "at_once", None)
        send({
            "ready": engine.identity(),
            "at_once": at_once,
            "continues_exactly": engine.continues_exactly,
            "context_length": getattr(engine, "context_length", None),
        })  # fmt: skip
        while (message := inbox.get()) is not None:
            feed = Feed(partial(_requests, inbox))
            for completion in _generate(engine, feed, params_of(message["params"]), is_fed=at_once is not None):
                feed.answered(completion.key)
                send({"completion": as_json(completion)})
            send({"done": True})
    except Exception as error:  # whatever it is, the parent says it, or gives the work to others
        reason = " ".join(str(error).split())[:400] or type(error).__name__
        send({"error": reason, "is_ours": isinstance(error, StapoError)})
    finally:
        if engine is not None:
            with suppress(Exception):
                engine.close()


def _requests(inbox: "SimpleQueue[Message | None]", wait: bool) -> list[Request] | None:
    """The next requests of a generation, None at its end, for a feed."""
    message = inbox.get(block=wait) or {}
    return [request_of(raw) for raw in message["requests"]] if "requests" in message else None


def _generate(engine: Engine, feed: Feed, params: SamplingParams, *, is_fed: bool) -> Iterator[Completion]:
    """The completions of what arrives; an engine that takes no requests meanwhile gets those that are there."""
    if is_fed:
        yield from engine.generate(feed, params)  # type: ignore[arg-type]  # None among them is what it understands
        return
    for first in feed:  # which waits: nothing runs here
        assert first is not None
        yield from engine.generate(chain([first], arrived(feed)), params)


def main() -> None:
    """Serve over this process's pipes: a JSON line each way, null to end; without a parent the process ends at once."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not end up among the replies
    inbox: SimpleQueue[Message | None] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            inbox.put(json.loads(line))
        os._exit(0)

    def send(message: Message) -> None:
        replies.write(json.dumps(message).encode("ascii") + b"\n")
        replies.flush()

    threading.Thread(target=read, daemon=True).start()
    serve(inbox, send)
    os._exit(0)  # libraries' threads and exit handlers may wait without end
