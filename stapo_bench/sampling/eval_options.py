"""What an evaluation was asked for, and which run folder belongs to which checkpoint."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stapo_bench.engines import EngineOptions, check_params, preset, with_off
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import SamplingParams
from stapo_bench.runs import (
    Checkpoint,
    base_of,
    expand,
    folder_label,
    is_adapter,
    read_adapted,
    read_checkpoint,
    served_checkpoint,
    stated_chat_template,
)


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What ``stapo-bench eval`` was asked for, for one checkpoint."""

    checkpoint: Path | None  # the base where ``engine`` has an adapter; None: a model that a server has, named there
    decoding: str  # a preset's name, or what its changed settings are called
    tasks: tuple[str, ...]
    out: Path  # the run folder
    samples: int | None = None  # per problem; None: the task's own
    limit: int | None = None  # first problems of each task; None: all
    sampling: SamplingParams | None = None  # None: the preset's
    max_new_tokens: int | None = None  # None: that of ``sampling``
    engine: EngineOptions = field(default_factory=EngineOptions)
    data_dir: Path | None = None
    shard: tuple[int, int] = (0, 1)  # this command samples part i of n
    seed: int = 0
    prompt_format: str | None = None  # None: the task's own
    style: Mapping[str, Any] = field(default_factory=dict)  # fields of ``PromptStyle`` in place of the tasks' own
    allow_different: bool = False

    @property
    def folder(self) -> Path:
        """The checkpoint, for engines that open one; a server's model is none of theirs."""
        return self.checkpoint or Path()


def checkpoint_of(options: EvalOptions) -> Checkpoint:
    """The checkpoint that is evaluated, read and digested; of a served model its name."""
    if options.checkpoint is not None and options.engine.adapter is not None:
        return read_adapted(options.checkpoint, options.engine.adapter)
    if options.checkpoint is not None:
        return read_checkpoint(options.checkpoint)
    assert options.engine.model is not None  # ``with_served_model`` asks for it
    return served_checkpoint(options.engine.model)


def for_checkpoint(options: EvalOptions, base: Path | None) -> EvalOptions:
    """The options, whose checkpoint may be an adapter, with the adapter in its place beside its base.

    Raises:
        UsageError: a base of what is no adapter.
        StapoError: as ``base_of``, or prompts would not be those that the adapter was trained with.
    """
    adapter = options.checkpoint
    if adapter is None or not is_adapter(adapter):
        if base is not None:
            raise UsageError(f"--base: expected an adapter (adapter_config.json) as --ckpt, got {adapter}")
        return options
    folder = base_of(adapter, base)
    if (template := stated_chat_template(adapter)) is not None and template != stated_chat_template(folder):
        raise StapoError(
            f"{adapter}: expected the chat template of its base {folder}, which writes the prompts, got another one: "
            "merge the adapter into its base (peft: merge_and_unload) and save both with its tokenizer"
        )
    return replace(options, checkpoint=folder, engine=replace(options.engine, adapter=adapter))


def sampling_params(options: EvalOptions) -> SamplingParams:
    """The sampling asked for, with the number of new tokens asked for."""
    params = options.sampling or preset(options.decoding)
    return params if options.max_new_tokens is None else replace(params, max_new_tokens=options.max_new_tokens)


def changed_decoding(decoding: str, changes: Mapping[str, Any]) -> tuple[str, SamplingParams]:
    """A preset with settings of its own, and the name of both, for rows and folders.

    Args:
        decoding: a preset's name, or a YAML file with one.
        changes: by field of ``SamplingParams``; None and () leave the preset's, a top-k or min-p of 0 switches it off.

    >>> changed_decoding("justrl", {"temperature": 0.6, "top_k": 20, "min_p": None})[0]
    'justrl-temperature0.6-top_k20'
    """
    given = {name: value for name, value in changes.items() if value not in (None, ())}
    params = with_off(replace(preset(decoding), **given))
    check_params(params)
    given |= {field: 0 for field in ("top_k", "min_p") if field in given and getattr(params, field) is None}
    name = Path(decoding).stem if decoding.endswith((".yaml", ".yml")) else decoding
    named = [f"{field}{value}" for field, value in given.items() if field not in ("stop", "max_new_tokens")]
    return "-".join([name, *named, *["stop"] * ("stop" in given)]), params


def samples_asked(options: EvalOptions, of_task: int) -> int:
    """Samples per problem: those asked for, else the task's own; one of greedy decoding, where all would be equal.

    Raises:
        UsageError: more than one greedy sample.
    """
    if not sampling_params(options).is_greedy:
        return options.samples or of_task
    if (options.samples or 1) > 1:
        raise UsageError(f"--samples: expected 1 with greedy decoding, where all are equal, got {options.samples}")
    return 1


def run_folders(
    ckpt: Path | None, out: Path | None, decoding: str, engine: EngineOptions
) -> Mapping[Path | None, Path]:
    """The run folder of each checkpoint to be evaluated, by the checkpoint's folder.

    Args:
        ckpt: a checkpoint, or a pattern that many match; None: the model that a server has.
        out: the run folder, where there are many the folder of their run folders; None: under ``results/``.
        decoding: the preset, which stands in a run folder's name.
        engine: the one asked for, for all of them.
    """
    if ckpt is None:
        if engine.name != "openai" or engine.model is None:
            raise UsageError(
                "expected --ckpt, or a server's model: --engine openai --base-url http://host:8000/v1 --chat"
            )
        label = re.sub(r"[^\w.-]+", "-", engine.model)
        return {None: out or Path("results") / f"{label}-{decoding}"}
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
