r"""Sets of numbers in words, as intervals: "greater than 2 and at most 6" is ``(2, 6]``, "all reals except 2" is two.

A pair of bounds joined by "and" or "but" is one interval, by "or" a union. "Between" without a word on its ends leaves
them out. The words before the bounds must name a set, or a letter that takes them: "taller than 20 cm" is no set.
"""

import re

_VALUE = r"(?:[a-zA-Z] ?= ?)?(?P<{}>[-−–+]?(?:[\w√π∞{{}}\\\ue000-\uf8ff]|[./](?=\w))+)"
_LOW, _HIGH = _VALUE.format("low"), _VALUE.format("high")
_MORE, _LESS = r"(?:strictly )?(?:greater|more|larger|bigger|higher) than", r"(?:strictly )?(?:less|smaller|fewer) than"
_BOUND = re.compile(
    rf"\b(?:(?P<ge>{_MORE} or equal to|at least|(?:no|not) (?:less|smaller|fewer) than)"
    rf"|(?P<le>{_LESS} or equal to|at most|(?:no|not) (?:more|greater|larger|bigger) than|(?:up )?to and including"
    rf"|not exceeding)|(?P<gt>{_MORE}|above|exceed(?:s|ing))|(?P<lt>{_LESS}|below)) {_VALUE.format('value')}",
    re.IGNORECASE,
)
_JOINT = re.compile(r",? (and|but|or)(?: also)?(?: [a-zA-Z\ue000-\uf8ff])?(?: is| are)? ", re.IGNORECASE)
_ENDS = r"[ ,(]{{0,3}}(?:(?:both|each|with|the|ends?|endpoints?|values|are) ){{0,4}}(?P<{}>(?:in|ex)clu\w+)\)?"
_BETWEEN = re.compile(
    rf"\b(?:the )?(?P<kind>open |closed )?(?:interval )?(?:between|from) {_LOW}(?:{_ENDS.format('first')})?"
    rf",? (?:and|(?:up )?to)(?P<reached> and including)? {_HIGH}(?:{_ENDS.format('last')})?$",
    re.IGNORECASE,
)
_SIGNED = re.compile(
    r"\b(?:all|any|every|the|set of)(?: the| real){0,2} (non-?negative|non-?positive|positive|negative)"
    r"(?: real)? (?:numbers?|reals?|values?)(?: of \w)?$",
    re.IGNORECASE,
)
_SETS = {"positive": "(0, ∞)", "negative": "(-∞, 0)", "nonnegative": "[0, ∞)", "nonpositive": "(-∞, 0]"}
_EXCEPT = re.compile(
    r"\b(?:all|any|every)(?: the| real){0,2} (?:reals?|numbers?|values?|[a-z])(?: (?:of )?[a-z])?,? "
    rf"(?:except|other than|but|excluding|apart from)(?: for| at| when)? {_LOW}(?:,? (?:and|or) {_HIGH})?$",
    re.IGNORECASE,
)
_NAMES_A_SET = re.compile(
    r"(?:^|[\s(,])[a-zA-Z\ue000-\uf8ff](?: (?:is|are|lies?|must|can|could|may|has|have|to|be|needs?|ranges?|varies|any"
    r"|real|numbers?|values?|strictly|either)){1,8}$"
    r"|\b(?:solutions?|domain|range|intervals?|values?|numbers?|reals?|inequality|set|(?:all|any|every) [a-z]|holds"
    r"|converges|increas\w+|decreas\w+|defined|valid)\b[^.;]{0,40}$",
    re.IGNORECASE,
)


def region_in_words(text: str) -> str | None:  # noqa: PLR0911 - one return for each kind of phrase
    """The set of numbers that the words at the end of a text name, as intervals; None where they name none.

    >>> region_in_words("x is greater than 2 and at most 6"), region_in_words("All numbers less than -1 or above 4")
    ('(2, 6]', '(-∞, -1) ∪ (4, ∞)')
    >>> region_in_words("all real numbers except 2"), region_in_words("On day 4 it is taller than 20 cm")
    ('(-∞, 2) ∪ (2, ∞)', None)
    """
    text = text.strip(" .")
    if found := _SIGNED.search(text):
        return _SETS[found[1].lower().replace("-", "")]
    if found := _EXCEPT.search(text):
        low, high = found["low"], found["high"]
        return f"(-∞, {low}) ∪ ({low}, ∞)" if high is None else rf"\mathbb{{R}} \setminus \{{{low}, {high}\}}"
    if (found := _BETWEEN.search(text)) and (found["kind"] or found["last"] or _names(text[: found.start()])):
        return _between(found)
    bounds = list(_BOUND.finditer(text))[-2:]
    if not bounds or bounds[-1].end() != len(text):
        return None
    joint = _JOINT.fullmatch(text[bounds[0].end() : bounds[1].start()]) if len(bounds) > 1 else None
    if joint is None:
        return _half_line(bounds[-1]) if _names(text[: bounds[-1].start()]) else None
    if not _names(text[: bounds[0].start()]):
        return None
    lines = sorted(map(_half_line, bounds), key=lambda line: "-∞" not in line)
    if joint[1].lower() == "or":
        return " ∪ ".join(lines)
    return f"{lines[1].partition(',')[0]},{lines[0].partition(',')[2]}"


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
    return f"{'[' if both or first else '('}{found['low']}, {found['high']}{right}"
