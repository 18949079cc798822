r"""Whether a text without a box is finished, or breaks off in the middle of a sentence."""

import re

from stapo_bench.grading.extraction.openings import MAX_LAST
from stapo_bench.grading.patterns import regex

MIN_CUT_OFF = 2_000  # characters of a response that may have run into a length limit
MAX_FRAGMENT = 200  # characters of a fragment, and of the end of a text that is looked at
_ENDS = regex(r"(?:\b(?:is|are|be|equals|use)|=|:)\s{1,3}[-+−]?\d[\d,.]*(?: [A-Za-z/]{1,12})?$")
_SENTENCE_END = regex(r"[.!?:][*)\"']*\s|\n")
_OPEN_WORD = regex(
    r"(?<![/*+=^(·×−-])(?<![/*+=^(·×−-]\s)\b(?:a|an|and|as|because|but|by|for|if|in|into|is|let|of|or|since|so"
    r"|than|that|the|then|to|we|when|which"
    r"|with|me|says?|gives?|get|(?<!there )is|(?<!there )are|equals?|my|our|its|these|those|from|at|on|after|i)\Z",
    re.I,
)


def is_finished(text: str) -> bool:
    """Whether the text ends as a text does; a short one, or a last line of a few words, needs no full stop."""
    tail = text.rstrip()
    last = tail[tail.rfind("\n") + 1 :]
    return tail[-1:] != "=" and (
        tail[-1:] in ".!?:)]*$`}>。！"
        or (len(text) < MIN_CUT_OFF and tail[-1:] != "," and not _OPEN_WORD.search(tail))
        or len(last) < MAX_LAST
        or _ENDS.search(tail[-MAX_FRAGMENT:]) is not None
    )


def breaks_off(text: str, end: int) -> bool:
    """Whether a new sentence begins behind ``end`` and is not finished: the response ran into its length limit.

    A short response may do without its last full stop, unless its last word can end no sentence.
    """
    tail = text[end:].rstrip()
    if not tail or tail[-1] in ".!?:)]*$`}>" or not _SENTENCE_END.search(tail):
        return False
    return len(text) >= MIN_CUT_OFF or _OPEN_WORD.search(tail) is not None
