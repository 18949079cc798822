"""A request in vLLM's words, and vLLM's answer in ours."""

from importlib import import_module
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, SamplingParams

OFF: dict[str, Any] = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_tokens": 0,
    "logit_bias": None,
    "bad_words": [],
}
"""Values of vLLM's parameters that switch off what is not used."""


def asked_of(params: SamplingParams, seed: int) -> dict[str, Any]:
    """vLLM's parameters that decide a token, by name."""
    return {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k or 0,
        "min_p": params.min_p or 0.0,
        "stop": list(params.stop),
        "seed": seed,
        **OFF,
    }


def vllm_params(params: SamplingParams, seed: int, budget: int) -> Any:
    """vLLM's parameters of a request with this seed and at most ``budget`` new tokens."""
    parameters = import_module("vllm.sampling_params")
    return parameters.SamplingParams(
        max_tokens=budget,
        output_kind=parameters.RequestOutputKind.FINAL_ONLY,
        logprobs=0,
        flat_logprobs=True,  # a list of numbers instead of two objects a token
        # vLLM would make the text at every token, and that of every log-prob's token; it finds stop texts in it.
        detokenize=bool(params.stop),
        **asked_of(params, seed),
    )


def completion_of(request: Request, output: Any, text: str) -> Completion:
    """The completion that vLLM's finished output is."""
    (completion,) = output.outputs
    if completion.finish_reason not in ("stop", "length"):
        return Completion(key=request.key, text="", finish_reason="error", num_tokens=0)
    ids = tuple(completion.token_ids)
    return Completion(
        key=request.key,
        text=text,
        finish_reason=completion.finish_reason,
        num_tokens=len(ids),
        token_ids=ids,
        log_probs=_log_probs(completion.logprobs, ids) if completion.logprobs is not None else None,
    )


def _log_probs(told: Any, ids: tuple[int, ...]) -> tuple[float, ...]:
    """Log-probs of the sampled tokens; ``told`` is vLLM's FlatLogprobs, which holds more where more is asked for."""
    if tuple(told.token_ids) != ids:
        raise StapoError(
            f"vLLM: expected the log-probs of {len(ids)} sampled tokens and no others, got {len(told.token_ids)}"
        )
    return tuple(told.logprobs)


def lora_rank(rank: int) -> int:
    """The least rank that vLLM makes room for and that holds an adapter's (``config/lora.py``, ``MaxLoRARanks``).

    >>> lora_rank(1), lora_rank(12), lora_rank(16)
    (1, 16, 16)
    """
    return next(most for most in (1, 8, 16, 32, 64, 128, 256, 320, 512) if most >= rank)
