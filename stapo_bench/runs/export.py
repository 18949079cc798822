"""A run's samples with their grades as one table, for notebooks: Parquet, or CSV by the file's name.

export_run(Path("results/base-justrl"), Path("samples.parquet"))
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.runs.grades import Grades, read_grades
from stapo_bench.runs.manifest import Manifest, load_manifest
from stapo_bench.runs.store import read_samples

_BATCH = 4096  # samples in memory at once


def export_run(run_dir: Path, out: Path, grader: str = DEFAULT_GRADER) -> int:
    """Write one row per sample, in the order in which they were stored; returns their number.

    Columns: task, problem_id, sample_index, seed, completion, num_tokens, finish_reason, sum_log_prob (nats), seconds,
    outcome and extracted (null where there is no grade).
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    from pyarrow import csv, parquet

    writers = {".parquet": parquet.ParquetWriter, ".csv": csv.CSVWriter}
    if out.suffix not in writers:
        raise UsageError(f"{out}: expected a name ending in {' or '.join(writers)}, got '{out.suffix}'")
    manifest = load_manifest(run_dir)  # raises where there is no run
    types = {
        "task": pa.string(),
        "problem_id": pa.string(),
        "sample_index": pa.int32(),
        "seed": pa.int64(),
        "completion": pa.string(),
        "num_tokens": pa.int32(),
        "finish_reason": pa.string(),
        "sum_log_prob": pa.float64(),
        "seconds": pa.float64(),
        "outcome": pa.string(),
        "extracted": pa.string(),
    }
    schema = pa.schema(list(types.items()))
    rows = _rows(manifest, read_grades(run_dir, grader))
    num_rows = 0
    try:
        with writers[out.suffix](str(out), schema) as writer:
            while batch := list(islice(rows, _BATCH)):
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                num_rows += len(batch)
    except OSError as error:
        raise StapoError(f"cannot write {out}: {error.strerror or error}") from None
    return num_rows


def _rows(manifest: Manifest, grades: Grades) -> Iterator[dict[str, Any]]:
    for sample in read_samples(manifest.run_dir, manifest.stamps):
        outcome, extracted = grades.outcomes.get(sample.key, (None, None))
        yield {
            **sample.key._asdict(),
            "seed": sample.seed,
            "completion": _storable(sample.completion),
            "num_tokens": sample.num_tokens,
            "finish_reason": sample.finish_reason,
            "sum_log_prob": sample.sum_log_prob,
            "seconds": sample.seconds,
            "outcome": outcome.value if outcome else None,
            "extracted": None if extracted is None else _storable(extracted),
        }


def _storable(text: str) -> str:
    """UTF-8 has no half surrogate pairs, which a cut-off completion may end in; they become U+FFFD.

    >>> _storable("a" + chr(0xD83D)) == "a" + chr(0xFFFD)
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
