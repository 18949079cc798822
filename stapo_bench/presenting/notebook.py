"""A run, and a comparison, as one has them in a notebook: ``run = stapo_bench.load("results/base-justrl")``."""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from stapo_bench.analysis import Compared, Comparison, RunScore, compare_outcomes, run_score
from stapo_bench.errors import StapoError, UsageError, missing_package, safe_text
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.parity_words import parity_lines
from stapo_bench.presenting.tables.rows import rows_from_scores
from stapo_bench.presenting.tables.table import render_table
from stapo_bench.presenting.verdicts import (
    COLUMNS,
    legend,
    remarks_on,
    render_comparison,
    sentence,
    table_rows,
    task_cells,
)
from stapo_bench.runs import LoadedRun, load_manifest, load_run, read_grades
from stapo_bench.runs.outcomes import ColumnsOf, checked_range
from stapo_bench.statistics import MARGIN

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # its types are a package of their own


class Run:
    """A run folder by the grades of one grader: its scores, its samples as a data frame, its table when displayed.

    Nothing in the folder is changed. What was read stays as it was read: load the run again to see what came since.
    """

    def __init__(self, path: str | Path, grader: str = DEFAULT_GRADER) -> None:
        self.path = Path(path)
        self.grader = grader
        self.manifest = load_manifest(self.path)  # what is no run is refused at once

    @cached_property
    def loaded(self) -> LoadedRun:
        """The manifest and the graded samples, without texts; ``outcomes[task].scores`` is [problems, samples]."""
        return load_run(self.path, self.grader)

    @cached_property
    def _score(self) -> RunScore:
        return run_score(self.manifest, self.grader, read_grades(self.path, self.grader))

    def scores(self) -> RunScore:
        """avg@k of each task and their mean, as fractions, with both intervals."""
        return self._score

    def frame(self) -> "pd.DataFrame":
        """One row per sample: task, problem_id, sample_index, seed, outcome, correct, extracted, truncated, num_tokens.

        ``outcome`` is None where there is no grade; ``correct`` is 1.0, 0.0 (also without an answer), or NaN where
        nothing decided it. Completions are left out: ``stapo-bench export`` writes them too.

        Raises:
            StapoError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise StapoError(missing_package("pandas")) from error

        rows = [
            {
                "task": task,
                "problem_id": sample.problem_id,
                "sample_index": sample.sample_index,
                "seed": sample.seed,
                "outcome": None if sample.outcome is None else sample.outcome.value,
                "correct": sample.correct,
                "extracted": sample.extracted,
                "truncated": sample.truncated,
                "num_tokens": sample.num_tokens,
            }
            for task, samples in self.loaded.samples.items()
            for sample in samples
        ]
        return pd.DataFrame(rows)

    def table(self) -> str:
        """Its row of the methods × tasks table, in Markdown."""
        return render_table(rows_from_scores([self.scores()], run_dirs=[self.path]), long=False)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, grader={self.grader!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"


@dataclass(frozen=True, kw_only=True, repr=False)
class ShownComparison(Comparison):
    """A comparison that a notebook displays, and ``print`` writes, as ``stapo-bench compare`` does."""

    def sentence(self) -> str:
        """The verdict on the mean over tasks, for a paper: effect, interval, and what else may be behind it."""
        return sentence(self)

    def __repr__(self) -> str:
        return render_comparison(self)

    def _repr_html_(self) -> str:
        about, differing = parity_lines(self)
        return (
            f"<p><b>{safe_text(sentence(self), 'html')}</b></p><p>{safe_text(legend(self), 'html')}</p>"
            f"<p>{about}</p>{_list(differing)}<table><thead><tr>{_cells('th', COLUMNS)}</tr></thead><tbody>"
            + "".join(f"<tr>{_cells('td', task_cells(task))}</tr>" for task in table_rows(self))
            + f"</tbody></table>{_list(remarks_on(self))}"
        )


def compare_in_python(
    a: Compared | Run,
    b: Compared | Run,
    *,
    columns: ColumnsOf | None = None,
    margin: float | None = None,
    score_range: tuple[float, float] | None = None,
    data_dir: str | Path | None = None,
) -> ShownComparison:
    """``stapo_bench.compare``: what the command does, whose errors name the arguments of Python.

    Raises:
        StapoError: as ``compare_outcomes`` does, and runs that are loaded with two graders.
    """
    margin = MARGIN if margin is None else margin
    if not 0 <= margin <= 1:
        raise UsageError(f"margin: expected a fraction from 0 to 1, as 0.02 for two points, got {margin:g}")
    graders = {side.grader for side in (a, b) if isinstance(side, Run)} or {DEFAULT_GRADER}
    if len(graders) > 1:
        raise UsageError(f"expected runs loaded with the same grader, got {' and '.join(sorted(graders))}")
    left, right = (side.path if isinstance(side, Run) else side for side in (a, b))
    try:
        declared = None if score_range is None else checked_range(*score_range)
        folder = None if data_dir is None else Path(data_dir)
        found = compare_outcomes(left, right, columns, graders.pop(), margin, declared=declared, data_dir=folder)
    except StapoError as error:
        raise type(error)(in_python(str(error))) from None
    return ShownComparison(**{**vars(found), "notes": tuple(map(in_python, found.notes))})


_ARGUMENTS = (
    (re.compile(r"--map (\w+)=([^:;,]+)"), r'columns={"\1": "\2"}'),
    (re.compile(r"--cluster (COLUMN|[^:;,]+(?=:))"), r'columns={"cluster": "\1"}'),
    (re.compile(r"--cluster\b"), 'columns["cluster"]'),
    (re.compile(r"--map\b"), "columns"),
    (re.compile(r"--range ([\w.-]+):([\w.-]+)"), r"score_range=(\1, \2)"),
    (re.compile(r"--range\b"), "score_range"),
    (re.compile(r"--data-dir\b"), "data_dir"),
)


def in_python(message: str) -> str:
    """An error or a note of the command ``compare`` with the arguments of ``stapo_bench.compare`` for its options.

    >>> in_python("a.csv: expected a column with scores: --map score=COLUMN, or --range 0:1 where all hold scores")
    'a.csv: expected a column with scores: columns={"score": "COLUMN"}, or score_range=(0, 1) where all hold scores'
    """
    for option, argument in _ARGUMENTS:
        message = option.sub(argument, message)
    return message


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{safe_text(text, 'html')}</{tag}>" for text in texts)


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{safe_text(text, 'html')}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""
