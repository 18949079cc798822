"""Evaluate a checkpoint: one path from task files to the table, which may be stopped and started again anywhere.

tasks -> problems -> prompts -> manifest -> missing samples -> engine -> store -> grades -> scores -> table

The engine is opened when a sample is found missing, not before: other settings are refused, and a finished run is
found finished, without loading a model.

evaluate(EvalOptions(checkpoint=Path("Qwen3-1.7B"), decoding="justrl", tasks=("aime24",), out=Path("run")))
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from stapo_bench.engines import Engine, preset
from stapo_bench.errors import StapoError
from stapo_bench.records import SamplingParams
from stapo_bench.runs import Checkpoint, find_run, make_folder, open_run, read_checkpoint, segment_sizes
from stapo_bench.sampling.engine_cache import Opener
from stapo_bench.sampling.generate import Drawn, draw, look, shard_label, sole_writer
from stapo_bench.sampling.identity import run_about, run_identity
from stapo_bench.sampling.options import EvalOptions
from stapo_bench.sampling.work import Work
from stapo_bench.tasks import Task, load_problems, load_task, render_prompts, resolve_format

_ROUNDS_PER_LOOK = 4


def evaluate(
    options: EvalOptions,
    *,
    engine: Engine | None = None,
    opener: Opener | None = None,
    enough: Callable[[Path], bool] | None = None,
    watch: TextIO | None = None,
) -> Drawn:
    """Draw what is missing of a run. Grades and scores are made from its folder: ``grade_run``, ``score_run``.

    Args:
        options: what to draw, and where to.
        engine: an open one to be used and left open; None: opened and closed here.
        opener: opens the engine instead, and may keep it for the next checkpoint.
        enough: asked every few rounds with the run's folder; True ends the run with what it has.
        watch: where progress goes; None: standard error.
    """
    watch = watch or sys.stderr
    tasks = [load_task(name) for name in options.tasks]
    checkpoint = read_checkpoint(options.checkpoint)
    works = prepare(tasks, options, checkpoint)
    with nullcontext(opener) if opener else Opener(engine) as opened:
        opened.identity(options)  # what no engine can do is refused before a folder is made,
        make_folder(options.out)  # and a folder that cannot be made before an engine is opened
        for part in [works] if enough is None else growing(works):
            drawn = complete(checkpoint, part, options, opened, watch)
            if enough is not None and enough(drawn.run_dir):
                break
        return drawn


def complete(
    checkpoint: Checkpoint, works: Sequence[Work], options: EvalOptions, opener: Opener, watch: TextIO
) -> Drawn:
    """Draw what is missing of a run, if anything is."""
    params, about = sampling_params(options), run_about(options.decoding, checkpoint, works)
    known = run_identity(checkpoint, works, params, options.seed, opener.identity(options))
    run = find_run(options.out, known, allow_different=options.allow_different)
    stored = None if run is None else look(run, works, options.shard, watch)
    if stored and not stored.num_missing:
        print(f"run folder: {stored.run.run_dir}; nothing is missing", file=watch)
        return Drawn(run_dir=stored.run.run_dir, num_drawn=0, num_missing=0, num_repeated=stored.num_repeated)
    label = shard_label(options.shard)
    with ExitStack() as lock:
        if (
            not options.allow_different
        ):  # then the folder is known: a second writer is refused without opening an engine
            lock.enter_context(sole_writer(options.out, label))
        engine = opener.engine(options, works)
        identity = run_identity(checkpoint, works, params, options.seed, engine.identity())
        run = open_run(options.out, identity, about, allow_different=options.allow_different)
        if options.allow_different:
            lock.enter_context(sole_writer(run.run_dir, label))
        print(f"run folder: {run.run_dir}", file=watch)
        # Another writer of this shard, gone by now, may have stored more since that look.
        if stored is None or stored.run.run_dir != run.run_dir or stored.sizes != segment_sizes(run.run_dir):
            stored = look(run, works, options.shard, watch)
        stored = replace(stored, run=run)  # the manifest has this command's tasks by now
        return draw(stored, works, engine, params, watch)


def growing(works: Sequence[Work]) -> Iterator[list[Work]]:
    """The same work with more and more samples per problem, up to all."""
    most = max(work.num_samples for work in works)
    for rounds in [*range(_ROUNDS_PER_LOOK, most, _ROUNDS_PER_LOOK), most]:
        yield [replace(work, num_samples=min(work.num_samples, rounds)) for work in works]


def sampling_params(options: EvalOptions) -> SamplingParams:
    """The preset with the number of new tokens asked for."""
    params = preset(options.decoding)
    return params if options.max_new_tokens is None else replace(params, max_new_tokens=options.max_new_tokens)


def prepare(tasks: Sequence[Task], options: EvalOptions, checkpoint: Checkpoint) -> list[Work]:
    """Load and check every task's data, and render every prompt, before anything is drawn."""
    loaded = [(task, load_problems(task, options.data_dir)) for task in tasks]
    tokenizer = load_tokenizer(checkpoint)
    return [
        Work(
            task=task,
            problems=problems,
            prompts=render_prompts(task, problems, tokenizer, options.prompt_format),
            prompt_format=resolve_format(options.prompt_format or task.prompt_format, tokenizer),
            num_problems=min(options.limit or len(problems), len(problems)),
            num_samples=options.samples or task.num_samples,
        )
        for task, problems in loaded
    ]


def load_tokenizer(checkpoint: Checkpoint) -> Any | None:
    """The checkpoint's tokenizer; None for a scripted engine's file, which has none."""
    if checkpoint.path.is_file():
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(checkpoint.path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StapoError(f"not a checkpoint: {checkpoint.path}: its tokenizer cannot be read: {reason}") from error
