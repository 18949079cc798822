"""An experiment's page: question, verdict, figures, table with intervals, cost, command. Same runs, same bytes."""

import csv
import io
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from design import Experiment, plain_settings
from lanes import costs
from sections import SECTIONS
from steps import plan

from results import Results, counted
from stapo_bench.figures import MissingDataError, caption, save
from stapo_bench.figures.registry import REGISTRY
from stapo_bench.intervals import signed
from stapo_bench.manifest import load_manifest
from stapo_bench.over_seeds import SEED_ERRORS, means_by_task, over_seeds, seeds_sentence
from stapo_bench.paired import Difference
from stapo_bench.store import write_atomically


def write_page(experiment: Experiment, out: Path, folder: Path) -> Path:
    """Write ``folder``: page.md, table.csv, runs.csv, figures, manifests, and the trainings' configs and curves."""
    results = Results(experiment, out)
    folder.mkdir(parents=True, exist_ok=True)
    command = f"python scripts/experiments/run.py {experiment.name}"
    lines = [f"# {experiment.name}", "", f"**{experiment.question}**", ""]
    lines += [
        f"- {decoding}: {seeds_sentence(comparison)}"
        for decoding, found in results.comparisons.items()
        for comparison in found
        if comparison.name_b in experiment.told
    ]
    lines += ["", *_figures(results, folder, command)]
    if experiment.decodings:  # a search looks at trainings alone
        lines += [*_table(results), *_differences(results)]
    for name in experiment.sections:
        lines += ["", SECTIONS[name](results)]
    lines += ["", *_how(results, command)]
    write_atomically(folder / "page.md", "\n".join(lines) + "\n")
    write_atomically(folder / "table.csv", _csv(results))
    write_atomically(folder / "runs.csv", _runs(results))
    _keep(results, folder)
    return folder / "page.md"


def _figures(results: Results, folder: Path, command: str) -> Iterator[str]:
    for name in results.experiment.figures:
        if (missing := REGISTRY[name].lacks(results.sources)) is not None:
            raise MissingDataError(f"{results.experiment.name}: figure {name}: {missing}")
        save(name, results.sources, folder / f"{name}.svg", command)
        yield f"![{REGISTRY[name].title}]({name}.svg)"
        yield ""
        yield caption(name, results.sources)
        yield ""


def _table(results: Results) -> Iterator[str]:
    """Variants x tasks: means over seeds, and the average with its interval."""
    titles = [task.title for task in next(iter(next(iter(results.scores.values())).values()))[0].tasks]
    yield f"## avg@k in percent, mean of {len(results.experiment.used_seeds)} seeds"
    yield ""
    yield f"| Variant | Decoding | {' | '.join(titles)} | Average [{SEED_ERRORS[1]}] |"
    yield "|" + "---|" * (len(titles) + 3)
    for decoding, variant, tasks, average in _rows(results):
        cells = [f"{100 * value:.2f}" for value in tasks]
        yield f"| {variant} | {decoding} | {' | '.join(cells)} | {_level(average)} |"
    yield ""


def _rows(results: Results) -> Iterator[tuple[str, str, list[float], Difference]]:
    for decoding, by_variant in results.scores.items():
        for variant, scores in by_variant.items():
            levels = means_by_task([counted(score) for score in scores])
            yield decoding, variant, [float(np.nanmean(task)) for task in levels], over_seeds(levels, SEED_ERRORS[1])


def _differences(results: Results) -> Iterator[str]:
    reference = results.experiment.reference
    yield f"## Differences from {reference} in points, paired by seed and problem"
    yield ""
    yield f"| Variant | Decoding | {' | '.join(f'{error} | p (Holm)' for error in SEED_ERRORS)} | Verdict |"
    yield "|" + "---|" * (3 + 2 * len(SEED_ERRORS))
    for decoding, found in results.comparisons.items():
        for comparison in found:
            cells = [f"{_change(e.difference)} | {_p(e.p_adjusted)}" for e in comparison.effects]
            yield f"| {comparison.name_b} | {decoding} | {' | '.join(cells)} | {comparison.effects[1].verdict} |"


def _how(results: Results, command: str) -> Iterator[str]:
    experiment = results.experiment
    spent = costs(results.out)
    hours = sum(spent.get(name, 0.0) for name in plan(experiment, results.out)) / 3600
    yield "## How it was made"
    yield ""
    yield f"- Command: `{command}`; settings and curves of every training: `trainings/`; every run: `runs.csv`."
    yield f"- Cost: {hours:.1f} hours of CPU time, trainings shared with other experiments included."
    yield f"- Seeds ({experiment.seeds}): {', '.join(map(str, experiment.used_seeds))}. A seed decides the order of the"
    yield "  problems and every draw, and is the same for all variants; evaluations draw with it, too."
    yield "- One base model for all: intervals say nothing about another one, nor about larger models."
    yield "- Variants: " + "; ".join(f"{name}: {what}" for name, what in plain_settings(experiment).items()) + "."


def _csv(results: Results) -> str:
    """Fractions, all digits: levels, then differences from the reference."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["decoding", "variant", "minus", "error", "value", "low", "high", "p_holm", "verdict"])
    for decoding, variant, _, average in _rows(results):
        interval = average.interval()
        writer.writerow([decoding, variant, "", SEED_ERRORS[1], average.value, interval.low, interval.high, "", ""])
    for decoding, found in results.comparisons.items():
        for c in found:
            for e in c.effects:
                ends = e.difference.interval()
                row = [decoding, c.name_b, c.name_a, e.error, e.difference.value, ends.low, ends.high]
                writer.writerow([*row, e.p_adjusted, e.verdict])
    return text.getvalue()


def _runs(results: Results) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "variant", "seed", "step", "decoding", "average", "manifest_sha256", "commit"])
    for e in results.evaluations:
        manifest = load_manifest(e.folder)
        score = next(s for s in results.sources.scores if s.run == e.folder.name)
        row = [e.folder.name, e.training.variant, e.training.seed, "last" if e.step is None else e.step, e.decoding]
        writer.writerow([*row, score.macro.value, manifest.digest, manifest.about.get("commit") or ""])
    return text.getvalue()


def _keep(results: Results, folder: Path) -> None:
    """One manifest per way of decoding (the others differ in seed and weights, see runs.csv), each training's log."""
    for decoding in results.experiment.decodings:
        run = next(e.folder for e in results.evaluations if e.decoding == decoding)
        (folder / "manifests").mkdir(exist_ok=True)
        shutil.copy(run / "manifest.json", folder / "manifests" / f"{decoding}.json")
    for training in results.trainings:
        place = folder / "trainings" / training.folder.name
        place.mkdir(parents=True, exist_ok=True)
        for name in ("config.yaml", "metrics.jsonl"):
            shutil.copy(training.folder / name, place / name)


def _level(average: Difference) -> str:
    interval = average.interval()
    ends = "–" if math.isnan(interval.low) else f"{100 * interval.low:.1f}, {100 * interval.high:.1f}"
    return f"{100 * average.value:.2f} [{ends}]"


def _change(difference: Difference) -> str:
    interval = difference.interval()
    if math.isnan(interval.low):
        return f"{signed(difference.value)} [–]"
    return f"{signed(difference.value)} [{signed(interval.low)}, {signed(interval.high)}]"


def _p(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
