r"""A recursive-descent reader of expressions: tokens in, tree out, ``Refusal`` for anything not understood.

Text is walked, never executed. Precedence, loosest first: ``+ - ±``; implied and written products and ``/`` from left
to right; sign; ``^`` and ``!``. Lists, relations, sets and intervals around expressions are read by ``answers``.
"""

from fractions import Fraction

from stapo_bench.grading import units
from stapo_bench.grading.atoms import ACCENTS, ATOMS, AtomReader
from stapo_bench.grading.lexer import FUNCTIONS, Token
from stapo_bench.grading.numerals import attach
from stapo_bench.grading.tree import Node, Refusal, add, call, divide, mul, negate, num, power, sym

MAX_FACTORS = 200
MAX_POSTFIXES = 20  # of one value: each makes the tree deeper
MAX_UNIT_WORDS = 40


class Parser(AtomReader):
    """Sums, products, units and powers."""

    # ---- sums -------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        self.deeper()
        terms = [self._signed()]
        while self.peek().kind in ("op", "cmd") and self.peek().text in ("+", "-", "pm", "mp"):
            terms.append(self._signed())
        node = terms[0] if len(terms) == 1 else add(*terms)
        if self.accept("over"):
            node = divide(node, self.expression())
        elif self.accept("choose"):
            node = call("binom", node, self.expression())
        self.depth -= 1
        return node

    def _signed(self) -> Node:
        sign: list[str] = []
        while self.peek().kind in ("op", "cmd") and self.peek().text in ("+", "-", "pm", "mp"):
            sign.append(self.take().text)
            if len(sign) > 8:
                raise Refusal("too many signs")
        node = self.product()
        for mark in reversed(sign):
            if mark == "-":
                node = negate(node)
            elif mark in ("pm", "mp"):
                node = Node("pm", (node,), mark)
        return node

    # ---- products ---------------------------------------------------------------------------------------------

    def product(self) -> Node:
        factors = [self.unary()]
        signs = 0
        while True:
            token = self.peek()
            if len(factors) > MAX_FACTORS:
                raise Refusal("too many factors")
            if token.text in ("*", "cdot", "times") and token.kind in ("op", "cmd"):
                self.take()
                factors.append(self.unary())
            elif token.text in ("/", "div") and token.kind in ("op", "cmd"):
                if self._unit_follows(1):
                    factors = [self._quantity(_joined(factors))]
                    continue
                self.take()
                factors.append(power(self.unary(), num(-1)))
            elif token.text == "x" and token.kind == "name" and self._times_ten(factors[-1]):
                self.take()
                factors.append(self.unary())
            elif token.text == "%" and token.kind == "op":
                self.take()
                signs += 1
                if signs > MAX_POSTFIXES:
                    raise Refusal("too many percent signs")
                factors = [mul(_joined(factors), num(Fraction(1, 100)))]
            elif factors[0].kind == "quantity" and len(factors) == 1 and token.kind == "num":
                self.deeper()
                node = add(factors[0], self.product())  # 5 ft 6 in
                self.depth -= 1
                return node
            elif self._unit_follows(0):
                factors = [self._quantity(_joined(factors))]
            elif self._starts_factor(token):
                self._implied(factors)
            else:
                return _joined(factors)

    def _times_ten(self, node: Node) -> bool:
        """``4.5 x 10^3``: an x between a number and a power of ten multiplies."""
        return node.kind == "num" and self.peek(1).text == "10" and self.peek(2).text == "^"

    def _implied(self, factors: list[Node]) -> None:
        """Append a factor that stands beside the last one without a sign, or make a mixed number of the two."""
        token = self.peek()
        start = self.position
        factor = self.power()
        mixed = self._mixed(factors[-1], factor, start)
        if mixed is not None:
            factors[-1] = mixed
            return
        if token.kind == "num" and (self._ends_in_number(start) or factors[-1].kind == "num"):
            raise Refusal("two numbers side by side")
        if "word" in (token.kind, self.tokens[start - 1].kind):
            raise Refusal("words side by side")
        factors.append(factor)

    def _ends_in_number(self, start: int) -> bool:
        return self.tokens[start - 1].kind == "num"

    def _mixed(self, whole: Node, part: Node, start: int) -> Node | None:
        r"""``1\frac{4}{5}`` and ``1 4/5`` are 9/5; ``2\frac{x}{3}`` is a product; ``5\frac{4}{3}`` might be either."""
        if (
            whole.kind != "num"
            or whole.value is None
            or whole.value.denominator != 1
            or self.tokens[start - 1].kind != "num"
        ):
            return None
        if (
            part.kind == "num"
            and self.tokens[start].kind == "num"
            and self.peek().text == "/"
            and self.peek(1).kind == "num"
        ):
            mark = self.position
            self.take()
            bottom = self.power()
            if (
                part.value is not None
                and bottom.value
                and part.value.denominator == 1
                and bottom.value.denominator == 1
            ):
                fraction: Fraction | None = part.value / bottom.value
            else:
                fraction = None
            if fraction is None or not 0 < fraction < 1:
                self.position = mark
                return None
            return num(whole.value + fraction)
        if self.tokens[start].text != "frac" or part.kind != "mul" or len(part.args) != 2:
            return None
        top, bottom = part.args[0], part.args[1].args[0] if part.args[1].kind == "pow" else part.args[1]
        if top.kind != "num" or bottom.kind != "num" or not top.value or not bottom.value:
            return None
        ratio = top.value / bottom.value
        if not 0 < ratio < 1 or top.ulp is not None or bottom.ulp is not None:
            raise Refusal("neither a mixed number nor a product")
        return num(whole.value + ratio)

    def unary(self) -> Node:
        signs = 0
        while self.peek().kind == "op" and self.peek().text in ("-", "+"):
            signs += self.take().text == "-"
        node = self.power()
        return negate(node) if signs % 2 else node

    def _starts_factor(self, token: Token) -> bool:
        if token.text == "U" and self.position and self.tokens[self.position - 1].text in (")", "]", "\\}"):
            return self.peek(1).text not in ("(", "[", "\\{")  # a union written with a letter
        if token.kind in ("num", "name", "word"):
            return True
        if token.kind == "op":
            return token.text in ("(", "{", "[") or (token.text == "|" and self.bars == 0 and self._bar_closes())
        return token.kind == "cmd" and (token.text in ACCENTS or token.text in ATOMS)

    def _bar_closes(self) -> bool:
        return any(token.text == "|" for token in self.tokens[self.position + 1 :])

    # ---- units ------------------------------------------------------------------------------------------------

    def _unit_follows(self, ahead: int) -> bool:
        token = self.peek(ahead)
        before = self.peek(ahead - 1) if self.position + ahead > 0 else Token("end", "")
        if self.lead(ahead):
            return False
        if token.kind == "text" or token.text in units.SIGNS:
            return True
        if token.kind == "word":
            return before.kind != "word"
        return False

    def _quantity(self, node: Node) -> Node:
        """Collect the words, powers and slashes of a unit behind a value."""
        pieces: list[str] = []
        while True:
            token = self.peek()
            if token.kind in ("text", "word") or token.text in units.SIGNS:
                pieces.append(token.text)
            elif token.text in ("/", "cdot", "*", "times") and self.peek(1).kind in ("text", "word"):
                pieces.append("/" if token.text == "/" else " ")
            elif (
                pieces
                and token.text == "/"
                and self.peek(1).text in units.LETTERS | {"h"}
                and self.peek(1).kind == "name"
            ):
                pieces.append("/" + self.peek(1).text)
                self.position += 1
            elif pieces and token.text == "^":
                pieces.append("^" + self._unit_power())
                continue
            elif pieces and token.kind == "num" and token.text in ("2", "3") and not token.space:
                pieces.append("^" + token.text)
            elif pieces and token.kind == "name" and len(token.text) == 1 and token.text in units.LETTERS:
                pieces.append(token.text)
            else:
                break
            self.position += 1
        unit = " ".join(pieces)
        words = [word.strip(".,").lower() for word in unit.split()]
        if len(words) > MAX_UNIT_WORDS:
            raise Refusal("a unit of too many words")
        if not words or words[-1] in units.BOUNDS or (node.kind != "quantity" and set(words) <= {"squared", "cubed"}):
            raise Refusal(f"not a unit: {unit}")
        return attach(node, f"{unit}s" if f"{unit.lower()}s" in units.MULTIPLIERS else unit)  # 1 third

    def _unit_power(self) -> str:
        self.take()
        braces = self.accept("{")
        sign = "-" if self.accept("-") else ""
        token = self.take()
        if token.kind != "num":
            raise Refusal("unit power is no number")
        if braces:
            self.expect("}")
        return sign + token.text

    # ---- powers and postfixes ---------------------------------------------------------------------------------

    def power(self) -> Node:
        opens = self._takes_what_follows(self.peek())
        if opens:
            self.deeper()
        node = self._with_postfixes(self.atom())
        self.depth -= opens
        return node

    def _takes_what_follows(self, token: Token) -> bool:
        r"""Functions, sums and a unit in front, which need no brackets to nest: ``\sin\sin x``, ``€€5``."""
        if token.kind == "name":
            return token.text in FUNCTIONS and token.text not in ("sqrt", "frac", "binom")
        return token.text in units.SIGNS or token.text in ("sum", "prod") or token.text.strip(". ") in units.WORDS

    def _with_postfixes(self, node: Node) -> Node:
        for _ in range(MAX_POSTFIXES):
            token = self.peek()
            if token.text == "^" and token.kind == "op":
                self.take()
                node = self._raise(node)
            elif token.text == "*" and self.peek(1).text == "*":
                self.position += 2
                self.deeper()
                node = power(node, self.unary())
                self.depth -= 1
            elif token.text == "!" and token.kind == "op":
                self.take()
                node = call("factorial2" if self.accept("!") else "factorial", node)
            elif token.text == "'" and token.kind == "op" and node.kind == "sym":
                self.take()
                node = sym(node.label + "'")
            else:
                return node
        raise Refusal("too many powers and signs behind a value")

    def _raise(self, node: Node) -> Node:
        token = self.peek()
        if token.text == "{" and self.peek(1).text == "circ":
            self.position += 2
            self.expect("}")
            return self._degrees(node)
        if token.text == "circ":
            self.take()
            return self._degrees(node)
        if token.text == "{" and self.peek(1).kind == "text" and self.peek(1).text in ("th", "st", "nd", "rd"):
            self.position += 2
            self.expect("}")
            return node
        if token.text == "{" and self.peek(1).text in ("prime", "'") and node.kind == "sym":
            while self.accept("{", "prime", "'"):
                node = sym(node.label + "'") if self.tokens[self.position - 1].text != "{" else node
            self.expect("}")
            return node
        if token.text == "prime" and node.kind == "sym":
            self.take()
            return sym(node.label + "'")
        if node.kind == "call" and node.label == "name":
            raise Refusal("power of a bare function name")
        return power(node, self.argument())

    def _degrees(self, node: Node) -> Node:
        token = self.peek()
        if token.text in ("C", "F") and token.kind in ("name", "text"):
            self.take()
            return attach(node, "deg" + token.text)
        if token.text == "K" and token.kind in ("name", "text"):
            self.take()
            return attach(node, "K")
        return attach(node, "deg")


def _joined(factors: list[Node]) -> Node:
    """The product of the factors, flat: a long product must not make a deep tree."""
    return factors[0] if len(factors) == 1 else mul(*factors)
