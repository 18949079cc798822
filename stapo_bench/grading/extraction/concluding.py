"""What the whole sentence that concludes a response says, where the kind of the gold tells what to look for in it."""

import re

from stapo_bench.grading.extraction.asides import states_nothing, without_last_remark
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import (
    MAX_CLAUSE,
    MAX_PROSE,
    bare,
    main_clause,
    sentences,
    without_stop,
)
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.extraction.words import YES_NO
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import NUMERAL, in_digits, last_region

# What is denied, supposed or left open gives no values.
_OPEN = regex(r"\b(?:not|never|neither|nor|cannot|unless|except|if|maybe|perhaps|possibly)\b|n['’]t\b", re.IGNORECASE)
# Values left out of a set of numbers, other than its ends.
_LEAVES_OUT = regex(
    r"\b(?:excluding(?! (?:(?:both|each|the|either|of|its) ){0,3}(?:both|ends?|end-?points?)\b)|other than|apart from"
    r"|with the exception|without)\b",
    re.IGNORECASE,
)
_NAMED_EACH = regex(r"[A-Za-z] = [^=]+?(?:(?:,| and | or )\s*[A-Za-z] = [^=]+?)*")
_COUNTED = regex(r"\s*个(?:不同的)?(?:实数?)?[解根值数点]")  # "两个不同的实数解": a number of values
_OF = regex(r"\b(?:of|for|dividing|remainder|modulo|mod|(?:add|sum)s? (?:up )?to)\s$", re.IGNORECASE)


_PRODUCT = regex(r"\s*\d+(?:\s*[×·*]\s*\d+)+\s*")
_APART = regex(r"(?<![<>])=|,\s|\s(?:or|and)\s")
MAX_LINES, MAX_BEHIND = 4, 3  # lines and sentences at the end of a text that may hold a value in the unit asked for


def conclusion(text: str) -> str | None:
    """The last sentence that is no aside, behind the "yes" or "no" that opens the text; None where there is none.

    >>> conclusion("Two sides agree. So it is isosceles. I hope this helps!"), conclusion("Yes! They are one. Done.")
    ('So it is isosceles.', 'Yes. They are one.')
    """
    lines = [bare(line) for line in without_last_remark(text[-MAX_PROSE:]).split("\n") if line.strip(" \t*_-=")]
    said = [sentence for line in lines for sentence in sentences(line)]
    kept = [s for s in said if not states_nothing(s, notes=False)][-1:]
    if not kept:
        return None
    opening = YES_NO.match(text)
    return (f"{opening[1] or opening[2]}. " if opening and not YES_NO.match(kept[0]) else "") + kept[0][-MAX_CLAUSE:]


def all_values(text: str) -> str | None:
    """All values of the sentence that concludes a text, joined; None where it denies or supposes, or has but one.

    >>> all_values("One root is 2, the other is 3."), all_values("Neither 2 nor 3 is a root.")
    ('2, 3', None)
    """
    hidden = hide_formulas(text[-MAX_PROSE:])
    sentence = conclusion(hidden.text)
    if sentence is None or _OPEN.search(sentence):
        return None
    clause = main_clause(without_stop(sentence))
    runs = [run for run in spans(tokens(clause)) if not run.is_bare_letter]
    runs = [run for run in runs if not run.in_words and not _OF.search(clause[: run.start])] or runs
    runs = [run for run in runs if not _COUNTED.match(clause, run.end)]
    namely = clause.rfind(" namely ")
    runs = [run for run in runs if run.start > namely]
    values = [chain_end(hidden.shown(run.text)) for run in runs]
    values = [value for value in values if "=" not in value or _NAMED_EACH.fullmatch(value)]  # others are working
    values = [value for value in values if not _PRODUCT.fullmatch(value)]  # "15 = 3 × 5, so its divisors are ..."
    return ", ".join(values) or None


def each_value(text: str) -> list[list[str]]:
    """The values of the sentences that end a text, one by one, the last sentence first.

    >>> each_value("It has 24 ohms. So 6 watts become heat.")
    [['6 \\\\text{ watts }'], ['24 \\\\text{ ohms }']]
    """
    hidden = hide_formulas(text[-MAX_PROSE:])
    lines = [bare(line) for line in without_last_remark(hidden.text).split("\n")[-MAX_LINES:]]
    said = [each for line in lines for each in sentences(line) if not states_nothing(each, notes=False)]
    clauses = [spans(tokens(main_clause(without_stop(each[-MAX_CLAUSE:])))) for each in reversed(said[-MAX_BEHIND:])]
    return [
        [each.strip() for run in runs if not run.is_bare_letter for each in _APART.split(hidden.shown(run.text))]
        for runs in clauses
    ]


def region_said(text: str) -> str | None:
    """The set of numbers that the sentence concluding a text names, where that is known to name one."""
    sentence = conclusion(text)
    if sentence is None or _LEAVES_OUT.search(sentence) or _OPEN.search(sentence.replace("but not including", "")):
        return None
    return last_region(NUMERAL.sub(lambda numeral: in_digits(numeral[0]) or numeral[0], sentence))
