"""The paper's headline in words: how much better one method is than the strongest other one, in percent of it."""

import math
from collections.abc import Iterator, Sequence

from stapo_bench.analysis import Headline, headline, measured_headline, relative_gains
from stapo_bench.presenting.tables.blocks import TableBlock, same_line
from stapo_bench.presenting.tables.rows import Row
from stapo_bench.presenting.words import change_interval, signed
from stapo_bench.records import Outcomes
from stapo_bench.runs import load_run
from stapo_bench.statistics import Interval


def headline_lines(block: TableBlock) -> Iterator[str]:
    """The paper's headline, measured and published, for each regime that has it; measured, for each setting in it."""
    for sampling in dict.fromkeys(row.sampling for row in block.rows):
        rows = [row for row in block.rows if row.sampling == sampling]
        yield from _measured_headlines(block, [row for row in rows if row.counts is not None])
        for source in dict.fromkeys(row.source for row in rows if row.origin == "published"):
            averages: dict[str, dict[str, float]] = {}
            for row in rows:
                if row.source == source:
                    averages.setdefault(row.model or "", {})[row.method] = row.average.value
            if gains := relative_gains(averages):
                parts = ", ".join(f"{model} {100 * gain:+.2f} %" for model, gain in gains.items())
                mean = f"{100 * headline(averages):+.2f} % on average"
                yield (
                    f"published, {sampling}: relative gain of STAPO over the strongest other method: {mean} ({parts})"
                )


def _measured_headlines(block: TableBlock, rows: Sequence[Row]) -> Iterator[str]:
    """The headlines of measured rows of one regime."""
    settings = dict.fromkeys(row.setting for row in rows)
    for setting in settings:
        members = [row for row in rows if row.setting == setting]
        aims = {(_model(row), _method(row)): row.aim for row in members if row.aim is not None}
        runs, seeds = _runs(members)
        if (found := measured_headline(runs, aims=aims, seeds=seeds)) is not None:
            origin = "imported" if any(row.origin == "imported" for row in members) else "measured"
            about = [origin, setting.sampling]
            if len(settings) > 1:
                limit = setting.max_new_tokens
                about.append("token limit unknown" if limit is None else f"at most {limit} new tokens")
                about.append(f"grader {setting.grader}")
            if set(found.tasks) != set(block.tasks):
                about += [f"on {' and '.join(map(block.title, found.tasks))} alone"]
            yield f"{', '.join(about)}: {headline_line(found)}"


def _runs(rows: Sequence[Row]) -> tuple[dict[str, dict[str, dict[str, Outcomes]]], dict[tuple[str, str], int]]:
    """Measured runs by model and method, and the seeds of those whose samples are read.

    A model with two runs of one method is left out, for neither is "the" run.
    """
    runs: dict[str, dict[str, dict[str, Outcomes]]] = {}
    seeds: dict[tuple[str, str], int] = {}
    identities = [same_line(row) for row in rows]
    doubled = {row.model for row in rows if identities.count(same_line(row)) > 1}
    used = [row for row in rows if row.counts is not None and row.model not in doubled]
    drawn_with = [row.seed for row in used]
    for row in used:
        # Runs of one seed share their noise, which is in the order of their samples; elsewhere counts are enough.
        is_paired = row.folder is not None and row.seed is not None and drawn_with.count(row.seed) > 1
        runs.setdefault(_model(row), {})[_method(row)] = _outcomes(row, in_order=is_paired)
        if is_paired and row.seed is not None:
            seeds[_model(row), _method(row)] = row.seed
    return runs, seeds


def _outcomes(row: Row, *, in_order: bool) -> dict[str, Outcomes]:
    """A measured row's outcomes by task: from its samples, in their order, or from its counts."""
    if in_order and row.folder is not None and row.grades is not None:
        return dict(load_run(row.folder, row.grades).outcomes)
    return {task: Outcomes.of_counts(counts) for task, counts in (row.counts or {}).items()}


def _model(row: Row) -> str:
    return row.model or "model not stated"


def _method(row: Row) -> str:
    return "STAPO" if row.method.casefold() == "stapo" else row.method


def headline_line(found: Headline) -> str:
    """The measured headline in words."""
    parts = ", ".join(f"{m} {signed(gain, 2)} % over {found.strongest[m]}" for m, gain in found.gains.items())
    intervals = ", ".join(f"{_headline_interval(interval)} {error}" for error, interval in found.intervals.items())
    without = f"; left out: {', '.join(found.left_out)}" if found.left_out else ""
    mean = f"{signed(found.value, 2)} % on average"
    return f"relative gain of STAPO over the strongest other method: {mean}, {intervals} ({parts}{without})"


def _headline_interval(interval: Interval) -> str:
    """The interval in percent of the baseline, with signs."""
    unknown = math.isnan(interval.low)
    return "no interval (a baseline may be 0) for" if unknown else change_interval(interval)
