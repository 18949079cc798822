"""Whether a server does what requests ask of it, found out by some twenty short requests before the first sample.

    for line in await probe(ask, params): print(line)

What is said was seen. Where chance could show the same, it would do so in fewer than one of 1,000 servers that do
everything right, by these (generous) measures of a model and of rounding: at temperature 2 no text of 24 tokens has a
token on average more probable than 0.95, and 1 token in 50 comes out otherwise when a request is repeated, since sums
are rounded differently beside other requests.

* Eight seeds, one text: 0.95^(7 x 24) = 0.0002.
* Three repeated requests that all differ within 12 characters, some four tokens: (4 / 50)^3 = 0.0005.
* Four requests with one token to choose from each time, no two alike within 12 characters: three of them must have been
  rounded to another text, each another: the same 0.0005 at most.

The others are certain: more tokens than were asked for, an end for length before it, a stop text that came.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Protocol, runtime_checkable

from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, SamplingParams

NUM_TOKENS = 24  # of each; more than 16, the protocol's own default
_HOT = SamplingParams(temperature=2.0, top_p=1.0, max_new_tokens=NUM_TOKENS)
_COLD = replace(_HOT, temperature=0.01)  # 0 may stand for "not given"
_GREEDY = replace(_HOT, temperature=0.0)
_FEWEST = 8  # tokens of a text from which something is concluded
_BEGINNING = 12  # characters, some four tokens
_ONE_TOKEN = {"top_p": replace(_HOT, top_p=1e-6), "top_k": replace(_HOT, top_k=1), "min_p": replace(_HOT, min_p=1.0)}
_IGNORED = "{} is ignored: 4 requests to which it leaves one token each time gave 4 texts"

_COPIES = (
    "8 seeds at temperature 2 gave one text: seeds are ignored, or answers come from a cache; samples would be copies, "
    "which count once"
)
_NOT_AGAIN = (
    "seeds are ignored: a request sent again gave another text, 3 times of 3; samples are independent, but cannot be "
    "drawn again"
)

Ask = Callable[[int, SamplingParams], Awaitable[Completion | None]]
"""(seed, params) -> what a server answers; None: it refuses, and nothing is concluded."""


async def probe(ask: Ask, params: SamplingParams) -> list[str]:
    """What a server does otherwise than it is asked to, in words; nothing where it was not seen to.

    Args:
        ask: sends one request.
        params: the run's; only settings that it uses are looked at.

    Raises:
        StapoError: the server writes more tokens than it is asked for, or goes on behind a stop text: no limit and no
            stop text of a run would hold.
    """
    found = _Found()
    cold = [found.see(await ask(seed, _COLD if not params.is_greedy else _GREEDY)) for seed in range(4)]
    if _all_differ(cold):
        found.lines.append(_IGNORED.format("the temperature"))
    for name, one_token in _ONE_TOKEN.items():
        if getattr(params, name) not in (None, 1.0):
            texts = [found.see(await ask(seed, one_token)) for seed in range(4)]
            if _all_differ(texts):
                found.lines.append(_IGNORED.format(name.replace("_", "-")))
    if not params.is_greedy:
        varied = [found.see(await ask(seed, _HOT)) for seed in range(8)]
        again = [found.see(await ask(seed, _HOT)) for seed in range(3)]
        if None not in varied and len(set(varied)) == 1:
            found.lines.append(_COPIES)
        elif all(_all_differ(pair) for pair in zip(varied, again, strict=False)):
            found.lines.append(_NOT_AGAIN)
    if params.stop and cold[0]:
        stop = cold[0][len(cold[0]) // 2 :][:3]
        ended = await ask(0, replace(_COLD, stop=(stop,)))
        if ended is not None and stop in ended.text:
            raise StapoError(f"stop texts are ignored: {stop!r} was one, and came; leave --stop out for this server")
    return found.lines


@runtime_checkable
class Probes(Protocol):
    """An engine of which nobody knows whether it does what it is asked to."""

    def probe(self, request: Request, params: SamplingParams) -> list[str]:
        """What it does otherwise, in words, by short requests with a prompt of the run; StapoError: it is of no use."""
        ...


class _Found:
    """What single answers show."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def see(self, answer: Completion | None) -> str | None:
        """The text, if it is long enough to conclude something from it."""
        if answer is None:
            return None
        if answer.num_tokens > NUM_TOKENS:
            raise StapoError(
                f"max_tokens is ignored: {NUM_TOKENS} were asked for, {answer.num_tokens} came; no token limit would "
                "hold at this server"
            )
        if answer.finish_reason == "length" and answer.num_tokens < NUM_TOKENS - 1 and not self.lines:
            self.lines.append(
                f"completions are cut off after {answer.num_tokens} tokens where {NUM_TOKENS} were asked for: "
                "the server has a limit of its own"
            )
        return answer.text if answer.num_tokens >= _FEWEST and answer.text else None


def _all_differ(texts: Sequence[str | None]) -> bool:
    """Whether no two of some texts begin alike."""
    return all(one and other and one[:_BEGINNING] != other[:_BEGINNING] for one, other in combinations(texts, 2))
