r"""Runs of mathematics in a sentence of prose: numbers, formulas, signs, letters, number words and units side by side.

Formulas between dollar signs are single characters of a private Unicode area here (see ``Hidden``), so that no rule
cuts one in two.
"""

from typing import NamedTuple

from stapo_bench.grading.extraction.languages import JOINERS
from stapo_bench.grading.extraction.tokens import TRAILING, Token
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import in_digits

_OPENING, _CLOSING = "([{", ")]}"
_LEADING = frozenset(
    "-+\u2212\u2013\u00b1\u2213\u221a\u221b\u221c<>\u2264\u2265\u2248\u2260([{|$\u20ac\u00a3\u00a5\u20b9\u2220\u00ac\u222b\u2211\u220f]\\"
)
_PLURAL = frozenset(["are", "roots", "solutions", "values", "numbers", "sind", "sont", "son", "sono", "são"])
_UNIT_PRODUCT = regex(r"\\text\{ (\w+) \}\s*[\u00b7*\u22c5]\s*(\w+?(?:/\w+|\u207b[\u00b9\u00b2\u00b3])?)$")
_UNIT_PER = regex(r"\\text\{ (\w+) \}/(s|h|min|kg|mol|day)(?![\w(^\u00b2\u00b3])")  # "m/s"
_UNIT_BELOW = regex(r"\\text\{ (\w+) \}/\((\w+)\s*[\u00b7*\u22c5 ]\s*(\w+)\)")


_LETTER_BEFORE = regex(r"(?<![A-Za-z\d.])[A-Za-z](?:_\w+)?\s*$")


class Span(NamedTuple):
    """A run of mathematics: where it stands, and its text, number words in digits."""

    start: int
    end: int
    text: str
    is_bare_letter: bool
    in_words: bool  # it is a number word


def spans(pieces: list[Token]) -> list[Span]:
    """The runs of mathematics among the tokens of a sentence, trimmed to what can be an answer."""
    found: list[Span] = []
    run: list[Token] = []
    has_value = has_word = False
    word = ""
    for token in [*pieces, Token("stop", "", 0, 0)]:
        ends = token.kind in ("word", "stop")
        # A number word does not go on a run of signs, nor they on it.
        bare = [piece for piece in run if piece.kind != "space"]
        goes_on = len(bare) > 1 and bare[-1].text in ("and", "or") and bare[-2].kind == "number"  # "one half and 1"
        parts = (token.kind == "number" and has_value) or (
            token.kind in ("value", "sign") and has_word and token.text != "%" and not goes_on
        )
        if ends or parts:
            beside_a = word == "a" and run[:1] and run[0].text == ","  # "a, b = 3, 5"
            bare = [piece for piece in run if piece.kind != "space"]
            if (
                token.text in ("equals", "is")
                and len(bare) > 2
                and bare[-2].kind == "joiner"
                and bare[-1].text.isalpha()
            ):
                run = run[: run.index(bare[-2])]  # "2 or x" before "equals 3"
            found += _trimmed(run, word in _PLURAL or bool(beside_a))
            run = []
            has_value = has_word = False
            word = token.text.lower()
        if not ends:
            run.append(token)
            has_value = has_value or token.kind == "value"
            has_word = has_word or token.kind == "number"
    return found


def _trimmed(run: list[Token], several: bool) -> list[Span]:
    """The run without what cannot begin or end an answer, as a span; none where nothing is left.

    ``several``: the word before it announces several values, so that no comma in it is a decimal one.
    """
    run = list(run)
    while run and (
        run[0].kind in ("space", "joiner", "unit") or (run[0].kind == "sign" and run[0].text not in _LEADING)
    ):
        run.pop(0)
    while run and (run[-1].kind in ("space", "joiner") or (run[-1].kind == "sign" and run[-1].text not in TRAILING)):
        run.pop()
    run = _balanced(run)
    if not any(token.kind in ("value", "number") for token in run):
        return []
    in_words = any(token.kind == "number" for token in run)
    text = ""
    for place, (token, following) in enumerate(zip(run, [*run[1:], run[-1]], strict=True)):
        if token.text == "," and following.text[:1].isdigit() and not several:
            text += ","
        elif token.kind == "unit" and (_LETTER_BEFORE.search(text) or _is_factor(run[place : place + 3])):
            text += token.text  # no unit stands behind a letter or before one, but a factor of a product
        else:
            text += _written(token)
    is_letter = len(run) == 1 and len(text) == 1 and text.isalpha()  # a hidden formula is none
    text = _UNIT_PER.sub(r"\\text{ \1/\2}", text)
    text = _UNIT_PRODUCT.sub(r"\\text{ \1 \2 }", text)
    text = _UNIT_BELOW.sub(lambda m: rf"\text{{ {m[1]}/{m[2]} {m[3]} }}", text)
    return [
        Span(
            run[0].start,
            run[-1].end,
            text.strip(),
            is_letter,
            in_words,
        )
    ]


def _is_factor(pieces: list[Token]) -> bool:
    """Whether a letter that may be a unit stands before another letter: "m v^2"."""
    letter, *behind = [piece for piece in pieces if piece.kind != "space"]
    return len(letter.text) == 1 and bool(behind) and behind[0].kind == "value" and behind[0].text.isalpha()


def _written(token: Token) -> str:
    """A token as an answer writes it."""
    if token.kind == "number":
        return in_digits(token.text) or token.text
    if token.kind == "joiner":
        return ", " if token.text in ",;\uff1b\u3001" else f" {JOINERS[token.text.lower()]} "
    if token.kind == "unit" and token.text.isalpha() and token.text not in ("am", "pm"):
        return f"\\text{{ {token.text} }}" if token.text != "percent" else "%"
    return token.text


def _balanced(run: list[Token]) -> list[Token]:
    """The run without brackets at its ends that have no partner; half-open intervals may close with the other kind."""
    opens = next((place for place, token in enumerate(run) if token.text == "]"), None)
    if opens is not None and run[-1].text in ("[", "]") and len(run) > opens + 3:  # "]0 ; 1]", "S = ]0 ; 1["
        before = [token.text for token in run[:opens] if token.kind != "space"]
        if not before or before[-1] in ("=", "∈"):
            return run[opens:]
    opens = next((place for place, token in enumerate(run) if token.text == "["), None)
    if opens is not None and run[-1].text == "[" and len(run) > opens + 3 and any(t.text in ",;" for t in run[opens:]):
        return run[opens:]  # "[3 ; +∞["
    depth, lowest = 0, -1
    for index, token in enumerate(run):
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth < 0:
            lowest, depth = index, 0
    if lowest >= 0 and not any(token.text == "[" for token in run[lowest:]):
        head, tail = run[:lowest], run[lowest + 1 :]
        run = tail if any(token.kind == "value" for token in tail) else head
    while run and sum(t.text in _OPENING for t in run) > sum(t.text in _CLOSING for t in run):
        last = max(i for i, t in enumerate(run) if t.text in _OPENING)
        run = run[:last] if any(t.kind == "value" for t in run[:last]) else run[last + 1 :]
    while run and run[-1].kind in ("space", "joiner"):
        run = run[:-1]
    while run and run[0].kind in ("space", "joiner"):
        run = run[1:]
    return run
