"""The end of an evaluation: from stored samples to grades, scores and the table in the run's folder."""

from pathlib import Path

from stapo_bench.analysis import RunScore, score_run
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.tables.rows import rows_from_scores
from stapo_bench.presenting.tables.table import render_table
from stapo_bench.runs import JUDGED, can_write, grade_run, is_reported, write_atomically


def finish_run(run_dir: Path, *, data_dir: Path | None, grader: str = DEFAULT_GRADER) -> RunScore:
    """Grade what is not graded yet, score, and write table.md where the folder can be written.

    A judge is not asked again: that is for ``grade``. Verdicts that came with an imported run are taken as they are.
    """
    if not grader.startswith(JUDGED) and not is_reported(grader):
        grade_run(run_dir, grader, data_dir=data_dir)
    score = score_run(run_dir, grader)
    if can_write(run_dir):
        write_atomically(run_dir / "table.md", render_table(rows_from_scores([score], run_dirs=[run_dir])) + "\n")
    return score
