r"""Is a response's answer the gold's? Types before values: a number never meets a set, an interval never a list.

``same(response, gold)`` takes trees; the gold decides what is asked for. Named coercions, and no others:

* ``x = v`` is ``v`` (the name may be dropped); ``f(x) = ...`` likewise;
* an inequality in one variable is its interval; a set builder is its set;
* a list without parentheses is a set, or the tuple with the same items in the same order;
* a column vector is the tuple of its entries; a ratio of two numbers is their quotient;
* a unit may be dropped, and converted, not changed.
* a condition behind a value may be left out on one side, unless it restricts (see ``conditions``);
* a gold that is a set of one element takes the element; a formula may stand for its values by cases.
"""

from stapo_bench.grading.cases import same_cases
from stapo_bench.grading.chains import collapsed
from stapo_bench.grading.conditions import unconditioned
from stapo_bench.grading.equal import free_symbols, same_value
from stapo_bench.grading.equations import same_relation
from stapo_bench.grading.exact import Inexact, exact
from stapo_bench.grading.measure import Rules, same_number, same_ratio
from stapo_bench.grading.names import (
    bound_variable,
    in_name_order,
    in_order_of,
    rename,
    same_letters,
    same_names,
    split_name,
)
from stapo_bench.grading.regions import is_inequality, reads_as_region, same_region, turned, variable
from stapo_bench.grading.spread import MAX_ITEMS, compound, elements, spread
from stapo_bench.grading.tree import MATH_KINDS, Node, Refusal, kinds, mul, precision


def same(response: Node, gold: Node, rules: Rules) -> bool:
    """Whether the response gives the gold. May raise ``Refusal`` where no reading decides."""
    if gold.kind != "rel":
        response = elements(response)
    elif response.kind != "rel":
        gold = elements(gold)
    if "given" in (response.kind, gold.kind):
        values = unconditioned(response, gold)
        return values is not None and same(*values, rules)
    response, gold = compound(response), compound(gold)
    golds, responses = spread(gold), spread(response)
    if len(golds) > 1 or len(responses) > 1 or "list" in (gold.kind, response.kind):
        return _same_lists(response, gold, responses, golds, rules)
    return _same_one(responses[0], golds[0], rules)


# ---- several values -----------------------------------------------------------------------------------------------


def _same_lists(response: Node, gold: Node, responses: list[Node], golds: list[Node], rules: Rules) -> bool:  # noqa: PLR0911
    if len(golds) == 1 and len(responses) > 1:
        only = _in_order_of_names(golds[0])
        if only.kind == "set":
            return _same_sets(tuple(responses), only.args, rules)
        if only.kind == "tuple" and only.label in ("()", "[]"):
            values = in_name_order(responses)
            return len(only.args) == len(values) and all(
                _same_one(r, g, rules) for r, g in zip(values, only.args, strict=True)
            )
        # Several values for one question are wrong, unless they are one value said twice.
        return all(_same_one(r, only, rules) for r in responses)
    if len(responses) == 1 and len(golds) > 1:
        only = _in_order_of_names(responses[0])
        if only.kind == "set":
            return _same_sets(only.args, tuple(golds), rules)
        if only.kind == "tuple" and only.label in ("()", "[]"):
            plain = in_name_order(golds)
            return len(only.args) == len(plain) and all(
                _same_one(r, g, rules) for r, g in zip(only.args, plain, strict=True)
            )
        return False
    if len(responses) != len(golds):
        return False
    named = _by_name(golds), _by_name(responses)
    if named[0] is not None and named[1] is not None and named[0].keys() == named[1].keys():
        return all(_same_one(named[1][name], gold, rules) for name, gold in named[0].items())
    return _matching(responses, golds, rules)


def _by_name(items: list[Node]) -> dict[Node, Node] | None:
    """Values by their names where each has its own: ``f(n) = n, g(n) = 1``."""
    named = {name: value for name, value in map(split_name, items) if name is not None}
    return named if len(named) == len(items) else None


def _in_order_of_names(node: Node) -> Node:
    """``(b, a) = (2, 1)`` is the pair (1, 2) of a and b."""
    name, value = split_name(node)
    if name is None or name.kind != "tuple" or value.kind != "tuple" or len(name.args) != len(value.args):
        return node
    pairs = [Node("rel", pair, "=") for pair in zip(name.args, value.args, strict=True)]
    return Node("tuple", tuple(in_name_order(pairs)), "()")


def _matching(responses: list[Node], golds: list[Node], rules: Rules) -> bool:
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


def _same_sets(response: tuple[Node, ...], gold: tuple[Node, ...], rules: Rules) -> bool:
    """Each element of one is in the other; repetition and order do not matter."""
    if len(response) > MAX_ITEMS or len(gold) > MAX_ITEMS:
        raise Refusal("set too large")
    return all(any(_same_one(r, g, rules) for g in gold) for r in response) and all(
        any(_same_one(r, g, rules) for r in response) for g in gold
    )


# ---- one value ----------------------------------------------------------------------------------------------------


def _same_one(response: Node, gold: Node, rules: Rules) -> bool:  # noqa: PLR0911
    response, gold = collapsed(response, _agree), collapsed(gold, _agree)
    if response == gold:
        return True
    if "given" in (response.kind, gold.kind):
        values = unconditioned(response, gold)
        return values is not None and same(*values, rules)
    if gold.kind == "rel" and len(gold.args) == 1:
        return (
            response.kind == "rel"
            and response.label == gold.label
            and len(response.args) == 1
            and same(response.args[0], gold.args[0], rules)
        )
    if response.kind == "rel" and len(response.args) == 1:
        # "~ 3.14" may stand for a decimal gold; a bound or a negation never stands for a value.
        return (
            response.label in ("~", "=")
            and (response.label == "=" or precision(gold) is not None)
            and _same_one(response.args[0], gold, rules)
        )
    if gold.kind == "mod" or response.kind == "mod":
        return _same_residue(response, gold, rules)
    region = _regions(response, gold)
    if region is not None:
        return region
    return _same_named(response, gold, rules)


def _agree(left: Node, right: Node) -> bool:
    """Whether two members of a chain are one value: either may be a rounding of the other."""
    return _same_one(left, right, Rules()) or _same_one(right, left, Rules())


def _regions(response: Node, gold: Node) -> bool | None:  # noqa: PLR0911
    """The verdict where one side can only be a set of reals; None where that is not so."""
    if "=" in gold.label.split() and gold.kind == "rel":
        return None
    if not (reads_as_region(gold) or reads_as_region(response)):
        return None
    if gold.kind not in ("tuple", "set", "sym", "list", "rel", "union", "inter", "minus", "builder"):
        return False
    if response.kind not in ("tuple", "set", "sym", "list", "rel", "union", "inter", "minus", "builder"):
        return False
    asked, given = variable(gold), variable(response)
    if asked is not None and given is not None and asked != given:
        return False
    if is_inequality(gold) and is_inequality(response) and len(free_symbols(gold)) > 1:
        if len(gold.args) == 2:
            return same_relation(response, gold)
        if response.label != gold.label:
            response = turned(response)
        return response.label == gold.label and all(map(same_value, response.args, gold.args))
    try:
        return same_region(response, gold)
    except Refusal:
        if response.kind == gold.kind and response.label == gold.label and len(response.args) == len(gold.args):
            return all(_same_one(r, g, Rules()) for r, g in zip(response.args, gold.args, strict=True))
        raise


def _same_named(response: Node, gold: Node, rules: Rules) -> bool:  # noqa: PLR0911
    gold_name, gold_value = split_name(gold)
    name, value = split_name(response)
    if gold.kind == "rel" and gold_name is None:
        return response.kind == "rel" and _same_chain(response, gold)
    if gold_name is not None:
        if response.kind != "rel":
            return _same_value(value, gold_value, rules)
        if name is None:
            return _same_chain(response, gold)
        renamed = bound_variable(name, gold_name)
        if renamed is not None:
            return _same_value(rename(value, renamed), gold_value, rules)
        if name.kind == gold_name.kind == "ratio":
            in_order = in_order_of(gold_name, name, value)
            return in_order is not None and _same_value(in_order, gold_value, rules)
        if same_names(name, gold_name) and _same_value(value, gold_value, rules):
            return True
        return free_symbols(response) == free_symbols(gold) and _same_chain(response, gold)
    if response.kind == "rel" and name is None:
        return False
    if name is not None and name.kind == "tuple" and gold_value.kind != "tuple":
        return False
    return _same_value(value, gold_value, rules)


def _same_chain(response: Node, gold: Node) -> bool:
    if len(response.args) == 2 and len(gold.args) == 2:
        return _numeric(response) and _numeric(gold) and same_relation(response, gold)
    return (
        response.label == gold.label
        and len(response.args) == len(gold.args)
        and all(_same_one(r, g, Rules()) for r, g in zip(response.args, gold.args, strict=True))
    )


def _numeric(node: Node) -> bool:
    return all(kinds(arg) <= MATH_KINDS for arg in node.args)


def _same_residue(response: Node, gold: Node, rules: Rules) -> bool:
    r"""``n \equiv 2 \pmod 4`` is ``n \equiv -2 \pmod 4``."""
    if response.kind != "mod" or gold.kind != "mod" or not same_value(response.args[1], gold.args[1]):
        return False
    left, right = response.args[0], gold.args[0]
    if (left.kind == "rel") != (right.kind == "rel"):
        left, right = left.args[-1] if left.kind == "rel" else left, right.args[-1] if right.kind == "rel" else right
    if left.kind == "rel":
        if len(left.args) != 2 or len(right.args) != 2 or left.args[0] != right.args[0]:
            return False
        left, right = left.args[1], right.args[1]
    try:
        return (exact(left, {}) - exact(right, {})) % exact(gold.args[1], {}) == 0
    except (Inexact, ZeroDivisionError):
        return _same_one(left, right, rules)


def _same_value(response: Node, gold: Node, rules: Rules) -> bool:  # noqa: PLR0911
    """Values without names."""
    if response == gold or same_letters(response, gold):
        return True
    if gold.kind == "set" or response.kind == "set":
        if gold.kind == "set" and len(gold.args) == 1 and response.kind in (*MATH_KINDS, "quantity"):
            return _same_one(response, gold.args[0], rules)  # the one value of a list of one
        return gold.kind == response.kind == "set" and _same_sets(response.args, gold.args, rules)
    if gold.kind == "cases" or response.kind == "cases":
        return same_cases(response, gold)
    if gold.kind == "matrix" or response.kind == "matrix":
        return _same_matrices(response, gold, rules)
    if gold.kind == "tuple" or response.kind == "tuple":
        if gold.kind != "tuple" or response.kind != "tuple" or len(gold.args) != len(response.args):
            return False
        if gold.label != response.label and len(gold.args) == 2:
            return False
        return all(_same_item(r, g, rules) for r, g in zip(response.args, gold.args, strict=True))
    if gold.kind == "ratio" or response.kind == "ratio":
        return same_ratio(response, gold)
    if gold.kind == "list" or response.kind == "list":
        return gold.kind == response.kind and same(response, gold, rules)
    return same_number(response, gold, rules)


def _same_item(response: Node, gold: Node, rules: Rules) -> bool:
    """A coordinate: it may carry its own name, ``(x, y) = (x = 1, y = 2)``; nothing else is looser than outside."""
    return _same_one(response, gold, rules)


def _same_matrices(response: Node, gold: Node, rules: Rules) -> bool:
    left, right = _rows(response), _rows(gold)
    if left is None or right is None or len(left) != len(right):
        return False
    return all(
        len(a) == len(b) and all(_same_one(x, y, rules) for x, y in zip(a, b, strict=True))
        for a, b in zip(left, right, strict=True)
    )


def _rows(node: Node) -> list[tuple[Node, ...]] | None:
    """Rows of a matrix; a tuple is a column, a tuple of tuples its rows; a scalar before a matrix goes inside."""
    if node.kind == "matrix":
        return [row.args for row in node.args]
    if node.kind == "tuple":
        if all(arg.kind == "tuple" for arg in node.args):
            return [arg.args for arg in node.args]
        return [(arg,) for arg in node.args]
    if node.kind == "mul":
        matrices = [arg for arg in node.args if "matrix" in kinds(arg)]
        if len(matrices) == 1 and (inner := _rows(matrices[0])) is not None:
            scalars = [arg for arg in node.args if arg is not matrices[0]]
            return [tuple(mul(*scalars, entry) for entry in row) for row in inner]
    return None
