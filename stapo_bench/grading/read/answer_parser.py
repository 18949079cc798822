r"""The parser of whole answers: lists, relations, sets, intervals and matrices, around the expressions inside them.

``parse("(2,3] \\cup \\{5\\}")`` gives a tree; ``Refusal`` means that part of the text was not understood, so that all
of it is rejected.
"""

import re
from functools import lru_cache, partial

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read.conditions import BRANCHES, bare_clause, conditioned
from stapo_bench.grading.read.environments import environment
from stapo_bench.grading.read.expression_parser import ExpressionParser
from stapo_bench.grading.read.lexer import Token, TokenKind, lex
from stapo_bench.grading.read.number_parser import in_base
from stapo_bench.grading.read.progressions import DOTS, progression
from stapo_bench.grading.tree import Kind, Node, Refusal, call

MAX_CHARS = 4000
_RELATIONS = {
    "=": "=", "<": "<", ">": ">", "le": "<=", "ge": ">=", "ne": "!=", "approx": "~", "in": "in", "notin": "notin",
    "equiv": "==", "subset": "sub", "subseteq": "sub", "sim": "~", "doteq": "~", "coloneqq": "=", "propto": "prop",
    "cong": "cong",
}  # fmt: skip
_SET_OPERATIONS = {
    "cup": Kind.UNION, "cap": Kind.INTERSECTION, "setminus": Kind.DIFFERENCE, "U": Kind.UNION, "bigcup": Kind.UNION,
}  # fmt: skip
_MOD = regex(r"\(\s*(?:\\[bp]?mod|\\text\{\s*mod\s*\}|mod)\s*([^()]*)\)")
_REVERSED = regex(
    r"(?:(?<![\w)\]}])|(?<=\\in)|(?<=\\cup)|(?<=\\cap)|(?<=\\setminus))\]\s*([^\[\]]+[,;][^\[\]]+?)([\[\]])"
    r"|\[([^\[\]()]+[,;][^\[\]()]+?)\["
)
_DECIMAL_COMMA = regex(r"(?<=\d),(?=\d)")
_BASED = regex(
    r"""\(?\s*(?:\\text\{)?\s*([0-9][0-9A-Za-z]*|[A-Fa-f][0-9A-Fa-f]*[0-9][0-9A-Fa-f]*|[A-F]{2,}(?=[^A-Za-z]*16))\s*\}?\s*\)?\s*
    (?:_\s*\{?\s*(?:\\text\{)?\s*(?:base\s*\}?\s*)?(\d{1,2}|[a-z]+)\s*\}?\s*\}?  # 52_8, 52_{\\text{eight}}
    |\s(?:\\text\{\s*)?\(?(?:in[ ])?base\s*-?\s*\}?\s*(\d{1,2}|[a-z]+)\)?\s*\}?)  # 52 base 8""",
    re.VERBOSE,
)
_WITH_FACTOR = regex(r"\d+[A-Za-z]")  # of which no base up to ten has letters
_RATIO_WORDS = regex(r"(\d+)\s*(?:\\text\{\s*to\s*\}|to)\s*(\d+)")
_PREFIXED = regex(r"0([xXbBoO])([0-9a-fA-F]+)")
_RELATION_SIGNS = frozenset({TokenKind.COMMAND, TokenKind.OPERATOR})
_SET_SIGNS = _RELATION_SIGNS | {TokenKind.NAME}
BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "sixteen": 16, "binary": 2, "octal": 8, "hex": 16, "hexadecimal": 16,
}  # fmt: skip


@lru_cache(maxsize=4096)
def parse(text: str, thousands: bool = True) -> Node:
    """Parse cleaned text as an answer.

    ``thousands``: ``1,234`` is one number and not two.

    >>> parse("(2, 5]").kind, parse("(2, 5]").label, len(parse("1, 2 and 3").args)
    ('tuple', '(]', 3)
    """
    if len(text) > MAX_CHARS:
        raise Refusal("too long")
    based = _BASED.fullmatch(text)
    if based:
        named = based[2] or based[3]
        base = int(named) if named.isdigit() else BASE_NAMES.get(named, 0)
        if base > 10 or not _WITH_FACTOR.fullmatch(based[1]):  # "4m_p" and "2v_0" are products
            return in_base(based[1], base)
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
    parser = ExpressionParser(lex(text, thousands), _bracket)
    node = _answers(parser)
    if not parser.at_end():
        raise Refusal(f"leftover {parser.peek().text!r}")
    return node


def _turn(match: re.Match[str]) -> str:
    """``]a,b[`` is the open interval ``(a,b)``; where a semicolon parts its ends, their commas are decimal."""
    ends = match[1] or match[3]
    if ends.count(";") == 1:
        ends = _DECIMAL_COMMA.sub(".", ends)
    if match[1]:
        return f"({ends}" + (")" if match[2] == "[" else "]")
    return f"[{ends})"


def _answers(parser: ExpressionParser) -> Node:
    """One answer, or several joined by commas, semicolons, "and", "or"; with the conditions behind them."""
    items = [_item(parser)]
    joints: set[str] = set()
    while parser.peek().kind is TokenKind.SEPARATOR:
        while parser.peek().kind is TokenKind.SEPARATOR:
            joints.add(parser.take().text)
        if parser.at_end():
            break
        if parser.lead():  # "a x + b, where b is any integer" speaks of all that stands before
            items = [_conditioned(parser, _listed(items, joints))]
        else:
            items.append(_item(parser))
    return _listed(progression(items), joints)


def _listed(items: list[Node], joints: set[str]) -> Node:
    """One answer of several items, with a condition that speaks of all of them outside."""
    if len(items) == 1:
        return items[0]
    *others, last = items
    if last.kind is Kind.CONDITIONAL and all(item.kind is not Kind.CONDITIONAL for item in others):
        return Node(Kind.CONDITIONAL, (_listed([*others, last.args[0]], joints), *last.args[1:]), last.label)
    if (clause := bare_clause(last, others)) is not None:
        return Node(Kind.CONDITIONAL, (_listed(others, joints), clause), "for")
    if all(item.kind is Kind.CONDITIONAL and item.label in BRANCHES for item in items):
        return Node(Kind.CASES, tuple(items))
    label = "or" if "or" in joints else "and" if "and" in joints else ","
    return Node(Kind.LIST, tuple(items), label)


def _item(parser: ExpressionParser) -> Node:
    """A relation or value with the conditions behind it."""
    node = _relation(parser)
    while parser.lead():
        node = _conditioned(parser, node)
    return node


def _conditioned(parser: ExpressionParser, value: Node) -> Node:
    """The value with the condition that stands next."""
    return conditioned(parser, value, _whole_relation, partial(_starts_item, parser))


def _whole_relation(tokens: list[Token]) -> Node:
    """The tokens to their end as one relation."""
    parser = ExpressionParser(tokens, _bracket)
    node = _relation(parser)
    if not parser.at_end():
        raise Refusal("leftover")
    return node


def _starts_item(parser: ExpressionParser) -> bool:
    """Whether a value with a condition of its own follows the separator: "..., and E_2 with probability 2/3"."""
    start, depth, bars = parser.position, parser.depth, parser.bars
    while parser.peek().kind is TokenKind.SEPARATOR:
        parser.take()
    try:
        found = parser.lead() is None and _relation(parser) is not None and parser.lead() is not None
    except Refusal:
        found = False
    passed = {word.lower() for token in parser.tokens[start : parser.position] for word in token.text.split()}
    parser.position, parser.depth, parser.bars = start, depth, bars
    return found and not passed & {"is", "are", "be"}


def _relation_sign(parser: ExpressionParser) -> str | None:
    """The sign of the relation that stands next, taken; None where none does."""
    token = parser.peek()
    if token.kind not in _RELATION_SIGNS:
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


def _relation(parser: ExpressionParser) -> Node:
    """Sides joined by signs, a residue class, or a value alone."""
    if parser.peek().kind is TokenKind.COMMAND and parser.accept("ldots"):
        return DOTS
    first = _relation_sign(parser)
    if first is not None:  # "< 5": a bound without its left side is no value
        return Node(Kind.RELATION, (_sets(parser),), first)
    sides = [_ratio(parser, _named_side(parser))]
    signs: list[str] = []
    while (sign := _relation_sign(parser)) is not None:
        signs.append(sign)
        sides.append(_ratio(parser, _sets(parser)))
    if parser.peek().kind is TokenKind.COMMAND and parser.peek().text in ("pmod", "bmod", "mod"):
        mark = parser.take().text
        if mark == "bmod" and not signs:  # the operator: 7 mod 4 is 3; a residue class has its sign or its brackets
            return call("bmod", sides[0], parser.argument())
        congruence = Node(Kind.RELATION, tuple(sides), " ".join(signs)) if signs else sides[0]
        return Node(Kind.RESIDUE, (congruence, parser.argument()))
    if not signs:
        return _point(sides[0])
    return Node(Kind.RELATION, tuple(sides), " ".join(signs).replace("==", "="))  # without a modulus: identically equal


def _ratio(parser: ExpressionParser, first: Node) -> Node:
    """The ratio that ``first`` begins, or ``first`` alone."""
    parts = [first]
    while parser.peek().text == ":" and parser.peek(1).text != "=" and not parser.in_set:
        parser.take()
        parts.append(_sets(parser))
    return first if len(parts) == 1 else Node(Kind.RATIO, tuple(parts))


def _point(node: Node) -> Node:
    """``P(8, -2)`` is the point (8, -2) with its name before it."""
    if node.kind is Kind.PRODUCT and [arg.kind for arg in node.args] == [Kind.SYMBOL, Kind.TUPLE]:
        return Node(Kind.RELATION, node.args, "=") if node.args[0].label[0].isupper() else node
    return node


def _named_side(parser: ExpressionParser) -> Node:
    r"""``\text{Area} = 5``: words before an equals sign are a name."""
    if parser.peek().kind is TokenKind.TEXT and parser.peek(1).text == "=":
        return Node(Kind.SYMBOL, (), parser.take().text)
    return _sets(parser)


def _sets(parser: ExpressionParser) -> Node:
    """An expression, or several joined by operations on sets."""
    node = parser.expression()
    if node.kind is Kind.SUM and len(node.args) == 2:
        first, second = node.args
        if [arg.kind for arg in second.args] == [Kind.NUMBER, Kind.SET]:
            node = Node(Kind.DIFFERENCE, (first, second.args[1]))  # R - {0}
    while parser.peek().text in _SET_OPERATIONS and parser.peek().kind in _SET_SIGNS:
        if parser.peek().text == "U" and node.kind not in (Kind.TUPLE, Kind.SET, Kind.UNION):
            break
        kind = _SET_OPERATIONS[parser.take().text]
        node = Node(kind, (node, parser.expression()))
    backslash = parser.peek().kind is TokenKind.OPERATOR and parser.peek().text == "\\"
    if backslash and node.kind in (Kind.TUPLE, Kind.SET, Kind.SYMBOL):
        parser.take()
        node = Node(Kind.DIFFERENCE, (node, parser.expression()))
    return node


def _bracket(parser: ExpressionParser) -> Node:
    """What stands in the brackets, or in the environment, that open next."""
    token = parser.take()
    parser.deeper()
    bars, parser.bars = parser.bars, 0
    node = _bracketed(parser, token)
    parser.bars = bars
    parser.depth -= 1
    return node


def _bracketed(parser: ExpressionParser, token: Token) -> Node:
    r"""What the bracket, brace or ``\begin`` that was taken opens."""
    if token.text == "begin":
        return environment(parser, partial(_row_of_cases, parser))
    if token.text == "\\{":
        return _set(parser)
    items = [_relation(parser)]
    while parser.peek().kind is TokenKind.SEPARATOR:
        parser.take()
        items.append(_relation(parser))
    items = progression(items)
    closing = parser.take().text
    if closing not in (")", "]"):
        raise Refusal("unclosed bracket")
    if len(items) == 1:
        if (token.text, closing) not in (("(", ")"), ("[", "]")):
            raise Refusal("mismatched brackets")
        if parser.peek().text == "_" and items[0].kind is Kind.NUMBER and items[0].value is not None:
            return parser.based(str(items[0].value))
        return items[0]
    return Node(Kind.TUPLE, tuple(items), token.text + closing)


def _set(parser: ExpressionParser) -> Node:
    """A set, of elements or by its condition; its brace is taken."""
    if parser.accept("\\}"):
        return Node(Kind.SET)
    parser.in_set, outer = True, parser.in_set
    items = [_relation(parser)]
    parser.in_set = outer
    if parser.accept("mid", "|", ":"):
        condition = _answers(parser)
        parser.expect("\\}")
        return Node(Kind.BUILDER, (items[0], condition))
    while parser.peek().kind is TokenKind.SEPARATOR:
        parser.take()
        items.append(_relation(parser))
    parser.expect("\\}")
    return Node(Kind.SET, tuple(progression(items)))


def _row_of_cases(parser: ExpressionParser) -> Node:
    """``x^2, & \\text{if } x > 0``: a value and, behind the mark, where it holds."""
    node = _item(parser)
    while parser.accept(",", ";"):
        pass
    if parser.accept("&") and parser.peek().text not in ("cr", "end"):
        node = _conditioned(parser, node)
    while parser.accept(",", ";"):
        pass
    return node
