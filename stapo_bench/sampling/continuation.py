"""Give the cut-off samples of a run more tokens: a new run whose samples go on where the old ones were cut.

    options = ContinueOptions(run_dir=Path("results/base-justrl"), max_new_tokens=32_768)
    continue_run(options)     # writes results/base-justrl-32768

Samples that ended are taken over as they are; a cut-off one goes on from its stored tokens. The new run is what an
evaluation under the larger limit would have given:

* ``transformers``, ``scripted``: token for token, up to rounding, for token j depends on the sample's seed and j alone.
* ``vllm``, ``openai``: in distribution. They seed a request from its first token on, so the tokens behind
  the cut are sampled under a seed of their own; both parts together are a sample under the larger limit.
"""

import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from stapo_bench.engines import Engine, EngineOptions, check_sampling, options_of
from stapo_bench.errors import StapoError, UsageError, tell
from stapo_bench.records import Sample, SampleKey, SamplingParams
from stapo_bench.runs import (
    SERVED,
    ContinuedFrom,
    DifferentRunError,
    Identity,
    Manifest,
    SegmentWriter,
    differences,
    find_run,
    load_manifest,
    local_checkpoint,
    open_run,
    read_samples,
    scan_keys,
)
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_options import EvalOptions, checkpoint_of, for_checkpoint, sampling_params
from stapo_bench.sampling.eval_tasks import EvalTask
from stapo_bench.sampling.evaluation import load_tokenizer
from stapo_bench.sampling.generate import SamplingResult, billed, engine_failures, shard_label, sole_writer
from stapo_bench.sampling.identity import run_identity, started_now
from stapo_bench.sampling.progress import Progress
from stapo_bench.sampling.rests import Continuation, known
from stapo_bench.sampling.thinking import END_OF_THINKING, check_room, thinking_fields
from stapo_bench.tasks import load_problems, load_task, render_prompts


@dataclass(frozen=True, kw_only=True)
class ContinueOptions:
    """Which run is to be continued, and how far."""

    run_dir: Path  # it stays as it is
    max_new_tokens: int  # the new limit, above the run's
    out: Path | None = None  # folder of the new run; None: ``<run>-<max_new_tokens>`` beside it
    data_dir: Path | None = None  # as for ``evaluate``: the prompts are rendered again, and have to be the same
    base_urls: tuple[str, ...] = ()  # servers, where the run's engine is ``openai``
    engine: EngineOptions | None = None  # as the run was drawn with, its speed included; None: what its manifest says
    thinking_budget: int | None = None  # the run's limit: those still thinking there end it; None: they go on thinking
    thinking_end: str = END_OF_THINKING


def continue_run(
    options: ContinueOptions,
    *,
    engine: Engine | None = None,
    engines: EngineCache | None = None,
    watch: TextIO | None = None,
) -> SamplingResult:
    """Continue the cut-off samples of a run; stopped and started again, it goes on where it was.

    Args:
        options: the run and its new limit.
        engine: an open one; None: the run's, opened and closed here.
        engines: opens the engine instead, and may keep it for the next run.
        watch: where progress goes; None: standard error.
    """
    watch = watch or sys.stderr
    old = load_manifest(options.run_dir)
    if old.imported is not None:
        raise StapoError(f"{old.run_dir}: its samples were imported ({old.imported}); only runs sampled here continue")
    if any(task.prompt_format == "message" for task in old.identity.tasks.values()):
        raise StapoError(f"{old.run_dir}: a server that chats cannot go on behind a cut-off answer: evaluate anew")
    if calling := [name for name, task in old.identity.tasks.items() if task.tool is not None]:
        raise StapoError(f"{old.run_dir}: replies to {calling[0]} call a tool and cannot be continued: evaluate anew")
    limit = known(old.identity.sampling.max_new_tokens)
    if options.max_new_tokens <= limit:
        raise UsageError(f"--max-new-tokens: expected more than the run's {limit}, got {options.max_new_tokens}")
    out = options.out or options.run_dir.with_name(f"{options.run_dir.resolve().name}-{options.max_new_tokens}")
    before = _options(old, out, options)
    checkpoint = checkpoint_of(before)
    tokenizer = load_tokenizer(checkpoint)
    eval_tasks = _eval_tasks(old, options.data_dir, tokenizer)
    params = sampling_params(before)
    ending = thinking_fields(old, options.thinking_budget, options.thinking_end)
    longer = replace(params, max_new_tokens=options.max_new_tokens, **ending)
    if options.thinking_budget is not None:
        check_sampling(before.engine, longer)
        check_room(tokenizer, longer)
    identity = replace(old.identity, sampling=longer)
    with nullcontext(engines) if engines else EngineCache(engine) as cache:
        said = cache.identity(before)
        _check_settings(old, run_identity(checkpoint, eval_tasks, params, before.seed, said))
        if (new := find_run(out, identity)) and _holds_all(new, old):
            tell(watch, f"run folder: {out}; nothing is missing")
            return SamplingResult(run_dir=out, num_sampled=0, num_missing=0, num_repeated=0)
        opened = cache.engine(replace(before, max_new_tokens=options.max_new_tokens), eval_tasks)
        _check_settings(old, run_identity(checkpoint, eval_tasks, params, before.seed, opened.identity()))
        origin = ContinuedFrom(run=old.name, max_new_tokens=limit)
        run = open_run(out, identity, started_now(replace(old.about, continued_from=origin)))
        tell(watch, f"run folder: {run.run_dir}")
        with sole_writer(run.run_dir, shard_label((0, 1)), watch):
            return _continue_samples(old, run, Continuation(opened, longer, eval_tasks, tokenizer), watch)


def _check_settings(old: Manifest, now: Identity) -> None:
    """Refuse other settings than the run's; of an engine that is not open yet, as far as they are known."""
    if found := differences(old.identity, now, whole_engine=False):
        raise DifferentRunError(
            f"{old.run_dir}: cannot be continued under other settings than its own:"
            + "".join(f"\n  {line}" for line in found)
        )


def _holds_all(new: Manifest, old: Manifest) -> bool:
    """Whether a continued run has every sample of the run that it continues."""
    done, _ = scan_keys(new.run_dir, new.seed)
    return all(sample.key in done for sample in read_samples(old.run_dir))


def _options(old: Manifest, out: Path, options: ContinueOptions) -> EvalOptions:
    """The options of the evaluation that made the run, with another folder."""
    if old.about.checkpoint is None or old.about.regime is None:
        raise StapoError(f"{old.run_dir}: its manifest does not state its checkpoint and decoding; evaluate anew")
    asked = EvalOptions(
        checkpoint=None if _is_served(old) else local_checkpoint(Path(old.about.checkpoint)),
        decoding=old.about.regime,
        tasks=tuple(old.identity.tasks),
        out=out,
        sampling=_known_sampling(old),
        engine=options.engine or replace(options_of(old.identity.engine), base_urls=options.base_urls),
        data_dir=options.data_dir,
        seed=known(old.seed),
    )
    return for_checkpoint(asked, None if old.about.base is None else Path(old.about.base))


def _is_served(old: Manifest) -> bool:
    return (old.identity.checkpoint_digest or "").startswith(SERVED)


def _known_sampling(old: Manifest) -> SamplingParams:
    sampling = old.identity.sampling
    if not isinstance(sampling, SamplingParams):
        raise StapoError(f"{old.run_dir}: its samples were imported; only what was sampled here can be continued")
    return sampling


def _eval_tasks(old: Manifest, data_dir: Path | None, tokenizer: Any | None) -> list[EvalTask]:
    """The run's tasks, with the prompts rendered again."""
    eval_tasks = []
    for name, identity in old.identity.tasks.items():
        asked = old.about.tasks[name]
        task = load_task(old.task_files[name])
        problems = load_problems(task, data_dir)
        prompt_format, style = known(identity.prompt_format), known(identity.style)
        eval_tasks.append(
            EvalTask(
                task=task,
                problems=problems,
                prompts=render_prompts(task, problems, tokenizer, prompt_format, style),
                prompt_format=prompt_format,
                num_problems=asked.num_problems,
                num_samples=asked.num_samples,
                style=style,
            )
        )
    return eval_tasks


def _continue_samples(old: Manifest, run: Manifest, continuation: Continuation, watch: TextIO) -> SamplingResult:
    """Take over what ended, continue what was cut off. Only the cut-off samples are held in memory."""
    stamps = run.stamps
    done, num_repeated = scan_keys(run.run_dir, run.seed, stamps=stamps)
    cut: dict[SampleKey, Sample] = {}
    num_old = num_continued = num_ended = 0
    writer = SegmentWriter(run.run_dir, "continued")
    try:
        for sample in read_samples(old.run_dir, old.stamps):
            num_old += 1
            if sample.key not in done:
                begun = continuation.begun(sample)
                if continuation.can_continue(begun):
                    cut[sample.key] = begun
                    num_ended += begun is not sample
                else:
                    writer.append(replace(sample, stamp=stamps[sample.task]))
        if run.identity.sampling.thinking_budget is not None:
            tell(watch, f"{num_ended} of {len(cut)} cut-off samples were still thinking, and end it now")
        writer.sync()  # progress counts continued samples, not those taken over
        progress = Progress(Counter(key.task for key in cut), stream=watch)
        progress.start(cut)
        with billed(continuation.engine, run.run_dir, "continued"), engine_failures():
            for sample in continuation.generate(cut):
                num_continued += 1
                for safe in writer.append(replace(sample, stamp=stamps[sample.task])):
                    progress.add(safe)
    finally:
        try:
            writer.close()
        finally:
            tell(watch, f"{writer.num_safe} samples are safe in {run.run_dir}; {num_continued} of them went on")
    if continuation.num_asked > num_old:
        tell(
            watch,
            f"{old.run_dir} holds {num_old} of its {continuation.num_asked} samples: 'stapo-bench eval' draws the "
            "others, and this command again goes on from them",
        )
    return SamplingResult(
        run_dir=run.run_dir, num_sampled=num_continued, num_missing=len(cut), num_repeated=num_repeated
    )
