r"""The names of an answer's parts: the gold's own ("length 8, width 6"), else those that the question asks for."""

import re
from collections.abc import Iterator
from functools import lru_cache

from stapo_bench.grading.extraction.named_parts import plain
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import WORDS

MAX_QUESTION = 2_000  # characters from the end of a question that are read
Names = tuple[frozenset[str], ...]
COORDINATES = (frozenset({"x-coordinate"}), frozenset({"y-coordinate"}))  # of a point, whatever is asked
_GENERIC_WORDS = """
    number value many much coordinate equation measure exact real positive integer constant possible two three both zahl
    anzahl wert nombre valeur numero número valor
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_SMALL_WORDS = """
    the it its their hi her a an how what i is are was were be find give state determine compute calculate also then
    both of in me u die der da den dem ihre seine ihr sein wie lang groß viele la le les el los las sa son ses su un una
    une il lo de des du del von di quelle quel quelles quels sont est cuál cuáles es cuánto cuántos cuántas combien
    respective that and und et now today then jetzt heute
"""
_SMALL = frozenset(_SMALL_WORDS.split())
_ASK = regex(
    r"\b(?:find|state|give|what (?:is|are|were|was)|how \w+(?: (?:is|are|was|were|does|do|did)\b)?"
    r"|determine|compute|calculate|write|report|bestimmen?(?: sie)?|berechnen?(?: sie)?"
    r"|finden?(?: sie)?|gib|wie viele|trouve[rz]?|calcule[rz]?|détermine[rz]?|donne[rz]?|hall(?:a|ar|e)"
    r"|encuentra|calcula|determina|trova|quel(?:le)?s? (?:est|sont)|combien de|cuáles? (?:es|son)|cuánt[oa]s)\b",
    re.IGNORECASE,
)
_SENTENCE_END = regex(r"(?<=[.?!])\s+")
_AND = r"(?:and|und|et|y|e)"
# "length, width and height" in pieces
_CHUNK = regex(rf",\s*(?:{_AND}\s+)?|\s+{_AND}\s+")
# What ends the noun that is asked for: "length of", "boys are"
_BREAK = regex(
    r"[(:;=<>$\d?.]|\b(?:of|when|if|with|for|that|in|on|such|where|which|are"
    r"|is|do|does|to|from|by|as|there|did|has|have|each|eines|einer|von|wenn|de|des|du|del|si|quand|lorsque|cuando)\b",
    re.IGNORECASE,
)
_WORD = regex(r"[^\W\d_]+(?:-[^\W\d_]+)*")
# "(length, width)"
_TUPLE = regex(r"(?<![\w\\^}])\(\s*([^()\d=<>,;]{1,40}[,;][^()\d=<>]{1,120}?)\s*\)")
_ITEM = regex(r"[A-Za-z]|[^\W\d_]{2,}(?:[ '’-][^\W\d_]+){0,3}")
# "Find $p$ and $q$"
_LETTERS_ASKED = regex(
    r"\b(?:find|determine|compute|give|state|for|are|values? of|constants|integers|numbers|reals?|primes)\s+"
    rf"(\$?[A-Za-z]\$?(?:(?:\s*,\s*(?:and\s+)?|\s+{_AND}\s+)\$?[A-Za-z](?![A-Za-z])\$?)+)",
    re.IGNORECASE,
)
_BETWEEN_LETTERS = regex(rf"\s*,\s*(?:and\s+)?|\s+{_AND}\s+")
_FORMULA = regex(r"\$[^$]*\$")
_LETTER = regex(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_STYLE = regex(r"\\(?:text|mathrm|textbf|mathbf)\w*\s*\{([^{}]*)\}|\\[ ,;:]|\\q?quad(?![A-Za-z])|\$")
_HAS_VALUE = regex(r"[\d(=:]")
# "length 8", "a = 3"; "13 cars"
_NAME_AND_VALUE = regex(
    r"\s*(?:and )?([^\W\d_][^\W\d_]+(?:[ -][^\W\d_]+){0,3}|[A-Za-z])\s*(?:[=:]\s*|\s(?=\S)|(?=\())[^=]*(?:=[^=]*)?"
)
_VALUE_AND_NAME = regex(r"\s*(?:and )?[-−]?[\d.,/]*\d\s+([^\W\d_][^\W\d_]+(?:[ -][^\W\d_]+){0,3})\s*")


@lru_cache(maxsize=512)
def part_names(parts: tuple[str, ...], question: str) -> tuple[Names, ...]:
    r"""What the parts of a gold may be called, the likeliest first: its own names, else the question's.

    >>> [sorted(name) for name in part_names(("13 cars", "7 motorcycles"), "")[0]]
    [['C', 'c', 'car'], ['M', 'm', 'motorcycle']]
    >>> [sorted(name) for name in part_names(("8", "5"), "Find length and width. Give (width, length).")[0]]
    [['W', 'w', 'width'], ['L', 'l', 'length']]
    >>> part_names(("3", "5"), "Find all primes less than 6.") == (COORDINATES,)
    True
    """
    question = question[-MAX_QUESTION:]
    own = [_of_gold(part) for part in parts]
    if all(own):
        candidates: list[list[list[str]]] = [[name for name in own if name]]
    else:
        is_plain = not any("," in part for part in parts)
        candidates = [*_tuples(question, len(parts)), *_letters(question, len(parts)), *_asked(question, len(parts))]
        candidates = [names for names in candidates if is_plain or all(len("".join(name)) > 1 for name in names)]
    letters = set(_LETTER.findall(" ".join(_FORMULA.findall(question))))
    found = [names for names in (_distinct(names, letters) for names in candidates) if names is not None]
    found += [COORDINATES] if len(parts) == 2 else []
    return tuple(dict.fromkeys(found))


def _of_gold(part: str) -> list[str] | None:
    r"""The words that name a part of a gold: "length 8", "13 cars", "\text{radius }3", "a = 3"; None without such.

    >>> _of_gold("length 8"), _of_gold(r"\text{ radius }3"), _of_gold("13 cars"), _of_gold("a=3"), _of_gold("3 cm")
    (['length'], ['radius'], ['car'], ['a'], None)
    """
    bare = _STYLE.sub(lambda match: f" {match[1]} " if match[1] else " ", part)
    match = _VALUE_AND_NAME.fullmatch(bare) or (_NAME_AND_VALUE.fullmatch(bare) if _HAS_VALUE.search(bare) else None)
    if match is None or (len(match[1]) == 1 and "=" not in bare):
        return None
    words = [match[1]] if len(match[1]) == 1 else _words(match[1])
    return None if not words or any(word in WORDS or f"{word}s" in WORDS for word in words) else words


def _words(text: str) -> list[str]:
    """The words of a name without small and general ones, in plain form; a letter alone is itself."""
    if len(text) == 1:
        return [text]
    words = [plain(word) for word in _WORD.findall(text)]
    return [word for word in words if len(word) > 1 and word not in _SMALL and word not in _GENERIC]


def _tuples(question: str, wanted: int) -> Iterator[list[list[str]]]:
    """The names in brackets of a question, "(length, width)" or "(a, b)", the last first."""
    for match in reversed(list(_TUPLE.finditer(question.replace("\\left", "").replace("\\right", "")))):
        items = [item.strip(" $") for item in re.split(r"[,;]", match[1])]
        if len(items) == wanted and all(_ITEM.fullmatch(item) for item in items):
            yield [_words(item) for item in items]


def _letters(question: str, wanted: int) -> Iterator[list[list[str]]]:
    """The letters that a question asks for: "Find $p$ and $q$", "constants $A$, $B$"."""
    for match in _LETTERS_ASKED.finditer(question):
        letters = [letter.strip(" $") for letter in _BETWEEN_LETTERS.split(match[1])]
        if len(letters) == wanted:
            yield [[letter] for letter in letters]


def _asked(question: str, wanted: int) -> Iterator[list[list[str]]]:
    """The names in words that a sentence of a question asks for: "Find its length and width"."""
    for sentence in _SENTENCE_END.split(question):
        chunks = _CHUNK.split(sentence)
        for first in range(len(chunks) - wanted + 1):
            asks = list(_ASK.finditer(chunks[first]))
            if asks:
                heads = [chunks[first][asks[-1].end() :], *chunks[first + 1 : first + wanted]]
                yield [_head(_ASK.sub(" ", head)) for head in heads]


def _head(text: str) -> list[str]:
    """The words of the noun that a text opens with.

    >>> _head("the length of a rectangle"), _head("the number of boys"), _head("motorcycles are there?")
    (['length'], ['boy'], ['motorcycle'])
    """
    start = 0
    for match in _BREAK.finditer(text):
        if words := _words(text[start : match.start()].strip()):
            return words
        if not _WORD.search(match[0]):
            return []
        start = match.end()
    return _words(text[start:].strip())


def _distinct(names: list[list[str]], letters: set[str]) -> Names | None:
    """The names without what two of them share, with their initials where these differ and mean nothing else."""
    bare = [
        frozenset(word for word in name if not any(word in other for other in names if other is not name))
        for name in names
    ]
    if not all(0 < len(name) <= 4 for name in bare):
        return None
    initials = [name[0][0].lower() for name in names]
    if len(set(initials)) < len(names) or any(len(word) == 1 for name in bare for word in name):
        return tuple(bare)
    if letters & {case for initial in initials for case in (initial, initial.upper())}:
        return tuple(bare)
    return tuple(name | {initial, initial.upper()} for name, initial in zip(bare, initials, strict=True))
