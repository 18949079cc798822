r"""The value that a completion opens with: a base model gives it first, and then reasons, or breaks off."""

import re

from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.patterns import regex

MAX_LAST = 30  # characters of a last line that need no full stop to be whole
MAX_LINE = 200  # characters of a line that opens with its answer
_OPEN_END = regex(r"(?:^|\s)[A-Za-z]+\Z")
_LEADING = regex(r"(?:(?:is|are|=|equals)\s+)?")
# "by", "for" and "as" belong to a reason behind a comma or before a gerund, else to a sentence: "12 by 4 is 3".
_REASON_BEHIND = regex(
    r"(?:,?|(?:\s[a-z]+){1,2},)\s(?:because|since)\b|,\s(?:as|by|using|for)\b|\s(?:by\s|using\s)?[a-z]+ing\b",
    re.IGNORECASE,
)
_GOES_ON = regex(
    r"[=\d\ue000-\uf8ff]|\b(?:so|hence|thus|therefore|not?|wrong|incorrect|false|fails?)\b|n['’]t\b", re.IGNORECASE
)
# "6. There are 4 apples, so the total is 10": what follows has the value
_RESULT_BEHIND = regex(
    r"[.!?]\s+(?:(?:[^.]|\.(?=\d))*\b(?:so|hence|thus|therefore|this|which|there (?:is|are)|answer)\b)(?=[^.]*\d"
    r"|.*\b(?:is|are)\b)",
    re.IGNORECASE,
)
_STOP_BEHIND = regex(r"\.\s")
_GOES_ON_IN_NUMBERS = regex(r"\.\s+[^.A-Za-z]*[-−+*/·×][^.A-Za-z]*=\s*[-−]?[\d./]+\s*$")  # "... = 24. 6 + 24 = 30"
# "... . So it is 24 cm", "so (B)"
_CONCLUDES_BEHIND = regex(
    r"\.\s+(?:so|hence|thus|therefore|then)\b(?:[^.]|\.(?=\d))*\d[^.\s]*(?: [^\s.]{1,12})?\s*$"
    r"|\b(?:so|hence|thus|therefore|answer)[:,]? ?\(?[A-J]\)?\s*$",
    re.IGNORECASE,
)
_EQUATION_BEHIND = regex(r"[a-z] ?= ?[-−]?[\d./]+\s*$")  # ". The line: 2x − y = 1"
_UNIT_BEHIND = regex(r"(?: (?:square|cubic))?(?: [a-z]{1,12})?")
_WHOLE_END = regex(r"[.!?:)\]*$`}>。！✓✔✅]$")


def opening_value(text: str) -> str | None:
    """The value that the text opens with, where a reason follows, or a sentence that breaks off.

    >>> opening_value("81\\nSince three to the"), opening_value("-8, by setting x"), opening_value("24. A dog has four")
    ('81', '-8', '24')
    >>> opening_value("12 boys play. 7 girls join them."), opening_value("12 by 4 is 3.")
    (None, None)
    """
    first, _, rest = text.strip().partition("\n")
    if len(first) <= MAX_LAST and "=" not in first and _OPEN_END.search(rest[-MAX_LAST:]):
        hidden = hide_formulas(first.strip(" .*"))
        runs = spans(tokens(hidden.text))
        whole = len(runs) == 1 and not runs[0].start and _UNIT_BEHIND.fullmatch(hidden.text, runs[0].end)
        return hidden.shown(runs[0].text) if whole else None
    if rest or len(first) > MAX_LINE:
        return None
    hidden = hide_formulas(first)
    start = found.end() if (found := _LEADING.match(hidden.text)) else 0
    runs = spans(tokens(hidden.text[start:]))
    if not runs or runs[0].start or runs[0].in_words or runs[0].is_bare_letter:
        return None
    behind = hidden.text[start + runs[0].end :]
    broken = (
        _STOP_BEHIND.match(behind)
        and not _WHOLE_END.search(hidden.text.rstrip())
        and not (
            _CONCLUDES_BEHIND.search(behind) or _GOES_ON_IN_NUMBERS.search(behind) or _EQUATION_BEHIND.search(behind)
        )
    )
    remark = (
        behind[:1] == "," and "=" not in hidden.shown(runs[0].text) and not _GOES_ON.search(behind)
    )  # "1, they are coprime"
    broken = broken or remark or behind.strip() in (". (", ".  (")
    is_reason = _REASON_BEHIND.match(behind) and not _RESULT_BEHIND.search(behind)
    return hidden.shown(runs[0].text) if broken or is_reason else None
