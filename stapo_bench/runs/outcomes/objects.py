"""From Python objects to outcomes: matrices, maps from items to scores, rows of named columns."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcomes
from stapo_bench.runs.outcomes.cells import Cell, checked
from stapo_bench.runs.outcomes.outcome_table import ALL_ITEMS, OutcomeTable, TableTask
from stapo_bench.runs.outcomes.reading import tables_of, tables_of_rows
from stapo_bench.runs.outcomes.values import ScoreRange


def outcomes_from(
    found: Any, name: str, named: Mapping[str, str] | None = None, declared: ScoreRange | None = None
) -> OutcomeTable:
    """The outcomes of one model.

    Args:
        found: a matrix [problems, samples] or a vector [problems] of scores and NaN (not drawn), whose rows have their
            numbers for names; a map from an item to a score or its scores; a data frame, or rows of named columns.
        name: what to call it.
        named: columns by meaning, of rows.
        declared: the range of the scores, if it is another than 0 to 1.

    Raises:
        StapoError: a value beyond the range, an outcome that stands twice, or two models.
    """
    if is_frame(found):
        found = _rows_of(found)
    if is_matrix(found):
        return _of_matrix(found, name, declared)
    if isinstance(found, Mapping):
        cells = (
            Cell(None, None, str(item), index, checked(name, f"item {item!r}", inner, declared), number, None)
            for number, (item, scores) in enumerate(found.items(), start=1)
            for index, inner in enumerate(_listed(scores))
        )
        tables = tables_of(name, name, cells, "a map from items to scores")
    else:
        tables = tables_of_rows(name, name, found, named or {}, declared)
    if len(tables) > 1:
        raise StapoError(f"{name}: expected one model, got {', '.join(table.name for table in tables[:4])}")
    return tables[0]


@runtime_checkable
class Frame(Protocol):
    """A data frame: pandas's, polars's, a table of pyarrow's."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """What all of them have in common: https://arrow.apache.org/docs/format/CDataInterface.html."""


def is_frame(found: Any) -> TypeGuard[Frame]:
    """Whether it is a data frame with named columns; a series is none."""
    return hasattr(found, "__arrow_c_stream__") and (hasattr(found, "columns") or hasattr(found, "column_names"))


def _rows_of(frame: Any) -> list[dict[str, Any]]:
    """A data frame's rows; an index that has a name is a column."""
    for method in ("to_pylist", "to_dicts"):  # pyarrow, polars
        if hasattr(frame, method):
            return list(getattr(frame, method)())
    frame = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise StapoError(f"two columns have the name {repeated!r}; rename one")
    return [dict(zip(names, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def is_matrix(found: Any) -> TypeGuard[Sequence[Any]]:
    """Whether it is a matrix or a vector, and neither a map, rows, nor a path."""
    if is_frame(found):
        return False
    if isinstance(found, Sequence) and not isinstance(found, str):
        return not (len(found) and isinstance(found[0], Mapping))
    return hasattr(found, "__array__") and hasattr(found, "__len__")


def _of_matrix(found: Any, name: str, declared: ScoreRange | None) -> OutcomeTable:
    try:
        scores = np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise StapoError(f"{name}: expected a matrix of scores and NaN, got {type(found).__name__}") from None
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or not scores.size:
        raise StapoError(f"{name}: expected a matrix [problems, samples], got one of shape {scores.shape}")
    low, high = declared or (0.0, 1.0)
    odd = np.argwhere(~((scores >= low) & (scores <= high)) & ~np.isnan(scores))
    for row, column in odd[:1].tolist():
        checked(name, f"row {row}, column {column}", float(scores[row, column]), declared)
    scores = (scores - low) / (high - low)
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
