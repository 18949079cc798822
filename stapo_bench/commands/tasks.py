"""Commands about the benchmarks themselves: ``tasks``, ``overlap``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stapo_bench.commands import options

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("name", required=False)
def tasks(name: str | None) -> None:
    """List the tasks, or print one task's card: by its name, or by its file (path/sums.yaml).

    \b
    Example: stapo-bench tasks aime24
             stapo-bench tasks ./sums.yaml
    """
    from stapo_bench.presenting import task_card, task_line
    from stapo_bench.tasks import load_task, task_names

    if name is not None:
        click.echo(task_card(load_task(name)))
        return
    for task in map(load_task, task_names(None)):
        click.echo(task_line(task))


@click.command()
@click.option("--train", type=click.Path(path_type=Path), required=True, help="Training set: JSON lines.")
@click.option("--tasks", "names", help="Comma-separated task names.")
@click.option("--suite", help="All tasks of a suite; default: paper.")
@options.data_dir
@options.output_format("md", "json")
def overlap(train: Path, names: str | None, suite: str | None, data_dir: Path | None, format_: str) -> None:
    """List the evaluation problems that stand in a training set.

    Example: stapo-bench overlap --train dapo_math_17k.jsonl --tasks amc23
    """
    from stapo_bench.analysis import overlaps_of_tasks
    from stapo_bench.presenting import render_overlaps

    found = overlaps_of_tasks(options.task_list(names, suite), train, data_dir)
    click.echo(render_overlaps(found, format_))
