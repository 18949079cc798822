"""Samples of runs with their grades as one table, for notebooks: Parquet, CSV or JSON lines by the file's name.

export_runs([Path("results/base-justrl"), Path("results/stapo-justrl")], Path("samples.parquet"))
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from stapo_bench.errors import UsageError, safe_text
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Outcome, Problem, Sample
from stapo_bench.runs.files import own_folder, refuse_foreign, replacing, write_parts, writing
from stapo_bench.runs.folder import nothing_left_behind
from stapo_bench.runs.golds import problems_at_hand, split_golds
from stapo_bench.runs.grades import read_grades, stream_grades
from stapo_bench.runs.manifest import Manifest, load_manifest
from stapo_bench.runs.store import read_samples

_BATCH = 4096  # samples in memory at once
_BEGINS = {".parquet": b"PAR1", ".csv": b'"run","method","model"', ".jsonl": b'{"run": "'}  # by ending: our tables
_COLUMNS: Mapping[str, str] = {  # and what they hold, as Parquet's library calls it
    **dict.fromkeys(("run", "method", "model", "regime"), "string"),
    **{"temperature": "float64", "top_p": "float64", "max_new_tokens": "int32"},
    **dict.fromkeys(("task", "title", "problem_id", "problem"), "string"),
    **{"sample_index": "int32", "seed": "int64", "completion": "string", "num_tokens": "int32"},
    **{"finish_reason": "string", "sum_log_prob": "float64", "seconds": "float64"},
    **dict.fromkeys(("grader", "outcome", "extracted"), "string"),
    **{"correct": "bool", "gold": "string"},
}


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
    if out.suffix not in _BEGINS:
        raise UsageError(f"{out}: expected a name ending in .parquet, .csv or .jsonl, got '{out.suffix}'")
    refuse_foreign(out, _BEGINS[out.suffix])
    folders = [run_dir.resolve() for run_dir in run_dirs]
    doubled = next((folder for folder in folders if folders.count(folder) > 1), None)
    if doubled is not None:
        times = folders.count(doubled)
        raise UsageError(f"expected every run once, got {doubled.name} {times} times; its samples would count as often")
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
        if out.suffix == ".parquet":
            with writing(out):
                own_folder(out.parent)
            with replacing(out.resolve()) as beside:
                return _write_parquet(rows, beside)
        head, line = ([], _json_line) if out.suffix == ".jsonl" else ([_csv_line(_COLUMNS)], _csv_row)
        counter = count()  # zip takes a row first: at the end it is their number
        write_parts(out, chain(head, (line(row) for row, _ in zip(rows, counter, strict=False))))
        return next(counter)


def _write_parquet(rows: Iterator[dict[str, Any]], out: Path) -> int:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    from pyarrow import parquet

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in _COLUMNS.items()])
    num_rows = 0
    with parquet.ParquetWriter(str(out), schema) as writer:
        while batch := [_texts_made(_storable, row) for row in islice(rows, _BATCH)]:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            num_rows += len(batch)
    return num_rows


def _json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _csv_row(row: Mapping[str, Any]) -> str:
    return _csv_line(row[name] for name in _COLUMNS)


def _csv_line(values: Iterable[str | float | None]) -> str:
    """A line of CSV (RFC 4180) that tells a text from a number, and an empty text from what is not known.

    >>> print(_csv_line(["say 'x'", "", None, True, 0.5]), end="")
    "say 'x'","",,true,0.5
    """
    return ",".join(map(_csv_value, values)) + "\n"


def _csv_value(value: str | float | None) -> str:
    if isinstance(value, str):
        return '"' + _cell(value).replace('"', '""') + '"'
    return "" if value is None else json.dumps(value)


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
