"""Answers in words: the name or the few words that a clause says its subject is, does or has."""

import re

from stapo_bench.grading.patterns import regex

MAX_WORDS = 3  # of an answer that is a name or a few words
YES_NO = regex(
    r"^\W*(?:(yes|no|true|false|sí|oui|ja|nein|да|нет|richtig|falsch|vrai|faux)\b\s*[,.;:!—–-](?=\s|$)|(错误|正确|不对"
    r"|不是|是的|对|错|是|否|はい|いいえ|예|아니요)[。,，.、!！])",
    re.IGNORECASE,
)
_VERDICTS = regex(
    r"\b(no (?:real |integer |such )?(?:solutions?|roots?|answer|limit)|does not (?:exist|converge)"
    r"|doesn['’]t exist|DNE|undefined|(?:diverge|converge)s?|infinitely many(?: solutions)?)\b[^,;]*$",
    re.IGNORECASE,
)
# "No solution" in other languages.
_UNSOLVABLE = regex(
    r"无解|無解|没有(?:实数)?解|解なし|\b(?:(?:pas de|aucune) solution|no (?:tiene|hay) soluci[óo]n(?:es)?"
    r"|keine Lösung(?:en)?|нет решений)\b",
    re.IGNORECASE,
)
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DATE = regex(
    rf"\b((?:{_MONTH}|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?) \d{{1,2}}(?:st|nd|rd|th)?(?:, \d{{4}})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}})?)$"
)
_OPTION = regex(
    r"\b(?:option|choice|answer|statement)\s*\(?([A-J])\)?\s+(?:is|must be)\s+(?:the\s+)?(?:correct|right|true"
    r"|best)\b",
    re.IGNORECASE,
)
# "So B is correct", "of those listed only D fits"
_CHOSEN = regex(
    r"(?:Therefore|Hence|Thus|So)[:,]? ?\(?(?P<alone>[A-J])\)?|(?:^|.*\b(?:[Ss]o|[Tt]hus|[Hh]ence|[Tt]herefore"
    r"|[Tt]hen|[Tt]hat|[Oo]nly),? )(?:only )?\(?(?P<named>[A-J])\)?"
    r" (?:is (?:the )?(?:correct|right|true|best)(?: (?:answer|option|choice|one))?|fits|works|remains"
    r"|is left)(?:: .*)?"
)
_OF_WORDS = regex(
    r"(?:\b(?:it|that|this|she|he)['’]s|\b(?:is|are|was|be|comes|est|ist|es|è|é|facing|describes|represents|forms"
    r"|falls on|lands on|means|called|becomes))\s+((?:[^\W\d_][\w'’-]*\s*){1,6})$",
    re.IGNORECASE,
)
_WORDS_AFTER = regex(r"(?<![不非])(?:是|为|為|は)\s*([\u4e00-\u9fff\u3040-\u30ff]{1,8}?)(?:です|である|だ)?$")
# What stands before words that are denied or left open: "does not", "whether it".
_DENIED = regex(
    r"(?:\b(?:not|never|cannot|no longer|whether|would|could|might|may)|n['’]t)\s+(?:\w+\s+){0,4}$", re.IGNORECASE
)
_DENIED_NAME = regex(
    r"\b(?:doubt|unlikely|deny|denies)\b|(?:\b(?:never|cannot|could|might|may)|can['’]t|\b(?:can|could|may) not)\s+$",
    re.IGNORECASE,
)
_OF_A = regex(r"^(?:the\s+)?(?:equation|graph|name|shape|case)\s+of\s+")


_SUPERLATIVE = regex(
    r"(?:(?:So|Hence|Thus|Therefore|Then),? )?(?!The\b|This\b|That\b|It\b|She\b|There\b|Which\b)"
    r"([A-Z][a-z]{2,}) (?:is|was) the "
    r"(?:\w+est|first|last|only one|winner|most \w+)"
    r"|(?:.*[,;] (?:so|hence|thus|therefore) )?(?!The\b|This\b|That\b|It\b|She\b|He\b)([A-Z][a-z]{2,}) (?:(?:is|was) "
    r"(?:\w+er|more \w+) than\b.*"
    r"|(?:wins|won|arrives first|finishes first|is right|is correct|was first))"
)
_ONE_WORD = regex(
    r"(?!(?:Done|Correct|Great|Good|Okay|Right|Perfect|Check|Checked|Verified|Hence|Thus|Answer|Solution|Proof"
    r"|Thanks|Nice"
    r"|Wait|Hmm|Note|Finally|Simplify|Yes|Sure|Exactly|Indeed|Simple|Easy|End|Stop|Next|Therefore|Then|The|And|Step"
    r"|Final"
    r"|Explanation|Result|Conclusion|Verification)\b)[A-Z][a-z]{2,14}"
)


def winner(clause: str) -> str | None:
    """The name that a clause says is the first, the tallest, or taller than another: "so Ann is taller than Bea"."""
    found = _SUPERLATIVE.fullmatch(clause)
    return (found[1] or found[2]) if found else None


def option_chosen(clause: str) -> str | None:
    """The letter of the option that a clause says is the one.

    >>> option_chosen("So B is correct"), option_chosen("of those listed only D fits"), option_chosen("So A is large")
    ('B', 'D', None)
    """
    found = _CHOSEN.fullmatch(clause)
    return (found["alone"] or found["named"]) if found else None


def in_words(clause: str) -> str | None:  # noqa: PLR0911 - one return for each kind of words
    """The name or the few words that a clause says its subject is, does or has."""
    if found := _DATE.search(clause) or _OPTION.search(clause):
        return found[1]
    if _ONE_WORD.fullmatch(clause):
        return clause
    if _UNSOLVABLE.search(clause):
        return "no solution"
    if found := _VERDICTS.search(clause):
        return None if _DENIED.search(clause[: found.start()]) else found[1].lower()
    if found := _WORDS_AFTER.search(clause):
        return found[1]
    if (found := _OF_WORDS.search(clause)) and (" or " in found[1] or not _DENIED_NAME.search(clause[: found.start()])):
        words = found[1].strip()
        words = _OF_A.sub("", words)
        last = re.split(r"\b(?:is|are|was|be|comes|est|ist|es|è|é)\s+", words)[-1]
        last = re.sub(
            r"^(?:most likely |probably |certainly )?"
            r"(?:an?|the|un|une|ein|eine|el|la|le|therefore|thus|clearly|also|on|in|most likely|probably)\s+",
            "",
            last.strip(),
        )
        if 0 < len(last.split()) <= MAX_WORDS and not re.search(
            r"\b(?:that|this|it|done|correct|required|needed"
            r"|not|left|over|number|answer|consistent|same|solution|clear|result|i|we|you"
            r"|expression|problem|question|possible|reasonable)\b",
            last,
            re.IGNORECASE,
        ):
            return last
    return None
