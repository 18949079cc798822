"""Commands for looking: ``report``, ``leaderboard``, ``watch``."""

import sys
from pathlib import Path
from typing import Any

import click

from stapo_bench.commands import options
from stapo_bench.commands.parameters import ContextCommand, record_of
from stapo_bench.errors import tell

baseline = click.option(
    "--baseline", type=options.RUN, help="Run that the others are compared with; default: the base model, if any."
)


@click.command(cls=ContextCommand)
@click.argument("runs", type=options.RUN_OR_TABLE, nargs=-1, required=True)
@options.of_tables
@options.training_logs("Training run (or a folder of them, or a dump); repeatable.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="report.html")
@baseline
@options.grader
@options.data_dir
@options.published
def report(ctx: click.Context) -> None:
    """One HTML file of everything: table, verdicts, figures, every sample, tokens. It needs no network.

    In each decoding regime runs are compared with --baseline, else with the base model, else with the first run. Tables
    of outcomes have no samples: their page holds scores, places and pairs.

    Example: stapo-bench report results/base-justrl results/stapo-justrl --train runs/stapo -o report.html
    """
    runs, out = ctx.params["runs"], ctx.params["out"]
    if options.are_tables(runs, ctx.params):
        _report_tables(ctx, runs, out)
        return
    from stapo_bench.presenting.report.page import Contents, no_figures, write_report

    size = write_report(record_of(Contents, ctx.params), out)
    tell(sys.stdout, f"{out}: {size / 1e6:.1f} MB")
    if missing := no_figures():
        click.echo(missing, err=True)


def _report_tables(ctx: click.Context, tables: tuple[Path, ...], out: Path) -> None:
    options.only_of_runs(ctx, "logs", "baseline", "grader", "data_dir", "published")
    from stapo_bench.presenting.leaderboard import write_leaderboard

    size = write_leaderboard(tables, out, **options.reading(ctx.params, tables))
    tell(sys.stdout, f"{out}: {size / 1e3:.0f} kB; tables have no samples, figures or tokens to show")


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True)
@options.of_tables
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="leaderboard.html")
@options.grader
def leaderboard(runs: tuple[Path, ...], out: Path, grader: str, **given: Any) -> None:
    """Many runs as one static page, with places and groups of runs that are not told apart instead of ranks.

    Equal models share their place in 95 of 100 leaderboards. Tables of outcomes may stand beside run folders.

    Example: stapo-bench leaderboard results/* -o leaderboard.html
    """
    from stapo_bench.presenting.leaderboard import write_leaderboard

    size = write_leaderboard(runs, out, grader, **options.reading(given, runs))
    tell(sys.stdout, f"{out}: {size / 1e3:.0f} kB")


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
