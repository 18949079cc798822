"""From a checkpoint to stored samples: missing ones are sampled, graded on the way, with early stopping."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.sampling.budgets import continue_to_budgets, evaluate_to_budgets
    from stapo_bench.sampling.continuation import ContinueOptions, continue_run
    from stapo_bench.sampling.engine_cache import EngineCache, open_for
    from stapo_bench.sampling.eval_options import (
        EvalOptions,
        changed_decoding,
        for_checkpoint,
        run_folders,
        sampling_params,
    )
    from stapo_bench.sampling.eval_tasks import EvalTask, requests
    from stapo_bench.sampling.evaluation import evaluate, prepare_tasks
    from stapo_bench.sampling.following import Entry, FollowOptions, follow
    from stapo_bench.sampling.generate import SamplingResult, generate_missing, shard_label, shard_state, sole_writer
    from stapo_bench.sampling.identity import run_about, run_identity, this_command
    from stapo_bench.sampling.judging import JudgeOptions, judge_run, open_judge
    from stapo_bench.sampling.preflight import check_all
    from stapo_bench.sampling.stop_rules import stop_rule
else:
    __getattr__ = lazy_names(__name__, __file__)
