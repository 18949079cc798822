"""An answer in another notation: decimal commas, indices, an option's letter, an identity that ends in the gold."""

import re
import unicodedata

from stapo_bench.grading.decide.as_they_stand import MAX_CHAIN, decide_alone
from stapo_bench.grading.decide.asked import Asked
from stapo_bench.grading.decide.free_constants import with_constants_of
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean
from stapo_bench.records import Gold

_DECIMAL = regex(r"-?\s?\d*\.\d+")
_COMMA = regex(r"(?<![\d,.])(0(?=,\d{3}(?!\d))|\d+(?!,\d{3}(?!\d))),(\d+)(?![\d,])")
_INDEXED = regex(r"(?<![A-Za-z\\])([A-Za-z])(?:_\{?[1-6]\}?|[₁₂₃₄₅₆])(?=\s*=)")
_INDEX = regex(r"(?<![A-Za-z\\])([A-Za-z])(?=\d)()")
_ONE_NUMBER = regex(  # "x = -4,5 cm", "1,5² = 2,25"; not "(4,5)", nor "a,b = 4,5"
    r"(?:(?:[^,]|(?<=\d),(?=\d))*(?:[=≈]|\\approx))?\s*[-+−]?\s*\d+,\d+(?:(?!\\rangle)[^\d,()\[\];|][^,()\[\];|]*)?"
)
_FUNCTION_NAMES = regex(r"\\[A-Za-z]+|(?<![A-Za-z])(?:ln|log|sin|cos|tan|exp|sqrt)(?![A-Za-z])")
_LETTER = regex(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_RECURRING = regex(r"(\d+\.\d*)\((\d+)\)")
_OPTION = regex(r"\(?[A-Ea-e][).]\s+(?=\S)")  # "B) 6"
_LETTER_BASE = regex(r"([0-9A-Z]+)_\{?([a-z])\}?")  # of a question that asks in base $b$
_ASKS_FORM = regex(
    r"\b(?:factor\w*|expand\w*|simplif\w+|rewrite|rewritten|written?|express\w*|(?<!closed )form|reduce\w*"
    r"|rationali\w+|standard"
    r"|lowest|complet\w+|split|decompos\w+|partial|condense\w*|combine\w*|convert\w*)\b",
    re.IGNORECASE,
)


def read_again(  # noqa: PLR0911 - one return for each notation
    extracted: str, gold: Gold, asked: Asked | None = None
) -> str | None:
    """The answer with decimal points for the gold's, its indices set below, or without its option's letter."""
    if asked is not None and asked.general:
        renamed = with_constants_of(clean(extracted), clean(gold.answer), gold.question or "")
        return next((text for text in renamed if decide_alone(text, gold).correct), None)
    if _DECIMAL.fullmatch(clean(gold.answer)) and (pointed := _with_point(extracted)) is not None:
        return pointed
    if len(extracted) > MAX_CHAIN:
        return None
    if (letter := _LETTER_BASE.fullmatch(extracted)) and f"base ${letter[2]}$" in (gold.question or "").replace(
        "-", " "
    ):
        return letter[1]
    if "overline" in gold.answer and (recurring := _RECURRING.fullmatch(extracted)):
        return rf"{recurring[1]}\overline{{{recurring[2]}}}"  # "0.8(3)"
    if "=" in gold.answer and (bare := _INDEXED.sub(r"\1", extracted)) != extracted and "_" not in gold.answer:
        return bare  # "x_1 = 4 and x_2 = -1" for "x = 4 or x = -1"
    if ("_" in gold.answer or "=" in extracted) and (indexed := _INDEX.sub(r"\1_\2", extracted)) != extracted:
        return indexed
    is_option = re.search(r"\d", gold.answer) and (option := _OPTION.match(extracted))
    return extracted[option.end() :] if is_option and option else None


def _with_point(extracted: str) -> str | None:
    """An answer with points in its numbers that have decimal commas; None of any but a number under its name.

    Three digits behind a comma may be a group of thousands, and then show nothing; a pair may have brackets.
    """
    if "." in extracted or len(extracted) > MAX_CHAIN or not _ONE_NUMBER.fullmatch(extracted):
        return None
    pointed = _COMMA.sub(r"\1.\2", extracted)
    return pointed if pointed != extracted else None


def states_identity(extracted: str, gold: Gold) -> bool:
    """Whether an answer is "x + x = 2x" with the gold as its right side: true of all letters, so nothing to solve.

    The gold is no number, and the right side has its letters and digits unless the question asks for no form.
    """
    left, equals, right = map(str.strip, extracted.partition("="))
    if not equals or len(extracted) > MAX_CHAIN or left == right or not _LETTER.search(gold.answer):
        return False
    is_its_form = "=" not in right and _written_with(right) == _written_with(gold.answer)
    is_free = "=" not in right and gold.question is not None and not _ASKS_FORM.search(gold.question)
    return (
        (is_its_form or is_free)
        and decide_alone(right, gold).correct
        and decide_alone(left, Gold(answer=right)).correct
    )


def _written_with(text: str) -> list[str]:
    """The letters and digits of an expression, sorted: sums and products have no order, expanding changes them."""
    return sorted(re.findall(r"[^\W_]", unicodedata.normalize("NFKC", _FUNCTION_NAMES.sub("", text))))
