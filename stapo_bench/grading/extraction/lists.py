"""Values that stand below each other: list items, and lines that give each value its name."""

import re

from stapo_bench.grading.extraction.asides import states_nothing
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.formulas import hide_formulas
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import in_digits
from stapo_bench.grading.units import NEXT_VALUE

_PLAIN_LETTER = regex(r"[a-z]")
_AROUND = " \t.,;*"
BULLET = regex(r"^\s*(?:[-*+•–·▪◦‣→➤]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")
_DASHED = regex(r"(?<=[a-z])\s+[–—-]\s+(?=[-−$]?\d)")  # "Ann – 10"
_COUNTED = regex(r" (?!or\b|and\b|per\b)[a-z]{3,}")  # "10 marbles"
_LABEL_OF_EQUATIONS = regex(r"^\s*\*\*[^*:\n]*=[^*:\n]*:\*\*")  # "**x = 0 and y = 0:** (0, 0)"
_ASSIGNED = regex(r"([a-z]\s*=\s*[-−]?[\d./√]+) gives (?![a-z]\s*=)")  # "k = 6 gives (x + 3)²"
_JOINED = regex(r",? (?:and|or) ")
_FROM = regex(r",? (?:from|for which|since|because|as|where|when|whose|which)\b.*$")  # "k = 6, from (x + 3)²"
_THE_POINT = regex(
    r"^the (?:origin|point|pair|line|value|root|solution|vector|number)(?: at| is)? (?=\S)"
)  # "the point (2, 4)"
_FORMULA_OF, _FUNCTION = (
    regex(r"=.*[a-zA-ZΔ].*|·[a-z]"),
    regex(r"\\?(?:sqrt|pi|ln|log|sin|cos|tan|frac|text)\b|^[a-zA-Z] ="),
)
_MULTIPLE = regex(r"\s*\d*[a-z]\s*")  # "2x", of "2x = 40°"
# "y = 6x − 9", "y = 9 + 6(x − 3)"
_SOLVED = regex(r"^[a-zA-Z] = .*(?:[\w)] ?[-−+·×÷*] ?[\w(√]|\d\()")
_NAMED_ROW = regex(r"\s*\|[^|\d]*[^\W\d_]{2}[^|\d]*\|\s*([^|]+?)\s*\|\s*")  # "| larger number | 7 |"
# "x - 1 = 0 gives x = 1"
_LEADS_TO = regex(
    r"^.*(?:⇒|→|=>)\s+(?=\()|^.*(?:\b(?:which )?gives|\bleads to|\byields|,? so|⇒|→|=>"
    r"|=\s*[-−]?\d+:)\s+(?=[A-Za-z]\s*=)"
)
_NAMED_LINE = regex(
    r"^\s*\**([b-zB-Z]|a(?=\s*=)|[a-z]_?[1-4\u2081-\u2084](?=\s*=)|"
    r"[A-Za-z\u00c0-\u00dd][A-Za-z\u00c0-\u024f'-][A-Za-z\u00c0-\u024f' -]{0,30}?)\**\s*[:=]\**\s*(\S.*)$"
)


def block(lines: list[str], last: int) -> str | None:
    """The values of the list whose last line this is, joined; None where it is none."""
    first = last
    values: list[str] = []
    names: set[str] = set()
    is_bullet = BULLET.match(lines[last]) is not None
    while first >= 0 and (is_bullet or not BULLET.match(lines[first])) and (item := _item(lines[first])) is not None:
        values.insert(0, item[1])
        names.add(item[0])
        first -= 1
    while len(values) > 1 and first + 1 <= last and not BULLET.match(lines[first + 1]) and BULLET.match(lines[last]):
        values.pop(0)
        first += 1
    if len(values) < 2:
        return None
    if len(names) == 1 and not BULLET.match(lines[last]) and _FORMULA_OF.search(_FUNCTION.sub("", values[0])):
        return values[-1]  # "J = m·v" above "J = 3.0"
    if BULLET.match(lines[last]):
        before = lines[first].strip(" *_") if first >= 0 else ""
        opens = (
            before.endswith((":", "："))
            or first < 0
            or names == {""}
            or (len(names) == 1 and len(set(values)) > 1 and len(min(names)) == 1)
            or re.search(r"\b(?:are|is|roots?|solutions?|values?|pairs?|points?)\s*$", before, re.IGNORECASE)
            or lines[first].lstrip().startswith(("#", "**"))
        )
        if not opens:
            return None
    if len(names) == 1 and not BULLET.match(lines[last]) and _SOLVED.search(values[0]):
        return values[-1]  # "y = 9 + 6(x − 3)" below "y = 6x − 9": one value that is worked out
    return (NEXT_VALUE if any(len(name) > 1 for name in names) else ", ").join(values)


def last_items(text: str, wanted: int) -> str | None:
    """The values of the list that ends a text, joined, where they are as many as wanted; None of any other text."""
    hidden = hide_formulas(text)
    lines = [line for line in hidden.text.split("\n") if line.strip()]
    while lines and not BULLET.match(lines[-1]) and states_nothing(lines[-1], notes=True):
        lines.pop()
    values: list[str] = []
    lines = [f"- {row[1]}" if (row := _NAMED_ROW.fullmatch(line)) else line for line in lines]
    while lines and BULLET.match(lines[-1]) and (item := _item(lines[-1], worked=True)) is not None:
        values = [*_JOINED.split(item[1]), *values]
        lines.pop()
    return NEXT_VALUE.join(map(hidden.shown, values)) if lines and len(values) == wanted > 1 else None


def _item(  # noqa: PLR0911 - one return for each kind of line
    line: str, worked: bool = False
) -> tuple[str, str] | None:
    """Name and value of a line that is nothing but these: a list item "x = 4", or "Quotient: 7"; None of any other.

    ``worked``: also the end of an equality, as of "2^2 = 4".
    """
    name = ""
    bullet = BULLET.match(line)
    content = line[bullet.end() :] if bullet else line
    content = _LABEL_OF_EQUATIONS.sub("", content).replace("**", "").strip().rstrip(_AROUND)
    content = content.removesuffix(" and").removesuffix(" or").rstrip(_AROUND)
    content = _LEADS_TO.sub("", _DASHED.sub(": ", content)) if bullet else content
    content = assigned[1] if (assigned := _ASSIGNED.match(content)) else content
    if named := _NAMED_LINE.match(content):
        if (
            re.match(
                r"(?:answer|check|step|confidence|note|final|solution|problem|question|given|proof|result|q|total|we|so"
                r"|complete|expand|factor|simplify|substitute|compute|solve|divide|multiply|add|subtract|use|apply)\b",
                named[1],
                re.IGNORECASE,
            )
            or named[1] == "A"
            # "Hooke's law says F = kx"
            or (not bullet and len(named[1].split()) > 2 and content[named.end(1) :].lstrip("* ").startswith("="))
        ):
            return None
        name, content = named.groups()
    elif not bullet:
        return None
    content = _THE_POINT.sub("", content) if bullet else content
    content = re.sub(r"(?<=[^\s=])\s+\([^()]*\)$", "", content)  # a remark
    content = _LEADS_TO.sub("", _FROM.sub("", content) if bullet else content)
    if bullet and worked and (number := in_digits(content.lower().removeprefix("minus ").removeprefix("negative "))):
        return name, number if content.lower().startswith(number) or " " not in content else f"-{number}"
    if bullet and not name and re.fullmatch("[A-Z]", content):
        return "", content
    runs = spans(tokens(content))
    behind = content[runs[-1].end :] if runs else ""
    counted = bullet and len(name) > 1 and _COUNTED.fullmatch(behind)
    if (
        len(runs) != 1
        or content[: runs[0].start].strip(" ~")
        or (behind.strip(" .!") and not counted)
        or runs[0].in_words
    ):
        return None
    sides = re.split(r"(?<![<>=!:])=(?!=)", runs[0].text)
    is_worked = not name and len(sides) > 1 and (len(sides) > 2 or re.search(r"[\d+*/]", sides[0]) is not None)
    if is_worked:
        is_multiple = len(sides) == 2 and _MULTIPLE.fullmatch(sides[0])  # "2x = 40°" in a list of such
        return (name, sides[1].strip() if is_multiple else chain_end(runs[0].text)) if worked else None
    if len(name) == 1 and _PLAIN_LETTER.fullmatch(name):
        return name, f"{name} = {chain_end(runs[0].text)}"
    return name, chain_end(runs[0].text) if name else runs[0].text
