r"""Boxes: the last complete ones, those joined to them, the parts that they answer, what the working says of them."""

import re
from typing import NamedTuple

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import BASE_NAMES
from stapo_bench.grading.units import BASE_APART, NEXT_PART, PERCENT_APART

MAX_BOXES = 40
MAX_LABELLED = 20_000  # characters of a text that are searched for labels of parts
MAX_FACTOR = 60  # characters of a formula around a box that may multiply it
MAX_SAID = 30  # characters before an answer that may say that it is several
MAX_DIGITS = 20  # of a number that is looked for in the working
MAX_WORKING = 1_000  # characters before a box in which its number may carry a percent sign
MAX_STATED = 200  # characters of a line behind a final-answer phrase that is read as prose
_DECIMAL = regex(r"\d+(?:\.\d+)?")
_BRACE = regex(r"\\.|[{}]", re.DOTALL)
_BOX = regex(r"\\(?:boxed|fbox|framebox)\s*(?=\{)|\\boxed\s*(?=[\d\-+])|\\boxed\s+(?=[A-Za-z])")
_WORDS = "(?:and|or|et|ou|und|oder|y|o)"
_JOINT = regex(
    rf"(?:[\s$,;.&]|\\[()\[\],;:! ]|\\q?quad|\\text\s*\{{\s*,?\s*{_WORDS}\s*\}}|\b{_WORDS}\b|\*\*"
    r"|[A-Za-z](?:_\{?\w{1,3}\}?)?\s*=(?=[\s$]*$))*"  # "or $x = \boxed{8}$"
)
_JOINED = regex(rf"[,;&]|\b{_WORDS}\b")
_NAME_BEFORE = regex(r"(?<![A-Za-z\\])([A-Za-z](?:_\{?\w{1,3}\}?)?)\s*=\s*\$?$")
_NAME_INSIDE = regex(r"\s*([A-Za-z])\s*=(?!=)")  # \\boxed{x=2}
_TIMES = r"(?:\\cdot|\\times|[·×*])"
# A factor reaches from the last relation to the box, or from the box to the end of the formula.
_FACTOR_BEFORE = regex(
    rf"(?:[=≈$]|\\[(\[]|\\approx)\s*(?:\\displaystyle)?\s*((?:\([-−\d.]+\)|[-−]?\d[\d.]*|\\pi"
    rf"|\\[dt]?frac(?:\{{\d+\}}\{{\d+\}}|\d\d|\s\d\s?\d)|[½⅓⅔¼¾]|\\sqrt\{{?\d+\}}?|\s)+{_TIMES}\s*)$"
)
_FACTOR_BEHIND = regex(
    rf"((?:\\[,;! ]|\s)*(?:{_TIMES}\s*(?:[\d.]+(?:\^\{{?-?\d+\}}?)?|\\sqrt\{{?\d+\}}?|\\pi)|\\sqrt\{{\d+\}}"
    r"|\\pi(?![A-Za-z])|i(?![A-Za-z])))"
    r"(?:\s|\\[,;! ]|\.)*(?:\$|\\[)\]])"
)
_COEFFICIENT = regex(r"[=≈$]\s*([-−]?\d{1,6})(?:\s|\\[,;:! ])*$")  # "= 3\boxed{\sqrt{2}}"
_EQUALS = regex(r"\s*=\s*([-−]?\d+(?:\.\d+)?)(?=[\s,;$]|\.(?!\d)|\Z)(?!\s*[-+*/^=])")
_ALONE = regex(r"(?:^|[\n$.:,;]|\\[(\[]|(?<![\\A-Za-z])[A-Za-z]{2,} )\s*$")  # no term or factor before it
_NO_NUMBER = regex(r"\s*(?:\\sqrt|\\pi|[a-zA-Z](?![a-zA-Z]))")
_LOGARITHM = regex(
    r"\\log\$?\s{0,3}(?:denotes|means|is|stands for|=)\s{0,3}(?:the\s)?\$?(?:\\log_\{?10|common log|(?:base"
    r"|decimal)[ -](?:10|log))"
)
_MINUS = regex(
    r"(?:[=≈:(\[,$]|\\[(\[]|\\displaystyle|['’]s|\b(?:is|are|was|equals|gives?|get|yields?|at|to|of|by))"
    r"(?:[ \t]|\\[,;:! ])*\{?(?:[-−–]|minus\b)\}?(?:[ \t]|\\[,;:! "
    r"])*(?:\$|\\[(\[])?[ \t]*$|[a-z]{3,} (?:[-−–]|− |minus )(?:\$|\\[(\[])?$"
    r"|(?:^|\n)[ \t]*(?:-|− ?)$"  # that opens a line; with a blank behind it "-" is a bullet
)
PART = regex(
    r"(?:^|\n|[.,;:$]\s|(?<=\})\s|\bFor )[ \t*#-]*(?:(?:Part|Question|Answer)\s*)?(?:\(([a-h]|i{1,3}|iv|v|\d)\)"
    r"|([a-h])\)"
    r"|Part\s+([a-hA-H]|\d)\b|(?<=\n)[ \t]*([\da-h])\.\s|^([\da-h])\.\s)",
    re.IGNORECASE,
)
ROWS = (list("abcdefgh"), ["i", "ii", "iii", "iv", "v"], list("12345678"))
_LABEL = regex(
    r"(?<!\w)\(([a-d]|i{1,3})\)|(?:^|\n|[.?!;:]\s)[a-d][.)]\s|(?:^|\n|\?\s)[1-4][.)]\s|\b[Pp]art \(?[a-d1-4]\b"
)
TRIES_AGAIN = regex(
    r"\b(?:wait|actually|oops|correction|mistake|redo|re-?try|re-?check|re-?consider|try again|once more|no,)",
    re.IGNORECASE,
)
_IN_WORDS = regex(r"([0-9A-F]+)( \(?(?:in )?(?:base|binary|octal|hexadecimal)\b.*)")
_BASE_BEHIND = r"\W{0,12}(?:(?:in|to)\s)?(?:base[\s${-]*(\d{1,2}|[a-z]+)|\(?(binary|octal|hexadecimal|hex)\b)"
_BASE_BEFORE = r"\b(?:in|to|the)\s(?:base[\s${-]*(\d{1,2}|[a-z]+)|(binary|octal|hexadecimal|hex))\b[^.\n\d]{0,40}$"
# "The roots are 3,5" holds no decimal comma; "there are 3,5 litres" does, and "1,250" separates thousands.
_PAIR = regex(r"[-−]?\d+,(?!\d{3}$)\d+")
_SEVERAL = regex(r"(?<!there )\b(?:are|roots|solutions|values|numbers)\W*(?:boxed\W*)?$", re.IGNORECASE)


class Box(NamedTuple):
    """Where a box stands in a text, and what it holds."""

    start: int
    end: int
    content: str


def boxes(text: str) -> list[Box] | None:
    """The last complete boxes; None where the last one is cut off: no answer was given."""
    matches = list(_BOX.finditer(text))[-MAX_BOXES:]
    found: list[Box] = []
    for match in reversed(matches):
        box = _box(text, match)
        if box is None and not found:
            return _looped(text, matches)
        if box is None:
            break
        if found and box.end >= found[0].end:  # the later box stands inside this one
            found[0] = box
        else:
            found.insert(0, box)
    return found


def _looped(text: str, matches: list[re.Match[str]]) -> list[Box] | None:
    """The box before one that is cut off, where that is the last copy of a loop of them; else None."""
    complete = [box for match in matches[-3:-1] if (box := _box(text, match))]
    opened = text[matches[-1].end() + 1 :]
    if len(complete) < 2 or complete[0].content != complete[1].content or not complete[1].content.startswith(opened):
        return None
    between = (text[complete[0].end : complete[1].start], text[complete[1].end : matches[-1].start()])
    return complete[1:] if between[0] == between[1] else None


def _box(text: str, match: re.Match[str]) -> Box | None:
    """The box that a match opens; None where it is cut off."""
    if text[match.end() : match.end() + 1] != "{":
        word = re.match(r"[+\-]?[\w./]+", text[match.end() :])
        end = match.end() + (word.end() if word else 0)
        return Box(match.start(), end, text[match.end() : end].rstrip("."))
    closing = _closing(text, match.end())
    return None if closing is None else Box(match.start(), closing + 1, text[match.end() + 1 : closing])


def _closing(text: str, start: int) -> int | None:
    """Position of the brace that closes the one at ``start``; escaped braces are text."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return None


def join(text: str, boxes: list[Box]) -> str:
    """The contents of the last box and of those joined to it, or of the boxes of several parts."""
    contents, names = [_signed(text, boxes[-1])], [_name_before(text, boxes[-1])]
    start = boxes[-1].start
    for box in reversed(boxes[:-1]):
        between = text[box.end : start]
        if len(between) > 60 or not _JOINT.fullmatch(between) or not _JOINED.search(between):
            break
        contents.insert(0, _signed(text, box))
        names.insert(0, _name_before(text, box))
        start = box.start
    if len(contents) == 1 and len(boxes) > 1:
        return NEXT_PART.join(_parts(text, boxes))
    if len(contents) > len(set(contents)) and None not in names and len(set(names)) == len(names):
        return ", ".join(f"{name} = {content}" for name, content in zip(names, contents, strict=True))
    unique = list(dict.fromkeys(contents))  # one value said twice
    return ", ".join(unique)


def _name_before(text: str, box: Box) -> str | None:
    """The name that a box gives its value: ``x = \\boxed{3}``."""
    found = _NAME_BEFORE.search(text[max(0, box.start - MAX_SAID) : box.start]) or _NAME_INSIDE.match(box.content)
    return found[1] if found else None


def named_boxes(text: str, boxes: list[Box]) -> str | None:
    """The contents of boxes that give their values each to a name of its own: "A = (1, 0), B = (0, 2)"; else None."""
    names = [_name_before(text, box) for box in boxes]
    if None in names or len(set(names)) < len(names):
        return None
    contents = [_NAME_INSIDE.sub("", _signed(text, box)) for box in boxes]
    return ", ".join(f"{name} = {content}" for name, content in zip(names, contents, strict=True))


def each_of(text: str, boxes: list[Box]) -> list[str]:
    """The contents of all boxes, each with its sign."""
    return [_signed(text, box) for box in boxes]


def has_labels(text: str) -> bool:
    """Whether labels such as "(a)" and "(b)" name parts in a text."""
    return len(_LABEL.findall(text[:MAX_LABELLED])) > 1


def _signed(text: str, box: Box) -> str:
    """The content of a box with the minus sign before it: ``x = -\\boxed{8}``."""
    content = box.content.strip()
    goes_on = _EQUALS.match(text[box.end : box.end + MAX_FACTOR])
    if goes_on and _ALONE.search(text[max(0, box.start - MAX_SAID) : box.start]):  # "\\boxed{\\sqrt{144}} = 12"
        content = f"{content} = {goes_on[1]}"
    before, behind = _factors(text, box)
    if before or behind:
        return f"{before}({content}){behind}"
    if not _MINUS.search(text[max(0, box.start - 30) : box.start]):  # no copy of all before each of many boxes
        return content
    return f"-({content})" if re.search(r"[-+=,±]", content) else f"-{content}"


def _factors(text: str, box: Box) -> tuple[str, str]:
    r"""What multiplies a box in its formula, before it and behind it: ``9\cdot\boxed{\sqrt3}``, ``\boxed{20}\,\pi``."""
    before = _FACTOR_BEFORE.search(text[max(0, box.start - MAX_FACTOR) : box.start])
    if before is None and _NO_NUMBER.match(box.content):
        before = _COEFFICIENT.search(text[max(0, box.start - MAX_FACTOR) : box.start])
    behind = _FACTOR_BEHIND.match(text[box.end : box.end + MAX_FACTOR])
    return before[1] if before else "", behind[1] if behind else ""


def _parts(text: str, boxes: list[Box]) -> list[str]:
    """The last box under each of the labels "(a)", "(b)", in order; the last where these open no parts."""
    labels: dict[str, str] = {}
    position = 0
    for box in boxes:
        found = list(PART.finditer(text, position, box.start))
        position = box.end
        if found:
            labels[next(group for group in found[-1].groups() if group).lower()] = _signed(text, box)
        elif labels:
            labels[list(labels)[-1]] = _signed(text, box)
    row = next((row[: len(labels)] for row in ROWS if set(row[: len(labels)]) == set(labels)), [])
    return [labels[name] for name in row] if len(row) > 1 else [_signed(text, boxes[-1])]


def measured(answer: str, before: str, behind: str = "") -> str:
    r"""The answer with what only the working says of it: a percent sign ("... = 8\%, so \boxed{8}"), or its base."""
    working = before[-MAX_WORKING:]
    if len(answer) > MAX_DIGITS:
        return answer
    with_base = based(answer, before, behind)
    if with_base != answer:
        return with_base
    if not ("%" in working or "percent" in working) or not _DECIMAL.fullmatch(answer):
        return answer
    mentions = re.findall(rf"(?<![\d.]){re.escape(answer)}(?![\d.]*\d)\s*(\\?%|percent\b)?", working)
    return rf"{answer} \text{{{PERCENT_APART}}}" if mentions and mentions[-1] else answer


def based(answer: str, before: str, behind: str) -> str:
    """The answer, with the base that the words beside it give a bare number, or its ``\\log``; two roots as two."""
    if len(answer) > MAX_DIGITS:
        return answer
    if _PAIR.fullmatch(answer) and _SEVERAL.search(before[-MAX_SAID:]):
        return answer.replace(",", ", ")
    if "\\log" in answer and "\\log_" not in answer and _LOGARITHM.search(behind[:MAX_STATED]):
        return answer.replace("\\log", "\\log_{10}")
    if said := _IN_WORDS.fullmatch(answer):
        answer, behind = said[1], said[2]
    if re.fullmatch(r"[0-9A-F]+", answer) and (base := _base(answer, before, behind)):
        return rf"{answer} \text{{{BASE_APART} {base})}}"
    return answer


def _base(answer: str, working: str, behind: str) -> int | None:
    """The base that the words before or behind a number give it."""
    found = re.match(_BASE_BEHIND, behind[:60], re.IGNORECASE) or re.search(_BASE_BEFORE, working[-80:], re.IGNORECASE)
    if found is None:
        return None
    name = next(group for group in found.groups() if group).lower()
    base = int(name) if name.isdigit() else BASE_NAMES.get(name, 0)
    return base if 2 <= base <= 36 and all(int(digit, 36) < base for digit in answer) else None
