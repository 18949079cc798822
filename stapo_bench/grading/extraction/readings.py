"""What a response says beside its one answer: a value without words, its boxes, what it states of each part."""

import re

from stapo_bench.grading.extraction.boxes import PART, ROWS, TRIES_AGAIN, boxes, each_of, named_boxes
from stapo_bench.grading.extraction.concluding import conclusion
from stapo_bench.grading.extraction.extraction import BEFORE_BOX, MAX_TAIL, THINK_END, answer_in, one_section
from stapo_bench.grading.extraction.languages import answer_phrases
from stapo_bench.grading.extraction.markup import json_reply, tagged
from stapo_bench.grading.extraction.statements import stated
from stapo_bench.grading.extraction.turns import until_end_token
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import NEXT_PART

_AND_BETWEEN = regex(
    r"\$?,? (?:and|while) [^.\n]{1,40}"
)  # "the quotient is \boxed{12}, and the remainder is \boxed{5}"
_INLINE_PART = regex(r"(?:^|(?<=\s))\(([a-h]|i{1,3}|iv|v)\)(?=[\s:])")


def value_without_words(completion: str) -> str | None:
    """The value that a response in prose states beside words at its end: "so 3^20 is larger"."""
    prose = prose_of(completion)
    return None if prose is None or answer_phrases(conclusion(prose) or prose) else stated(prose, words=False)


def boxes_for(completion: str, wanted: int, labels: bool) -> str | None:
    """The answers in all boxes of a response, where these are as many as wanted and none takes back another.

    ``labels``: parts (a) and (b) are asked for or told; else each box has to give its value to a name.
    """
    text = _last_section(completion)
    found = boxes(text) or []
    if len(found) != wanted or (found and TRIES_AGAIN.search(text, found[0].end, found[-1].start)):
        return None
    together = wanted == 2 and _AND_BETWEEN.fullmatch(text, found[0].end, found[1].start) is not None
    return NEXT_PART.join(each_of(text, found)) if labels or together else named_boxes(text, found)


def stated_parts(prose: str, wanted: int) -> list[str] | None:
    """What the text states under each of its last labels (a), (b), ...; None where these are not as many as wanted."""
    labels = list(PART.finditer(prose))
    labels = labels if len(labels) >= wanted else list(_INLINE_PART.finditer(prose))
    names = [next(group for group in label.groups() if group).lower() for label in labels][-wanted:]
    if wanted < 2 or not any(names == row[:wanted] for row in ROWS):
        return None
    starts = [label.end() for label in labels[-wanted:]]
    ends = [label.start() for label in labels[1 - wanted :]] + [len(prose)]
    parts = [_part(prose[start:end].lstrip(" :*)")) for start, end in zip(starts, ends, strict=True)]
    return [part for part in parts if part is not None] if None not in parts else None


def _part(text: str) -> str | None:
    """The answer to one part: its value where there is one, else its words."""
    found = answer_in(text)
    return found if found is None or re.search(r"[\d\\]", found) else stated(text, words=False) or found


def prose_of(completion: str) -> str | None:
    """The end of the section that answers, where that is prose; None where a box, a tag or JSON holds the answer."""
    text = _last_section(completion)
    explicit = boxes(text) != [] or tagged(text) is not None or json_reply(text) is not None
    return None if explicit else text[-MAX_TAIL:]


def _last_section(completion: str) -> str:
    """What stands behind the thinking, up to where a new question begins."""
    text = until_end_token(completion[-BEFORE_BOX:])
    return one_section(THINK_END.split(text)[-1] if "<" in text or "◁" in text else text)
