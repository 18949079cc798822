r"""Notations of whole answers that have a plainer one: a transposed tuple, ``C(n, 2)``, a condition in brackets."""

import re

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import canonical

_TRANSPOSED = regex(
    r"((?:[A-Za-z]\w* ?= ?)?(?:\([^()]*,[^()]*\)|\[[^\[\]]*,[^\[\]]*\]))"
    r" ?\^ ?\{? ?(?:T|t|\\(?:top|intercal|text ?\{T\})) ?\}?"
)
_TRANSPOSE = regex(r"\^ ?\{? ?\\(?:top|intercal)(?![A-Za-z]) ?\}?")  # "A^{\top}"
_BRACKETED = regex(  # behind a value: "(x \\ne -3)", "(\\text{for } x > 0)", "\\text{(where } x > 0)"
    r"(?<=[\w)}\]|!]) ?,? ?(?:\(|\\text\{ ?\((?=[a-z ]{2,}\}))"
    r"( ?(?:\\text ?\{)? ?(?:for|where|with|when|if|provided(?: that)?|assuming)\b(?: all)? ?\}?)?"
    r"([^()<>=]*(?:[<>]|\\(?:ne|le|ge|in|notin)(?![a-z]))[^()=]*?)(?:\)|\\text\{ ?\) ?\}) ?(?=[,;]|$|and\b|or\b)"
)
_FORMULA_AND_UNIT = regex(r"(\$[^$]+\$)\s*([A-Za-zΩ][A-Za-zΩ/·\s^$\d{}\\-]*)")
_JOINERS = {"oder": "or", "ou": "or", "или": "or", "或": "or", "和": "and", "und": "and", "et": "and", "и": "and"}
_JOINER = regex(rf"(?<=[\w)}}]) ({'|'.join(_JOINERS)}) (?=[-+\w\\(]{{1,2}}(?![a-z]{{2}}))")
_UNEQUAL = regex(
    r"([a-z]) ?\\ne (?=.*(?:,|\\pm|\b(?:and|or)\b))([^a-z=<>]*(?:(?:\\(?:pm|frac|sqrt|pi)|\\text ?\{ ?(?:and"
    r"|or) ?\}|and|or)[^a-z=<>]*)*)"
)
_LETTER = regex(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_COMMAND = regex(r"\\text ?\{[^{}]*\}|\\[A-Za-z]+")
_RELATION = regex(r"[<>]|\\(?:ne|le|ge|in|notin)(?![a-z])")
_TERM = r"[a-z](?: ?[-+] ?\d+)?"
_CHOSEN = regex(rf"(?<![A-Za-z\\])C ?\(({_TERM}), ?(\d+|{_TERM})\)")


def drop_transposition(text: str) -> str:
    r"""A tuple is a row and a column; that of a matrix has one spelling.

    >>> drop_transposition("v = (1, 2)^T")
    'v = (1, 2)'
    >>> drop_transposition(r"A^{\top} = B")
    'A^T = B'
    """
    if "^" not in text:
        return text
    return row[1] if (row := _TRANSPOSED.fullmatch(text)) else _TRANSPOSE.sub("^T", text)


def spell_conditions(text: str) -> str:
    r"""A condition in brackets behind the value of its letter, without the brackets; one beside a set is left.

    >>> spell_conditions(r"1-\frac{3}{x} (x\ne -3)"), spell_conditions("1 (x > 0)")
    ('1-\\frac{3}{x} \\text{for} x\\ne -3', '1 (x > 0)')
    """
    if ")" not in text or not _RELATION.search(text):
        return text
    read, rest = "", text
    while (found := _BRACKETED.search(rest)) is not None:
        value, lead, condition = rest[: found.start()], found[1], found[2]
        is_called = value[-1:].isalpha() and rest[found.start()] == "("  # P(X > 2)
        if is_called or _RELATION.search(value) or not set(_COMMAND.sub(" ", value)) & set(_LETTER.findall(condition)):
            return text
        word = next((word for word in ("if", "provided", "when", "with") if word in (lead or "")), "for")
        read += rf"{value} \text{{{word}}} {condition.strip()}"
        rest = rest[found.end() :]
    return read + rest


def spell_exceptions(text: str) -> str:
    r"""Several numbers that a letter is not, each with its sign: ``x \ne \pm 1``, ``x \ne 1, -1``.

    >>> spell_exceptions(r"x \ne \pm 1"), spell_exceptions(r"x \ne 1, -1"), spell_exceptions(r"x \ne 1, y = 2")
    ('x \\ne -1, x \\ne 1', 'x \\ne 1, x \\ne -1', 'x \\ne 1, y = 2')
    """
    if "\\ne" not in text or not (said := _UNEQUAL.fullmatch(text)):
        return text
    letter, values = (
        said[1],
        [value.strip() for value in re.split(r",|\\text\s?\{\s*(?:and|or)\s*\}|\b(?:and|or)\b", said[2])],
    )
    each = [
        sign + value.removeprefix("\\pm").strip()
        for value in values
        for sign in (("-", "") if "\\pm" in value else ("",))
    ]
    return ", ".join(rf"{letter} \ne {value}" for value in each if value)


def spell_units(text: str) -> str:
    r"""The unit behind a formula, as text: what stands outside dollar signs is no mathematics.

    >>> spell_units(r"$\frac{5}{2}$ L/min"), spell_units(r"$5$ g/cm$^3$"), spell_units("$2$, $3$")
    ('$\\frac{5}{2}$ \\text{ L/min }', '$5$ \\text{ g/cm^3 }', '$2$, $3$')
    """
    if not text.startswith("$") or not (found := _FORMULA_AND_UNIT.fullmatch(text)):
        return text
    unit = re.sub(r"[${}\\ ]", "", found[2])
    return rf"{found[1]} \text{{ {unit} }}" if isinstance(canonical(unit), tuple) else text


def spell_joiners(text: str) -> str:
    r"""What joins values, in English: "x = 1 oder x = 3".

    >>> spell_joiners("x = 1 oder x = 3"), spell_joiners("1 и 3")
    ('x = 1 \\text{ or } x = 3', '1 \\text{ and } 3')
    """
    if not any(f" {word} " in text for word in _JOINERS):
        return text
    return _JOINER.sub(lambda word: rf" \text{{ {_JOINERS[word[1]]} }} ", text)


def spell_binomials(text: str) -> str:
    r"""A binomial coefficient in one spelling, where its first entry is a letter: C(5, 2) may be a point.

    >>> spell_binomials("C(n, 2)"), spell_binomials("C(5, 2)")
    ('\\binom{n}{2}', 'C(5, 2)')
    """
    return _CHOSEN.sub(r"\\binom{\1}{\2}", text) if "C" in text else text
