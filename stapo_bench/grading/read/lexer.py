r"""Cleaned text to tokens. Words are split into names here, so that ``2xy`` is a product and ``east`` is not."""

import re
from enum import Enum
from typing import NamedTuple

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read.characters import GREEK
from stapo_bench.grading.tree import Refusal
from stapo_bench.grading.units import WORDS as UNIT_WORDS
from stapo_bench.grading.units import canonical

MAX_TOKENS = 3000
MAX_NESTED = 32  # \text{} inside \text{}


class TokenKind(Enum):
    """What a token is. Compare with ``is``."""

    NUMBER = "number"
    NAME = "name"  # of a symbol, a function or a constant
    WORD = "word"  # other letters
    TEXT = "text"  # in \text{}
    COMMAND = "command"  # of LaTeX, without its backslash
    OPERATOR = "operator"
    SEPARATOR = "separator"  # between values: , ; and or
    END = "end"  # what stands behind the last token

    __hash__ = object.__hash__  # members are unique; Enum's own hash runs Python code at each look-up


class Token(NamedTuple):
    """A piece of text that means something by itself."""

    kind: TokenKind
    text: str
    space: bool = False  # white space before it


FUNCTIONS = frozenset({
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc", "sinh",
    "cosh", "tanh", "coth", "sech", "csch", "arcsinh", "arccosh", "arctanh", "ln", "log", "lg", "exp", "sqrt",
    "cbrt", "root", "abs", "floor", "ceil", "min", "max", "gcd", "lcm", "det", "sgn", "sign", "cis", "Re", "Im",
    "deg", "binom", "frac", "dim", "Arg", "arg", "conj",
})  # fmt: skip
_ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sen": "sin", "tg": "tan", "ctg": "cot", "cosec": "csc",
    "arctg": "arctan", "ceiling": "ceil", "sinh": "sinh", "arsinh": "arcsinh", "arcosh": "arccosh",
    "artanh": "arctanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "operatornamelcm": "lcm",
    "Sqrt": "sqrt", "Log": "ln", "infinity": "infty", "inf": "infty", "oo": "infty", "Infinity": "infty",
    "iff": "iff", "Pi": "Pi", "nCr": "binom", "choose": "choose",
}  # fmt: skip
SYMBOLS = frozenset(GREEK) | frozenset(
    ["Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega", "ell", "hbar", "infty"]
)
KNOWN_NAMES = FUNCTIONS | SYMBOLS | frozenset(_ALIASES)
_PREFIX = regex(
    r"(arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|sqrt|ln|log)(pi|theta|alpha|beta|phi|omega|[A-Za-z]{1,2})$"
)
_LETTER = regex(r"[A-Za-z]")
_CONNECTIVES = {"and", "or"}
_TEXT_CONNECTIVES = {
    "and": "and", "or": "or", "et": "and", "ou": "or", "und": "and", "oder": "or", "и": "and", "или": "or", "或": "or",
    "和": "and", "y": "and", "e": "and", "o": "or", "ou bien": "or",
}  # fmt: skip
_TOKEN = regex(
    r"(?P<space>\s+)|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![\d.]))?)|(?P<text>\\text\{)"
    r"|(?P<command>\\(?:[A-Za-z]+|.))|(?P<letters>[A-Za-z]+)|(?P<operator>.)",
    re.DOTALL,
)
_THOUSANDS = regex(r"[1-9]\d{0,2}(?:,\d{3})+(?![\d,])(?:\.\d+)?|[1-9]\d{0,2}(?: \d{3})+(?! ?[\d,])(?:\.\d+)?")
_UNIT_LAYOUT = regex(r"\\cdot|[()]")
_OPENERS, _CLOSERS = ("(", "[", "\\{"), (")", "]", "\\}")


def lex(text: str, thousands: bool = True, nested: int = 0) -> list[Token]:
    r"""Split cleaned text into tokens.

    ``thousands``: outside brackets, ``1,234`` is one number; inside them a comma always separates.
    ``nested``: how many ``\text{}`` it stands in.

    >>> [t.text for t in lex(r"2xy+\sin x, 1,234")]
    ['2', 'x', 'y', '+', 'sin', 'x', ',', '1234']
    """
    tokens: list[Token] = []
    position = depth = 0
    space = False
    while position < len(text):
        if len(tokens) > MAX_TOKENS:
            raise Refusal("too many tokens")
        match = _TOKEN.match(text, position)
        assert match is not None  # the pattern takes any character
        group, piece, known = match.lastgroup, match.group(), len(tokens)
        position = match.end()
        if group == "space":
            space = True
            continue
        if group == "number":
            grouped = _THOUSANDS.match(text, match.start()) if thousands and depth == 0 else None
            if grouped and not (tokens and tokens[-1].text in (".", ",") and not space):
                piece, position = grouped.group().replace(",", "").replace(" ", ""), grouped.end()
            tokens.append(Token(TokenKind.NUMBER, piece, space))
        elif group == "text":
            content, position = _braced(text, position)
            tokens.extend(_text_tokens(content, space, nested))
        elif group == "command":
            tokens.append(_command(piece, space))
        elif group == "letters":
            behind_number = tokens and tokens[-1].kind is TokenKind.NUMBER
            minutes = piece == "min" and behind_number and text[position : position + 1] != "("
            tokens.extend([Token(TokenKind.WORD, piece, space)] if minutes else _letters(piece, space))
        else:
            tokens.append(Token(TokenKind.SEPARATOR if piece in ",;" else TokenKind.OPERATOR, piece, space))
        if len(tokens) > known:  # an empty \text{} is no token
            depth += (tokens[-1].text in _OPENERS) - (tokens[-1].text in _CLOSERS)
        space = False
    return tokens


def _braced(text: str, start: int) -> tuple[str, int]:
    """What stands in the braces opened before ``start``, and the position behind them."""
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return text[start:position], position + 1
    raise Refusal("unclosed brace")


def _text_tokens(content: str, space: bool, nested: int) -> list[Token]:
    r"""``\text{and}`` separates, ``\text{13}`` is mathematics, ``\text{ cm}`` is words."""
    if nested > MAX_NESTED:
        raise Refusal("nested too deeply")
    bare = _unit_in_one(content.strip())
    if not bare:
        return []
    is_letter = len(bare) == 1 and content == bare  # \\text{e} may be a name, \\text{ e } joins
    if not is_letter and (joint := _TEXT_CONNECTIVES.get(bare.lower().strip(", "))) is not None:
        return [Token(TokenKind.SEPARATOR, joint, True)]
    head, _, tail = bare.rpartition(" ")
    if head and tail.lower() in _CONNECTIVES:  # "3 \\text{ hours and } 30"
        return [*_text_tokens(head, space, nested + 1), Token(TokenKind.SEPARATOR, tail.lower(), True)]
    if not _LETTER.search(bare) or "\\" in bare:
        return lex(bare, nested=nested + 1)
    if (bare in FUNCTIONS and bare not in ("min", "deg")) or bare in ("i", "e", "d", "pi"):
        return [Token(TokenKind.NAME, bare, space)]
    return [Token(TokenKind.TEXT, bare, space)]


def _unit_in_one(text: str) -> str:
    """``J/ kg K`` for ``J/(kg \\cdot K)``, if that is a unit; else the text as it is."""
    unit = _UNIT_LAYOUT.sub(" ", text).strip() if "\\cdot" in text else ""
    return unit if unit and isinstance(canonical(unit), tuple) else text


# Commands whose token is not a command.
_COMMANDS = {
    **dict.fromkeys(("land", "wedge"), (TokenKind.SEPARATOR, "and")),
    **dict.fromkeys(("lor", "vee"), (TokenKind.SEPARATOR, "or")),
    "{": (TokenKind.OPERATOR, "\\{"),
    "}": (TokenKind.OPERATOR, "\\}"),
    "%": (TokenKind.OPERATOR, "%"),
    "|": (TokenKind.OPERATOR, "|"),
}
_NAMED_COMMANDS = (FUNCTIONS - {"frac", "binom", "sqrt"}) | SYMBOLS


def _command(piece: str, space: bool) -> Token:
    """The token of a command, given with its backslash."""
    name = piece[1:]
    if name in _COMMANDS:
        kind, text = _COMMANDS[name]
        return Token(kind, text, space or kind is TokenKind.SEPARATOR)
    name = _ALIASES.get("infinity" if name == "infin" else name, name)
    return Token(TokenKind.NAME if name in _NAMED_COMMANDS else TokenKind.COMMAND, name, space)


def _letters(run: str, space: bool) -> list[Token]:
    """Letters: a known name, a few variables side by side, or a word (which the parser takes as one name or a unit)."""
    if run in _CONNECTIVES:
        return [Token(TokenKind.SEPARATOR, run, True)]
    if len(run) == 1 or run in KNOWN_NAMES:
        return [Token(TokenKind.NAME, _ALIASES.get(run, run), space)]
    split = _PREFIX.match(run)
    if split:
        return [Token(TokenKind.NAME, split[1], space), *_letters(split[2], False)]
    if run.endswith("pi") and len(run) == 3:
        return [Token(TokenKind.NAME, run[0], space), Token(TokenKind.NAME, "pi")]
    if run in UNIT_WORDS or not is_product(run):
        return [Token(TokenKind.WORD, run, space)]
    return [Token(TokenKind.NAME, letter, space and index == 0) for index, letter in enumerate(run)]


def is_product(run: str) -> bool:
    """Whether letters side by side are a product: ``xy``, ``abc``, ``mgh``; not ``red``, ``ABC`` (a name), ``no``."""
    if len(run) == 2:
        return run.lower() not in ("no", "or", "if", "is", "of", "to")
    if len(run) > 4 or set(run.lower()) & set("eiou"):
        return False
    if run.islower():
        return "a" not in run or list(run) == sorted(run)
    return not run.isupper() and not run[1:].islower()  # RsC; not ABC, Cat
