"""Values with conditions: whether the conditions of response and gold allow the two to be the same.

Where both state a condition the two must agree. A response may leave it out or add one of its own, except one that
restricts ("42 if n = 1" is not 42).
"""

from stapo_bench.grading.compare.equations import same_relation
from stapo_bench.grading.compare.regions import same_region
from stapo_bench.grading.names import split_name
from stapo_bench.grading.read import DOMAIN_WORDS, RESTRICTIONS
from stapo_bench.grading.tree import EXPRESSIONS, Kind, Node, Refusal, free_symbols, kinds, rename

# ---- comparison ---------------------------------------------------------------------------------------------------


def unconditioned(response: Node, gold: Node) -> tuple[Node, Node] | None:
    """Both values without their conditions; None where the conditions do not allow them to be the same."""
    while Kind.CONDITIONAL in (response.kind, gold.kind):
        if response.kind is gold.kind:
            response = _with_counter_of(gold, response)
            if not same_conditions(response, gold):
                return None
            response, gold = response.args[0], gold.args[0]
        elif gold.kind is Kind.CONDITIONAL:
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
    return Node(Kind.CONDITIONAL, (rename(response.args[0], {old: new}), *clauses), response.label)


def _counter(node: Node) -> tuple[str, str, Node] | None:
    """The one symbol that a condition puts in a domain: its name, the domain, the clause."""
    found = []
    for clause in node.args[1:]:
        words = clause.label.split() if clause.kind is Kind.WORDS else []
        names = [word for word in words if word not in DOMAIN_WORDS]
        if len(names) == 1 and len(words) > 1:
            found.append((names[0], " ".join(word for word in words if word in DOMAIN_WORDS), clause))
    return found[0] if len(found) == 1 else None


def _restricts(node: Node) -> bool:
    """Whether the condition makes the value another: any "if"; a "when" or "given" beside a number."""
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
    """Whether two clauses say the same: in the same words, or as relations."""
    if left == right:
        return True
    if left.kind is not Kind.RELATION or right.kind is not Kind.RELATION:
        return False
    if free_symbols(left) != free_symbols(right):
        return False
    try:
        return same_region(left, right)
    except Refusal:
        numeric = all(kinds(arg) <= EXPRESSIONS for arg in (*left.args, *right.args))
        return numeric and same_relation(left, right)
