"""How answers are read: ``tests/answer_trees.jsonl``, LaTeX and the tree that it is taken for, or why it is refused.

``python tests/graded_replies.py`` writes the trees again.
"""

import json
from pathlib import Path

from stapo_bench.grading.read import clean, parse
from stapo_bench.grading.tree import Kind, Node, Refusal

READINGS = Path(__file__).parent / "answer_trees.jsonl"


def readings() -> list[tuple[str, str]]:
    """(text, tree) of each line."""
    return [tuple(json.loads(line)) for line in READINGS.read_text(encoding="utf-8").splitlines()]


def shown(node: Node) -> str:
    """``add(1, pow('x', 31/10 to 1/10))``: kind, label, value, precision, and what is below."""
    if node.kind is Kind.NUMBER and not node.label:
        return f"{node.value}" + (f" to {node.ulp}" if node.ulp is not None else "")
    if node.kind is Kind.SYMBOL:
        return repr(node.label)
    label = f" {node.label!r}" if node.label else ""
    value = "" if node.value is None else f" {node.value}"
    below = f"({', '.join(map(shown, node.args))})" if node.args else ""
    return f"{node.kind.value}{label}{value}{below}"


def reading(text: str) -> str:
    """The tree of an answer, or why it cannot be read."""
    try:
        return shown(parse(clean(text)))
    except Refusal as refused:
        return f"refused: {refused}"


def write(texts: list[str]) -> int:
    """Write the trees as they are read now; how many changed."""
    before, now = dict(readings()) if READINGS.exists() else {}, {text: reading(text) for text in texts}
    lines = [json.dumps([text, tree], ensure_ascii=False) + "\n" for text, tree in now.items()]
    READINGS.write_text("".join(lines), encoding="utf-8")
    return sum(tree != before.get(text) for text, tree in now.items())
