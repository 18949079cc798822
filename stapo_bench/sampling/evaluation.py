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
from typing import Any, TextIO

from stapo_bench.engines import Engine, ToolUse, declared_context
from stapo_bench.engines.foreign_checkpoint import load_tokenizer as load_foreign_tokenizer
from stapo_bench.errors import tell
from stapo_bench.runs import (
    SERVED,
    Checkpoint,
    Manifest,
    find_run,
    is_archive,
    load_manifest,
    make_folder,
    nothing_left_behind,
    num_lines,
    open_run,
    segment_sizes,
)
from stapo_bench.sampling.copy_watch import CopyWatch
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_options import EvalOptions, checkpoint_of, samples_asked, sampling_params
from stapo_bench.sampling.eval_tasks import EvalTask, sample_keys
from stapo_bench.sampling.generate import SamplingResult, generate_missing, shard_label, shard_state, sole_writer
from stapo_bench.sampling.identity import run_about, run_identity
from stapo_bench.sampling.preflight import asked_format, asked_style, check_before_loading, check_context
from stapo_bench.sampling.stop_rules import StopRule, is_settled
from stapo_bench.tasks import Task, get_tool, load_problems, load_task, render_prompts, resolve_format

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
    if engine is None:
        check_before_loading(tasks, options)
    beginnings = nothing_left_behind(options.out, "manifest.json")  # where it fails before the first sample
    with nullcontext(engines) if engines else EngineCache(engine) as cache, beginnings:
        will_draw = surely_missing(tasks, options, rule)
        if will_draw or not is_archive(options.out):
            make_folder(options.out)
        if will_draw:
            cache.open_early(options)
        checkpoint = checkpoint_of(options)
        eval_tasks = prepare_tasks(tasks, options, checkpoint)
        cache.identity(options)
        copies = CopyWatch((key for key, _ in sample_keys(eval_tasks, options.shard)), sampling_params(options))
        for stage in [eval_tasks] if rule is None else stages(eval_tasks):
            result = complete_run(checkpoint, stage, options, cache, watch, copies=copies)
            if rule is not None and is_settled(rule, result.run_dir, options.data_dir, watch):
                break
        if more := beyond_asked(load_manifest(result.run_dir), eval_tasks):
            tell(watch, f"{result.run_dir} holds more than was asked for now: {more}; its scores rest on all of it")
        return result


def surely_missing(tasks: Sequence[Task], options: EvalOptions, rule: StopRule | None) -> bool:
    """Whether an engine will be needed: fewer lines are stored than samples are asked for, and no rule may be met."""
    asked = sum(
        min(options.limit or task.num_problems, task.num_problems) * samples_asked(options, task.num_samples)
        for task in tasks
    )
    stored = num_lines(options.out)
    return stored < asked // options.shard[1] and (rule is None or not stored)


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
    make_folder(options.out)  # where it is an archive, which is not known to lack samples until now
    label = shard_label(options.shard)
    with ExitStack() as lock:
        if not options.allow_different:  # the folder is known: a second writer is refused without opening an engine
            lock.enter_context(sole_writer(options.out, label, watch))
        if options.engine.base_urls:  # opening it asks, and loads nothing
            context, whose = getattr(engines.engine(options, eval_tasks), "context_length", None), "the served model"
        else:
            context, whose = declared_context(checkpoint.path), str(checkpoint.path)
        check_context(eval_tasks, context, params.max_new_tokens, whose, watch)
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


def stages(eval_tasks: Sequence[EvalTask]) -> Iterator[list[EvalTask]]:
    """The same tasks with more and more samples per problem, up to all: a stop rule is asked after each stage."""
    most = max(one.num_samples for one in eval_tasks)
    for rounds in [*range(_ROUNDS_PER_CHECK, most, _ROUNDS_PER_CHECK), most]:
        yield [replace(one, num_samples=min(one.num_samples, rounds)) for one in eval_tasks]


def prepare_tasks(tasks: Sequence[Task], options: EvalOptions, checkpoint: Checkpoint) -> list[EvalTask]:
    """Load and check every task's data, and render every prompt, before anything is sampled."""
    loaded = [(task, load_problems(task, options.data_dir)) for task in tasks]
    tokenizer = load_tokenizer(checkpoint)
    return [
        EvalTask(
            task=task,
            problems=problems,
            prompts=render_prompts(task, problems, tokenizer, asked_format(task, options), asked_style(task, options)),
            prompt_format=resolve_format(asked_format(task, options), tokenizer),
            num_problems=min(options.limit or len(problems), len(problems)),
            num_samples=samples_asked(options, task.num_samples),
            style=asked_style(task, options),
            tool=None if task.tool is None else ToolUse(tool=get_tool(task.tool), tokenizer=tokenizer),
        )
        for task, problems in loaded
    ]


def load_tokenizer(checkpoint: Checkpoint) -> Any | None:
    """The checkpoint's tokenizer; None for a scripted engine's file and a model that only its server has."""
    if checkpoint.digest.startswith(SERVED) or checkpoint.path.is_file():
        return None
    return load_foreign_tokenizer(checkpoint.path)
