"""What strict servers answer to a setting that they do not take: status and page, in the shapes that users reported.

Each takes a request's body and gives None where it has nothing to say against it. The names of what it refuses are its
own; the shape of its page is that of the report beside it.
"""

import json
from collections.abc import Callable
from typing import Any

Refusal = tuple[int, Any]
Refuses = Callable[[dict], Refusal | None]

PROTOCOL = {
    "model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "seed", "stop",
    "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs",
}  # fmt: skip


def beyond(body: dict, *also: str) -> list[str]:
    """Fields that the protocol does not have, and these."""
    return sorted(name for name in body if name not in PROTOCOL or name in also)


def error(message: str, param: str | None = None, code: str | None = None) -> dict:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def openai(body: dict) -> Refusal | None:
    """xlinx/sd-webui-decadetw-auto-prompt-llm 29, nashsu/llm_wiki 336: all of them in words, no ``param``."""
    unknown = beyond(body)
    many = "s" * (len(unknown) > 1)
    return (400, error(f"Unrecognized request argument{many} supplied: {', '.join(unknown)}")) if unknown else None


def openai_reasoning(body: dict) -> Refusal | None:
    """microsoft/clarity-agent 59, griptape-ai/ComfyUI-Griptape 312: one at a time, by ``param``."""
    if "max_tokens" in body:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return 400, error(said, "max_tokens", "unsupported_parameter")
    for name in beyond(body):
        return 400, error(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if body.get("temperature", 1) != 1:
        said = (
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
            "Only the default (1) value is supported."
        )
        return 400, error(said, "temperature", "unsupported_value")
    return None


def copilot(body: dict) -> Refusal | None:
    """caozhiyuan/copilot-api 164: the same sentence without ``param``."""
    refused = openai_reasoning(body)
    return refused and (400, {"error": {"message": refused[1]["error"]["message"], "code": "invalid_request_body"}})


def mistral(body: dict) -> Refusal | None:
    """editor-code-assistant/eca 231, Gage-Technologies/mistral-go 2: pydantic's list; the seed is ``random_seed``."""
    detail = [
        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": body[name]}
        for name in beyond(body, "seed", "max_completion_tokens")
        if name != "random_seed"
    ]
    page = {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": None}
    return (422, page | {"code": None}) if detail else None


def mistral_as_text(body: dict) -> Refusal | None:
    """mistralai/platform-docs-public 7: the list as JSON within the message."""
    refused = mistral(body)
    return refused and (422, refused[1] | {"message": json.dumps(refused[1]["message"]), "code": "1000"})


def litellm(body: dict) -> Refusal | None:
    """OpenHands/OpenHands-CLI 83, BerriAI/litellm 13825: a gateway that hands on what it was told, amid words."""
    refused = mistral(body)
    said = f"litellm.BadRequestError: MistralException - {json.dumps(refused[1])}. " if refused else ""
    page = error(f"{said}Received Model Group=m\nAvailable Model Group Fallbacks=None", code="400")
    return refused and (400, page)


def old_vllm(body: dict) -> Refusal | None:
    """1Panel-dev/MaxKB 2912: pydantic's list as Python writes it."""
    detail = [
        {"type": "extra_forbidden", "loc": ("body", name), "msg": "Extra inputs are not permitted", "input": body[name]}
        for name in beyond(body)
    ]
    page = {"object": "error", "message": str(detail), "type": "BadRequestError", "param": None, "code": 400}
    return (400, page) if detail else None


def deepseek_reasoner(body: dict) -> Refusal | None:
    """lollipopkit/flutter_gpt_box 213, deepseek-ai/DeepSeek-R1 7: settings of the protocol, one at a time."""
    for name in sorted({"temperature", "top_p", "presence_penalty", "frequency_penalty"} & body.keys()):
        said = f"deepseek-reasoner does not support the parameter `{name}`"
        return 400, error(said, code="invalid_request_error")
    return None


def groq(body: dict) -> Refusal | None:
    """fanenr/chatbot 21, CherryHQ/cherry-studio 1099: one at a time, and a guess at what was meant."""
    for name in beyond(body):
        said = f"property '{name}' is unsupported, did you mean 'temperature'?"
        return 400, {"error": {"message": said, "type": "invalid_request_error"}}
    return None


def gemini(body: dict) -> Refusal | None:
    """Vali-98/ChatterUI 227: a list around it, a line for each; neither seed nor penalties then."""
    lines = [
        f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
        for name in beyond(body, "seed", "frequency_penalty")
    ]
    violations = [{"description": line} for line in lines]
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]
    page = {"code": 400, "message": "\n".join(lines), "status": "INVALID_ARGUMENT", "details": details}
    return (400, [{"error": page}]) if lines else None


def fireworks(body: dict) -> Refusal | None:
    """web-infra-dev/midscene 1322, FlowiseAI/Flowise 2866."""
    for name in beyond(body):
        return 400, error(f"Extra inputs are not permitted, field: '{name}', value: {body[name]}")
    return None


def anthropic(body: dict) -> Refusal | None:
    """amrit110/oli 7, Aider-AI/aider 4404."""
    for name in beyond(body):
        said = {"type": "invalid_request_error", "message": f"{name}: Extra inputs are not permitted"}
        return 400, {"type": "error", "error": said}
    return None


def xai(body: dict) -> Refusal | None:
    """lobehub/lobehub 8389: the name as its own code has it."""
    if "presence_penalty" in body:
        said = "Argument not supported on this model: presencePenalty"
        return 400, {"code": "Client specified an invalid argument", "error": said}
    return None


def hugging_face(body: dict) -> Refusal | None:
    """argilla-io/synthetic-data-generator 48: a value that switches a setting off is none that it takes."""
    if body.get("top_p") == 1:
        said = "Input validation error: `top_p` must be > 0.0 and < 1.0"
        return 422, {"error": said, "error_type": "validation"}
    return None


_EXTRA = frozenset({"top_k", "min_p", "repetition_penalty", "return_token_ids"})
LEFT_OUT: dict[Refuses, frozenset[str]] = {
    openai: _EXTRA,
    openai_reasoning: _EXTRA,
    copilot: _EXTRA,
    mistral: _EXTRA,
    mistral_as_text: _EXTRA,
    litellm: _EXTRA,
    old_vllm: _EXTRA,
    deepseek_reasoner: frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"}),
    groq: _EXTRA,
    gemini: _EXTRA | {"seed", "frequency_penalty"},
    fireworks: _EXTRA,
    anthropic: _EXTRA,
    xai: frozenset({"presence_penalty"}),
    hugging_face: frozenset({"top_p"}),
}
"""What a run whose settings are all off has to leave out for each."""
