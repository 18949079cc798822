"""A position in a list of tokens, and the steps that all parsers take from it, within bounds."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from stapo_bench.grading import units
from stapo_bench.grading.read.lexer import Token, TokenKind
from stapo_bench.grading.tree import Node, Refusal

MAX_DEPTH = 32
MAX_TAKEN = 8000
_END = Token(TokenKind.END, "end")
_WORDS = frozenset({TokenKind.TEXT, TokenKind.WORD})
_ACCEPTED = frozenset({TokenKind.OPERATOR, TokenKind.COMMAND, TokenKind.NAME, TokenKind.SEPARATOR})


class Cursor(ABC):
    """A position in a token list. ``bracket`` parses what stands in brackets; ``answer_parser`` supplies it."""

    def __init__(self, tokens: list[Token], bracket: Callable[[Any], Node]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.bars = 0  # open |
        self.taken = 0
        self.in_set = False  # a colon behind the first element of a set is "such that", not a ratio
        self.bracket = bracket

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further ahead; behind the last one stand END tokens."""
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else _END

    def take(self) -> Token:
        """The next token; the position moves behind it. ``Refusal`` where too many were taken."""
        token = self.peek()
        self.position += 1
        self.taken += 1
        if self.taken > MAX_TAKEN:
            raise Refusal("too much to read")
        return token

    def accept(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs; returns whether it was."""
        token = self.peek()
        if token.text in texts and token.kind in _ACCEPTED:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take the next token, which must be this sign; else ``Refusal``."""
        if not self.accept(text):
            raise Refusal(f"expected {text!r}, got {self.peek().text!r}")

    def at_end(self) -> bool:
        """Whether all tokens are taken."""
        return self.position >= len(self.tokens)

    def lead(self, ahead: int = 0) -> str | None:
        """The word that opens a condition ("for", "if", "otherwise"), where one stands here."""
        token = self.peek(ahead)
        if token.kind not in _WORDS:
            return None
        word = token.text.split()[0].lower().strip(",:")
        return word if word in units.CONDITIONS else None

    def deeper(self) -> None:
        """Enter a nested part; whoever parsed it leaves with ``self.depth -= 1``."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Refusal("nested too deeply")

    @abstractmethod
    def expression(self) -> Node:
        """A sum."""

    @abstractmethod
    def product(self) -> Node:
        """A product, with its unit."""

    @abstractmethod
    def unary(self) -> Node:
        """A signed power."""

    @abstractmethod
    def power(self) -> Node:
        """An atom with its exponents and postfixes."""
