"""Runs what is not there yet, one run after the other, and writes predictions or the page."""

import json
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import click

from stapo_bench.errors import StapoError
from stapo_bench.runs import read_bounded, write_result
from stapo_bench.tasks import read_foreign_rows
from stapo_train.experiments.archive import pack
from stapo_train.experiments.design import SEEDS
from stapo_train.experiments.mechanism.maps import PLAN
from stapo_train.experiments.mechanism.predictions import predictions
from stapo_train.experiments.mechanism.study import Runs

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option("--out", type=FOLDER, default=Path("runs/experiments/mechanism"), show_default=True, help="Runs.")
@click.option(
    "--results", type=FOLDER, default=Path("results/experiments/mechanism"), show_default=True, help="The pages."
)
@click.option("--seeds", type=click.IntRange(1, len(SEEDS["fresh"])), help="The first so many of each alone.")
@click.option("--predictions", "only_predictions", is_flag=True, help="Write what is predicted, and run nothing.")
@click.option("--page-only", is_flag=True, help="Write the page of what is finished, and run nothing.")
def main(out: Path, results: Path, seeds: int | None, *, only_predictions: bool, page_only: bool) -> None:
    """Where silencing matters, in a policy without a network: predictions, runs, page.

    Stopped at any moment and started again, it goes on where it was. Half a CPU-second a run.
    """
    if only_predictions:
        write_result(results / "predictions.md", predictions())
        return
    from stapo_train.experiments.mechanism.page import write_page

    if not page_only:
        run_missing(out / "runs.jsonl", seeds)
    runs, about = read_runs(out / "runs.jsonl")
    if not runs:
        raise StapoError(f"{out / 'runs.jsonl'}: expected runs, got none; leave --page-only out")
    write_page(runs, about, results)
    pack({"runs.jsonl": read_bounded(out / "runs.jsonl")}, results)
    click.echo(f"written: {results / 'page.md'}")


def run_missing(path: Path, first: int | None) -> None:
    """Run every setting with the ``first`` of its seeds, seed by seed, and add each run to the file as it ends."""
    from stapo_train.experiments.mechanism.policy import train

    path.parent.mkdir(parents=True, exist_ok=True)
    done, _ = read_runs(path)
    asked = [(seed, *each) for seeds, settings in PLAN for seed in seeds[:first] for each in settings.items()]
    for seed, name, setting in asked:
        if (name, seed) in done:
            continue
        started = time.process_time()
        records = train(setting, seed)
        row = {"name": name, "seed": seed, "setting": asdict(setting), "cpu_s": time.process_time() - started}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "records": records}) + "\n")
        click.echo(f"{name}, seed {seed}: {row['cpu_s']:.1f} CPU-seconds")


def read_runs(path: Path) -> tuple[Runs, dict[str, float | str]]:
    """The runs of a file, which may not be there, and what they cost (``cpu_s``) and were made by (``versions``).

    Raises:
        StapoError: a run was made with other settings than those of its name.
    """
    found, spent = {}, 0.0
    known = {name: setting for _, settings in PLAN for name, setting in settings.items()}
    for number, row in read_foreign_rows(path) if path.exists() else ():
        stated = known.get(row["name"])
        if stated is None or row["setting"] != asdict(stated):
            raise StapoError(
                f"{path}: line {number}: expected the settings of '{row['name']}', got others; move it away"
            )
        found[row["name"], row["seed"]] = row["records"]
        spent += row["cpu_s"]
    versions = ", ".join(f"{name} {version(name)}" for name in ("stapo-bench", "torch", "numpy"))
    return found, {"cpu_s": spent, "versions": versions}


if __name__ == "__main__":
    main()
