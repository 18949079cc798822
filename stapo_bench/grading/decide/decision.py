r"""The verdict on one extracted answer: what it and the gold are read as, then each of their notations in turn."""

import re
from dataclasses import replace

from stapo_bench.grading.decide.as_they_stand import decide_alone
from stapo_bench.grading.decide.asked import Asked, option_said, without_label
from stapo_bench.grading.decide.asserted import asserts
from stapo_bench.grading.decide.by_question import IN_BASE, LABELLED, as_asked, bare_name, in_base, not_as_asked
from stapo_bench.grading.decide.parts import labelled, listed, without_names
from stapo_bench.grading.decide.read_again import read_again, states_identity
from stapo_bench.grading.decide.right_sides import right_side
from stapo_bench.grading.decide.verdict import Verdict
from stapo_bench.grading.decide.word_equations import in_letters, words_of
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean
from stapo_bench.grading.units import BASE_APART, IN_SENTENCE, NEXT_VALUE, told_units
from stapo_bench.records import Gold

MAX_ANSWER = 20_000  # characters of an extracted answer that are looked at at all
_BASED = regex(rf"(\w+) \\text\{{{re.escape(BASE_APART)} (\d+)\)\}}")
_CONSTANT = regex(r"(?:[-+\d.(){}/^ ]|\\(?:pi|sqrt|[dt]?frac|cdot)(?![A-Za-z]))+")
_NAMED_POINT = regex(r"\\text\s?\{\s*[a-z]+:?\s*\}\s*(\([^()]+\))")  # "\text{vertex }(1,-4)"
_WORKED_GOLD = regex(r"[$\s]*\\(?:int|sum|lim|prod)(?![a-z])(?:[^=]|\{[^{}]*\})*=[^=]+$")  # "\int_0^1 x\,dx = \frac12"
_COMMA_GOLD = regex(r"[-$\s]*\d+,\d{1,2}[$\s]*(?:€|\\text\s?\{[^{}]*\}|[a-zA-Z]{0,8})")
_COMMAS = regex(
    r"^(?!.*(?:\d\.\d|\b(?:the|is|what|find)\b)).*\d,\d", re.DOTALL | re.IGNORECASE
)  # a question with decimal commas
_MEASURED = regex(r"([^\\=<>]*[a-z][^\\=<>]*) \\text\{ [a-z]+ \}")  # of a letter
_TWICE = regex(r"([^,;]+?),?\s+(?:or|i\.e\.,?|that is,?)\s+((?:[^,;]|(?<=\d),(?=\d{3}))+)")
_SHORT_RATES = {"mph": "miles/hour", "kph": "km/h", "mps": "m/s", "mpg": "miles/gallon"}
_TUPLE = regex(r"(?:\\left)?\((?=[^()]*,).*\)")


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
    extracted, gold = _as_meant(extracted, gold, asked)
    if (parts := labelled(extracted)) is not None:
        verdict = _by_parts(parts, gold, asked)
        together = NEXT_VALUE in extracted and not verdict.correct  # names may come in any order
        return decide(", ".join(parts), gold, asked) if together else verdict
    if based := _BASED.fullmatch(extracted):
        return _with_its_base(based[1], based[2], gold)
    if asked is not None and asked.unit:
        extracted, gold = _measured_as_asked(extracted, gold, asked.unit)
    if asked is not None and asked.base and (same := in_base(extracted, gold, asked.base)) is not None:
        return Verdict(same, f"the question asks for base {asked.base}")
    verdict = decide_alone(extracted, gold)
    if asked is not None and asked.unit and not verdict.correct and _leaves_out_per(extracted, gold, asked.unit):
        return Verdict(True, "a unit without its per")
    if verdict.correct:
        return not_as_asked(extracted, gold, asked) or verdict
    return _otherwise(extracted, gold, asked) or (as_asked(extracted, gold, asked) if asked else None) or verdict


def _as_meant(extracted: str, gold: Gold, asked: Asked | None) -> tuple[str, Gold]:
    """Answer and gold with letters for words in equations, points for decimal commas, and without an option's label."""
    if words := words_of(gold.answer):
        extracted, gold = in_letters(extracted, words), replace(gold, answer=in_letters(gold.answer, words))
    if gold.question and _COMMA_GOLD.fullmatch(gold.answer) and _COMMAS.search(gold.question):
        gold = replace(gold, answer=gold.answer.replace(",", "."))
    if asked is not None and asked.options:
        bare = extracted.strip(" ().")
        is_label = len(bare) == 1 and bare.islower() and LABELLED.fullmatch(clean(gold.answer)) is not None
        extracted = without_label(bare.upper() if is_label else extracted, asked, _is_same)
    return _in_order_of_letters(extracted, gold) or extracted, gold


def _is_same(text: str, option: str) -> bool:
    """Whether two texts are one answer."""
    return decide_alone(text, Gold(answer=option)).correct


def _measured_as_asked(extracted: str, gold: Gold, unit: str) -> tuple[str, Gold]:
    """Answer and gold where the question asks for a unit: a bare gold has it, and "2 A" is a current, no option."""
    if unit in ("ampere", "amperes", "amp", "amps") and extracted.endswith(" A"):
        extracted = rf"{extracted[:-2]} \text{{A}}"
    bare = gold.unit is None and _CONSTANT.fullmatch(clean(gold.answer)) is not None
    return extracted, replace(gold, unit=unit) if bare else gold


def _leaves_out_per(extracted: str, gold: Gold, asked: str) -> bool:
    """Whether an answer is "13 dollars" where a bare gold is in dollars per hour: half of its unit, not another one."""
    above, per, _ = _per(asked)
    return (
        bool(per)
        and gold.unit == asked
        and all(decide_alone(extracted, replace(gold, unit=unit)).correct for unit in (None, above))
    )


def _per(unit: str) -> tuple[str, str, str]:
    """What is above and below in one unit per another."""
    return _SHORT_RATES.get(unit, unit).replace(" per ", "/").partition("/")


def _with_its_base(digits: str, base: str, gold: Gold) -> Verdict:
    """The verdict on digits beside which their base is told: a gold with a base asks for it, another for either."""
    if IN_BASE.fullmatch(clean(gold.answer)):
        return (
            Verdict(False, "the gold has another base") if base == "10" else decide_alone(f"{digits}_{{{base}}}", gold)
        )
    plain = decide_alone(digits, gold)
    return plain if plain.correct or base == "10" else decide_alone(f"{digits}_{{{base}}}", gold)


def _in_sentence(sentence: str, gold: Gold, asked: Asked | None) -> Verdict:
    """Whether a sentence says the gold's words, or those of the option that it is the label of."""
    label = LABELLED.fullmatch(clean(gold.answer).strip())
    if asked is not None and label is not None and asked.options:
        return Verdict(option_said(sentence, asked) == (label[1] or label[2]).upper(), "words of an option")
    return Verdict(asserts(sentence, clean(gold.answer), gold.question), "words in a sentence")


def _otherwise(  # noqa: PLR0911 - one return for each way of writing
    extracted: str, gold: Gold, asked: Asked | None
) -> Verdict | None:
    """The verdict on what is written in another way: read again, said twice, an identity, parts with names; or None."""
    if (plainer := _plainer_gold(extracted, gold.answer)) is not None:
        return decide(extracted, replace(gold, answer=plainer), asked)
    if (again := read_again(extracted, gold, asked)) is not None:
        return decide(again, gold, asked)
    if (twice := _TWICE.fullmatch(extracted)) and decide_alone(
        twice[1].rpartition("=")[2], Gold(answer=twice[2])
    ).correct:
        first = decide(twice[1].rpartition("=")[2], gold, asked)  # "220 cm, or 2.2 m"
        return first if first.correct else decide(twice[2], gold, asked)
    measured = _MEASURED.fullmatch(extracted) if gold.unit is None and not told_units(gold.answer) else None
    if (value := measured[1] if measured else right_side(extracted, gold.question)) is not None:
        return decide(value, gold, asked)
    if states_identity(extracted, gold):
        return Verdict(True, "the right side of an identity")
    if (named := without_names(listed(gold.answer))) and len(given := listed(extracted)) == len(named):
        return _each(without_names(given) or given, named, gold, asked)
    return None


def _plainer_gold(extracted: str, gold: str) -> str | None:
    r"""The gold without a name in words, or without the working before its value; None where it has neither.

    >>> _plainer_gold("(1, 2)", r"\text{vertex }(1,2)"), _plainer_gold("1/2", r"\int_0^1 x\,dx = \frac12")
    ('(1,2)', ' \\frac12')
    """
    if point := _NAMED_POINT.fullmatch(gold.strip(" $")):
        return point[1]
    is_worked = "=" not in extracted and gold.count("=") < 3 and _WORKED_GOLD.match(gold)
    return gold.rpartition("=")[2] if is_worked else None


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


def _in_order_of_letters(extracted: str, gold: Gold) -> str | None:
    """The values of "z = 3, x = 1, y = 2" as the tuple (1, 2, 3), for a gold that is one; None of any other answer."""
    if not _TUPLE.fullmatch(gold.answer.strip(" $")):
        return None
    named = [part.partition("=") for part in listed(extracted.replace(NEXT_VALUE, ", "))]
    names = [bare_name(name) for name, _, _ in named]
    letters = all(sign and len(name) == 1 and name.isalpha() for name, (_, sign, _) in zip(names, named, strict=True))
    if len(names) < 2 or len(set(names)) < len(names) or not letters:
        return None
    values = [value.rpartition("=")[2].strip() for _, _, value in sorted(named, key=lambda part: bare_name(part[0]))]
    return f"({', '.join(values)})"
