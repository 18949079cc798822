"""Commands that answer a question about runs: ``compare``, ``why``, ``plan``, ``audit``, ``curve``, ``regimes``."""

import sys
from pathlib import Path
from typing import Any

import click

from stapo_bench.commands import options
from stapo_bench.commands.entry import FINDINGS

FRACTION = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("runs", nargs=-1, metavar="A B")
@click.option(
    "--seeds",
    is_flag=True,
    help="Methods over training seeds: each argument is a quoted pattern of one method's runs.",
)
@click.option("--map", "columns", default="", help="Columns of tables: item=…,score=…, also sample, model, task, seed.")
@options.grader
@click.option(
    "--margin",
    type=FRACTION,
    cls=options.LateDefault,
    default=options.margin,
    show_default=True,
    help="Differences below it count as a tie, a fraction.",
)
@click.option(
    "--detect", type=FRACTION, help="With --seeds: the difference for which seeds are counted; else the margin."
)
@options.output_format("md", "json")
def compare(runs: tuple[str, ...], *, seeds: bool, grader: str, margin: float, format_: str, **given: Any) -> None:
    """Did B get better than A? Paired by problem, with intervals and a verdict in words.

    A and B are run folders, or files that say which items were right: CSV, TSV, JSON, Parquet, other tools' logs. One
    file with two models in it is enough.

    \b
    Example: stapo-bench compare results/base-justrl results/stapo-justrl
             stapo-bench compare a.csv b.csv
             stapo-bench compare --seeds 'results/justrl-*' 'results/stapo-*'
    """
    from stapo_bench.analysis import compare_methods, compare_outcomes, compare_within, read_method
    from stapo_bench.presenting import render_comparison, render_methods
    from stapo_bench.runs.outcomes import parse_outcome_map

    detect, columns = given["detect"], parse_outcome_map(given["columns"])
    if seeds:
        if columns:
            raise click.UsageError("--map names columns of tables; --seeds compares run folders")
        methods = [read_method(pattern, grader) for pattern in runs]
        click.echo(render_methods(compare_methods(methods, margin, detect or margin), format_))
        return
    if detect is not None:
        raise click.UsageError("--detect counts seeds and needs --seeds; 'stapo-bench plan' counts samples")
    if len(runs) == 1 and Path(runs[0]).is_file():
        found = compare_within(Path(runs[0]), columns, margin)
    elif len(runs) == 2 and Path(runs[0]).resolve() == Path(runs[1]).resolve():
        raise click.UsageError(f"expected two runs, got {runs[0]} twice")
    elif len(runs) == 2:
        found = compare_outcomes(runs[0], runs[1], columns, grader, margin)
    else:
        raise click.UsageError(
            f"expected two run folders or files, got {len(runs)}; several runs of each method are compared with --seeds"
        )
    click.echo(render_comparison(found, format_))


@click.command()
@click.argument("run", type=options.RUN)
@click.argument("other", metavar="RUN|TABLE")
@click.option("--row", default="", help="Words that choose the table's row; else the run's model and method.")
@click.option("--grader", help="Grades that count; else those that each run was last scored with.")
@options.output_format("md", "json")
def why(run: Path, other: str, *, row: str, grader: str | None, format_: str) -> None:
    """Why do two numbers for the same thing differ? The gap in parts: problems, grader, truncation, decoding, chance.

    \b
    Example: stapo-bench why results/stapo-mine results/stapo-yours
             stapo-bench why results/justrl-mine justrl --row 'DeepSeek JustRL'
    """
    from stapo_bench.analysis import published_names, why_published, why_runs
    from stapo_bench.presenting import render_why

    if Path(other).is_dir():
        found = why_runs(run, Path(other), grader)
    elif other in published_names():
        found = why_published(run, other, row.split(), grader)
    else:
        tables = ", ".join(published_names())
        raise click.UsageError(f"expected a run folder or a published table, got '{other}'; tables: {tables}")
    click.echo(render_why(found, format_))


@click.command()
@click.argument("run_a", type=options.RUN)
@click.argument("run_b", type=options.RUN)
@click.option("--detect", type=float, required=True, help="Difference to be found, as a fraction: 0.02 is two points.")
@click.option("--power", cls=options.LateDefault, type=FRACTION, default=options.power, show_default=True)
@options.grader
@options.output_format("md", "json")
def plan(run_a: Path, run_b: Path, *, detect: float, power: float, grader: str, format_: str) -> None:
    """How many samples per problem a difference needs, and what they cost, from two small runs.

    Example: stapo-bench plan results/base-justrl results/stapo-justrl --detect 0.02
    """
    from stapo_bench.analysis import plan_runs
    from stapo_bench.presenting import render_plan

    click.echo(render_plan(plan_runs(run_a, run_b, detect, power, grader), format_))


@click.command()
@click.argument("run_a", type=options.RUN, metavar="RUN")
@click.argument("run_b", type=options.RUN, required=False)
@options.grader
@options.output_format("md", "json")
def audit(run_a: Path, run_b: Path | None, grader: str, format_: str) -> None:
    """Look for what should not be in a run: copies, equal seeds, odd shards, gaps; with RUN_B, shared samples, drift.

    Exit code 3: something was found.

    Example: stapo-bench audit results/base-justrl
    """
    from stapo_bench.analysis import audit_runs
    from stapo_bench.presenting import render_audit

    checks = audit_runs(run_a, run_b, grader)
    click.echo(render_audit(checks, format_))
    if any(check.result == "finding" for check in checks):
        sys.exit(FINDINGS)


@click.command()
@click.argument("runs", type=options.RUN, nargs=-1, required=True)
@options.grader
@options.output_format("md", "json")
def curve(runs: tuple[Path, ...], grader: str, format_: str) -> None:
    """Scores over the checkpoints of one training run, the first being the base, with simultaneous bands.

    Example: stapo-bench curve results/base-justrl results/stapo-step-20-justrl results/stapo-step-40-justrl
    """
    from stapo_bench.analysis import curve_runs
    from stapo_bench.presenting import render_curve

    click.echo(render_curve(curve_runs(list(runs), grader), format_))


@click.command()
@click.argument("runs", type=options.RUN, nargs=4, metavar="A1 B1 A2 B2")
@options.grader
@options.output_format("md", "json")
def regimes(runs: tuple[Path, Path, Path, Path], grader: str, format_: str) -> None:
    """Does the decoding regime decide who wins? Checkpoints A and B under regime 1, then under regime 2.

    Example: stapo-bench regimes a-training b-training a-justrl b-justrl
    """
    from stapo_bench.analysis import compare_regimes
    from stapo_bench.presenting import render_regimes

    click.echo(render_regimes(compare_regimes(*runs, grader), format_))
