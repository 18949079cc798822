r"""The final answer of a response, as it stands in the text.

The last complete box; boxes joined only by a comma, "and" or "or" are one answer. Without a box: a heading "Final
answer", the final-answer phrase, ``####``, bold, the last formula, in that order. Otherwise there is no answer. Text
after a closed thinking section counts before text in it.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from stapo_bench.grading.extraction.asides import is_by_others, states_nothing
from stapo_bench.grading.extraction.boxes import Box, based, boxes, join, measured
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.endings import MIN_CUT_OFF, breaks_off, is_finished
from stapo_bench.grading.extraction.formulas import FORMULA, hide_formulas, is_money
from stapo_bench.grading.extraction.grids import grid
from stapo_bench.grading.extraction.hedges import LEFT_OPEN, OR_ELSE, leaves_open
from stapo_bench.grading.extraction.languages import GIVES_UP, answer_phrases, is_taken_back, with_points
from stapo_bench.grading.extraction.lists import BULLET
from stapo_bench.grading.extraction.markup import NO_VALUE, json_reply, plain_text, tagged
from stapo_bench.grading.extraction.numerals import with_digits
from stapo_bench.grading.extraction.openings import opening_value
from stapo_bench.grading.extraction.remarks import has_contrast
from stapo_bench.grading.extraction.statements import EQUATION_SO_FAR, sentences, stated
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.extraction.turns import until_end_token, until_next_question, without_loop
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import NUMERAL, clean, parse
from stapo_bench.grading.tree import Refusal

BEFORE_BOX = 50_000  # characters before the last box that are searched for boxes joined to it
MAX_BEFORE = 60  # characters before a box that may disown it
MIN_SENTENCE = 8  # words in a tag that are a sentence
MAX_TAIL = 20_000  # characters from the end that are searched where there is no box
MAX_DECLINED = 1_500  # characters of a final section that may decline to answer
MAX_RETRACTION = 1_500  # characters behind a box that may take it back
MAX_SIGNED = 100  # characters from the end in which a signature stands
MAX_STATED = 200  # characters of a line behind a final-answer phrase that is read as prose
THINK_END = regex(r"</think(?:ing)?>|<\|end_of_thought\|>|◁/think▷")
_HEADING = regex(r"^[ \t#*]{0,20}(?:the\s)?(?:final\s)?answer[ \t*:]{0,20}$", re.IGNORECASE | re.MULTILINE)
_EXPLAINS = regex(r"[\s#*]*(?:Explanation|Reasoning|Because|Why)\b", re.IGNORECASE)
_LIST_BELOW = regex(r"[ \t*:]*\n\s*(?:[-*+•]|\(?\d[.)])[ \t]")
_LATER = regex(r",? (?:but|however|still|nevertheless)\b|[.;] (?:But|However|Still|Since|So|Hence|Thus|Therefore)\b")
_COMMENT = regex(r"\s{2,}# .*$")  # "answer: 28   # 1 + 2 + 4 + 7 + 14"
_BORDER = regex(r"^\|\s+")  # of a table's cell
_HASHES = regex(r"(?<!#)####(?!#)[ \t]*([^\n]+)")
_BOLD = regex(r"(?<![\w)])\*\*([^*\n]{1,300})\*\*(?![\w(])")
_BOLD_LETTER = regex(r"[a-z]")  # "0.6 **i**, of two dimensions"
_EQUALITY = regex(r"[\w)] ?= ?[-−$\w\\]")  # "F = 12", behind a bold formula
_STEP = regex(r"\d+[.)] [A-Z][a-z]{2}|(?:Step|Case|Method|Stage|Attempt|Approach|Try|Way) \d+\b")
_NAMED = regex(r"(?:[A-Za-z]{3,} ?){1,3}:\s*(\S.*)")  # "Total: 52"
# "42 (since 42^2 = 1764)"; only from the first of several spaces: from each of them takes the square of their number
_REASON_BEHIND = regex(
    r"(?<!\s)\s+(?:\((?:i\.e\.|(?:since|because|as|for|check\w*"
    r"|verif\w*|which|note|that is)\b)[^()]*(?:\([^()]*\)[^()]*)*\)"
    r"|\((?:[^()=]|\([^()]*\))*=[^()]*(?:\([^()]*\)[^()]*)*\)|\[[a-z]{2,}\b[^\[\]]*\])\W*$",
    re.IGNORECASE,
)
_CONDITION = regex(r"\b(?:where|for|if|when|with|unless|provided)\b", re.IGNORECASE)
_NOT_BUT = regex(r"not\b", re.IGNORECASE)
_NOT_BOTH = regex(r"^[^;]*\d[^;]*; (?:[a-z]{2,} ){3}")  # "7, not 14; doubling it is a slip"
_OPEN_BRACKET = regex(r"^[^;)]*\([^;)]*;")  # "(3; 4)"
# "so the total is", where the text ends
_ANNOUNCES = regex(r"\b(?<!there )(?:is|are|equals|get|gives|obtain)\s*\Z", re.IGNORECASE)
_KEY = regex(r"^(?:(?:value|result|number)\s*:\s*|an? [a-z]+ of )(?=[-−$\d])")  # "answer:\n  value: 15"
_BOLD_END = regex(r"([^*\n]{1,60}?)\*\*\s*(?:[—–-]\s|\()(?!.*\*\*)")  # "**Answer: B** — the exponential is positive"
# "Cheers,\nMathBot 2.0"
_SIGNATURE = regex(
    r"\n[ \t]*(?:Cheers|(?:Best|Kind|Warm)(?: regards| wishes)?|Regards|Sincerely|Yours)[,!]\s*\n[^\n=]{1,40}\s*\Z"
    r"|(?<=[.!?])\s+(?:Best|Kind|Warm) (?:regards|wishes),? [A-Z][^.\n=]{1,40}\Z"
)
_TIMES_X = regex(r"\d x \d")  # "4 x 5 = 20"
_COPULA = regex(r"\s(?:is|are|has|have|equals|est|vaut|ist|beträgt|es|son|è|é)\s", re.IGNORECASE)
# "a common wrong answer is 9"
_WRONG = regex(r"\b(?:wrong|incorrect|mistaken|tempting|naive|naïve|intuitive)\s+$", re.IGNORECASE)
_OF_ANOTHER = regex(  # "a student claims the answer is 9"
    r"\b(?:an?|another|the|one|some) (?:other |of the )?(?:students?|friend|classmate|colleague|teacher|person|people)"
    r"\b[^.;:]*\b(?:claim|say|said|think|thought|believe|wr[io]te|g[eo]t|insist)s?\b[^.;:]*$",
    re.IGNORECASE,
)
_UNSAID = regex(  # "12, which fails"
    r",\s+(?:(?:which|that|it|this)(?:['’]s| is)?\s)?(?:wrong(?! \w+:)|incorrect|false|fails"
    r"|divided by(?![^,.]*\band\b))\b[^,.]*\W*$",
    re.IGNORECASE,
)
_WITHDRAWN = regex(
    r"\b(?:I|we)\b[^.]*\b(?:withdraw|retract|take (?:it|this|that) back)\b|\b(?:disregard|ignore) (?:the box"
    r"|that\b|this\b|it\b"
    r"|the above\b)",
    re.IGNORECASE,
)
# "please disregard \\boxed{216}; my final answer is 270"
_DISOWNED = regex(
    r"\b(?:disregard|ignore|forget|retract|withdraw|scratch|not)\s+(?:the |my )?(?:box )?[$\\(]{0,2}\s*\Z",
    re.IGNORECASE,
)
# "I first wrote", before a box that is taken back
_FORMER = regex(
    r"\b(?:I|we) (?:had |have )?(?:first|earlier|initially|originally|previously)\b[^.\n]*$"
    r"|\b(?:first|earlier|initial|original|previous) (?:answer|attempt|draft|value|result)\b[^.\n]*$",
    re.IGNORECASE,
)
_GIVES = regex(r"\b(?:obtains?|gets?|gives?|yields?|arrives?|finds?|equals)\b", re.IGNORECASE)
_HIDDEN = regex(r"[\ue000-\uf8ff]")
_SPECIAL = regex(r"<\|[\w ]{1,40}\|>|</s>|<eos>|<\|endoftext\|>")


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
    ends = list(THINK_END.finditer(completion)) if "<" in completion or "◁" in completion else []
    if not ends:
        return _section(completion)
    behind = completion[ends[-1].end() :]
    after = _section(behind)
    is_cut_off = len(completion) >= MIN_CUT_OFF and behind.rstrip()[-1:] not in ".!?:*`$。！？"
    if after is not None or boxes(behind) is None or (behind.strip() and not is_cut_off):
        return after  # what is finished and states no answer gives none, whatever was thought
    return _section(completion[: ends[-1].start()])


def _section(text: str) -> str | None:
    """The answer in one section of a completion, which ends where a new question begins."""
    return answer_in(one_section(text))


@lru_cache(maxsize=1)  # every reading of a completion asks for the same one
def one_section(text: str) -> str:
    """A section of a completion as plain text, up to where a new question begins."""
    if any(word in text[-MAX_SIGNED:] for word in ("Cheers", "egards", "ishes", "incerely", "Yours")):
        text = _SIGNATURE.sub("", text)
    text = with_digits(with_points(plain_text(without_loop(text))))
    return until_next_question(text, lambda part: answer_in(part) is not None)


def answer_in(text: str) -> str | None:
    """The answer to one question, by the places in their order."""
    inside = tagged(text)
    if inside is not None:
        if "boxed" in inside or "\n" in inside or answer_phrases(inside):
            return answer_in(inside)
        in_sentence = stated(inside) if len(inside.split()) >= MIN_SENTENCE and _is_prose(inside) else None
        return in_sentence or _in_prose(inside, _cut(inside) or inside)
    found = boxes(text)
    if found is None:
        return None
    return _boxed(text, found) if found else _without_box(text[-MAX_TAIL:])


def _boxed(text: str, found: list[Box]) -> str | None:
    """The answer in the last boxes, or what takes its place where it is taken back; None where nothing does."""
    behind = text[found[-1].end :].lstrip("$\\)] ")
    if _DISOWNED.search(text[max(0, found[-1].start - MAX_BEFORE) : found[-1].start]):
        return _phrase(behind) or stated(behind) or (_boxed(text[: found[-1].start], found[:-1]) if found[1:] else None)
    if is_taken_back(behind[:MAX_RETRACTION]):
        if len(found) > 1 and _FORMER.search(text, found[-2].end, found[-1].start):
            return _boxed(text[: found[-1].start], found[:-1])
        if (instead := _phrase(behind) or stated(behind, words=False) or stated(behind)) is not None:
            return instead
        if _WITHDRAWN.search(behind) and (GIVES_UP.search(behind) or not re.search(r"\d", behind)):
            return None
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


def _json(text: str) -> str | None:
    """The answer of a JSON reply; of a sentence in it, what that states."""
    found = json_reply(text)
    return found if found is None or "\n" in found else _in_prose(found, found)


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
    line, _, rest = BULLET.sub("", below).partition("\n")
    return _in_prose(line, _cut(line)) if not rest or _EXPLAINS.match(rest) else None


def _phrase(text: str) -> str | None:
    """What the last final-answer phrase leads to."""
    for match in reversed(answer_phrases(text)):
        head = match.start() + len(match[0].rstrip())
        if _LIST_BELOW.match(text, head) and (listed := stated(text[head:])) is not None:
            return listed
        line = re.split(
            r"\n|。|(?<=[^\d\s.])\.(?=\s|$)(?!(?<=\b[A-Ea-e]\.)\s[-$\d])|(?<=\d)\.(?=\s|$|\*\*)",
            text[match.end() :].lstrip(" \n*:："),
            maxsplit=1,
        )[0]
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        said_before = before[-MAX_STATED:]
        disputed = _OF_ANOTHER.search(said_before) and re.search(r"\d", text[match.end() + len(line) :])
        if disputed or _WRONG.search(said_before):
            continue
        if before.count("(") > before.count(")"):  # "(So the answer is 52.)"
            line = line[: line.rfind(")")].rstrip(" .") if ")" in line else line
        line = line.split("; ", 1)[0] if _NOT_BOTH.search(line) and not _OPEN_BRACKET.search(line) else line
        line = _REASON_BEHIND.sub("", line)
        if leaves_open(line):
            return LEFT_OPEN
        if found := _KEY.sub("", _cut(line)):
            behind = text[match.end() :].lstrip(" \n*:：")[len(line) :].lstrip(" .")
            if OR_ELSE.match(behind):
                return LEFT_OPEN
            instead = stated(behind) if is_taken_back(behind[:MAX_RETRACTION]) else None
            return instead or _in_prose(line, found)
    return None


def _in_prose(line: str, found: str) -> str:
    """What a phrase leads to, where that is a sentence and no answer as it stands: "42, not 24"."""
    found = _REASON_BEHIND.sub("", found)
    is_chain = "=" in found and (_TIMES_X.search(found) or (found.count("=") > 1))
    found = chain_end(found) if is_chain else found
    if len(line) > MAX_STATED or not _is_prose(found):
        return found
    if (
        not (has_contrast(found) or _NOT_BUT.match(found))
        and (_CONDITION.search(found) or not _COPULA.search(found))
        and _is_readable(found)
        and not NUMERAL.match(found)
    ):
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
    line = _COMMENT.sub("", _BORDER.sub("", line.strip()))
    if not line:
        return ""
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**")):
        if line.startswith(opening):
            end = line.find(closing, len(opening))
            if end > 0 and not re.match(r"\s*(?:,|and|or)\s*[$\\]", line[end + len(closing) :]):
                rest = line[end + len(closing) :].strip(" .*,")
                words = f" \\text{{{rest}}}" if re.fullmatch(r"[a-z]+(?: [a-z]+)?", rest) else ""
                return line[len(opening) : end].strip() + words
    if bold := _BOLD_END.match(line):
        return bold[1].strip(" .")
    # A comma or the run's first blank: else every blank of a long run would begin a match anew.
    return re.split(r"(?:,|(?<!\s))\s+(?:because|since|as shown|which|so|therefore|but)\b", line)[0].strip(" *.")


def _hashes(text: str) -> str | None:
    """What stands behind the last ``####``; with words and text below it is a heading."""
    for match in reversed(list(_HASHES.finditer(text))):
        if not (_is_prose(match[1]) and text[match.end() :].strip()):
            return match[1]
    return None


def _bold(text: str) -> str | None:
    """The last bold text that looks like an answer and not like a sentence or a heading."""
    found = [
        b
        for b in _BOLD.findall(text)
        if re.search(r"\d|\\|^[A-Za-z]\b", b)
        and not _BOLD_LETTER.fullmatch(b)
        and not b.rstrip().endswith(":")
        and not _STEP.match(b)
    ]
    if not found or re.search(r"[a-z]{3,} [a-z]{2,} [a-z]", found[-1]):
        return None
    behind = text[text.rfind(found[-1]) + len(found[-1]) :][:MAX_RETRACTION]
    if is_taken_back(behind) and (instead := stated(behind)) is not None:
        return instead
    if named := _NAMED.fullmatch(found[-1]):
        return named[1]
    if EQUATION_SO_FAR.fullmatch(found[-1]) and _EQUALITY.search(behind):
        return None
    # A sentence, or the end of the text, and no heading of a step.
    is_last = found[-1].endswith(".") or text.rstrip(" .*\n").endswith(found[-1].rstrip(" .*"))
    is_sentence = not _is_readable(found[-1]) and _COPULA.search(found[-1])  # "area is 25π"
    return _in_prose(found[-1], found[-1]) if is_last or is_sentence else chain_end(found[-1])


def _formula(text: str) -> str | None:
    """The value that the last sentences state in plain text or in formulas; else the last formula."""
    if (given_up := list(GIVES_UP.finditer(text[-MAX_DECLINED:]))) and len(text) < MAX_DECLINED:
        behind = text[given_up[-1].end() :]
        later = _LATER.search(behind)
        return stated(behind[later.end() :]) if later else None
    if GIVES_UP.search(text[-300:]) or any(text.rfind(a) > text.rfind(b) for a, b in (("\\[", "\\]"), ("\\(", "\\)"))):
        return None  # given up, or cut off in the middle of a formula
    formulas = [match for match in FORMULA.finditer(text) if not (match[2] and is_money(match[2]))]
    numbers = [match.end() for match in re.finditer(r"\d", text[-MAX_STATED:])]
    end = max([formulas[-1].end() if formulas else 0, *(len(text) - len(text[-MAX_STATED:]) + n for n in numbers[-1:])])
    if _ANNOUNCES.search(text[-MAX_STATED:]) or breaks_off(text, end) or _UNSAID.search(text[-MAX_STATED:]):
        return None
    value = stated(text) if is_finished(text) else None
    if value is not None or not formulas or _tells_nothing(text, formulas[-1]):
        return value
    return chain_end(next(group for group in formulas[-1].groups() if group).strip())


def _tells_nothing(text: str, formula: re.Match[str]) -> bool:
    """Whether the sentence of a formula sets out, checks, or tells a value by others."""
    line = text[text.rfind("\n", 0, formula.start()) + 1 :].partition("\n")[0]
    told = [part for part in sentences(hide_formulas(line[-MAX_STATED:]).text) if _HIDDEN.search(part)]
    is_aside = bool(told) and states_nothing(told[-1], notes=True) and not _GIVES.search(told[-1])
    return is_aside or (bool(told) and is_by_others(told[-1].rstrip(" .")))


def _whole(text: str) -> str | None:
    """A completion that is nothing but an answer."""
    bare = text.strip()
    if 0 < len(bare) <= 200 and "\n" not in bare and not re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", bare):
        return bare if re.search(r"\d|\\|^[A-Za-z(]{1,3}\)?$|^[-+]?[a-z]\b", bare) else None
    return None


# Where the answer stands in a text without a box: the first of these that holds one.
PLACES: tuple[Callable[[str], str | None], ...] = (
    _json,
    _heading,
    grid,
    _phrase,
    _hashes,
    opening_value,
    _bold,
    _formula,
    _whole,
)
