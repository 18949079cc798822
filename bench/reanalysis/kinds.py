"""Kinds of golds: where two graders differ, the form of the gold is most of the reason."""

import re

_KINDS: tuple[tuple[str, str], ...] = (
    ("no gold", r""),
    ("integer", r"-?\d+"),
    ("number with a power of ten", r"-?[\d.]+\s*(e|\\times\s*10\^|\*10\^)\s*\{?[-+]?\d+\}?"),
    ("decimal", r"-?\d*\.\d+"),
    ("fraction", r"-?(\\d?frac\{-?\d+\}\{\d+\}|\\d?frac\d\d|\d+/\d+)"),
    ("number with a unit or a sign", r"[\\$]*-?[\d.,]+\s*(\\?%|\\?\^?\{?\\?circ\}?|\\text\{.*\}|\\mathrm\{.*\})?\$?"),
)


def kind_of_gold(gold: str | None) -> str:
    r"""What form a gold has.

    >>> [kind_of_gold(gold) for gold in ("12", "4.5e33", "0.5", r"\frac{1}{2}")]
    ['integer', 'number with a power of ten', 'decimal', 'fraction']
    >>> [kind_of_gold(gold) for gold in (r"90^\circ", "(1, 2)", r"\sqrt{2}")]
    ['number with a unit or a sign', 'several values', 'expression']
    >>> kind_of_gold(None), kind_of_gold("increasing"), kind_of_gold("y = 2x")
    ('no gold', 'words', 'equation')
    """
    text = (gold or "").strip().strip("$").strip()
    for kind, form in _KINDS:
        if re.fullmatch(form, text):
            return kind
    if re.search(r"\\cup|\\in\b|\\infty|^[\[(].*,.*[\])]$|,(?! \\text)|\\text\{ ?(and|or) ?\}", text):
        return "several values"
    if "=" in text or re.search(r"\\l[et]\b|\\g[et]\b|[<>]|\\leq|\\geq", text):
        return "equation"
    return "words" if re.fullmatch(r"(\\text\{)?[A-Za-z][A-Za-z ]{3,}\}?", text) else "expression"
