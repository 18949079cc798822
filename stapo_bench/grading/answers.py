r"""Whole answers: lists, relations, sets, intervals, matrices and what is left, around the expressions of ``parser``.

``read("(2,3] \\cup \\{5\\}")`` gives a tree; ``Refusal`` means that some of the text was not
understood, and then none is.
"""

import re
from functools import lru_cache, partial

from stapo_bench.grading.conditions import BRANCHES, bare_clause, conditioned
from stapo_bench.grading.environments import environment
from stapo_bench.grading.lexer import Token, lex
from stapo_bench.grading.numerals import in_base
from stapo_bench.grading.parser import Parser
from stapo_bench.grading.progressions import progression
from stapo_bench.grading.tree import Node, Refusal, call

MAX_CHARS = 4000
_RELATIONS = {
    "=": "=", "<": "<", ">": ">", "le": "<=", "ge": ">=", "ne": "!=", "approx": "~", "in": "in", "notin": "notin",
    "equiv": "==", "subset": "sub", "subseteq": "sub", "sim": "~", "doteq": "~", "coloneqq": "=", "propto": "prop",
    "cong": "cong",
}  # fmt: skip
_SET_OPERATIONS = {"cup": "union", "cap": "inter", "setminus": "minus", "U": "union", "bigcup": "union"}
_MOD = re.compile(r"\(\s*(?:\\[bp]?mod|\\text\{\s*mod\s*\}|mod)\s*([^()]*)\)")
_REVERSED = re.compile(r"(?<![\w)\]}])\]\s*([^\[\]]+,[^\[\]]+?)([\[\]])|\[([^\[\]()]+,[^\[\]()]+?)\[")
_BASED = re.compile(
    r"""\(?\s*(?:\\text\{)?\s*([0-9][0-9A-Za-z]*|[A-Fa-f][0-9A-Fa-f]*[0-9][0-9A-Fa-f]*|[A-F]{2,}(?=[^A-Za-z]*16))\s*\}?\s*\)?\s*
    (?:_\s*\{?\s*(?:\\text\{)?\s*(?:base\s*\}?\s*)?(\d{1,2}|[a-z]+)\s*\}?\s*\}?  # 52_8, 52_{\\text{eight}}
    |\s(?:\\text\{\s*)?\(?(?:in[ ])?base\s*-?\s*\}?\s*(\d{1,2}|[a-z]+)\)?\s*\}?)  # 52 base 8""",
    re.VERBOSE,
)
_RATIO_WORDS = re.compile(r"(\d+)\s*(?:\\text\{\s*to\s*\}|to)\s*(\d+)")
_PREFIXED = re.compile(r"0([xXbBoO])([0-9a-fA-F]+)")
_BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "sixteen": 16, "binary": 2, "octal": 8, "hex": 16,
}  # fmt: skip


@lru_cache(maxsize=4096)
def read(text: str, thousands: bool = True) -> Node:
    """Read cleaned text as an answer.

    >>> read("(2, 5]").kind, read("(2, 5]").label, len(read("1, 2 and 3").args)
    ('tuple', '(]', 3)
    """
    if len(text) > MAX_CHARS:
        raise Refusal("too long")
    based = _BASED.fullmatch(text)
    if based:
        base = based[2] or based[3]
        return in_base(based[1], int(base) if base.isdigit() else _BASE_NAMES.get(base, 0))
    prefixed = _PREFIXED.fullmatch(text)
    if prefixed:
        return in_base(prefixed[2], {"x": 16, "b": 2, "o": 8}[prefixed[1].lower()])
    if "mod" in text:
        text = _MOD.sub(r"\\pmod{\1}", text)
    if "]" in text or "[" in text:
        text = _REVERSED.sub(_turn, text)
    ratio = _RATIO_WORDS.fullmatch(text)
    if ratio:
        text = f"{ratio[1]}:{ratio[2]}"
    parser = Parser(lex(text, thousands), _bracket)
    node = _answers(parser)
    if not parser.at_end():
        raise Refusal(f"leftover {parser.peek().text!r}")
    return node


def _turn(match: re.Match[str]) -> str:
    """``]a,b[`` is the open interval ``(a,b)``."""
    if match[1]:
        return f"({match[1]}" + (")" if match[2] == "[" else "]")
    return f"[{match[3]})"


def _answers(parser: Parser) -> Node:
    """One answer, or several joined by commas, semicolons, "and", "or"; with the conditions behind them."""
    items = [_item(parser)]
    joints: set[str] = set()
    while parser.peek().kind == "sep":
        while parser.peek().kind == "sep":
            joints.add(parser.take().text)
        if parser.at_end():
            break
        if parser.lead():  # "a x + b, where b is any integer" speaks of all that stands before
            items = [_conditioned(parser, _listed(items, joints))]
        else:
            items.append(_item(parser))
    return _listed(progression(items), joints)


def _listed(items: list[Node], joints: set[str]) -> Node:
    if len(items) > 1 and items[-1].kind == "given" and all(item.kind != "given" for item in items[:-1]):
        *others, last = items
        return Node("given", (_listed([*others, last.args[0]], joints), *last.args[1:]), last.label)
    if len(items) > 1 and (clause := bare_clause(items[-1], items[:-1])) is not None:
        return Node("given", (_listed(items[:-1], joints), clause), "for")
    if len(items) > 1 and all(item.kind == "given" and item.label in BRANCHES for item in items):
        return Node("cases", tuple(items))
    if len(items) == 1:
        return items[0]
    label = "or" if "or" in joints else "and" if "and" in joints else ","
    return Node("list", tuple(items), label)


def _item(parser: Parser) -> Node:
    node = _relation(parser)
    while parser.lead():
        node = _conditioned(parser, node)
    return node


def _conditioned(parser: Parser, value: Node) -> Node:
    return conditioned(parser, value, _whole_relation, partial(_starts_item, parser))


def _whole_relation(tokens: list[Token]) -> Node:
    parser = Parser(tokens, _bracket)
    node = _relation(parser)
    if not parser.at_end():
        raise Refusal("leftover")
    return node


def _starts_item(parser: Parser) -> bool:
    """Whether a value with a condition of its own follows the separator: "..., and E_2 with probability 2/3"."""
    start, depth, bars = parser.position, parser.depth, parser.bars
    while parser.peek().kind == "sep":
        parser.take()
    try:
        found = parser.lead() is None and _relation(parser) is not None and parser.lead() is not None
    except Refusal:
        found = False
    passed = {word.lower() for token in parser.tokens[start : parser.position] for word in token.text.split()}
    parser.position, parser.depth, parser.bars = start, depth, bars
    return found and not passed & {"is", "are", "be"}


def _relation_sign(parser: Parser) -> str | None:
    token = parser.peek()
    if token.kind not in ("op", "cmd"):
        return None
    if token.text == ":" and parser.peek(1).text == "=":
        parser.position += 2
        return "="
    sign = _RELATIONS.get(token.text)
    if sign is not None:
        parser.position += 1
        if sign == "=" and parser.peek().text == "=" and not parser.peek().space:
            parser.position += 1
    return sign


def _relation(parser: Parser) -> Node:
    if parser.peek().kind == "cmd" and parser.accept("ldots"):
        return Node("dots")
    first = _relation_sign(parser)
    if first is not None:  # "< 5": a bound without its left side is no value
        return Node("rel", (_sets(parser),), first)
    sides = [_ratio(parser, _named_side(parser))]
    signs: list[str] = []
    while (sign := _relation_sign(parser)) is not None:
        signs.append(sign)
        sides.append(_ratio(parser, _sets(parser)))
    if parser.peek().kind == "cmd" and parser.peek().text in ("pmod", "bmod", "mod"):
        mark = parser.take().text
        if mark == "bmod" and not signs:  # the operator: 7 mod 4 is 3; a residue class has its sign or its brackets
            return call("bmod", sides[0], parser.argument())
        return Node("mod", (sides[0] if not signs else Node("rel", tuple(sides), " ".join(signs)), parser.argument()))
    if not signs:
        return _point(sides[0])
    return Node("rel", tuple(sides), " ".join(signs).replace("==", "="))  # without a modulus: identically equal


def _ratio(parser: Parser, first: Node) -> Node:
    parts = [first]
    while parser.peek().text == ":" and parser.peek(1).text != "=" and not parser.in_set:
        parser.take()
        parts.append(_sets(parser))
    return first if len(parts) == 1 else Node("ratio", tuple(parts))


def _point(node: Node) -> Node:
    """``P(8, -2)`` is the point (8, -2) with its name before it."""
    if node.kind != "mul" or [arg.kind for arg in node.args] != ["sym", "tuple"] or not node.args[0].label[0].isupper():
        return node
    return Node("rel", node.args, "=")


def _named_side(parser: Parser) -> Node:
    r"""``\text{Area} = 5``: words before an equals sign are a name."""
    if parser.peek().kind == "text" and parser.peek(1).text == "=":
        return Node("sym", (), parser.take().text)
    return _sets(parser)


def _sets(parser: Parser) -> Node:
    node = parser.expression()
    if node.kind == "add" and len(node.args) == 2 and [arg.kind for arg in node.args[1].args] == ["num", "set"]:
        node = Node("minus", (node.args[0], node.args[1].args[1]))  # R - {0}
    while parser.peek().kind in ("cmd", "name", "op") and parser.peek().text in _SET_OPERATIONS:
        if parser.peek().text == "U" and node.kind not in ("tuple", "set", "union"):
            break
        kind = _SET_OPERATIONS[parser.take().text]
        node = Node(kind, (node, parser.expression()))
    if parser.peek().kind == "op" and parser.peek().text == "\\" and node.kind in ("tuple", "set", "sym"):
        parser.take()
        node = Node("minus", (node, parser.expression()))
    return node


def _bracket(parser: Parser) -> Node:
    token = parser.take()
    parser.deeper()
    bars, parser.bars = parser.bars, 0
    node = _bracketed(parser, token)
    parser.bars = bars
    parser.depth -= 1
    return node


def _bracketed(parser: Parser, token: Token) -> Node:
    if token.text == "begin":
        return environment(parser, partial(_row_of_cases, parser))
    if token.text == "\\{":
        return _set(parser)
    items = [_relation(parser)]
    while parser.peek().kind == "sep":
        parser.take()
        items.append(_relation(parser))
    items = progression(items)
    closing = parser.take().text
    if closing not in (")", "]"):
        raise Refusal("unclosed bracket")
    if len(items) == 1:
        if (token.text, closing) not in (("(", ")"), ("[", "]")):
            raise Refusal("mismatched brackets")
        if parser.peek().text == "_" and items[0].kind == "num" and items[0].value is not None:
            return parser.based(str(items[0].value))
        return items[0]
    return Node("tuple", tuple(items), token.text + closing)


def _set(parser: Parser) -> Node:
    if parser.accept("\\}"):
        return Node("set")
    parser.in_set, outer = True, parser.in_set
    items = [_relation(parser)]
    parser.in_set = outer
    if parser.accept("mid", "|", ":"):
        condition = _answers(parser)
        parser.expect("\\}")
        return Node("builder", (items[0], condition))
    while parser.peek().kind == "sep":
        parser.take()
        items.append(_relation(parser))
    parser.expect("\\}")
    return Node("set", tuple(progression(items)))


def _row_of_cases(parser: Parser) -> Node:
    """``x^2, & \\text{if } x > 0``: a value and, behind the mark, where it holds."""
    node = _item(parser)
    while parser.accept(",", ";"):
        pass
    if parser.accept("&") and parser.peek().text not in ("cr", "end"):
        node = _conditioned(parser, node)
    while parser.accept(",", ";"):
        pass
    return node
