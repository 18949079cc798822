"""Objects to what people read: words, tables, figures and the report page."""

from stapo_bench.presenting.rows import published_rows, rows_from_runs, score_by
from stapo_bench.presenting.table import render_table
from stapo_bench.presenting.verdicts import render_comparison
