"""Numbers: decimals, repeating decimals, numerals in a base; values with a unit; and what stands under an accent."""

import re
from fractions import Fraction

from stapo_bench.grading import units
from stapo_bench.grading.read.cursor import Cursor
from stapo_bench.grading.read.lexer import TokenKind
from stapo_bench.grading.tree import Kind, Node, Refusal, mul, num, power, sym

MAX_DIGITS = 4000  # in one literal; Python itself refuses to read integers beyond 4300 digits
_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "sixteen": 16,
}  # fmt: skip


class NumberParser(Cursor):
    """Parses numbers, and the names under accents."""

    def number(self) -> Node:
        """A number in any notation; the next token is its digits."""
        token = self.take()
        value, ulp = read_number(token.text)
        if "." in token.text and self.peek().text in ("overline", "bar", "dot", "ldots"):
            return self._repeating(token.text)
        if self.peek().text == "_" and self.peek().kind is TokenKind.OPERATOR and "e" not in token.text:
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
        if mark == "dot":
            period += self._until_dot()
        if not period.isdigit() or len(period) > 60:
            raise Refusal("cannot read the period")
        shift = len(text.partition(".")[2])
        return num(read_number(text)[0] + Fraction(int(period), (10 ** len(period) - 1) * 10**shift))

    def _until_dot(self) -> str:
        r"""The rest of a period that two dots enclose: the 42857 of ``0.\dot{1}4285\dot{7}``."""
        start, digits = self.position, ""
        while self.peek().kind is TokenKind.NUMBER and self.peek().text.isdigit():
            digits += self.take().text
        if self.accept("dot"):
            return digits + self.accented()
        self.position = start
        return ""

    def based(self, digits: str) -> Node:
        """``52_8``: the base is part of the number; the value is 42, and the notation is kept in the label."""
        self.take()
        if self.accept("{"):
            wrapped = self.accept("(")
            inner = self.take()
            if wrapped:
                self.expect(")")
            self.expect("}")
        else:
            inner = self.take()
        base = (
            int(inner.text)
            if inner.kind is TokenKind.NUMBER and inner.text.isdigit()
            else _BASES.get(inner.text.strip(), 0)
        )
        return in_base(digits, base)

    def accented(self) -> str:
        """The letters or digits under an accent."""
        if not self.accept("{"):
            return self.take().text
        pieces: list[str] = []
        while not self.accept("}"):
            token = self.take()
            if token.kind is TokenKind.END or token.text == "{":
                raise Refusal("unclosed accent")
            pieces.append(token.text)
        return "".join(pieces)


def read_number(text: str) -> tuple[Fraction, Fraction | None]:
    """Value of a decimal literal and, unless it is a plain integer, one unit in its last place.

    >>> read_number("3.10")
    (Fraction(31, 10), Fraction(1, 100))
    >>> read_number("4e3")
    (Fraction(4000, 1), Fraction(1000, 1))
    """
    mantissa, _, exponent_text = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or len(exponent_text) > 5:
        raise Refusal("number too long")
    whole, _, decimals = mantissa.partition(".")
    exponent = int(exponent_text or 0)
    if abs(exponent) > MAX_DIGITS:
        raise Refusal("exponent too large")
    digits = int((whole + decimals) or "0")
    unit = Fraction(10) ** (exponent - len(decimals))
    return digits * unit, unit if exponent_text or decimals else None


def in_base(digits: str, base: int) -> Node:
    """A numeral in a base: its value, with the notation in the label so that others can tell it from decimal."""
    if not 2 <= base <= 36:
        raise Refusal(f"cannot read {digits} in such a base: expected 2 to 36")
    whole, _, part = digits.partition(".")
    try:
        value = Fraction(int(whole or "0", base)) + (Fraction(int(part, base), base ** len(part)) if part else 0)
    except ValueError as wrong:
        raise Refusal(f"{digits} is no numeral in base {base}") from wrong
    return Node(Kind.NUMBER, (), f"base {base}", value)


def attach(node: Node, unit: str) -> Node:
    """A value with its unit; percent and number words are part of the value."""
    words = unit.split()
    if units.HEDGES & {word.lower().strip(",.()") for word in words}:
        raise Refusal(f"not a unit: {unit}")
    while words and words[0].lower() in units.MULTIPLIERS:
        node = mul(node, num(units.MULTIPLIERS[words.pop(0).lower()]))
    if words and words[0].lower() in ("percent", "percents", "percentage"):
        return mul(node, num(Fraction(1, 100)))
    if not words:
        return node
    if node.kind is Kind.QUANTITY:
        return Node(Kind.QUANTITY, node.args, f"{node.label} {' '.join(words)}")
    return Node(Kind.QUANTITY, (node,), " ".join(words))


def derivative(top: Node, bottom: Node) -> Node | None:
    r"""``\frac{dx}{dt}`` and ``\dot x`` are one symbol; the d of Leibniz is no factor to cancel."""
    if top.kind is not Kind.PRODUCT or bottom.kind is not Kind.PRODUCT or len(top.args) != 2 or len(bottom.args) != 2:
        return None
    (mark, function), (below, variable) = top.args, bottom.args
    dots = "dot"
    if mark == power(sym("d"), num(2)) and variable.kind is Kind.POWER and variable.args[1] == num(2):
        mark, variable, dots = sym("d"), variable.args[0], "ddot"
    if mark != sym("d") or below != sym("d") or function.kind is not Kind.SYMBOL or variable.kind is not Kind.SYMBOL:
        return None
    return (
        sym(f"{dots}({function.label})") if variable.label == "t" else sym(f"{dots}({function.label},{variable.label})")
    )
