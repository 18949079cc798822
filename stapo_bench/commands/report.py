"""Commands for looking: ``report``, ``watch``."""

import sys
from pathlib import Path

import click

from stapo_bench.commands import options
from stapo_bench.commands.parameters import ContextCommand, record_of
from stapo_bench.errors import tell

baseline = click.option(
    "--baseline", type=options.RUN, help="Run that the others are compared with; default: the base model, if any."
)


@click.command(cls=ContextCommand)
@click.argument("runs", type=options.RUN, nargs=-1, required=True)
@options.training_logs("Training run (or a folder of them, or a dump); repeatable.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="report.html")
@baseline
@options.grader
@options.data_dir
@options.published
def report(ctx: click.Context) -> None:
    """One HTML file of everything: table, verdicts, figures, every sample, tokens. It needs no network.

    In each decoding regime runs are compared with --baseline, else with the base model, else with the first run.

    Example: stapo-bench report results/base-justrl results/stapo-justrl --train runs/stapo -o report.html
    """
    from stapo_bench.presenting.report.page import Contents, no_figures, write_report

    out = ctx.params["out"]
    size = write_report(record_of(Contents, ctx.params), out)
    tell(sys.stdout, f"{out}: {size / 1e6:.1f} MB")
    if missing := no_figures():
        click.echo(missing, err=True)


@click.command(cls=ContextCommand)
@click.argument("runs", type=options.RUN, nargs=-1, required=True)
@options.training_logs("Training run (or a folder of them, or a dump); repeatable.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any that is free.")
@baseline
@options.grader
@options.data_dir
@options.published
def watch(ctx: click.Context) -> None:
    """Serve the report on this machine while runs go on: what is drawn is graded, open pages follow. Ctrl-C ends it.

    Example: stapo-bench watch results/stapo-justrl
    """
    from stapo_bench.presenting.report.page import Contents
    from stapo_bench.presenting.report.watch import watch_runs

    watch_runs(record_of(Contents, ctx.params), ctx.params["port"], lambda line: tell(sys.stderr, line))
