"""What can be known of a training before torch is imported: refused in the first second, and nothing is written."""

from importlib.util import find_spec
from pathlib import Path

from stapo_bench.engines import declared_context, require_vllm
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import checkpoint_files, stated_chat_template
from stapo_bench.tasks import resolve_format
from stapo_train.config import TrainConfig
from stapo_train.data import read_jsonl

TRACKERS = ("tensorboard", "wandb")
"""Settings that each need the package of that name."""


def check_before_loading(config: TrainConfig) -> None:
    """Refuse what the config and the files that it names rule out.

    Raises:
        UsageError: a token limit beyond the model's positions.
        StapoError: no model, or one in a format that is not read, no data or a damaged line of it, a chat
            prompt without a template, an engine or a tracker whose package is not installed.
    """
    for package in TRACKERS:
        if getattr(config, package) and find_spec(package) is None:
            raise StapoError(f"{package}=true: the package is not installed; pip install {package}")
    model = Path(config.model)
    if model.is_file():
        raise StapoError(f"model: expected a Hugging Face folder (config.json and weights), got the file {model}")
    checkpoint_files(model)
    positions, limit = declared_context(model), config.rollout.max_new_tokens
    if positions is not None and limit >= positions:
        raise UsageError(
            f"rollout.max_new_tokens: expected fewer than the {positions} positions of {model}, as the prompt takes "
            f"some, got {limit}"
        )
    if config.data.prompt_format == "chat" and not stated_chat_template(model):
        resolve_format("chat", None)
    if config.rollout.engine == "vllm":
        require_vllm()
    if config.data.source == "jsonl":
        read_jsonl(config.data)  # each of its lines
