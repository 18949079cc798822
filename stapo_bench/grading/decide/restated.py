r"""Arithmetic that the question asks to evaluate, given back as it stands: ``2^{10}`` to "Evaluate $2^{10}$" for 1024.

Only the question's last sentence is read, and only where it asks for the value of one formula and of nothing else. A
quotient of two numbers, a percentage and a root that is no whole number are values as they stand, unless a decimal or a
simpler form is asked for; so is what holds a constant or a letter, but what is to be solved, factored or expanded is
none. A rounding behind it ("2^20 ≈ 1.05 million") makes no exact value of it. A gold with a point may be rounded, and
settles nothing.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import clean, parse
from stapo_bench.grading.tree import Kind, Node, Refusal

MAX_FORMULA = 200  # characters of the question's last sentence
_SENTENCE_END = regex(r"[.?。？]\s|\n|。")
_ASKS = regex(
    r"(?:what(?:['’]s| is)|how much is|evaluate|compute|calculate|simplify|factor(?:i[sz]e)?|expand"
    r"|solve(?: the (?:inequality|equation))?"
    r"|work out|find|determine|give"
    r"|berechnen? ?(?:sie)?|bestimmen? ?(?:sie)?|was ist|wie ?viel ist|calcul(?:e[rz]?|a)|combien (?:fait|font|vaut)"
    r"|cuánto es|cuál es|halla|вычислите|найдите|сколько будет|计算|求)\b:?"
    r"(?: (?:the |den |la |el )?(?:exact |numerical )?(?:value|result|wert|valeur|valor)(?: of| von| de)?"
    r"| значение(?: выражения)?)?:? ?",
    re.IGNORECASE,
)
_OF_TWO = regex(r"(?:the )?(sum|difference|product) of (\$[^$]+\$|\d+) and (\$[^$]+\$|\d+)$")
_SIGN_OF = {"sum": "+", "difference": "-", "product": "*"}
_LAYOUT = regex(r"\\[()\[\]]|\$|的值$|=\s*$")
_AS_DECIMAL = regex(r",? (?:(?:as|in|into|to) (?:an? )?decimals?(?: form)?|als Dezimalzahl|en décimal)$", re.IGNORECASE)
_IN_FULL = regex(r",? (?:completely|fully|exactly)$", re.IGNORECASE)
_UNDER_CONDITION = regex(r"(\$[^$]+\$),? (?:for|where|when|if|assuming|given)\b")
_ASKS_FORM = ("simplify", "factor", "expand")
APPROXIMATELY = regex(r"≈|\\approx(?![A-Za-z])")
_ARITHMETIC = frozenset({Kind.NUMBER, Kind.SUM, Kind.PRODUCT, Kind.POWER, Kind.CALL})


def restates(answer: str, gold: str, question: str) -> bool:
    r"""Whether an answer is the arithmetic that the question asks to evaluate, and the gold its value.

    >>> restates("6*7", "42", r"What is $6 \cdot 7$?"), restates("7*6", "42", r"What is $6 \cdot 7$?")
    (True, False)
    >>> restates("6/8", "3/4", r"Simplify $\frac{6}{8}$."), restates("6/8", "3/4", r"Compute $\frac{6}{8}$.")
    (True, False)
    >>> restates("2^3 ≈ 8.0", "8", "Evaluate $2^3$."), restates("x^2-1", "(x-1)(x+1)", "Factor $x^2-1$ completely.")
    (True, True)
    >>> restates("3^{20}", "3486784401", "Which is larger, $2^{30}$ or $3^{20}$?")
    False
    """
    if answer == gold:
        return False
    asked = _asked_for(question)
    exact, *rounded = APPROXIMATELY.split(answer) if asked else [answer]
    if asked is None or (given := _tree(exact)) != asked.tree or (value := _tree(gold)) is None:
        return False
    if rounded:
        return not _is_value(given) and value.ulp is None
    if asked.simplified and value != given:
        return True
    if asked.as_decimal:
        return value.kind is Kind.NUMBER
    is_square = given.kind is Kind.CALL and value.kind is Kind.NUMBER  # the root of a square is no value yet
    evaluated = _is_value(value) and value.kind is not Kind.CALL and value.ulp is None
    return evaluated and (is_square or not _is_value(given))


class _Asked(NamedTuple):
    """The arithmetic whose value is asked for."""

    tree: Node
    as_decimal: bool
    simplified: bool


@lru_cache(maxsize=1024)
def _asked_for(question: str) -> _Asked | None:
    """What the question's last sentence asks to evaluate; None where it asks otherwise."""
    last = _SENTENCE_END.split(question[-MAX_FORMULA:].strip(" \n.?。？"))[-1]
    asks = _ASKS.match(last)
    if asks is None or "matrix" in last:  # a determinant that is written out is worked
        return None
    formula = _IN_FULL.sub("", last[asks.end() :])
    formula = given[1] if (given := _UNDER_CONDITION.match(formula)) else formula
    as_decimal = _AS_DECIMAL.search(formula) is not None
    formula = _AS_DECIMAL.sub("", formula)
    if named := _OF_TWO.match(formula):
        formula = f"({named[2]}){_SIGN_OF[named[1]]}({named[3]})"
    tree = _tree(_LAYOUT.sub("", formula).strip())
    solved = asks[0].lower().startswith("solve") and tree is not None and tree.kind is Kind.RELATION
    form = asks[0].lower().startswith(_ASKS_FORM)
    if tree is None or tree.kind is Kind.NUMBER or not (solved or form or _is_arithmetic(tree)):
        return None
    return _Asked(tree, as_decimal, solved or form)


def _is_arithmetic(node: Node) -> bool:
    """Whether a tree holds numbers and operations alone."""
    return node.kind in _ARITHMETIC and all(map(_is_arithmetic, node.args))


def _is_value(node: Node) -> bool:
    """Whether a tree is a value as it stands: a number, a quotient of two, a percentage, a root."""
    if node.kind is Kind.CALL:
        return node.label in ("sqrt", "root") and all(arg.kind is Kind.NUMBER for arg in node.args)
    if node.kind is Kind.PRODUCT and len(node.args) == 2:
        first, second = node.args
        inverse = second.kind is Kind.POWER and second.args[0].kind is Kind.NUMBER and second.args[1].value == -1
        return first.kind is Kind.NUMBER and (inverse or second.value == Fraction(1, 100))
    return node.kind is Kind.NUMBER


def _tree(text: str) -> Node | None:
    """The tree of an answer that can be read."""
    try:
        return parse(clean(text))
    except Refusal:
        return None
