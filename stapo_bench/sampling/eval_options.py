"""What an evaluation was asked for, and which run folder belongs to which checkpoint."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from stapo_bench.engines import EngineOptions, preset
from stapo_bench.errors import UsageError
from stapo_bench.records import SamplingParams
from stapo_bench.runs import expand, folder_label


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What ``stapo-bench eval`` was asked for, for one checkpoint."""

    checkpoint: Path
    decoding: str  # a preset's name
    tasks: tuple[str, ...]
    out: Path  # the run folder
    samples: int | None = None  # per problem; None: the task's own
    limit: int | None = None  # first problems of each task; None: all
    max_new_tokens: int | None = None  # None: the preset's
    engine: EngineOptions = field(default_factory=EngineOptions)
    data_dir: Path | None = None
    shard: tuple[int, int] = (0, 1)  # this command samples part i of n
    seed: int = 0
    prompt_format: str | None = None  # None: the task's own
    allow_different: bool = False


def sampling_params(options: EvalOptions) -> SamplingParams:
    """The preset with the number of new tokens asked for."""
    params = preset(options.decoding)
    return params if options.max_new_tokens is None else replace(params, max_new_tokens=options.max_new_tokens)


def run_folders(ckpt: Path, out: Path | None, decoding: str, engine: EngineOptions) -> dict[Path, Path]:
    """The run folder of each checkpoint to be evaluated, by the checkpoint's folder.

    Args:
        ckpt: a checkpoint, or a pattern that many match.
        out: the run folder, where there are many the folder of their run folders; None: under ``results/``.
        decoding: the preset, which stands in a run folder's name.
        engine: the one asked for, for all of them.
    """
    checkpoints = expand(ckpt)
    if len(checkpoints) > 1 and engine.base_urls:
        raise UsageError(
            f"--engine {engine.name}: expected one checkpoint, what the server serves, got {len(checkpoints)}"
        )
    by_label: dict[str, Path] = {}
    for checkpoint in checkpoints:
        label = folder_label(checkpoint)
        if label in by_label:
            raise UsageError(
                f"--ckpt: {by_label[label]} and {checkpoint} would share the name {label}; "
                "evaluate them apart, each with an --out of its own"
            )
        by_label[label] = checkpoint
    if out is not None and len(checkpoints) == 1:
        return {checkpoints[0]: out}
    folder = out or Path("results")
    return {checkpoint: folder / f"{label}-{decoding}" for label, checkpoint in by_label.items()}
