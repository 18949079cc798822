"""Commands from samples to numbers: ``grade``, ``score``, ``table``, ``truncation``, ``export``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stapo_bench.commands import options
from stapo_bench.commands.parameters import ContextCommand, engine_of, engine_options
from stapo_bench.engines import EngineOptions
from stapo_bench.errors import UsageError, tell

if TYPE_CHECKING:
    from stapo_bench.tasks import Golds


@click.command(cls=ContextCommand)
@click.argument("run", type=options.RUN)
@options.grader_option("Grader by name: math, strict or qwen.")
@options.golds
@options.data_dir
@click.option(
    "--judge",
    type=click.Path(path_type=Path),
    help="Also have this model (a checkpoint folder) judge what the grader rejects.",
)
@engine_options("judge-")
@click.option(
    "--judge-max-new-tokens",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Of a judge's reply; raise it for a judge that thinks first.",
)
def grade(ctx: click.Context) -> None:
    """Grade a run's samples again where the grader is newer, and those without a grade. Draws no samples.

    Each grader writes a file of its own (grades/math.jsonl, math+corrected.jsonl, judge-NAME.jsonl); 'score' shows them
    side by side. Where a judge gave no verdict, the same command asks it again.

    Example: stapo-bench grade results/base-justrl --grader strict
    """
    from stapo_bench.runs import grade_run, with_golds
    from stapo_bench.sampling import JudgeOptions, Ticker, judge_run, open_judge

    given, engine = ctx.params, engine_of(ctx.params, "judge-")
    run, data_dir = given["run"], given["data_dir"]
    if given["judge"] is None and engine != EngineOptions():
        raise UsageError("expected --judge with the judge's folder beside the options of its engine (--judge-…)")
    name = with_golds(given["grader"], given["golds"])
    passes = [grade_run(run, name, data_dir=data_dir, progress=Ticker("graded"))]
    if given["judge"] is not None:
        judging = JudgeOptions(checkpoint=given["judge"], engine=engine, max_new_tokens=given["judge_max_new_tokens"])
        with open_judge(judging) as judge:
            passes.append(judge_run(run, judge, name, data_dir=data_dir, progress=Ticker("judged")))
    for done in passes:
        tell(sys.stdout, f"{done.grader}: {done.num_graded} samples graded, {done.num_kept} graded before")


@click.command()
@click.argument("run", type=options.RUN)
@options.grader_option("Grader by name, or one of the run's grade files.")
@options.golds
@options.data_dir
@click.option(
    "--exclude-overlap", type=click.Path(path_type=Path), help="Training set (JSON lines) to look for problems in."
)
@options.long
def score(
    run: Path, *, grader: str, golds: "Golds", data_dir: Path | None, exclude_overlap: Path | None, long: bool
) -> None:
    """Score a run as far as it is and print its table; a run that is still drawing may be scored at any time.

    With --long also pass@k, pass^k, G-Pass@k and maj@k, and the intervals for problems like these. Where the run has
    more than one grade file, each grader's scores follow, where they disagree, and the answers that they dispute.

    Example: stapo-bench score results/base-justrl
    """
    from stapo_bench.analysis import compare_graders
    from stapo_bench.presenting import finish_run, render_graders, render_metrics, render_table, rows_from_scores
    from stapo_bench.runs import can_write, with_golds

    name = with_golds(grader, golds)
    scored = finish_run(run, data_dir=data_dir, grader=name)
    if not can_write(run):
        click.echo(f"{run}: cannot be written: its scores.json and table.md stay as they were", err=True)
    click.echo(render_table(rows_from_scores([scored], run_dirs=[run]), long=long))
    if long and (more := render_metrics(scored)):
        click.echo("\n" + more)
    if exclude_overlap is not None:
        from stapo_bench.analysis import scores_without
        from stapo_bench.presenting import render_without

        click.echo("\n" + render_without(scores_without(run, exclude_overlap, grader=name, data_dir=data_dir)))
    if (agreement := compare_graders(run, data_dir)) is not None:
        click.echo("\n" + render_graders(agreement))


@click.command()
@click.argument("runs", type=options.RUN, nargs=-1)
@options.output_format("md", "csv", "json", "latex")
@options.published
@click.option("--metric", default="avg", show_default=True, help="avg, maj, pass@K or pass^K (pass@8).")
@options.grader
@options.long
def table(runs: tuple[Path, ...], *, format_: str, published: bool, metric: str, grader: str, long: bool) -> None:
    """Methods × tasks from runs, all by the grades of one grader; each row is marked measured or published.

    Example: stapo-bench table results/base-justrl results/stapo-justrl --published
    """
    if not runs and not published:
        raise UsageError("expected at least one run folder, or --published")
    from stapo_bench.analysis import AVG, parse_metric
    from stapo_bench.presenting import published_rows, render_table, rows_from_runs

    shown = parse_metric(metric)
    if published and shown != AVG:
        raise UsageError(f"--published: the paper prints avg@k alone, got --metric {metric} beside it")
    if long and format_ != "md":
        raise UsageError(f"--long: expected with --format md alone, got {format_}, which always has all of it")
    rows = [*rows_from_runs(runs, shown, grader), *(published_rows() if published else [])]
    click.echo(render_table(rows, format_, long=long).rstrip("\n"))


@click.command()
@click.argument("run", type=options.RUN)
@options.grader
def truncation(run: Path, grader: str) -> None:
    """Bounds for a run's cut-off samples, and its score at every smaller token limit.

    Example: stapo-bench truncation results/base-justrl
    """
    from stapo_bench.analysis import truncation as measure
    from stapo_bench.presenting import render_truncation
    from stapo_bench.runs import load_run

    click.echo(render_truncation(measure(load_run(run, grader))))


@click.command()
@click.argument("runs", type=options.RUN, nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="samples.parquet or samples.csv")
@options.grader
@options.data_dir
def export(runs: tuple[Path, ...], out: Path, grader: str, data_dir: Path | None) -> None:
    """Write the samples of runs with their grades as one table: a row per sample, with its run, its gold, its verdict.

    Example: stapo-bench export results/base-justrl results/stapo-justrl -o samples.parquet
    """
    from stapo_bench.runs import export_runs

    done = export_runs(runs, out, grader, data_dir)
    for note in done.notes:
        tell(sys.stderr, note)
    tell(sys.stdout, f"{done.num_samples} samples written to {out}")
