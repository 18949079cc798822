r"""Numbers in English words: cardinals, fractions, mixed numbers, decimals, with a sign before or "percent" behind.

``NUMERAL`` finds the longest such phrase in a text, ``in_digits`` reads it. An ordinal alone ("the fifth") is none.
"""

import re
from fractions import Fraction

from stapo_bench.grading.patterns import regex

_SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_VALUES = {word: value for value, word in enumerate(_SMALL)}
_VALUES |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
_BELOW = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}
_BELOW |= {f"{word}th": _VALUES[word] for word in _SMALL[4:] if word not in ("five", "eight", "nine", "twelve")}
_BELOW |= {f"{word[:-1]}ieth": _VALUES[word] for word in _TENS}
_BELOW |= {f"{word}th": value for word, value in _SCALES.items()}
_BELOW |= {f"{word}s": value for word, value in _BELOW.items() if word != "half"} | {"halves": 2}
_ALONE = frozenset({"half", "quarter"})  # the parts that need no "a" before them


def _one_of(*words: str) -> str:
    """A pattern of words, the longest first."""
    return "|".join(sorted(words, key=len, reverse=True))


_COUNT = rf"(?:{_one_of(*_VALUES)}|an?[ ](?:{_one_of(*_SCALES, 'dozen')}))\b"
_JOINT = r"(?:[ -]|(?:(?<=hundred)|(?<=thousand)|(?<=million))[ ]and[ ])"
_CARDINAL = rf"(?:{_COUNT}(?:{_JOINT}(?:{_one_of(*_VALUES, *_SCALES, 'dozen')})\b)*)"
_PART = rf"(?:(?:an?[ ]|{_CARDINAL}[ -])(?:{_one_of(*_BELOW)})\b|(?:{_one_of(*_ALONE)})\b)"
_DECIMALS = rf"(?:[ ](?:{_one_of(*_SMALL[:10])})\b)+"
_SCALE = rf"[ ](?:{_one_of(*_SCALES)})\b"
NUMERAL = regex(
    rf"\b(?=[aefhmnoqstz])(?:(?:minus|negative)[ ])?(?:{_CARDINAL}[ ]and[ ]{_PART}|{_PART}"
    rf"|{_CARDINAL}[ ]point{_DECIMALS}(?:{_SCALE})?|{_CARDINAL})(?:[ ]percent\b)?(?![-'’]?\w)",
    re.IGNORECASE,
)
_WHOLE = regex(
    rf"(?P<sign>(?:minus|negative)[ ])?(?:(?:(?P<whole>{_CARDINAL})[ ]and[ ])?(?P<part>{_PART})"
    rf"|(?P<units>{_CARDINAL})[ ]point(?P<decimals>{_DECIMALS})(?P<scale>{_SCALE})?"
    rf"|(?P<cardinal>{_CARDINAL}))(?P<percent>[ ]percent)?",
    re.IGNORECASE,
)


def in_digits(words: str) -> str | None:
    r"""A number in words as digits, a fraction or a percentage; None of anything else.

    >>> in_digits("three hundred and twelve"), in_digits("Minus two and a half"), in_digits("two thirds")
    ('312', '-5/2', '2/3')
    >>> in_digits("one point five million"), in_digits("forty-two percent"), in_digits("a dozen"), in_digits("fifth")
    ('1500000', '42%', '12', None)
    """
    found = _WHOLE.fullmatch(" ".join(words.split()).lower())
    if found is None:
        return None
    if found["part"]:
        value = _cardinal(found["whole"]) if found["whole"] else Fraction(0)
        part = _part(found["part"])
        value = None if value is None or part is None else value + part
    elif found["units"]:
        value = _cardinal(found["units"])
        digits = "".join(str(_VALUES[word]) for word in found["decimals"].split())
        value = None if value is None else (value + Fraction(int(digits), 10 ** len(digits)))
        value = None if value is None else value * _SCALES.get((found["scale"] or "").strip(), 1)
    else:
        value = _cardinal(found["cardinal"])
    if value is None:
        return None
    return f"{'-' if found['sign'] else ''}{value}{'%' if found['percent'] else ''}"


def _part(words: str) -> Fraction | None:
    """ "three eighths", "a half", "quarter"."""
    above, _, below = words.replace("-", " ").rpartition(" ")
    count = Fraction(1) if above in ("", "a", "an") else _cardinal(above)
    return None if count is None else count / _BELOW[below]


def _cardinal(words: str) -> Fraction | None:
    """ "three hundred and twelve"; None of words that are numbers side by side, "two three"."""
    total = current = 0
    last = 10**15
    for word in words.replace("-", " ").split():
        if word in ("a", "an", "and"):
            current = current if word == "and" else 1
        elif word == "dozen":
            current = max(current, 1) * 12
        elif word == "hundred":
            current, last = max(current, 1) * 100, 100
        elif word in _SCALES:
            total, current, last = total + max(current, 1) * _SCALES[word], 0, 10**15
        else:
            value = _VALUES[word]
            room = 100 if last in (100, 10**15) else 10 if last in range(20, 100, 10) else 0
            if value >= room or (room == 10 and value == 0):
                return None
            current, last = current + value, value if value >= 20 else 1
    return Fraction(total + current)
