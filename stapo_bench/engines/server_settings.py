"""How a server is told settings: all of them, so that no default of its own applies, but for those that it refuses.

    telling, is_answered = await learn(Telling(), ask)
    body = telling.settings(params, max_tokens=100, seed=7)

Strict servers answer 400 or 422 to a field that they do not know, most of them by its name: as ``param`` (OpenAI's
protocol), in a list of places (``loc``, pydantic's), or in words alone. What is named and would be off is left out from
then on; what is on never is. ``tests/recorded_refusals.py`` has the pages that users reported.
"""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stapo_bench.records import SamplingParams

OFF = {"n": 1, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""What every request says besides its own sampling: everything else is off, top-k and min-p where not asked for."""

_ALL_OFF = {**OFF, "temperature": 1.0, "top_p": 1.0}
_OTHER_SEED = "random_seed"  # Mistral's
_DISPENSABLE = ("seed", _OTHER_SEED, "return_token_ids")  # samples are the same kind without them
_OTHER_LIMIT = "max_completion_tokens"
_PLAIN = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1)

Ask = Callable[[Mapping[str, Any]], Awaitable[str | None]]
"""(settings) -> the page with which a server refuses them; None: it answers."""


@dataclass(frozen=True, kw_only=True)
class Telling:
    """What is not told, and what the limit on new tokens and the seed are called."""

    left_out: frozenset[str] = frozenset()
    limit: str = "max_tokens"
    seed: str = "seed"

    def settings(self, params: SamplingParams, max_tokens: int, seed: int) -> dict[str, Any]:
        """The settings of one request."""
        said = {
            self.limit: max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            **({} if "seed" in self.left_out else {self.seed: seed}),
            "return_token_ids": True,  # vLLM; most others leave it aside
            **OFF,
            **({} if params.top_k is None else {"top_k": params.top_k}),
            **({} if params.min_p is None else {"min_p": params.min_p}),
            **({"stop": list(params.stop)} if params.stop else {}),
        }
        return {name: value for name, value in said.items() if name not in self.left_out or not _is_off(name, value)}

    def without(self, page: str, said: Mapping[str, Any]) -> "Telling":
        """What a refusal of ``said`` teaches; the same where it is nothing that may be left out."""
        named = named_in(page, said)
        if self.limit in named and _OTHER_LIMIT in page:
            return replace(self, limit=_OTHER_LIMIT)
        off = {name for name in named if _is_off(name, said[name])}
        if "seed" in off:  # a strict server that knows neither name refuses the other one in its turn
            return replace(self, seed=_OTHER_SEED, left_out=self.left_out | (off - {"seed"}))
        return replace(self, left_out=self.left_out | {"seed" if name == _OTHER_SEED else name for name in off})

    @property
    def identity(self) -> dict[str, str]:
        """What is told that is off, and what is not told."""
        return {
            "sent": json.dumps({name: OFF[name] for name in OFF.keys() - self.left_out}, sort_keys=True),
            **({"left_out": ", ".join(sorted(self.left_out))} if self.left_out else {}),
            **({"limit": self.limit} if self.limit != Telling.limit else {}),
            **({"seed": self.seed} if self.seed != Telling.seed and "seed" not in self.left_out else {}),
        }

    @property
    def line(self) -> str | None:
        """What is left out, for the person watching."""
        if not self.left_out:
            return None
        line = f"the server refuses {', '.join(sorted(self.left_out))}: left out where they are off"
        return line + ("; without a seed no sample can be drawn again" if "seed" in self.left_out else "")


async def learn(telling: Telling, ask: Ask) -> tuple[Telling, bool]:
    """Ask with everything off until no setting is refused any more; and whether there was an answer in the end."""
    while (page := await ask(said := telling.settings(_PLAIN, 1, 0))) is not None:
        if (learned := telling.without(page, said)) == telling:
            return telling, False
        telling = learned
    return telling, True


def refused_though_on(page: str, said: Mapping[str, Any]) -> str:
    """The settings that a refusal names and that cannot be left out, in words; nothing where there are none.

    >>> refused_though_on("property 'top_k' is unsupported", {"top_k": 20, "min_p": 0.0})
    'top_k=20'
    """
    return ", ".join(f"{name}={said[name]}" for name in sorted(named_in(page, said)) if not _is_off(name, said[name]))


def named_in(page: str, sent: Collection[str]) -> frozenset[str]:
    """The fields, of those that were sent, that a refusal names.

    >>> sorted(named_in("Unrecognized request arguments supplied: min_p, top_k", ["top_p", "top_k", "min_p"]))
    ['min_p', 'top_k']
    """
    try:
        told = list(_told(page))
    except RecursionError:
        return frozenset()
    places = {text for is_place, text in told if is_place and text in sent}
    words = {name for is_place, text in told if not is_place for name in _names(text) if name in sent}
    return frozenset(places or words)


def _is_off(name: str, value: object) -> bool:
    return name in _DISPENSABLE or _ALL_OFF.get(name) == value


def _told(value: object) -> Iterator[tuple[bool, str]]:
    """All texts of a page, whether they are the place of a field; JSON within a text is read as well."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "param" and isinstance(inner, str):
                yield True, inner
            elif key == "loc" and isinstance(inner, list):
                yield True, str(next((part for part in inner if part != "body"), ""))
            else:
                yield from _told(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _told(inner)
    elif isinstance(value, str):
        start = re.search(r"\[?\{", value)
        try:
            inner, _ = json.JSONDecoder().raw_decode(value, start.start() if start else len(value))
        except ValueError:
            yield False, value
        else:
            yield from _told(inner)


_QUOTED = re.compile(r"['\"`](\w+)['\"`]")
_BESIDE_A_COLON = re.compile(r"^(\w+): |: (\w+(?:, \w+)*)\.?$", re.MULTILINE)


def _names(text: str) -> Iterator[str]:
    """What is quoted in a sentence, or stands before or behind its colon, but for what is offered in its place."""
    refused = text.split("did you mean", maxsplit=1)[0]
    found = [*_QUOTED.findall(refused), *(one for pair in _BESIDE_A_COLON.findall(refused) for one in pair)]
    for names in found:
        for name in names.split(", "):
            yield re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()  # xAI says presencePenalty
