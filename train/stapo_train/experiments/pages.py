"""Writes an experiment's page: question, verdicts, figures, table with intervals, cost, command; deterministic."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stapo_bench.analysis import means_by_task
from stapo_bench.presenting import percent, score_interval, seeds_sentence
from stapo_bench.presenting.figures import caption, save
from stapo_bench.presenting.figures.registry import REGISTRY
from stapo_bench.runs import load_manifest, write_atomically
from stapo_bench.statistics import MARGIN, SEED_ERRORS, Difference, over_seeds
from stapo_bench.tasks import read_foreign_object
from stapo_train.experiments.archive import TRAININGS, unpack, write_trainings
from stapo_train.experiments.design import Experiment, in_words
from stapo_train.experiments.findings import ARCHIVED_OUT, Archived, Findings, counted
from stapo_train.experiments.notices import notices
from stapo_train.experiments.provenance import how, provenance
from stapo_train.experiments.section import in_cells
from stapo_train.experiments.sections import SECTIONS

SUMMARY = "summary.json"
"""File in a page's folder with the summary that the index shows."""


def write_page(experiment: Experiment, out: Path, folder: Path) -> Path:
    """Write ``folder`` from what is finished: page.md, tables, figures, manifest, the trainings' configs and curves.

    A page of trainings alone whose runs are not in ``out`` is written again from the curves that it keeps itself.

    Raises:
        StapoError: nothing is finished yet.
    """
    findings = Findings(experiment, out)
    if not (findings.variants or experiment.decodings) and (folder / TRAININGS).is_file():
        with TemporaryDirectory() as there:
            unpack(folder, Path(there))
            about = {**read_foreign_object(folder / "manifest.json"), "question": experiment.question}
            return _write(Archived(experiment, ARCHIVED_OUT, unpacked=Path(there)), about, folder)
    findings.check()
    folder.mkdir(parents=True, exist_ok=True)
    write_trainings({training.folder.name: training.folder for training in findings.trainings}, folder)
    return _write(findings, provenance(findings, f"stapo-bench experiment {experiment.name}"), folder)


def _write(findings: Findings, about: dict[str, Any], folder: Path) -> Path:
    experiment, command = findings.experiment, about["command"]
    verdicts = [
        f"{in_words(decoding)}: {seeds_sentence(comparison)}"
        for decoding, found in findings.comparisons.items()
        for comparison in found
        if comparison.name_b in findings.told
    ]
    verdicts += [
        f"{variant} and {other} are one training here: the same weights, bit for bit, with every seed."
        for variant, other in findings.same.items()
    ]
    sections = [SECTIONS[name](findings, folder) for name in experiment.sections]
    answers = [*verdicts, *(answer for section in sections for answer in section.answers)]
    if "verdict" in experiment.sections:  # in a sentence; the others stand in the tables
        answers = list(sections[experiment.sections.index("verdict")].answers)
    lines = [f"# {experiment.name}", "", f"**{experiment.question}**", ""]
    if missing := unfinished(about):
        lines += [missing, ""]
    for said in notices(about, folder):
        lines += [said, ""]
    lines += [*(f"- {answer}" for answer in answers), "", *_figures(findings, folder, command)]
    if experiment.decodings:  # a search has trainings only
        lines += [*_table(findings), *_differences(findings), ""]
    for section in sections:
        lines += [section.text, ""] if section.text else []
    write_atomically(folder / "page.md", "\n".join([*lines, *how(findings, about)]) + "\n")
    if experiment.decodings:
        write_atomically(folder / "table.csv", _csv(findings))
        write_atomically(folder / "runs.csv", _runs(findings))
    write_atomically(folder / "manifest.json", json.dumps(about, indent=1) + "\n")
    shown = {name: about[name] for name in ("question", "seeds", "not_run")}
    cpu_s = round(sum(about["cpu_s"].values()))
    write_atomically(folder / SUMMARY, json.dumps({**shown, "cpu_s": cpu_s, "answers": answers}, indent=1) + "\n")
    return folder / "page.md"


def unfinished(about: Mapping[str, Any]) -> str:
    """What is missing, in words; empty if nothing is."""
    asked, finished = (len(about["seeds"][name]) for name in ("asked", "finished"))
    parts = [f"{finished} of {asked} seeds are finished"] if finished < asked else []
    if about["not_run"]:
        parts.append(f"not run yet: {', '.join(about['not_run'])}")
    return f"**Partial: {'; '.join(parts)}.**" if parts else ""


def _figures(findings: Findings, folder: Path, command: str) -> Iterator[str]:
    for name in findings.experiment.figures:
        if (missing := REGISTRY[name].lacks(findings.sources)) is not None:
            yield f"{REGISTRY[name].title}: not drawn, {missing}."
        else:
            save(name, findings.sources, folder / f"{name}.svg", command)
            yield f"![{REGISTRY[name].title}]({name}.svg)"
            yield ""
            yield caption(name, findings.sources)
        yield ""


def _table(findings: Findings) -> Iterator[str]:
    """Variants x tasks: means over seeds, and the average with its interval."""
    titles = [task.title for task in next(iter(next(iter(findings.scores.values())).values()))[0].tasks]
    yield f"## avg@k in percent, mean of {len(findings.seeds)} seeds"
    yield ""
    yield f"| Variant | Decoding | {' | '.join(titles)} | Average [{SEED_ERRORS[1]}] |"
    yield "|" + "---|" * (len(titles) + 3)
    for decoding, variant, tasks, average in _rows(findings):
        cells = [f"{100 * value:.2f}" for value in tasks]
        yield f"| {variant} | {in_words(decoding)} | {' | '.join(cells)} | {_level(average)} |"
    yield ""


def _rows(findings: Findings) -> Iterator[tuple[str, str, list[float], Difference]]:
    for decoding, by_variant in findings.scores.items():
        for variant, scores in by_variant.items():
            levels = means_by_task([counted(score) for score in scores])
            yield decoding, variant, [float(np.nanmean(task)) for task in levels], over_seeds(levels, SEED_ERRORS[1])


def _differences(findings: Findings) -> Iterator[str]:
    reference = findings.experiment.reference
    if not any(findings.comparisons.values()):
        yield f"No differences from {reference}: it needs a finished seed, and another variant."
        return
    yield f"## Differences from {reference} in points, paired by seed and problem"
    yield ""
    yield f"| Variant | Decoding | {' | '.join(f'{error} | p (Holm)' for error in SEED_ERRORS)} | Verdict |"
    yield "|" + "---|" * (3 + 2 * len(SEED_ERRORS))
    for decoding, found in findings.comparisons.items():
        for comparison in found:
            same = findings.same.get(comparison.name_b) == reference
            verdict = "same weights" if same else comparison.effects[1].verdict
            yield f"| {comparison.name_b} | {in_words(decoding)} | {in_cells(comparison)} | {verdict} |"
    yield ""
    yield (
        f"95 % intervals, each for itself; p by Holm over the variants of a way of decoding. The verdict is that on "
        f"{SEED_ERRORS[1]}. Better or worse: p below 5 %. Tied: not that, and shown to differ by less than "
        f'{100 * MARGIN:g} points (two one-sided tests at 5 %; "tied within" is the least margin for which they do).'
    )


def _csv(findings: Findings) -> str:
    """Fractions, all digits: levels, then differences from the reference."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["decoding", "variant", "minus", "error", "value", "low", "high", "p_holm", "verdict"])
    for decoding, variant, _, average in _rows(findings):
        interval = average.interval()
        writer.writerow([decoding, variant, "", SEED_ERRORS[1], average.value, interval.low, interval.high, "", ""])
    for decoding, found in findings.comparisons.items():
        for c in found:
            for e in c.effects:
                ends = e.difference.interval()
                row = [decoding, c.name_b, c.name_a, e.error, e.difference.value, ends.low, ends.high]
                writer.writerow([*row, e.p_adjusted, e.verdict])
    return text.getvalue()


def _runs(findings: Findings) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "variant", "seed", "decoding", "average", "grader", "manifest_sha256", "commit"])
    for e in findings.evaluations:
        manifest = load_manifest(e.folder)
        score = next(s for s in findings.sources.scores if s.run == e.folder.name)
        row = [e.folder.name, e.training.variant, e.training.seed, e.decoding, score.macro.value, score.grader]
        writer.writerow([*row, manifest.digest, manifest.about.commit or ""])
    return text.getvalue()


def _level(average: Difference) -> str:
    return f"{percent(average.value)} {score_interval(average.interval())}"
