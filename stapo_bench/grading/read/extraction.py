r"""The final answer of a response, as it stands in the text.

The last complete box; boxes joined only by a comma, "and" or "or" are one answer. Without a box: a heading "Final
answer", the final-answer phrase, ``####``, bold, the last formula, in that order. Otherwise there is no answer. Text
after a closed thinking section counts before text in it.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from stapo_bench.grading.units import PERCENT_APART

BEFORE_BOX = 50_000  # characters before the last box that are searched for boxes joined to it
MAX_TAIL = 20_000  # characters from the end that are searched where there is no box
MAX_BOXES = 40
MAX_DIGITS = 20  # of a number that is looked for in the working
MIN_CUT_OFF = 2_000  # characters of a response that may have run into a length limit
MAX_WORKING = 1_000  # characters before a box in which its number may carry a percent sign
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?=\{)|\\boxed\s*(?=[\d\-+])|\\boxed\s+(?=[A-Za-z])")
_JOINT = re.compile(
    r"(?:[\s$,;.&]|\\[()\[\],;:! ]|\\q?quad|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|\band\b|\bor\b|\*\*"
    r"|[A-Za-z](?:_\{?\w{1,3}\}?)?\s*=(?=[\s$]*$))*"  # "or $x = \boxed{8}$"
)
_THINK_END = re.compile(r"</think(?:ing)?>|<\|end_of_thought\|>|◁/think▷")
_PHRASE = re.compile(
    r"(?:final\s{1,3}answer|correct\s{1,3}answer|correct\s{1,3}(?:option|choice)(?=[\s:]{1,3}(?:is\s)?\W{0,4}\([A-J]\))|answer)(?:\*\*|\s|\\text\{){0,8}(?:to\s(?:the|this)\s\w{1,20}\s)?(?:is|are|:|=|would\sbe)"
    r"(?:\s|\*\*|:|equal\sto|therefore|thus|simply|\\text\{){0,12}",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^[ \t#*]{0,20}(?:the\s)?(?:final\s)?answer[ \t*:]{0,20}$", re.IGNORECASE | re.MULTILINE)
_HASHES = re.compile(r"####[ \t]*([^\n]+)")
_BOLD = re.compile(r"\*\*([^*\n]{1,300})\*\*")
_FORMULA = re.compile(r"\$\$(.{1,1500}?)\$\$|\$([^$\n]{1,1500})\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,800}?)\\\)", re.DOTALL)
_STATED = re.compile(
    r"(?:\b(?:is|are|be|equals|use)|=|:)\s{1,3}"
    r"((?:[$€£]|\\\$)?[-+−]?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?(?![\d{}\\^_*])(?: [A-Za-z/]{1,12})?)"
    r"(?=[.,;!]?(?:\s|$))"
)
_GIVES_UP = re.compile(
    r"\b(?:cannot|can't|could not|couldn't|unable to|not able to) (?:be )?"
    r"(?:determine|solve|find|answer|conclude|compute)"
    r"|\bdo(?:n't| not) know\b|\b(?:not enough|more|insufficient) information\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?:][*)\"']*\s|\n")
_OPEN_WORD = re.compile(
    r"\b(?:a|an|and|as|because|but|by|for|if|in|into|is|let|of|or|since|so|than|that|the|then|to|we|when|which|with)\Z",
    re.I,
)
_SPECIAL = re.compile(r"<\|[\w ]{1,40}\|>|</s>|<eos>|<\|endoftext\|>")


def extract_answer(completion: str) -> str | None:
    r"""The text of the final answer, or None.

    >>> extract_answer(r"First \boxed{1}, no: the answer is \boxed{\frac{1}{2}}. Done")
    '\\frac{1}{2}'
    >>> extract_answer(r"either $\boxed{3}$ or $\boxed{-3}$")
    '3, -3'
    >>> extract_answer("I do not know") is None
    True
    """
    if len(completion) > BEFORE_BOX:
        last = max(
            completion.rfind("\\boxed"),
            completion.rfind("\\fbox"),
            len(completion) - BEFORE_BOX if "boxed" not in completion else 0,
        )
        completion = completion[max(0, last - BEFORE_BOX) :]
    completion = _SPECIAL.sub(" ", completion) if "<" in completion else completion
    ends = list(_THINK_END.finditer(completion)) if "<" in completion or "◁" in completion else []
    if ends:
        behind = completion[ends[-1].end() :]
        after = _extract(behind)
        if after is not None or _boxes(behind) is None:  # a box cut off there is no answer, whatever was thought
            return after
        completion = completion[: ends[-1].start()]
    return _extract(completion)


def _extract(text: str) -> str | None:
    """The answer in one section of a completion, by the places in their order."""
    boxes = _boxes(text)
    if boxes is None:
        return None
    if boxes:
        return _measured(_join(text, boxes), text[: boxes[0].start])
    text = text[-MAX_TAIL:]
    for rule in PLACES:
        found = rule(text)
        if found is not None and found.strip(" .$*:,"):
            return found.strip()
    return None


class Box(NamedTuple):
    """Where a box stands in a text, and what it holds."""

    start: int
    end: int
    content: str


def _boxes(text: str) -> list[Box] | None:
    """The last complete boxes; None where the last one is cut off: no answer was given."""
    matches = list(_BOX.finditer(text))[-MAX_BOXES:]
    found: list[Box] = []
    for match in reversed(matches):
        box = _box(text, match)
        if box is None and not found:
            return None
        if box is None:
            break
        if found and box.end >= found[0].end:  # the later box stands inside this one
            found[0] = box
        else:
            found.insert(0, box)
    return found


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


def _join(text: str, boxes: list[Box]) -> str:
    """The contents of the last box and of those joined to it."""
    contents = [boxes[-1].content.strip()]
    start = boxes[-1].start
    for box in reversed(boxes[:-1]):
        between = text[box.end : start]
        if len(between) > 60 or not _JOINT.fullmatch(between) or not re.search(r",|;|and|or|&", between):
            break
        contents.insert(0, box.content.strip())
        start = box.start
    unique = list(dict.fromkeys(contents))
    return ", ".join(unique)


def _measured(answer: str, before: str) -> str:
    r"""The answer; a bare number marked where the working last wrote it in percent: "... = 8\%, so \boxed{8}"."""
    working = before[-MAX_WORKING:]
    if len(answer) > MAX_DIGITS or not ("%" in working or "percent" in working) or not _DECIMAL.fullmatch(answer):
        return answer
    mentions = re.findall(rf"(?<![\d.]){re.escape(answer)}(?![\d.]*\d)\s*(\\?%|percent\b)?", working)
    return rf"{answer} \text{{{PERCENT_APART}}}" if mentions and mentions[-1] else answer


def _heading(text: str) -> str | None:
    """What a heading "Final answer" stands over: its first formula, or its only line."""
    headings = list(_HEADING.finditer(text))
    if not headings:
        return None
    below = text[headings[-1].end() :].strip()
    formulas = list(_FORMULA.finditer(below))
    if formulas:
        shown = [formula for formula in formulas if formula[1] or formula[3]]
        return next(group for group in (shown[0] if shown else formulas[-1]).groups() if group)
    return _cut(below) if "\n" not in below else None


def _phrase(text: str) -> str | None:
    """What the last final-answer phrase leads to."""
    matches = list(_PHRASE.finditer(text))
    for match in reversed(matches):
        line = re.split(
            r"\n|(?<=[^\d\s.])\.(?=\s|$)|(?<=\d)\.(?=\s|$)", text[match.end() :].lstrip(" \n*:"), maxsplit=1
        )[0]
        line = _cut(line)
        if line:
            return line
    return None


def _cut(line: str) -> str:
    """The formula that a phrase leads to, or the words, without what explains them."""
    line = line.strip()
    if not line:
        return ""
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**")):
        if line.startswith(opening):
            end = line.find(closing, len(opening))
            if end > 0 and not re.match(r"\s*(?:,|and|or)\s*[$\\]", line[end + len(closing) :]):
                rest = line[end + len(closing) :].strip(" .*,")
                words = f" \\text{{{rest}}}" if re.fullmatch(r"[a-z]+(?: [a-z]+)?", rest) else ""
                return line[len(opening) : end].strip() + words
    # A comma or the run's first blank: else every blank of a long run would begin a match anew.
    return re.split(r"(?:,|(?<!\s))\s+(?:because|since|as shown|which|so|therefore|but)\b", line)[0].strip(" *.")


def _hashes(text: str) -> str | None:
    """What stands behind the last ``####``."""
    found = _HASHES.findall(text)
    return found[-1] if found else None


def _bold(text: str) -> str | None:
    """The last bold text that looks like an answer and not like a sentence or a heading."""
    found = [b for b in _BOLD.findall(text) if re.search(r"\d|\\|^[A-Za-z]\b", b) and not b.rstrip().endswith(":")]
    return found[-1] if found and not re.search(r"[a-z]{3,} [a-z]{2,} [a-z]", found[-1]) else None


def _formula(text: str) -> str | None:
    """The last formula; a value stated in plain text behind it ("so it is 100 parsecs") is a formula too."""
    if _GIVES_UP.search(text[-300:]) or any(text.rfind(a) > text.rfind(b) for a, b in (("\\[", "\\]"), ("\\(", "\\)"))):
        return None  # given up, or cut off in the middle of a formula
    formulas = list(_FORMULA.finditer(text))
    stated = list(_STATED.finditer(text, formulas[-1].end() if formulas else 0))
    if not stated and not formulas:
        return None
    last = stated[-1] if stated else formulas[-1]
    if _breaks_off(text, last.end()):
        return None
    return stated[-1][1].strip() if stated else next(group for group in last.groups() if group).strip()


def _breaks_off(text: str, end: int) -> bool:
    """Whether a new sentence begins behind ``end`` and is not finished: the response ran into its length limit.

    A short response may do without its last full stop, unless its last word can end no sentence.
    """
    tail = text[end:].rstrip()
    if not tail or tail[-1] in ".!?:)]*$`}>" or not _SENTENCE_END.search(tail):
        return False
    return len(text) >= MIN_CUT_OFF or _OPEN_WORD.search(tail) is not None


def _whole(text: str) -> str | None:
    """A completion that is nothing but an answer."""
    bare = text.strip()
    if 0 < len(bare) <= 200 and "\n" not in bare and not re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", bare):
        return bare if re.search(r"\d|\\|^[A-Za-z(]{1,3}\)?$|^[-+]?[a-z]\b", bare) else None
    return None


# Where the answer stands in a text without a box: the first of these that holds one.
PLACES: tuple[Callable[[str], str | None], ...] = (_heading, _phrase, _hashes, _bold, _formula, _whole)
