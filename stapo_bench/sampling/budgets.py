"""One run per thinking budget, all from the same first tokens: nothing is drawn twice.

RUN ── RUN-2048 ── RUN-4096 …                              cut-off samples go on thinking
 └─ RUN-8192-thinking1024 └─ RUN-8192-thinking4096         those still thinking end it, up to 8192 tokens in all

for result in continue_to_budgets(ContinueOptions(run_dir=Path("RUN"), max_new_tokens=8192), [1024, 2048, 4096]): ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from stapo_bench.engines import Engine
from stapo_bench.errors import UsageError
from stapo_bench.runs import load_manifest
from stapo_bench.sampling.continuation import ContinueOptions, continue_run
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.generate import SamplingResult


def continue_to_budgets(
    options: ContinueOptions, budgets: Sequence[int], *, engine: Engine | None = None, watch: TextIO | None = None
) -> Iterator[SamplingResult]:
    """Yield the run of each budget, smallest first; stopped and started again, it goes on where it was.

    Args:
        options: the run, and the limit on a whole reply; ``out`` stands in place of RUN in the names.
        budgets: none below the run's own limit, as it is not known of which tokens a longer sample began.
        engine: an open one; None: the run's, opened and closed here.
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
    if max(budgets) >= options.max_new_tokens:  # known before hours go into the first
        raise UsageError(
            f"--thinking-budget: expected fewer than the {options.max_new_tokens} tokens of --max-new-tokens, as the "
            f"answer comes behind it, got {max(budgets)}"
        )

    def beside(ending: str) -> Path:
        """A folder beside the run."""
        return base.with_name(f"{base.resolve().name}-{ending}")

    with EngineCache(engine) as engines:
        for budget in sorted(set(budgets)):
            num_missing = 0  # of the run between, and so of all behind it
            if budget > limit:
                further = replace(options, run_dir=run_dir, max_new_tokens=budget, out=beside(str(budget)))
                between = continue_run(further, engines=engines, watch=watch)
                run_dir, limit, num_missing = between.run_dir, budget, between.num_missing
            out = beside(f"{options.max_new_tokens}-thinking{budget}")
            ended = replace(options, run_dir=run_dir, thinking_budget=budget, out=out)
            result = continue_run(ended, engines=engines, watch=watch)
            yield replace(result, num_missing=num_missing + result.num_missing)
