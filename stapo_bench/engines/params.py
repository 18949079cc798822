"""What every engine asks of requests and parameters before it generates."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, Request, SamplingParams


def check_params(params: SamplingParams) -> None:
    """Refuse what cannot be sampled: a temperature below 0, top-p outside (0, 1], no new tokens, …"""
    if not 0 <= params.temperature < math.inf:
        raise UsageError(f"temperature: expected a number from 0 (greedy) up, got {params.temperature}")
    if not 0 < params.top_p <= 1:
        raise UsageError(f"top-p: expected a number in (0, 1], got {params.top_p}")
    if params.top_k is not None and params.top_k < 1:
        raise UsageError(f"top-k: expected at least 1, got {params.top_k}")
    if params.min_p is not None and not 0 < params.min_p <= 1:
        raise UsageError(f"min-p: expected a number in (0, 1], got {params.min_p}")
    if params.is_greedy and (params.top_p, params.top_k, params.min_p) != (1, None, None):
        raise UsageError("temperature 0 is greedy decoding: expected no top-p, top-k or min-p beside it")
    if not all(params.stop):
        raise UsageError("stop: expected texts of at least one character, got an empty one")
    if params.thinking_budget is not None and not 1 <= params.thinking_budget < params.max_new_tokens:
        raise UsageError(
            f"thinking-budget: expected 1 to {params.max_new_tokens - 1}, as the answer comes behind it within "
            f"{params.max_new_tokens} new tokens, got {params.thinking_budget}"
        )
    if params.max_new_tokens < 1:
        raise UsageError(f"max-new-tokens: expected at least 1, got {params.max_new_tokens}")


_BEYOND = ("top_k", "min_p", "stop", "thinking_budget")  # what an engine need not apply


def check_applied(params: SamplingParams, engine: str, applies: Collection[str]) -> None:
    """Refuse settings that an engine does not apply exactly; ``applies`` are the fields that it does.

    Raises:
        UsageError: a setting that is on and not among them; ``greedy`` stands for temperature 0.
    """
    settings = {"greedy": params.is_greedy, **{name: getattr(params, name) for name in _BEYOND}}
    for name, value in settings.items():
        if value and name not in applies:
            flag = "temperature 0" if name == "greedy" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag}: expected an engine that applies it, got {engine}, which does not")


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """A completion up to the first of the stop texts, which is left out.

    >>> cut_at_stop("42. Q: and 7?", ["Q:", "and"])
    '42. '
    """
    return text[: min((place for place in map(text.find, stop) if place >= 0), default=len(text))]


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
    from stapo_bench.tasks import read_foreign_object  # slow to import, for commands that ask for no checkpoint

    try:
        return int(read_foreign_object(checkpoint / "config.json")["max_position_embeddings"])
    except (StapoError, ValueError, KeyError, TypeError, OverflowError):
        return None
