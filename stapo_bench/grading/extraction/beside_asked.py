"""What a last sentence says beside what is asked for: a second clause of something else, the next term, a remark.

"The sum of the roots is 11, while they are 2 and 9" answers "Find the sum of the roots" with 11; "a_4 = 17, before it
goes on to a_5 = 33" answers "Find $a_4$" with 17.
"""

import re

from stapo_bench.grading.extraction.languages import VERBS
from stapo_bench.grading.extraction.stems import HAN, stems
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import NUMERAL, in_digits
from stapo_bench.grading.units import WORDS, singular

_AND_NAME = regex(r",? and ([A-Z][a-z]+) (?=[-−$]?\d[\d.,]*(?: [a-z]+)?\W*$)")
_HOW_MANY = regex(r"\bhow many (?:of the )?([a-z]{3,})\b", re.IGNORECASE)
_NUMBER_AND_NOUN = regex(
    r"(?<![\w.,])(\d+) (?!less\b|times\b|was\b|has\b|does\b)([a-z]{2,}s|children|people|men|women)\b"
)
_CONCLUDES_IN = regex(r"=|\bnot\b|n['’]t\b|\b(?:if|each|every|per|more|fewer|times|than)\b", re.IGNORECASE)
_VALUE = regex(rf"\d|\$|[√π]|(?i:{NUMERAL.pattern})")
# Where a clause of something else may begin: "..., while they are 2 and 9", "; the other is 4".
_BESIDE = regex(
    r",? (?:while|whereas)\b|(?:, and|;) (?=the (?:other|others|remaining|rest)\b)|; (?=the [a-z]+ (?:is|are"
    r"|has)\b)|, and (?=(?:[A-Z][a-z]+"
    r"|it) (?:is|has)\b)"
    r"| and (?=(?:his|her|its|their) [a-z]+ (?:is|are|was|has|will be|gets|costs)\b)"
    r"|、(?=[^、。]{1,6}は)|, (?:before|after which|though|although|even though)\b"
    r"|, (?:а|при этом|mientras(?: que)?|und|während|wobei|et|tandis que|alors que|e|mentre|enquanto)\b"
    r"|[，,；;]\s?而(?!且)"
)
_WHILE = regex(r",? (?:while|whereas)\b")
# A clause with one of these concludes, and is no aside: "while b is 4, so the sum is 9".
_CONCLUDES = regex(
    r"\b(?:so|hence|thus|therefore|gives?|giving|makes?|leaves?|leaving"
    r"|yields?|total\w*|altogether|answer|donc|also|somit|daher|luego|portanto|quindi|поэтому|значит|итого)\b|所以|因此|故"
)
# "Find $a_4$", "What is f(2)?"
_NAME = regex(
    r"\b(?:find|determine|compute|calculate|evaluate|what is|give)\s+(?:the value of\s+)?\$?([a-zA-Z](?:_\{?\w{1,3}\}?"
    r"|\([-\w]{1,4}\)))\$?",
    re.IGNORECASE,
)
# "Find the volume"
_NOUN = regex(r"\b(?:what is|what's|find|determine|compute|calculate) (?:the|its) ([a-z]{4,})\b", re.IGNORECASE)


def without_aside(text: str, asked: str) -> str:
    """The text without what its last sentence says beside what is asked for.

    >>> without_aside("The sum of the roots is 11, while they are 2 and 9.", "What is the sum of the roots?")
    'The sum of the roots is 11.'
    >>> without_aside("We get a_4 = 17, before it goes on to a_5 = 33.", "Find $a_4$.")
    'We get a_4 = 17.'
    """
    end = _last_sentence(text)
    last = text[end:]
    if (named := _until_name(last, asked)) is not None:
        return text[:end] + named
    if apposed := _apposed(asked, last):
        return text[:end] + apposed
    wanted = stems(_asking(asked))
    for match in reversed(list(_BESIDE.finditer(last))):
        before, behind = last[: match.start()], last[match.end() :]
        if _CONCLUDES.search(behind) or not (_VALUE.search(before) and _VALUE.search(behind)):
            continue
        in_brackets = before.count("(") != before.count(")")
        if in_brackets or not (_tells(before) and _tells(behind)):
            continue
        if (stems(behind) & wanted) < (stems(before) & wanted):
            return f"{text[:end]}{before}."
        if _WHILE.match(match[0]) and len(stems(before) & wanted) < len(stems(behind) & wanted):
            return text[:end] + behind.lstrip()
    return text


def counted(sentence: str, question: str) -> str | None:
    """The number that a sentence gives of what the question counts, where each number in it stands before its noun.

    >>> counted("Hence there are four adults in the group and six children.", "How many adults were there?")
    '4'
    >>> counted("Ann has 12 marbles and Tom 5.", "How many marbles has Tom?") is None
    True
    """
    asked = _HOW_MANY.search(question)
    sentence = NUMERAL.sub(lambda numeral: in_digits(numeral[0]) or numeral[0], sentence)
    nouns = _NUMBER_AND_NOUN.findall(sentence)
    if (
        asked is None
        or asked[1].lower() in WORDS
        or len(nouns) < 2
        or len(nouns) < len(re.findall(r"\d+", sentence))
        or _CONCLUDES_IN.search(sentence)
    ):
        return None
    own = [number for number, noun in nouns if singular(noun) == singular(asked[1].lower())]
    return own[0] if len(own) == 1 else None


def _until_name(last: str, asked: str) -> str | None:
    """The sentence up to the term, or the function's value, that is asked for, where another follows; else None."""
    if (name := _NAME.search(asked)) is None:
        return None
    bare = re.sub(r"[{}]", "", name[1])
    plain = re.sub(r"[{}]", "", last)
    told = list(
        re.finditer(rf"(?<![A-Za-z]){re.escape(bare)}\$?(?: is| equals| ?=)\s[^,;]*?\d(?:(?! and )[^,;])*", plain)
    )
    if not told or not re.search(rf"(?<![A-Za-z]){bare[0]}(?:_|\()", plain[told[-1].end() :]):
        return None
    if _CONCLUDES.search(plain[told[-1].end() :]) or re.search(rf"{bare[0]}(?:_|\()", told[-1][0][len(bare) :]):
        return None  # "f(2) = 2 f(1), f(1) = 5, hence 10"
    kept = plain[: told[-1].end()].rstrip()
    return None if kept.count("$") % 2 else f"{kept}."


def _apposed(asked: str, last: str) -> str | None:
    """The sentence with its verb where it leaves it out: "so the edge is 3 and the volume 27", asked for the volume."""
    if (name := _AND_NAME.search(last)) and re.search(rf"\b{name[1]}\b", asked):
        return f"{name[1]} has {last[name.end() :]}"  # "Ann has 5 marbles and Tom 12", asked for Tom's
    noun = _NOUN.search(asked)
    if noun is None:
        return None
    told = re.search(rf",? and (?:the|its) {noun[1]} (?=[-−$√π\\\\]?[\d\\\\])", last)
    return f"{last[: told.end()]}is {last[told.end() :]}" if told else None


def _asking(asked: str) -> str:
    """What asks: behind the last comma, where there are no blanks between words."""
    return re.split(r"[，,。]", asked.rstrip("。？? "))[-1] if HAN.search(asked) else asked


def _last_sentence(text: str) -> int:
    """Where the last sentence begins."""
    stops = list(re.finditer(r"(?:[.!?]\s+|[。！？]\s*|\n)(?=\S)", text.rstrip()))
    return stops[-1].end() if stops else 0


def _tells(clause: str) -> bool:
    """Whether a clause gives a value: it has a verb that does, or a relation."""
    if not VERBS.isdisjoint(clause.lower().split()):
        return True
    return (
        re.search(
            r"=|\b(?:is|are|was|were|equals?|has|have|est|sont|vaut"
            r"|ist|sind|beträgt|es|son|é|è|são|sono|равн[аоы]?|составляет|есть|это)\b|[是为為有得は]",
            clause,
        )
        is not None
    )
