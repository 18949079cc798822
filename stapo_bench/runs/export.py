"""Samples of runs with their grades as one table, for notebooks: Parquet, CSV or JSON lines by the file's name.

export_runs([Path("results/base-justrl"), Path("results/stapo-justrl")], Path("samples.parquet"))
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from stapo_bench.errors import UsageError, safe_text
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcome, Problem, Sample
from stapo_bench.runs.files import own_folder, replacing, write_parts, writing
from stapo_bench.runs.folder import nothing_left_behind
from stapo_bench.runs.golds import problems_at_hand, split_golds
from stapo_bench.runs.grades import read_grades, stream_grades
from stapo_bench.runs.manifest import Manifest, load_manifest
from stapo_bench.runs.store import read_samples

_BATCH = 4096  # samples in memory at once
_ENDINGS = (".parquet", ".csv", ".jsonl")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What ``export_runs`` wrote."""

    num_samples: int
    notes: tuple[str, ...]  # by run, why the table lacks its golds


def export_runs(
    run_dirs: Sequence[Path], out: Path, grader: str = DEFAULT_GRADER, data_dir: Path | None = None
) -> Exported:
    """Write one row per sample, run after run, in the order in which they were stored.

    Columns: run (the folder's name; its path where two runs share a name), method, model, regime, temperature, top_p,
    max_new_tokens, task, title, problem_id, problem (its text), sample_index, seed, completion, num_tokens,
    finish_reason, sum_log_prob (nats), seconds, grader (name and version), outcome and extracted (null where there is
    no grade), correct (null where nothing decided it) and gold (the one that the grader was given). What is not known
    is null, as are problem and gold where the task's data are not at hand.

    Parquet and JSON lines hold texts as they are; in CSV one that a spreadsheet would take for a formula begins with an
    apostrophe, and control characters are written as their escapes. ``stapo-bench import`` reads all three.

    Raises:
        StapoError: a folder that is no run, a run without grades by this grader, or a file that cannot be written.
    """
    if out.suffix not in _ENDINGS:
        raise UsageError(f"{out}: expected a name ending in .parquet, .csv or .jsonl, got '{out.suffix}'")
    manifests = [load_manifest(run_dir) for run_dir in run_dirs]
    for run_dir in run_dirs:
        stream_grades(run_dir, grader)  # raises where there are none, before anything is written
    names = [manifest.name for manifest in manifests]
    labels = [str(m.run_dir) if names.count(m.name) > 1 else m.name for m in manifests]
    found = [problems_at_hand(manifest, data_dir, split_golds(grader)[1]) for manifest in manifests]
    rows = chain.from_iterable(
        _rows(manifest, label, grader, problems)
        for manifest, label, (problems, _) in zip(manifests, labels, found, strict=True)
    )
    notes = tuple(f"{label}: {why}" for label, (_, why) in zip(labels, found, strict=True) if why)
    return Exported(num_samples=_write(rows, out), notes=notes)


def _write(rows: Iterator[dict[str, Any]], out: Path) -> int:
    """Write the table, whose folder is made where it is missing; returns the number of rows."""
    with nothing_left_behind(out.parent):
        if out.suffix == ".jsonl":
            counter = count()  # zip takes a row first: at the end it is their number
            write_parts(out, (json.dumps(row) + "\n" for row, _ in zip(rows, counter, strict=False)))
            return next(counter)
        with writing(out):
            own_folder(out.parent)
        with replacing(out.resolve()) as beside:
            return _write_table(rows, beside, is_parquet=out.suffix == ".parquet")


def _write_table(rows: Iterator[dict[str, Any]], out: Path, *, is_parquet: bool) -> int:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    from pyarrow import csv, parquet

    text, whole, real = pa.string(), pa.int32(), pa.float64()
    types = dict.fromkeys(("run", "method", "model", "regime"), text)
    types |= {"temperature": real, "top_p": real, "max_new_tokens": whole}
    types |= dict.fromkeys(("task", "title", "problem_id", "problem"), text)
    types |= {"sample_index": whole, "seed": pa.int64(), "completion": text, "num_tokens": whole, "finish_reason": text}
    types |= {"sum_log_prob": real, "seconds": real, "grader": text, "outcome": text, "extracted": text}
    types |= {"correct": pa.bool_(), "gold": text}
    schema = pa.schema(list(types.items()))
    fit = _storable if is_parquet else _cell
    num_rows = 0
    with (parquet.ParquetWriter if is_parquet else csv.CSVWriter)(str(out), schema) as writer:
        while batch := [_texts_made(fit, row) for row in islice(rows, _BATCH)]:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            num_rows += len(batch)
    return num_rows


def _rows(
    manifest: Manifest, label: str, grader: str, problems: Mapping[tuple[str, str], Problem]
) -> Iterator[dict[str, Any]]:
    grades, about, sampling = read_grades(manifest.run_dir, grader), manifest.about, manifest.identity.sampling
    for sample in read_samples(manifest.run_dir, manifest.stamps):
        outcome, extracted = grades.outcomes.get(sample.key, (None, None))
        problem = problems.get((sample.task, sample.problem_id))
        yield {
            "run": label,
            "method": about.method or manifest.name,
            "model": about.model,
            "regime": about.regime,
            **asdict(sampling),
            "task": sample.task,
            "title": about.tasks[sample.task].title if sample.task in about.tasks else None,
            "problem_id": sample.problem_id,
            "problem": problem.question if problem else None,
            "sample_index": sample.sample_index,
            "seed": sample.seed,
            "completion": sample.completion,
            "num_tokens": sample.num_tokens,
            "finish_reason": sample.finish_reason,
            "sum_log_prob": sample.sum_log_prob,
            "seconds": sample.seconds,
            "grader": grades.grader,
            "outcome": outcome.value if outcome else None,
            "extracted": extracted,
            "correct": _is_correct(sample, outcome),
            "gold": (problem.gold.answer or None) if problem else None,
        }


def _is_correct(sample: Sample, outcome: Outcome | None) -> bool | None:
    """Whether a sample is right, no answer being wrong; None where the grader, or the engine, failed."""
    if outcome is None or outcome is Outcome.GRADER_ERROR or sample.finish_reason == "error":
        return None
    return outcome is Outcome.CORRECT


def _texts_made(fit: Callable[[str], str], row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its texts fit for the file."""
    return {name: fit(value) if isinstance(value, str) else value for name, value in row.items()}


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula, and no terminal for a command. Its line breaks stay."""
    return safe_text(_storable(text), "csv", lines=True)


def _storable(text: str) -> str:
    """UTF-8 has no half surrogate pairs, which a cut-off completion may end in; they become U+FFFD.

    >>> _storable("a" + chr(0xD83D)) == "a" + chr(0xFFFD)
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
