"""Decoding: presets by name (``tasks/decoding.yaml``), files of one's own, and sampling parameters in words."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from stapo_bench.errors import UsageError, did_you_mean
from stapo_bench.records import SamplingParams, StatedSampling

MAX_NEW_TOKENS = 20_480
"""New tokens per completion unless told otherwise (arXiv:2602.15620v4, evaluation setup)."""

REGIMES = ("training", "justrl")
"""The presets that arXiv:2602.15620 evaluates under: T = 1.0, top-p 1.0; and T = 0.7, top-p 0.9."""

_KINDS = {
    "temperature": (int, float), "top_p": (int, float), "top_k": (int,), "min_p": (int, float), "stop": (list,),
    "max_new_tokens": (int,),
}  # fmt: skip


def preset(name: str) -> SamplingParams:
    """Sampling parameters by a preset's name, or of a YAML file that holds one preset.

    >>> preset("justrl").temperature, preset("greedy").is_greedy, preset("qwen3-thinking").top_k
    (0.7, True, 20)
    """
    from stapo_bench.tasks import read_foreign_yaml

    if name.endswith((".yaml", ".yml")):
        return _params(name, read_foreign_yaml(Path(name)))
    known = _presets()
    if name not in known:
        hint = did_you_mean(name, known)
        raise UsageError(
            f"unknown decoding preset '{name}': expected one of {', '.join(known)}, or a YAML file"
            + (f"; {hint}" if hint else "")
        )
    return _params(name, known[name])


def preset_names() -> list[str]:
    """All presets, the paper's first."""
    return list(_presets())


@cache
def _presets() -> Mapping[str, Any]:
    from stapo_bench.tasks import read_foreign_yaml, resource_dir

    found: Mapping[str, Any] = read_foreign_yaml(resource_dir("tasks") / "decoding.yaml")
    return found


def _params(name: str, raw: Any) -> SamplingParams:
    """A preset's mapping as checked parameters."""
    if not isinstance(raw, dict) or "temperature" not in raw or not set(raw) <= set(_KINDS):
        said = ", ".join(map(str, raw)) if isinstance(raw, dict) else type(raw).__name__
        raise UsageError(
            f"decoding {name}: expected temperature and others of {', '.join(_KINDS)}, got {said or 'nothing'}"
        )
    for key, value in raw.items():
        is_kind = isinstance(value, _KINDS[key]) and not isinstance(value, bool)
        if not is_kind or (key == "stop" and not all(isinstance(text, str) for text in value)):
            kind = {"stop": "a list of texts", "top_k": "a whole number", "max_new_tokens": "a whole number"}
            raise UsageError(f"decoding {name}: {key}: expected {kind.get(key, 'a number')}, got {str(value)[:60]!r}")
    given: dict[str, Any] = {key: float(value) if float in _KINDS[key] else value for key, value in raw.items()}
    if "stop" in raw:
        given["stop"] = tuple(raw["stop"])
    return with_off(SamplingParams(**{"top_p": 1.0, "max_new_tokens": MAX_NEW_TOKENS, **given}))


def with_off(params: SamplingParams) -> SamplingParams:
    """The same, where a top-k of 0 (or vLLM's -1) and a min-p of 0 are off, as vLLM and transformers have them.

    >>> with_off(SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=8, top_k=-1, min_p=0.0)).top_k is None
    True
    """
    return replace(
        params,
        top_k=None if params.top_k in (0, -1) else params.top_k,
        min_p=None if params.min_p == 0 else params.min_p,
    )


def sampling_in_words(sampling: StatedSampling) -> str:
    """Temperature, top-p and what else is on, with all digits, as they distinguish the rows of a table.

    >>> sampling_in_words(StatedSampling(temperature=1, top_p=0.95)), sampling_in_words(StatedSampling(temperature=0.6))
    ('T=1.0, top-p 0.95', 'T=0.6, top-p unknown')
    >>> sampling_in_words(StatedSampling()), sampling_in_words(preset("greedy"))
    ('decoding unknown', 'greedy')
    >>> sampling_in_words(StatedSampling(temperature=0.6, top_p=0.95, top_k=20, stop=("Q:",)))
    "T=0.6, top-p 0.95, top-k 20, stop at 'Q:'"
    """
    if sampling.temperature is None and sampling.top_p is None:
        return "decoding unknown"
    t, p = ("unknown" if value is None else str(float(value)) for value in (sampling.temperature, sampling.top_p))
    words = ["greedy"] if sampling.temperature == 0 and sampling.top_p in (None, 1) else [f"T={t}", f"top-p {p}"]
    words += [f"top-k {sampling.top_k}"] * (sampling.top_k is not None)
    words += [f"min-p {sampling.min_p}"] * (sampling.min_p is not None)
    words += [f"thinking up to {sampling.thinking_budget}"] * (sampling.thinking_budget is not None)
    words += [f"stop at {' or '.join(map(repr, sampling.stop))}"] * bool(sampling.stop)
    return ", ".join(words)


def same_distribution(a: StatedSampling, b: StatedSampling) -> bool:
    """Whether two samplings differ in nothing but their limits on new tokens."""
    return all(getattr(a, f.name) == getattr(b, f.name) for f in fields(StatedSampling) if f.name != "max_new_tokens")
