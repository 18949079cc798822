"""Numbers and expressions: equal exactly, at a decimal gold's precision, within a task's tolerance, in units."""

from dataclasses import dataclass
from fractions import Fraction

from stapo_bench.grading import units
from stapo_bench.grading.compare.functions import same_value
from stapo_bench.grading.evaluate import Inexact, compare_reals, exact, is_infinite, significant_digits, within
from stapo_bench.grading.tree import (
    EXPRESSIONS,
    Kind,
    Node,
    Refusal,
    calls,
    free_symbols,
    kinds,
    mul,
    num,
    power,
    precision,
    rename,
    sym,
    symbols,
)

PERCENT = num(Fraction(1, 100))
MAX_SHARE = Fraction(1, 100)
LONG_DECIMAL = 15  # digits from which a rounded decimal stands for an exact number that has no finite one


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the task says about a gold beyond its text."""

    tolerance: Fraction | None = None
    unit: str = ""


_TRANSCENDENTAL = frozenset({"pi", "e"})  # numbers that only their names say: digits of pi are not pi


def same_number(response: Node, gold: Node, rules: Rules) -> bool:  # noqa: PLR0911 - one return for each kind of gold
    """Whether a number, expression or quantity is the gold's; ``Refusal`` where one side is none of these."""
    response, unit = measured(response)
    gold, gold_unit = measured(gold)
    gold_unit = gold_unit or rules.unit
    if unit == units.PERCENT_APART:  # may be the number or, where the gold writes the sign, the percentage
        unit = ""
        if _is_percentage(gold):
            response = mul(response, PERCENT)
    if gold_unit.strip() in ("%", "\\%"):
        # The task measures in percent: "4.2" and "4.2%" are both 4.2.
        gold_unit = ""
        if _is_percentage(response):
            response = mul(*response.args[:-1], num(1))
    scale = _convert(unit, gold_unit, response, gold)
    if scale is None:
        return False
    response = response if scale == num(1) else mul(scale, response)
    if response.kind not in EXPRESSIONS or gold.kind not in EXPRESSIONS:
        raise Refusal(f"{response.kind.value} against {gold.kind.value}")
    if is_infinite(gold) or is_infinite(response):
        return is_infinite(gold) and is_infinite(response) and compare_reals(response, gold) == 0
    if "infty" in symbols(response) | symbols(gold):
        return response == gold  # infinity less infinity, or by infinity, has no value that could be equal to one
    closed = not free_symbols(response) and not free_symbols(gold)
    if rules.tolerance is not None and closed:
        return within(response, gold, rules.tolerance)
    ulp = precision(gold)
    if ulp is not None and closed:
        return _within_digits(response, gold, ulp)
    response_ulp = precision(response)
    if response_ulp is not None and closed:
        return _long_decimal(response, gold, response_ulp)
    return same_value(response, gold) or _same_constants_of_integration(response, gold)


def _is_percentage(node: Node) -> bool:
    """Whether the value was written with a percent sign."""
    return node.kind is Kind.PRODUCT and node.args[-1] == PERCENT


def _within_digits(response: Node, gold: Node, ulp: Fraction) -> bool:
    """A decimal gold is matched at its own precision: the response rounds to it (half a unit in its last place).

    A response in digits is itself a rounded or measured value, so it must also lie within one percent, the threshold of
    Minerva's own checker (arXiv:2206.14858, appendix): a gold 7e37 is not an answer 7.4e37, nor is 0.15 an 0.1476. The
    same holds for any response where the gold has a single digit: 0.2 is not a rounding of 1/6.
    """
    if not within(response, gold, ulp / 2):
        return False
    is_digits = precision(response) is not None or _repeats(response)
    if is_digits or (response.value is not None and response.value.denominator == 1):
        a, b = exact(response, {}), exact(gold, {})
        return abs(a - b) <= MAX_SHARE * max(abs(a), abs(b))
    size = abs(exact(gold, {}))
    return size >= 10 * ulp or within(response, gold, MAX_SHARE * size)


def _repeats(node: Node) -> bool:
    r"""Whether the value was written in digits with a period, as ``0.\overline{27}``; a fraction is no number node."""
    return node.kind is Kind.NUMBER and node.value is not None and node.ulp is None and node.value.denominator != 1


def _long_decimal(response: Node, gold: Node, ulp: Fraction) -> bool:
    """A decimal for an exact gold: equal, or at least LONG_DECIMAL digits where the gold has no finite decimal."""
    try:
        target = exact(gold, {})
    except Inexact:
        pass
    else:
        if exact(response, {}) == target:
            return True
        rest = target.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return False
    if significant_digits(response, ulp) >= LONG_DECIMAL and not symbols(gold) & _TRANSCENDENTAL:
        return within(response, gold, ulp)
    return same_value(response, gold)  # 0.5 is sin 30 degrees


def measured(node: Node) -> tuple[Node, str]:
    """A value and its unit; of a product or quotient of quantities too: 0.009 mol / (0.25 mol/L) is in mol L / mol."""
    if node.kind is Kind.QUANTITY:
        inner, unit = measured(node.args[0])
        return inner, f"{unit} {node.label}".strip()
    if node.kind is Kind.POWER and node.args[1] == num(-1) and Kind.QUANTITY in kinds(node):
        inner, unit = measured(node.args[0])
        return power(inner, num(-1)), units.inverse(unit)
    if node.kind is Kind.PRODUCT and Kind.QUANTITY in kinds(node):
        parts = [measured(arg) for arg in node.args]
        return mul(*(inner for inner, _ in parts)), units.product([unit for _, unit in parts if unit])
    return node, ""


_DEGREES = frozenset({"deg", "degree", "degrees", "°"})


def _convert(unit: str, gold_unit: str, response: Node, gold: Node) -> Node | None:
    """Factor that brings the response into the gold's unit; None where the units differ in kind."""
    degrees, gold_degrees = unit in _DEGREES, gold_unit in _DEGREES
    radians, gold_radians = _is_angle(unit, response), _is_angle(gold_unit, gold)
    if degrees and gold_radians:
        return mul(sym("pi"), num(Fraction(1, 180)))
    if gold_degrees and radians:
        return mul(num(180), Node(Kind.POWER, (sym("pi"), num(-1))))
    factor = units.relation(unit, gold_unit)
    return None if factor is None else num(factor)


def _is_angle(unit: str, node: Node) -> bool:
    """Whether it is an angle in radians: with that unit, or a bare multiple of pi."""
    return unit in ("rad", "radian", "radians", "rads") or (
        not unit and ("pi" in symbols(node) or any(name.startswith("arc") for name in calls(node)))
    )


def _same_constants_of_integration(response: Node, gold: Node) -> bool:
    """``C`` and ``c``, ``C_1`` and ``c_1`` are the same arbitrary constant where each side uses only one of them."""
    ours, theirs = free_symbols(response), free_symbols(gold)
    if "j" in ours - theirs and "i" in symbols(gold) and "i" not in symbols(response):
        return same_value(rename(response, {"j": "i"}), gold)  # the engineers' unit
    renamed = {
        name: name.swapcase() for name in ours - theirs if name.swapcase() in theirs - ours and name[0] in "cCkK"
    }
    if not renamed or (ours - theirs) - set(renamed):
        return False
    return same_value(rename(response, renamed), gold)


def same_ratio(response: Node, gold: Node) -> bool:
    """Whether two ratios are proportional; a number is its ratio to 1."""
    left, right = _parts(response), _parts(gold)
    if left is None or right is None or len(left) != len(right):
        return False
    if any(same_value(part, num(0)) for part in (*left, *right)):
        return all(map(same_value, left, right))
    # a : b : c = d : e : f  where  a e = b d  and so on
    return all(same_value(mul(left[0], right[k]), mul(left[k], right[0])) for k in range(1, len(left)))


def _parts(node: Node) -> list[Node] | None:
    """The parts of a ratio; a number is a ratio to 1; None for what is neither."""
    if node.kind is Kind.RATIO:
        return list(node.args)
    return [node, num(1)] if node.kind in EXPRESSIONS else None
