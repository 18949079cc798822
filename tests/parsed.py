"""Source files as trees, parsed once for all the tests of a process that look at many of them."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The module; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All of its nodes: walking takes as long as parsing."""
    return list(ast.walk(tree_of(path)))
