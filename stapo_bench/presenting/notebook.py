"""A run as one has it in a notebook: ``run = stapo_bench.load("results/base-justrl")``."""

import html
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from stapo_bench.analysis import RunScore, run_score
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.tables.rows import rows_from_scores
from stapo_bench.presenting.tables.table import render_table
from stapo_bench.runs import LoadedRun, load_manifest, load_run, read_grades

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
        """
        import pandas as pd

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
