"""What people read, made from objects: words, tables, figures and the report page."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.presenting.arena import render_arena
    from stapo_bench.presenting.curves import curve_sentence, render_curve
    from stapo_bench.presenting.finish import finish_run
    from stapo_bench.presenting.followed import first_shown, followed_line, write_curve
    from stapo_bench.presenting.gates import render_gate
    from stapo_bench.presenting.graders import render_graders
    from stapo_bench.presenting.notebook import Run, ShownComparison, compare_in_python
    from stapo_bench.presenting.one_run import (
        render_audit,
        render_import,
        render_metrics,
        render_truncation,
        render_without,
    )
    from stapo_bench.presenting.outcome_scores import render_outcome_scores
    from stapo_bench.presenting.planning import render_plan
    from stapo_bench.presenting.sizes import render_size_plan, save_size_figure
    from stapo_bench.presenting.tables.rows import published_rows, rows_from_runs, rows_from_scores
    from stapo_bench.presenting.tables.table import render_table
    from stapo_bench.presenting.task_texts import render_overlaps, task_card, task_line
    from stapo_bench.presenting.verdicts import render_comparison, sign_risk, table_rows
    from stapo_bench.presenting.verdicts_of_regimes import render_regimes
    from stapo_bench.presenting.verdicts_of_several import render_several, render_standings, several_sentence
    from stapo_bench.presenting.verdicts_over_seeds import render_methods, seeds_sentence
    from stapo_bench.presenting.why import render_why
    from stapo_bench.presenting.words import change_interval, percent, points, score_interval, signed
else:
    __getattr__ = lazy_names(__name__, __file__)
