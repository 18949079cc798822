"""What answers of servers cost: tokens as the servers count them, and money where prices are given."""

import math
from collections.abc import Mapping

from stapo_bench.errors import UsageError


class Spent:
    """Counts the tokens of answers, those included that were no samples: they are charged for.

    >>> spent = Spent("0.15/0.60")
    >>> spent.add({"usage": {"prompt_tokens": 400_000, "completion_tokens": 2_000_000}})
    >>> spent.line()
    '1 answers: 400,000 prompt and 2,000,000 completion tokens; at 0.15 and 0.6 a million 1.26'
    """

    def __init__(self, price: str | None = None) -> None:
        """``price``: of a million prompt and completion tokens, ``0.15/0.60``; None: tokens alone are counted."""
        self._price = None if price is None else prices(price)
        self.num_answers = self.num_uncounted = 0
        self.num_tokens = [0, 0]  # of prompts, of completions

    def add(self, answer: object) -> None:
        """Take note of an answer."""
        usage = answer.get("usage") if isinstance(answer, Mapping) else None
        counts = [usage.get(name) for name in _NAMES] if isinstance(usage, Mapping) else []
        self.num_answers += 1
        known = [count for count in counts if type(count) is int and count >= 0]
        if len(known) == len(_NAMES):
            self.num_tokens = [sum(pair) for pair in zip(self.num_tokens, known, strict=True)]
        else:
            self.num_uncounted += 1

    def line(self) -> str | None:
        """All of it in one line; None before the first answer."""
        if not self.num_answers:
            return None
        prompts, completions = self.num_tokens
        text = f"{self.num_answers:,} answers: {prompts:,} prompt and {completions:,} completion tokens"
        if self.num_uncounted:
            text += f" ({self.num_uncounted:,} answers without a count)"
        if self._price is not None:
            money = sum(price * count for price, count in zip(self._price, self.num_tokens, strict=True)) / 1e6
            shown = f"{money:,.2f}" if money >= 1 else f"{money:.2g}"
            text += f"; at {self._price[0]:g} and {self._price[1]:g} a million {shown}"
        return text


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
