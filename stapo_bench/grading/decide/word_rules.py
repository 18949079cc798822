"""The verdict by words: times, dates, options, choices, number words and text, each by a rule of its own."""

import re
from collections.abc import Callable
from functools import lru_cache

from stapo_bench.grading.decide import text_answers
from stapo_bench.grading.decide.asserted import box_asserts
from stapo_bench.grading.decide.by_trees import by_mathematics
from stapo_bench.grading.decide.polarity import NO, YES, polarity
from stapo_bench.grading.decide.verdict import Question, Verdict
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean, parse
from stapo_bench.grading.tree import Kind, Refusal
from stapo_bench.records import Gold

_LETTER = regex(r"[A-J]")
_WORDY = regex(r"[A-Za-z]{2,}")
_OPTION = regex(r"(?:\\text)?\{?\(([A-E])\)\s*\}?\s+(.+)")
_TEXT = regex(r"\\text\s*\{([^{}]*)\}")
_SIGN = regex(r"[\\\d=^_{}+*/<>|]")
_RATIO = regex(r"\d+(?: ?: ?\d+)+")
_CLOCK = regex(r"\b(?:what time|time|clock|when|a\.?m|p\.?m|noon|midnight|long|minutes?|hours?)\b", re.IGNORECASE)
_NO_VALUES = (r"\emptyset", r"\varnothing", r"\{\}")
# In a box; what is cut from prose has no \\text and begins in lower case.
_SENTENCE = regex(r"\\text\s*\{\s*[A-Za-z]+[ ,}]|[A-Z][A-Za-z]* [^\d]")
_TEXT_ONLY = regex(r"(?:\\text\{[^{}\\]*\}[\s,.]*)+")


def by_words(question: Question) -> Verdict | None:
    """The verdict of the first rule that knows the gold; None where none does."""
    return next((verdict for rule in RULES if (verdict := rule(question)) is not None), None)


def time_of_day(question: Question) -> Verdict | None:
    """A time on the clock."""
    if (asked := text_answers.time(question.target)) is None:
        return None
    given = text_answers.time(question.response)
    if given is not None:
        as_ratio = text_answers.is_ratio(question.target) and not _CLOCK.search(question.gold.question or "")
        if as_ratio and text_answers.same_ratio(question.response, question.target):
            return Verdict(True, "ratio")
        return Verdict(text_answers.same_time(given, asked), "time")
    is_sure = asked[3] or re.fullmatch(r"\d{1,2}:\d\d", question.response)  # 1:30 may be a ratio
    return Verdict(False, "not a time") if is_sure else None


def calendar_date(question: Question) -> Verdict | None:
    """A day; the year may be missing on either side."""
    if (asked := text_answers.date(question.target)) is None:
        return None
    given = text_answers.date(question.response)
    same_year = given is not None and (None in (given[0], asked[0]) or given[0] == asked[0])
    return Verdict(given is not None and same_year and given[1:] == asked[1:], "date")


def option_with_text(question: Question) -> Verdict | None:
    """A choice with its text, ``(B) 12``: either may stand for both."""
    response, target, gold = question
    asked = _OPTION.fullmatch(target)
    if asked is None or asked[2].startswith(("(", ",", "and")):
        return None
    given = _OPTION.fullmatch(response)
    if given is None and text_answers.choice(response, strict=False) == asked[1]:
        return Verdict(True, "choice")
    if given is not None and given[1] != asked[1]:
        return Verdict(False, "choice")
    return by_mathematics(Question(response if given is None else given[2], asked[2], gold))


def choice(question: Question) -> Verdict | None:
    """The letter of a choice."""
    response, target, _ = question
    letter = text_answers.choice(target)
    if letter is None:
        letter = text_answers.plain(target).upper()
        if not _LETTER.fullmatch(letter) or target == target.lower():
            return None
        # A bare capital may be a constant too, so then the response must write the letter as it is.
        if clean(response).strip() == letter.lower():
            return Verdict(False, "choice")
    if "=" in response:
        return None
    return Verdict(text_answers.choice(response, strict=False, whole=True) == letter, "choice")


def number_in_words(question: Question) -> Verdict | None:
    """A number in words, such as "four" or "two thirds", on either side; the other may use words or signs."""
    asked, given = text_answers.number(question.target), text_answers.number(question.response)
    if asked is None and (given is None or not re.search(r"\d", question.target)):
        return None
    read = question._replace(response=given or question.response, target=asked or question.target)
    return by_mathematics(read)


def text(question: Question) -> Verdict | None:
    """Words that are nothing of the above, and what the task says is text."""
    response, target, gold = question
    if not (_is_words(target) or gold.answer_type == "text"):
        return None
    kind = text_answers.special(target)
    said = text_answers.plain(response)
    if (asked := text_answers.plain(target)) in YES | NO and not {"yes", "no"} <= set(said.split()):
        return Verdict(polarity(said) is (asked in YES), "yes or no")
    same_set = kind is not None and _special(response) == kind
    if same_set or text_answers.same_words(response, target):
        return Verdict(True, "words")
    sentence = _TEXT.sub(r" \1 ", response) if _SENTENCE.match(response) else None
    said_in_full = sentence is not None and box_asserts(sentence.strip(" ."), target, gold.question)
    return Verdict(said_in_full, "a sentence" if said_in_full else "words")


RULES: tuple[Callable[[Question], Verdict | None], ...] = (
    time_of_day,
    calendar_date,
    option_with_text,
    choice,
    number_in_words,
    text,
)


@lru_cache(maxsize=1024)
def is_in_words(gold: Gold) -> bool:
    """Whether a gold is words, a time, a date or a ratio: what a whole sentence has to be searched for."""
    target = clean(gold.answer)
    if gold.answer_type == "text" or text_answers.time(target) or text_answers.date(target):
        return True
    return (
        _RATIO.fullmatch(target) is not None
        or target in _NO_VALUES
        or (text_answers.choice(target) is None and _is_words(target) and text_answers.number(target) is None)
    )


def _special(response: str) -> str | None:
    """The set that the response names in words or signs, "empty" or "reals"."""
    kind = text_answers.special(response)
    if kind is None:
        kind = {r"\emptyset": "empty", r"\mathbb{R}": "reals", r"(-\infty , \infty )": "reals"}.get(response.strip())
    return kind


def _is_words(text: str) -> bool:
    r"""Whether the text is words and no mathematics: ``\text{east}``, ``two lines``; not ``xy``, ``\pi``, ``5 cm``."""
    if _TEXT_ONLY.fullmatch(text):
        return True
    bare = _TEXT.sub(r"\1", text)
    if _SIGN.search(bare) or not _WORDY.search(bare):
        return False
    try:
        node = parse(text)
    except Refusal:
        return True
    return (
        node.kind is Kind.SYMBOL
        and (len(node.label) > 2 or node.label.lower() == "no")
        and node.label.isalpha()
        and node.label in text
        and "\\" not in text
    ) or (node.kind is Kind.LIST and all(a.kind is Kind.SYMBOL and len(a.label) > 2 for a in node.args))
