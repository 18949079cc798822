"""What answers of servers cost: tokens as the servers count them, and money where prices are given."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stapo_bench.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What answers cost; a sum of several where they are added, whose money is known where that of each is.

    >>> print(Spent(num_answers=1, prompt_tokens=400_000, completion_tokens=2_000_000, money=1.26))
    1 answers: 400,000 prompt and 2,000,000 completion tokens, cost 1.26
    """

    num_answers: int = 0
    num_uncounted: int = 0  # answers without a count of their tokens
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float | None = 0.0  # in the currency of the prices; None: they were not given

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        known = self.money is not None and other.money is not None
        return Spent(**sums, money=(self.money or 0.0) + (other.money or 0.0) if known else None)

    def since(self, before: "Spent") -> "Spent":
        """What came behind ``before``."""
        counts = {name: getattr(self, name) - getattr(before, name) for name in _COUNTS}
        known = self.money is not None and before.money is not None
        return Spent(**counts, money=(self.money or 0.0) - (before.money or 0.0) if known else None)

    def __str__(self) -> str:
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        text = f"{self.num_answers:,} answers: {tokens}"
        text += f" ({self.num_uncounted:,} answers without a count)" if self.num_uncounted else ""
        if self.money is None:
            return text
        return text + (f", cost {self.money:,.2f}" if self.money >= 1 else f", cost {self.money:.2g}")


_COUNTS = ("num_answers", "num_uncounted", "prompt_tokens", "completion_tokens")


class Purse:
    """Counts the tokens of answers, those included that were no samples: they are charged for.

    >>> purse = Purse("0.15/0.60")
    >>> purse.add({"usage": {"prompt_tokens": 400_000, "completion_tokens": 2_000_000}})
    >>> purse.line()
    '1 answers: 400,000 prompt and 2,000,000 completion tokens, cost 1.26 (0.15 and 0.6 a million)'
    """

    def __init__(self, price: str | None = None) -> None:
        """``price``: of a million prompt and completion tokens, ``0.15/0.60``; None: tokens alone are counted."""
        self._price = None if price is None else prices(price)
        self.spent = Spent(money=None if price is None else 0.0)

    def add(self, answer: object) -> None:
        """Take note of an answer."""
        usage = answer.get("usage") if isinstance(answer, Mapping) else None
        counts = [usage.get(name) for name in _NAMES] if isinstance(usage, Mapping) else []
        known = [count for count in counts if type(count) is int and count >= 0]
        prompt, completion = known if len(known) == len(_NAMES) else (0, 0)
        self.spent += Spent(
            num_answers=1,
            num_uncounted=int(len(known) < len(_NAMES)),
            prompt_tokens=prompt,
            completion_tokens=completion,
            money=None if self._price is None else (self._price[0] * prompt + self._price[1] * completion) / 1e6,
        )

    def line(self) -> str | None:
        """All of it in one line; None before the first answer."""
        at = "" if self._price is None else f" ({self._price[0]:g} and {self._price[1]:g} a million)"
        return f"{self.spent}{at}" if self.spent.num_answers else None


_NAMES = ("prompt_tokens", "completion_tokens")


def prices(text: str) -> tuple[float, float]:
    """Two prices, of a million prompt and of a million completion tokens.

    Raises:
        UsageError: anything but two numbers from 0 up with a stroke between.

    >>> prices("0.15/0.60")
    (0.15, 0.6)
    """
    try:
        found = [float(part) for part in text.split("/")]
    except ValueError:
        found = []
    if len(found) != 2 or not all(0 <= price < math.inf for price in found):
        raise UsageError(
            f"--price: expected the prices of a million prompt and completion tokens, such as 0.15/0.60, got {text!r}"
        )
    return found[0], found[1]
