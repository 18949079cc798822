"""Commands for looking: ``report``, ``watch``."""

from pathlib import Path

import click

from stapo_bench.commands import options


@click.command()
@click.argument("runs", type=options.RUN, nargs=-1, required=True)
@options.training_logs("Training run (or a folder of them, or a dump); repeatable.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="report.html")
@options.grader
@options.data_dir
@options.published
def report(
    runs: tuple[Path, ...], logs: tuple[Path, ...], out: Path, *, grader: str, data_dir: Path | None, published: bool
) -> None:
    """One HTML file of everything: table, verdicts, figures, every sample, tokens. It needs no network.

    The first run of each decoding regime is the baseline of the verdicts.

    Example: stapo-bench report results/base-justrl results/stapo-justrl --train runs/stapo -o report.html
    """
    from stapo_bench.presenting.report.page import Contents, no_figures, write_report

    contents = Contents(runs=runs, logs=logs, grader=grader, data_dir=data_dir, published=published)
    size = write_report(contents, out)
    click.echo(f"{out}: {size / 1e6:.1f} MB")
    if missing := no_figures():
        click.echo(missing, err=True)


@click.command()
@click.argument("runs", type=options.RUN, nargs=-1, required=True)
@options.training_logs("Training run (or a folder of them, or a dump); repeatable.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any that is free.")
@options.grader
@options.data_dir
@options.published
def watch(
    runs: tuple[Path, ...], logs: tuple[Path, ...], port: int, *, grader: str, data_dir: Path | None, published: bool
) -> None:
    """Serve the report on this machine while runs go on: what is drawn is graded, open pages follow. Ctrl-C ends it.

    Example: stapo-bench watch results/stapo-justrl
    """
    from stapo_bench.presenting.report.page import Contents
    from stapo_bench.presenting.report.watch import watch_runs

    contents = Contents(runs=runs, logs=logs, grader=grader, data_dir=data_dir, published=published)
    watch_runs(contents, port, lambda line: click.echo(line, err=True))
