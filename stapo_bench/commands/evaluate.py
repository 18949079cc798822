"""Commands that sample: ``eval``, ``continue``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from stapo_bench.commands import options
from stapo_bench.commands.parameters import (
    STYLE,
    ContextCommand,
    DecodingName,
    engine_of,
    engine_option,
    engine_options,
    record_of,
    style_options,
    thinking_options,
)
from stapo_bench.errors import StapoError, UsageError


def asked_of_a_checkpoint(function: options.Function) -> options.Function:
    """The options that say how a checkpoint is evaluated; ``options_of`` reads them."""
    for option in reversed(
        (
            click.option(
                "--decoding",
                type=DecodingName(),
                required=True,
                help="How tokens are sampled; see tasks/decoding.yaml.",
            ),
            click.option(
                "--temperature",
                type=options.Number(min=0),
                help="In place of the preset's; 0: greedy, one sample a problem.",
            ),
            click.option("--top-p", type=options.Number(0, 1, min_open=True), help="In place of the preset's."),
            click.option(
                "--top-k", type=int, help="Keep the K most probable tokens; 0: all, whatever the preset says."
            ),
            click.option(
                "--min-p",
                type=options.Number(0, 1),
                help="Keep tokens with this share of the greatest probability; 0: all.",
            ),
            click.option("--stop", multiple=True, help="End before this text; may be repeated."),
            click.option(
                "--tasks",
                help="Comma-separated task names ('stapo-bench tasks' lists them) or files: aime24,./sums.yaml.",
            ),
            click.option("--suite", help="All tasks of a suite: paper (the default) or tiny."),
            click.option(
                "--samples", type=click.IntRange(min=1), help="Samples per problem; default: each task's own (32 or 4)."
            ),
            click.option("--limit", type=click.IntRange(min=1), help="Only the first K problems of each task."),
            click.option("--max-new-tokens", type=click.IntRange(min=1), help="Default: the preset's, else 20480."),
            engine_options(),
            options.data_dir,
            click.option("--seed", type=int, default=0, show_default=True),
            click.option("--prompt-format", help="chat, base or plain; default: the task file's."),
            style_options,
        )
    ):
        function = option(function)
    return function


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``EvalOptions``: all parameters, with tasks, engine, decoding and sampling as it has them."""
    from stapo_bench.sampling import changed_decoding

    changes = {name: given[name] for name in ("temperature", "top_p", "top_k", "min_p", "stop")}
    decoding, sampling = changed_decoding(given["decoding"], changes)
    tasks = options.task_list(given["tasks"], given["suite"])
    style = {name: given[name] for name in STYLE if given[name] is not None}
    named = {"tasks": tasks, "decoding": decoding, "style": style}
    return {**given, **named, "engine": engine_of(given), "sampling": sampling}


@click.command("eval", cls=ContextCommand)
@click.option(
    "--ckpt",
    type=click.Path(path_type=Path),
    help="Checkpoint or LoRA adapter, a folder or of the hub (Qwen/Qwen3-1.7B); many: 'runs/x/step-*'. Or --model.",
)
@click.option(
    "--base",
    type=click.Path(path_type=Path),
    help="Base of an adapter, a folder or of the hub; default: the one that it names.",
)
@click.option("--revision", help="Branch, tag or commit of the hub's model; default: main.")
@asked_of_a_checkpoint
@thinking_options
@click.option("--shard", default="0/1", callback=options.parse_shard, help="Draw part i of n of the samples: i/n.")
@click.option(
    "--out", type=options.RUN, help="Run folder (for many checkpoints, of their folders); default: results/…."
)
@click.option("--allow-different", is_flag=True, help="If --out has other settings, start a new run next to it.")
@click.option(
    "--until-width",
    type=options.FRACTION,
    help="Stop as soon as the average's 95 % interval for these problems, which holds at every look, is this wide from "
    "end to end: 0.02 is ±1 point.",
)
@click.option(
    "--until-decided", type=options.RUN, help="Stop as soon as it is told apart from, or tied with, that run."
)
@options.long
def eval_command(ctx: click.Context) -> None:
    """Sample, grade and print the table. Stopped and started again, it goes on where it was.

    With --thinking-budget, samples that are still thinking at a budget end it and answer, up to --max-new-tokens in
    all: a run for each budget beside --out, all from the same first tokens, and the curve over them.

    Example: stapo-bench eval --ckpt Qwen3-1.7B --decoding justrl --tasks aime24,amc23
    """
    from stapo_bench.analysis import curve_of
    from stapo_bench.engines import with_served_model
    from stapo_bench.presenting import finish_run, render_curve, render_table, rows_from_scores
    from stapo_bench.runs import local_checkpoint
    from stapo_bench.sampling import (
        EngineCache,
        EvalOptions,
        check_all,
        evaluate,
        evaluate_to_budgets,
        for_checkpoint,
        run_folders,
        stop_rule,
    )

    given = ctx.params
    rule, common = stop_rule(given["until_width"], given["until_decided"]), options_of(given)
    ckpt = given["ckpt"] and local_checkpoint(given["ckpt"], given["revision"])
    if ckpt is None:
        common["engine"] = with_served_model(common["engine"])
    named = "-".join([common["decoding"], *common["style"]])
    folders = run_folders(ckpt, given["out"], named, common["engine"])
    asked = [
        for_checkpoint(record_of(EvalOptions, {**common, "checkpoint": checkpoint, "out": run_dir}), given["base"])
        for checkpoint, run_dir in folders.items()
    ]
    check_all(asked)  # the last one, too, before hours go into the first
    budgets = _budgets(ctx, "shard", "until_width", "until_decided", "allow_different")
    num_missing = 0
    scores, run_dirs = [], []
    curves: list[list[Path]] = []  # runs of one checkpoint
    with EngineCache() as engines:
        for options_ in asked:
            curves.append([])
            if budgets:
                results = evaluate_to_budgets(options_, budgets, given["thinking_end"], engines=engines)
            else:
                results = iter([evaluate(options_, engines=engines, rule=rule)])
            for result in results:
                if result.num_repeated:
                    click.echo(f"{result.num_repeated} samples were drawn twice; the first of each counts", err=True)
                scores.append(finish_run(result.run_dir, data_dir=given["data_dir"]))
                run_dirs.append(result.run_dir)
                curves[-1].append(result.run_dir)
                num_missing += result.num_missing
    click.echo(render_table(rows_from_scores(scores, run_dirs=run_dirs), long=given["long"]))
    for of_one in curves if len(budgets) > 1 else ():
        click.echo("\n" + render_curve(curve_of(of_one)))
    complain(num_missing)


def _budgets(ctx: click.Context, *others: str) -> list[int]:
    """The budgets of thinking that were asked for, beside which others make no sense.

    Raises:
        UsageError: one of these, or an end of thinking without a budget.
    """
    budgets: list[int] = sorted(set(ctx.params["budgets"]))
    if not budgets and ctx.params["thinking_end"] is not None:
        raise UsageError("--thinking-end: expected --thinking-budget beside it, after which thinking is ended")
    if budgets and (typed := [name for name in others if options.is_typed(name)]):
        raise UsageError(f"--thinking-budget: expected no --{typed[0].replace('_', '-')}, as its runs are whole ones")
    return budgets


@click.command("continue", cls=ContextCommand)
@click.argument("run", type=options.RUN)
@click.option("--max-new-tokens", type=click.IntRange(min=1), required=True, help="The new limit, above the run's.")
@engine_option("base_urls")
@options.data_dir
@click.option("--out", type=options.RUN, help="Folder of the new run; default: RUN-<max-new-tokens>.")
@thinking_options
@options.long
def continue_command(ctx: click.Context) -> None:
    """Give a run's cut-off samples more tokens: they go on from where they were cut, in a new run.

    With --engine transformers the new run has the very tokens of an evaluation under the new limit (up to rounding);
    vllm and openai sample what follows the cut under another seed: the distribution is the same, the tokens are not.

    With --thinking-budget, samples that are still thinking at the budget end it and answer: a run for each budget, all
    from the same first tokens, and the curve over them.

    Example: stapo-bench continue results/base-justrl --max-new-tokens 32768
    """
    from stapo_bench.analysis import curve_of
    from stapo_bench.presenting import finish_run, render_curve, render_table, rows_from_scores
    from stapo_bench.sampling import ContinueOptions, continue_run, continue_to_budgets

    given = {name: value for name, value in ctx.params.items() if value is not None}
    asked = record_of(ContinueOptions, {**given, "run_dir": given["run"]})
    budgets = _budgets(ctx)
    results = continue_to_budgets(asked, budgets) if budgets else iter([continue_run(asked)])
    scores, run_dirs, num_missing = [], [], 0
    for result in results:
        scores.append(finish_run(result.run_dir, data_dir=asked.data_dir))
        run_dirs.append(result.run_dir)
        num_missing += result.num_missing
    click.echo(render_table(rows_from_scores(scores, run_dirs=run_dirs), long=given["long"]))
    if len(run_dirs) > 1:
        click.echo("\n" + render_curve(curve_of(run_dirs)))
    complain(num_missing)


def complain(num_missing: int) -> None:
    """Fail a command if samples are missing because an engine gave them up."""
    if num_missing:
        raise StapoError(f"the engine gave up on {num_missing} samples; run the same command again to draw them")
