r"""Is a response's answer the gold's? Types before values: a number never meets a set, an interval never a list.

``same(response, gold)`` takes trees; the gold decides what is asked for. Named coercions, and no others:

* ``x = v`` is ``v`` (the name may be dropped); ``f(x) = ...`` likewise;
* an inequality in one variable is its interval; a set builder is its set;
* a list without parentheses is a set, or the tuple with the same items in the same order;
* a power, product or sum of matrices or vectors before a matrix or vector is its name, and may be dropped;
* a column vector is the tuple of its entries, and so is a vector in i, j, k; a ratio of two numbers is their quotient;
* a unit may be dropped, and converted, not changed;
* a condition behind a value may be left out on one side, unless it restricts (see ``conditional``);
* a gold that is a set of one element takes the element; a formula may stand for its values by cases.
"""

from collections.abc import Sequence

from stapo_bench.grading.compare.chains import collapsed
from stapo_bench.grading.compare.conditional import unconditioned
from stapo_bench.grading.compare.equations import is_problem_of, same_relation
from stapo_bench.grading.compare.functions import same_value
from stapo_bench.grading.compare.matrices import in_coordinates, without_matrix_names
from stapo_bench.grading.compare.measure import Rules, same_number, same_ratio
from stapo_bench.grading.compare.piecewise import same_cases
from stapo_bench.grading.compare.regions import reads_as_region, same_region, turned, variable
from stapo_bench.grading.compare.renaming import (
    bound_variable,
    by_name,
    in_name_order,
    in_order_of,
    in_order_of_letters,
    in_order_of_names,
    same_letters,
    same_names,
)
from stapo_bench.grading.compare.spread import MAX_ITEMS, compound, elements, rows, spread
from stapo_bench.grading.evaluate import Inexact, exact
from stapo_bench.grading.names import split_name
from stapo_bench.grading.tree import (
    EXPRESSIONS,
    Kind,
    Node,
    Refusal,
    free_symbols,
    is_inequality,
    kinds,
    precision,
    rename,
)

# Kinds that can be a set of reals; beside one, any other kind is wrong.
_REGIONS = frozenset({
    Kind.TUPLE, Kind.SET, Kind.SYMBOL, Kind.LIST, Kind.RELATION, Kind.UNION, Kind.INTERSECTION, Kind.DIFFERENCE,
    Kind.BUILDER,
})  # fmt: skip
_SINGLE = EXPRESSIONS | {Kind.QUANTITY}


def same(response: Node, gold: Node, rules: Rules) -> bool:
    """Whether the response gives the gold. May raise ``Refusal`` where no reading decides."""
    if gold.kind is not Kind.RELATION:
        response = elements(response)
    elif response.kind is not Kind.RELATION:
        gold = elements(gold)
    if Kind.CONDITIONAL in (response.kind, gold.kind):
        values = unconditioned(response, gold)
        return values is not None and same(*values, rules)
    response, gold = compound(response), compound(gold)
    golds, responses = spread(gold), spread(response)
    if len(golds) > 1 or len(responses) > 1 or Kind.LIST in (gold.kind, response.kind):
        return _same_lists(responses, golds, rules)
    return _same_one(responses[0], golds[0], rules)


# ---- several values -----------------------------------------------------------------------------------------------


def _same_lists(responses: list[Node], golds: list[Node], rules: Rules) -> bool:
    """Whether the values that each side lists are the same."""
    if len(golds) == 1 and len(responses) > 1:
        return _several_for_one(responses, in_order_of_names(golds[0]), rules)
    if len(responses) == 1 and len(golds) > 1:
        return _one_for_several(in_order_of_names(responses[0]), golds, rules)
    if len(responses) != len(golds):
        return False
    named, asked = by_name(responses), by_name(golds)
    if named is not None and asked is not None and named.keys() == asked.keys():
        return all(_same_one(named[name], value, rules) for name, value in asked.items())
    return _matching(responses, golds, rules)


def _several_for_one(responses: list[Node], gold: Node, rules: Rules) -> bool:
    """A list is the gold's set, or its tuple in that order, or one value said several times."""
    if gold.kind is Kind.SET:
        return _same_sets(responses, gold.args, rules)
    if gold.kind is Kind.TUPLE and gold.label in ("()", "[]"):
        return _all_same(in_name_order(responses), gold.args, rules)
    return all(_same_one(response, gold, rules) for response in responses)


def _one_for_several(response: Node, golds: list[Node], rules: Rules) -> bool:
    """A set, or a tuple in the gold's order, is the gold's list."""
    if response.kind is Kind.SET:
        return _same_sets(response.args, golds, rules)
    is_tuple = response.kind is Kind.TUPLE and response.label in ("()", "[]")
    return is_tuple and _all_same(response.args, in_name_order(golds), rules)


def _all_same(responses: Sequence[Node], golds: Sequence[Node], rules: Rules) -> bool:
    """Whether there are as many values as golds, each equal to the gold at its place."""
    return len(responses) == len(golds) and all(_same_one(r, g, rules) for r, g in zip(responses, golds, strict=True))


def _matching(responses: list[Node], golds: list[Node], rules: Rules) -> bool:
    """Whether each response finds a gold of its own, in any order."""
    left = list(golds)
    for response in responses:
        for index, gold in enumerate(left):
            try:
                found = _same_one(response, gold, rules)
            except Refusal:
                found = False
            if found:
                del left[index]
                break
        else:
            return False
    return not left


def _same_sets(response: Sequence[Node], gold: Sequence[Node], rules: Rules) -> bool:
    """Each element of one is in the other; repetition and order do not matter."""
    if len(response) > MAX_ITEMS or len(gold) > MAX_ITEMS:
        raise Refusal("set too large")
    return all(any(_same_one(r, g, rules) for g in gold) for r in response) and all(
        any(_same_one(r, g, rules) for r in response) for g in gold
    )


# ---- one value ----------------------------------------------------------------------------------------------------


def _same_one(response: Node, gold: Node, rules: Rules) -> bool:
    """Whether one value, region or relation is the gold."""
    if Kind.RELATION in (response.kind, gold.kind):
        response, gold = without_matrix_names(response, gold)
        response, gold = collapsed(response, _agree), collapsed(gold, _agree)
    if response == gold:
        return True
    if Kind.CONDITIONAL in (response.kind, gold.kind):
        values = unconditioned(response, gold)
        return values is not None and same(*values, rules)
    if _is_bound(gold) or _is_bound(response):
        return _same_bound(response, gold, rules)
    if Kind.RESIDUE in (gold.kind, response.kind):
        return _same_residue(response, gold, rules)
    region = _regions(response, gold)
    return region if region is not None else _same_named(response, gold, rules)


def _agree(left: Node, right: Node) -> bool:
    """Whether two members of a chain are one value: either may be a rounding of the other."""
    return _same_one(left, right, Rules()) or _same_one(right, left, Rules())


def _is_bound(node: Node) -> bool:
    """Whether a relation lacks its left side: ``< 5``."""
    return node.kind is Kind.RELATION and len(node.args) == 1


def _same_bound(response: Node, gold: Node, rules: Rules) -> bool:
    """``~ 3.14`` may stand for a decimal gold; any other bound or negation stands only for itself."""
    if _is_bound(gold):
        same_sign = _is_bound(response) and response.label == gold.label
        return same_sign and same(response.args[0], gold.args[0], rules)
    stands_for_value = response.label == "=" or (response.label == "~" and precision(gold) is not None)
    return stands_for_value and _same_one(response.args[0], gold, rules)


def _regions(response: Node, gold: Node) -> bool | None:
    """The verdict where one side can only be a set of reals; None where that is not so."""
    if gold.kind is Kind.RELATION and "=" in gold.label.split():
        return None
    if not (reads_as_region(gold) or reads_as_region(response)):
        return None
    asked, given = variable(gold), variable(response)
    other_variable = asked is not None and given is not None and asked != given
    if gold.kind not in _REGIONS or response.kind not in _REGIONS or other_variable:
        return False
    if is_inequality(gold) and is_inequality(response) and len(free_symbols(gold)) > 1:
        return _same_inequality(response, gold)
    try:
        return same_region(response, gold)
    except Refusal:
        if response.kind is gold.kind and response.label == gold.label and len(response.args) == len(gold.args):
            return _all_same(response.args, gold.args, Rules())
        raise


def _same_inequality(response: Node, gold: Node) -> bool:
    """Inequalities in several variables: the same up to rearrangement, in a chain member by member."""
    if len(gold.args) == 2:
        return same_relation(response, gold)
    if response.label != gold.label:
        response = turned(response)
    return response.label == gold.label and all(map(same_value, response.args, gold.args))


def _same_named(response: Node, gold: Node, rules: Rules) -> bool:
    """Values that may have names, and equations, whose left side is no name."""
    gold_name, gold_value = split_name(gold)
    if gold_value.kind is Kind.TUPLE and gold_name is None:
        response = in_order_of_letters(response)
    name, value = split_name(response)
    if gold.kind is Kind.RELATION and gold_name is None:
        return response.kind is Kind.RELATION and _same_chain(response, gold)
    if gold_name is None:
        is_equation = response.kind is Kind.RELATION and name is None
        names_other = name is not None and name.kind is Kind.TUPLE and gold_value.kind is not Kind.TUPLE
        return not is_equation and not names_other and _same_value(value, gold_value, rules)
    if response.kind is not Kind.RELATION:
        return _same_value(value, gold_value, rules)
    if name is None:
        return _same_chain(response, gold)
    return _same_both_named(response, gold, rules)


def _same_both_named(response: Node, gold: Node, rules: Rules) -> bool:
    """Whether two named values agree, and their names, up to a function's argument, a ratio's order, or an equation."""
    (name, value), (gold_name, gold_value) = split_name(response), split_name(gold)
    assert name is not None and gold_name is not None
    renamed = bound_variable(name, gold_name)
    if renamed is not None:
        return _same_value(rename(value, renamed), gold_value, rules)
    if name.kind is gold_name.kind is Kind.RATIO:
        in_order = in_order_of(gold_name, name, value)
        return in_order is not None and _same_value(in_order, gold_value, rules)
    if same_names(name, gold_name) and _same_value(value, gold_value, rules):
        return True
    return free_symbols(response) == free_symbols(gold) and _same_chain(response, gold)


def _same_chain(response: Node, gold: Node) -> bool:
    """Relations: two sides up to rearrangement, longer chains member by member."""
    if len(response.args) == 2 and len(gold.args) == 2:
        return (
            not is_problem_of(response, gold)
            and _is_numeric(response)
            and _is_numeric(gold)
            and same_relation(response, gold)
        )
    return response.label == gold.label and _all_same(response.args, gold.args, Rules())


def _is_numeric(node: Node) -> bool:
    """Whether all sides are numbers and expressions."""
    return all(kinds(arg) <= EXPRESSIONS for arg in node.args)


def _same_residue(response: Node, gold: Node, rules: Rules) -> bool:
    r"""``n \equiv 2 \pmod 4`` is ``n \equiv -2 \pmod 4``."""
    if not (response.kind is gold.kind is Kind.RESIDUE) or not same_value(response.args[1], gold.args[1]):
        return False
    left, right = response.args[0], gold.args[0]
    if (left.kind is Kind.RELATION) is not (right.kind is Kind.RELATION):
        left, right = (side.args[-1] if side.kind is Kind.RELATION else side for side in (left, right))
    if left.kind is Kind.RELATION:
        if len(left.args) != 2 or len(right.args) != 2 or left.args[0] != right.args[0]:
            return False
        left, right = left.args[1], right.args[1]
    try:
        return (exact(left, {}) - exact(right, {})) % exact(gold.args[1], {}) == 0
    except (Inexact, ZeroDivisionError):
        return _same_one(left, right, rules)


def _same_value(response: Node, gold: Node, rules: Rules) -> bool:  # noqa: PLR0911 - one return for each kind of value
    """Values without names."""
    either = (gold.kind, response.kind)
    if response == gold or same_letters(response, gold):
        return True
    if (response.kind in EXPRESSIONS) is not (gold.kind in EXPRESSIONS):
        response, gold = in_coordinates(response, gold)
        either = (gold.kind, response.kind)
    if Kind.SET in either:
        if gold.kind is Kind.SET and len(gold.args) == 1 and response.kind in _SINGLE:
            return _same_one(response, gold.args[0], rules)  # the one value of a list of one
        return gold.kind is response.kind and _same_sets(response.args, gold.args, rules)
    if Kind.CASES in either:
        return same_cases(response, gold)
    if Kind.MATRIX in either:
        return _same_matrices(response, gold, rules)
    if Kind.TUPLE in either:
        # A coordinate may carry its own name: (x, y) = (x = 1, y = 2).
        same_brackets = gold.label == response.label or len(gold.args) != 2
        return gold.kind is response.kind and same_brackets and _all_same(response.args, gold.args, rules)
    if Kind.RATIO in either:
        return same_ratio(response, gold)
    if Kind.LIST in either:
        return gold.kind is response.kind and same(response, gold, rules)
    return same_number(response, gold, rules)


def _same_matrices(response: Node, gold: Node, rules: Rules) -> bool:
    """Whether two matrices, or tuples read as such, agree entry by entry."""
    left, right = rows(response), rows(gold)
    if left is None or right is None or len(left) != len(right):
        return False
    return all(_all_same(a, b, rules) for a, b in zip(left, right, strict=True))
