"""From Python objects to outcomes: matrices, maps from items to scores, rows of named columns."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcomes
from stapo_bench.runs.outcomes.outcome_table import ALL_ITEMS, OutcomeTable, TableTask
from stapo_bench.runs.outcomes.reading import Cell, checked, tables_of, tables_of_rows


def outcomes_from(found: Any, name: str, named: Mapping[str, str] | None = None) -> OutcomeTable:
    """The outcomes of one model.

    Args:
        found: a matrix [problems, samples] or a vector [problems] of 1, 0 and NaN (not drawn), whose rows have no names
            but their numbers; a map from an item to a score or its scores; or rows of named columns.
        name: what to call it.
        named: columns by meaning, of rows.

    Raises:
        StapoError: a value other than 0 or 1, an outcome that stands twice, or two models.
    """
    if is_matrix(found):
        return _of_matrix(found, name)
    if isinstance(found, Mapping):
        cells = (
            Cell(None, None, str(item), index, checked(name, f"item {item!r}", inner), number, None)
            for number, (item, scores) in enumerate(found.items(), start=1)
            for index, inner in enumerate(_listed(scores))
        )
        tables = tables_of(name, name, cells, "a map from items to scores")
    else:
        tables = tables_of_rows(name, name, found, named or {})
    if len(tables) > 1:
        raise StapoError(f"{name}: expected one model, got {', '.join(table.name for table in tables[:4])}")
    return tables[0]


def is_matrix(found: Any) -> TypeGuard[Sequence[Any]]:
    """Whether it is a matrix or a vector, and neither a map, rows, nor a path."""
    if isinstance(found, Sequence) and not isinstance(found, str):
        return not (len(found) and isinstance(found[0], Mapping))
    return hasattr(found, "__array__") and hasattr(found, "__len__")


def _of_matrix(found: Any, name: str) -> OutcomeTable:
    try:
        scores = np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise StapoError(f"{name}: expected a matrix of 0, 1 and NaN, got {type(found).__name__}") from None
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or not scores.size:
        raise StapoError(f"{name}: expected a matrix [problems, samples], got one of shape {scores.shape}")
    odd = np.argwhere(~np.isin(scores, (0.0, 1.0)) & ~np.isnan(scores))
    for row, column in odd[:1].tolist():
        checked(name, f"row {row}, column {column}", float(scores[row, column]))
    outcomes = Outcomes(
        problem_ids=tuple(f"row {row}" for row in range(len(scores))),
        scores=scores,
        undecided=np.zeros(scores.shape, dtype=np.bool_),
    )
    note = f"{name}: a matrix of {scores.shape[0]} items and {scores.shape[1]} samples, paired by row"
    return OutcomeTable(name=name, origin=name, tasks={ALL_ITEMS: TableTask(outcomes=outcomes)}, notes=(note,))


def _listed(scores: Any) -> list[Any]:
    """A score alone as a list of one; numpy's numbers and arrays as Python's."""
    plain = scores.tolist() if isinstance(scores, np.ndarray | np.generic) else scores
    return list(plain) if isinstance(plain, list | tuple) else [plain]
