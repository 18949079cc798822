"""Evaluate a checkpoint: one path from task files to the table, which may be stopped and started again anywhere.

tasks -> problems -> prompts -> manifest -> missing samples -> engine -> store -> grades -> scores -> table

The engine is opened when a sample is found missing, not before: other settings are refused, and a finished run is
found finished, without loading a model.

evaluate(EvalOptions(checkpoint=Path("Qwen3-1.7B"), decoding="justrl", tasks=("aime24",), out=Path("run")))
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from stapo_bench.engines import Engine, check_options, declared_context
from stapo_bench.engines.foreign_checkpoint import load_tokenizer as load_foreign_tokenizer
from stapo_bench.errors import UsageError, tell
from stapo_bench.runs import (
    Checkpoint,
    Manifest,
    find_run,
    load_manifest,
    make_folder,
    nothing_left_behind,
    open_run,
    read_checkpoint,
    segment_sizes,
    states_chat_template,
)
from stapo_bench.sampling.copy_watch import CopyWatch
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_options import EvalOptions, sampling_params
from stapo_bench.sampling.eval_tasks import EvalTask, most_positions, sample_keys
from stapo_bench.sampling.generate import SamplingResult, generate_missing, shard_label, shard_state, sole_writer
from stapo_bench.sampling.identity import run_about, run_identity
from stapo_bench.sampling.stop_rules import StopRule, is_settled
from stapo_bench.tasks import Task, load_problems, load_task, render_prompts, resolve_format

_ROUNDS_PER_CHECK = 4  # of a stop rule


def evaluate(
    options: EvalOptions,
    *,
    engine: Engine | None = None,
    engines: EngineCache | None = None,
    rule: StopRule | None = None,
    watch: TextIO | None = None,
) -> SamplingResult:
    """Sample what is missing of a run. Grades and scores are made from its folder: ``grade_run``, ``score_run``.

    Args:
        options: what to sample, and where to.
        engine: an open one to be used and left open; None: opened and closed here.
        engines: opens the engine instead, and may keep it for the next checkpoint.
        rule: asked every few rounds; where it is met, the run ends with what it has.
        watch: where progress goes; None: standard error.
    """
    watch = watch or sys.stderr
    tasks = [load_task(name) for name in options.tasks]
    checkpoint = read_checkpoint(options.checkpoint)
    if engine is None and not (options.out / "manifest.json").exists():  # a run that is there says what differs
        check_options(options.engine, options.checkpoint)
    eval_tasks = prepare_tasks(tasks, options, checkpoint)
    with nullcontext(engines) if engines else EngineCache(engine) as cache, nothing_left_behind(options.out):
        cache.identity(options)  # what no engine can do is refused before a folder is made,
        make_folder(options.out)  # and a folder that cannot be made before an engine is opened
        copies = CopyWatch((key for key, _ in sample_keys(eval_tasks, options.shard)), sampling_params(options))
        for stage in [eval_tasks] if rule is None else stages(eval_tasks):
            result = complete_run(checkpoint, stage, options, cache, watch, copies=copies)
            if rule is not None and is_settled(rule, result.run_dir, options.data_dir, watch):
                break
        if more := beyond_asked(load_manifest(result.run_dir), eval_tasks):
            tell(watch, f"{result.run_dir} holds more than was asked for now: {more}; its scores rest on all of it")
        return result


def beyond_asked(run: Manifest, eval_tasks: Sequence[EvalTask]) -> str:
    """What a run has been asked for before beyond these tasks, in words; "" where that is nothing.

    A smaller command takes nothing away from a run, so that its table is of more than the command says.
    """
    asked = {one.task.name: (one.num_problems, one.num_samples) for one in eval_tasks}
    parts = []
    for name, task in run.about.tasks.items():
        problems, samples = asked.get(name, (0, 0))
        if task.num_problems > problems or task.num_samples > samples:  # after a stop rule it may be less
            now = f" (now asked {problems} × {samples})" if name in asked else ""
            parts.append(f"{name} {task.num_problems} problems × {task.num_samples} samples{now}")
    return ", ".join(parts)


def complete_run(
    checkpoint: Checkpoint,
    eval_tasks: Sequence[EvalTask],
    options: EvalOptions,
    engines: EngineCache,
    watch: TextIO,
    *,
    copies: CopyWatch,
) -> SamplingResult:
    """Sample what is missing of a run, if anything is."""
    params, about = sampling_params(options), run_about(options.decoding, checkpoint, eval_tasks)
    known = run_identity(checkpoint, eval_tasks, params, options.seed, engines.identity(options))
    run = find_run(options.out, known, allow_different=options.allow_different)
    state = None if run is None else shard_state(run, eval_tasks, options.shard, watch, copies)
    if state and not state.num_missing:
        tell(watch, f"run folder: {state.run.run_dir}; nothing is missing")
        return SamplingResult(run_dir=state.run.run_dir, num_sampled=0, num_missing=0, num_repeated=state.num_repeated)
    label = shard_label(options.shard)
    with ExitStack() as lock:
        if not options.allow_different:  # the folder is known: a second writer is refused without opening an engine
            lock.enter_context(sole_writer(options.out, label, watch))
        warn_of_short_context(checkpoint, eval_tasks, params.max_new_tokens, watch)
        engine = engines.engine(options, eval_tasks)
        identity = run_identity(checkpoint, eval_tasks, params, options.seed, engine.identity())
        run = open_run(options.out, identity, about, allow_different=options.allow_different)
        if options.allow_different:
            lock.enter_context(sole_writer(run.run_dir, label, watch))
        tell(watch, f"run folder: {run.run_dir}")
        # Another writer of this shard, gone by now, may have stored more since it was read.
        if state is None or state.run.run_dir != run.run_dir or state.sizes != segment_sizes(run.run_dir):
            state = shard_state(run, eval_tasks, options.shard, watch, copies)
        state = replace(state, run=run)  # the manifest has this command's tasks by now
        return generate_missing(state, eval_tasks, engine, params, watch)


def warn_of_short_context(
    checkpoint: Checkpoint, eval_tasks: Sequence[EvalTask], max_new_tokens: int, watch: TextIO
) -> None:
    """Say before a model is loaded that its context, not the limit, will end completions."""
    context, asked = declared_context(checkpoint.path), most_positions(eval_tasks, max_new_tokens)
    if context is not None and asked is not None and asked > context:
        longest = asked - max_new_tokens
        tell(
            watch,
            f"{checkpoint.path}: its context of {context:,} tokens is less than the longest prompt ({longest:,}) and "
            f"{max_new_tokens:,} new tokens: a completion of that one is cut off after {max(context - longest, 0):,}",
        )


def stages(eval_tasks: Sequence[EvalTask]) -> Iterator[list[EvalTask]]:
    """The same tasks with more and more samples per problem, up to all: a stop rule is asked after each stage."""
    most = max(one.num_samples for one in eval_tasks)
    for rounds in [*range(_ROUNDS_PER_CHECK, most, _ROUNDS_PER_CHECK), most]:
        yield [replace(one, num_samples=min(one.num_samples, rounds)) for one in eval_tasks]


def prepare_tasks(tasks: Sequence[Task], options: EvalOptions, checkpoint: Checkpoint) -> list[EvalTask]:
    """Load and check every task's data, and render every prompt, before anything is sampled."""
    check_checkpoint(tasks, options)
    loaded = [(task, load_problems(task, options.data_dir)) for task in tasks]
    tokenizer = load_tokenizer(checkpoint)
    return [
        EvalTask(
            task=task,
            problems=problems,
            prompts=render_prompts(task, problems, tokenizer, options.prompt_format),
            prompt_format=resolve_format(options.prompt_format or task.prompt_format, tokenizer),
            num_problems=min(options.limit or len(problems), len(problems)),
            num_samples=options.samples or task.num_samples,
        )
        for task, problems in loaded
    ]


def check_checkpoint(tasks: Sequence[Task], options: EvalOptions) -> None:
    """Refuse what a checkpoint's own files rule out, before its tokenizer or model is loaded, and torch with them.

    Raises:
        StapoError: a chat prompt without a chat template.
        UsageError: an unknown prompt format, or a token limit beyond the model's positions.
    """
    folder = options.checkpoint
    for requested in dict.fromkeys(options.prompt_format or task.prompt_format for task in tasks):
        resolve_format(requested, None if requested != "chat" else _Stated(folder))
    limit, positions = options.max_new_tokens, declared_context(folder)
    if limit is not None and positions is not None and limit >= positions and not options.engine.base_urls:
        raise UsageError(
            f"--max-new-tokens: expected fewer than the {positions} positions of {folder}, as the prompt takes some, "
            f"got {limit}"
        )


class _Stated:
    """In place of a tokenizer that is not loaded: whether it will have a chat template."""

    def __init__(self, checkpoint: Path) -> None:
        self.chat_template = states_chat_template(checkpoint)


def load_tokenizer(checkpoint: Checkpoint) -> Any | None:
    """The checkpoint's tokenizer; None for a scripted engine's file, which has none."""
    if checkpoint.path.is_file():
        return None
    return load_foreign_tokenizer(checkpoint.path)
