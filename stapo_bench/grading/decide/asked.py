r"""What the question decides where the bare answer cannot: whether it asks for a percentage, and in which base.

With a question two rules apply, and no others; without one nothing changes.

* It asks for a percentage ("what percent", "as a percentage"): ``10`` and ``10\%`` are one answer. ``0.1`` is not.
* It asks for a number in a base ("in base 6", "in binary"): digits without their base have it, on either side.
"""

import re
from dataclasses import dataclass

from stapo_bench.grading.read import BASE_NAMES

MAX_QUESTION = 20_000  # characters of a question that are read
_PERCENT = re.compile(
    r"\b(?:what|which|how many|by what)\s+(?:\w+\s+)?(?:percent(?:age)?|per\s?cent)\b(?!\s+points)"
    r"|\b(?:as|in)\s+(?:a\s+|the\s+)?(?:percent(?:age)?s?|per\s?cent)\b(?!\s+points)"
    r"|\b(?:find|what\s+is|what's|what\s+was|determine|calculate|compute|give|state|estimate)\s+the\s+(?:\w+\s+){0,2}"
    r"percent(?:age)?(?:\s+(?:of|by|change|increase|decrease|error|yield|loss|gain|profit|that|which|composition))?\b"
    r"|(?:answer|express\w*)\b[^.?]{0,40}\bpercent(?:age)?\b|\bpercent(?:age)?\s+(?:increase|decrease|change|error)\s*\?",
    re.IGNORECASE,
)
_BASE = re.compile(
    r"\bbase[\s${-]{0,3}(\d{1,2}|" + "|".join(BASE_NAMES) + r")\b|\b(binary|octal|hexadecimal)\b", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a question asks for."""

    percent: bool = False
    base: int | None = None


def asked_by(question: str) -> Asked:
    """What a question asks for, by the two rules.

    >>> asked_by("What percent of 50 is 5?"), asked_by("Write 95 in base 6.").base
    (Asked(percent=True, base=None), 6)
    >>> asked_by("A price falls by 10 percent. What is it now?")
    Asked(percent=False, base=None)
    """
    question = question[:MAX_QUESTION]
    bases = {_base(next(group for group in match.groups() if group)) for match in _BASE.finditer(question)} - {10}
    last = [_base(next(group for group in match.groups() if group)) for match in _BASE.finditer(question)]
    base = last[-1] if last and last[-1] in bases else None
    return Asked(percent=_PERCENT.search(question) is not None, base=base)


def _base(name: str) -> int:
    """The base of a number or a name."""
    return int(name) if name.isdigit() else BASE_NAMES[name.lower()]
