"""Runs to scores, comparisons, plans, audits, curves and bounds: objects, without text."""

from stapo_bench.analysis.audits import Check, audit, audit_runs, engine_drift, render_audit, shared_samples
from stapo_bench.analysis.compare import (
    LEVEL,
    Comparison,
    Effect,
    TaskComparison,
    compare_loaded,
    compare_runs,
    decide,
    with_other_graders,
)
from stapo_bench.analysis.contamination import overlaps_of_tasks, render_overlaps, render_without, scores_without
from stapo_bench.analysis.curve import curve_runs, render_curve
from stapo_bench.analysis.early_stopping import at_every_look
from stapo_bench.analysis.grader_agreement import compare_graders, grade_files, render_graders
from stapo_bench.analysis.metrics import AVG, Metric, fewest_decided, parse_metric, render_metrics
from stapo_bench.analysis.parity_gate import ParityDifference, parity, same_weights
from stapo_bench.analysis.plan import TaskPlan, plan_runs, render_plan
from stapo_bench.analysis.regimes import compare_regimes, render_regimes
from stapo_bench.analysis.relative_gain import headline, headline_line, measured_headline, relative_gains
from stapo_bench.analysis.scores import MacroScore, RunScore, TaskScore, current_score, run_score, score_run
from stapo_bench.analysis.seed_comparison import (
    MARGIN,
    SEED_ERRORS,
    SeedComparison,
    changes_by_task,
    compare_over_seeds,
    means_by_task,
    over_seeds,
    seeds_sentence,
)
from stapo_bench.analysis.token_limits import render_truncation, truncation
