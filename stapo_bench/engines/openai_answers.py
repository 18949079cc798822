"""A completion in what a server of OpenAI's protocol answers, read and checked."""

from collections.abc import Mapping
from typing import Any

from stapo_bench.engines.answering_model import OtherModelError, resolution
from stapo_bench.engines.http import PassingError
from stapo_bench.engines.served_model import ServedModel, is_count
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request


def read_completion(
    request: Request, served: ServedModel, max_tokens: int, answer: Mapping[str, Any], seconds: float
) -> Completion:
    """The completion in a server's answer to a request for ``max_tokens`` of a model; PassingError where it has none.

    Another model's answer has none: a gateway may have fallen back to it for a while.
    """
    try:
        (choice,) = answer["choices"]
        text, reason = _text_of(choice), choice["finish_reason"]
        token_ids = choice.get("token_ids")
        num_tokens = len(token_ids) if token_ids is not None else answer["usage"]["completion_tokens"]
        if token_ids is not None and not (isinstance(token_ids, list) and all(map(is_count, token_ids))):
            raise ValueError("token_ids that are no list of token ids")
        if not is_count(num_tokens):
            raise ValueError(f"completion_tokens {num_tokens!r}")
        model = resolution(served.name, served.names, answer.get("model"))
    except OtherModelError as error:
        raise PassingError(str(error), other_model=error.told) from None
    except (KeyError, TypeError, ValueError) as error:
        raise PassingError(f"an answer without one choice, its reason and its length ({error!r})") from error
    _check_prompt(request, answer.get("usage"))
    if reason not in ("stop", "length") or not isinstance(text, str):
        raise PassingError(f"expected finish_reason stop or length, got {reason!r}")
    if num_tokens > max_tokens:
        raise PassingError(f"{num_tokens} tokens where {max_tokens} were asked for")
    return Completion(
        key=request.key,
        text=text,
        finish_reason=reason,
        num_tokens=num_tokens,
        token_ids=tuple(token_ids) if token_ids is not None else None,
        seconds=seconds,
        model=model,
    )


def _text_of(choice: Mapping[str, Any]) -> Any:
    """The completion in a choice; of a message that was thought about, with its reasoning in ``<think>`` before it.

    A thought that was cut off stays open: servers write no content then, or an empty one.

    >>> _text_of({"message": {"content": "4", "reasoning_content": "2 + 2"}, "finish_reason": "stop"})
    '<think>2 + 2</think>4'
    >>> _text_of({"message": {"content": "", "reasoning_content": "2 +"}, "finish_reason": "length"})
    '<think>2 +'
    """
    if "message" not in choice:
        return choice["text"]
    message = choice["message"]
    content, reasoning = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
    if not reasoning:
        return "" if content is None else content  # cut off before the first word
    if not isinstance(reasoning, str):
        raise ValueError(f"reasoning {type(reasoning).__name__}")
    is_open = content is None or (content == "" and choice["finish_reason"] == "length")
    return f"<think>{reasoning}" if is_open else f"<think>{reasoning}</think>{content}"


def _check_prompt(request: Request, usage: object) -> None:
    """Refuse a server that counts other prompt tokens than it was sent: it has changed the prompt."""
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    sent = request.prompt.token_ids
    if sent is not None and is_count(counted) and counted != len(sent):
        raise StapoError(
            f"{request.prompt.task}, problem {request.prompt.problem_id}: expected a prompt of the {len(sent)} tokens "
            f"that were sent, the server counts {counted}: it has another tokenizer, or adds a template or a BOS "
            "token; serve the checkpoint that --ckpt names, and its prompts as they are"
        )
