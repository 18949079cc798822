r"""LaTeX environments, ``\begin`` to ``\end``: matrices, and functions by cases."""

from collections.abc import Callable

from stapo_bench.grading.read.conditions import BRANCHES
from stapo_bench.grading.read.cursor import Cursor
from stapo_bench.grading.read.lexer import TokenKind
from stapo_bench.grading.tree import Kind, Node, Refusal, add, mul, negate

MAX_DETERMINANT = 4

_MATRICES = frozenset(["matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array", "vmatrix"])
_CASES = frozenset(["cases", "dcases", "rcases"])


def environment(parser: Cursor, row_of_cases: Callable[[], Node]) -> Node:
    r"""The environment whose ``\begin`` was taken; ``row_of_cases`` parses one row of cases."""
    name = _name(parser)
    if name in _CASES:
        return _cases(parser, row_of_cases)
    if name not in _MATRICES:
        raise Refusal(f"cannot read environment {name}")
    if name == "array" and parser.accept("{"):
        _skip_to_brace(parser)
    node = _matrix(parser)
    return determinant([row.args for row in node.args]) if name == "vmatrix" else node


def _name(parser: Cursor) -> str:
    """The environment's name."""
    parser.expect("{")
    name = ""
    while not parser.accept("}"):
        name += parser.take().text
        if len(name) > 12:
            raise Refusal("unknown environment")
    return name


def _skip_to_brace(parser: Cursor) -> None:
    """Take all tokens up to the closing brace."""
    while not parser.accept("}"):
        if parser.take().kind is TokenKind.END:
            raise Refusal("unclosed brace")


def _cases(parser: Cursor, row_of_cases: Callable[[], Node]) -> Node:
    r"""Branches; rows without conditions (``x = 1 \\ y = 2``) are values side by side."""
    rows: list[Node] = []
    while not parser.accept("end"):
        if parser.accept("cr"):
            continue
        rows.append(row_of_cases())
        if parser.peek().text not in ("cr", "end"):
            raise Refusal("cannot read a case")
    parser.expect("{")
    _skip_to_brace(parser)
    if rows and all(row.kind is Kind.CONDITIONAL and row.label in BRANCHES for row in rows):
        return Node(Kind.CASES, tuple(rows))
    if rows and all(row.kind is Kind.RELATION for row in rows):
        return rows[0] if len(rows) == 1 else Node(Kind.LIST, tuple(rows), ",")
    raise Refusal("cases without conditions")


def determinant(rows: list[tuple[Node, ...]]) -> Node:
    """Expanded along the first row."""
    if len(rows) != len(rows[0]) or len(rows) > MAX_DETERMINANT:
        raise Refusal("no small determinant")
    if len(rows) == 1:
        return rows[0][0]
    minors = ([row[:column] + row[column + 1 :] for row in rows[1:]] for column in range(len(rows)))
    terms = [mul(entry, determinant(minor)) for entry, minor in zip(rows[0], minors, strict=True)]
    return add(*(negate(term) if column % 2 else term for column, term in enumerate(terms)))


def _matrix(parser: Cursor) -> Node:
    """The rows up to the end of the environment, all of one length."""
    rows: list[tuple[Node, ...]] = []
    row: list[Node] = []
    while not parser.accept("end"):
        if parser.accept("cr"):
            rows.append(tuple(row))
            row = []
            continue
        if parser.accept("&"):
            continue
        row.append(parser.expression())
        if parser.peek().text not in ("&", "cr", "end"):
            raise Refusal("cannot read a matrix entry")
    if row:
        rows.append(tuple(row))
    parser.expect("{")
    _skip_to_brace(parser)
    if not rows or any(len(r) != len(rows[0]) for r in rows):
        raise Refusal("ragged matrix")
    return Node(Kind.MATRIX, tuple(Node(Kind.ROW, r) for r in rows))
