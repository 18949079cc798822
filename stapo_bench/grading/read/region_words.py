r"""Sets of numbers in words, as intervals: "greater than 2 and at most 6" is ``(2, 6]``, "all reals except 2" is two.

A pair of bounds joined by "and" or "but" is one interval, by "or" a union. "Between" without a word on its ends leaves
them out. The words before the bounds must name a set, or a letter that takes them: "taller than 20 cm" is no set.
"""

import re

from stapo_bench.grading.patterns import regex

_VALUE = r"(?:[a-zA-Z] ?= ?)?(?P<{}>[-−–+]?(?:[\w√π∞{{}}\\\ue000-\uf8ff]|[./](?=\w))+)"
_LOW, _HIGH = _VALUE.format("low"), _VALUE.format("high")
_MORE = r"(?:strictly )?(?:greater|more|larger|bigger|higher|longer|later|older|taller|heavier|wider) than"
_LESS = r"(?:strictly )?(?:less|smaller|fewer|lower|shorter|earlier|younger|lighter|narrower) than"
_BOUND = regex(
    rf"\b(?:(?P<ge>{_MORE} or equal to|at least|(?:no|not) (?:less|smaller|fewer) than)"
    rf"|(?P<le>{_LESS} or equal to|at most|(?:no|not) (?:more|greater|larger|bigger) than|(?:up )?to and including"
    rf"|not exceed(?:ing)?)|(?P<gt>{_MORE}|above|exceed(?:s|ing)?)"
    rf"|(?P<lt>{_LESS}|below|under)) {_VALUE.format('value')}",
    re.IGNORECASE,
)
_JOINT = regex(
    r",? (and|but|or|y|e|und|et|и|o|ou|oder|или)(?: also| else)?(?: [a-zA-Z\ue000-\uf8ff])?(?: is| are)? ",
    re.IGNORECASE,
)
_ENDS = (
    r"[ ,(]{{0,3}}(?:(?:both|each|with|the|ends?|endpoints?|values|are) ){{0,4}}(?P<{}>(?:in|ex)clu\w+)"
    r"(?: (?:both|the|ends?|endpoints?|values)){{0,3}}\)?"
)
_BETWEEN = regex(
    rf"\b(?:the )?(?P<kind>open |closed )?(?:interval )?(?:between|from) {_LOW}(?:{_ENDS.format('first')})?"
    r",? (?:and|(?:up )?to|until|till)(?:(?P<reached> and including)|(?P<missed>,? but not including,?))? "
    rf"{_HIGH}(?:{_ENDS.format('last')})?$",
    re.IGNORECASE,
)
_SIGNED = regex(
    r"\b(?:all|any|every|set of|the(?=[^.;]*s$))(?: the| real){0,2} (non-?negative|non-?positive|positive|negative)"
    r"(?: real)? (?:numbers?|reals?|values?)(?: (?:of )?[a-z])?$",
    re.IGNORECASE,
)
_SETS = {"positive": "(0, ∞)", "negative": "(-∞, 0)", "nonnegative": "[0, ∞)", "nonpositive": "(-∞, 0]"}
_EXCEPT = regex(
    r"\b(?:all|any|every)(?: the| real){0,2} (?:reals?|numbers?|values?|[a-z])(?: (?:of )?[a-z])?,? "
    rf"(?:except|other than|but|excluding|apart from)(?: for| at| when)? {_LOW}(?:,? (?:and|or) {_HIGH})?$",
    re.IGNORECASE,
)
_STOP = regex(r"[,;:)]\s|,? and (?:this|that|so|hence|thus)\b|\)$")
MAX_STOPS = 6  # ends of clauses behind which a set of numbers may stand
_SIGNS = regex(r"\b(non-?negative|non-?positive|positive|negative)(?= (?:and|but) )", re.IGNORECASE)
_DENIED = regex(r"\b(?:not?|none|never|neither|outside|except)\b|n['’]t\b", re.IGNORECASE)
# "x is any number from -3 upwards"
_ONWARDS = regex(
    r"\b([a-z] (?:is|may be|can be|must be|takes)) (?:any (?:real )?(?:number|value) )?from ([-−]?[\w./√π]+)"
    r" (?:up|upwards?|on|onwards?)(?:,? (?:\2 |and )?includ\w+(?: \2)?)?$"
)
_FROM_ON = regex(r"\ball (?:the )?(?:real )?numbers from ([-−]?[\w./√π]+) (?:up|upwards?|on|onwards?)\b")
# "between -3 and 5, but cannot be equal to either of them"
_NOT_ENDS = regex(
    r",? (?:but|and) (?:it |[a-z] )?(?:cannot|can['’]t|is not"
    r"|isn['’]t|not|never|doesn['’]t|does not) (?:be |allowed to be )?(?:equal(?:s)?(?: to)?"
    r"|reach(?:es)?|attain\w*|includ\w+) (?:either|any|these|those|them|both)\b[^.,;]*$"
)
_POSITIVE = regex(r"\bpositive (?=\d)", re.IGNORECASE)  # "from -4 to positive 4"
_SIGNED_AS = {
    "positive": "greater than 0", "negative": "less than 0", "nonnegative": "at least 0", "nonpositive": "at most 0",
}  # fmt: skip
# The words of bounds in German, French, Spanish and Russian.
_FOREIGN = regex(
    r"\b(?:(?P<ge>mindestens|größer oder gleich|au moins|supérieure?s? ou éga\w+ à|al menos|pelo menos|almeno"
    r"|m(?:ay|ai)or\w* ou? igual\w* (?:que|a)|maggior\w* o ugual\w* (?:di|a)|не меньше|больше или равн\w+)"
    r"|(?P<le>höchstens|kleiner oder gleich|au plus|inférieure?s? ou éga\w+ à|a lo sumo|no máximo|al massimo"
    r"|menor\w* ou? igual\w* (?:que|a)|minor\w* o ugual\w* (?:di|a)|не больше|меньше или равн\w+)"
    r"|(?P<gt>größer als|supérieure?s? à|m(?:ay|ai)or\w* (?:do que|que|a)|maggior\w* di|больше)"
    r"|(?P<lt>kleiner als|inférieure?s? à|menor\w* (?:do que|que|a)|minor\w* di|меньше))\b",
    re.IGNORECASE,
)
_ENGLISH = {"ge": "at least", "le": "at most", "gt": "greater than", "lt": "less than"}
_NAMES_A_SET = regex(
    r"(?:^|[\s(,])[a-zA-Z\ue000-\uf8ff](?:,? (?:is|are|lies?|must|can|could|may|has|have|to|be|needs?|ranges?|varies"
    r"|any|real|numbers?|values?|strictly|either|does|do|which|that|die|deve|debe|ser|doit|être|muss|sein|essere|es|è|é"
    r"|должен|должно|быть)){1,8}$"
    r"|\b(?:solutions?|domain|range|intervals?|values?|numbers?|números (?:reales|reais)|nombres réels"
    r"|reellen? Zahlen|numeri reali|reals?|inequality|set|(?:all|any|every) [a-z]|holds"
    r"|converges|increas\w+|decreas\w+|defined|valid)\b[^.;]{0,40}$",
    re.IGNORECASE,
)


def last_region(text: str) -> str | None:
    """The last set of numbers of a text that is known to name one, whatever it calls it and says behind it.

    >>> last_region("it's longer than 5 but shorter than 13, and this is all")
    '(5, 13)'
    """
    text = text.strip(" .")
    ends = [len(text), *(stop.start() for stop in reversed(list(_STOP.finditer(text))))]
    return next((region for end in ends[:MAX_STOPS] if (region := region_in_words(text[:end], True))), None)


def region_in_words(text: str, is_one: bool = False) -> str | None:  # noqa: PLR0911 - one return for each kind of phrase
    """The set of numbers that the words at the end of a text name, as intervals; None where they name none.

    ``is_one``: the text is known to name a set of numbers, so that no word before the bounds has to say so.

    >>> region_in_words("x is greater than 2 and at most 6"), region_in_words("All numbers less than -1 or above 4")
    ('(2, 6]', '(-∞, -1) ∪ (4, ∞)')
    >>> region_in_words("all real numbers except 2"), region_in_words("On day 4 it is taller than 20 cm")
    ('(-∞, 2) ∪ (2, ∞)', None)
    """
    if "absolute value" in text:
        return None
    text = _FROM_ON.sub(r"all x at least \1", text)
    text = _ONWARDS.sub(r"\1 at least \2", _NOT_ENDS.sub("", text))
    text = _in_english(_POSITIVE.sub("", text.strip(" .")))
    text = _SIGNS.sub(lambda sign: _SIGNED_AS[sign[1].lower().replace("-", "")], text)
    if found := _SIGNED.search(text):
        return _SETS[found[1].lower().replace("-", "")]
    if (found := _EXCEPT.search(text)) and "=" not in text[: found.start()]:
        low, high = found["low"], found["high"]
        return f"(-∞, {low}) ∪ ({low}, ∞)" if high is None else rf"\mathbb{{R}} \setminus \{{{low}, {high}\}}"
    if (found := _BETWEEN.search(text)) and (found["kind"] or found["last"] or is_one or _names(text[: found.start()])):
        return None if _DENIED.search(text[: found.start()].rpartition(",")[2]) else _between(found)
    bounds = list(_BOUND.finditer(text))[-2:]
    if not bounds or bounds[-1].end() != len(text):
        return None
    joint = _JOINT.fullmatch(text[bounds[0].end() : bounds[1].start()]) if len(bounds) > 1 else None
    if joint is None:
        return _half_line(bounds[-1]) if is_one or _names(text[: bounds[-1].start()]) else None
    if not is_one and not _names(text[: bounds[0].start()]):
        return None
    lines = sorted(map(_half_line, bounds), key=lambda line: "-∞" not in line)
    if joint[1].lower() in ("or", "o", "ou", "oder", "или"):
        return " ∪ ".join(lines)
    return f"{lines[1].partition(',')[0]},{lines[0].partition(',')[2]}"


def _in_english(text: str) -> str:
    """The text with the words of its bounds in English, and without the verb that may end a clause of the others."""
    english = _FOREIGN.sub(lambda bound: _ENGLISH[bound.lastgroup or ""], text)
    return english if english == text else re.sub(r" (?:sind|ist|sein)$", "", english)


def _names(before: str) -> bool:
    """Whether the words before a bound name what is bounded: a set of numbers, or a letter."""
    return not before.strip() or _NAMES_A_SET.search(before.rstrip()) is not None


def _half_line(bound: re.Match[str]) -> str:
    """The half-line of one bound."""
    if bound["ge"] or bound["gt"]:
        return f"{'[' if bound['ge'] else '('}{bound['value']}, ∞)"
    return f"(-∞, {bound['value']}{']' if bound['le'] else ')'}"


def _between(found: re.Match[str]) -> str:
    """The interval between two values, with the ends that the words around them include."""
    first, last = ((found[name] or "").lower().startswith("in") for name in ("first", "last"))
    both = (found["kind"] or "").lower().startswith("closed") or (last and not found["first"])
    right = "]" if last or both or found["reached"] else ")"
    left = "[" if first or both or found["reached"] or found["missed"] else "("
    return f"{left}{found['low']}, {found['high']}{right}"
