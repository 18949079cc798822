r"""What stands behind a value: "for t > 0", "if n is even", "where b is any integer", "with probability 1/3".

A value with its condition is ``Node(Kind.CONDITIONAL, (value, *clauses), lead)``, where ``lead`` is the word that opens
the condition. A clause is a relation, or words in a normal form. ``compare.conditional`` says which conditions agree.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import takewhile

from stapo_bench.grading import units
from stapo_bench.grading.names import split_name
from stapo_bench.grading.read.cursor import Cursor
from stapo_bench.grading.read.lexer import Token, TokenKind
from stapo_bench.grading.tree import EXPRESSIONS, Kind, Node, Refusal, free_symbols, is_inequality, kinds

RelationParser = Callable[[list[Token]], Node]  # parses tokens to their end as one relation, or refuses

RESTRICTIONS = frozenset(["if", "provided", "unless", "otherwise", "else"])
BRANCHES = RESTRICTIONS | {"for", "when", "whenever"}
_REASONS = frozenset(["since", "as", "respectively"])  # say nothing about the value
# Words that bring another value: "42 as well as 43", "42 with 43 also possible".
_OTHERS = frozenset({
    "also", "too", "well", "possible", "possibly", "maybe", "perhaps", "another", "alternative", "alternatively",
    "works", "instead", "but",
})  # fmt: skip
_FILLER = frozenset({
    "is", "are", "be", "an", "the", "any", "arbitrary", "some", "all", "every", "each", "such", "that", "of",
    "value", "values", "number", "numbers", "constant", "constants", "where", "with", "for", "when", "if", "and",
    "given", "fixed",
})  # fmt: skip
_DOMAINS = {"N": "natural", "Z": "integer", "Q": "rational", "R": "real", "C": "complex"}
DOMAIN_WORDS = frozenset(_DOMAINS.values()) | {"positive", "negative", "nonnegative", "non-negative", "nonzero"}
_SIGNED = {"+": "positive", "-": "negative", ">0": "positive", "geq0": "nonnegative", "ge0": "nonnegative"}
_RELATIONS = frozenset(["=", "<", ">", "le", "ge", "ne", "mid", "equiv", "approx", "notin", "subset"])


def conditioned(parser: Cursor, value: Node, parse: RelationParser, starts_item: Callable[[], bool]) -> Node:
    """The value with the condition that the parser stands at; without a lead word (in a row of cases) it is an "if".

    It ends with the tokens, before a bracket that it did not open, a row end, or a separator behind which
    ``starts_item`` sees the next value with a condition of its own.
    """
    word = parser.lead() or "if"
    rest = parser.take().text.split()[1:] if parser.lead() else []
    clauses: list[list[Token]] = [[Token(TokenKind.WORD, part, True) for part in rest]]
    depth = 0
    while not parser.at_end():
        token = parser.peek()
        depth += (token.text in ("(", "[", "{", "\\{")) - (token.text in (")", "]", "}", "\\}"))
        if depth < 0 or (token.kind is TokenKind.COMMAND and token.text in ("cr", "end")):
            break
        if token.kind is TokenKind.SEPARATOR and depth == 0:
            if starts_item():
                break
            clauses.append([])
        else:
            clauses[-1].append(token)
        parser.take()
    if _brings_another(value, clauses, parse):
        raise Refusal("a second value behind the condition")
    if word in _REASONS:
        return value
    said = [clause for clause in (_clause(tokens, parse) for tokens in clauses) if clause is not None]
    return Node(Kind.CONDITIONAL, (value, *said), word)


def _brings_another(value: Node, clauses: list[list[Token]], parse: RelationParser) -> bool:
    """Whether a value stands among the conditions of a number, or another equation for its name.

    "for n = 1, 2, 3" only continues a list.
    """
    said = {word.strip(".,:;()").lower() for clause in clauses for token in clause for word in token.text.split()}
    if said & _OTHERS:
        return True
    name, bare = split_name(value)
    if free_symbols(bare):
        return False
    last: Fraction | None = None
    for tokens in clauses:
        fillers = takewhile(lambda t: t.kind in (TokenKind.WORD, TokenKind.TEXT) and t.text.lower() in _FILLER, tokens)
        try:
            node = parse(tokens[len(list(fillers)) :])
        except Refusal:
            continue
        if node.kind is Kind.RELATION and node.label == "=" and len(node.args) == 2:
            if name is not None and node.args[0] == name and node.args[1] != bare:
                return True
            last = node.args[1].value
        elif kinds(node) <= EXPRESSIONS and not free_symbols(node):
            if last is None or node.value != last + 1:
                return True
            last = node.value
    return False


def _clause(tokens: list[Token], parse: RelationParser) -> Node | None:
    r"""``t > 0`` as a relation; "k is any integer" and ``k \in \mathbb{Z}`` as the words "integer k"; else None."""
    if tokens and (node := _relation(tokens, parse)) is not None:
        return node
    said = _words(tokens)
    if not any(token.text in _RELATIONS for token in tokens):
        said.sort()
    return Node(Kind.WORDS, (), " ".join(said)) if any(len(word) > 1 for word in said) or len(said) > 1 else None


def _relation(tokens: list[Token], parse: RelationParser) -> Node | None:
    """The tokens, without leading words that say nothing, as a relation between values; None where they are none."""
    while tokens and tokens[0].kind is TokenKind.WORD and tokens[0].text.lower() in _FILLER:
        tokens = tokens[1:]
    try:
        node = parse(tokens)
    except Refusal:
        return None
    if node.kind is not Kind.RELATION or len(node.args) < 2 or {Kind.WORDS, Kind.QUANTITY} & kinds(node):
        return None
    return _membership(node) or node


def _membership(node: Node) -> Node | None:
    r"""``k \in \mathbb{Z}`` in the same normal form as the words "k is an integer"."""
    if node.kind is not Kind.RELATION or node.label != "in":
        return None
    if {node.args[0].kind, node.args[1].kind} != {Kind.SYMBOL}:
        return None
    name, domain = node.args[0].label, _domain(node.args[1].label)
    return Node(Kind.WORDS, (), " ".join(sorted([*domain.split(), name]))) if domain else None


def bare_clause(last: Node, before: list[Node]) -> Node | None:
    r"""``2 \pi k, k \in \mathbb{Z}``, ``2^n, n \ge 1``: an item that only bounds a symbol of the values before it."""
    values = [split_name(item)[1] for item in before]
    if not free_symbols(last) & {name for value in values for name in free_symbols(value)}:
        return None
    if any(value.kind is Kind.RELATION for value in values):
        return None
    return _membership(last) or (last if is_inequality(last) or _excludes(last) else None)


def _excludes(node: Node) -> bool:
    r"""Whether it is ``x \ne -3``, which takes numbers from a symbol's values."""
    return node.kind is Kind.RELATION and node.label == "!=" and node.args[0].kind is Kind.SYMBOL


def _domain(label: str) -> str:
    """``mathbb(Z)`` is "integer", ``mathbb(Z)_+`` and ``mathbb(Z)_>0`` "positive integer"; "" is no domain."""
    head, _, sign = label.partition("_")
    name = _DOMAINS.get(head.removeprefix("mathbb(").rstrip(")"), "")
    return f"{_SIGNED[sign]} {name}" if name and sign in _SIGNED else name if not sign else ""


def _words(tokens: list[Token]) -> list[str]:
    """Words that carry meaning, in one form each, and signs; "a" and "an" are articles where they stand as such."""
    raw: list[str] = []
    for token in tokens:
        if token.kind in (TokenKind.TEXT, TokenKind.WORD):
            raw.extend(word.strip(".,:;()") for word in token.text.split())
        elif token.text == "n" and not token.space and raw and raw[-1] == "a":
            raw[-1] = "an"  # the lexer takes two letters side by side for a product
        else:
            raw.append(token.text)
    words = []
    for index, word in enumerate(raw):
        is_article = (
            word == "a" and raw[index - 1 : index] != ["where"] and raw[index + 1 : index + 2] not in (["is"], [">"])
        )
        if word and not is_article and word.lower() not in _FILLER:
            words.append(units.singular(word.lower()) if len(word) > 1 else word)
    return words
