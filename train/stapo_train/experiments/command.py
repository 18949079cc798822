"""The command ``stapo-bench experiment``: an entry point of the group ``stapo_bench.commands`` in pyproject.toml."""

from pathlib import Path

import click

from stapo_bench.errors import UsageError

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("experiments", nargs=-1, metavar="[NAME|FILE.yaml]...")
@click.option("--out", type=FOLDER, default=Path("runs/experiments"), show_default=True, help="Runs.")
@click.option("--results", type=FOLDER, default=Path("results/experiments"), show_default=True, help="Pages.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Commands at once, a core each.")
@click.option("--seeds", type=click.IntRange(min=1), help="Run the first so many alone; pages say what is missing.")
@click.option("--dry-run", is_flag=True, help="Only say what would run, and what that costs.")
@click.option("--page-only", is_flag=True, help="Write pages of what is finished, and run nothing.")
def experiment(
    experiments: tuple[str, ...],
    out: Path,
    results: Path,
    *,
    jobs: int,
    seeds: int | None,
    dry_run: bool,
    page_only: bool,
) -> None:
    """Run experiments of train/experiments/ on the tiny suite: train, evaluate, compare over seeds, write a page each.

    Stopped at any moment and started again, it goes on where it was; a training that two experiments need is made once.
    Nothing is deleted. --page-only without a name writes the list of all experiments alone.

    Example: stapo-bench experiment main controls --jobs 2
    """
    if not (experiments or page_only):
        raise UsageError("expected the name of an experiment, or --page-only for the list of all")
    from stapo_train.experiments.design import load_experiment

    for name in experiments:
        load_experiment(name)  # what is none is refused before torch is imported
    from stapo_train.experiments.run import Plans

    plans = Plans.of(experiments, out, results, seeds)
    if dry_run:
        click.echo(plans.estimates())
    elif page_only:
        plans.write_pages(click.echo)
    else:
        plans.run(jobs, click.echo)
