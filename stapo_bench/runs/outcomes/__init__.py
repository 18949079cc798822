"""Outcomes without a run folder: who was right on which item, read from a table, a log, or Python objects."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.runs.outcomes.columns import ColumnsOf, columns_of_each, parse_outcome_map
    from stapo_bench.runs.outcomes.objects import Frame, is_matrix, outcomes_from
    from stapo_bench.runs.outcomes.outcome_table import ALL_ITEMS, NO_SEED, OutcomeTable, TableTask
    from stapo_bench.runs.outcomes.places import is_run, is_there, read_outcomes
    from stapo_bench.runs.outcomes.values import ScoreRange, checked_range, parse_range
else:
    __getattr__ = lazy_names(__name__, __file__)
