"""Options that several commands take."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from stapo_bench.errors import StapoError, missing_package
from stapo_bench.records import DEFAULT_GRADER

if TYPE_CHECKING:
    from stapo_bench.runs.outcomes import ColumnsOf

Function = TypeVar("Function", bound=Callable[..., Any])

RUN = click.Path(path_type=Path, file_okay=False)

RUN_OR_TABLE = click.Path(path_type=Path)


_FIGURE_BEGINS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


class Figure(click.Path):
    """A figure's file; whether it can be drawn and written is looked at before anything is computed or printed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; UsageError for another ending or another's file, StapoError where nothing is installed to draw."""
        from stapo_bench.presenting.figures import format_of
        from stapo_bench.runs import refuse_foreign

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        refuse_foreign(path, _FIGURE_BEGINS[format_of(path)])
        if find_spec("matplotlib") is None:
            raise StapoError(f"{path}: a figure cannot be drawn: {missing_package('matplotlib')}")
        return path


class Number(click.FloatRange):
    """A number within bounds. Every option that takes one is of this type: click lets NaN through any bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error for NaN and infinity."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"expected a number, got {value!r}", param, ctx)
        return number


FRACTION = Number(0, 1, min_open=True, max_open=True)


FIGURE = Figure(path_type=Path, dir_okay=False)

data_dir = click.option(
    "--data-dir",
    type=RUN,
    envvar="STAPO_BENCH_DATA",
    help="Folder with <task>.jsonl; else the hub. [env: STAPO_BENCH_DATA]",
)

golds = click.option(
    "--golds",
    type=click.Choice(["published", "corrected"]),
    default="published",
    show_default=True,
    help="corrected: the golds in tasks/errata.yaml known to be wrong are replaced; graded into a file of its own.",
)
long = click.option("--long", is_flag=True, help="Also what the question rarely needs: every interval and metric.")
published = click.option("--published", is_flag=True, help="Add the paper's rows, marked 'published'.")


class LateDefault(click.Option):
    """An option whose default is a function, called when the number is needed: the list of commands loads no numpy."""

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        """The number itself, in the help as well."""
        return super().get_default(ctx, call=True)


def margin() -> float:
    """The default margin, below which a difference counts as a tie."""
    from stapo_bench.statistics import MARGIN

    return MARGIN


def power() -> float:
    """The default power of a plan."""
    from stapo_bench.statistics import POWER

    return POWER


def of_tables(function: Function) -> Function:
    """``--map`` and ``--range``: how tables of outcomes are read, as of ``compare``."""
    map_ = click.option(
        "--map",
        "columns",
        multiple=True,
        help="Columns of tables of outcomes: item=…,score=…; as of 'compare', once or once for each file.",
    )
    range_ = click.option(
        "--range", "range_", default="", metavar="LO:HI", help="Lowest and highest score of tables; else 0:1."
    )
    return map_(range_(function))


def reading(given: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """What these two say of the files among these paths, as functions that read tables take it."""
    from stapo_bench.runs.outcomes import parse_range

    return {"columns": columns_of(given["columns"], paths), "declared": parse_range(given["range_"])}


def columns_of(maps: Sequence[str], paths: Sequence[Path], cluster: str = "") -> "ColumnsOf":
    """What ``--map`` and ``--cluster`` say: of all, or of each path, where folders, which have no columns, go without.

    Raises:
        UsageError: more than one ``--map``, and not as many as there are files.
    """
    from stapo_bench.runs.outcomes import columns_of_each, is_run, parse_outcome_map

    found = [parse_outcome_map(text) | ({"cluster": cluster} if cluster else {}) for text in maps or ("",)]
    num_files = sum(not is_run(path) for path in paths)
    if len(found) == 1 or num_files == 0:
        return found[0]
    of_files = iter(columns_of_each(found, num_files))
    return [{} if is_run(path) else next(of_files) for path in paths]


def grader_option(text: str) -> Callable[[Function], Function]:
    """``--grader``, whose grades count."""
    return click.option("--grader", default=DEFAULT_GRADER, show_default=True, help=text)


grader = grader_option("Grader by name.")


def training_logs(text: str) -> Callable[[Function], Function]:
    """``--train``, once per training log."""
    return click.option("--train", "logs", type=RUN, multiple=True, help=text)


def output_format(*formats: str) -> Callable[[Function], Function]:
    """``--format``, of which the first is the default."""
    return click.option("--format", "format_", type=click.Choice(formats), default=formats[0], show_default=True)


def are_tables(paths: Sequence[Path], given: Mapping[str, Any]) -> bool:
    """Whether tables of outcomes were given, as files, folders of files or archives, and not run folders; both at once,
    or ``--map`` or ``--range`` beside run folders, is an error.
    """
    from stapo_bench.runs.outcomes import is_run, is_there

    if missing := [path for path in paths if not is_there(path)]:
        raise StapoError(f"{missing[0]}: no such run folder or file")
    tables = [path for path in paths if not is_run(path)]
    if tables and len(tables) < len(paths):
        raise click.UsageError(
            f"expected run folders or tables of outcomes, got both; make {tables[0]} a run (stapo-bench import), or "
            "the runs tables (stapo-bench export RUN -o run.csv)"
        )
    if (given.get("columns") or given.get("range_")) and not tables:
        raise click.UsageError("--map and --range are of tables of outcomes; run folders were given")
    return bool(tables)


def is_typed(name: str) -> bool:
    """Whether an option was given in the command line, and not by the environment or a default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def only_of_runs(ctx: click.Context, *names: str) -> None:
    """Refuse options that say something of run folders, where tables of outcomes were given."""
    for name in names:
        if is_typed(name):
            option = next(parameter.opts[0] for parameter in ctx.command.params if parameter.name == name)
            raise click.UsageError(f"{option} is of run folders; a table of outcomes was given", ctx)


def parse_shard(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[int, int]:
    """``i/n`` with 0 <= i < n."""
    index, slash, count = value.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise click.BadParameter(f"expected i/n with 0 <= i < n, such as 0/4, got '{value}'")
    return int(index), int(count)


def task_list(tasks: str | None, suite: str | None) -> tuple[str, ...]:
    """Names from ``--tasks`` or ``--suite``, of which only one may be given; the paper's suite without either."""
    from stapo_bench.errors import UsageError
    from stapo_bench.tasks import task_names

    if tasks and suite:
        raise UsageError("expected --tasks or --suite, got both")
    return tuple(name.strip() for name in tasks.split(",")) if tasks else tuple(task_names(suite or "paper"))
