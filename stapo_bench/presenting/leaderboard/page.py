"""The page: one HTML file without a script that needs no network, in light and dark.

A place is every one that no shown difference rules out, and runs that share a letter are not told apart; all pairs are
judged together, so that equal models share their place in 95 of 100 leaderboards (``stapo_bench.statistics.several``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench import __version__
from stapo_bench.analysis import SeveralComparison, average_of_table, compare_several, read_sides
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.report.page import PAGE_BEGINS, content_policy, page_template
from stapo_bench.presenting.tables.rows import Row, rows_from_runs
from stapo_bench.presenting.verdicts_of_several import (
    letters,
    notes_of_several,
    pairs_of_several,
    several_about,
    several_sentence,
)
from stapo_bench.presenting.words import counted, percent, place_cell, score_interval
from stapo_bench.runs import LoadedRun, nothing_left_behind, refuse_foreign, write_result
from stapo_bench.runs.outcomes import ColumnsOf, OutcomeTable, ScoreRange
from stapo_bench.statistics import ErrorName, Interval

_FOLDER = Path(__file__).resolve().parent
_STYLE = _FOLDER.parent / "report" / "style.css"
ERROR: ErrorName = "problems like these"
"""What places and groups are about: the models, and not these problems alone."""
_UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A score with its interval on a scale from 0 to 100, where it is known."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One run as the page shows it."""

    place: str
    is_first: bool  # no shown difference rules the first place out
    groups: tuple[str, ...]  # by group of the page: its letter, or "" where the run is not in it
    name: str
    model: str
    setting: str  # how its samples were drawn
    origin: str
    average: str
    interval: str
    bar: Bar | None
    tasks: tuple[str, ...]
    details: str


def write_leaderboard(
    runs: Sequence[Path],
    out: Path,
    grader: str = DEFAULT_GRADER,
    *,
    columns: ColumnsOf | None = None,
    declared: ScoreRange | None = None,
) -> int:
    """Write the page; returns its size in bytes.

    Args:
        runs: run folders and tables of outcomes; a table alone gives every model in it.
        out: the page.
        grader: whose grades count in run folders.
        columns, declared: of tables, as of ``read_sides``.

    Raises:
        StapoError: fewer than two runs, no task in common, or runs without grades by this grader.
    """
    refuse_foreign(out, PAGE_BEGINS)
    page = render_leaderboard(runs, grader, columns=columns, declared=declared)
    with nothing_left_behind(out.parent):
        write_result(out, page)
    return out.stat().st_size


def render_leaderboard(
    runs: Sequence[Path],
    grader: str = DEFAULT_GRADER,
    *,
    columns: ColumnsOf | None = None,
    declared: ScoreRange | None = None,
) -> str:
    """The page as text; see ``write_leaderboard``."""
    sides = read_sides(list(runs), columns, grader, declared=declared)
    found = compare_several(sides)
    folders = [side.manifest.run_dir for side in sides if isinstance(side, LoadedRun)]
    rows = rows_from_runs(folders, grader=grader)
    by_name = {name: row for folder, row in zip(folders, rows, strict=True) for name in (row.source, str(folder))}
    scores = {name: (row.average.value, row.average.problems_like_these) for name, row in by_name.items()}
    for side in sides:
        if isinstance(side, OutcomeTable):
            scores |= dict.fromkeys((side.name, side.origin), average_of_table(side))
    style = "\n".join(path.read_text(encoding="utf-8") for path in (_STYLE, _FOLDER / "style.css"))
    return page_template(_FOLDER).render(
        title=f"{counted(len(found.runs), 'run')} on {', '.join(found.titles.values())}",
        policy=content_policy([], [style]),
        style=style,
        sentence=several_sentence(found, ERROR),
        entries=_entries(found, by_name, scores),
        num_groups=len(found.standings[ERROR].groups),
        titles=list(found.titles.values()),
        several_tasks=len(found.titles) > 1,
        pairs=pairs_of_several(found),
        pairs_about=several_about(found),
        notes=notes_of_several(found),
        grader=next((row.grader for row in rows if row.grader), ""),
        software=f"stapo-bench {__version__}",
    )


def _entries(
    found: SeveralComparison, rows: Mapping[str, Row], scores: Mapping[str, tuple[float, Interval]]
) -> list[Entry]:
    standing = found.standings[ERROR]
    marks = letters(standing, len(found.runs))
    intervals = [_interval(scores.get(run.name), run.value) for run in found.runs]
    lowest = min([*(run.value for run in found.runs), *(i.low for i in intervals if i is not None)])
    highest = max([*(run.value for run in found.runs), *(i.high for i in intervals if i is not None)])
    span = (highest - lowest) or 1.0

    def at(value: float) -> float:
        return round(100.0 * (value - lowest) / span, 1)

    entries = []
    for number, (run, interval) in enumerate(zip(found.runs, intervals, strict=True)):
        row = rows.get(run.name)
        bar = None if interval is None else Bar(value=at(run.value), low=at(interval.low), high=at(interval.high))
        entries.append(
            Entry(
                place=place_cell(*standing.places[number]),
                is_first=standing.places[number][0] == 1,
                groups=_letters_by_group(standing.groups, number, marks[number]),
                name=run.name,
                model=(row.model if row else None) or _UNKNOWN,
                setting=_setting(row),
                origin=row.origin if row else "a table",
                average=percent(run.value),
                interval="–" if interval is None else score_interval(interval),
                bar=bar,
                tasks=tuple(percent(run.tasks[task]) for task in found.titles),
                details=row.details if row else "a table of outcomes, which says nothing of how they came about",
            )
        )
    return entries


def _interval(score: tuple[float, Interval] | None, value: float) -> Interval | None:
    """A run's own interval, where it is about the very problems that all runs share."""
    return None if score is None or abs(score[0] - value) > 1e-9 else score[1]


def _letters_by_group(groups: Sequence[Sequence[int]], number: int, mark: str) -> tuple[str, ...]:
    """A run's letters, each in its group's column; "" elsewhere."""
    own = iter(re.findall(r"[a-z]\d*", mark))
    return tuple(next(own) if number in group else "" for group in groups)


def _setting(row: Row | None) -> str:
    if row is None:
        return _UNKNOWN
    limit = _UNKNOWN if row.max_new_tokens is None else str(row.max_new_tokens)
    return f"{row.sampling}, token limit {limit}"
