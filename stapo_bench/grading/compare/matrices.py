"""Names of matrices and vectors: ``A^3 = ...``, ``A^{-1} = ...``, ``u x v = ...``; and vectors in i, j and k."""

from stapo_bench.grading.compare.spread import rows
from stapo_bench.grading.tree import Kind, Node, add, kinds, mul, num, symbols

_UNITS = {"hat(i)": 0, "hat(j)": 1, "hat(k)": 2, "i": 0, "j": 1, "k": 2}
_STYLED = frozenset({"hat(i)", "hat(j)", "hat(k)"})
_UNKNOWNS = frozenset({"x", "y", "z", "t", "e", "i", "pi", "infty"})  # letters of numbers


def without_matrix_names(response: Node, gold: Node) -> tuple[Node, Node]:
    """Both without the name of a matrix or vector before it, where one side alone has such a name, or both the same."""
    (name, value), (gold_name, gold_value) = _named(response), _named(gold)
    if name is not None and gold_name is not None:
        return (value, gold_value) if name == gold_name else (response, gold)
    if name is not None and gold.kind is not Kind.RELATION:
        return value, gold
    if gold_name is not None and response.kind is not Kind.RELATION:
        return response, gold_value
    return response, gold


def _named(node: Node) -> tuple[Node | None, Node]:
    """``A^3 = M`` into (A^3, M), with M a matrix or tuple; any other node into (None, node)."""
    if node.kind is not Kind.RELATION or len(node.args) < 2 or set(node.label.split()) != {"="}:
        return None, node
    *names, value = node.args
    formulas = names[1:] if len(names) > 1 and names[0].kind is Kind.SYMBOL else names  # x = A^{-1} b = ...
    if not _is_matrix_or_vector(value) or not all(map(_names_matrix, formulas)):
        return None, node
    if value.kind is Kind.TUPLE and any(name.kind is Kind.POWER for name in names):
        return None, node
    return names[0], value


def _is_matrix_or_vector(node: Node) -> bool:
    """Whether a tree is a matrix, a tuple, a number times one, or a sum of unit vectors that are set apart."""
    if node.kind in (Kind.MATRIX, Kind.TUPLE):
        return True
    if node.kind is Kind.PRODUCT and rows(node) is not None:
        return True
    return bool(symbols(node) & _STYLED) and _parts(node) is not None


def _names_matrix(node: Node) -> bool:
    """Whether a tree is a formula of matrices: a power, a product, a sum or difference of such, none times a number."""
    if node.kind is Kind.MATRIX:
        return False
    if node.kind is Kind.SUM:
        return all(_names_matrix(_unsigned(arg)) for arg in node.args)
    if node.kind is Kind.PRODUCT:
        named = [_names_matrix(arg) for arg in node.args]
        several = sum(arg.kind is Kind.MATRIX for arg in node.args) > 1
        return (several or any(named)) and all(
            known or _is_plain(arg) for known, arg in zip(named, node.args, strict=True)
        )
    if node.kind is Kind.POWER:
        base, exponent = node.args
        whole = exponent.value is not None and exponent.value.denominator == 1
        return _is_base(base) and (whole or exponent.kind is Kind.SYMBOL)
    return node.kind is Kind.SYMBOL and node.label not in _UNKNOWNS


def _unsigned(node: Node) -> Node:
    """A term of a sum without its minus sign."""
    if node.kind is not Kind.PRODUCT or node.args[0].value != -1 or len(node.args) < 2:
        return node
    return node.args[1] if len(node.args) == 2 else mul(*node.args[1:])


def _is_base(node: Node) -> bool:
    """Whether a power of the tree is one of a matrix: of a capital letter, a product with one, or entries."""
    if node.kind is Kind.SYMBOL:
        return node.label[0].isupper()
    if node.kind in (Kind.PRODUCT, Kind.SUM):
        return _names_matrix(node) and any(map(_is_base, node.args))
    return node.kind is Kind.MATRIX


def _is_plain(node: Node) -> bool:
    """Whether a factor is a matrix of entries, or the vector of unknowns behind one."""
    return node.kind is Kind.MATRIX or (node.kind is Kind.SYMBOL and node.label in ("x", "y", "z"))


def in_coordinates(response: Node, gold: Node) -> tuple[Node, Node]:
    """Both as tuples where one is a tuple, or a column, of two or three entries and the other a vector in i, j, k."""
    if (wanted := _entries(gold)) and (vector := _coordinates(response, wanted)) is not None:
        return vector, gold
    if (wanted := _entries(response)) and (vector := _coordinates(gold, wanted)) is not None:
        return response, vector
    return response, gold


def _entries(node: Node) -> int:
    """How many entries a tuple or column has that may be a vector's; else 0."""
    if node.kind is Kind.TUPLE:
        return len(node.args) if len(node.args) in (2, 3) and node.label in ("()", "[]") else 0
    column = rows(node) if node.kind is Kind.MATRIX else None
    return len(column) if column and len(column) in (2, 3) and all(len(row) == 1 for row in column) else 0


def _coordinates(node: Node, wanted: int) -> Node | None:
    """The tuple of ``2i - k``; None of what is no sum of several unit vectors, or of one that is set apart."""
    names = symbols(node) & _UNITS.keys()
    if not names or (len(names) < 2 and not names & _STYLED) or max(_UNITS[name] for name in names) >= wanted:
        return None
    parts = _parts(node)
    if parts is None:
        return None
    return Node(Kind.TUPLE, tuple(parts.get(index, num(0)) for index in range(wanted)), "()")


def _parts(node: Node) -> dict[int, Node] | None:
    """The factor of each unit vector in a sum; None where a term has none, or several."""
    if node.kind is Kind.SYMBOL:
        return {_UNITS[node.label]: num(1)} if node.label in _UNITS else None
    found: dict[int, Node] = {}
    if node.kind is Kind.SUM:
        for term in map(_parts, node.args):
            if term is None:
                return None
            for index, factor in term.items():
                found[index] = add(found[index], factor) if index in found else factor
        return found
    if node.kind is Kind.PRODUCT:
        vectors = [arg for arg in node.args if symbols(arg) & _UNITS.keys()]
        scalars = [arg for arg in node.args if arg not in vectors]
        inner = _parts(vectors[0]) if len(vectors) == 1 else None
        is_scaled = inner is not None and not any({Kind.TUPLE, Kind.MATRIX} & kinds(arg) for arg in scalars)
        if inner is None or not is_scaled:
            return None
        return {index: mul(*scalars, factor) if scalars else factor for index, factor in inner.items()}
    return None
