r"""Parts of an answer under names that gold or question give them: "the width is 6 and the length 12", "7 cars".

Each segment of a sentence, between commas and "and", gives one name its value: behind the name, before it, or as the
equation of a letter. Names side by side ("the width and length are 6 and 12") meet the values side by side behind them.
Working, conditions and comparisons give none, and what is said behind the named values leaves them without effect.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from stapo_bench.grading.extraction.asides import is_check, states_nothing
from stapo_bench.grading.extraction.boxes import boxes
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.extraction import THINK_END
from stapo_bench.grading.extraction.formulas import Hidden, hide_formulas
from stapo_bench.grading.extraction.spans import spans
from stapo_bench.grading.extraction.statements import sentences
from stapo_bench.grading.extraction.tokens import tokens
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import NEXT_PART, NEXT_VALUE, singular

MAX_TAIL = 600  # characters from the end in which the parts stand
MAX_BOXED = 4_000  # characters from the end in which boxes stand
MAX_WORDS = 5  # between a name and its value
_MARKS = regex(r"\*\*|__|`|\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ]|\\q?quad(?![A-Za-z])")
_IN_TEXT = regex(r"\\(?:text|mathrm|textbf|mathbf|textrm)\s*\{([^{}]*)\}")
# "| width | 6 |"
_ROW = regex(r"^\s*\|([^|\n]*[^\W\d_][^|\n]*)\|([^|\n]*\d[^|\n]*)\|\s*$", re.MULTILINE)
# "w = 6", "(x, y) = (3, 4)", "width = 6"
_EQUATION = regex(r"\s*([A-Za-z]\w*|\([\w\s,;]+\)|[A-Za-z]{3,}[\w ]*)\s*=")
_BRACKETS = regex(r"[(\[][^()\[\]]*[)\]]")
_WORDS_INSIDE = regex(r"[^\W\d_]{3}")
# "is 2π over 2, that is π"
_APPOSED = regex(r"(\b(?:is|are) )(?:(?! (?:is|are) )[^,;.=]){1,40},? (?:i\.e\.|that is),? (?=[-−\d√π(\ue000-\uf8ff])")
_CONTRAST_BEHIND = regex(r",? (?:rather than|instead of|and not) [^,;.]+(?=[,;.]|$)")
_AS_FOR = regex(r"\b[Aa]s for ((?:the|its) [a-z]+), (?=[-−\d√π(\ue000-\uf8ff])")
_COMMA, _AND = "\x00", "\x01"  # inside brackets
_ANDS = r"(?:and|und|et|y(?!\s*[=:])|sowie|e(?=\s+(?:il|la|lo|o|a)\b))"
_SEGMENT = regex(
    rf"[;|؛]|,\s+|,(?=[^\d\s])|:\s+(?=[A-Za-z]\s*=)|\s[—–→]\s|\s*(?:⟹|⇒|=>|→|\\implies|\\Rightarrow)\s*|\s+{_ANDS}\s+"
    r"|\s+(?:while|whereas|with|whose|so|hence|thus|therefore|then|also|donc|luego|but|gives|giving)\s+"
)
_WORD = regex(r"(?<![\w\\^])[^\W\d_]+(?:['’-][^\W\d_]+)*")
_OF = regex(r"\s(?:of|de|des|du|der|del|von|di)\s")
# A segment that supposes, denies or compares: "if the width is 6", "twice the width"
_HYPOTHESIS = regex(
    r"\b(?:if|suppose|assume|when|not|cannot|unless|would|were|instead|wrong|incorrect|wenn|falls|nicht|kein\w*|si"
    r"|pas|least|most|than|twice|thrice|double|half|times|doppelt|halb|doble|mitad|moitié|each|every|per)\b|n['’]t\b",
    re.IGNORECASE,
)
_OPEN = regex(r"\b(?:or|oder|maybe|perhaps|possibly|either)\b|±|\\pm\b|\bou\b", re.IGNORECASE)
_OPERATOR = regex(r"[-+*/^×·÷<>≤≥≠−±|]")
# Behind a value that is no part: "6 more than", "6 of", "6 + 2"
_BEHIND_BAD = regex(
    r"^\s*(?:%?\s*of|for|in|out|from)\b|[-+*/^×·÷<>≤≥≠−=]|\b(?:than|times|more|less|as|plus|minus|by|larger"
    r"|smaller|longer|shorter|greater|fewer)\b"
)
# Between a value and its name: "7 (red) cars", "7 is the number"
_BEFORE_NAME = regex(
    r"\s*\(?\s*(?:(?:is|are|was|were|as|for|ist|sind|est"
    r"|sont|es|son|è|sono)\s+)?(?:(?:the|its|their|a|die|der|das|la|le|les|el|los|las|il|lo)\s+)?(?:[^\W\d_]+\s+)?",
    re.IGNORECASE,
)
# Between names side by side, and between these and their values: "width and the length are 6 and 12"
_NAMES_BETWEEN = regex(rf"[\s,$]*(?:{_ANDS}\s+)?(?:(?:the|its|their|of|die|der|la|le|el|un|una)\s+)*", re.IGNORECASE)
_VALUES_BEHIND = regex(
    r"[)\]\s$:]*(?:[^\W\d_]+\s+){0,5}?(?:is|are|was|were|=|:|sind|sont|son|ist|est|es)\s*[^\W\d_\s]*\s*"
)
_BOTH = regex(r"\b(?:both|each|all|beide|les deux|ambos)\b", re.IGNORECASE)
_AND_OR_COMMA = regex(rf",\s*(?:{_ANDS}\s+)?|\s+{_ANDS}\s+")
_LETTER_IS = r"(?<![\w\\^]){letter}(?:\s*[=:]|\s+(?:is|equals|equal to|ist|est|es|vaut)\b)"
_LETTER_VALUE = regex(r"([A-Za-z])\s*=\s*(.+)")
_REASON = regex(  # what may follow the last of the parts in its sentence
    r"\W*(?:since|because|as|for|check|whose|indeed|weil|denn|car|porque|in)\b"
    r"|.*\b(?:in total|altogether|together|insgesamt|zusammen|en total|en tout)\b",
    re.IGNORECASE,
)
_LETTERS = regex(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_DIGIT = regex(r"[\d\ue000-\uf8ff]")
# Other spellings, and words whose "s" is no plural.
_SAME = {"centre": "center", "max": "maximum", "min": "minimum", "radius": "radius", "axis": "axis"}


class _Said(NamedTuple):
    """What a segment says of a part: which one, and its value."""

    part: int
    value: str


def plain(word: str) -> str:
    """A word as names are compared: small, without its plural, in one spelling; a letter as it stands.

    >>> plain("Centre"), plain("cars"), plain("E")
    ('center', 'car', 'E')
    """
    return word if len(word) == 1 else _SAME.get(word.lower(), singular(word.lower()))


def values_under(text: str, names: Sequence[frozenset[str]]) -> list[str] | None:
    """The value that the end of a text gives each of the names, in their order; None where one has none.

    ``names``: of each part the words, in the form of ``plain``, or letters that name it and no other.

    >>> sides = [frozenset({"length", "l"}), frozenset({"width", "w"})]
    >>> values_under("If w is the width, then 6w = 36, and so the width is 6 and the length 12.", sides)
    ['12', '6']
    >>> values_under("So w = 6. As l = 2w, l = 12.", sides), values_under("The width is half the length, 6.", sides)
    (['12', '6'], None)
    >>> values_under("The width is 6 and the length 12. The answer is (6, 12).", sides) is None
    True
    """
    hidden = _hidden(text[-MAX_TAIL:])
    found: dict[int, str] = {}
    for line in reversed(hidden.text.split("\n")):
        for sentence in reversed(list(sentences(line))):
            if states_nothing(sentence, notes=False) or is_check(sentence):
                continue
            said, goes_on = _said(sentence, hidden, names)
            now = dict(said)
            if not said:
                if not found and _DIGIT.search(sentence):
                    return None  # the end states something else
                continue
            if _OPEN.search(sentence) or (not found and goes_on) or any(now[part] != value for part, value in said):
                return None
            if len(found) == len(names):
                if len(now) == len(names) and now != found:
                    return None  # another answer beside it
                continue
            found = now | found
    return [found[part] for part in range(len(names))] if len(found) == len(names) else None


def in_boxes(completion: str, names: Sequence[frozenset[str]]) -> list[str] | None:
    r"""The contents of the last boxes by the names beside them, in the order of the names; None where not each has one.

    >>> sides = [frozenset({"length"}), frozenset({"width"})]
    >>> in_boxes(r"The width is $\boxed{6}$ and the length is $\boxed{12}$.", sides)
    ['12', '6']
    """
    text = THINK_END.split(completion[-MAX_BOXED:])[-1]
    found = boxes(text) or []
    if len(found) != len(names):
        return None
    for box in reversed(found):
        text = f"{text[: box.start]}{box.content}{text[box.end :]}"
    values = values_under(text, names)
    return values if values is not None and sorted(values) == sorted(box.content.strip() for box in found) else None


def _hidden(text: str) -> Hidden:
    """The text without marks, its formulas hidden but those that give a name its value."""
    text = _IN_TEXT.sub(r" \1 ", text.replace(NEXT_VALUE, ", ").replace(NEXT_PART, ", "))
    hidden = hide_formulas(_ROW.sub(r"\1: \2", text) if "|" in text else text)
    shown = "".join(_shown_equation(hidden.shown(char)) or char if char >= "\ue000" else char for char in hidden.text)
    return Hidden(_MARKS.sub(" ", shown), hidden.formulas)


def _shown_equation(formula: str) -> str | None:
    """A formula that opens with a name and "=", as text; None of any other."""
    return f" {formula.strip()} " if _EQUATION.match(formula) else None


def _said(sentence: str, hidden: Hidden, names: Sequence[frozenset[str]]) -> tuple[list[_Said], bool]:
    """What a sentence says of the parts, in its order, and whether it goes on to another value."""
    sentence = _AS_FOR.sub(r"\1 is ", _CONTRAST_BEHIND.sub("", sentence))
    sentence = _APPOSED.sub(r"\1", sentence)
    sentence = _BRACKETS.sub(lambda match: _in_brackets(match[0], names), sentence.rstrip(" .!*"))
    if (in_a_row := _side_by_side(sentence, hidden, names)) is not None:
        return in_a_row, False
    said: list[_Said] = []
    goes_on = False
    for segment in _SEGMENT.split(sentence):
        if (pair := _pair(segment, hidden, names)) is not None:
            said.append(pair)
            goes_on = False
        elif _DIGIT.search(segment) and not _REASON.match(segment):
            goes_on = True
    return said, goes_on


def _in_brackets(content: str, names: Sequence[frozenset[str]]) -> str:
    """What stands in brackets: a tuple in one piece, names without them, and no remark."""
    inner = content[1:-1].strip()
    words = [plain(word) for word in _WORD.findall(inner)]
    if words and not re.search(r"[\d=]", inner) and all(any(word in name for name in names) for word in words):
        return f" {inner} " if len(words) > 1 or len(words[0]) > 1 else " "
    if _WORDS_INSIDE.search(inner):
        return " "
    return content.replace(",", _COMMA).replace(" and ", _AND)


def _side_by_side(sentence: str, hidden: Hidden, names: Sequence[frozenset[str]]) -> list[_Said] | None:
    """The values of names that stand side by side; [] where none stand behind them, None where the names do not."""
    hits = [
        (match.start(), match.end(), part)
        for match in _WORD.finditer(sentence)
        for part, name in enumerate(names)
        if plain(match[0]) in name
    ]
    for first in range(len(hits) - len(names) + 1):
        row = hits[first : first + len(names)]
        parts = [part for *_, part in row]
        between = [sentence[left[1] : right[0]] for left, right in pairwise(row)]
        if len(set(parts)) < len(names) or not all(_NAMES_BETWEEN.fullmatch(text) for text in between):
            continue
        link = _VALUES_BEHIND.match(sentence, row[-1][1])
        runs = spans(tokens(sentence[link.end() :].replace(_COMMA, ",").replace(_AND, " and "))) if link else []
        values = (
            _AND_OR_COMMA.split(hidden.shown(runs[0].text).strip().removeprefix("(").removesuffix(")")) if runs else []
        )
        if len(values) == 1 and _BOTH.search(sentence, 0, hits[first][0]):
            values = values * len(names)
        if len(values) == len(names):
            return [_Said(part, value.strip()) for part, value in zip(parts, values, strict=True)]
        if all(end - start > 1 for start, end, _ in row):
            return []
    return None


def _pair(segment: str, hidden: Hidden, names: Sequence[frozenset[str]]) -> _Said | None:
    """The part that a segment names, with its value; None where it names none, several, or no value."""
    if _HYPOTHESIS.search(segment):
        return None
    segment = segment.replace(_COMMA, ",").replace(_AND, " and ")
    hits = [
        (match.start(), match.end(), part)
        for match in _WORD.finditer(segment)
        if len(match[0]) > 1
        for part, name in enumerate(names)
        if plain(match[0]) in name
    ]
    if len({part for *_, part in hits}) > 1 and (of := _OF.search(segment)):
        first = {part for _, end, part in hits if end <= of.start()}
        hits = [(start, end, next(iter(first))) for start, end, _ in hits] if len(first) == 1 else hits
    if len({part for *_, part in hits}) > 1:
        return None
    if hits:
        part = hits[0][2]
        behind = _behind(segment[hits[-1][1] :], hidden, names[part])
        before = _before(segment[: hits[0][0]], hidden) if not _DIGIT.search(segment, hits[-1][1]) else None
        value = behind or before
        return _Said(part, value) if value is not None else None
    return _of_letter(segment, hidden, names)


def _of_letter(segment: str, hidden: Hidden, names: Sequence[frozenset[str]]) -> _Said | None:
    """The part whose letter a segment gives a value, "w = 6", with that value; None of any other."""
    for part, name in enumerate(names):
        for letter in (word for word in name if len(word) == 1):
            match = re.search(_LETTER_IS.format(letter=letter), segment)
            if match is None or _OPERATOR.search(segment[: match.start()].rstrip()[-1:]):
                continue
            value = _behind(segment[match.end() :], hidden, name)
            others = {other for other_name in names for other in other_name if len(other) == 1}
            return None if value is None or others & set(_LETTERS.findall(value)) else _Said(part, value)
    return None


def _behind(text: str, hidden: Hidden, name: frozenset[str]) -> str | None:
    """The value that follows a name; None where more than a few small words lies between."""
    if text.lstrip().startswith(":") and "=" in text:
        text = f": {text.rpartition('=')[2]}"  # "Variance: σ² = np(1 − p) = 3.75"
    runs = [run for run in spans(tokens(text)) if not run.is_bare_letter or run.text == "π"]
    if len(runs) != 1:
        return None
    lead, tail = text[: runs[0].start], text[runs[0].end :]
    if len(_WORD.findall(lead)) > MAX_WORDS or _OPERATOR.search(lead) or _BEHIND_BAD.search(tail):
        return None
    return _value(hidden.shown(runs[0].text), name)


def _before(text: str, hidden: Hidden) -> str | None:
    """The value that a name follows: "7 cars", "7 is the number of cars"; None where other words lie between."""
    runs = [run for run in spans(tokens(text)) if not run.is_bare_letter]
    if not runs or not _BEFORE_NAME.fullmatch(text[runs[-1].end :]):
        return None
    return _value(hidden.shown(runs[-1].text), frozenset())


def _value(text: str, name: frozenset[str]) -> str | None:
    """The end of a chain of equalities, without the letter that is the part's own name.

    >>> _value("12/2 = 6", frozenset()), _value("w = 6", frozenset({"w"})), _value("2w = 12", frozenset({"l"}))
    ('6', '6', '12')
    >>> _value("x = 3", frozenset({"axis"}))
    'x = 3'
    """
    value = chain_end(text.strip().lstrip("= "))
    if (named := _LETTER_VALUE.fullmatch(value)) and named[1] in name:
        return named[2].strip()
    last = value.rpartition("=")[2].strip()
    if "=" in value and not named:
        return None if not last or _LETTERS.search(last) else last
    return value or None
