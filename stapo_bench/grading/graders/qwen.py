r"""The ``qwen`` grader: a second opinion by the rules of Qwen2.5-Math's evaluation, written anew without ``eval``.

The rules, in their order (source: ``evaluation/parser.py`` and ``evaluation/grader.py`` of
https://github.com/QwenLM/Qwen2.5-Math/tree/a45202bd16f1ec06f433442dc1152d0074773465):

1. the answer is what follows "final answer is $" up to "$. I hope", else the last box, else what follows the last
   "answer is", else the last number;
2. answer and gold are normalised as text (see ``normalise``) and compared without case;
3. numbers are equal within a relative 1e-4, and also when they differ by a factor of 100 (percent);
4. tuples and matrices are compared part by part, equations as left minus right up to sign, ``x = 5`` as ``5``;
5. what is left is read as LaTeX: equal if sympy shows the difference to be 0, or both values within a relative 1e-4.

So it accepts too much (12345 for 12346, 0.42 for 42) and that is the point of having it beside ``math``: where the two
differ, a person should look. What differs from the original: no number words; units are units and not single letters;
"and" separates; one parser reads the answer, which builds expressions and evaluates no text; answers beyond 1,000
characters are compared as text only. Rule 5 calls sympy's ``simplify``, which can run for long: grade outside text in a
pool.
"""

import math
import re

from stapo_bench.grading.graders.latex import read_latex
from stapo_bench.grading.patterns import regex
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "qwen-1"
MAX_LENGTH = 1_000  # characters of an answer that are still read as mathematics
REL_TOL = 1e-4

_UNITS = (
    "degrees? mph kmph km/h m/s ft feet foot inch(?:es)? yards? miles? kms? cm mm dm meters? metres? kg gm grams? lbs? "
    "pounds? liters? litres? gallons? hours? hrs? minutes? mins? seconds? secs? days? weeks? months? years? yrs? "
    "dollars? cents? rupees? units? square cubic sq cu acres? percent points? ways? men women people coins? ohms?"
).replace(" ", "|")
_REWRITES = [
    (regex(source), replacement)
    for source, replacement in (
        (r"\n|\\!", ""),
        (r"\.+$", ""),
        (r"\\begin\{array\}\{[^{}]*\}", r"\\begin{pmatrix}"),
        (r"\\end\{array\}", r"\\end{pmatrix}"),
        (r"bmatrix", "pmatrix"),
        (r"\\[td]frac", r"\\frac"),
        (r"\\neq\b", r"\\ne"),
        (r"\\leq\b", r"\\le"),
        (r"\\geq\b", r"\\ge"),
        (r"\\left(?![a-z])|\\right(?![a-z])", ""),
        (r"\\([{}])", r"\1"),
        (r"(?<=\S)\s*\\(?:text|mbox|mathrm)\{[^{}]*\}(?:\^\{?-?\d\}?)?$", ""),  # a unit, unless it is all there is
        (rf"(?<=[\d}})\s])(?:{_UNITS})(?![\w\\])", ""),
        (r"\^\{?\\circ\}?", ""),
        (r"\\?\$|\\[()]", ""),
        (r"\\(?:text|mbox|mathrm|mathbf|textbf)\{([^{}]*)\}", r"\1"),
        (r"\b[xyz]\s*(?:=|\\in\b|\\to\b)", ""),
        (r"\\emptyset\b", "{}"),
        (r"\(-\\infty,\s*\\infty\)", r"\\mathbb{R}"),
        (r"\\?%", ""),
        (r"(^|[\s{])\.(?=\d)", r"\g<1>0."),
        (r"(?<!\\)\binf(?:inity)?\b", r"\\infty"),
        (r",?\s*\band\b", ","),
        (r"(\d)\.0+(?!\d)", r"\1"),
        (r"^\s*\w{1,2}\s*=(?=[^=]*$)", ""),
        (r"\\sqrt\s*(\w)", r"\\sqrt{\1}"),
        (r"\s+", ""),
        (r"\\frac(\d)(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac(\d)\{", r"\\frac{\1}{"),
        (r"\\frac(\{[^{}]*\})(\d)", r"\\frac\1{\2}"),
        (r"^(-?\d+)/(\d+)$", r"\\frac{\1}{\2}"),
    )
]


def extract_answer(completion: str) -> str | None:
    r"""The answer as it stands in the text (rule 1), or None.

    >>> extract_answer(r"so \boxed{\frac{1}{2}} it is."), extract_answer("That makes 1,234 apples.")
    ('\\frac{1}{2}', '1234')
    """
    if "final answer is $" in completion and "$. I hope" in completion:
        answer = completion.split("final answer is $", 1)[1].split("$. I hope", 1)[0]
    elif "boxed" in completion:
        answer = _box(completion.rpartition("boxed")[2])
    elif "he answer is" in completion:
        answer = completion.rpartition("he answer is")[2]
    else:
        numbers = re.findall(r"-?\d*\.?\d+", completion.replace(",", ""))
        answer = numbers[-1] if numbers else ""
    answer = re.sub(r"\n\s*", "", answer).strip().removeprefix(":").removesuffix(".").removesuffix("/").strip()
    return answer or None


def _box(rest: str) -> str:
    """What follows ``boxed``: the braces' content (to the end where they never close), or the text up to a dollar."""
    if not rest.startswith("{"):
        return rest.partition("$")[0]
    depth = 0
    for position, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return rest[1:position]
    return rest[1:]


def quick_grade(completion: str, gold: Gold) -> Grade | None:
    """The verdict where text and numbers decide; None where structure or sympy must."""
    extracted = extract_answer(completion)
    return _no_answer() if extracted is None else _grade_at_sight(extracted, gold)


def _grade_at_sight(extracted: str, gold: Gold) -> Grade | None:
    """The grade where rules 2 and 3 decide; None where they do not."""
    if len(extracted) > MAX_LENGTH or len(gold.answer) > MAX_LENGTH:
        return _grade(extracted, extracted == gold.answer, "text, too long to be read")
    answer, target = normalise(extracted), normalise(gold.answer)
    if rule := _plainly_equal(answer, target):
        return _grade(extracted, True, rule)
    if "," not in answer + target and _number(answer) is not None and _number(target) is not None:
        return _grade(extracted, False, "numbers")
    return None


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""Grade by the rules above; the gold's type, unit and tolerance play no part.

    >>> grade_answer(r"\boxed{(\frac{1}{2}, 3)}", "(0.5,3)").outcome.value
    'CORRECT'
    >>> grade_answer(r"\boxed{x^2 + 2x}", "x^2 + 2").outcome.value
    'INCORRECT'
    """
    gold = answer if isinstance(answer, Gold) else Gold(answer=answer)
    extracted = extract_answer(completion)
    return _no_answer() if extracted is None else grade_extracted(extracted, gold)


def grade_extracted(extracted: str, gold: Gold) -> Grade:
    """Grade an answer that ``extract_answer`` found: completions that give the same one share a grade."""
    if grade := _grade_at_sight(extracted, gold):
        return grade
    rule = _structurally_equal(normalise(extracted), normalise(gold.answer))
    return _grade(extracted, bool(rule), rule or "no rule finds them equal")


def _no_answer() -> Grade:
    """The grade of a completion without an answer."""
    return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="no final answer", grader=GRADER_VERSION)


def _grade(extracted: str, right: bool, detail: str) -> Grade:
    """The grade of an answer."""
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail=detail, grader=GRADER_VERSION)


def normalise(text: str) -> str:
    r"""Rule 2: one spelling for what is written in many; units, degree, dollar and percent signs fall away.

    >>> normalise(r"x = \dfrac12 \text{ cm}"), normalise("$ 25.0\\%"), normalise("3/4")
    ('\\frac{1}{2}', '25', '\\frac{3}{4}')
    """
    text = text.strip()
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text).strip()
    return text


def _plainly_equal(answer: str, target: str) -> str:
    """The rule under which text alone shows them equal, or "" (rules 2 and 3)."""
    if answer.lower() == target.lower():
        return "text"
    if target in set("ABCDE") and (re.findall(r"\b[A-E]\b", answer.upper()) or [""])[-1] == target:
        return "choice"
    left, right = _number(answer), _number(target)
    if left is not None and right is not None:
        return "numbers" if any(_close(left, right * factor) for factor in (0.01, 1, 100)) else ""
    return ""


def _structurally_equal(answer: str, target: str) -> str:
    """The rule under which they are equal, or "" (rules 2 to 5)."""
    if rule := _plainly_equal(answer, target):
        return rule
    if re.sub(r"[][(){}]", "", answer).lower() == re.sub(r"[][(){}]", "", target).lower():
        return "text without brackets"
    for kind, parts in (("tuple", _elements), ("matrix", _cells)):
        ours, theirs = parts(answer), parts(target)
        if ours and theirs:
            same = len(ours) == len(theirs) and all(map(_structurally_equal, ours, theirs))
            return kind if same else ""
    if answer.count("=") == target.count("=") == 1:
        left, right = (re.sub(r"^(.*)=(.*)$", r"\1-(\2)", side) for side in (answer, target))
        same = _same_value(left, right) or _same_value(f"-({left})", right)
        return "equation" if same else ""
    for equation, value in ((answer, target), (target, answer)):
        if re.fullmatch(r"\w{1,2}=[^=]+", equation) and "=" not in value:
            return _structurally_equal(equation.split("=")[1], value)
    return "value" if _same_value(answer, target) else ""


def _elements(text: str) -> list[str]:
    """The parts of ``(a, b)`` or ``[a, b]``, split at the commas outside inner brackets; else none."""
    if not re.fullmatch(r"[(\[].*,.*[)\]]", text):
        return []
    parts, depth = [""], 0
    for character in text[1:-1]:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts if len(parts) > 1 else []


def _cells(text: str) -> list[str]:
    r"""The cells of a pmatrix, each row's end marked; else none. ``\\`` ends a row, ``&`` a cell."""
    match = re.fullmatch(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", text)
    rows = [row for row in match[1].split(r"\\") if row] if match else []
    return [cell for row in rows for cell in (*row.split("&"), "end")]


def _number(text: str) -> float | None:
    """The value of a decimal, thousands separators dropped; None for other text."""
    text = text.replace(",", "")
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", text, re.ASCII):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _close(left: float, right: float) -> bool:
    """Whether two values are equal within the relative tolerance."""
    return math.isclose(left, right, rel_tol=REL_TOL)


def _same_value(answer: str, target: str) -> bool:
    """Rule 5, for texts of expressions."""
    import sympy

    left, right = read_latex(answer), read_latex(target)
    if left is None or right is None:
        return False
    if left == right:
        return True
    try:
        return bool(sympy.simplify(left - right) == 0) or _close(float(left.evalf()), float(right.evalf()))
    except (TypeError, ValueError, AttributeError, NotImplementedError, OverflowError):
        return False  # sets, relations, free symbols, complex values: they have no difference or no float
