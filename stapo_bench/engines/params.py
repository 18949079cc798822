"""What every engine asks of requests and parameters before it generates."""

import json
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, Request, SamplingParams


def check_params(params: SamplingParams) -> None:
    """Refuse what cannot be sampled: temperature <= 0, top-p outside (0, 1], no new tokens."""
    if not params.temperature > 0:
        raise UsageError(f"temperature: expected a number above 0, got {params.temperature}")
    if not 0 < params.top_p <= 1:
        raise UsageError(f"top-p: expected a number in (0, 1], got {params.top_p}")
    if params.max_new_tokens < 1:
        raise UsageError(f"max-new-tokens: expected at least 1, got {params.max_new_tokens}")


def token_budget(prompt: Prompt, num_prompt: int, max_new_tokens: int, context_length: int) -> int:
    """New tokens that a prompt of ``num_prompt`` tokens leaves room for, at most ``max_new_tokens``.

    A prompt that is empty or fills the context is an error, to be raised before anything is generated.
    """
    budget = min(max_new_tokens, context_length - num_prompt)
    if num_prompt < 1 or budget < 1:
        raise StapoError(
            f"{prompt.task}, problem {prompt.problem_id}: expected a prompt of 1 to {context_length - 1} tokens "
            f"(the context less one new token), got {num_prompt}"
        )
    return budget


def refuse_generated_ids(request: Request) -> None:
    """For engines without ``continues_exactly``: they would generate the first tokens once more."""
    if request.generated_ids:
        raise StapoError(
            f"{'/'.join(map(str, request.key))}: this engine cannot go on behind drawn ids: expected them in the prompt"
        )


def declared_context(checkpoint: Path) -> int | None:
    """Positions that a checkpoint's ``config.json`` gives its model; None: it does not say, or is no folder."""
    from stapo_bench.tasks import read_foreign_text  # slow to import, for commands that ask for no checkpoint

    try:
        config = json.loads(read_foreign_text(checkpoint / "config.json"))
        return int(config["max_position_embeddings"])
    except (StapoError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
