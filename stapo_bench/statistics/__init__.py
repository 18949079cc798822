"""Matrices of outcomes, [problems, samples], to estimates, intervals, paired tests and sequential bounds.

numpy and scipy alone: nothing here knows what a run or a file is.
"""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.statistics.checkpoint_looks import CheckpointLook, LookState, look_at, planned_aim
    from stapo_bench.statistics.clusters import Clustering, Labels, clustering
    from stapo_bench.statistics.conventions import ALARM, LEVEL, MARGIN, POWER
    from stapo_bench.statistics.copies import copy_evidence, is_copied, most_log_probability, problem_evidence
    from stapo_bench.statistics.difference import FEW_PAIRS, UNDECIDED, Difference, Pairs
    from stapo_bench.statistics.estimators import (
        TAUS,
        Matrix,
        Vector,
        answer_classes,
        avg_at_k,
        maj_at_k,
        pass_at_k,
        pass_hat_k,
        problem_means,
        score_bounds,
        stability,
    )
    from stapo_bench.statistics.intervals import (
        ERROR_NAMES,
        UNKNOWN,
        ErrorName,
        Interval,
        confidence_of,
        interval,
        macro_interval,
        normal_quantile,
        sampling_variance,
        t_quantile,
    )
    from stapo_bench.statistics.paired import (
        contrast,
        contrast_variances,
        holm,
        mean_difference,
        paired_difference,
    )
    from stapo_bench.statistics.reported import (
        Reported,
        Shares,
        half_width,
        reported_difference,
        reported_error,
        seed_spread_allowed,
        share_between,
        share_common,
        share_of_passes,
        times_needed,
        trainings_needed,
    )
    from stapo_bench.statistics.seed_differences import (
        SEED_ERRORS,
        SeedError,
        SeedsNeeded,
        Spread,
        over_seeds,
        seeds_needed,
        spread,
    )
    from stapo_bench.statistics.sequential import (
        StopDecision,
        anytime,
        anytime_interval,
        stop_at_width,
        stop_when_decided,
        widening,
    )
    from stapo_bench.statistics.several import (
        JointDifference,
        Pair,
        all_differences,
        groups_of,
        judge_together,
        places_of,
    )
else:
    __getattr__ = lazy_names(__name__, __file__)
