r"""The verdict on one extracted answer: identical text, then plain integers, then words, then mathematics.

The first two settle most pairs in microseconds.
"""

import re
import unicodedata
from dataclasses import replace
from functools import lru_cache

from stapo_bench.grading.decide import text_answers
from stapo_bench.grading.decide.asked import Asked, option_said, without_label
from stapo_bench.grading.decide.asserted import asserts
from stapo_bench.grading.decide.by_trees import by_mathematics
from stapo_bench.grading.decide.free_constants import with_constants_of
from stapo_bench.grading.decide.parts import labelled, listed, without_names
from stapo_bench.grading.decide.restated import APPROXIMATELY, restates
from stapo_bench.grading.decide.right_sides import right_side
from stapo_bench.grading.decide.unit_vectors import with_unit_vectors
from stapo_bench.grading.decide.verdict import Question, Verdict
from stapo_bench.grading.decide.word_equations import in_letters, words_of
from stapo_bench.grading.decide.word_rules import by_words
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean
from stapo_bench.grading.units import BASE_APART, IN_SENTENCE, NEXT_VALUE, canonical, told_units
from stapo_bench.records import Gold

MAX_ANSWER = 20_000  # characters of an extracted answer that are looked at at all
_INTEGER = regex(r"[+-]?\d+(?:\.0*)?")
_ORDINAL = regex(r"(\d*(?:(?<!1)1(?=st)|(?<!1)2(?=nd)|(?<!1)3(?=rd)|(?:1[123]|[04-9])(?=th)))(?:st|nd|rd|th)")


MAX_CHAIN = 300  # characters of an answer that is read again with decimal points, or as an identity
_DECIMAL = regex(r"-?\s?\d*\.\d+")
_PLACES = regex(r"(?:[a-zA-Z] = )?-?\d*\.(\d+)(?![\d.]| ?\\ldots)")
_COMMA = regex(r"(?<![\d,.])(0(?=,\d{3}(?!\d))|\d+(?!,\d{3}(?!\d))),(\d+)(?![\d,])")
_INDEXED = regex(r"(?<![A-Za-z\\])([A-Za-z])(?:_\{?[1-6]\}?|[₁₂₃₄₅₆])(?=\s*=)")
_INDEX = regex(r"(?<![A-Za-z\\])([A-Za-z])(?=\d)()")
_ONE_NUMBER = regex(  # "x = -4,5 cm", "1,5² = 2,25"; not "(4,5)", nor "a,b = 4,5"
    r"(?:(?:[^,]|(?<=\d),(?=\d))*(?:[=≈]|\\approx))?\s*[-+−]?\s*\d+,\d+(?:(?!\\rangle)[^\d,()\[\];|][^,()\[\];|]*)?"
)
_FUNCTION_NAMES = regex(r"\\[A-Za-z]+|(?<![A-Za-z])(?:ln|log|sin|cos|tan|exp|sqrt)(?![A-Za-z])")
_LETTER = regex(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_BASED = regex(rf"(\w+) \\text\{{{re.escape(BASE_APART)} (\d+)\)\}}")
_IN_BASE = regex(r"\(?\s*(?:\\text\s*\{\s*)?([0-9A-Fa-f]+(?:\.[0-9A-Fa-f]+)?)\s*\}?\s*\)?\s*_\s*\{?\s*(\d{1,2})\s*\}?")
_NAMED_GOLD = regex(r"\$?([A-Za-z](?:_\{?\w{1,3}\}?))\s*=(?=[^=]*$)")  # "a_n = 2^n"
_CONSTANT = regex(r"(?:[-+\d.(){}/^ ]|\\(?:pi|sqrt|[dt]?frac|cdot)(?![A-Za-z]))+")
_RECURRING = regex(r"(\d+\.\d*)\((\d+)\)")
_NAMED_POINT = regex(r"\\text\s?\{\s*[a-z]+:?\s*\}\s*(\([^()]+\))")  # "\text{vertex }(1,-4)"
_WORKED_GOLD = regex(r"[$\s]*\\(?:int|sum|lim|prod)(?![a-z])(?:[^=]|\{[^{}]*\})*=[^=]+$")  # "\int_0^1 x\,dx = \frac12"
_COMMA_GOLD = regex(r"[-$\s]*\d+,\d{1,2}[$\s]*")
_COMMAS = regex(
    r"^(?!.*(?:\d\.\d|\b(?:the|is|what|find)\b)).*\d,\d", re.DOTALL | re.IGNORECASE
)  # a question with decimal commas
_FIRST_NUMBER = regex(r"\d[\d,]*(?:\.\d+)?")
_PER_UNIT = regex(r"\bper ([a-z]+)")
_MEASURED = regex(r"([^\\=<>]*[a-z][^\\=<>]*) \\text\{ [a-z]+ \}")  # of a letter
_SUM = regex(r"[\d\s.+·×*^()-]*\d\s*[-+·×*^][\d\s.+·×*^()-]*")  # "4 + 1"
_ASKS_DECIMAL = regex(
    r"\bdecimal (?:value|number|form|notation|representation|equivalent|system)|\b(?:to|in|into) (?:a )?decimal\b"
    r"|\b(?:in|to) base[\s$-]*(?:10|ten)\b",
    re.IGNORECASE,
)
_OPTION = regex(r"\(?[A-Ea-e][).]\s+(?=\S)")  # "B) 6"
_LETTER_BASE = regex(r"([0-9A-Z]+)_\{?([a-z])\}?")  # of a question that asks in base $b$
_PREFIXES = {"b": 2, "o": 8, "x": 16}
_PREFIXED = regex(r"\b0([box])([0-9A-F]+)\b", re.IGNORECASE)
_DIGITS = regex(r"(?:\\text\s*\{\s*)?([0-9A-Fa-f]+(?:\.[0-9A-Fa-f]+)?)\s*\}?")
_LABELLED = regex(r"(?:(?:[Oo]ption|[Cc]hoice) )?(?:(?:\\text\s?\{)?\(([A-Fa-f1-6])\)\}?|(?:\\text\s?\{)?([A-F])\}?)")
_AS_PERCENT = regex(r"(.+?),?\s+or\s+([^,]+%)")
_TWICE = regex(r"([^,;]+?),?\s+(?:or|i\.e\.,?|that is,?)\s+((?:[^,;]|(?<=\d),(?=\d{3}))+)")
_ASKS_FORM = regex(
    r"\b(?:factor\w*|expand\w*|simplif\w+|rewrite|rewritten|written?|express\w*|form|reduce\w*|rationali\w+|standard"
    r"|lowest|complet\w+|split|decompos\w+|partial|condense\w*|combine\w*|convert\w*)\b",
    re.IGNORECASE,
)
# "40 dollars per week", where the question itself asks for each week
_PERIODS = frozenset(["second", "minute", "hour", "day", "week", "month", "year"])
_SHORT_RATES = {"mph": "miles/hour", "kph": "km/h", "mps": "m/s", "mpg": "miles/gallon"}
_ADVERBS = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annual": "year"}
_PER = regex(r"(.*\d.*?)\s*\\text\{ per (?:\}\s*\\text\{ )?(\w+) ?\}")
_TUPLE = regex(r"(?:\\left)?\((?=[^()]*,).*\)")
_NUMBER = regex(r"[-+]?\d+(?:\.\d+)?")
_MARKED = regex(r"\\(?:overline|bar|dot|hat|tilde|widehat|ddot)\s*\{?\s*(\d+)\s*\}?|(?<=\d)()(?:'+| \\text\{ft\}$)")
_PERCENT = regex(r"\\?%|\\text\s*\{\s*(?:percent|\\?%)\s*\}|\bpercent\b")


def decide(  # noqa: PLR0911 - one return for each kind of answer
    extracted: str, gold: Gold, asked: Asked | None = None
) -> Verdict:
    r"""Compare an extracted answer with a gold.

    ``asked``: what the question asks for, where it is known; see ``asked``.

    >>> decide("x = 0.5", Gold(answer=r"\frac{1}{2}"))
    Verdict(correct=True, rule='mathematics')
    >>> decide("43", Gold(answer="42"))
    Verdict(correct=False, rule='integers')
    """
    if len(extracted) > MAX_ANSWER:
        return Verdict(False, f"not comparable: longer than {MAX_ANSWER} characters")
    if extracted.startswith(IN_SENTENCE):
        return _in_sentence(extracted.removeprefix(IN_SENTENCE), gold, asked)
    if words := words_of(gold.answer):
        extracted, gold = in_letters(extracted, words), replace(gold, answer=in_letters(gold.answer, words))
    if gold.question and _COMMA_GOLD.fullmatch(gold.answer) and _COMMAS.search(gold.question):
        gold = replace(gold, answer=gold.answer.replace(",", "."))
    if asked is not None and asked.options:
        bare = extracted.strip(" ().")
        extracted = (
            bare.upper() if len(bare) == 1 and bare.islower() and _LABELLED.fullmatch(clean(gold.answer)) else extracted
        )
        extracted = without_label(extracted, asked, lambda text, option: _decide(text, Gold(answer=option)).correct)
    if (in_order := _in_order_of_letters(extracted, gold)) is not None:
        extracted = in_order
    if (parts := labelled(extracted)) is not None:
        verdict = _by_parts(parts, gold, asked)
        together = NEXT_VALUE in extracted and not verdict.correct  # names may come in any order
        return decide(", ".join(parts), gold, asked) if together else verdict
    if based := _BASED.fullmatch(extracted):
        return _with_its_base(based[1], based[2], gold)
    if asked is not None and asked.unit in ("ampere", "amperes", "amp", "amps") and extracted.endswith(" A"):
        extracted = rf"{extracted[:-2]} \text{{A}}"  # elsewhere the letter of an option
    if asked is not None and asked.unit and gold.unit is None and _CONSTANT.fullmatch(clean(gold.answer)):
        gold = replace(gold, unit=asked.unit)
    if asked is not None and asked.base and (same := _in_base(extracted, gold, asked.base)) is not None:
        return Verdict(same, f"the question asks for base {asked.base}")
    verdict = _decide(extracted, gold)
    if asked is not None and asked.unit and not verdict.correct and _leaves_out_per(extracted, gold, asked.unit):
        return Verdict(True, "a unit without its per")
    if verdict.correct:
        return _not_as_asked(extracted, gold, asked) or verdict
    return _otherwise(extracted, gold, asked) or (_as_asked(extracted, gold, asked) if asked else None) or verdict


def _leaves_out_per(extracted: str, gold: Gold, asked: str) -> bool:
    """Whether an answer is "13 dollars" where a bare gold is in dollars per hour: half of its unit, not another one."""
    above, per, _ = _per(asked)
    return (
        bool(per)
        and gold.unit == asked
        and all(_decide(extracted, replace(gold, unit=unit)).correct for unit in (None, above))
    )


def _per(unit: str) -> tuple[str, str, str]:
    """What is above and below in one unit per another."""
    return _SHORT_RATES.get(unit, unit).replace(" per ", "/").partition("/")


def _with_its_base(digits: str, base: str, gold: Gold) -> Verdict:
    """The verdict on digits beside which their base is told: a gold with a base asks for it, another for either."""
    if _IN_BASE.fullmatch(clean(gold.answer)):
        return Verdict(False, "the gold has another base") if base == "10" else _decide(f"{digits}_{{{base}}}", gold)
    plain = _decide(digits, gold)
    return plain if plain.correct or base == "10" else _decide(f"{digits}_{{{base}}}", gold)


def _in_sentence(sentence: str, gold: Gold, asked: Asked | None) -> Verdict:
    """Whether a sentence says the gold's words, or those of the option that it is the label of."""
    label = _LABELLED.fullmatch(clean(gold.answer).strip())
    if asked is not None and label is not None and asked.options:
        return Verdict(option_said(sentence, asked) == (label[1] or label[2]).upper(), "words of an option")
    return Verdict(asserts(sentence, clean(gold.answer), gold.question), "words in a sentence")


def _otherwise(extracted: str, gold: Gold, asked: Asked | None) -> Verdict | None:
    """The verdict on what is written in another way: read again, said twice, an identity, parts with names; or None."""
    if (again := _read_again(extracted, gold, asked)) is not None:
        return decide(again, gold, asked)
    if (twice := _TWICE.fullmatch(extracted)) and _decide(twice[1].rpartition("=")[2], Gold(answer=twice[2])).correct:
        first = decide(twice[1].rpartition("=")[2], gold, asked)  # "220 cm, or 2.2 m"
        return first if first.correct else decide(twice[2], gold, asked)
    if (measured := _MEASURED.fullmatch(extracted)) and not told_units(gold.answer) and gold.unit is None:
        return decide(measured[1], gold, asked)  # "1.75m + 3 dollars"
    if (value := right_side(extracted, gold.question)) is not None:
        return decide(value, gold, asked)
    if _states_identity(extracted, gold):
        return Verdict(True, "the right side of an identity")
    if point := _NAMED_POINT.fullmatch(gold.answer.strip(" $")):
        return decide(extracted, replace(gold, answer=point[1]), asked)
    if _WORKED_GOLD.match(gold.answer) and gold.answer.count("=") < 3 and "=" not in extracted:
        return decide(extracted, replace(gold, answer=gold.answer.rpartition("=")[2]), asked)
    if (named := without_names(listed(gold.answer))) and len(given := listed(extracted)) == len(named):
        return _each(without_names(given) or given, named, gold, asked)
    return None


def _not_as_asked(extracted: str, gold: Gold, asked: Asked | None) -> Verdict | None:
    """INCORRECT where an answer of the gold's value is not in the form that the question asks for; else None."""
    if gold.question is not None and restates(extracted, gold.answer, gold.question):
        return Verdict(False, "the question's own expression")
    based = None if _IN_BASE.fullmatch(clean(gold.answer)) else _IN_BASE.fullmatch(clean(extracted))
    if based and based[2] != "10" and _ASKS_DECIMAL.search(gold.question or ""):
        return Verdict(False, "the question asks for a decimal number")
    of_unit = asked is not None and asked.unit and (gold.unit == asked.unit or told_units(gold.answer))
    if asked is not None and asked.unit and of_unit and _restates_quantity(extracted, asked.unit, gold.question or ""):
        return Verdict(False, f"the question's own quantity, where it asks for {asked.unit}")
    in_gold = _IN_BASE.fullmatch(clean(gold.answer))
    if asked is not None and in_gold and asked.base == int(in_gold[2]) and _SUM.fullmatch(clean(extracted)):
        return Verdict(False, "not written in the base that the question asks for")
    if asked is not None and asked.to_place and _goes_on(extracted, gold.answer):
        return Verdict(False, "not rounded to the place that the question names")
    return None


def _restates_quantity(extracted: str, asked: str, question: str) -> bool:
    """Whether an answer is the question's own, in another unit than it asks for: "36 km/h" for metres a second."""
    given, target, number = told_units(extracted), canonical(asked), _FIRST_NUMBER.search(extracted)
    if len(given) != 1 or not isinstance(target, tuple) or number is None:
        return False
    if given[0][0] != target[0] or given[0][1] == target[1]:
        return False
    behind = re.findall(rf"(?<![\d.]){re.escape(number[0])}\$?\s*([A-Za-z]+(?:/[A-Za-z]+| per [a-z]+)?)", question)
    return any(canonical(unit) == given[0] for unit in behind)


def _goes_on(extracted: str, gold: str) -> bool:
    """Whether an answer is, or is rounded to, a decimal of more places than a gold that is one."""
    given, target = _PLACES.match(APPROXIMATELY.split(clean(extracted))[-1].lstrip()), _PLACES.match(clean(gold))
    return given is not None and target is not None and len(given[1].rstrip("0")) > len(target[1])


def _read_again(extracted: str, gold: Gold, asked: Asked | None = None) -> str | None:
    """The answer with decimal points for the gold's, its indices set below, or without its option's letter."""
    if asked is not None and asked.general:
        renamed = with_constants_of(clean(extracted), clean(gold.answer), gold.question or "")
        return next((text for text in renamed if _decide(text, gold).correct), None)
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


def _states_identity(extracted: str, gold: Gold) -> bool:
    """Whether an answer is "x + x = 2x" with the gold as its right side: true of all letters, so nothing to solve.

    The gold is no number, and the right side has its letters and digits unless the question asks for no form.
    """
    left, equals, right = map(str.strip, extracted.partition("="))
    if not equals or len(extracted) > MAX_CHAIN or left == right or not _LETTER.search(gold.answer):
        return False
    is_its_form = "=" not in right and _written_with(right) == _written_with(gold.answer)
    is_free = "=" not in right and gold.question is not None and not _ASKS_FORM.search(gold.question)
    return (is_its_form or is_free) and _decide(right, gold).correct and _decide(left, Gold(answer=right)).correct


def _written_with(text: str) -> list[str]:
    """The letters and digits of an expression, sorted: sums and products have no order, expanding changes them."""
    return sorted(re.findall(r"[^\W_]", unicodedata.normalize("NFKC", _FUNCTION_NAMES.sub("", text))))


def _decide(extracted: str, gold: Gold) -> Verdict:
    """The verdict on two answers as they stand."""
    response, target = map(clean, with_unit_vectors(extracted, gold.answer))
    if _INTEGER.fullmatch(target):
        response = _ordinal(response)
    question = Question(response, target, gold)
    if _MARKED.search(response) and _NUMBER.fullmatch(target) and _MARKED.sub(r"\1\2", response) == target:
        return Verdict(False, "marks on digits are part of the number")
    return at_sight(question) or by_words(question) or by_mathematics(question)


def _by_parts(answers: list[str], gold: Gold, asked: Asked | None) -> Verdict:
    """The answers to several parts: each the gold's at its place, or the last one where the gold has no parts."""
    golds = labelled(gold.answer) or listed(gold.answer)
    golds = without_names(golds) or golds
    return _each(answers, golds, gold, asked) if len(golds) == len(answers) else decide(answers[-1], gold, asked)


def _each(answers: list[str], golds: list[str], gold: Gold, asked: Asked | None) -> Verdict:
    """Each answer against the gold at its place."""
    if asked is not None and asked.unit:
        asked = replace(asked, unit=None)  # of one of the parts
    verdicts = [decide(answer, replace(gold, answer=part), asked) for answer, part in zip(answers, golds, strict=True)]
    return next((verdict for verdict in verdicts if not verdict.correct), Verdict(True, "each part"))


def _as_asked(extracted: str, gold: Gold, asked: Asked) -> Verdict | None:
    """CORRECT where the question makes the two one answer; else None."""
    if (
        asked.percent
        and (both := _AS_PERCENT.fullmatch(extracted))
        and _decide(both[1], replace(gold, answer=both[2])).correct
    ):
        extracted = both[2]  # "3/4, or 75%"
    if (same := _in_unit_asked(extracted, gold, asked)) is not None:
        return same
    if asked.rounded and extracted.startswith("≈") and _decide(extracted.lstrip("≈ "), gold).correct:
        return Verdict(True, "the question asks for a rounded value")
    if asked.count and gold.answer.strip(" $") == "0" and text_answers.special(extracted) == "empty":
        return Verdict(True, "none are counted")
    if asked.options and (said := _as_option(extracted, gold, dict(asked.options))) is not None:
        return said
    letter = asked.letter if (name := _NAMED_GOLD.match(gold.answer)) is None else name[1]
    if letter is not None:
        named = [part.partition("=") for part in listed(extracted.replace("\\quad", ""))]
        own = [
            value.rpartition("=")[2] for name, sign, value in named if sign and _bare_name(name) == _bare_name(letter)
        ]
        if len(named) > 1 and len(own) == 1 and _decide(own[0], gold).correct:
            return Verdict(True, f"the question asks for {letter}")
    return None


def _in_unit_asked(extracted: str, gold: Gold, asked: Asked) -> Verdict | None:
    """CORRECT where the two differ by a percent sign, or by "each week", that the question itself has; else None."""
    if asked.percent and bool(_PERCENT.search(extracted)) is not bool(_PERCENT.search(gold.answer)):
        bare = replace(gold, answer=_PERCENT.sub("", gold.answer).strip())
        if _decide(_PERCENT.sub("", extracted).strip(), bare).correct:
            return Verdict(True, "the question asks for a percentage")
    periods = _PERIODS & asked.words
    periods |= {period for word, period in _ADVERBS.items() if word in asked.words}
    rate = _PER.fullmatch(extracted)
    priced = {canonical(unit) for unit in _PER_UNIT.findall(gold.question or "")}
    of_price = rate is not None and canonical(rate[2]) in priced
    if rate and (periods == {rate[2]} or of_price) and _decide(rate[1], gold).correct:
        return Verdict(True, "per the unit that the question names")
    return None


def _as_option(extracted: str, gold: Gold, options: dict[str, str]) -> Verdict | None:
    """CORRECT where one side is an option's label and the other is what that option says; else None."""
    given, target = (_LABELLED.fullmatch(clean(text).strip()) for text in (extracted, gold.answer))
    if (given is None) is (target is None):
        return None
    if given is not None and (option := options.get((given[1] or given[2]).upper())) is not None:
        return Verdict(True, "the option of that label") if _decide(option, gold).correct else None
    if target is not None and (option := options.get((target[1] or target[2]).upper())) is not None:
        return (
            Verdict(True, "the label of that option")
            if _decide(extracted, replace(gold, answer=option)).correct
            else None
        )
    return None


def _in_order_of_letters(extracted: str, gold: Gold) -> str | None:
    """The values of "z = 3, x = 1, y = 2" as the tuple (1, 2, 3), for a gold that is one; None of any other answer."""
    if not _TUPLE.fullmatch(gold.answer.strip(" $")):
        return None
    named = [part.partition("=") for part in listed(extracted.replace(NEXT_VALUE, ", "))]
    names = [_bare_name(name) for name, _, _ in named]
    letters = all(sign and len(name) == 1 and name.isalpha() for name, (_, sign, _) in zip(names, named, strict=True))
    if len(names) < 2 or len(set(names)) < len(names) or not letters:
        return None
    values = [value.rpartition("=")[2].strip() for _, _, value in sorted(named, key=lambda part: _bare_name(part[0]))]
    return f"({', '.join(values)})"


def _in_base(extracted: str, gold: Gold, base: int) -> bool | None:
    """Whether digits without a base are those of the other side, which has the base asked for.

    None where both sides have a base or neither, and where a gold without one may be a number in decimal.
    """
    given, target = _PREFIXED.sub(_with_base, clean(extracted)), clean(gold.answer)
    in_gold = _IN_BASE.fullmatch(target)
    based, bare = in_gold or _IN_BASE.fullmatch(given), _DIGITS.fullmatch(given if in_gold else target)
    if based is None or bare is None or int(based[2]) != base:
        return None
    same = bare[1].lower().lstrip("0") == based[1].lower().lstrip("0")
    return same if in_gold or same else None


def _with_base(number: re.Match[str]) -> str:
    """``FF_{16}`` for ``0xFF``."""
    return f"{number[2]}_{{{_PREFIXES[number[1].lower()]}}}"


def _bare_name(name: str) -> str:
    """A name without layout: ``$a_{4}$`` and ``a₄`` are ``a4``."""
    return unicodedata.normalize("NFKC", name).translate({ord(char): None for char in " \\${}_"})


def _ordinal(text: str) -> str:
    """The number of ``11th``, which is not a product with t and h; other text as it is."""
    match = _ORDINAL.fullmatch(text)
    return match[1] if match else text


def decide_at_sight(extracted: str, gold: Gold) -> Verdict | None:
    """The verdict of ``decide`` where a quick rule settles it: identical text, plain integers. Else None.

    >>> decide_at_sight("x = 0.5", Gold(answer="0.5"))
    """
    return at_sight(Question(_cleaned(extracted), _cleaned(gold.answer), gold))


def _cleaned(text: str) -> str:
    return _short_cleaned(text) if len(text) <= MAX_CHAIN else clean(text)


_short_cleaned = lru_cache(maxsize=128)(clean)  # in a vote each answer meets many others


def at_sight(question: Question) -> Verdict | None:
    """Identical text and plain integers; None where the answers are neither."""
    response, target, gold = question
    if not response:
        return Verdict(False, "empty answer")
    if response == target:
        return Verdict(True, "identical")
    if _INTEGER.fullmatch(response) and _INTEGER.fullmatch(target) and gold.tolerance is None:
        return Verdict(_integer(response) == _integer(target), "integers")
    return None


def _integer(text: str) -> str:
    """Digits without sign of plus, leading zeros, ``.0``: integers of any length compare as text."""
    sign = "-" if text[0] == "-" else ""
    digits = text.lstrip("+-").partition(".")[0].lstrip("0")
    return sign + digits if digits else "0"
