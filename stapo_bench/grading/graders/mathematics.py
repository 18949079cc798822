"""The ``math`` grader: mathematical equality, by the type of answer that the gold is. See README.md of ``grading``.

It never raises on any string, never executes its input, needs no main thread and no signals. Bounds on length, depth,
digits and nodes are checked before anything is computed.
"""

import re
from collections.abc import Iterator

from stapo_bench.errors import UsageError, did_you_mean
from stapo_bench.grading.decide import (
    Verdict,
    asked_by,
    decide,
    decide_at_sight,
    equation_of,
    is_in_words,
    labelled,
    listed,
    may_be_region,
    option_said,
    parts_of,
    words_of,
)
from stapo_bench.grading.evaluate import refill
from stapo_bench.grading.extraction import (
    all_values,
    answer_phrases,
    boxes_for,
    conclusion,
    counted,
    declines,
    each_value,
    extract_answer,
    has_labels,
    in_boxes,
    in_order_of,
    last_items,
    named_values,
    part_names,
    prose_of,
    region_said,
    stated_parts,
    until_answered,
    until_end_token,
    until_similar_question,
    value_without_words,
    values_under,
    without_groups,
)
from stapo_bench.grading.golds import as_gold
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import IN_SENTENCE, NEXT_PART, NEXT_READING, NEXT_VALUE, canonical, told_units
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "math-15"
# The gold's own text decides its type; "text" forces a comparison of words, and "multi", "set" and "tuple" make every
# comma a separator. A type that is none of these changes nothing in a ``Gold``, where it may be another tool's word.
ANSWER_TYPES = ("number", "expression", "tuple", "interval", "set", "multi", "equation", "matrix", "text")

# Words at the end of a sentence that are no verdict of their own: "larger", "consecutive".
_WORDS = regex(
    r"(?!(?:no|not|none|yes|true|false|unde\w+|un?known|impossible"
    r"|diverg\w+|converg\w+|does|cannot|infinit\w+|empty)\b)(?=[^\W\d_]{3})[^\W\d_]+(?: [^\W\d_]+)*",
    re.IGNORECASE,
)
_OPTION = regex(r"(?:\\text\w*\s*\{)?\s*\(?[A-F]\)?\s*\}?")
_WORKED = regex(r"[A-Za-z·×*+^√]")  # "2 · 3", "2n"
# "litres a day" for a gold in a unit per another
_QUOTIENT = regex(r"[A-Za-z]\}?\s*/\s*(?:\\text\s*\{\s*)?[A-Za-z]|\bper\b")
_EACH = regex(r"(?<=[a-z] )(?:an?|each|every)(?= (?:second|minute|hour|day|week|month|year|kilogram|kilo|lit|met)\w*)")
_MIXED, _WHOLE_AND_PART = regex(r"\d\s*\\[dt]?frac"), regex(r"\b(\d+) and (\d+/\d+)\b")  # "3 and 5/6"
_LOSS = regex(  # "a loss of 4 percent", "1% lower than at first"
    r"\b(?:loss|decrease|drop|fall|decline|reduction) of (?:about )?(\d[\d.]*) ?(?:%|percent)|(\d[\d.]*) ?(?:%"
    r"|percent) (?:lower|less|below)\b"
)
_LABEL = regex(r"[A-F](?=[^A-Za-z]*$)")
_OWN_OPTION = r"^\W*{letter}[:.)]\s+(\S.{{0,80}})$"  # "A: 31", of options that the reply itself makes up
_LARGE = regex(r"[-$\s]*\d{1,3}(?:,?\d{3})+[$\s]*")
_NAMED_OPTION = regex(  # "the root of seven, choice C, is irrational"; not "option A fails"
    r"(?<!not )(?<!be )(?<!clude )(?<!out )(?<!nlike )(?<!but )(?<!except )(?:[Oo]ption|[Cc]hoice|Antwort"
    r"|[Oo]pción|[Rr]éponse|[Rr]isposta|[Rr]esposta|[Вв]ариант|选项?)\s*\(?([A-F])\)?(?![A-Za-z)])(?! (?:is (?:not"
    r"|wrong|false|out)|was|but|isn|does|doesn|would|could|might|may|needs|requires|fails|cannot|can['’]t))"
)
_IN_BASE = r"= ([0-9A-F]+) in base[ -]?{base}(?!\d)"  # "so 100 = 244 in base 6"
_ROUNDED_TO = regex(
    r"(?:\b(?:rounded (?:up |off |down )?to|(?:is|are) (?:about|approximately|roughly|around)) |≈ ?)"
    r"\$?([-−]?\d[\d,]*\.?\d*)(?:,? (?:rounded )?to the nearest [a-z]+)?[^\w)]*$",
    re.IGNORECASE,
)
_TWO_SIGNS = regex(r"\\pm(?![A-Za-z])|±")
_POINT = regex(r"(?:\\left)?\([^(),]+(?:,[^(),]+){1,2}(?:\\right)?\)")  # "(3, 4)", "(1, 0, 2)"
_OR_SHARE = regex(
    r"[\da-z],? (?:or|i\.e\.|that is|which is),? (\d[\d.]*) ?(?:%|percent)(?: of (?:the|all|these|his|her) [a-z]+)?\W*$"
)  # "0.30, or 30%"
_INTERVAL = regex(r"[(\[][^,()\[\]]+,[^,()\[\]]+[)\]]")
_LETTER_IS = regex(r"([a-z]) = ")
_LISTED = regex(r"[^,]\s(?:and|or)\s|[^(\[,]*,[^)\]]*$")  # "√5 and −√5"
_OPENS_WITH_SO = regex(r"(?:so|hence|thus|therefore)\b")  # "so the total", no name of a part
_NOUN = regex(r"\b(?:the|its|their|corresponding) ([a-z]+(?:-[a-z]+)*)$|(?:^| )([a-z])$")
MAX_GOES_ON = 1_500  # characters of a completion without a box that may ask the like of its question again
MAX_NAMED_PARTS = 4  # of an answer that are looked for by their names
MAX_QUICK = 10_000  # characters of a completion, or a gold, that is worth a quick look


_NO_ANSWER = Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="no final answer found", grader=GRADER_VERSION)


def grade_answer(
    completion: str, answer: str | float | Gold, answer_type: str | None = None, *, question: str | None = None
) -> Grade:
    r"""Grade a completion against a gold.

    ``answer``: a text, as LaTeX or plain, a number, or a ``Gold`` that says more.
    ``answer_type``: one of ``ANSWER_TYPES``; None lets the gold say by itself what it is.
    ``question``: the problem's text, where a percentage or a base that it asks for may decide; None: the gold's own.

    Raises:
        UsageError: the completion is no text, the gold neither text nor a number, or blank; or there is no such type.

    >>> grade_answer(r"... so the area is \boxed{0.5\text{ cm}^2}.", r"\frac{1}{2}").outcome.value
    'CORRECT'
    >>> grade_answer(r"\boxed{0.33}", r"\frac{1}{3}").outcome.value
    'INCORRECT'
    >>> grade_answer(r"\boxed{10}", r"10\%", question="What percent of 50 is 5?").outcome.value
    'CORRECT'
    >>> grade_answer("I give up.", "42").outcome.value
    'NO_ANSWER'
    """
    if not isinstance(completion, str):
        raise UsageError(f"completion: expected its text, got {completion!r:.40}")
    if answer_type is not None and answer_type not in ANSWER_TYPES:
        hint = did_you_mean(answer_type, ANSWER_TYPES) or f"there are {', '.join(ANSWER_TYPES)}"
        raise UsageError(f"answer_type: expected the name of a type, got {answer_type!r}; {hint}")
    gold = as_gold(answer, answer_type=answer_type, question=question)
    try:
        extracted = extract_for(completion, gold)
    except Exception as error:
        return _failed(None, error)
    if extracted is None:
        return _NO_ANSWER
    return grade_extracted(extracted, gold)


def extract_for(completion: str, gold: Gold) -> str | None:
    """The answer of a completion, and behind it those of other readings that the kind of the gold allows.

    What is read depends on the gold's kind alone (words, several values, a set of numbers), never on its value: the
    whole sentence that concludes a response, or all values of it. ``grade_extracted`` takes the first that is right.

    >>> extract_for("So 2 works. Only 3 does as well.", Gold(answer="3")), extract_for("I give up.", Gold(answer="3"))
    ('3', None)
    """
    refill()
    if gold.question and len(completion) <= MAX_GOES_ON and "boxed" not in completion and "</think" not in completion:
        completion = until_similar_question(until_end_token(completion), gold.question, _gives_answer)
        if prose_of(completion) is not None:
            completion = until_answered(completion, gold.question, _gives_answer)
    if _MIXED.search(gold.answer):
        completion = _WHOLE_AND_PART.sub(r"\1 \2", completion)
    if _LARGE.fullmatch(gold.answer):
        completion = without_groups(completion)
    if _QUOTIENT.search(gold.answer):
        completion = _EACH.sub("per", completion)
    readings = list(dict.fromkeys(_readings(completion, gold)))
    return NEXT_READING.join(readings) if readings else None


def _gives_answer(part: str) -> bool:
    """Whether a part of a completion gives an answer."""
    return extract_answer(part) is not None


def _readings(completion: str, gold: Gold) -> Iterator[str]:
    """What the completion may say, the likeliest first."""
    extracted, wanted = extract_answer(completion), parts_of(gold.answer)
    if gold.question:
        yield from _as_the_question_has_it(completion, gold.question)
    if (words := words_of(gold.answer)) and (said := equation_of(conclusion(prose_of(completion) or "") or "", words)):
        yield said
    if is_in_words(gold):
        if extracted is not None:
            yield extracted
        if (prose := prose_of(completion)) is not None and (sentence := conclusion(prose)) is not None:
            yield f"{IN_SENTENCE}{sentence}"
    elif extracted is not None:
        yield from (
            _several(completion, extracted, gold, wanted)
            if wanted > 1
            else [
                _asked_for(completion, gold)
                or _of_unit_asked(completion, extracted, gold)
                or _rounded_as_asked(completion, gold)
                or extracted
            ]
        )
        if (
            may_be_region(gold)
            and not _INTERVAL.search(extracted)
            and (prose := prose_of(completion))
            and (region := region_said(prose)) is not None
        ):
            yield region
        if _WORDS.fullmatch(extracted) and (value := value_without_words(completion)) is not None:
            yield value
    yield from _of_options(completion, extracted or "", gold)


def _as_the_question_has_it(completion: str, question: str) -> Iterator[str]:
    """Digits in the base asked for ("100 = 244 in base 6"), a share as the percentage, a loss as the change."""
    asked = asked_by(question)
    changes = asked.percent and "change" in question
    if not (asked.base or asked.percent) or (prose := prose_of(completion)) is None:
        return
    sentence = conclusion(prose) or ""
    if asked.base:
        yield from re.findall(_IN_BASE.format(base=asked.base), sentence)[-1:]
    if asked.percent and (share := _OR_SHARE.search(sentence)):
        yield f"{share[1]}%"
    if changes and (lost := _LOSS.search(sentence)):
        yield f"-{lost[1] or lost[2]}%"


def _of_options(completion: str, extracted: str, gold: Gold) -> Iterator[str]:
    """What stands behind the label of an option that the reply makes up; the label that its conclusion names."""
    is_label, is_labelled = (_OPTION.fullmatch(text) is not None for text in (extracted, gold.answer))
    if is_label and not is_labelled and (letter := _LABEL.search(extracted)):
        yield from re.findall(_OWN_OPTION.format(letter=letter[0]), completion, re.MULTILINE)[:1]
    if gold.question and is_labelled and not is_label and asked_by(gold.question).options:
        sentence = conclusion(prose_of(completion) or "")
        if sentence is not None and len(named := set(_NAMED_OPTION.findall(sentence))) == 1:
            yield named.pop()
        elif sentence is not None and option_said(sentence, asked_by(gold.question)) is not None:
            yield f"{IN_SENTENCE}{sentence}"


def _asked_for(completion: str, gold: Gold) -> str | None:
    """Of values that one sentence ends with, each under its name, the one that the question names; else None."""
    if gold.question is None or _TWO_SIGNS.search(gold.answer) or (prose := prose_of(completion)) is None:
        return None
    if answer_phrases(prose):
        return None
    if (number := counted(conclusion(prose) or "", gold.question)) is not None:
        return number
    named = named_values(conclusion(prose) or "")
    asked = asked_by(gold.question)
    words = {word for word in asked.words if len(word) > 1}  # a letter may be a formula's
    words.add((asked.letter or "").lower())
    names = [match[1] or match[2] if (match := _NOUN.search(name)) else None for name, _ in named]
    if len(names) < 2 or None in names or _OPENS_WITH_SO.match(named[-1].name):
        return None
    of_name = [value for name, (_, value) in zip(names, named, strict=True) if name in words]
    return of_name[0] if len(of_name) == 1 else None


def _of_unit_asked(completion: str, extracted: str, gold: Gold) -> str | None:
    """The one value of the last sentences in the unit asked for, or one like it, where the extracted has another."""
    asked = canonical(asked_by(gold.question).unit or "") if gold.question else None
    if not isinstance(asked, tuple) or "$" in extracted or (prose := prose_of(completion)) is None:
        return None
    given = told_units(extracted)
    if asked in given and len({unit[0] for unit in given}) == 1:
        return None  # in this unit, alone or beside another: "350 cm, or 3.5 m"
    others = [unit for unit in given if unit != asked]  # "after 2 hours, 160 km from the town"
    if not others:
        return None
    said = each_value(prose)
    for values in said:
        if of_asked := [value for value in values if told_units(value) == [asked]]:
            return of_asked[0] if len(of_asked) == 1 else None
    alike = [value for value in said[0] if [unit[0] for unit in told_units(value)] == [asked[0]]] if said else []
    return alike[0] if len(alike) == 1 and others[0][0] != asked[0] else None


def _rounded_as_asked(completion: str, gold: Gold) -> str | None:
    """What the last sentence rounds to, where the question names the place: "47/6 = 7.83..., rounded to 7.8"."""
    if gold.question is None or not asked_by(gold.question).to_place or (prose := prose_of(completion)) is None:
        return None
    rounded = _ROUNDED_TO.search(conclusion(prose) or "")
    return rounded[1] if rounded else None


def _several(completion: str, extracted: str, gold: Gold, wanted: int) -> Iterator[str]:
    """The readings of an answer of several parts: under names in the order of gold or question, or side by side."""
    question, prose = gold.question or "", prose_of(completion)
    if (under_names := _under_names(completion, prose, extracted, gold)) is not None:
        yield under_names
        return
    if prose is None:
        yield extracted
        labels = has_labels(question) or has_labels(completion)
        if NEXT_PART not in extracted and (in_parts := boxes_for(completion, wanted, labels)) is not None:
            yield in_parts
        return
    if has_labels(question) and (parts := stated_parts(prose, wanted)) is not None:
        yield NEXT_PART.join(parts)
        return
    named = named_values(prose)
    for text, pairs in ((gold.answer, named), (question, named), (gold.answer, named_values(prose, loose=True))):
        if (ordered := in_order_of(text, pairs, wanted)) is not None:
            yield NEXT_PART.join(value for _, value in ordered)
            return
    yield extracted
    if (items := last_items(prose, wanted)) is not None:
        yield items
    before = named[:-wanted]  # a formula there is working, a number is one answer more
    letter = _LETTER_IS.match(named[-1].value) if named else None
    more = letter and len(re.findall(rf"(?<![\w\\]){letter[1]} ?= ?[-−]?\d", conclusion(prose) or "")) > wanted
    if (
        len(named) >= wanted
        and not more
        and not _LISTED.search(named[-1].value)
        and not (before and not _WORKED.search(before[-1].value))
    ):
        yield NEXT_VALUE.join(value for _, value in named[-wanted:])
    if not gold.answer.lstrip(" $").startswith("(") and (values := all_values(prose)) is not None:
        yield values  # in any order, so no pair


def _under_names(completion: str, prose: str | None, extracted: str, gold: Gold) -> str | None:
    """The values that a reply gives the gold's parts by their names, in the gold's order; None where it names none."""
    if prose is not None and "-coordinate" in prose and _POINT.fullmatch(gold.answer.strip(" $")):
        axes = [frozenset({f"{axis}-coordinate"}) for axis in "xyz"[: 1 + gold.answer.count(",")]]
        if (point := values_under(prose, axes)) is not None:
            return f"({', '.join(point)})"
    parts = labelled(gold.answer) or listed(gold.answer)
    for names in part_names(tuple(parts), gold.question or "") if 1 < len(parts) <= MAX_NAMED_PARTS else ():
        values = values_under(extracted if prose is None else prose, names)
        if values is None and prose is None:
            values = in_boxes(completion, names)
        if values is not None:
            return NEXT_PART.join(values)
    return None


def grade_extracted(extracted: str, gold: Gold) -> Grade:
    """Grade what ``extract_for`` found: completions that give the same share a grade."""
    refill()  # one budget for all readings and parts, whatever extraction has spent
    asked = asked_by(gold.question) if gold.question else None
    readings = extracted.split(NEXT_READING)
    try:
        verdicts = [(reading, decide(reading, gold, asked)) for reading in readings]
    except Exception as error:
        return _failed(readings[0], error)
    reading, verdict = next((found for found in verdicts if found[1].correct), verdicts[0])
    if not verdict.correct and reading.startswith(IN_SENTENCE) and declines(reading):
        return _NO_ANSWER
    return _grade(reading, verdict)


def quick_grade(completion: str, gold: Gold) -> Grade | None:
    """The grade where a look at a short answer settles it, which needs no process of its own; else None."""
    if len(completion) > MAX_QUICK or len(gold.answer) > MAX_QUICK:
        return None
    refill()
    try:
        extracted = extract_answer(completion)
        verdict = None if extracted is None else decide_at_sight(extracted, gold)
    except Exception:  # a worker meets it again, and reports it
        return None
    if verdict is None or extracted is None:
        return None
    if "boxed" not in completion and (gold.question is not None or not verdict.correct):
        return None  # prose may end before a question like this one, and another reading of it be right
    if verdict.correct and _under_names(completion, None, extracted, gold) is not None:
        return None  # names may put the values in another order
    return _grade(extracted, verdict)


def _grade(extracted: str, verdict: Verdict) -> Grade:
    """The verdict as a grade."""
    outcome = Outcome.CORRECT if verdict.correct else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail=verdict.rule, grader=GRADER_VERSION)


def _failed(extracted: str | None, error: Exception) -> Grade:
    """The grade where the grader failed: unknown, not wrong; the score's bounds show it."""
    detail = f"{type(error).__name__}: {str(error)[:200]}"
    return Grade(outcome=Outcome.GRADER_ERROR, extracted=extracted, detail=detail, grader=GRADER_VERSION)
