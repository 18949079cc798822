"""One run in words: its other metrics, its cut-off samples, its scores without known problems, and its audit."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from stapo_bench.analysis import AuditCheck, RunScore, TaskScore, TaskTruncation, WithAndWithout
from stapo_bench.errors import safe_text
from stapo_bench.presenting.words import (
    METRIC_MEANINGS,
    counted,
    markdown_line,
    markdown_row,
    markdown_table,
    percent,
    require_md_or_json,
    score_interval,
)
from stapo_bench.runs.importing import Imported
from stapo_bench.statistics import TAUS


def render_metrics(score: RunScore) -> str:
    """The metrics beside avg@k at their largest k, as Markdown.

    Tasks are left out before every problem has two decided samples; "" where that is all of them.
    """
    tasks = [task for task in score.tasks if task.stability]
    if not tasks:
        return ""
    lines = [
        "**The same samples otherwise: percent, at the largest k; every k is in scores.json**",
        "",
        "| Task | pass@k | pass^k | G-Pass@k, τ = " + ", ".join(f"{tau:g}" for tau in TAUS) + " | mG-Pass@k | maj@k |",
        "|---|---|---|---|---|---|",
        *map(_metrics_row, tasks),
        "",
        *(markdown_line(f"- {line}") for task in tasks for line in _declared(task)),
        *(f"- {line}" for line in METRIC_MEANINGS.values()),
    ]
    return "\n".join(lines)


def _metrics_row(task: TaskScore) -> str:
    k = max(task.pass_at)
    *shares, mean = task.stability.items()
    cells = [
        task.title,
        f"{percent(task.pass_at[k])} @{k}",
        f"{percent(task.pass_hat[k])} @{k}",
        ", ".join(percent(value) for _, value in shares) + f" @{_k(mean[0])}",
        f"{percent(mean[1])} @{_k(mean[0])}",
        *(f"{percent(value)} @{k}" for k, value in task.maj_at.items()),
    ]
    return markdown_row(cells)


def _k(name: str) -> str:
    """The 8 of ``G-Pass@8``."""
    return name.split("@")[1]


def _declared(task: TaskScore) -> Iterator[str]:
    """What the estimates rest on, where it is not k decided samples of every problem."""
    decided = [number for _, number in task.counts.values()]
    some = [number for number in decided if number]
    if min(some) < max(some):
        yield f"{task.title}: problems have {min(some)} to {max(some)} decided samples; k is at most the fewest"
    if len(some) < len(decided):
        yield f"{task.title}: {len(decided) - len(some)} of {len(decided)} problems have none and are left out"


def render_truncation(tasks: Sequence[TaskTruncation]) -> str:
    """Two Markdown tables: the bounds, and the curve."""
    bounds = [
        "| Task | samples | cut off | as graded | cut = wrong | cut left out | cut = right |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            markdown_row(
                [
                    t.title,
                    str(t.num_samples),
                    _cut_share(t),
                    *map(percent, (t.score, t.cut_wrong, t.cut_excluded, t.cut_right)),
                ]
            )
            for t in tasks
        ),
    ]
    lines = ["avg@k in percent, with the cut-off samples", "", *bounds, ""]
    if any(not t.curve for t in tasks):
        return "\n".join([*lines, "Numbers of tokens are not known of these samples: no curve over smaller limits."])
    limits = [budget for budget, _ in tasks[0].curve] if tasks else []
    rows = ([t.title, *(percent(value) for _, value in t.curve)] for t in tasks)
    curve = markdown_table(["Task", *map(str, limits)], rows)
    smaller = "avg@k in percent if the limit had been smaller (longer samples counted wrong: a lower bound)"
    return "\n".join([*lines, smaller, "", *curve])


def _cut_share(task: TaskTruncation) -> str:
    """Cut-off samples in percent of all."""
    if task.num_cut is None:
        return "unknown"
    return percent(task.num_cut / task.num_samples if task.num_samples else math.nan)


def render_without(scores: Sequence[WithAndWithout]) -> str:
    """A Markdown table: scores with and without the problems that a training set holds."""
    lines = [
        "avg@k in percent [95 %: problems like these], with and without the problems that the training set holds",
        "",
        "| Task | problems | excluded | with them | without them |",
        "|---|---:|---:|---|---|",
    ]
    for score in scores:
        cells = (
            score.all.title,
            score.all.num_problems_expected,
            score.num_excluded,
            _score_cell(score.all),
            _score_cell(score.clean),
        )
        lines.append(markdown_row([*map(str, cells)]))
    return "\n".join(lines)


def _score_cell(score: TaskScore) -> str:
    """avg@k with its interval for problems like these."""
    if not score.num_problems:
        return "–"
    return f"{percent(score.value)} {score_interval(score.problems_like_these)}"


def render_import(imported: Imported) -> str:
    """What an import did: where the samples came from, what was left out, what is not known."""
    manifest = imported.manifest
    sampling, about = manifest.identity.sampling, manifest.about
    tasks = ", ".join(f"{task.title} {task.num_problems}×{task.num_samples}" for task in about.tasks.values())
    unknown = [
        name.replace("_", " ").replace("max new tokens", "token limit")
        for name in ("temperature", "top_p", "max_new_tokens")
        if getattr(sampling, name) is None
    ]
    unknown += ["model"] if about.model is None else []
    lines = [
        f"{imported.num_samples} samples imported from {counted(len(about.imported or ()), 'file')} of "
        f"{manifest.imported} to {manifest.run_dir}: {tasks}",
        *(f"- {note}" for note in imported.notes),
    ]
    if unknown:
        options = "--model, --decoding, --temperature, --top-p, --max-new-tokens"
        lines.append(
            f"- not known: {', '.join(unknown)}; where you know, say so when importing into another --out ({options})"
        )
    if imported.graders:
        lines.append(f"- verdicts that came along are graders of their own: {', '.join(imported.graders)}")
    if imported.grader is None:
        lines.append("- there are neither golds nor verdicts: nothing can be scored")
    return "\n".join(safe_text(line, "terminal") for line in lines)


def render_audit(checks: Sequence[AuditCheck], format_: str = "md") -> str:
    """The checks of an audit as Markdown (findings first) or JSON."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps([asdict(check) for check in checks], indent=2)
    order = ("finding", "not testable", "ok")
    found = [check.name for check in checks if check.result == "finding"]
    first = f"{len(found)} of {len(checks)} checks found something: {', '.join(found)}." if found else "Nothing found."
    ordered = sorted(checks, key=lambda c: order.index(c.result))
    lines = [markdown_line(f"- {c.result}: {c.name}: {c.message}") for c in ordered]
    return "\n".join([f"**{first}**", "", *lines])
