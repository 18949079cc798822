"""One run per thinking budget, all from the same first tokens: nothing is drawn twice.

RUN ── RUN-2048 ── RUN-4096 …                              cut-off samples go on thinking
 └─ RUN-8192-thinking1024 └─ RUN-8192-thinking4096         those still thinking end it, up to 8192 tokens in all

for result in continue_to_budgets(ContinueOptions(run_dir=Path("RUN"), max_new_tokens=8192), [1024, 2048, 4096]): ...
for result in evaluate_to_budgets(EvalOptions(out=Path("RUN"), ...), [1024, 2048, 4096]): ...  # RUN-1024 is the first
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from stapo_bench.engines import Engine, check_sampling
from stapo_bench.errors import UsageError
from stapo_bench.runs import load_manifest
from stapo_bench.sampling.continuation import ContinueOptions, continue_run
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_options import EvalOptions, checkpoint_of, sampling_params
from stapo_bench.sampling.evaluation import evaluate, load_tokenizer
from stapo_bench.sampling.generate import SamplingResult
from stapo_bench.sampling.thinking import END_OF_THINKING, check_end, check_room
from stapo_bench.tasks import load_task


def evaluate_to_budgets(
    options: EvalOptions,
    budgets: Sequence[int],
    end: str | None = None,
    *,
    engines: EngineCache | None = None,
    watch: TextIO | None = None,
) -> Iterator[SamplingResult]:
    """Evaluate up to the smallest budget, and yield the run of each one, smallest first.

    Args:
        options: the evaluation, whose limit on new tokens is that of a whole reply; the runs' folders begin as ``out``.
        budgets: tokens of a reply after which thinking that goes on is ended.
        end: the text that ends it; None: ``END_OF_THINKING``.
        engines: opens the engines, and may keep them; None: opened and closed here.
        watch: where progress goes; None: standard error.

    Raises:
        UsageError: a budget that leaves no token for an answer, or an evaluation that cannot be gone on with.
    """
    first, whole = min(budgets), sampling_params(options)
    end = END_OF_THINKING if end is None else end
    _check_room(budgets, whole.max_new_tokens)
    check_end(end, whole.stop)
    if options.engine.chat:
        raise UsageError(
            "--thinking-budget: expected prompts of our own, got --chat, whose answers cannot be gone on with"
        )
    if calling := [name for name in options.tasks if load_task(name).tool is not None]:
        raise UsageError(f"--thinking-budget: expected tasks whose replies call no tool, got {calling[0]}")
    check_sampling(options.engine, replace(whole, thinking_budget=first, thinking_end=end))
    tokenizer = load_tokenizer(checkpoint_of(options))
    check_room(tokenizer, replace(whole, thinking_budget=max(budgets), thinking_end=end))
    with nullcontext(engines) if engines else EngineCache() as cache:
        begun = replace(options, max_new_tokens=first, out=_beside(options.out, str(first)))
        result = evaluate(begun, engines=cache, watch=watch)
        asked = ContinueOptions(
            run_dir=result.run_dir,
            max_new_tokens=whole.max_new_tokens,
            out=options.out,
            data_dir=options.data_dir,
            engine=options.engine,
            thinking_end=end,
        )
        for further in continue_to_budgets(asked, budgets, engines=cache, watch=watch):
            yield replace(further, num_missing=result.num_missing + further.num_missing)
            result = replace(result, num_missing=0)  # once


def continue_to_budgets(
    options: ContinueOptions,
    budgets: Sequence[int],
    *,
    engine: Engine | None = None,
    engines: EngineCache | None = None,
    watch: TextIO | None = None,
) -> Iterator[SamplingResult]:
    """Yield the run of each budget, smallest first; stopped and started again, it goes on where it was.

    Args:
        options: the run, and the limit on a whole reply; ``out`` stands in place of RUN in the names.
        budgets: none below the run's own limit, as it is not known of which tokens a longer sample began.
        engine: an open one; None: the run's, opened and closed here.
        engines: opens the engine instead, and may keep it for the next run.
        watch: where progress goes; None: standard error.

    Raises:
        UsageError: a budget below the run's limit, or one that leaves no token for an answer.
    """
    base, run_dir = options.out or options.run_dir, options.run_dir
    limit = load_manifest(run_dir).identity.sampling.max_new_tokens or 0
    if min(budgets) < limit:
        raise UsageError(
            f"--thinking-budget: expected at least {limit}, the limit that {run_dir} was drawn under, got "
            f"{min(budgets)}; draw a run with --max-new-tokens {min(budgets)} first"
        )
    _check_room(budgets, options.max_new_tokens)
    with nullcontext(engines) if engines else EngineCache(engine) as cache:
        for budget in sorted(set(budgets)):
            num_missing = 0  # of the run between, and so of all behind it
            if budget > limit:
                further = replace(options, run_dir=run_dir, max_new_tokens=budget, out=_beside(base, str(budget)))
                between = continue_run(further, engines=cache, watch=watch)
                run_dir, limit, num_missing = between.run_dir, budget, between.num_missing
            out = _beside(base, f"{options.max_new_tokens}-thinking{budget}")
            ended = replace(options, run_dir=run_dir, thinking_budget=budget, out=out)
            result = continue_run(ended, engines=cache, watch=watch)
            yield replace(result, num_missing=num_missing + result.num_missing)


def _check_room(budgets: Sequence[int], max_new_tokens: int) -> None:
    """Refuse budgets behind which no answer fits, before hours go into the first."""
    if max(budgets) >= max_new_tokens:
        raise UsageError(
            f"--thinking-budget: expected fewer than the {max_new_tokens} tokens of --max-new-tokens, as the "
            f"answer comes behind it, got {max(budgets)}"
        )


def _beside(run_dir: Path, ending: str) -> Path:
    """A folder beside a run's."""
    return run_dir.with_name(f"{run_dir.resolve().name}-{ending}")
