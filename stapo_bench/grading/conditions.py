r"""What stands behind a value: "for t > 0", "if n is even", "where b is any integer", "with probability 1/3".

A value with its condition is ``Node("given", (value, *clauses), lead)``. A clause is a relation, or ``words`` in a
normal form. Where gold and response both state a condition the two must agree. A response may leave it out or add one
of its own, except one that restricts ("42 if n = 1" is not 42).
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import takewhile

from stapo_bench.grading import units
from stapo_bench.grading.cursor import Cursor
from stapo_bench.grading.equal import free_symbols
from stapo_bench.grading.equations import same_relation
from stapo_bench.grading.lexer import Token
from stapo_bench.grading.names import rename, split_name
from stapo_bench.grading.regions import is_inequality, same_region
from stapo_bench.grading.tree import MATH_KINDS, Node, Refusal, kinds

Reader = Callable[[list[Token]], Node]  # reads tokens to their end as one relation, or refuses

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
_DOMAIN_WORDS = frozenset(_DOMAINS.values()) | {"positive", "negative", "nonnegative", "non-negative", "nonzero"}
_SIGNED = {"+": "positive", "-": "negative", ">0": "positive", "geq0": "nonnegative", "ge0": "nonnegative"}
_RELATIONS = frozenset(["=", "<", ">", "le", "ge", "ne", "mid", "equiv", "approx", "notin", "subset"])


def conditioned(parser: Cursor, value: Node, read: Reader, starts_item: Callable[[], bool]) -> Node:
    """The value with the condition that the parser stands at; without a lead word (in a row of cases) it is an "if".

    It ends with the tokens, before a bracket that it did not open, a row end, or a separator behind which
    ``starts_item`` sees the next value with a condition of its own.
    """
    word = parser.lead() or "if"
    rest = parser.take().text.split()[1:] if parser.lead() else []
    clauses: list[list[Token]] = [[Token("word", part, True) for part in rest]]
    depth = 0
    while not parser.at_end():
        token = parser.peek()
        depth += (token.text in ("(", "[", "{", "\\{")) - (token.text in (")", "]", "}", "\\}"))
        if depth < 0 or (token.kind == "cmd" and token.text in ("cr", "end")):
            break
        if token.kind == "sep" and depth == 0:
            if starts_item():
                break
            clauses.append([])
        else:
            clauses[-1].append(token)
        parser.take()
    if _brings_another(value, clauses, read):
        raise Refusal("a second value behind the condition")
    if word in _REASONS:
        return value
    said = [clause for clause in (_clause(tokens, read) for tokens in clauses) if clause is not None]
    return Node("given", (value, *said), word)


def _brings_another(value: Node, clauses: list[list[Token]], read: Reader) -> bool:
    """Whether a value stands among the conditions of a number, or another equation for its name.

    "for n = 1, 2, 3" goes on counting.
    """
    said = {word.strip(".,:;()").lower() for clause in clauses for token in clause for word in token.text.split()}
    if said & _OTHERS:
        return True
    name, bare = split_name(value)
    if free_symbols(bare):
        return False
    last: Fraction | None = None
    for tokens in clauses:
        fillers = takewhile(lambda t: t.kind in ("word", "text") and t.text.lower() in _FILLER, tokens)
        try:
            node = read(tokens[len(list(fillers)) :])
        except Refusal:
            continue
        if node.kind == "rel" and node.label == "=" and len(node.args) == 2:
            if name is not None and node.args[0] == name and node.args[1] != bare:
                return True
            last = node.args[1].value
        elif kinds(node) <= MATH_KINDS and not free_symbols(node):
            if last is None or node.value != last + 1:
                return True
            last = node.value
    return False


def _clause(tokens: list[Token], read: Reader) -> Node | None:
    r"""``t > 0`` as a relation; "k is any integer" and ``k \in \mathbb{Z}`` as the words "integer k"; else None."""
    if tokens and (node := _relation(tokens, read)) is not None:
        return node
    said = _words(tokens)
    if not any((token.kind == "cmd" and token.text in _RELATIONS) or token.text in _RELATIONS for token in tokens):
        said.sort()
    return Node("words", (), " ".join(said)) if any(len(word) > 1 for word in said) or len(said) > 1 else None


def _relation(tokens: list[Token], read: Reader) -> Node | None:
    while tokens and tokens[0].kind == "word" and tokens[0].text.lower() in _FILLER:
        tokens = tokens[1:]
    try:
        node = read(tokens)
    except Refusal:
        return None
    if node.kind != "rel" or len(node.args) < 2 or {"words", "quantity"} & kinds(node):
        return None
    return _membership(node) or node


def _membership(node: Node) -> Node | None:
    r"""``k \in \mathbb{Z}`` in the same normal form as the words "k is an integer"."""
    if node.kind != "rel" or node.label != "in" or not node.args[0].kind == node.args[1].kind == "sym":
        return None
    name, domain = node.args[0].label, _domain(node.args[1].label)
    return Node("words", (), " ".join(sorted([*domain.split(), name]))) if domain else None


def bare_clause(last: Node, before: list[Node]) -> Node | None:
    r"""``2 \pi k, k \in \mathbb{Z}``, ``2^n, n \ge 1``: an item that only bounds a symbol of the values before it."""
    values = [split_name(item)[1] for item in before]
    if not free_symbols(last) & {name for value in values for name in free_symbols(value)}:
        return None
    if any(value.kind == "rel" for value in values):
        return None
    return _membership(last) or (last if is_inequality(last) else None)


def _domain(label: str) -> str:
    """``mathbb(Z)`` is "integer", ``mathbb(Z)_+`` and ``mathbb(Z)_>0`` "positive integer"; "" is no domain."""
    head, _, sign = label.partition("_")
    name = _DOMAINS.get(head.removeprefix("mathbb(").rstrip(")"), "")
    return f"{_SIGNED[sign]} {name}" if name and sign in _SIGNED else name if not sign else ""


def _words(tokens: list[Token]) -> list[str]:
    """Words that carry meaning, in one form each, and signs; "a" and "an" are articles where they stand as such."""
    raw: list[str] = []
    for token in tokens:
        if token.kind in ("text", "word"):
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


# ---- comparison ---------------------------------------------------------------------------------------------------


def unconditioned(response: Node, gold: Node) -> tuple[Node, Node] | None:
    """Both values without their conditions; None where the conditions do not allow them to be the same."""
    while "given" in (response.kind, gold.kind):
        if response.kind == gold.kind:
            response = _with_counter_of(gold, response)
            if not same_conditions(response, gold):
                return None
            response, gold = response.args[0], gold.args[0]
        elif gold.kind == "given":
            if gold.label in RESTRICTIONS:
                return None
            gold = gold.args[0]
        else:
            if _restricts(response):
                return None
            response = response.args[0]
    return response, gold


def _with_counter_of(gold: Node, response: Node) -> Node:
    r"""``2 \pi n`` for any integer n is ``2 \pi k`` for any integer k: the letter of a family is free."""
    ours, theirs = _counter(response), _counter(gold)
    if ours is None or theirs is None or ours[1] != theirs[1]:
        return response
    old, new = ours[0], theirs[0]
    if old in free_symbols(gold) or new in free_symbols(response):
        return response
    clauses = [theirs[2] if clause == ours[2] else rename(clause, {old: new}) for clause in response.args[1:]]
    return Node("given", (rename(response.args[0], {old: new}), *clauses), response.label)


def _counter(node: Node) -> tuple[str, str, Node] | None:
    """The one symbol that a condition puts in a domain: its name, the domain, the clause."""
    found = []
    for clause in node.args[1:]:
        words = clause.label.split() if clause.kind == "words" else []
        names = [word for word in words if word not in _DOMAIN_WORDS]
        if len(names) == 1 and len(words) > 1:
            found.append((names[0], " ".join(word for word in words if word in _DOMAIN_WORDS), clause))
    return found[0] if len(found) == 1 else None


def _restricts(node: Node) -> bool:
    value = split_name(node.args[0])[1]
    return node.label in RESTRICTIONS or (node.label in ("when", "whenever", "given") and not free_symbols(value))


def same_conditions(left: Node, right: Node) -> bool:
    """Whether two conditions say the same, clause by clause in any order; a side that says nothing agrees."""
    ours, theirs = list(left.args[1:]), list(right.args[1:])
    if not ours or not theirs:
        return True
    for clause in ours:
        found = next((index for index, other in enumerate(theirs) if same_clause(clause, other)), None)
        if found is None:
            return False
        del theirs[found]
    return not theirs


def same_clause(left: Node, right: Node) -> bool:
    if left == right:
        return True
    if left.kind != "rel" or right.kind != "rel":
        return False
    if free_symbols(left) != free_symbols(right):
        return False
    try:
        return same_region(left, right)
    except Refusal:
        numeric = all(kinds(arg) <= MATH_KINDS for arg in (*left.args, *right.args))
        return numeric and same_relation(left, right)
