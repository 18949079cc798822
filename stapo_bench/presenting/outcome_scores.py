"""Scores of tables of outcomes, as Markdown or JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from stapo_bench.analysis import OutcomeScore, OutcomeScores, as_json
from stapo_bench.presenting.verdicts import clusters_of
from stapo_bench.presenting.words import markdown_line, markdown_table, percent, require_md_or_json, score_interval
from stapo_bench.statistics import ERROR_NAMES

_COLUMNS = ("Model", "Task", "problems × samples", "avg@k", *ERROR_NAMES, "undecided")


def render_outcome_scores(found: OutcomeScores, format_: str = "md") -> str:
    """avg@k of every model and task with both intervals, then how the tables were read and what they do not tell."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(as_json(asdict(found)), indent=2)
    return "\n".join(
        [
            "avg@k in percent, with 95 % intervals",
            "",
            *markdown_table(_COLUMNS, map(_cells, found.scores)),
            "",
            *(markdown_line(f"- {note}") for note in (*_clusters(found), *found.notes)),
        ]
    )


def _clusters(found: OutcomeScores) -> Iterator[str]:
    """A line per model and task whose items stand in clusters."""
    for score in found.scores:
        if score.clustering is not None:
            yield f"{score.model}, {score.task}: {clusters_of(score.clustering, what='the score of two items')}"


def _cells(score: OutcomeScore) -> list[str]:
    fewest, most = score.num_samples
    undecided = str(score.num_undecided)
    if score.num_undecided:
        undecided += f"; with them {score_interval(score.bounds)}"
    return [
        score.model,
        score.task,
        f"{score.num_problems} × {most}" if fewest == most else f"{score.num_problems} × {fewest} to {most}",
        percent(score.value),
        *(score_interval(score.intervals[error]) for error in ERROR_NAMES),
        undecided,
    ]
