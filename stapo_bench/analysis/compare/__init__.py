"""Did it get better? Runs or tables of outcomes, compared problem by problem under both named errors."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.analysis.compare.outcomes import Compared, compare_models, compare_outcomes
    from stapo_bench.analysis.compare.records import (
        Comparison,
        Effect,
        EffectVerdict,
        PairOfRuns,
        PairRisk,
        RunValue,
        SeveralComparison,
        SignRisk,
        Standing,
        TaskComparison,
        verdict_on,
    )
    from stapo_bench.analysis.compare.runs import compare_loaded, compare_runs, with_other_graders
    from stapo_bench.analysis.compare.several import (
        compare_several,
        read_sides,
        runs_alike,
    )
else:
    __getattr__ = lazy_names(__name__, __file__)
