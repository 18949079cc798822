"""Writes ``results/experiments/README.md``: which experiments have results, what they say, which are not yet run."""

import re
from pathlib import Path

from stapo_bench.runs import read_bounded, write_atomically
from stapo_bench.tasks import read_foreign_object
from stapo_train.experiments.design import HERE, load_experiment
from stapo_train.experiments.notices import restate
from stapo_train.experiments.pages import SUMMARY, unfinished

COMMAND = "stapo-bench experiment --page-only"


def write_index(results: Path) -> Path:
    """Write the list of all experiments of ``train/experiments``, from their pages' summaries."""
    lines = [
        "# Experiments on the tiny suite",
        "",
        "One page per question; each is a YAML file in `train/experiments/`, but for `mechanism`, which has no model. "
        "The models have up to 0.7 M parameters and do arithmetic and small puzzles: nothing here says anything about "
        "1.7B to 14B models. Commits that pages and manifests name, if they are older than the repository's history as "
        "it is published, cannot be looked up here: that history was written anew.",
        "",
        "| Experiment | Seeds | CPU-seconds | Question |",
        "|---|---|---|---|",
    ]
    told: list[str] = []
    found = {path.stem for path in HERE.glob("*.yaml")} | {path.parent.name for path in results.glob(f"*/{SUMMARY}")}
    for name in sorted(found, key="{}.yaml".format):  # as their files are listed
        summary = results / name / SUMMARY
        if not summary.is_file():
            lines.append(f"| {name} | **not run yet** | – | {load_experiment(name).question.strip()} |")
            continue
        about = read_foreign_object(summary)
        seeds = f"{len(about['seeds']['finished'])} of {len(about['seeds']['asked'])}"
        link = f"[{name}]({name}/page.md)"
        lines.append(f"| {link} | {seeds} | {about['cpu_s']:,} | {about['question'].strip()} |")
        told += ["", f"## {name}", ""]
        told += [unfinished(about), ""] if unfinished(about) else []
        for said in restate(results / name):
            # The index lies beside the pages' folders.
            told += [said.replace("](pred", f"]({name}/pred").replace("](../", "]("), ""]
        told += [f"- {answer}" for answer in about["answers"]]
        told += first_figure(results / name)
    lines += [*told, "", f"Made by `{COMMAND}`; a page by `{COMMAND} NAME`, from the runs that are finished."]
    write_atomically(results / "README.md", "\n".join(lines) + "\n")
    return results / "README.md"


def first_figure(folder: Path) -> list[str]:
    """The lines that show the first figure of an experiment's page on the list; none where it has none."""
    page = folder / "page.md"
    text = read_bounded(page).decode("utf-8") if page.is_file() else ""
    found = re.search(r"!\[([^\]]*)\]\(([\w-]+\.svg)\)", text)
    return ["", f"![{folder.name}: {found[1]}]({folder.name}/{found[2]})"] if found else []
