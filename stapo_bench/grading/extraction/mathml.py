"""Formulas in MathML, in LaTeX: what a reply in HTML may write."""

import re

from stapo_bench.grading.patterns import regex

_TOKEN = r"\s*<m[nio]>([^<>]{1,60})</m[nio]>\s*"
_MATH = regex(r"<math\b[^<>]{0,200}>(.{1,3000}?)</math>", re.DOTALL | re.IGNORECASE)
# What each element is in LaTeX, as one token; a row is its tokens side by side.
_ELEMENTS = (
    (regex(rf"<mfrac>{_TOKEN}{_TOKEN}</mfrac>"), r"<mn>\\frac{\1}{\2}</mn>"),
    (regex(rf"<msup>{_TOKEN}{_TOKEN}</msup>"), r"<mn>{\1}^{\2}</mn>"),
    (regex(rf"<msub>{_TOKEN}{_TOKEN}</msub>"), r"<mn>{\1}_{\2}</mn>"),
    (regex(rf"<msqrt>{_TOKEN}</msqrt>"), r"<mn>\\sqrt{\1}</mn>"),
)
_ROW = regex(r"<m(row|style)>((?:\s*<m[nio]>[^<>]{1,60}</m[nio]>)+)\s*</m\1>")
_LETTER = regex(r"(?<!\w)\{([A-Za-z])\}(?=[_^])")
_TAGS = regex(r"</?m[nio]>")


def mathml(text: str) -> str:
    """The text with formulas of MathML in LaTeX; what is none of the plain elements stays.

    >>> mathml("<math><msqrt><mn>5</mn></msqrt><mo>+</mo><mi>x</mi></math>")
    '$\\\\sqrt{5}+x$'
    """
    return _MATH.sub(lambda formula: f"${_untagged(_reduced(formula[1]))}$", text)


def _reduced(formula: str) -> str:
    """A formula with each fraction, power, root and row as one token, innermost first."""
    before = ""
    while before != formula:
        before = formula
        for element, latex in _ELEMENTS:
            formula = element.sub(latex, formula)
        formula = _ROW.sub(lambda row: f"<mn>{_untagged(row[2])}</mn>", formula)
    return formula


def _untagged(formula: str) -> str:
    """The tokens of a formula side by side, a letter with an index without braces."""
    return _LETTER.sub(r"\1", _TAGS.sub("", formula)).strip()
