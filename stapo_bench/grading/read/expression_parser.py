r"""A recursive-descent parser of expressions: tokens in, tree out, ``Refusal`` for anything not understood.

Text is never executed. Precedence, loosest first: ``+ - ±``; implied and written products and ``/`` from left to right;
sign; ``^`` and ``!``. Lists, relations, sets and intervals around expressions are parsed by ``answer_parser``.
"""

from fractions import Fraction

from stapo_bench.grading import units
from stapo_bench.grading.read.atom_parser import ACCENTS, ATOMS
from stapo_bench.grading.read.lexer import FUNCTIONS, Token, TokenKind
from stapo_bench.grading.read.number_parser import attach
from stapo_bench.grading.read.quantity_parser import QuantityParser
from stapo_bench.grading.tree import Kind, Node, Refusal, add, call, divide, mul, negate, num, power, sym

MAX_FACTORS = 200
MAX_POSTFIXES = 20  # of one value: each makes the tree deeper
_SIGNS = frozenset({TokenKind.OPERATOR, TokenKind.COMMAND})
_FACTORS = frozenset({TokenKind.NUMBER, TokenKind.NAME, TokenKind.WORD})


class ExpressionParser(QuantityParser):
    """Parses sums, products and powers."""

    # ---- sums -------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        """A sum of signed products."""
        self.deeper()
        terms = [self._signed()]
        while self.peek().kind in _SIGNS and self.peek().text in ("+", "-", "pm", "mp"):
            terms.append(self._signed())
        node = terms[0] if len(terms) == 1 else add(*terms)
        if self.accept("over"):
            node = divide(node, self.expression())
        elif self.accept("choose"):
            node = call("binom", node, self.expression())
        self.depth -= 1
        return node

    def _signed(self) -> Node:
        """A product with the signs before it."""
        sign: list[str] = []
        while self.peek().kind in _SIGNS and self.peek().text in ("+", "-", "pm", "mp"):
            sign.append(self.take().text)
            if len(sign) > 8:
                raise Refusal("too many signs")
        node = self.product()
        for mark in reversed(sign):
            if mark == "-":
                node = negate(node)
            elif mark in ("pm", "mp"):
                node = Node(Kind.PLUS_MINUS, (node,), mark)
        return node

    # ---- products ---------------------------------------------------------------------------------------------

    def product(self) -> Node:
        """A product of signed powers, with its unit."""
        factors = [self.unary()]
        signs = 0
        while True:
            token = self.peek()
            if len(factors) > MAX_FACTORS:
                raise Refusal("too many factors")
            if token.text in ("*", "cdot", "times") and token.kind in _SIGNS:
                self.take()
                factors.append(self.unary())
            elif token.text in ("/", "div") and token.kind in _SIGNS:
                if self.unit_follows(1):
                    factors = [self.quantity(_joined(factors))]
                    continue
                self.take()
                factors.append(power(self.unary(), num(-1)))
            elif token.text == "x" and token.kind is TokenKind.NAME and self._times_ten(factors[-1]):
                self.take()
                factors.append(self.unary())
            elif token.text == "%" and token.kind is TokenKind.OPERATOR:
                self.take()
                signs += 1
                if signs > MAX_POSTFIXES:
                    raise Refusal("too many percent signs")
                factors = [mul(_joined(factors), num(Fraction(1, 100)))]
            elif factors[0].kind is Kind.QUANTITY and len(factors) == 1 and token.kind is TokenKind.NUMBER:
                self.deeper()
                node = add(factors[0], self.product())  # 5 ft 6 in
                self.depth -= 1
                return node
            elif self.unit_follows(0):
                factors = [self.quantity(_joined(factors))]
            elif self._starts_factor(token):
                self._implied(factors)
            else:
                return _joined(factors)

    def _times_ten(self, node: Node) -> bool:
        """``4.5 x 10^3``: an x between a number and a power of ten multiplies."""
        return node.kind is Kind.NUMBER and self.peek(1).text == "10" and self.peek(2).text == "^"

    def _implied(self, factors: list[Node]) -> None:
        """Append a factor that stands beside the last one without a sign, or make a mixed number of the two."""
        token = self.peek()
        start = self.position
        factor = self.power()
        mixed = self._mixed(factors[-1], factor, start)
        if mixed is not None:
            factors[-1] = mixed
            return
        if token.kind is TokenKind.NUMBER and (
            self.tokens[start - 1].kind is TokenKind.NUMBER or factors[-1].kind is Kind.NUMBER
        ):
            raise Refusal("two numbers side by side")
        if TokenKind.WORD in (token.kind, self.tokens[start - 1].kind):
            raise Refusal("words side by side")
        factors.append(factor)

    def _mixed(self, whole: Node, part: Node, start: int) -> Node | None:
        r"""The sum of a whole number and the fraction behind it, which began at ``start``; None: a product.

        ``1\frac{4}{5}`` and ``1 4/5`` are 9/5; ``2\frac{x}{3}`` is a product; ``5\frac{4}{3}`` might be either.
        """
        if whole.value is None or whole.value.denominator != 1 or self.tokens[start - 1].kind is not TokenKind.NUMBER:
            return None
        if part.kind is Kind.NUMBER and self.tokens[start].kind is TokenKind.NUMBER and self._slash_and_number():
            fraction = self._written_fraction(part)
            return None if fraction is None else num(whole.value + fraction)
        if self.tokens[start].text != "frac" or part.kind is not Kind.PRODUCT or len(part.args) != 2:
            return None
        top, bottom = part.args[0], part.args[1].args[0] if part.args[1].kind is Kind.POWER else part.args[1]
        if top.kind is not Kind.NUMBER or bottom.kind is not Kind.NUMBER or not top.value or not bottom.value:
            return None
        ratio = top.value / bottom.value
        if not 0 < ratio < 1 or top.ulp is not None or bottom.ulp is not None:
            raise Refusal("neither a mixed number nor a product")
        return num(whole.value + ratio)

    def _slash_and_number(self) -> bool:
        """Whether a slash and a number stand next."""
        return self.peek().text == "/" and self.peek(1).kind is TokenKind.NUMBER

    def _written_fraction(self, top: Node) -> Fraction | None:
        """The proper fraction that ``top`` begins and a slash continues; else None, and the slash is left there."""
        slash = self.position
        self.take()
        bottom = self.power()
        if top.value is not None and bottom.value and top.value.denominator == bottom.value.denominator == 1:
            fraction = top.value / bottom.value
            if 0 < fraction < 1:
                return fraction
        self.position = slash
        return None

    def unary(self) -> Node:
        """A power with the signs before it."""
        signs = 0
        while self.peek().kind is TokenKind.OPERATOR and self.peek().text in ("-", "+"):
            signs += self.take().text == "-"
        node = self.power()
        return negate(node) if signs % 2 else node

    def _starts_factor(self, token: Token) -> bool:
        """Whether a token can begin a factor that stands beside another without a sign."""
        if token.text == "U" and self.position and self.tokens[self.position - 1].text in (")", "]", "\\}"):
            return self.peek(1).text not in ("(", "[", "\\{")  # a union written with a letter
        if token.kind in _FACTORS:
            return True
        if token.kind is TokenKind.OPERATOR:
            return token.text in ("(", "{", "[") or (token.text == "|" and self.bars == 0 and self._bar_closes())
        return token.kind is TokenKind.COMMAND and (token.text in ACCENTS or token.text in ATOMS)

    def _bar_closes(self) -> bool:
        """Whether another bar follows."""
        return any(token.text == "|" for token in self.tokens[self.position + 1 :])

    # ---- powers and postfixes ---------------------------------------------------------------------------------

    def power(self) -> Node:
        """An atom with its exponents and postfixes."""
        opens = self._takes_what_follows(self.peek())
        if opens:
            self.deeper()
        node = self._with_postfixes(self.atom())
        self.depth -= opens
        return node

    def _takes_what_follows(self, token: Token) -> bool:
        r"""Functions, sums and a unit in front, which need no brackets to nest: ``\sin\sin x``, ``€€5``."""
        if token.kind is TokenKind.NAME:
            return token.text in FUNCTIONS and token.text not in ("sqrt", "frac", "binom")
        return token.text in units.SIGNS or token.text in ("sum", "prod") or token.text.strip(". ") in units.WORDS

    def _with_postfixes(self, node: Node) -> Node:
        """The value with its exponents, factorials and primes."""
        for _ in range(MAX_POSTFIXES):
            token = self.peek()
            if token.text == "^" and token.kind is TokenKind.OPERATOR:
                self.take()
                node = self._raise(node)
            elif token.text == "*" and self.peek(1).text == "*":
                self.position += 2
                self.deeper()
                node = power(node, self.unary())
                self.depth -= 1
            elif token.text == "!" and token.kind is TokenKind.OPERATOR:
                self.take()
                node = call("factorial2" if self.accept("!") else "factorial", node)
            elif token.text == "'" and token.kind is TokenKind.OPERATOR and node.kind is Kind.SYMBOL:
                self.take()
                node = sym(node.label + "'")
            else:
                return node
        raise Refusal("too many powers and signs behind a value")

    def _raise(self, node: Node) -> Node:
        r"""The value with what stands behind ``^``: an exponent, degrees, a prime, or the ``th`` of an ordinal."""
        token = self.peek()
        if token.text == "{" and self.peek(1).text == "circ":
            self.position += 2
            self.expect("}")
            return self._degrees(node)
        if token.text == "circ":
            self.take()
            return self._degrees(node)
        if token.text == "{" and self.peek(1).kind is TokenKind.TEXT and self.peek(1).text in ("th", "st", "nd", "rd"):
            self.position += 2
            self.expect("}")
            return node
        if token.text == "{" and self.peek(1).text in ("prime", "'") and node.kind is Kind.SYMBOL:
            while self.accept("{", "prime", "'"):
                node = sym(node.label + "'") if self.tokens[self.position - 1].text != "{" else node
            self.expect("}")
            return node
        if token.text == "prime" and node.kind is Kind.SYMBOL:
            self.take()
            return sym(node.label + "'")
        return power(node, self.argument())

    def _degrees(self, node: Node) -> Node:
        """The value in degrees, of an angle or of Celsius, Fahrenheit or Kelvin."""
        token = self.peek()
        if token.text in ("C", "F") and token.kind in (TokenKind.NAME, TokenKind.TEXT):
            self.take()
            return attach(node, "deg" + token.text)
        if token.text == "K" and token.kind in (TokenKind.NAME, TokenKind.TEXT):
            self.take()
            return attach(node, "K")
        return attach(node, "deg")


def _joined(factors: list[Node]) -> Node:
    """The product of the factors, flat: a long product must not make a deep tree."""
    return factors[0] if len(factors) == 1 else mul(*factors)
