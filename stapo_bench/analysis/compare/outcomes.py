"""``compare`` for whatever holds outcomes: run folders, tables, logs with verdicts, matrices and maps.

    compare_outcomes(Path("a.csv"), Path("b.csv"))

The statistics are those of runs; what a table does not say (settings, truncation, copies) is listed as not known.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from stapo_bench.analysis.compare.records import Comparison
from stapo_bench.analysis.compare.runs import compare_loaded, compare_runs, in_clusters
from stapo_bench.analysis.compare.sides import Known, same_sample_seeds, side_of
from stapo_bench.analysis.compare.two_sides import compare_sides
from stapo_bench.analysis.early_stopping import WIDENED, aim_of, stopped_note
from stapo_bench.analysis.parity_gate import unknown_parity
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs import LoadedRun, load_run
from stapo_bench.runs.outcomes import (
    ColumnsOf,
    Frame,
    OutcomeTable,
    ScoreRange,
    columns_of_each,
    is_matrix,
    is_run,
    is_there,
    outcomes_from,
    read_outcomes,
)
from stapo_bench.statistics import MARGIN

Score: TypeAlias = bool | float | None
Compared: TypeAlias = (
    str
    | Path
    | LoadedRun
    | NDArray[Any]
    | Sequence[Sequence[Score]]
    | Sequence[Score]
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Score]
    | Mapping[str, Sequence[Score]]
    | Frame
)
"""A run folder, a file, a folder of files or an archive by its path, a run, a matrix [problems, samples] of scores and
NaN, a map from items to scores, a data frame of pandas, polars or pyarrow, or rows of named columns."""

NOT_LOOKED_AT = "a table of outcomes does not tell: truncation, copied samples and early stopping were not looked at"


def compare_outcomes(
    a: Compared,
    b: Compared,
    columns: ColumnsOf | None = None,
    grader: str = DEFAULT_GRADER,
    margin: float = MARGIN,
    *,
    declared: ScoreRange | None = None,
    data_dir: Path | None = None,
) -> Comparison:
    """Compare A, before, with B, after, problem by problem; the effect is B - A.

    Args:
        a, b: run folders, files, matrices, maps or rows, also of different kinds. Items are paired by name, rows of
            matrices by their place.
        columns: by meaning (item, score, sample, model, task, seed, cluster), columns of tables with other than usual
            names, or a pair of such maps, one of each side; of two runs, ``cluster`` is a column of their tasks' data.
        grader: whose grades count in run folders.
        margin: a difference shown to lie within it is a tie, a fraction.
        declared: the range of the scores, if it is another than 0 to 1; a difference is then a share of it.
        data_dir: folder with the tasks' data, ``<task>.jsonl``; None: the hub. Asked for clusters of runs alone.

    Raises:
        StapoError: nothing in common, a score beyond its range or one that stands twice, two models in one file.
    """
    for side in (a, b):
        if isinstance(side, str | Path) and not is_there(Path(side)):
            raise UsageError(f"{side}: no such run folder or file")
    if _is_folder(a) and _is_folder(b):
        if declared:
            raise UsageError("--range declares the scores of tables; both sides are run folders")
        folders = Path(a), Path(b)  # type: ignore[arg-type]  # they are paths
        return compare_runs(*folders, grader, margin, columns=columns, data_dir=data_dir)
    if grader != DEFAULT_GRADER and not any(isinstance(side, LoadedRun) or _is_folder(side) for side in (a, b)):
        raise UsageError(f"--grader {grader} chooses among the grades of run folders; neither side is one")
    if is_matrix(a) and is_matrix(b) and len(a) != len(b):
        raise StapoError(f"A has {len(a)} rows, B has {len(b)}: expected matrices of the same items, paired by row")
    of_a, of_b = columns_of_each(columns, 2)
    left, right = read_side(a, "A", of_a, grader, declared), read_side(b, "B", of_b, grader, declared)
    if isinstance(left, LoadedRun) and isinstance(right, LoadedRun):
        left, right = in_clusters((left, right), columns, data_dir)
    return _compare(left, right, margin)


def compare_models(path: Path, tables: Sequence[LoadedRun | OutcomeTable], margin: float = MARGIN) -> Comparison:
    """Compare the two models that were read from one file, the first being A.

    Raises:
        UsageError: another number of models.
    """
    if len(tables) != 2:
        raise UsageError(
            f"{path}: expected two models in one file, got {len(tables)} ({_names(tables)}); give a second file, or "
            "name the column that tells them apart: --map model=COLUMN"
        )
    return _compare(tables[0], tables[1], margin)


def _is_folder(side: Compared) -> bool:
    return isinstance(side, str | Path) and is_run(Path(side))


def read_side(
    side: Compared, name: str, columns: Mapping[str, str], grader: str, declared: ScoreRange | None
) -> LoadedRun | OutcomeTable:
    """A run, or the one model's outcomes in files or a Python object, which is called ``name``."""
    if isinstance(side, LoadedRun):
        return side
    if isinstance(side, str | Path):
        if _is_folder(side):
            return load_run(Path(side), grader)
        tables = read_outcomes(Path(side), columns, declared)
        if len(tables) > 1:
            raise UsageError(
                f"{side}: expected one model, got {len(tables)} ({_names(tables)}); give this alone if it holds "
                "both sides, or name the scores of one: --map score=COLUMN"
            )
        return tables[0]
    return outcomes_from(side, name, columns, declared)


def _names(tables: Sequence[LoadedRun | OutcomeTable]) -> str:
    return ", ".join(table.name for table in tables[:4]) + (", …" if len(tables) > 4 else "")


def _compare(a: LoadedRun | OutcomeTable, b: LoadedRun | OutcomeTable, margin: float) -> Comparison:
    if isinstance(a, LoadedRun) and isinstance(b, LoadedRun):
        return compare_loaded(a, b, margin)
    name_a, name_b = (a.name, b.name) if a.name != b.name else (origin_of(a), origin_of(b))
    sides = side_of(a, name_a, list(b.tasks)), side_of(b, name_b, list(a.tasks))
    tables = [each for each in (a, b) if isinstance(each, OutcomeTable)]
    runs = [each for each in (a, b) if isinstance(each, LoadedRun)]
    known = Known(
        parity=tuple(unknown_parity(sides[0].run, sides[1].run)),
        same_weights=False,
        same_seeds=len(tables) == 2 and same_sample_seeds(tables[0], tables[1]),
        aims=(aim_of(runs[0]) if runs else None, None),
        notes=(*(note for table in tables for note in table.notes), NOT_LOOKED_AT, *stopped_note(runs, WIDENED)),
    )
    found = compare_sides(*sides, known, margin)
    if not any(task.effects[0].difference.num_problems for task in found.tasks):
        raise StapoError(f"{name_a} and {name_b}: expected items with outcomes in both, got none that both decided")
    return found


def origin_of(side: LoadedRun | OutcomeTable) -> str:
    """The file or folder that it comes from."""
    return side.origin if isinstance(side, OutcomeTable) else str(side.manifest.run_dir)
