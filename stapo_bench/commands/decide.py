"""Commands that answer a question about runs: ``compare``, ``why``, ``plan``, ``audit``, ``curve``, ``regimes``."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stapo_bench.commands import options
from stapo_bench.commands.entry import FINDINGS
from stapo_bench.commands.gate import EXIT_CODES, gate_options, requirement_of
from stapo_bench.errors import tell

if TYPE_CHECKING:
    from stapo_bench.analysis import Comparison, SeveralComparison
    from stapo_bench.runs.outcomes import ColumnsOf


@click.command()
@click.argument("runs", nargs=-1, metavar="A B [C]...")
@click.option(
    "--seeds",
    is_flag=True,
    help="Methods over training seeds: each argument is a quoted pattern of one method's runs.",
)
@click.option(
    "--map",
    "columns",
    multiple=True,
    help="Columns of tables: item=…,score=…, also sample, model, task, seed. Once for all files, or once for each, in "
    "their order.",
)
@click.option("--against", metavar="RUN", help="Of several runs: the one with which all others are compared.")
@click.option(
    "--cluster",
    default="",
    help="Column that says which items belong together: of tables, or of the tasks' data. task: the tasks "
    "themselves (of run folders always), as clusters of one set.",
)
@options.data_dir
@click.option("--range", "range_", default="", metavar="LO:HI", help="Lowest and highest score of tables; else 0:1.")
@options.grader
@click.option(
    "--margin",
    type=options.FRACTION,
    cls=options.LateDefault,
    default=options.margin,
    show_default=True,
    help="Differences below it count as a tie, a fraction.",
)
@click.option(
    "--detect", type=options.FRACTION, help="With --seeds: the difference for which seeds are counted; else the margin."
)
@click.option("-o", "--figure", type=options.FIGURE, help="Also as fig.pdf, .svg or .png.")
@gate_options
@options.output_format("md", "json", "pr", "junit")
def compare(runs: tuple[str, ...], *, seeds: bool, grader: str, margin: float, format_: str, **given: Any) -> None:
    """Did B get better than A? Paired by problem, with intervals and a verdict in words.

    A and B are run folders, or files that say which items were right: CSV, TSV, JSON, Parquet, other tools' logs. A
    folder or an archive of such files is one side; one file with two models in it is enough. With --fail-if or
    --require it is a gate: exit 4 where it fails, 5 where it cannot be decided yet (docs/gate.md). Several runs are
    compared with each other, or with one of them, so that all intervals hold together.

    \b
    Example: stapo-bench compare results/base-justrl results/stapo-justrl
             stapo-bench compare a.csv b.csv
             stapo-bench compare main.csv change.csv --require not-worse-than 0.01 --looks 50
             stapo-bench compare base.csv mine.csv yours.csv --against base -o against.svg
             stapo-bench compare --seeds 'results/justrl-*' 'results/stapo-*'
    """
    from stapo_bench.analysis import compare_models, compare_outcomes, compare_several, judge, read_sides
    from stapo_bench.presenting import render_gate, render_several
    from stapo_bench.runs.outcomes import is_run, is_there, parse_range

    columns, declared = _columns(runs, given), parse_range(given["range_"])
    reading = {"declared": declared, "data_dir": given["data_dir"]}
    required, against = requirement_of(given, margin), given["against"]
    is_gate = required is not None or format_ not in ("md", "json")
    if seeds:
        if is_gate:
            raise click.UsageError("a gate, and the formats pr and junit, are of two runs; --seeds compares methods")
        if columns or declared:
            raise click.UsageError("--map, --cluster and --range are of single runs; --seeds compares methods")
        _compare_seeds(runs, grader, margin, format_, given)
        return
    if given["detect"] is not None:
        raise click.UsageError("--detect counts seeds and needs --seeds; 'stapo-bench plan' counts samples")
    one_file = len(runs) == 1 and is_there(Path(runs[0])) and not is_run(Path(runs[0]))
    sides = read_sides(runs, columns, grader, **reading) if one_file or len(runs) > 2 or against else []
    if len(sides) > 2 or against:
        if is_gate:
            raise click.UsageError(f"a gate, and the formats pr and junit, are of two runs, got {len(sides)}")
        several = compare_several(sides, margin, against)
        click.echo(render_several(several, format_))
        _draw(several, given["figure"])
        return
    if one_file:
        found = compare_models(Path(runs[0]), sides, margin)
    elif len(runs) == 2 and Path(runs[0]).resolve() == Path(runs[1]).resolve():
        raise click.UsageError(f"expected two runs, got {runs[0]} twice")
    elif len(runs) == 2:
        found = compare_outcomes(runs[0], runs[1], columns, grader, margin, **reading)
    else:
        raise click.UsageError(f"expected two or more run folders or files, got {len(runs)}")
    judged = None if required is None else judge(found, required)
    click.echo(render_gate(found, judged, format_))
    _draw(found, given["figure"])
    if judged is not None:
        sys.exit(EXIT_CODES[judged.state])


def _columns(runs: tuple[str, ...], given: dict[str, Any]) -> "ColumnsOf":
    """Columns by meaning, the clusters' among them."""
    if options.is_typed("data_dir") and not given["cluster"]:
        raise click.UsageError("--data-dir is where --cluster's column of run folders is looked up; name the column")
    return options.columns_of(given["columns"], [Path(run) for run in runs], given["cluster"])


def _compare_seeds(patterns: tuple[str, ...], grader: str, margin: float, format_: str, given: dict[str, Any]) -> None:
    """Methods over training seeds."""
    from stapo_bench.analysis import compare_methods, read_method
    from stapo_bench.presenting import render_methods

    if given["against"]:
        raise click.UsageError("--against names one of several runs; --seeds compares every two methods")
    if given["figure"]:
        raise click.UsageError("--figure draws two or several runs; 'stapo-bench plot seeds' draws methods")
    methods = [read_method(pattern, grader) for pattern in patterns]
    click.echo(render_methods(compare_methods(methods, margin, given["detect"] or margin), format_))


def _draw(found: "Comparison | SeveralComparison", figure: Path | None) -> None:
    if figure is not None:
        from stapo_bench.presenting.figures import save_comparison

        save_comparison(found, figure, _command())
        tell(sys.stderr, f"figure written to {figure}")


def _command() -> str:
    """What was typed, for a figure's metadata."""
    return shlex.join(["stapo-bench", *sys.argv[1:]])


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
@click.argument("runs", type=options.RUN_OR_TABLE, nargs=-1, metavar="[A B]")
@options.of_tables
@click.option("--detect", type=options.Number(), help="Difference to be found, as a fraction: 0.02 is two points.")
@click.option("--power", cls=options.LateDefault, type=options.FRACTION, default=options.power, show_default=True)
@click.option("--problems", type=click.IntRange(min=2), help="Without runs: problems of the benchmark.")
@click.option("--samples", type=click.IntRange(min=1), help="Without runs: samples per problem and run.")
@click.option("--baseline", type=options.FRACTION, help="Without runs: the score of A, a fraction.")
@click.option("-o", "--figure", type=options.FIGURE, help="Without runs: also as a figure.")
@options.grader
@options.output_format("md", "json")
def plan(runs: tuple[Path, ...], *, detect: float | None, power: float, grader: str, format_: str, **size: Any) -> None:
    """How many samples per problem a difference needs, and what they cost, from two small runs.

    Without runs: the smallest difference that an evaluation of a given size finds, and what more samples and more
    problems bring.

    \b
    Example: stapo-bench plan results/base-justrl results/stapo-justrl --detect 0.02
             stapo-bench plan --problems 30 --samples 32 --baseline 0.4
    """
    from stapo_bench.analysis import plan_runs, plan_tables
    from stapo_bench.presenting import render_plan

    named = [name for name in ("problems", "samples", "baseline", "figure") if size[name] is not None]
    if not runs:
        _plan_size(size, detect, power, format_)
        return
    if named:
        raise click.UsageError(f"--{named[0]} plans without runs, got {len(runs)}; leave one of both out")
    if len(runs) != 2 or detect is None:
        raise click.UsageError("expected two runs and --detect, or none and --problems, --samples and --baseline")
    if options.are_tables(runs, size):
        found = plan_tables(runs[0], runs[1], detect, power, **options.reading(size, runs))
    else:
        found = plan_runs(runs[0], runs[1], detect, power, grader)
    click.echo(render_plan(found, format_))


def _plan_size(size: dict[str, Any], detect: float | None, power: float, format_: str) -> None:
    from stapo_bench.analysis import plan_size
    from stapo_bench.presenting import render_size_plan, save_size_figure

    if size["columns"] or size["range_"]:
        raise click.UsageError("--map and --range are of tables of outcomes; none was given")
    if detect is not None:  # first: naming what else is missing would lead to a refusal again
        raise click.UsageError(
            f"--detect needs two runs (plan A B --detect {detect:g}); without them --problems, --samples and "
            "--baseline alone say which differences can be found"
        )
    missing = [f"--{name}" for name in ("problems", "samples", "baseline") if size[name] is None]
    if missing:
        raise click.UsageError(
            f"a plan without runs needs {', '.join(missing)} as well; or give two runs, and --detect"
        )
    found = plan_size(size["problems"], size["samples"], size["baseline"], power)
    click.echo(render_size_plan(found, format_))
    if size["figure"] is not None:
        save_size_figure(found, size["figure"], _command())
        tell(sys.stderr, f"figure written to {size['figure']}")


@click.command()
@click.argument("run_a", type=options.RUN_OR_TABLE, metavar="RUN")
@click.argument("run_b", type=options.RUN_OR_TABLE, required=False)
@options.of_tables
@options.grader
@options.output_format("md", "json")
def audit(run_a: Path, run_b: Path | None, *, grader: str, format_: str, **given: Any) -> None:
    """Look for what should not be in a run: copies, equal seeds, odd shards, gaps; with RUN_B, shared samples, drift.

    Exit code 3: something was found.

    Example: stapo-bench audit results/base-justrl
    """
    from stapo_bench.analysis import audit_runs, audit_tables
    from stapo_bench.presenting import render_audit

    runs = [path for path in (run_a, run_b) if path is not None]
    if options.are_tables(runs, given):
        checks = audit_tables(run_a, run_b, **options.reading(given, runs))
    else:
        checks = audit_runs(run_a, run_b, grader)
    click.echo(render_audit(checks, format_))
    if any(check.result == "finding" for check in checks):
        sys.exit(FINDINGS)


@click.command()
@click.argument("runs", type=options.RUN_OR_TABLE, nargs=-1, required=True)
@options.of_tables
@options.grader
@options.output_format("md", "json")
def curve(runs: tuple[Path, ...], *, grader: str, format_: str, **given: Any) -> None:
    """Scores over the checkpoints of one training run, the first being the base, with simultaneous bands.

    Runs of one checkpoint under several token limits or thinking budgets are drawn over these, the smallest first.

    Example: stapo-bench curve results/base-justrl results/stapo-step-20-justrl results/stapo-step-40-justrl
    """
    from stapo_bench.analysis import curve_of, curve_tables
    from stapo_bench.presenting import render_curve

    tables = options.are_tables(runs, given)
    found = curve_tables(runs, **options.reading(given, runs)) if tables else curve_of(list(runs), grader)
    click.echo(render_curve(found, format_))


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
