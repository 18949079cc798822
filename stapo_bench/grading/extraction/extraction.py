r"""The final answer of a response, as it stands in the text.

The last complete box; boxes joined only by a comma, "and" or "or" are one answer. Without a box: a heading "Final
answer", the final-answer phrase, ``####``, bold, the last formula, in that order. Otherwise there is no answer. Text
after a closed thinking section counts before text in it.
"""

import re
from collections.abc import Callable

from stapo_bench.grading.extraction.boxes import Box, based, boxes, join, measured
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.formulas import FORMULA, is_money
from stapo_bench.grading.extraction.languages import answer_phrases, with_points
from stapo_bench.grading.extraction.markup import NO_VALUE, json_reply, plain_text, tagged
from stapo_bench.grading.extraction.numerals import with_digits
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import has_contrast, stated
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.extraction.turns import until_end_token, until_next_question, without_loop
from stapo_bench.grading.read import clean, parse
from stapo_bench.grading.tree import Refusal

BEFORE_BOX = 50_000  # characters before the last box that are searched for boxes joined to it
MAX_TAIL = 20_000  # characters from the end that are searched where there is no box
MIN_CUT_OFF = 2_000  # characters of a response that may have run into a length limit
MAX_DECLINED = 1_500  # characters of a final section that may decline to answer
MAX_RETRACTION = 1_500  # characters behind a box that may take it back
MAX_STATED = 200  # characters of a line behind a final-answer phrase that is read as prose
MAX_LAST = 30  # characters of a last line that need no full stop to be whole
_THINK_END = re.compile(r"</think(?:ing)?>|<\|end_of_thought\|>|◁/think▷")
_HEADING = re.compile(r"^[ \t#*]{0,20}(?:the\s)?(?:final\s)?answer[ \t*:]{0,20}$", re.IGNORECASE | re.MULTILINE)
_LIST_BELOW = re.compile(r"[ \t*:]*\n\s*[-*+•][ \t]")
_LATER = re.compile(
    r",? (?:but|however|still|nevertheless)\b|[.;] (?:But|However|Still|Since|So|Hence|Thus|Therefore)\b"
)
_OPEN_END = re.compile(r"(?:^|\s)[A-Za-z]+\Z")
_HASHES = re.compile(r"####[ \t]*([^\n]+)")
_BOLD = re.compile(r"\*\*([^*\n]{1,300})\*\*")
_GIVES_UP = re.compile(
    r"\b(?:cannot|can't|could not|couldn't|unable to|not able to|impossible to) (?:be )?"
    r"(?:determined?|solved?|find|found|answer(?:ed)?|conclude|computed?|give|say|tell|decide|provide|help|assist"
    r"|continue)"
    r"|\bdo(?:n['’]t| not) (?:know|have (?:an|the|enough))\b|\b(?:not enough|n['’]t enough|insufficient) "
    r"(?:information|data)\b"
    r"|\bmore (?:information|details|context)\b"
    r"|\bno idea\b|\bI give up\b|\bran out of\b|\bwithout (?:giving|reaching|finding|a final"
    r"|an)\b[^.]{0,20}\banswer\b",
    re.IGNORECASE,
)
# What takes back a box before it, in so many words.
_RETRACTED = re.compile(
    r"\b(?:wrong|incorrect|mistaken?|mistake|error|correction|corrected|sorry|apolog\w+|misread|hold on"
    r"|scratch that|not right|ignore|disregard|I (?:forgot|dropped|missed|overlooked|misread|miscounted"
    r"|miscalculated)|instead"
    r"|\bnot \S{1,20},? but\b|should (?:be|have been)|instead of|on second thought|I retract)\b",
    re.IGNORECASE,
)
_UNRETRACTED = re.compile(
    r"\b(?:no|not an?|without|any|common|avoid|typical) (?:\w+ )?(?:mistakes?|errors?)\b|\b(?:not"
    r"|n't) (?:wrong|incorrect|mistaken)\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:one|you|someone|people|students|many) (?:might|may|could|would|often)\b|\btempt\w+"
    r"|\bcommon\b|\bsome\b|\bothers?\b",
    re.I,
)
_CONDITION = re.compile(r"\b(?:where|for|if|when|with|unless|provided)\b", re.IGNORECASE)
_COPULA = re.compile(r"\s(?:is|are|equals|est|vaut|ist|beträgt|es|son|è|é)\s", re.IGNORECASE)
_ENDS = re.compile(r"(?:\b(?:is|are|be|equals|use)|=|:)\s{1,3}[-+−]?\d[\d,.]*(?: [A-Za-z/]{1,12})?$")
_SENTENCE_END = re.compile(r"[.!?:][*)\"']*\s|\n")
_OPEN_WORD = re.compile(
    r"\b(?:a|an|and|as|because|but|by|for|if|in|into|is|let|of|or|since|so|than|that|the|then|to|we|when|which"
    r"|with|me|says?|gives?|get|is|are|equals?|my|our|its|these|those|from|at|on|after|i)\Z",
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
    completion = until_end_token(completion) if "<" in completion or "[" in completion else completion
    completion = _SPECIAL.sub(" ", completion) if "<" in completion else completion
    ends = list(_THINK_END.finditer(completion)) if "<" in completion or "◁" in completion else []
    if ends:
        behind = completion[ends[-1].end() :]
        after = _section(behind)
        if after is not None or boxes(behind) is None or _GIVES_UP.search(behind[:MAX_DECLINED]):
            return after  # a box cut off there is no answer, whatever was thought; nor is what declines to answer
        completion = completion[: ends[-1].start()]
    return _section(completion)


def _section(text: str) -> str | None:
    """The answer in one section of a completion, which ends where a new question begins."""
    text = with_digits(with_points(plain_text(without_loop(text))))
    return _extract(until_next_question(text, lambda part: _extract(part) is not None))


def _extract(text: str) -> str | None:
    """The answer to one question, by the places in their order."""
    inside = tagged(text)
    if inside is not None:
        if "boxed" in inside or "\n" in inside or answer_phrases(inside):
            return _extract(inside)
        return _in_prose(inside, _cut(inside) or inside)
    found = boxes(text)
    if found is None:
        return None
    return _boxed(text, found) if found else _without_box(text[-MAX_TAIL:])


def _boxed(text: str, found: list[Box]) -> str:
    """The answer in the last boxes, or what takes its place where it is taken back."""
    behind = text[found[-1].end :].lstrip("$\\)] ")
    if _is_retraction(behind[:MAX_RETRACTION]) and (instead := _phrase(behind) or stated(behind)) is not None:
        return instead
    return measured(join(text, found), text[: found[-1].start], behind)


def _without_box(text: str) -> str | None:
    """The answer where there is no box, by ``PLACES``."""
    for rule in PLACES:
        found = rule(text)
        if found == NO_VALUE:
            return None
        if found is not None and found.strip(" .$*:,"):
            found = found.strip()
            place = text.rfind(found)
            return found if place < 0 else based(found, text[:place], text[place + len(found) :])
    return None


def _is_retraction(behind: str) -> bool:
    """Whether what stands behind a box takes it back."""
    return bool(_RETRACTED.search(_UNRETRACTED.sub("", behind))) and not _SUPPOSED.search(behind)


def _heading(text: str) -> str | None:
    """What a heading "Final answer" stands over: its first formula, or its only line."""
    headings = list(_HEADING.finditer(text))
    if not headings:
        return None
    below = text[headings[-1].end() :].strip()
    formulas = list(FORMULA.finditer(below))
    if formulas:
        shown = [formula for formula in formulas if formula[1] or formula[3]]
        return next(group for group in (shown[0] if shown else formulas[-1]).groups() if group)
    return _cut(below) if "\n" not in below else None


def _phrase(text: str) -> str | None:
    """What the last final-answer phrase leads to."""
    for match in reversed(answer_phrases(text)):
        if _LIST_BELOW.match(text, match.end()) and (listed := stated(text[match.end() :])) is not None:
            return listed
        line = re.split(
            r"\n|。|(?<=[^\d\s.])\.(?=\s|$)|(?<=\d)\.(?=\s|$)", text[match.end() :].lstrip(" \n*:："), maxsplit=1
        )[0]
        found = _cut(line)
        if found:
            return _in_prose(line, found)
    return None


def _in_prose(line: str, found: str) -> str:
    """What a phrase leads to, where that is a sentence and no answer as it stands: "42, not 24"."""
    if len(line) > MAX_STATED or not _is_prose(found):
        return found
    if not has_contrast(found) and (_CONDITION.search(found) or not _COPULA.search(found)) and _is_readable(found):
        return found
    return stated(line) or found


def _is_readable(answer: str) -> bool:
    """Whether the parser takes the text as it stands."""
    try:
        parse(clean(answer))
    except Refusal:
        return False
    return True


def _is_prose(line: str) -> bool:
    """Whether a text holds words beside its mathematics."""
    return sum(token.kind == "word" for token in tokens(line)) > 0


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
    """The value that the last sentences state in plain text or in formulas; else the last formula."""
    if (given_up := list(_GIVES_UP.finditer(text[-MAX_DECLINED:]))) and len(text) < MAX_DECLINED:
        behind = text[given_up[-1].end() :]
        later = _LATER.search(behind)
        return stated(behind[later.end() :]) if later else None
    if _GIVES_UP.search(text[-300:]) or any(text.rfind(a) > text.rfind(b) for a, b in (("\\[", "\\]"), ("\\(", "\\)"))):
        return None  # given up, or cut off in the middle of a formula
    formulas = [match for match in FORMULA.finditer(text) if not (match[2] and is_money(match[2]))]
    numbers = [match.end() for match in re.finditer(r"\d", text[-MAX_STATED:])]
    end = max([formulas[-1].end() if formulas else 0, *(len(text) - len(text[-MAX_STATED:]) + n for n in numbers[-1:])])
    if _breaks_off(text, end):
        return None
    tail = text.rstrip()
    last = tail[tail.rfind("\n") + 1 :]
    finished = (
        tail[-1:] in ".!?:)]*$`}>。！"
        or (len(text) < MIN_CUT_OFF and tail[-1:] != "," and not _OPEN_WORD.search(tail))
        or len(last) < MAX_LAST
        or _ENDS.search(tail[-MAX_STATED:]) is not None
    )
    value = stated(text) if finished else None
    if value is not None or not formulas:
        return value
    return chain_end(next(group for group in formulas[-1].groups() if group).strip())


def _breaks_off(text: str, end: int) -> bool:
    """Whether a new sentence begins behind ``end`` and is not finished: the response ran into its length limit.

    A short response may do without its last full stop, unless its last word can end no sentence.
    """
    tail = text[end:].rstrip()
    if not tail or tail[-1] in ".!?:)]*$`}>" or not _SENTENCE_END.search(tail):
        return False
    return len(text) >= MIN_CUT_OFF or _OPEN_WORD.search(tail) is not None


def _first_line(text: str) -> str | None:
    """The value that the first line is, where the rest breaks off and gives none: "81\\nSince three to the"."""
    first, _, rest = text.strip().partition("\n")
    if len(first) > MAX_LAST or "=" in first or not _OPEN_END.search(rest[-MAX_LAST:]):
        return None
    value = first.strip(" .*")
    runs = spans(tokens(value))
    return value if len(runs) == 1 and len(value) <= runs[0].end - runs[0].start else None


def _whole(text: str) -> str | None:
    """A completion that is nothing but an answer."""
    bare = text.strip()
    if 0 < len(bare) <= 200 and "\n" not in bare and not re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", bare):
        return bare if re.search(r"\d|\\|^[A-Za-z(]{1,3}\)?$|^[-+]?[a-z]\b", bare) else None
    return None


# Where the answer stands in a text without a box: the first of these that holds one.
PLACES: tuple[Callable[[str], str | None], ...] = (
    json_reply,
    _heading,
    _phrase,
    _hashes,
    _first_line,
    _bold,
    _formula,
    _whole,
)
