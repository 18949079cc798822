"""Which model answered: the one that was asked for, a dated version of it, or another one.

A gateway may fall back to a smaller model when the one asked for is busy, and says so only in the ``model`` field of
its answers. What it may say there:

* the name asked for, or another name of the same model in the server's list: an ``id`` with the same ``root`` and
  ``parent``, that root, or one of its ``aliases``. Letter case, a tag ``:latest`` and an owner (``Qwen/``, a folder)
  that only one of two names has make no difference;
* such a name with a version behind it, ``gpt-4o-2024-08-06`` for ``gpt-4o`` or ``-latest``: a resolution, which is
  stored with the sample;
* nothing: then nothing is known.

Any other name is another model, the base of an adapter included, and what it wrote is no sample.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_VERSION = re.compile(r"(?P<name>.+?)-(\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3})")


class OtherModelError(ValueError):
    """Another model answered than the one that was asked for."""

    def __init__(self, asked: str, told: object) -> None:
        self.told = repr(str(told)[:100])  # what a server says may hold anything
        super().__init__(f"asked for model {asked}, answered by {self.told}: a gateway's fallback is no sample")


def names_of(asked: str, cards: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Every name of the model that a server calls ``asked``, by its list of models.

    >>> base = {"id": "qwen", "root": "/models/Qwen3-1.7B", "parent": None}
    >>> cards = [base, {**base, "id": "mine"}, {"id": "adapter", "root": "/adapters/1", "parent": "qwen"}]
    >>> sorted(names_of("mine", cards)), sorted(names_of("adapter", cards))
    (['/models/Qwen3-1.7B', 'mine', 'qwen'], ['/adapters/1', 'adapter'])
    """
    cards = list(cards)
    mine = next(card for card in cards if card["id"] == asked)
    same = [card for card in cards if mine.get("root") and _origin(card) == _origin(mine)]
    aliases = mine.get("aliases")
    told = [asked, mine.get("root"), *(card["id"] for card in same), *(aliases if isinstance(aliases, list) else ())]
    return frozenset(name for name in told if isinstance(name, str) and name)


def resolution(asked: str, names: Iterable[str], told: object) -> str | None:
    """The version that answered, where it is more than the name asked for; None where it is that, or not told.

    Raises:
        OtherModelError: another model answered.

    >>> resolution("gpt-4o", ["gpt-4o"], "gpt-4o-2024-08-06")
    'gpt-4o-2024-08-06'
    >>> resolution("Qwen/Qwen3-1.7B", ["Qwen/Qwen3-1.7B"], "qwen3-1.7b")
    """
    if told is None or told == "":
        return None
    if isinstance(told, str):
        known = {asked, *names}
        if any(_is_same(name, told) for name in known):
            return None
        dated = _VERSION.fullmatch(told)
        if dated and any(_is_same(name.removesuffix("-latest"), dated["name"]) for name in known):
            return told
    raise OtherModelError(asked, told)


def _origin(card: Mapping[str, Any]) -> tuple[Any, Any]:
    return card.get("root"), card.get("parent")


def _is_same(one: str, other: str) -> bool:
    """Whether two names differ in letter case, a tag ``:latest``, or an owner that one of them lacks, at most."""
    one, other = (name.casefold().removesuffix(":latest") for name in (one, other))
    if one == other:
        return True
    return ("/" in one) != ("/" in other) and one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1]
