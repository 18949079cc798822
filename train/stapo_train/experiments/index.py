"""Writes ``results/experiments/README.md``: which experiments have results, what they say, which are not yet run."""

from pathlib import Path

from stapo_bench.runs import write_atomically
from stapo_bench.tasks import read_foreign_object
from stapo_train.experiments.design import HERE, load_experiment
from stapo_train.experiments.pages import SUMMARY, restate, unfinished

COMMAND = "stapo-bench experiment --page-only"


def write_index(results: Path) -> Path:
    """Write the list of all experiments of ``train/experiments``, from their pages' summaries."""
    lines = [
        "# Experiments on the tiny suite",
        "",
        "One page per question; each is a YAML file in `train/experiments/`. The models have up to 0.7 M parameters "
        "and do arithmetic: nothing here says anything about 1.7B to 14B models.",
        "",
        "| Experiment | Seeds | CPU-seconds | Question |",
        "|---|---|---|---|",
    ]
    told: list[str] = []
    for path in sorted(HERE.glob("*.yaml")):
        experiment = load_experiment(path.stem)
        summary = results / path.stem / SUMMARY
        if not summary.is_file():
            lines.append(f"| {path.stem} | **not run yet** | – | {experiment.question.strip()} |")
            continue
        about = read_foreign_object(summary)
        seeds = f"{len(about['seeds']['finished'])} of {len(about['seeds']['asked'])}"
        link = f"[{path.stem}]({path.stem}/page.md)"
        lines.append(f"| {link} | {seeds} | {about['cpu_s']:,} | {about['question'].strip()} |")
        told += ["", f"## {path.stem}", ""]
        told += [unfinished(about), ""] if unfinished(about) else []
        if old := restate(results / path.stem):
            told += [old, ""]
        told += [f"- {answer}" for answer in about["answers"]]
    lines += [*told, "", f"Made by `{COMMAND}`; a page by `{COMMAND} NAME`, from the runs that are finished."]
    write_atomically(results / "README.md", "\n".join(lines) + "\n")
    return results / "README.md"
