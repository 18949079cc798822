"""The one exception that reaches a user: a sentence on what was expected, what was found, where, and what to do."""

from collections.abc import Iterable, Mapping


class StapoError(Exception):
    """A failure the user can act on. Commands print it as one line and exit with ``exit_code``."""

    exit_code = 1


class UsageError(StapoError):
    """The command cannot be understood as given (unknown task, preset, key): exit code 2."""

    exit_code = 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known one, or "" where none is near.

    >>> did_you_mean("objectiv", ["objective", "optim"]), did_you_mean("zzz", ["objective"])
    ("did you mean 'objective'?", '')
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else ""


EXTRAS: Mapping[str, str] = {
    "datasets": "eval",
    "huggingface_hub": "eval",
    "pandas": "eval",
    "pyarrow": "parquet",
    "safetensors": "eval",
    "tokenizers": "eval",
    "torch": "eval",
    "transformers": "eval",
    "matplotlib": "plots",
    "peft": "low-memory",
    "torchao": "low-memory",
    "sympy": "graders",
    "latex2sympy2_extended": "graders",
    "math_verify": "graders",
    "vllm": "vllm",
    "inspect_ai": "inspect",
    "lm_eval": "lm-eval",
    "trl": "trl",
    "verl": "verl",
    "hydra": "verl",
    "omegaconf": "verl",
    "mlflow": "trackers",
    "tensorboard": "trackers",
    "wandb": "trackers",
    "tensordict": "verl",
    "ray": "ray",
}
"""The extra of ``pyproject.toml`` that installs each optional package; all others come with every installation."""


def missing_package(name: str, models: str = "eval") -> str | None:
    """One line on what to install where a module cannot be imported; None: it belongs to no extra.

    ``models`` is the caller's extra for torch and the packages that come with it.

    >>> missing_package("matplotlib.figure")
    "matplotlib is not installed: pip install 'stapo-bench[plots]'"
    """
    package = name.split(".", maxsplit=1)[0]
    if package not in EXTRAS:
        return None
    extra = models if EXTRAS[package] == "eval" else EXTRAS[package]
    return f"{package} is not installed: pip install 'stapo-bench[{extra}]'"
