r"""What the question decides where the bare answer cannot: a percentage, a base, a unit, a letter, a rounded value.

With a question these rules apply, and no others; without one nothing changes.

* It asks for a percentage ("what percent", "as a percentage", "wie viel Prozent"): ``10`` and ``10\%`` are one answer.
  ``0.1`` is not.
* It asks for a number in a base ("in base 6", "in binary"): digits without their base have it, on either side.
* It asks for a unit ("how many minutes", "in cm", "in km/h"): a gold without a unit has this one, so an answer in
  another unit is converted, or wrong. Where it names several, none is asked for.
* It asks for one letter ("what is k in terms of m"): of an answer that gives several letters their values, this one's
  counts.
* It asks for a rounded value ("to the nearest tenth", "estimate"): "about 42" is 42. Where it names the place, a
  decimal that goes on behind the gold's last is not rounded, and wrong.

* It names one of several values that the answer states under names ("the remainder is 4 and the quotient 13"): that one
  counts.
* It asks how many: "none" is 0.
* It has options, labelled in order: the label of one, and what it says, are one answer; so are the words of one option
  alone in the sentence that concludes.
* It asks for a general solution, or an antiderivative: the names of its free constants are the writer's.

"In terms of pi" needs no rule: an exact gold takes no rounded answer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from stapo_bench.grading import units
from stapo_bench.grading.decide.free_constants import asks_for_all
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import BASE_NAMES, clean

MAX_OPTIONS = 6
MAX_QUESTION = 20_000  # characters of a question that are read
_PERCENT = regex(
    r"\b(?:what|which|how many|by what)\s+(?:\w+\s+)?(?:percent(?:age)?|per\s?cent)\b(?!\s+points)"
    r"|\b(?:as|in)\s+(?:a\s+|the\s+)?(?:percent(?:age)?s?|per\s?cent)\b(?!\s+points)|\b(?:find|what\s+is|what's"
    r"|what\s+was|determine|calculate|compute|give|state|estimate)\s+the\s+(?:\w+\s+){0,2}percent(?:age)?(?:\s+(?:of"
    r"|by|change|increase|decrease|error|yield|loss|gain|profit|that|which|composition))?\b"
    r"|\bwie\s?viele? prozent|\bwelche[rnm]? prozentsatz|\b(?:quel|à quel) pourcentage|\b(?:qué|cuál es el) porcentaje"
    r"|\b(?:сколько|какой) процент|百分之(?:几|多少)|百分比|何パーセント"
    r"|(?:answer|express\w*)\b[^.?]{0,40}\bpercent(?:age)?\b"
    r"|\bpercent(?:age)?\s+(?:increase|decrease|change|error)\s*\?",
    re.IGNORECASE,
)
# One of these is in every such question; the others, which are most, are not searched.
_OF_PERCENT = ("cent", "prozent", "процент", "百分", "パーセント")
_UNIT = regex(
    r"\bhow many (?:more |total |full |whole )?((?:(?:square|cubic) )?[A-Za-zΩ]+)\b(?!-)(?! (?:an?|per|each|every)\b)"
    r"|\b(?:what|which)(?: is the| was the)? (?:[a-z]+ ){1,2}in ([A-Za-zΩ]+)\b(?!\s*(?:per"
    r"|an?|each|every|squared|cubed)\b|\s?(?:[/²³·]|\$?\^))|(?:,|\bmeasured"
    r"|\banswer|\bexpressed|\bgiven?|\bcm|\b\w+) in (?:the )?([A-Za-zΩ]+)(?=[?,.)]|$)|\((?:in )?([A-Za-zΩ]+)\)",
    re.IGNORECASE,
)
# "square miles", "cm^3"; "cubic feet" and "m^2" alone; units of one per another: "km/h", "g/cm^3"
_FACTOR = r"(?:(?:square|cubic) )?[A-Za-zµ°]+(?: ?(?:\^ ?-?\d| squared\b| cubed\b))?"
_POWER = r"(?:square|cubic) [A-Za-z]+\b(?! ?(?:/|per\b))|[A-Za-z]+ ?\^ ?[23]\b(?! ?(?:/|·|per\b))"
_PER = rf"({_POWER}|{_FACTOR}(?: ?(?:/|\bper\b|·|\bcdot\b| (?=[A-Za-z]+ ?\^ ?-)) ?{_FACTOR})+)"
_COMPOUND = regex(  # "in km/h", "(in g/cm^3)", "convert ... to m/s", "how many miles per hour"
    rf"\bhow many {_PER}"
    rf"|(?:\bin(?:to)?|\((?:in )?|\b(?:convert|change|express)\b[^?!]{{1,80}}? to) ?(?:the |units of )?{_PER}"
    r"(?= ?(?:[?,.;:)]|$|(?:and|or|of|if|when|for|at|after|during|as|does|is|did|will|can|do|was)\b))",
    re.IGNORECASE,
)
# What a unit is written in: "\text{cm}^3", "$m/s$".
_UNIT_LAYOUT = regex(r"\\(?:text|mathrm|rm)\b ?|\\[()]|[${}]|\\(?=cdot)")
_BLANK = regex(r"(?:\\[,;: ]|\s)+")
_LETTER = regex(
    r"\b(?:what is|what's|find|determine|solve for|the value of"
    r"|compute|(?:closed form|formula|expression|general term) (?:for|of)|(?:find|give|derive|determine) (?:the"
    r"|its|their)"
    r" [a-z -]{1,40}(?= \$[A-Za-z]\$\W*$))\s+(?:the value of\s+)?\$?([A-Za-z](?:_\{?\w{1,3}\}?)?"
    r"|[A-Z]{2})\$?(?=\s*(?:[?.,:]|$|(?:in|if|when|such|so that|as a)\b))",
    re.IGNORECASE,
)
_ROUNDED = regex(
    r"\bnearest\b|\bround\w*|\bapproximat\w+|\bestimat\w+|\bdecimal places?\b|\bsignificant\b", re.IGNORECASE
)
_TO_PLACE = regex(r"\bnearest (?:tenth|hundredth|thousandth|cent|0\.0*1|whole|integer)", re.IGNORECASE)
_TEMPERATURE = regex(
    r"(?:°|\^\s*\{?\s*\\circ\s*\}?)[ ~$\\,]*(?:\\text\s*\{|\\mathrm\s*\{)?\s*[CF]\b|[℃℉]|\bCelsius\b|\bFahrenheit\b"
)
_WORD = regex(r"[A-Za-z]+")
_COUNT = regex(r"\bhow many\b", re.IGNORECASE)
_OPTION = regex(r"(?:^|(?<=\s))\(?([A-Fa-f1-6])[).]\s+(?=\S)")
_LABEL = regex(r"\\(?:textbf|text|mathrm|mathbf|textrm)\s*\{\s*\(?([A-F])\)?\.?\s*\}")
_LAYOUT = regex(r"\\q?quad|\\[ ,;:~]|(?<!\\)~|\\hspace\*?\{[^{}]*\}")
_WORDY = regex(r"[A-Za-z]{3}")
_DENIES = regex(r"\b(?:not|never|neither|nor|cannot|unless|if|or)\b|n['’]t\b", re.IGNORECASE)
_LABEL_BEFORE = regex(r"\(([A-F])\)\s+(\S.*)")
_LABEL_AND_TEXT = regex(r"\(?([A-F])\)?[,:;] *(\S.*)")
_SENTENCE = regex(r"(?:[^.?!]|\.(?=\d))+[.?!]?")
_ASKS = regex(
    r"\b(?:what|which|how|when|find|compute|calculate|determine|evaluate|give|state|write|express|convert|answer"
    r"|estimate|round)\b|\((?:in )?[A-Za-z]+\)\W*$",
    re.IGNORECASE,
)
_BASE = regex(
    r"\bbase[\s${-]{0,3}(\d{1,2}|" + "|".join(BASE_NAMES) + r")\b|\b(binary|octal|hexadecimal)\b", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a question asks for."""

    percent: bool = False
    base: int | None = None
    unit: str | None = None
    letter: str | None = None
    rounded: bool = False
    to_place: bool = False
    count: bool = False
    general: bool = False
    words: frozenset[str] = frozenset()
    options: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=1024)
def asked_by(question: str) -> Asked:
    """What a question asks for, by the rules above.

    >>> asked_by("What percent of 50 is 5?").percent, asked_by("Write 95 in base 6.").base
    (True, 6)
    >>> asked_by("A price falls by 10 percent. What is it now?").percent
    False
    >>> asked_by("How many minutes are 3 hours?").unit, asked_by("What is $k$ in terms of $m$?").letter
    ('minutes', 'k')
    """
    question = question[:MAX_QUESTION]
    bases = [_base(next(group for group in match.groups() if group)) for match in _BASE.finditer(question)]
    letters = _LETTER.findall(question)
    lower = question.lower()
    asking = _asking(question)
    rounded = _ROUNDED.search(question) is not None
    return Asked(
        percent=any(word in lower for word in _OF_PERCENT) and _PERCENT.search(question) is not None,
        base=bases[-1] if bases and bases[-1] != 10 else None,
        unit=_unit(question, asking),
        letter=letters[-1] if letters else None,
        rounded=rounded,
        to_place=rounded and _TO_PLACE.search(question) is not None,
        count=_COUNT.search(question) is not None,
        general=asks_for_all(question),
        options=_options(question),
        words=frozenset(word.lower() for part in asking for word in _WORD.findall(part)),
    )


def _unit(question: str, asking: list[str]) -> str | None:
    """The one unit that the question asks for, behind what asks: the units of what is given do not count."""
    words = [next(filter(None, match.groups())) for part in asking for match in _UNIT.finditer(part)]
    known = [word for word in words if word.rpartition(" ")[2] in units.WORDS]  # "square feet"
    asked = {word for word in known if isinstance(units.canonical(word), tuple)}
    if asked and _TEMPERATURE.search(question):
        asked -= {"degree", "degrees"}  # those of a thermometer are no angle
    compound = {unit for part in asking for unit in _compound_units(part)}
    if not compound:  # "the side of 3 cm² ... in cm"
        asked = {word for word in asked if not re.search(rf"\b{word} ?(?:[²³]|\$?\^)", question)}
    asked |= compound  # "in cm² ... in cm" are two
    return asked.pop() if len(asked) == 1 else None


def _compound_units(asking: str) -> set[str]:
    """The units of one per another, the products and the powers that a sentence asks for."""
    if not any(mark in asking for mark in ("/", " per ", "^", "²", "³", "square", "cubic")):
        return set()
    plain = _BLANK.sub(" ", _UNIT_LAYOUT.sub("", asking.replace("²", "^2").replace("³", "^3")))
    found = {match[1] or match[2] for match in _COMPOUND.finditer(plain)}
    return {unit for unit in found if all(map(_is_unit, _WORD.findall(unit)))}


def _is_unit(word: str) -> bool:
    """Whether a word of a compound unit is one, or says how it goes into it."""
    return word in units.NAMES or word in ("per", "cdot", "square", "cubic", "squared", "cubed")


def _asking(question: str) -> list[str]:
    """What asks in each sentence of the question: from its first word that does."""
    found = [(sentence, _ASKS.search(sentence)) for sentence in _SENTENCE.findall(question)]
    return [sentence[asks.start() :] for sentence, asks in found if asks is not None]


def _options(question: str) -> tuple[tuple[str, str], ...]:
    """The options of the question with their labels, which are A, B, ... or 1, 2, ... in order."""
    if "\\" in question:
        question = _LAYOUT.sub(" ", _LABEL.sub(r" (\1) ", question))
    found = list(_OPTION.finditer(question))[-MAX_OPTIONS:]
    while found and found[0][1] not in "Aa1":  # "is 5. What is x? (A) 6"
        del found[0]
    labels = "".join(match[1].upper() for match in found)
    if len(found) < 3 or labels not in ("ABCDEF"[: len(found)], "123456"[: len(found)]):
        return ()
    ends = [match.start() for match in found[1:]] + [len(question)]
    return tuple(
        (label, _formula(question[match.end() : end].strip(" ,;\n")))
        for label, match, end in zip(labels, found, ends, strict=True)
    )


def _formula(option: str) -> str:
    """An option without the dollar sign that a formula around all options leaves at its end."""
    return option.strip("$ ") if option.count("$") == 1 else option


def without_label(answer: str, asked: Asked, same: Callable[[str, str], bool] = str.__eq__) -> str:
    """What an answer says behind the label of an option that says the same: "B, 12" for option B of 12.

    >>> asked = asked_by("(A) 11 (B) 12 (C) 13")
    >>> without_label("B, 12", asked), without_label("B, 11", asked)
    ('12', 'B, 11')
    """
    if "\\" in answer and asked.options:
        answer = _LAYOUT.sub(" ", _LABEL.sub(r"(\1) ", answer)).strip()
    said = _LABEL_AND_TEXT.fullmatch(answer) or _LABEL_BEFORE.fullmatch(answer)
    option = dict(asked.options).get(said[1]) if said else None
    if said is None or option is None:
        return answer
    return said[2] if clean(said[2]) == clean(option) or same(said[2], option) else answer


def option_said(sentence: str, asked: Asked) -> str | None:
    """The label of the one option whose words a sentence says and does not deny; None where these are none or several.

    >>> asked = asked_by("It is symmetric about (A) the x-axis (B) the y-axis (C) the origin")
    >>> option_said("So it is a mirror image in the y-axis.", asked), option_said("It is not about the y-axis.", asked)
    ('B', None)
    """
    text = _squeezed(sentence)
    said = [
        label for label, option in asked.options if _WORDY.search(option) and f" {_squeezed(option)} " in f" {text} "
    ]
    return said[0] if len(said) == 1 and not _DENIES.search(sentence) else None


def _squeezed(text: str) -> str:
    """The text in lower case without dollar signs, stops and repeated blanks."""
    return " ".join(re.sub(r"[$.,;:*()]", " ", text.lower()).split())


def _base(name: str) -> int:
    """The base of a number or a name."""
    return int(name) if name.isdigit() else BASE_NAMES[name.lower()]
