"""Numbers as tokens: decimals, repeating decimals, numerals with a base; and what stands under an accent."""

import re
from fractions import Fraction

from stapo_bench.grading.cursor import Cursor
from stapo_bench.grading.numerals import in_base, read_number
from stapo_bench.grading.tree import Node, Refusal, num

_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "sixteen": 16,
}  # fmt: skip


class LiteralReader(Cursor):
    """Reads what has a value, or a name, of its own."""

    def number(self) -> Node:
        token = self.take()
        value, ulp = read_number(token.text)
        if "." in token.text and self.peek().text in ("overline", "bar", "dot", "ldots"):
            return self._repeating(token.text)
        if self.peek().text == "_" and self.peek().kind == "op" and "e" not in token.text:
            return self.based(token.text)
        return num(value, ulp)

    def _repeating(self, text: str) -> Node:
        r"""``0.1\overline{6}``, ``0.\dot{3}`` and ``0.333\ldots`` are exact; ``3.14\ldots`` is a decimal cut short."""
        mark = self.take().text
        decimals = text.partition(".")[2]
        if mark != "ldots":
            period = self.accented()
        else:
            found = re.search(r"(\d{1,6}?)\1+$", decimals)
            if found is None or len(found.group()) < 3:
                value, ulp = read_number(text)
                return num(value, ulp)
            period, text = found[1], text[: -len(found.group())]
        if not period.isdigit() or len(period) > 60:
            raise Refusal("cannot read the period")
        shift = len(text.partition(".")[2])
        return num(read_number(text)[0] + Fraction(int(period), (10 ** len(period) - 1) * 10**shift))

    def based(self, digits: str) -> Node:
        """``52_8``: the base is part of the number; the value is 42, and the notation is kept in the label."""
        self.take()
        token = self.peek()
        if self.accept("{"):
            wrapped = self.accept("(")
            inner = self.take()
            if wrapped:
                self.expect(")")
            self.expect("}")
        else:
            inner = self.take()
        base = int(inner.text) if inner.kind == "num" and inner.text.isdigit() else _BASES.get(inner.text.strip(), 0)
        if not 2 <= base <= 36:
            raise Refusal(f"cannot read base {token.text!r}")
        return in_base(digits, base)

    def accented(self) -> str:
        if not self.accept("{"):
            return self.take().text
        pieces: list[str] = []
        while not self.accept("}"):
            token = self.take()
            if token.kind == "end" or token.text == "{":
                raise Refusal("unclosed accent")
            pieces.append(token.text)
        return "".join(pieces)
