"""What can be known of a training before torch is imported: refused in the first second, and nothing is written."""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

from stapo_bench.engines import declared_context, require_vllm
from stapo_bench.errors import StapoError, UsageError, missing_package
from stapo_bench.runs import checkpoint_files, stated_chat_template
from stapo_bench.sampling import check_all
from stapo_bench.tasks import check_style, load_problems, load_task, resolve_format
from stapo_train.config import TrainConfig
from stapo_train.data import read_jsonl
from stapo_train.evaluation import eval_options
from stapo_train.stopping import launched

TRACKERS = ("tensorboard", "wandb")
"""Settings that each need the package of that name."""


def check_before_loading(config: TrainConfig, ranks: int = 1) -> None:
    """Refuse what the config and the files that it names rule out.

    Raises:
        UsageError: a token limit beyond the model's positions, ranks where they cannot be.
        StapoError: no model, or one in a format that is not read, no data or a damaged line of it, a chat
            prompt without a template, an engine or a tracker whose package is not installed.
    """
    _check_packages(config)
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
    template = stated_chat_template(model)
    check_style(config.data.style, resolve_format(config.data.prompt_format, SimpleNamespace(chat_template=template)))
    if config.rollout.engine == "vllm":
        require_vllm()
    if ranks > 1 or launched():
        check_several_ranks(config)
    if config.eval is not None:
        asked = eval_options(config, model, 0)
        check_all([asked])
        for task in map(load_task, asked.tasks if asked.data_dir else ()):
            load_problems(task, asked.data_dir)  # each of its lines
    if ranks > 1 and launched():
        raise UsageError("--ranks: expected none where torchrun has started the ranks; leave one of the two out")
    if config.data.source == "jsonl":
        read_jsonl(config.data)  # each of its lines


def _check_packages(config: TrainConfig) -> None:
    for package in TRACKERS:
        if getattr(config, package) and find_spec(package) is None:
            raise StapoError(f"{package}=true: the package is not installed; pip install {package}")
    for setting, asked, package in (("lora", config.lora, "peft"), ("optim.states", config.optim.states, "torchao")):
        if asked and find_spec(package) is None:
            raise StapoError(f"{setting}: {missing_package(package)}")


def check_several_ranks(config: TrainConfig) -> None:
    """Refuse what one rank alone can do; UsageError."""
    if config.optim.states:
        raise UsageError(
            "--ranks: expected no optim.states on several ranks, whose shards end within its blocks, got "
            f"{config.optim.states}; each rank keeps its share of the moments alone"
        )
