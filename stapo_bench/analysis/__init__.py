"""Runs to scores, comparisons, plans, audits, curves and bounds: objects, without text."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.analysis.arena import MOST_CPU_S, Contender, graders_at_hand, judge_graders
    from stapo_bench.analysis.audit_check import AuditCheck
    from stapo_bench.analysis.audits import audit, audit_runs, engine_drift
    from stapo_bench.analysis.budget_curve import curve_of
    from stapo_bench.analysis.checkpoint_runs import look_at_checkpoint
    from stapo_bench.analysis.compare import (
        Compared,
        Comparison,
        Effect,
        PairOfRuns,
        PairRisk,
        RunValue,
        SeveralComparison,
        SignRisk,
        Standing,
        TaskComparison,
        compare_loaded,
        compare_models,
        compare_outcomes,
        compare_runs,
        compare_several,
        read_sides,
        runs_alike,
        with_other_graders,
    )
    from stapo_bench.analysis.contamination import WithAndWithout, overlaps_of_tasks, scores_without
    from stapo_bench.analysis.curve import Curve, curve_runs
    from stapo_bench.analysis.design import (
        ASSUMED_CORRELATION,
        ASSUMED_CORRELATIONS,
        Findable,
        Size,
        SizePlan,
        plan_size,
        size_of,
    )
    from stapo_bench.analysis.early_stopping import at_every_look
    from stapo_bench.analysis.gate import GateState, Judged, Requirement, better_by, judge, not_worse, not_worse_than
    from stapo_bench.analysis.grader_agreement import Dispute, GraderAgreement, compare_graders
    from stapo_bench.analysis.methods import (
        Method,
        MethodComparison,
        MethodScore,
        compare_methods,
        methods_among,
        read_method,
    )
    from stapo_bench.analysis.metrics import AVG, Metric, fewest_decided, parse_metric
    from stapo_bench.analysis.outcome_tables import (
        OutcomeScore,
        OutcomeScores,
        audit_tables,
        average_of_table,
        curve_tables,
        plan_tables,
        score_tables,
    )
    from stapo_bench.analysis.parity_gate import ParityDifference, parity, same_weights, tasks_together, weights_of
    from stapo_bench.analysis.passed_on import moved_samples, shared_samples
    from stapo_bench.analysis.plan import Need, SamplePlan, TaskPlan, plan_runs
    from stapo_bench.analysis.published import (
        Protocol,
        PublishedRow,
        PublishedTable,
        find_inconsistencies,
        load_facts,
        load_published,
        published_names,
    )
    from stapo_bench.analysis.regimes import Ranking, RegimeComparison, compare_regimes
    from stapo_bench.analysis.relative_gain import Headline, headline, measured_headline, relative_gains
    from stapo_bench.analysis.reported_leads import (
        LIKELY,
        VERDICTS,
        Claim,
        Lead,
        LeadVerdict,
        adjusted,
        claim,
        table_leads,
    )
    from stapo_bench.analysis.score_file import as_json, current_score, score_by, score_run
    from stapo_bench.analysis.scores import MacroScore, RunScore, TaskScore, run_score
    from stapo_bench.analysis.seed_comparison import (
        SeedComparison,
        changes_by_task,
        compare_over_seeds,
        means_by_task,
    )
    from stapo_bench.analysis.token_limits import TaskTruncation, truncation
    from stapo_bench.analysis.why.cell import why_published
    from stapo_bench.analysis.why.parts import Cause, Explanation, Part, TaskGap
    from stapo_bench.analysis.why.two_runs import why_runs
else:
    __getattr__ = lazy_names(__name__, __file__)
