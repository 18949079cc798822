"""Chains of equalities: which member is the answer."""

import re

from stapo_bench.grading.patterns import regex

_EQUALS = regex(r"(?<![<>=!:\\])=(?!=)")
_RELATIONS = regex(r"[<>≤≥≠]|\\(?:le|ge|lt|gt|leq|geq|ne|neq|equiv|in|approx|implies|iff|Rightarrow|to)(?![A-Za-z])")
_IMPLIED = regex(
    r"\\(?:iff|implies|Rightarrow|Leftrightarrow|Longrightarrow|Longleftrightarrow|to|longrightarrow)(?![A-Za-z])"
    r"|[⇒⇔⟹⟺→]"
)
_UNDER = regex(r"_\{[^{}]*\}")  # "\lim_{n\to\infty}" implies nothing
_JOINTS = regex(r"[,;](?:\s+and)?(?:\s|\\[ ,;:q]|(?=\s))| and | or |\\text\s*\{\s*(?:and|or)\s*\}")
_ARITHMETIC = regex(r"[^A-Za-z=]*\d[^A-Za-z=]*[-−+*/·×÷^√²³][^=]*")
_LOGARITHM = regex(r"\s*\\?(?:log|ln|lg)\s?(?:_\{?\d+\}?|[₀-₉]+)?\s?[^a-zA-Z=]+")
_REASON_BEHIND = regex(r"\\q?quad\s*\(\s*\\text\s*\{\s*(?:since|because|as|check|for|where)\b.*$")
_UNEQUAL_BEHIND = regex(
    r"(?<=[^=]),?\s*\\q?quad\s*\(?\s*(?:\\text\{ ?(?:for|where) ?\}\s*)?[a-z]\s*\\neq?\s*-?\d+\)?\s*$"
)
_VARIABLE = regex(r"(?<!\b0)(?<![A-Za-z\\{])[xyzabt](?![A-Za-z])")  # of an equation written from right to left: "2 = x"
_TEXT_JOINT = regex(r"(?:\s|\\q?quad|\\[ ,;])*\\text\s*\{\s*(and|or)\s*\}(?:\s|\\q?quad|\\[ ,;])*")
_MEASURED = regex(r"\s*[\d.,]+\s*\\text[^=]*")  # "2.4 m = 240 cm" is a step
# "7^{-1} ≡ 15 (mod 26)": numbers alone
_CONGRUENT = regex(r"[^A-Za-z]*?(?:≡|\\equiv)\s*(-?\d+)\s*(?:\(mod.*|\\pmod.*|\\mod.*|\\bmod.*)?")
_ROUNDED_CALL = regex(r"[A-Za-z]\([-\d.]+\) ?(?:≈|\\approx) ?(-?[\d.]+)")  # "y(3) ≈ 8"
# "x, (11 - 2)/(4 - 1) = 3": the letter ends what is called "the change in x"
_LETTER_FIRST = regex(r"\s*[a-z],\s+(?=[(\d])")
# "y = 2x = 10", "∠B = 40°"
_LETTER_IS = regex(r"\s*((?:∠|\\angle ?)?[A-Za-z])\s*=[^=]+(?:=[^=]+)*")
_LETTER_ALONE = regex(r"\s*[A-Za-z](?:_\w|_\{\w+\})?\s*")
_LETTER = regex(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[A-Za-z]{2,}")
_NAMES = regex(r"\\[A-Za-z]+|\b(?:sqrt|sin|cos|tan|log|ln|pi)\b")
_SERIES = regex(r"[-+*·×] ?(?:\\ldots|\.\.\.|…|⋯) {0,2}[-+*·×]")  # "1 + 2 + ... + n"
_OTHER_FORM = regex(r",\s+or\s+[^=,]+$")
_NAME_SIDE = regex(
    r"\s*(?:\\?[A-Za-z]+|[A-Za-z])(?:_\{?\w{1,3}\}?)?'*\s*|\s*\([\s\w,\\]+\)\s*|\s*[A-Z]\s*(?::\s*[A-Z]\s*)+"
)
_CALL_SIDE = regex(
    r"\s*(?:[A-Za-z]{1,12}(?:_\{?\w{1,3}\}?)?'*(?:\^\{?\(?[-−\w']+\)?\}?|⁻¹)?\s*(?:\(|\[|\\left\().*[)\]]"
    r"|\(.*\)['′]|d[a-z]?\s*/\s*d[a-z].*|\\(?:int|sum|prod|lim|binom|frac\{d).*|[∫∑∏].*|\|.*\||lim\b.*)\s*",
    re.DOTALL,
)
# "The sum of the first n terms is ", before an equality
_NOUN_IS = regex(
    r"([^\W\d_]{3,})(?: (?:of|for|between|from|in|de|du|des|del|della|do|da|von|der) [^.;=]{0,60}?| [^\W\d_]+а)?"
    r" (?:is|equals|measures|равн[аоы]?|beträgt|ist|est|vaut|es|é|è) (?:then |thus |therefore |exactly |just "
    r"|also |donc )?$"
)
# What has a value, so that an equality said of it is a working: "the sum is n(n+1)/2 = ..."; a line has none.
_QUANTITY = regex(
    r"\b(?:sums?|integer|largest|smallest|biggest|greatest|middle|answer|side|edge|age|product|difference|quotient"
    r"|remainder|ratio|area|perimeter|volume"
    r"|circumference|length|width|height|depth|distance|radius|diameter|speed|velocity|acceleration|rate|time|mass"
    r"|weight|force|energy|power|current|voltage|charge|resistance|density|pressure|temperature|frequency|total|number"
    r"|count|amount|cost|price|profit|interest|value|average|mean|median|variance|probability|chance|angle|determinant"
    r"|integral|derivative|limit|slope|term|change|discount|сумма|площадь|объ[её]м|периметр|скорость|значение|Summe"
    r"|Fläche|Volumen|Umfang|Wert|somme|aire|périmètre|valeur|suma|área|perímetro|valor|soma|somma|perimetro|valore)\b",
    re.IGNORECASE,
)
# A left side that is worked out: "2d/(d/24)", "3x", "ab"
_OPERATED = regex(r"[-−+*/·×^(²³π]|\\[dt]?frac|\\pi|^\s*(?:\d+[a-zA-Z]|[a-z]{2})\s*$")


def chain_end(text: str, goes_on: bool = True) -> str:  # noqa: PLR0911 - one return for each kind of chain
    r"""The end of a chain of equalities; an equation, or a value under its name, as it stands.

    ``goes_on``: of workings joined by "and" the last gives the end.

    >>> chain_end("A = \\pi r^2 = 16\\pi"), chain_end("x = 5"), chain_end("gcd(48, 18) = 6"), chain_end("y = 2x + 3")
    ('16\\pi', 'x = 5', '6', 'y = 2x + 3')
    """
    text = _TEXT_JOINT.sub(r" \1 ", text) if "\\text" in text else text
    if rounded := _ROUNDED_CALL.fullmatch(text.strip()):
        return f"≈ {rounded[1]}"
    if (
        (listed := _LETTER_FIRST.match(text))
        and "=" in text
        and not _LETTER.search(text[listed.end() :].partition("=")[0])
    ):
        return chain_end(text[listed.end() :])  # "the change in x, (11 - 2)/(4 - 1) = 3"
    if congruent := _CONGRUENT.fullmatch(text.strip()):
        return congruent[1]
    text = _implied(_UNEQUAL_BEHIND.sub("", _REASON_BEHIND.sub("", text))).strip()
    sides = _sides(text)
    if len(sides) > 1 and not _NAME_SIDE.fullmatch(sides[0]) and (other := _OTHER_FORM.search(text)):
        return chain_end(text[: other.start()])
    if len(sides) < 2 or any(
        _RELATIONS.search(_UNDER.sub("", side).replace("≈", "").replace("\\approx", "")) for side in sides[:-1]
    ):
        return text
    name, last = sides[0], sides[-1].strip()
    if "..." in last or "…" in last:
        last = re.split(r"≈|\\approx", last)[-1].strip()
    if (solved := _solved(text)) is not None:
        return solved
    parts = _JOINTS.split(_outside_brackets(text))
    if len(parts) > 2 - ("=" in text) and _QUANTITY.fullmatch(_sides(parts[-1])[0].strip()):
        return chain_end(_JOINTS.split(text)[-1])  # "r = 2/5, sum = 1/(1 - 2/5) = 5/3"
    if len(parts) > 1:  # several values, each under its name; else one equality after the other
        sides_of = [_sides(part) for part in parts]
        is_worked = [
            len(sides) > 1 and bool(_ARITHMETIC.fullmatch(sides[0]) or _MEASURED.fullmatch(sides[0]))
            for sides in sides_of
        ]
        is_worked[-1] = is_worked[-1] or (len(sides_of[-1]) > 1 and bool(_LOGARITHM.fullmatch(sides_of[-1][0])))
        worked = goes_on and all(is_worked)
        return chain_end(_JOINTS.split(text)[-1]) if worked else text
    if len(sides) > 2 or _SERIES.search(name):
        return last
    if _NAME_SIDE.fullmatch(name):
        return f"{name.strip()} = {last}" if "≈" not in last else last
    if len(sides) == 2 and re.fullmatch(r"\s*[-−\d.]+\s*", name) and _VARIABLE.search(last):
        return f"{last} = {name.strip()}"  # "2 = x"
    closed = not re.search(
        r"(?<![A-Za-z\\])[a-z](?![A-Za-z(])",
        re.sub(
            r"\\text\{[^{}]*\}(?:/[a-z]+)?|(?<=\d) ?[kMmµ]Ω|\\[A-Za-z]+|(?<=[\d)]) x (?=[\d(])|\b(?:sqrt|sin|cos"
            r"|tan|log"
            r"|ln|pi|e|i)\b",
            "",
            name,
        ),
    )
    return last if closed or _CALL_SIDE.fullmatch(name) else text


def _implied(text: str) -> str:
    r"""What stands behind the last arrow, but for those under a sign.

    >>> _implied(r"2x = 4 \implies x = 2"), _implied(r"\lim_{x\to 0} x = 0")
    (' x = 2', '\\lim_{x\\to 0} x = 0')
    """
    under = [match.span() for match in _UNDER.finditer(text)]
    arrows = [match for match in _IMPLIED.finditer(text) if not any(a < match.start() < b for a, b in under)]
    return text[arrows[-1].end() :] if arrows else text


def _solved(text: str) -> str | None:
    """The last of several equations, "n = 12", where those before it are steps: of the same letter, or of numbers.

    >>> _solved("2n = 24 and n = 12"), _solved("7^3 = 343, s = 7")
    ('n = 12', 's = 7')
    >>> _solved("x = 4 and y = 7"), _solved("x = 2 and x = 5")
    (None, None)
    """
    *steps, last = _JOINTS.split(text)
    if not steps:
        return None
    if (value := _LETTER_IS.fullmatch(last)) is None:
        return _of_values(steps, last)
    if _uses(last, steps):
        return f"{value[1]} = {last.rpartition('=')[2].strip()}"
    for step in steps:
        left, equals, right = step.partition("=")
        letters = set(_LETTER.findall(_NAMES.sub(" ", step)))
        if (
            not equals
            or letters - {value[1][-1]}
            or _LETTER_ALONE.fullmatch(left)
            or not (left.strip() and right.strip())
        ):
            return None
    return f"{value[1]} = {last.rpartition('=')[2].strip()}"


def _uses(last: str, steps: list[str]) -> bool:
    """Whether "T = 2π/ω = 2π sqrt(L/g)" replaces in its last side what each step before it gives a letter.

    >>> _uses("T = 2/w = 2s", ["w = 1/s"]), _uses("y = 7", ["x = 4"])
    (True, False)
    """
    *middle, end = _sides(last)[1:]
    names = [step.partition("=")[0].strip() for step in steps]
    return bool(middle) and all(len(name) == 1 and name in "".join(middle) and name not in end for name in names)


def _of_values(steps: list[str], last: str) -> str | None:
    """The right side of "m + n = 7" behind the values of all its letters.

    >>> _of_values(["m = 1", "n = 6"], "m + n = 7"), _of_values(["m = 1"], "m + n = 7")
    ('7', None)
    """
    values = [_LETTER_IS.fullmatch(step) for step in steps]
    left, equals, right = last.partition("=")
    letters = set(_LETTER.findall(_NAMES.sub(" ", left)))
    known = {value[1] for value in values if value is not None}
    return right.strip() if equals and letters and None not in values and letters <= known else None


def _sides(text: str) -> list[str]:
    """What stands between the equals signs outside brackets."""
    sides, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "=" and depth <= 0 and _EQUALS.match(text, index):
            sides.append(text[start:index])
            start = index + 1
    return [*sides, text[start:]]


def _outside_brackets(text: str) -> str:
    """The text without what stands in brackets."""
    kept, depth = [], 0
    for char in text:
        depth += char in "([{"
        if depth <= 0:
            kept.append(char)
        depth -= char in ")]}" and depth > 0
    return "".join(kept)


def is_working(before: str, shown: str) -> bool:
    """Whether an equality is what something but an equation is: "The sum is n(n+1)/2 + n = ...": its end counts.

    >>> is_working("Average speed is ", "2d/(d/24)=48"), is_working("The line is ", "2x + y = 3")
    (True, False)
    """
    noun = _NOUN_IS.search(before)
    left = shown.partition("=")[0]
    return noun is not None and _QUANTITY.fullmatch(noun[1]) is not None and _OPERATED.search(left) is not None
