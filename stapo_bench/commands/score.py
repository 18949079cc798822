"""Commands from samples to numbers: ``grade``, ``score``, ``table``, ``truncation``, ``export``."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from stapo_bench.commands import options
from stapo_bench.commands.parameters import ContextCommand, engine_of, engine_options
from stapo_bench.engines import EngineOptions
from stapo_bench.errors import UsageError, tell


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
    from stapo_bench.sampling import JudgeOptions, judge_run, open_judge

    given, engine = ctx.params, engine_of(ctx.params, "judge-")
    run, data_dir = given["run"], given["data_dir"]
    if given["judge"] is None and engine != EngineOptions():
        raise UsageError("expected --judge with the judge's folder beside the options of its engine (--judge-…)")
    name = with_golds(given["grader"], given["golds"])
    passes = [grade_run(run, name, data_dir=data_dir)]
    if given["judge"] is not None:
        judging = JudgeOptions(checkpoint=given["judge"], engine=engine, max_new_tokens=given["judge_max_new_tokens"])
        with open_judge(judging) as judge:
            passes.append(judge_run(run, judge, name, data_dir=data_dir))
    for done in passes:
        tell(sys.stdout, f"{done.grader}: {done.num_graded} samples graded, {done.num_kept} graded before")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--graders", help="Comma-separated names; default: all.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many responses.")
@options.output_format("md", "json")
def arena(file: Path, graders: str | None, limit: int | None, format_: str) -> None:
    """Put graders side by side on labelled responses: agreement, errors each way, time, hangs.

    FILE: JSON lines, CSV or Parquet, packed or not, with columns completion (or response), gold (or answer) and label
    (or correct: true or false). JSON names the rows on which each grader errs.

    Example: stapo-bench arena responses.jsonl.gz --graders math,math-verify
    """
    from stapo_bench.analysis import graders_at_hand, judge_graders
    from stapo_bench.grading import all_graders
    from stapo_bench.presenting import render_arena
    from stapo_bench.runs.importing import read_labelled

    names = [name.strip() for name in graders.split(",")] if graders else list(all_graders())
    ready, missing = graders_at_hand(names)
    responses = read_labelled(file, limit)
    contenders = []
    for contender in judge_graders(responses, ready):
        tell(sys.stderr, f"{contender.name}: done")
        contenders.append(contender)
    click.echo(render_arena(contenders, missing, format_))


@click.command(cls=ContextCommand)
@click.argument("run", type=options.RUN_OR_TABLE, metavar="RUN|TABLE")
@options.of_tables
@options.grader_option("Grader by name, or one of the run's grade files.")
@options.golds
@options.data_dir
@click.option(
    "--exclude-overlap", type=click.Path(path_type=Path), help="Training set (JSON lines) to look for problems in."
)
@options.long
def score(ctx: click.Context) -> None:
    """Score a run as far as it is and print its table; a run that is still drawing may be scored at any time.

    With --long also pass@k, pass^k, G-Pass@k and maj@k, and the intervals for problems like these. Where the run has
    more than one grade file, each grader's scores follow, where they disagree, and the answers that they dispute. Of a
    table of outcomes avg@k alone.

    Example: stapo-bench score results/base-justrl
    """
    given, run = ctx.params, ctx.params["run"]
    if options.are_tables([run], given):
        from stapo_bench.analysis import score_tables
        from stapo_bench.presenting import render_outcome_scores

        options.only_of_runs(ctx, "grader", "golds", "data_dir", "exclude_overlap", "long")
        click.echo(render_outcome_scores(score_tables([run], **options.reading(given, [run]))))
        return
    _score_run(run, given)


def _score_run(run: Path, given: Mapping[str, Any]) -> None:
    data_dir: Path | None = given["data_dir"]
    from stapo_bench.analysis import compare_graders
    from stapo_bench.presenting import finish_run, render_graders, render_metrics, render_table, rows_from_scores
    from stapo_bench.runs import can_write, with_golds

    name = with_golds(given["grader"], given["golds"])
    scored = finish_run(run, data_dir=data_dir, grader=name)
    if not can_write(run):
        click.echo(f"{run}: cannot be written: its scores.json and table.md stay as they were", err=True)
    click.echo(render_table(rows_from_scores([scored], run_dirs=[run]), long=given["long"]))
    if given["long"] and (more := render_metrics(scored)):
        click.echo("\n" + more)
    if (exclude_overlap := given["exclude_overlap"]) is not None:
        from stapo_bench.analysis import scores_without
        from stapo_bench.presenting import render_without

        click.echo("\n" + render_without(scores_without(run, exclude_overlap, grader=name, data_dir=data_dir)))
    if (agreement := compare_graders(run, data_dir)) is not None:
        click.echo("\n" + render_graders(agreement))


@click.command(cls=ContextCommand)
@click.argument("runs", type=options.RUN_OR_TABLE, nargs=-1)
@options.of_tables
@options.output_format("md", "csv", "json", "latex")
@options.published
@click.option("--metric", default="avg", show_default=True, help="avg, maj, pass@K or pass^K (pass@8).")
@options.grader
@options.long
@click.option("--groups", is_flag=True, help="Also who is told apart: runs that were evaluated alike, judged together.")
def table(ctx: click.Context) -> None:
    """Methods × tasks from runs, all by the grades of one grader; each row is marked measured or published.

    Of tables of outcomes, a row per model and task.

    Example: stapo-bench table results/base-justrl results/stapo-justrl --published
    """
    given, runs = ctx.params, ctx.params["runs"]
    format_, published, metric, long, groups = (
        given[name] for name in ("format_", "published", "metric", "long", "groups")
    )
    if not runs and not published:
        raise UsageError("expected at least one run folder, or --published")
    if options.are_tables(runs, given):
        from stapo_bench.analysis import score_tables
        from stapo_bench.presenting import render_outcome_scores

        options.only_of_runs(ctx, "grader", "published", "metric", "long", "groups")
        click.echo(render_outcome_scores(score_tables(runs, **options.reading(given, runs)), format_))
        return
    from stapo_bench.analysis import AVG, parse_metric
    from stapo_bench.presenting import published_rows, render_table, rows_from_runs

    shown = parse_metric(metric)
    if published and shown != AVG:
        raise UsageError(f"--published: the paper prints avg@k alone, got --metric {metric} beside it")
    if long and format_ in ("csv", "json"):
        raise UsageError(f"--long: expected with --format md or latex, got {format_}, which always has all of it")
    if groups and (format_ != "md" or shown != AVG):
        raise UsageError("--groups: expected with --format md and avg@k; as JSON: 'stapo-bench compare RUNS'")
    rows = [*rows_from_runs(runs, shown, given["grader"]), *(published_rows() if published else [])]
    click.echo(render_table(rows, format_, long=long).rstrip("\n"))
    if groups:
        from stapo_bench.presenting import render_standings

        click.echo("\n" + render_standings(runs, given["grader"]))


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
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="A table's file: samples.parquet, .csv or .jsonl; else the folder; of mlflow and wandb the project's name.",
)
@options.output_format("table", "lm-eval", "inspect", "every-eval-ever", "hub", "mlflow", "wandb")
@options.grader
@options.data_dir
def export(runs: tuple[Path, ...], *, out: Path, format_: str, grader: str, data_dir: Path | None) -> None:
    """Write runs for other tools: as one table with a row per sample, or as logs and results in another tool's format.

    lm-eval and inspect are logs with every sample; every-eval-ever is a record of the scores with their uncertainty;
    hub holds .eval_results/ and the model card's block; mlflow and wandb log the scores alone. What a format cannot say
    is left out.

    Example: stapo-bench export results/base-justrl results/stapo-justrl -o samples.parquet
    """
    from stapo_bench.runs import export_runs

    if format_ != "table":
        from stapo_bench.presenting.exporting import export_as

        written = export_as(format_, runs, out, grader, data_dir)
        for note in written.notes:
            tell(sys.stderr, note)
        for file in written.files:
            tell(sys.stdout, f"{file} written")
        if not written.files and format_ in ("mlflow", "wandb"):
            tell(sys.stdout, f"logged to {format_} under {out.name}: {', '.join(map(str, runs))}")
        return
    done = export_runs(runs, out, grader, data_dir)
    for note in done.notes:
        tell(sys.stderr, note)
    tell(sys.stdout, f"{done.num_samples} samples written to {out}")
