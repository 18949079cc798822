"""Commands about the benchmarks themselves: ``tasks``, ``overlap``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stapo_bench.commands import options

if TYPE_CHECKING:
    from stapo_bench.tasks import Task


@click.command()
@click.argument("name", required=False)
def tasks(name: str | None) -> None:
    """List the tasks, or print one task's card.

    Example: stapo-bench tasks aime24
    """
    from stapo_bench.tasks import load_task, task_names

    if name is not None:
        click.echo(card(load_task(name)))
        return
    for task in map(load_task, task_names(None)):
        counts = f"{task.num_problems:>4} problems × {task.num_samples:>2}"
        click.echo(f"{task.name:<18} {task.suite:<8} {counts}  {task.title}")


def card(task: "Task") -> str:
    """What is known of a task, one line per fact."""
    from stapo_bench.tasks import load_errata

    source = task.source
    place = f"generated ({source.generator['name']})" if source.generator else f"{source.path} ({source.split})"
    errata = load_errata().of_task(task.name)
    facts = {
        "title": task.title,
        "suite": task.suite,
        "problems": task.num_problems,
        "samples per problem": task.num_samples,
        "source": place,
        "revision": source.revision or "not known; the digest decides",
        "content digest": task.digest or "not recorded",
        "prompt format": task.prompt_format,
        "answer type": task.answer_type or "inferred from the gold",
        "licence": task.licence,
        "notes": task.notes or "none",
        "errata": "none known" if not errata else "",
    }
    lines = [f"  {name}: {value}".rstrip() for name, value in facts.items()]
    return "\n".join([task.name, *lines, *(f"    {item.id} ({item.kind}): {item.reason}" for item in errata)])


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
    import json

    from stapo_bench.analysis import overlaps_of_tasks
    from stapo_bench.presenting import render_overlaps

    found = overlaps_of_tasks(options.task_list(names, suite), train, data_dir)
    if format_ == "json":
        click.echo(json.dumps([asdict(overlap) for overlaps in found.values() for overlap in overlaps], indent=2))
    else:
        click.echo(render_overlaps(found))
