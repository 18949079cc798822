"""From Python objects to outcomes: matrices, maps from items to scores, rows of named columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from stapo_bench.errors import StapoError, missing_package
from stapo_bench.records import Outcomes
from stapo_bench.runs.outcomes.cells import Cell, checked
from stapo_bench.runs.outcomes.outcome_table import ALL_ITEMS, OutcomeTable, TableTask
from stapo_bench.runs.outcomes.reading import Read, tables_of, tables_of_rows
from stapo_bench.runs.outcomes.values import ScoreRange, plain, shown


def outcomes_from(
    found: Any, name: str, named: Mapping[str, str] | None = None, declared: ScoreRange | None = None
) -> OutcomeTable:
    """The outcomes of one model.

    Args:
        found: a matrix [problems, samples] or a vector [problems] of scores and NaN (undecided), whose rows have their
            numbers for names; a map from an item to a score or its scores; a data frame, or rows of named columns.
        name: what to call it.
        named: columns by meaning, of rows.
        declared: the range of the scores, if it is another than 0 to 1.

    Raises:
        StapoError: a value beyond the range, an outcome that stands twice, or two models.
    """
    if is_frame(found):
        tables = tables_of_rows(name, name, _rows_of(found, name), named or {}, declared)
    elif is_matrix(found):
        return _of_matrix(found, name, declared)
    elif isinstance(found, Mapping):
        cells = (
            Cell(None, None, str(item), index, checked(name, f"item {item!r}", inner, declared), number, None)
            for number, (item, scores) in enumerate(found.items(), start=1)
            for listed in [plain(scores)]
            for index, inner in enumerate(listed if isinstance(listed, list) else [listed])
        )
        tables = tables_of(name, name, Read("a map from items to scores", cells))
    else:
        tables = tables_of_rows(name, name, _each_a_row(found, name), named or {}, declared)
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
    return hasattr(found, "__arrow_c_stream__") and any(hasattr(found, name) for name in ("columns", "schema"))


def _rows_of(frame: Any, name: str) -> list[dict[str, Any]]:
    """A data frame's rows; an index that has a name is a column."""
    if hasattr(frame, "itertuples"):  # pandas, whose numbers would become others in arrow where cells are empty
        has_name = any(index is not None for index in frame.index.names)
        frame = frame.reset_index(allow_duplicates=True) if has_name else frame
        names = [str(column) for column in frame.columns]
        rows = frame.itertuples(index=False, name=None)
    elif hasattr(frame, "iter_rows"):  # polars
        names, rows = frame.columns, frame.iter_rows()
    else:
        frame = frame if hasattr(frame, "to_pylist") else _in_arrow(frame)
        names, rows = frame.column_names, zip(*(column.to_pylist() for column in frame.columns), strict=True)
    if len(set(names)) < len(names):
        repeated = next(column for column in names if names.count(column) > 1)
        raise StapoError(f"{name}: two columns have the name {repeated!r}; rename one")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _in_arrow(frame: Any) -> Any:
    """A data frame of another library as a table of pyarrow's."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    except ModuleNotFoundError as error:
        raise StapoError(missing_package("pyarrow")) from error
    return pa.table(frame)


def _each_a_row(found: Any, name: str) -> Iterator[Mapping[str, Any]]:
    for row in found if isinstance(found, Iterable) else [found]:
        if not isinstance(row, Mapping):
            raise StapoError(
                f"{name}: expected a path, a run, a matrix, a map from items to scores, a data frame or rows of named "
                f"columns, got {type(found).__name__}"
            )
        yield row


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
        raise StapoError(f"{name}: expected a matrix of scores and NaN, {_what_is_odd(found)}") from None
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
        undecided=np.isnan(scores),  # as an empty cell of a file is
    )
    note = f"{name}: a matrix of {scores.shape[0]} items and {scores.shape[1]} samples, paired by row"
    if empty := int(outcomes.undecided.sum()):
        note += f"; {empty} of {scores.size} outcomes without a score: undecided"
    return OutcomeTable(name=name, origin=name, tasks={ALL_ITEMS: TableTask(outcomes=outcomes)}, notes=(note,))


def _what_is_odd(found: Any) -> str:
    """Why it is no matrix: rows of several lengths, or what is no number."""
    lengths = [len(row) if hasattr(row, "__len__") and not isinstance(row, str) else 0 for row in found]
    other = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if other is not None:
        return (
            f"got {lengths[0]} samples in row 0 and {lengths[other]} in row {other}; NaN stands for a sample without "
            "a verdict, and where samples were not drawn a map from items to scores takes rows of any length"
        )
    return next(f"got {shown(row)} in row {number}" for number, row in enumerate(found) if not _are_numbers(row))


def _are_numbers(row: Any) -> bool:
    try:
        np.array(row, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True
