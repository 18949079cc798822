"""Quantities: a value with the words, signs, powers and slashes of a unit behind it."""

from stapo_bench.grading import units
from stapo_bench.grading.read.atom_parser import AtomParser
from stapo_bench.grading.read.lexer import Token, TokenKind
from stapo_bench.grading.read.number_parser import attach
from stapo_bench.grading.tree import Kind, Node, Refusal

MAX_UNIT_WORDS = 40
_WORDS = (TokenKind.TEXT, TokenKind.WORD)


class QuantityParser(AtomParser):
    """Parses units."""

    def unit_follows(self, ahead: int) -> bool:
        """Whether a unit begins at the token so far ahead."""
        token = self.peek(ahead)
        before = self.peek(ahead - 1) if self.position + ahead > 0 else Token(TokenKind.END, "")
        if self.lead(ahead):
            return False
        if token.kind is TokenKind.TEXT or token.text in units.SIGNS:
            return True
        if token.kind is TokenKind.WORD:
            return before.kind is not TokenKind.WORD
        return False

    def quantity(self, node: Node) -> Node:
        """The value with the words, powers and slashes of the unit behind it."""
        pieces: list[str] = []
        while True:
            token = self.peek()
            if token.kind in _WORDS or token.text in units.SIGNS:
                pieces.append(token.text)
            elif token.text in ("/", "cdot", "*", "times") and self.peek(1).kind in _WORDS:
                pieces.append("/" if token.text == "/" else " ")
            elif pieces and token.text == "/" and self._is_letter(self.peek(1)):
                pieces.append("/" + self.peek(1).text)
                self.position += 1
            elif pieces and token.text == "^":
                pieces.append("^" + self._unit_power())
                continue
            elif (
                pieces
                and token.kind is TokenKind.NUMBER
                and token.text in ("2", "3")
                and not (token.space or self.peek(1).kind in _WORDS)
            ):
                pieces.append("^" + token.text)
            elif pieces and self._is_letter(token):
                pieces.append(token.text)
            else:
                break
            self.position += 1
        unit = " ".join(pieces)
        words = [word.strip(".,").lower() for word in unit.split()]
        if len(words) > MAX_UNIT_WORDS:
            raise Refusal("a unit of too many words")
        only_power = node.kind is not Kind.QUANTITY and set(words) <= {"squared", "cubed"}
        if not words or words[-1] in units.BOUNDS or only_power:
            raise Refusal(f"not a unit: {unit}")
        return attach(node, f"{unit}s" if f"{unit.lower()}s" in units.MULTIPLIERS else unit)  # 1 third

    def _is_letter(self, token: Token) -> bool:
        """Whether the token can be a unit of one letter."""
        return token.kind is TokenKind.NAME and token.text in units.LETTERS

    def _unit_power(self) -> str:
        """The exponent of a unit."""
        self.take()
        braces = self.accept("{")
        sign = "-" if self.accept("-") else ""
        token = self.take()
        if token.kind is not TokenKind.NUMBER:
            raise Refusal("unit power is no number")
        if braces:
            self.expect("}")
        return sign + token.text
