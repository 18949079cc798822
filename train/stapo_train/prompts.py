"""Training problems as prompts, and whether each leaves the model room for an answer."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stapo_bench.engines import declared_context, token_budget
from stapo_bench.errors import StapoError, tell
from stapo_bench.records import Problem, Prompt
from stapo_bench.tasks import render_all, resolve_format
from stapo_train.config import TrainConfig

_MARKS = 2  # tokens without a character of the prompt, at most: what begins and ends a text


def render(problems: Sequence[Problem], config: TrainConfig, tokenizer: Any) -> list[Prompt]:
    """The prompts of these problems, as the evaluation renders them."""
    prompt_format = resolve_format(config.data.prompt_format, tokenizer)
    return render_all(problems, config.data.question, prompt_format, tokenizer, config.data.style)


def short_enough(problems: Sequence[Problem], config: TrainConfig, tokenizer: Any) -> list[Problem]:
    """The problems whose prompt has at most ``data.max_prompt_tokens`` tokens; StapoError where that is none."""
    limit = config.data.max_prompt_tokens
    if limit is None:
        return list(problems)
    prompts = render(problems, config, tokenizer)
    kept = [p for p, prompt in zip(problems, prompts, strict=True) if len(prompt.token_ids or ()) <= limit]
    if not kept:
        raise StapoError(f"data.max_prompt_tokens={limit}: no prompt of {len(problems)} is as short; raise it")
    if len(kept) < len(problems):
        tell(
            sys.stderr,
            f"{len(problems) - len(kept)} of {len(problems)} prompts are longer than {limit} tokens: left out",
        )
    return kept


def check_lengths(problems: Sequence[Problem], config: TrainConfig, tokenizer: Any) -> None:
    """Refuse a problem whose prompt fills the model's positions, before the first iteration rather than where it comes.

    A token is a byte at least, so that only problems with about as many bytes as there are positions are rendered.

    Raises:
        StapoError: a prompt leaves no room for a new token.
    """
    positions = declared_context(Path(config.model))
    if positions is None:
        return
    sizes = [len(problem.question.encode()) for problem in problems]
    longest = max(range(len(problems)), key=sizes.__getitem__)
    (prompt,) = render([problems[longest]], config, tokenizer)
    around = len(prompt.text.encode()) - sizes[longest] + _MARKS
    long = [problem for problem, size in zip(problems, sizes, strict=True) if size + around >= positions]
    for prompt in render(long, config, tokenizer):
        token_budget(prompt, len(prompt.token_ids or ()), config.rollout.max_new_tokens, positions)
