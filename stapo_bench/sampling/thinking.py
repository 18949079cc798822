"""Where a reply's thinking ends: whether it still goes on, and the text and tokens that end it."""

from collections.abc import Sequence
from typing import Any

from stapo_bench.engines import sampling_in_words
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import SamplingParams
from stapo_bench.runs import Manifest

THINK, END_THINK = "<think>", "</think>"
END_OF_THINKING = f"\n{END_THINK}\n\n"
"""What ends thinking unless told otherwise: as models write it themselves."""


def is_thinking(text: str) -> bool:
    """Whether a prompt and what is written behind it end within ``<think>``.

    >>> is_thinking("<think>so"), is_thinking("<think>so</think>42"), is_thinking("42")
    (True, False, False)
    """
    return text.rfind(THINK) > text.rfind(END_THINK)


def end_ids(tokenizer: Any, end: str) -> tuple[int, ...]:
    """The tokens that end thinking; StapoError where the tokenizer leaves ``</think>`` out of completions."""
    ids = tuple(tokenizer(end, add_special_tokens=False)["input_ids"])
    if END_THINK not in (shown := tokenizer.decode(ids, skip_special_tokens=True)):
        raise StapoError(f"--thinking-budget: expected a tokenizer that writes {END_THINK}, got {shown!r}")
    return ids


def check_room(tokenizer: Any | None, sampling: SamplingParams) -> None:
    """Refuse a budget whose end leaves no token for an answer, or without a tokenizer, which counts that end.

    Raises:
        UsageError: one of both.
        StapoError: as ``end_ids``.
    """
    budget, end = sampling.thinking_budget, sampling.thinking_end
    if budget is None or end is None:
        return
    if tokenizer is None:
        raise UsageError(
            "--thinking-budget: expected a tokenizer to count the tokens of the end, got a model that only its server "
            "has; evaluate it with --ckpt as well"
        )
    if budget + (num_end := len(end_ids(tokenizer, end))) >= sampling.max_new_tokens:
        raise UsageError(
            f"--thinking-budget: expected fewer than {sampling.max_new_tokens - num_end} tokens, as those of "
            f"--thinking-end ({num_end}) and of the answer come behind them, up to --max-new-tokens "
            f"{sampling.max_new_tokens}, got {budget}"
        )


def thinking_fields(run: Manifest, budget: int | None, end: str) -> dict[str, Any]:
    """The fields of ``SamplingParams`` by which the run's cut-off samples end their thinking; none without a budget.

    Raises:
        UsageError: the budget is not the run's limit, the run has one, or the end is none or would be taken for a stop.
    """
    if budget is None:
        return {}
    sampling = run.identity.sampling
    if sampling.thinking_budget is not None or sampling.max_new_tokens != budget:
        raise UsageError(
            f"--thinking-budget: expected a run without one whose samples were cut off at {budget}, got {run.run_dir} "
            f"({sampling_in_words(sampling)}, at most {sampling.max_new_tokens} new tokens)"
        )
    check_end(end, sampling.stop)
    return {"thinking_budget": budget, "thinking_end": end}


def check_end(end: str, stop: Sequence[str]) -> None:
    """Refuse an end of thinking that is none, or that would be taken for a stop text: UsageError."""
    if END_THINK not in end or any(text in end for text in stop):
        raise UsageError(f"--thinking-end: expected a text with {END_THINK} and no text of --stop, got {end!r}")
