"""Answers that leave it open which of several values they mean: "4, maybe 5", "the answer is 4 (or 5 if ...)"."""

import re

from stapo_bench.grading.patterns import regex

LEFT_OPEN = r"\text{(left open)}"  # the answer of a sentence that gives several and takes none
_VALUE = r"(?:[a-zA-Z]\s*=\s*)?[-−$]?(?:\d|[\ue000-\uf8ff])"
_DOUBTS = (
    r"(?:(?:maybe|perhaps|possibly|conceivably)(?: \w+){0,2}|or(?= [^,;.()]{1,20} (?:if|when|depending)\b)"
    r"|(?:it |this |that )?(?:might|may|could)(?: also| well)? be)"
)
_LEAVES_OPEN = regex(
    rf"\d[^.;!?]{{0,20}}?[ ,(](?:or |and |but |though |although ){{0,2}}{_DOUBTS} {_VALUE}"
    rf"|\d,? unless\b[^.;]*(?:\b(?:is|be|give\w*)|=) ?{_VALUE}"
    rf"|\d,? (?:although|though|but|while|yet|however)\b[^;]{{0,30}}?{_VALUE}[^;]*\b(?:equally|also|just as|as well)\b"
    r"[^;]*\b(?:plausible|possible|likely|valid|good|right|correct|defensible)\b"
    r"|\d[^.]{0,120}\b(?:not (?:sure|certain|clear)|unsure|unclear|don['’]t know) (?:which|whether)\b"
    r"|\d[^.]{0,60}\bone of (?:them|these|the two)\b[^.]{0,20}\b(?:(?:should|must|has to|will) be (?:right|correct|it"
    r"|the answer)|has to go|is (?:right|correct))\b|\d,? (?:if|unless|assuming|provided)\b[^.;]*\b(?:counts?|counted"
    r"|allowed|matters?|included|distinct|count as|taken as)\b|\b(?:either|both) (?:way|one|answers?|values?|readings?"
    r"|interpretations?)\b[^.;]*\b(?:works?|fine|plausible|defensible|depend\w*|be (?:right|correct|meant|accepted))\b",
    re.IGNORECASE,
)
_AS_YOU_LIKE = regex(r",? if you (?:prefer|like|want|wish|will)\b", re.IGNORECASE)
OR_ELSE = regex(r"\W*(?:Or|Maybe|Perhaps|Alternatively)\b[^.;]{0,30}?\b(?:could|might|may)(?: also| well)? be \S*\d")
# Every sentence that leaves an answer open has one of these; the others, which are most, are not searched.
_WORDS = (
    "maybe", "perhaps", "possibl", "conceivabl", "might", "may", "could", "unless", "equally", "also", "either", "both",
    " which ", " whether ", "one of the",
    " if ", " when ", " depending", "just as", "as well",
)  # fmt: skip
# "if x ≠ 0"; _DOMAIN: "if x > 0", beside a formula
_UNEQUAL = regex(r"\s*(?:that )?[a-z] ?(?:≠|!=|is not) ?-?\d+\W*")
# A condition that asks for nothing: "if nothing is lost to the seam", "assuming he never skips one".
_HARMLESS = regex(
    r"\b(?:nothing|nobody|no one|never|all goes|everything|needed|necessary|desired)\b|^\s*\d+ [a-z]+\W*$",
    re.IGNORECASE,
)
_DOMAIN = regex(r"\s*(?:that\s)?[\ue000-\uf8ff]|\s*(?:that\s)?[a-z] ?(?:[≠<>≥≤]|!=|is (?:not|positive|negative|non))")


def leaves_open(sentence: str) -> bool:
    """Whether a sentence names a second value beside the one that it gives, and decides for neither.

    >>> leaves_open("The answer is probably 4, maybe 5."), leaves_open("It is 4 (or 5 if zero counts).")
    (True, True)
    >>> leaves_open("I get 4 and 5, and I am not sure which is right.")
    True
    >>> leaves_open("It is 4, or 4.0 as a decimal."), leaves_open("Maybe it is not 4, but it is 5.")
    (False, False)
    """
    sentence = _AS_YOU_LIKE.sub("", sentence)
    lower = sentence.lower()
    return any(word in lower for word in _WORDS) and _LEAVES_OPEN.search(sentence) is not None


def condition_leaves_open(value: str, condition: str) -> bool:
    """Whether a condition leaves the value before it open: other values, or another reading of the question.

    >>> [condition_leaves_open("4", condition) for condition in (" zero counts", " x ≠ 0", " nothing is lost")]
    [True, False, False]
    """
    if _UNEQUAL.fullmatch(condition) or (_DOMAIN.match(condition) and re.search(r"[A-Za-z]", value)):
        return False
    return _HARMLESS.search(condition) is None
