"""Commands that draw samples: ``eval``, ``continue``."""

from pathlib import Path
from typing import Any

import click

from stapo_bench.commands import options
from stapo_bench.engines import ENGINES, PRESETS
from stapo_bench.errors import StapoError, UsageError


@click.command("eval")
@click.option(
    "--ckpt", type=click.Path(path_type=Path), required=True, help="Checkpoint folder; many: 'runs/x/step-*'."
)
@click.option(
    "--decoding", type=click.Choice(list(PRESETS)), required=True, help="T 1.0, top-p 1.0; or T 0.7, top-p 0.9."
)
@click.option("--tasks", help="Comma-separated task names; 'stapo-bench tasks' lists them.")
@click.option("--suite", help="All tasks of a suite: paper (the default) or tiny.")
@click.option("--samples", type=click.IntRange(min=1), help="Samples per problem; default: each task's own (32 or 4).")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first K problems of each task.")
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="Default: 20480.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True)
@options.base_urls
@click.option("--model", help="Served name, for --engine openai; default: the one model that is served.")
@click.option("--slots", type=click.IntRange(min=1), help="Sequences (requests) at once; default: the engine's choice.")
@click.option("--tensor-parallel", type=click.IntRange(min=1), help="GPUs that share the model, for --engine vllm.")
@options.data_dir
@click.option("--shard", default="0/1", callback=options.parse_shard, help="Draw part i of n of the samples: i/n.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--prompt-format", help="chat, base or plain; default: the task file's.")
@click.option(
    "--out", type=options.RUN, help="Run folder (for many checkpoints, of their folders); default: results/…."
)
@click.option("--allow-different", is_flag=True, help="If --out has other settings, start a new run next to it.")
@click.option(
    "--until-width",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Stop as soon as the average's interval is this narrow: 0.02 is two points.",
)
@click.option(
    "--until-decided", type=options.RUN, help="Stop as soon as it is told apart from, or tied with, that run."
)
def eval_command(
    tasks: str | None,
    suite: str | None,
    ckpt: Path,
    out: Path | None,
    *,
    until_width: float | None,
    until_decided: Path | None,
    **more: Any,
) -> None:
    """Draw samples, grade them and print the table. Stopped and started again, it goes on where it was.

    Example: stapo-bench eval --ckpt Qwen3-1.7B --decoding justrl --tasks aime24,amc23
    """
    from stapo_bench.presenting import finish_run, render_table, rows_from_scores
    from stapo_bench.runs import expand, folder_label
    from stapo_bench.sampling import EvalOptions, Opener, evaluate

    if until_width is not None and until_decided is not None:
        raise UsageError("expected --until-width or --until-decided, got both")
    enough = None
    if until_width is not None or until_decided is not None:
        from stapo_bench.sampling import stop_rules as until

        decide = until.decided_against(until_decided) if until_decided else until.width_below(until_width or 0.0)
        enough = until.looking(decide, more["data_dir"])
    if (more["base_urls"] or more["model"]) and more["engine"] != "openai":
        raise UsageError(f"--base-url and --model name a server: expected --engine openai, got {more['engine']}")
    names = options.task_list(tasks, suite)
    checkpoints = expand(ckpt)
    if len(checkpoints) > 1 and more["engine"] == "openai":
        raise UsageError(f"--engine openai: expected one checkpoint, what the server serves, got {len(checkpoints)}")
    labels = {folder_label(checkpoint): checkpoint for checkpoint in checkpoints}
    if twins := [path for path in checkpoints if labels[folder_label(path)] != path]:
        other = labels[folder_label(twins[0])]
        raise UsageError(
            f"--ckpt: {twins[0]} and {other} would share the name {folder_label(other)}; "
            "evaluate them apart, each with an --out of its own"
        )
    num_missing = 0
    scores = []
    with Opener() as opener:
        for checkpoint in checkpoints:
            name = f"{folder_label(checkpoint)}-{more['decoding']}"
            run_dir = Path("results") / name if out is None else out / name if len(checkpoints) > 1 else out
            evaluation = EvalOptions(checkpoint=checkpoint, tasks=names, out=run_dir, **more)
            drawn = evaluate(evaluation, opener=opener, enough=enough)
            if drawn.num_repeated:
                click.echo(f"{drawn.num_repeated} samples were drawn twice; the first of each counts", err=True)
            scores.append(finish_run(drawn.run_dir, data_dir=more["data_dir"]))
            num_missing += drawn.num_missing
    click.echo(render_table(rows_from_scores(scores)))
    complain(num_missing)


@click.command("continue")
@click.argument("run", type=options.RUN)
@click.option("--max-new-tokens", type=click.IntRange(min=1), required=True, help="The new limit, above the run's.")
@options.base_urls
@options.data_dir
@click.option("--out", type=options.RUN, help="Folder of the new run; default: RUN-<max-new-tokens>.")
def continue_command(
    run: Path, max_new_tokens: int, *, base_urls: tuple[str, ...], data_dir: Path | None, out: Path | None
) -> None:
    """Give a run's cut-off samples more tokens: they go on from where they were cut, in a new run.

    With --engine transformers the new run has the very tokens of an evaluation under the new limit (up to rounding);
    vllm and openai draw what follows the cut under another seed: the distribution is the same, the tokens are not.

    Example: stapo-bench continue results/base-justrl --max-new-tokens 32768
    """
    from stapo_bench.presenting import finish_run, render_table, rows_from_scores
    from stapo_bench.sampling import continue_run

    drawn = continue_run(run, max_new_tokens, out=out, data_dir=data_dir, base_urls=base_urls)
    score = finish_run(drawn.run_dir, data_dir=data_dir)
    click.echo(render_table(rows_from_scores([score])))
    complain(drawn.num_missing)


def complain(num_missing: int) -> None:
    """Samples that an engine gave up are missing, and a command that leaves some out has not succeeded."""
    if num_missing:
        raise StapoError(f"the engine gave up on {num_missing} samples; run the same command again to draw them")
