"""What an evaluation was asked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What ``stapo-bench eval`` was asked for."""

    checkpoint: Path
    decoding: str  # a preset's name
    tasks: tuple[str, ...]
    out: Path  # the run folder
    samples: int | None = None  # per problem; None: the task's own
    limit: int | None = None  # first problems of each task; None: all
    max_new_tokens: int | None = None  # None: the preset's
    engine: str = "auto"
    base_urls: tuple[str, ...] = ()  # servers of the openai engine
    model: str | None = None  # its served name; None: the one model that is served
    slots: int | None = None  # sequences at once; None: the engine's own choice
    tensor_parallel: int | None = None  # GPUs that share the model, for vllm
    data_dir: Path | None = None
    shard: tuple[int, int] = (0, 1)  # this command draws part i of n
    seed: int = 0
    prompt_format: str | None = None  # None: the task's own
    allow_different: bool = False
