"""Where the answer to a question ends in prose that goes on: with the like of the question, or with a remark.

A base model goes on with other numbers ("Compute 2^9."), with the next equality or the next quantity; others say behind
their conclusion what else holds ("So she sold 32. It took her a day."). What the question asks for tells them apart.
Only a completion without a box is read so.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from stapo_bench.grading.extraction.asides import concludes, states_nothing, without_last_remark
from stapo_bench.grading.extraction.beside_asked import without_aside
from stapo_bench.grading.extraction.languages import answer_phrases, is_taken_back
from stapo_bench.grading.extraction.statements import sentences
from stapo_bench.grading.extraction.stems import STEM, stems
from stapo_bench.grading.patterns import regex

MAX_ALIKE = 12  # sentences that are compared with the question
MAX_BEHIND = 3  # sentences behind a conclusion that may be remarks
_SENTENCE = regex(r"(?:(?<=[.!?])|(?<=\d))\s+(?=[A-Z])|\n\s*(?:\d+[.)]\s+|#+\s*)?")
_WORD = regex(r"[^\W\d_]+")
_NUMBER = regex(r"\d+(?:\.\d+)?")
_OPENING_VALUE = regex(
    r"\s*([-−$]?\d[\d,]*(?:\.\d+)?(?:/\d+)?)\.?(?=\s*\n|\.\s|\s\()"
    r"|\s*(\$[^$\n]+\$)(?=\.?\s*\n|[.,]\s|\s\(|\s(?:by|since|because|as|using)\b)"
)
_IN_SUMMARY = regex(r"\W*(?:in summary|to summari[sz]e|to sum up|in short|summary|recap)\b", re.IGNORECASE)
_NUMERICALLY = regex(
    r"\s*(?:≈|\$?\\approx)|\W*(?:numerically|as a decimal|in decimals?"
    r"|approximately|roughly|(?:that|this|it|which)(?:['’]s| is) (?:about|approximately|roughly|around))\b",
    re.IGNORECASE,
)
_THEREFORE = regex(r"\b(?:so|hence|thus|therefore)\b", re.IGNORECASE)
_ROUNDS = regex(
    r"\b(?:nearest|round\w*|approximat\w*|estimat\w*|decimals?|significant|numerical\w*)\b|\d\.\d", re.IGNORECASE
)
_EXACT = regex(r"\bexact(?:ly)?\b", re.IGNORECASE)
# "so 150 people like tea, and 100 don't"
_DENIED = regex(
    r"(?<=[a-z\d]),? (?:and|but|while|whereas) (?:the (?:other|remaining) )?\d[\d,.]*(?: [a-z]+)?"
    r" (?:do|does|did|are|is|was|were|have|has|will|can)(?:n['’]t| not)\b[^,.;\n]*(?=[.;\n]|$)"
)
_ASKS_DENIED = regex(r"\b(?:not|never|no|without|fewer|other|others|rest|remain\w*|left)\b|n['’]t\b", re.IGNORECASE)
_ASKS = regex(
    r"(?:what is|what['’]s|compute|calculate|evaluate|find|how much is|simplify)\s+(?:the value of\s+)?\$?([^$]+?)\$?",
    re.IGNORECASE,
)
_LONG_WORD = regex(r"[^\W\d_]{3,}")
_CHAIN = regex(r"(?:[^=\n]+=\s*)+?[-−]?\d[\d,]*(?:\.\d+)?(?=\s*\n|\s+(?!x )[^\s=+*/:·×÷−^-][^=\n]*=)")
_QUANTITY = regex(r"\b(?:what is|find|compute|calculate) the ([a-z]+)\b", re.IGNORECASE)
_SEVERAL = regex(r"(?:\band|,) (?:the |its )?[a-z]{3,}|\beach\b|\bboth\b", re.IGNORECASE)
_ASKS_NOUN = regex(
    r"\b(?:what(?: is| was|['’]s)|find|determine|compute|calculate) (?:the|its)"
    r" ((?:[a-z]+ ){0,3}[a-z]{3,}(?: of (?:the |an? )?[a-z]{3,}(?: [a-z]{3,})?)?)",
    re.IGNORECASE,
)
_IS_VALUE = regex(
    r"\b(?:is|are|equals?|was) (?:exactly |then |thus |therefore )?[-−$(\\√π\d]|(?:is|are|equals?) [^=]*="
)
_REFERS = regex(r"\W*(?:he|she|it|this|that|these|they|there|we|so)\b", re.IGNORECASE)
# One way to match each text: commands and words of up to two letters, longer commands, names of functions, signs.
_EXPRESSION = (
    r"(?:[^=A-Za-z\\]|\\[^A-Za-z]|\\?[A-Za-z]{1,2}(?![A-Za-z])|\\[A-Za-z]{3,}"
    r"|(?:sqrt|sin|cos|tan|exp|log)(?![A-Za-z]))+$"
)
_VALUE = regex(r"\d|\$|=|[²³√π]")
_DERIVATIVE = regex(
    r"\b(?:find|determine|compute|calculate|what is) \$?(?:\\[dt]?frac\{)?d([a-z])\}?(?:/|\{)d([a-z])", re.IGNORECASE
)
_SOLVE = regex(r"\W*Solve (?:the equation |for [a-z]:? )?(.*=.*)", re.IGNORECASE)
_INLINE = regex(r"\$[^$]+\$")
_SINGLE = regex(r"(?<![A-Za-z])[a-z](?![A-Za-z])")
_LETTER = regex(
    r"\b(?:find|determine|compute|what is) (?:the value of )?\$?([a-z])\$?(?=\s*[.?]?$|\s(?:such|so) that\b)"
    r"|\b(?:find|determine|what is) the (?:smallest|largest|least|greatest|positive|only|unique)\b[a-z ]* \$?([a-z])\$?"
    r" (?:such|with|for|so|that|satisfying)\b",
    re.IGNORECASE,
)
# What opens a remark, behind which all are remarks.
_REMARKS = regex(
    r"(?:(?<=[.!?:)\]$*])\s+|\n\s*)(?=[*_#>\s\u2190-\u2bff\ufe0f-]{0,6}"
    r"(?:(?:some |a few |one |final |closing |side |an? )?(?:remarks?|comments?|observations?|aside|pointers?"
    r"|hints?|reminders?)\b[^.\n]{0,40}[.:]"
    r"|(?:in|more) general(?:ly)?(?:,| (?:the|if|for|one|we|it|an?)\b)"
    r"|(?:shall (?:we|I)|want me to|would you like|do you want|should I)\b[^\n?]*\?"
    r"|incidentally\b|p\. ?s\.|by the way\b|as an? (?:side note|aside)\b|geometrically,|interestingly\b|fun fact\b"
    r"|if you (?:want|like|wish)\b[^.\n]*\bI can\b|here(?:['’]s| is) (?:how|why)\b(?![^\n]*:\s*\n\s*\|)"
    r"|(?:key )?(?:takeaways?|points to remember|pitfalls)\b"
    r"|(?:pro |study |quick )?tips?:|(?:a )?(?:word|piece"
    r"|bit) of advice:|for (?:the )?curious\b"
    r"|(?:a )?common (?:mistake|error|pitfall)s?\b|explanation:"
    r"|this (?:kind|type|sort) of (?:problem|question)\b|(?:in|for|by) comparison\b"
    r"|why (?:don['’]t|do|does|did|is|are)\b[^.\n]*\?))",
    re.IGNORECASE,
)
# "If the table were a bench, we would have 24": the last sentence.
_IF_IT_WERE = regex(
    r"(?<=[.!?:)\]$*])\s+If (?:the|we|you|it|they|there)\b(?=[^.\n]*\b(?:were|had)\b)(?=[^.\n]*\bwould\b)"
    r"[^.\n]*(?:\.(?=\d)[^.\n]*)*\.?\s*$"
)
_CONCLUDING = regex(
    r"(?:^|[.!?:;]\s+|\n\s*)[*_#\s]*(?:so|thus|hence|therefore|consequently|finally|in conclusion|in total|altogether"
    r"|in our case|here,|the answer|this (?:gives|leaves)|(?:i|we) (?:get|have|find|obtain|choose|pick|conclude))\b"
    r"|\b(?:final )?answer\b",
    re.IGNORECASE,
)
_ASKS_MOST = regex(r"\b(?:maximum|maximal|most|largest|greatest)\b", re.IGNORECASE)
_OPENS_COUNTED = regex(r"\s*(\d[\d,]*(?:\.\d+)?) ([a-z]+)\.\s+(?=[A-Z])")  # "5 minutes. One machine makes ..."
# "I'll stay with 24."
_SETTLES = regex(
    r"\W*(?:I|we|let)(?:['’]ll|['’]m|['’]d|['’]s| will| would)? (?:stay|go|stick|settle|keep|answer|say)",
    re.I,
)
_WHICH_HAS = regex(r", which has (?=(?:exactly |only )?(?:\d|two|three|four|five|six|seven|eight|nine|ten|no)\b)")
_SUPERLATIVE = regex(r"\bthe ([a-z]{3,}(?:est|er))\b(?! of\b)")  # "How old is the oldest?"
_COUNTED = regex(r"\bhow many\b(?! percent)", re.IGNORECASE)
# "List the divisors of 6.", and "There are four in all." at the end of a reply
_ASKS_LIST = regex(
    r"\W*(?:list|name|write (?:down|out)|state|give|which|what are|find) (?:all|the|every|each)?\b", re.IGNORECASE
)
_COUNT_BEHIND = regex(
    r"(?<=[.!?:\w)$])\s*\n\s*(?:so )?(?:there are|that['’]s|that is|that makes|which makes|a total of"
    r"|in total,? there are) "
    r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|twelve)(?: of them| [a-z]+){0,2}"
    r"(?: in (?:all|total)| altogether)[\s.!*]*$",
    re.IGNORECASE,
)
# "so there are 3 such numbers: 2, 4 and 6"
_THERE_ARE = regex(
    r"(?:^|[.!?:,] |\n)(?:so |hence |thus |therefore |in total )?there (?:is|are) (?:exactly )?(?:\d+"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: [a-z-]+){1,5}(?=: [^.:?]*\d[^.:?]*\.?\s*$)",
    re.IGNORECASE,
)
# "What fraction of the class", to which a share is no remark
_ASKS_SHARE = regex(r"percent|%|\b(?:fraction|part|ratio|share|proportion|probability|chance)\b", re.IGNORECASE)
# "so 12 failed, which is 30% of the class", where the question asks how many
_SHARE = regex(r"(?<=[a-z]), (?:which|that) (?:is|makes|means) [\d.]+ ?(?:%|percent)[^.,;\n]*(?=[.;\n]|$)")
_OPTIONS = regex(r"\s*([^\s\n]{1,20})\s*\n\s*\(?A[).]\s")
_REMARK = regex(
    r"\W*(?:recall\b|that is (?:how|why|because)|with (?:this|these)\b"
    r"|the (?:complement\w*|opposite|other|remaining)\b|all other"
    r"|this (?:means|leaves|corresponds)\b.*\bstill\b(?! \d)|(?:he|she|they|it|we) (?:still|started|began)\b)",
    re.IGNORECASE,
)
# "This brings us to 12."
_LEADS_US_TO = regex(
    r"\b(?:leads?|brings?|takes?|gets?) (?:us |him |her |them )?to\b|\b(?:lands?|arrives?|ends? up|settles?) (?:at"
    r"|on|with)\b",
    re.IGNORECASE,
)
_COMES_TO = (
    r"\b(?:gives?|giving|makes?|making|yields?|leaves?|leaving"
    r"|leads?|comes?|totals?|altogether|results?|becomes?|remains?|left)\b|="
)
_LEADS_TO = regex(rf"{_COMES_TO}|\banswer\b", re.IGNORECASE)
_RESULTS = regex(
    rf"{_COMES_TO}|\W*(?:that|(?:the|its) (?:\w+ )?(?:answers?|limit|roots?|solutions?|values?|product"
    r"|sum|result|difference|quotient|total|inverse))\b",
    re.IGNORECASE,
)
_NUMBERED = regex(r"\n\s*(?:Problem|Question|Exercise|Example|Task)\s+\d+\s*[.:)]?\s*$", re.IGNORECASE)
_CORRECTS = regex(r"\W*(?:actually|wait|no\b|but|however|correction|hmm|rather|instead|oops)\b", re.IGNORECASE)
_ASKING = regex(r"\b(?:what|how|which|who|where|when|find|compute|calculate|determine)\b.*", re.IGNORECASE | re.DOTALL)
_PROPER = regex(r"(?<=[^.?!:\s]\s)[A-Z][a-z]+|\b[A-Z][a-z]+(?=['’]s\b)")
_SUBJECT = regex(r"\W*([A-Z][a-z]+)[ ,](?!the\b)")
_ENGLISH_OPENINGS_TEXT = """
    The This That These Those It She He They We You There So Then Thus Hence Each All Both For In As At If Since
    With After When While Now And But One Two Three Four Five Six Seven Eight Nine Ten Half
    Also Here Note Because Adding Dividing Its His Her
"""
_ENGLISH_OPENINGS = frozenset(_ENGLISH_OPENINGS_TEXT.split())


def until_answered(text: str, question: str, gives_answer: Callable[[str], bool]) -> str:
    """The text up to where what it says no longer answers the question; see the rules at the top.

    >>> until_answered("2^8 = 256\\nCompute 2^9. 512", "Compute 2^8.", lambda part: True)
    '2^8 = 256'
    >>> until_answered("So Ben is 12. Carl, twice as old, is 24.", "How old is Ben?", lambda part: True)
    'So Ben is 12.'
    """
    asked = _SENTENCE.split(question.strip())[-1]
    if _COUNTED.search(asked):
        text = _WHICH_HAS.sub(". It has ", text)
    if _COUNTED.search(asked) and (told := _THERE_ARE.search(text)):
        text = text[: told.end()] + "."  # what is counted follows
    if _ASKS_LIST.match(asked) and (counted := _COUNT_BEHIND.search(text)) and gives_answer(text[: counted.start()]):
        text = text[: counted.start()]
    if _COUNTED.search(asked) or not _ASKS_SHARE.search(asked):
        text = _SHARE.sub("", text)
    if ("n't" in text or "n’t" in text or " not" in text) and not _ASKS_DENIED.search(asked):
        text = _DENIED.sub("", text)
    if _ASKS_MOST.search(asked):  # "what is the maximum number": "at most 16" bounds nothing
        text = re.sub(r"\b(?:at most|up to) (?=\d)", "", text)
    if superlative := _SUPERLATIVE.search(asked):  # no remark on one of several, but what is asked for
        text = re.sub(rf"\b({superlative[1]}) of (?:these|them|those)\b", r"\1", text)
    text = _without_remarks(text, asked, gives_answer)
    text = text if answer_phrases(text) else without_aside(text, asked)
    for rule in (_by_opening, _by_chain, _by_quantity):
        if (found := rule(text, asked)) is not None:
            return found
    text = _without_last(_until_alike(text, asked, question, gives_answer), question, gives_answer)
    return text if answer_phrases(text) else _until_remark(text, asked, question)


def _without_remarks(text: str, asked: str, gives_answer: Callable[[str], bool]) -> str:
    """The text up to the first remark behind an answer: from there nothing concludes, corrects, or names what is asked.

    >>> _without_remarks("It is 6. In general it is n - 1. For 3 it is 2.", "How many?", bool)
    'It is 6.'
    """
    wanted = _noun_asked(asked)
    for match in _REMARKS.finditer(text):
        before, behind = text[: match.start()].rstrip(), text[match.start() :]
        if "tip" in asked.lower() and "tip" in behind[:20].lower():
            continue  # what is asked for
        named = wanted and any(
            wanted <= stems(each) and _NUMBER.search(each) for line in behind.split("\n") for each in sentences(line)
        )
        if not (_CONCLUDING.search(behind) or named or is_taken_back(behind)) and gives_answer(before):
            return before
    supposed = _IF_IT_WERE.search(text)
    return text[: supposed.start()] if supposed and gives_answer(text[: supposed.start()]) else text


def _by_opening(text: str, asked: str) -> str | None:
    """The value that goes on an unfinished question, or that stands above options."""
    if asked[-1:].isalpha() and (value := _OPENING_VALUE.match(text)):
        return value[1] or value[2]
    if (told := _OPENS_COUNTED.match(text)) and re.search(rf"\bhow many {told[2]}\b", asked, re.IGNORECASE):
        behind = text[told.end() :]
        if not (_CONCLUDING.search(behind) or _THEREFORE.search(behind) or "=" in behind):
            return f"{told[1]} {told[2]}"
    return options[1] if (options := _OPTIONS.match(text)) else None


def _by_chain(text: str, asked: str) -> str | None:
    """The chain of equalities that opens with what is to be evaluated, where only others follow it."""
    asks = _ASKS.fullmatch(asked.rstrip(" .?"))
    if asks is None:
        return None
    formula = re.sub(r"\s", "", asks[1])
    if _LONG_WORD.search(formula) or not re.sub(r"\s", "", text).startswith(f"{formula}="):
        return None
    chain = _CHAIN.match(text)
    rest = text[chain.end() :] if chain else ""
    return chain[0] if chain and "=" in rest and not _LONG_WORD.search(rest) else None


def _by_quantity(text: str, asked: str) -> str | None:
    """Up to the quantity that the question names, in a row of such: "median: 4 mean: 4.8"."""
    quantity = _QUANTITY.search(asked)
    if quantity is None or "\n" in text.strip() or _SEVERAL.search(asked):
        return None
    found = re.search(rf"\b{quantity[1]}\s*[:=]\s*[-−]?[\d./]+(?=,?\s+[a-z]+\s*[:=])", text, re.IGNORECASE)
    return text[: found.end()] if found else None


def _until_alike(text: str, asked: str, question: str, gives_answer: Callable[[str], bool]) -> str:
    """Up to a sentence that is like the one that asks, by most of its words, with other numbers."""
    words, numbers = _words_of(asked), set(_NUMBER.findall(question))
    for match in list(_SENTENCE.finditer(text))[:MAX_ALIKE]:
        end = _SENTENCE.search(text, match.end())
        sentence = text[match.end() : end.start() if end else len(text)]
        opens, asking = _WORD.match(sentence), _WORD.match(asked)
        asks = "?" not in asked or "?" in sentence or (opens and opens[0] == "If")  # a statement asks nothing
        if opens is None or asking is None or not asks or asking[0].lower() != opens[0].lower():
            continue
        others = _words_of(sentence)
        alike = 5 * len(words & others) >= 3 * len(words | others)
        before = _NUMBERED.sub("", text[: match.start()])  # "Problem 12. What is ...?"
        if alike and set(_NUMBER.findall(sentence)) - numbers and gives_answer(before):
            return before
    return text


def _words_of(text: str) -> set[str]:
    """The words of a text in lower case."""
    return set(map(str.lower, _WORD.findall(text)))


def _without_last(text: str, question: str, gives_answer: Callable[[str], bool]) -> str:
    """The text without a last sentence that sums up the question's data, or rounds what is asked for exactly."""
    said = [sentence for line in text.rstrip().split("\n")[-3:] for sentence in sentences(line)]
    if len(said) < 2:
        return text
    numbers = set(_NUMBER.findall(said[-1]))
    data = len(numbers) > 1 and numbers <= set(_NUMBER.findall(question))
    sums_up = data and _IN_SUMMARY.match(said[-1]) and _THEREFORE.search(said[-2])
    is_rounding = _NUMERICALLY.match(said[-1]) and (_EXACT.search(question) or not _ROUNDS.search(question))
    if not sums_up and not is_rounding:
        return text
    before = text[: text.rfind(said[-1])]
    return before if gives_answer(before) else text


def _until_remark(text: str, asked: str, question: str) -> str:
    """Up to the conclusion that speaks of what is asked, where what follows speaks of something else."""
    said = [sentence for line in without_last_remark(text).split("\n")[-4:] for sentence in sentences(line)]
    while said and (states_nothing(said[-1], notes=True) or not _VALUE.search(said[-1])):
        said.pop()
    if (
        len(said) < 2
        or concludes(said[-1])
        or not (_NUMBER.search(said[-1]) or _told_before(said, _noun_asked(asked)))
        or is_taken_back(said[-1])
        or _CORRECTS.match(said[-1])
        or _SETTLES.match(said[-1])
    ):
        return text
    name, wanted = _name_asked(asked), _noun_asked(asked)
    for place in range(len(said) - 2, max(-1, len(said) - 2 - MAX_BEHIND), -1):
        sentence, behind = said[place], said[place + 1 :]
        if sentence.rstrip("*_ ").endswith((":", "：")):
            return text  # what follows is what it gives
        if name:
            more = stems(_INLINE.sub(" ", asked)) - stems(sentence)
            told_behind = any(more & stems(each) and _IS_VALUE.search(each) for each in behind)
            is_told = is_remark = _tells_name(name, sentence, behind) and not told_behind
        elif is_told := bool(wanted) and _IS_VALUE.search(sentence) is not None and wanted <= stems(sentence):
            is_remark = not any(map(_still_tells(asked, wanted, sentence), behind))
        elif is_told := concludes(sentence) and bool(_NUMBER.search(sentence)) and not sentence.endswith("?"):
            is_remark = _speaks_of_another(said[-1], sentence, asked, question)
        if is_told:
            return text[: text.rfind(sentence) + len(sentence)] if is_remark else text
    return text


def _told_before(said: list[str], wanted: frozenset[str]) -> bool:
    """Whether a sentence before the last gives what is asked for its value, of which the last may say more in words."""
    return bool(wanted) and any(wanted <= stems(each) and _IS_VALUE.search(each) for each in said[:-1])


def _tells_name(name: str, sentence: str, behind: list[str]) -> bool:
    """Whether a sentence ends with a value under a name that the sentences behind it do not speak of."""
    told = re.search(rf"(?<![A-Za-z\d]){re.escape(name)} ?= ?{_EXPRESSION}", sentence)
    again = rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z-])"
    return told is not None and not any(re.search(again, each.replace(told[0].rstrip(".*_ "), "")) for each in behind)


def _still_tells(asked: str, wanted: frozenset[str], sentence: str) -> Callable[[str], bool]:
    """Whether a sentence behind the one that tells what is asked for may tell it anew: by name, more of it, as "it"."""
    more = stems(asked) - stems(sentence)
    return lambda each: bool(
        wanted <= stems(each) or more & stems(each) or _REFERS.match(each) or _LEADS_TO.search(each)
    )


def _speaks_of_another(last: str, conclusion: str, asked: str, question: str) -> bool:
    """Whether a last sentence has less of the question's words than the conclusion before it, and is a remark."""
    asks = _ASKING.search(asked)
    wanted, names = (
        stems(_INLINE.sub(" ", asks[0] if asks else asked)),
        frozenset(name.lower()[:STEM] for name in _names(question)),
    )
    of_last, of_conclusion = (stems(text) & wanted for text in (last, conclusion))
    noun = _noun_asked(asked)
    if _LEADS_US_TO.search(last) or not _WORD.search(last) or (noun and noun <= stems(last) and _IS_VALUE.search(last)):
        return False
    if _REMARK.match(last) and not _ASKS_DENIED.search(asked):
        return len(of_conclusion) >= len(of_last) and bool(of_conclusion)
    subject = _SUBJECT.match(last)
    other = subject is not None and subject[1] not in _ENGLISH_OPENINGS and subject[1].lower()[:STEM] not in wanted
    if _RESULTS.search(last):
        return False
    return (
        bool(of_conclusion & names & wanted)
        if other
        else of_last < of_conclusion and not (of_last and _REFERS.match(last))
    )


def _name_asked(asked: str) -> str | None:
    """The letter, or the derivative, that the question asks for, or the one letter of an equation to be solved.

    >>> _name_asked("Find $x$."), _name_asked(r"Find $\\frac{dy}{dx}$ if $y = x^2$."), _name_asked("Solve $2t = 6$.")
    ('x', 'dy/dx', 't')
    """
    if letter := _LETTER.search(asked):
        return letter[1] or letter[2]
    if derivative := _DERIVATIVE.search(asked):
        return f"d{derivative[1]}/d{derivative[2]}"
    solved = _SOLVE.match(asked)
    letters = set(_SINGLE.findall(re.sub(r"\\[A-Za-z]+", " ", solved[1]))) if solved else set()
    return letters.pop() if len(letters) == 1 else None


def _noun_asked(asked: str) -> frozenset[str]:
    """The stems of what is asked for, where the question names it: "What is the sum of the roots"; else none."""
    noun = _ASKS_NOUN.search(asked)
    return stems(noun[1]) if noun else frozenset()


@lru_cache(maxsize=1024)
def _names(question: str) -> frozenset[str]:
    """The names in a question."""
    return frozenset(_PROPER.findall(question))
