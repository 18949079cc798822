"""The two decoding regimes of arXiv:2602.15620 as presets."""

from stapo_bench.errors import UsageError
from stapo_bench.records import SamplingParams

MAX_NEW_TOKENS = 20_480
"""New tokens per completion unless told otherwise (arXiv:2602.15620v4, evaluation setup)."""

PRESETS = {
    # "training-aligned": what the policy is trained under, rho_T = 1.0
    "training": SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=MAX_NEW_TOKENS),
    # the setting of JustRL's own evaluation, rho_T = 0.7
    "justrl": SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=MAX_NEW_TOKENS),
}


def preset(name: str) -> SamplingParams:
    """Sampling parameters of a regime.

    >>> preset("justrl").temperature
    0.7
    """
    if name not in PRESETS:
        raise UsageError(f"unknown decoding preset '{name}': expected one of {', '.join(PRESETS)}")
    return PRESETS[name]


def sampling_in_words(temperature: float | None, top_p: float | None) -> str:
    """Temperature and top-p in words; with all digits, as they distinguish the rows of a table. None: not known.

    >>> sampling_in_words(1, 0.95), sampling_in_words(0.6, None), sampling_in_words(None, None)
    ('T=1.0, top-p 0.95', 'T=0.6, top-p unknown', 'decoding unknown')
    """
    if temperature is None and top_p is None:
        return "decoding unknown"
    t, p = ("unknown" if value is None else str(float(value)) for value in (temperature, top_p))
    return f"T={t}, top-p {p}"
