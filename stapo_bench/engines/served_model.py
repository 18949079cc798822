"""Which model servers have, and what they tell of it and of themselves: two that differ are not asked as one.

served = await find_model(Http(None), ["http://gpu1:8000/v1"], None, timeout_s=30.0)
served.facts  # {"server": "vllm 0.32.0", "root": "Qwen3-1.7B"}
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from stapo_bench.engines.answering_model import names_of
from stapo_bench.engines.http import Http, NoSuchPathError, PassingError, RefusedError, address
from stapo_bench.errors import StapoError

_PROBE_S = 10.0  # for the answer to a question that only makes a message clearer


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """The one model that all servers have."""

    name: str
    context_length: int | None  # positions of prompt and completion together, the fewest; None: no server says it
    names: frozenset[str] = frozenset()  # under which the servers may say that it answered
    facts: Mapping[str, str] = field(default_factory=dict)  # what all servers tell alike, by name; most tell little


async def find_name(http: Http, urls: Sequence[str], timeout_s: float) -> str:
    """The name of the one model that all servers have; StapoError as for ``find_model``."""
    return _one_name((await _cards(http, urls, None, timeout_s))[0])


async def find_model(http: Http, urls: Sequence[str], name: str | None, timeout_s: float) -> ServedModel:
    """Ask every server what it serves.

    Args:
        http: sends the questions.
        urls: the servers, with the version: ``http://host:8000/v1``.
        name: the served name; None: the one model that they have.
        timeout_s: for each server's answer.

    Raises:
        StapoError: a server does not answer or does not have the model, or they have different ones, or serve it
            differently.
    """
    cards, names = await _cards(http, urls, name, timeout_s)
    served = _one_name(cards)
    lengths = [card["max_model_len"] for card in cards if card.get("max_model_len") is not None]
    if wrong := [length for length in lengths if not is_count(length) or length < 1]:
        raise StapoError(f"{address(urls[0])}: expected a number of positions as max_model_len, got {wrong[0]!r}")
    facts = [await _facts(http, url, card) for url, card in zip(urls, cards, strict=True)]
    for url, told in zip(urls, facts, strict=True):
        for fact in sorted(facts[0].keys() | told.keys()):
            here, there = (repr(one[fact]) if fact in one else "nothing" for one in (facts[0], told))
            if here != there:
                raise StapoError(
                    f"the servers serve {served} differently: as {fact} {address(urls[0])} tells {here}, "
                    f"{address(url)} {there}; a run takes samples of one kind: leave one out, or start them alike"
                )
    said = facts[0].get("context_length")
    return ServedModel(name=served, context_length=None if said is None else int(said), names=names, facts=facts[0])


def _one_name(cards: Sequence[Mapping[str, Any]]) -> str:
    served = str(cards[0]["id"])
    if others := sorted({str(card["id"]) for card in cards} - {served}):
        raise StapoError(f"the servers serve different models, {served} and {others[0]}: name one with --model")
    return served


async def _cards(
    http: Http, urls: Sequence[str], model: str | None, timeout_s: float
) -> tuple[list[Mapping[str, Any]], frozenset[str]]:
    """What each server says of the model, and all its names. One line names all that do not answer."""
    found: list[Mapping[str, Any]] = []
    names: frozenset[str] = frozenset()
    dead: list[str] = []
    for url in urls:
        try:
            answer = await http.send(f"{url}/models", None, timeout_s)
            cards: dict[str, Mapping[str, Any]] = {str(card["id"]): {**card} for card in answer["data"]}
        except NoSuchPathError as error:
            if await _answers(http, f"{url}/v1/models"):
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


async def _facts(http: Http, url: str, card: Mapping[str, Any]) -> dict[str, str]:
    """What a server tells of how it serves a model, in its list of models and where its kind says more.

    Of paths their last part counts: machines keep the same weights in different places. StapoError as ``Http.told``.
    """
    told = {"context_length": card.get("max_model_len"), "root": card.get("root")}
    if isinstance(meta := card.get("meta"), dict):  # llama.cpp
        told |= {"parameters": meta.get("n_params"), "bytes": meta.get("size")}
    for path, read in _TELLS.items():
        answer = await http.told(url.removesuffix("/v1") + path, None, _PROBE_S)
        more = read(answer) if isinstance(answer, dict) else {}
        if path == "/version" and card.get("owned_by") != "vllm":  # many kinds tell one there
            told["version"] = answer.get("version") if more else None
        elif "server" in more:
            told = more | {name: value for name, value in told.items() if value is not None}
            break
    if not is_count(told.get("context_length")):
        told["context_length"] = None
    return {
        name: PurePath(str(value)).name if name == "root" else str(value)[:200]
        for name, value in told.items()
        if isinstance(value, str | int) and value != ""
    }


def _version(kind: str, answer: Mapping[str, Any], name: str = "version") -> dict[str, Any]:
    return {"server": f"{kind} {answer[name]}"} if isinstance(answer.get(name), str) else {}


def _sglang(answer: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"root": "model_path", "dtype": "dtype", "quantization": "quantization", "context_length": "context_length"}
    return _version("sglang", answer) | {name: answer.get(field) for name, field in kept.items()}


def _llama_cpp(answer: Mapping[str, Any]) -> dict[str, Any]:
    settings = answer.get("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    return _version("llama.cpp", answer, "build_info") | {"root": answer.get("model_path"), "context_length": context}


_TELLS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "/version": lambda answer: _version("vllm", answer),
    "/server_info": _sglang,
    "/props": _llama_cpp,
    "/api/version": lambda answer: _version("ollama", answer),
}
"""Where servers of a kind tell more: path -> what is read from the answer."""


async def check_completions(http: Http, url: str, model: str, chat: bool, settings: Mapping[str, Any]) -> str | None:
    """Refuse a server that has no ``/completions`` (``chat``: no ``/chat/completions``) before any sample is asked for.

    Returns:
        The page with which it refuses a request without a prompt; None: it answers.

    Raises:
        StapoError: nothing is there; the line says so where the server speaks the other protocol.
    """
    ways: dict[str, dict[str, Any]] = {"/completions": {}, "/chat/completions": {"messages": []}}
    wanted, other = reversed(ways) if chat else ways
    body = {"model": model, **settings}  # without a prompt: no sample
    try:
        await http.send(f"{url}{wanted}", {**body, **ways[wanted]}, _PROBE_S)
    except NoSuchPathError as error:
        if not await _answers(http, f"{url}{other}", {**body, **ways[other]}):
            raise error from None
        raise StapoError(f"{address(url)}: the server speaks /v1{other} only, {_OTHER_WAY[chat]}") from None
    except RefusedError as error:
        return error.page
    except PassingError:
        return ""
    return None


_OTHER_WAY = {
    False: "which puts a template of its own around prompts: --chat asks it that way; vllm serve, SGLang and "
    "llama.cpp's server take prompts as they are, by /v1/completions",
    True: "which takes prompts as they are: leave --chat out",
}


async def _answers(http: Http, url: str, body: Mapping[str, Any] | None = None) -> bool:
    """Whether a server has something at an address; a refusal of the request itself says that it has."""
    try:
        await http.send(url, body, _PROBE_S)
    except (NoSuchPathError, PassingError):
        return False
    except StapoError:
        return body is not None
    return True


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 0 up that 31 bits hold."""
    return type(value) is int and 0 <= value < 1 << 31
