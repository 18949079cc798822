"""What servers that speak OpenAI's protocol answer, read and checked: which model they serve, and a completion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stapo_bench.engines.answering_model import OtherModelError, names_of, resolution
from stapo_bench.engines.http import Http, NoSuchPathError, PassingError, address
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request

_PROBE_S = 10.0  # for the answer to a question that only makes a message clearer


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """The one model that all servers have."""

    name: str
    context_length: int | None  # positions of prompt and completion together, the fewest; None: no server says it
    names: frozenset[str] = frozenset()  # under which the servers may say that it answered


def find_model(http: Http, urls: Sequence[str], name: str | None, timeout_s: float) -> ServedModel:
    """Ask every server what it serves.

    Args:
        http: sends the questions.
        urls: the servers, with the version: ``http://host:8000/v1``.
        name: the served name; None: the one model that they have.
        timeout_s: for each server's answer.

    Raises:
        StapoError: a server does not answer or does not have the model, or they have different ones.
    """
    cards, names = _cards(http, urls, name, timeout_s)
    served = str(cards[0]["id"])
    if others := sorted({str(card["id"]) for card in cards} - {served}):
        raise StapoError(f"the servers serve different models, {served} and {others[0]}: name one with --model")
    lengths = [card["max_model_len"] for card in cards if card.get("max_model_len") is not None]
    if wrong := [length for length in lengths if not _is_count(length) or length < 1]:
        raise StapoError(f"{address(urls[0])}: expected a number of positions as max_model_len, got {wrong[0]!r}")
    return ServedModel(name=served, context_length=min(lengths) if lengths else None, names=names)


def _cards(
    http: Http, urls: Sequence[str], model: str | None, timeout_s: float
) -> tuple[list[Mapping[str, Any]], frozenset[str]]:
    """What each server says of the model, and all its names. One line names all that do not answer."""
    found: list[Mapping[str, Any]] = []
    names: frozenset[str] = frozenset()
    dead: list[str] = []
    for url in urls:
        try:
            answer = http.send(f"{url}/models", None, timeout_s)
            cards: dict[str, Mapping[str, Any]] = {str(card["id"]): {**card} for card in answer["data"]}
        except NoSuchPathError as error:
            if _answers(http, f"{url}/v1/models"):
                raise StapoError(
                    f"{address(url)}: --base-url ends before the version: expected {http.masked(url)}/v1"
                ) from None
            dead.append(http.masked(str(error)))
            continue
        except (PassingError, KeyError, TypeError) as error:
            dead.append(f"{address(url)}: {http.masked(str(error))}")
            continue
        name = next(iter(cards)) if model is None and len(cards) == 1 else model
        if name not in cards:
            named = f"model {model}" if model else "one model (name it with --model)"
            raise StapoError(f"{address(url)}: expected {named}, got {', '.join(sorted(cards)) or 'none'}")
        found.append(cards[name])
        names |= names_of(name, [{**card, "id": id_} for id_, card in cards.items()])
    if dead:
        raise StapoError(
            f"expected an OpenAI-compatible server with /models at each --base-url, got none at {'; '.join(dead)} "
            f"({len(found)} of {len(urls)} answer); start it or leave it out"
        )
    return found, names


def check_completions(http: Http, url: str, model: str, chat: bool = False) -> None:
    """Refuse a server that has no ``/completions`` (``chat``: no ``/chat/completions``) before any sample is asked for.

    What else it answers counts later.

    Raises:
        StapoError: nothing is there; the line says so where the server speaks the other protocol.
    """
    ways: dict[str, dict[str, Any]] = {"/completions": {}, "/chat/completions": {"messages": []}}
    wanted, other = reversed(ways) if chat else ways
    body = {"model": model, "max_tokens": 1}  # without a prompt: no sample
    try:
        http.send(f"{url}{wanted}", {**body, **ways[wanted]}, _PROBE_S)
    except NoSuchPathError as error:
        if not _answers(http, f"{url}{other}", {**body, **ways[other]}):
            raise error from None
        raise StapoError(f"{address(url)}: the server speaks /v1{other} only, {_OTHER_WAY[chat]}") from None
    except (StapoError, PassingError):
        return


_OTHER_WAY = {
    False: "which puts a template of its own around prompts: --chat asks it that way; vllm serve, SGLang and "
    "llama.cpp's server take prompts as they are, by /v1/completions",
    True: "which takes prompts as they are: leave --chat out",
}


def _answers(http: Http, url: str, body: Mapping[str, Any] | None = None) -> bool:
    """Whether a server has something at an address; a refusal of the request itself says that it has."""
    try:
        http.send(url, body, _PROBE_S)
    except (NoSuchPathError, PassingError):
        return False
    except StapoError:
        return body is not None
    return True


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
        if token_ids is not None and not (isinstance(token_ids, list) and all(map(_is_count, token_ids))):
            raise ValueError("token_ids that are no list of token ids")
        if not _is_count(num_tokens):
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

    >>> _text_of({"message": {"content": "4", "reasoning_content": "2 + 2"}})
    '<think>2 + 2</think>4'
    """
    if "message" not in choice:
        return choice["text"]
    message = choice["message"]
    content, reasoning = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
    if not reasoning:
        return "" if content is None else content  # cut off before the first word
    if not isinstance(reasoning, str):
        raise ValueError(f"reasoning {type(reasoning).__name__}")
    return f"<think>{reasoning}" if content is None else f"<think>{reasoning}</think>{content}"


def _check_prompt(request: Request, usage: object) -> None:
    """Refuse a server that counts other prompt tokens than it was sent: it has changed the prompt."""
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    sent = request.prompt.token_ids
    if sent is not None and _is_count(counted) and counted != len(sent):
        raise StapoError(
            f"{request.prompt.task}, problem {request.prompt.problem_id}: expected a prompt of the {len(sent)} tokens "
            f"that were sent, the server counts {counted}: it has another tokenizer, or adds a template or a BOS "
            "token; serve the checkpoint that --ckpt names, and its prompts as they are"
        )


def _is_count(value: object) -> bool:
    """Whether a value is a whole number from 0 up that 31 bits hold."""
    return type(value) is int and 0 <= value < 1 << 31
