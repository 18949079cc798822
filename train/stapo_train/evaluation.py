"""Evaluation while a training goes on: the checkpoints of every so many iterations, on the engine that is open.

    eval: {every: 20, tasks: [tiny_aime24], samples: 4}

    <run>/eval/step-000000/      the base, as a run folder of ``stapo-bench``
    <run>/eval/step-000020/      a checkpoint: what ``stapo-bench eval --ckpt <run>/checkpoints/step-000020`` would draw
    <run>/eval/curve.md          the curve so far, with the best checkpoint corrected for being picked

A run is of its checkpoint's digest, so that the queue, the grades and the repair after a kill are the evaluation's own.
The n-th checkpoint is told from the base at its share of the error that all of them may spend (``checkpoint_looks``).
Several ranks draw a shard each, by engines that have the same weights; a sample depends on neither.
"""

from pathlib import Path
from typing import Any, TextIO

from stapo_bench.analysis import look_at_checkpoint
from stapo_bench.engines import Engine
from stapo_bench.errors import StapoError, tell
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting import curve_sentence, finish_run, followed_line, write_curve
from stapo_bench.records import Prompt
from stapo_bench.runs import is_adapter, load_run
from stapo_bench.sampling import Entry, EvalOptions, evaluate, for_checkpoint
from stapo_bench.tasks import load_problems, load_task, render_prompts
from stapo_train.config import EvalConfig, TrainConfig
from stapo_train.objective import ONE_PROCESS, Reduce, wait_for_all


def is_evaluated(config: TrainConfig, iteration: int) -> bool:
    """Whether the checkpoint after an iteration is to be evaluated; 0 is the base."""
    return config.eval is not None and (iteration % config.eval.every == 0 or iteration == config.iterations)


def eval_options(config: TrainConfig, checkpoint: Path, iteration: int, ranks: Reduce = ONE_PROCESS) -> EvalOptions:
    """What ``stapo-bench eval`` would be asked for, and of which this rank draws its share."""
    asked = _asked(config)
    options = EvalOptions(
        checkpoint=checkpoint,
        decoding=asked.decoding,
        tasks=asked.tasks,
        samples=asked.samples,
        max_new_tokens=config.rollout.max_new_tokens,
        out=_folder(config, iteration),
        data_dir=Path(asked.data_dir) if asked.data_dir else None,
        shard=(ranks.rank, ranks.size),
    )
    return for_checkpoint(options, Path(config.model)) if is_adapter(checkpoint) else options


def eval_prompts(config: TrainConfig, tokenizer: Any) -> list[Prompt]:
    """All that the evaluations will ask; none without ``eval``."""
    found: list[Prompt] = []
    for task in map(load_task, config.eval.tasks if config.eval else ()):
        problems = load_problems(task, eval_options(config, Path(config.model), 0).data_dir)
        found += render_prompts(task, problems, tokenizer, task.prompt_format, task.style)
    return found


def evaluate_checkpoint(
    config: TrainConfig, engine: Engine, iteration: int, watch: TextIO, ranks: Reduce = ONE_PROCESS
) -> dict[str, float]:
    """Complete the evaluation of the checkpoint after an iteration, and say how it stands beside the base.

    Args:
        config: of the training.
        engine: has the checkpoint's weights.
        iteration: 0: the base.
        watch: where progress and the result go.
        ranks: those that call this together, each with an engine; the first makes the scores.

    Returns:
        Fractions: ``score`` with ``low`` and ``high`` for these problems; of a later one than the base also ``gain``
        over it with ``gain_low`` and ``gain_high``, which hold for all checkpoints of the training together. On other
        ranks than the first: nothing.

    Raises:
        StapoError: the engine gave up on samples, or those of the base are gone.
    """
    name = f"step-{iteration:06d}"
    checkpoint = Path(config.out) / "checkpoints" / name if iteration else Path(config.model)
    wait_for_all(ranks)  # for the checkpoint, which one of them writes
    options = eval_options(config, checkpoint, iteration, ranks)
    result = evaluate(options, engine=engine, watch=watch)
    if result.num_missing:
        raise StapoError(f"{options.out}: the engine gave up on {result.num_missing} samples; --resume draws them")
    wait_for_all(ranks)
    if ranks.rank:
        return {}
    score = finish_run(options.out, data_dir=options.data_dir).macro
    near = score.these_problems
    found = {"score": score.value, "low": near.low, "high": near.high}
    if not iteration:
        return found
    steps = sorted(int(path.name.removeprefix("step-")) for path in options.out.parent.glob("step-*"))
    entries = [_entry(config, number, step) for number, step in enumerate(steps) if step <= iteration]
    last = entries[-1]
    tell(watch, followed_line(last))
    if curve := write_curve(options.out.parent, entries, DEFAULT_GRADER, "stapo-train"):
        tell(watch, curve_sentence(curve))
    gain = {"gain": last.value, "gain_low": last.low, "gain_high": last.high}
    return {**found, **{key: value for key, value in gain.items() if value is not None}}


def _entry(config: TrainConfig, number: int, iteration: int) -> Entry:
    """What is known of the ``number``-th evaluated checkpoint, as ``stapo-bench follow`` has it."""
    out = _folder(config, iteration)
    entry = Entry(number=number, step=iteration, checkpoint=out.name, run=out.name, state="base")
    return entry.seen(look_at_checkpoint(load_run(out), load_run(_folder(config, 0)), number)) if number else entry


def _folder(config: TrainConfig, iteration: int) -> Path:
    return Path(config.out) / "eval" / f"step-{iteration:06d}"


def _asked(config: TrainConfig) -> EvalConfig:
    assert config.eval is not None
    return config.eval
