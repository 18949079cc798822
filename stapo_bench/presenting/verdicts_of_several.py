"""Several runs in words: who may be the best, groups that are not told apart, what is shown to be tied, every pair.

print(render_several(compare_several(read_sides(["a.csv", "b.csv", "c.csv"]))))
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stapo_bench.analysis import PairOfRuns, PairRisk, SeveralComparison, Standing, as_json, compare_several, runs_alike
from stapo_bench.errors import UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting.verdicts import clusters_of
from stapo_bench.presenting.words import (
    change_interval,
    counted,
    ends,
    markdown_line,
    markdown_table,
    p_value,
    percent,
    place_cell,
    points,
    require_md_or_json,
    tie_meaning,
    verdict_cell,
)
from stapo_bench.runs import load_run
from stapo_bench.statistics import ERROR_NAMES, ErrorName

SCHEMA = "stapo-bench/comparison-of-several/1"
_LISTED = 6  # pairs named of those whose sign could flip; the sentence counts all
GROUPS_MEANING = (
    "*Groups*: runs that share a letter are not told apart, which does not show that they are equal. *Place*: places "
    "that no shown difference rules out."
)


def render_several(found: SeveralComparison, format_: str = "md") -> str:
    """The comparison as Markdown, or as JSON (fractions, all digits)."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(_json(found), indent=2)
    return "\n".join(_markdown(found))


def render_standings(runs: Sequence[Path], grader: str = DEFAULT_GRADER) -> str:
    """Groups and places of run folders, a Markdown table for each way of evaluating that two of them share.

    Raises:
        UsageError: no two were evaluated alike.
    """
    parts = []
    for group in runs_alike([load_run(run, grader) for run in runs]):
        if len(group) > 1:
            found = compare_several(group)
            table = "\n".join(markdown_table(*standings_table(found)))
            parts += [markdown_line(f"**{several_sentence(found)}**"), table]
    if not parts:
        got = counted(len(runs), "run") + ", no two alike" * (len(runs) > 1)
        raise UsageError(f"--groups: expected two runs of the same tasks, decoding and grader, got {got}")
    return "\n\n".join([*parts, f"{GROUPS_MEANING} All pairs are judged together (max-t)."])


def several_sentence(found: SeveralComparison, error: ErrorName = "problems like these") -> str:
    """The verdict in words: who may be the best, or how the others stand to one of them."""
    standing, names = found.standings[error], [run.name for run in found.runs]
    unfair = f"Not a fair comparison, as {', '.join(found.unfair)} differ as well. " if found.unfair else ""
    if found.against is not None:
        return unfair + _against(found, standing, names) + _caution(found)
    first = [name for name, (best, _) in zip(names, standing.places, strict=True) if best == 1]
    if len(first) == 1:
        said = f"{first[0]} is the best of {len(names)} runs on {error}."
    elif len(first) == len(names):
        said = f"Any of the {len(names)} runs may be the best on {error}: none is shown to be better than another."
        if any(pair.verdict in ("better", "worse") for pair in standing.pairs):
            said = f"Any of the {len(names)} runs may be the best on {error}."
    else:
        said = f"Any of {len(first)} of {len(names)} runs may be the best on {error}: {', '.join(first)}."
    return unfair + said + "".join(f" {line}." for line in tied_lines(found, error)) + _caution(found)


def _caution(found: SeveralComparison) -> str:
    """Which runs lack samples, and what could turn signs; the numbers are among the notes."""
    lacking = found.unfinished
    cautions = [f"{', '.join(lacking)} {'lack' if len(lacking) > 1 else 'lacks'} samples"] if lacking else []
    if pairs := {(each.a, each.b) for each in found.risks}:
        whose = f"of {len(pairs)} of {counted(len(found.standings[ERROR_NAMES[0]].pairs), 'pair')}"
        cautions.append(f"the sign {whose} could flip with samples that are cut off, missing or ungraded")
    return f" With caution: {'; '.join(cautions)}." if cautions else ""


def _risk_lines(found: SeveralComparison) -> Iterator[str]:
    """What could turn the sign of which pairs, those that it moves furthest first."""
    by_kind: dict[str, list[PairRisk]] = {}
    for each in found.risks:
        by_kind.setdefault(each.risk.what, []).append(each)
    for what, risks in by_kind.items():
        risks.sort(key=lambda each: each.risk.lowest - each.risk.highest)
        pairs = [
            f"{_pair_name(found, each)} between {points(-each.risk.highest)} and {points(-each.risk.lowest)} points"
            for each in risks
        ]
        more = f" and {len(pairs) - _LISTED} more" if len(pairs) > _LISTED else ""
        yield f"{what} samples could flip the sign: {'; '.join(pairs[:_LISTED])}{more}"


def tied_lines(found: SeveralComparison, error: ErrorName) -> list[str]:
    """A line for each largest set of runs of which every two are shown to be tied."""
    return [
        f"Shown to be tied within ±{100 * found.margin:g} points: {', '.join(found.runs[i].name for i in group)}"
        for group in found.standings[error].tied
    ]


def letters(standing: Standing, num_runs: int) -> list[str]:
    """The letters of each run's groups, ``a`` of the highest; runs that share one are not told apart.

    >>> letters(Standing(pairs=(), groups=((0, 1), (1, 2)), tied=(), places=()), 3)
    ['a', 'ab', 'b']
    """
    named = [_letter(number) for number in range(len(standing.groups))]
    return [
        "".join(name for name, group in zip(named, standing.groups, strict=True) if i in group) for i in range(num_runs)
    ]


def _letter(number: int) -> str:
    """a to z, then a1 to z1 and so on."""
    return chr(ord("a") + number % 26) + (str(number // 26) if number >= 26 else "")


def standings_table(found: SeveralComparison) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: the runs, best first, with their tasks, average, and groups and places under both errors."""
    tasks = list(found.titles) if len(found.titles) > 1 else []
    columns = ["Run", *(found.titles[task] for task in tasks), "Avg"]
    grouped = found.against is None
    columns += [name for error in ERROR_NAMES for name in (f"groups: {error}", "place")] if grouped else []
    marks = {error: letters(found.standings[error], len(found.runs)) for error in ERROR_NAMES} if grouped else {}
    rows = []
    for i, run in enumerate(found.runs):
        row = [run.name, *(percent(run.tasks[task]) for task in tasks), percent(run.value)]
        for error, of_runs in marks.items():
            row += [of_runs[i], place_cell(*found.standings[error].places[i])]
        rows.append(row)
    return columns, rows


def pairs_of_several(found: SeveralComparison) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: every pair, higher minus lower, with its interval, p-value and verdict under both errors."""
    columns = ["A − B", "points", *(name for error in ERROR_NAMES for name in (error, "p", "verdict"))]
    both = zip(*(found.standings[error].pairs for error in ERROR_NAMES), strict=True)
    return columns, [
        [
            _pair_name(found, these),
            points(-these.joint.difference.value),
            *(cell for pair in (these, like) for cell in _cells(pair)),
        ]
        for these, like in both
    ]


def several_about(found: SeveralComparison) -> str:
    """What the table of pairs is about."""
    num = len(found.standings[ERROR_NAMES[0]].pairs)
    return (
        f"A = the higher, B = the lower; A − B in points, of the mean over {counted(len(found.titles), 'task')}; "
        f"intervals, p and ties of all {counted(num, 'pair')} hold together in 95 of 100 (max-t); "
        f"{tie_meaning(found.margin)}; paired by problem, over the problems that all runs have."
    )


def _against(found: SeveralComparison, standing: Standing, names: Sequence[str]) -> str:
    assert found.against is not None
    words: dict[str, list[str]] = {}
    for pair in standing.pairs:
        is_b = pair.b == found.against
        other = names[pair.a if is_b else pair.b]
        words.setdefault(_turned(pair.verdict) if is_b else pair.verdict, []).append(other)
    said = {
        "better": "better",
        "worse": "worse",
        "tied": f"tied within ±{100 * found.margin:g} points",
        "not enough data": "not told apart",
    }
    parts = [f"{said[verdict]}: {', '.join(words[verdict])}" for verdict in said if verdict in words]
    return f"Against {names[found.against]} on problems like these: {'; '.join(parts)}."


def _pair_name(found: SeveralComparison, pair: PairOfRuns | PairRisk) -> str:
    return f"{found.runs[pair.a].name} − {found.runs[pair.b].name}"


def _cells(pair: PairOfRuns) -> tuple[str, str, str]:
    """Of the higher minus the lower: interval, p, and the verdict on the higher."""
    interval = pair.joint.interval
    turned = type(interval)(low=-interval.high, high=-interval.low)
    verdict = verdict_cell(_turned(pair.verdict), pair.joint.tied_within)
    return change_interval(turned), p_value(pair.joint.p_adjusted), verdict


def _turned(verdict: str) -> str:
    """A verdict on B as one on A."""
    return {"better": "worse", "worse": "better"}.get(verdict, verdict)


def _markdown(found: SeveralComparison) -> Iterator[str]:
    yield markdown_line(f"**{several_sentence(found)}**")
    yield ""
    yield from markdown_table(*standings_table(found))
    if found.against is None:
        yield ""
        yield GROUPS_MEANING
    these = tied_lines(found, ERROR_NAMES[0])
    if these:
        yield ""
        yield from (markdown_line(f"On these problems: {line[0].lower()}{line[1:]}.") for line in these)
    yield ""
    yield several_about(found)
    yield ""
    yield from markdown_table(*pairs_of_several(found))
    if notes := notes_of_several(found):
        yield ""
        yield from (markdown_line(f"- {note}") for note in notes)


def notes_of_several(found: SeveralComparison) -> list[str]:
    """What could turn signs, what clusters cost, and what was left out."""
    about = [f"{found.titles[task]}: {clusters_of(*of_pairs)}" for task, of_pairs in found.clusterings.items()]
    return [*_risk_lines(found), *about, *found.notes]


def _json(found: SeveralComparison) -> dict[str, Any]:
    names = [run.name for run in found.runs]
    return {
        "schema": SCHEMA,
        "sentence": several_sentence(found),
        "runs": [
            {
                "run": run.name,
                "tasks": {task: as_json(value) for task, value in run.tasks.items()},
                "average": as_json(run.value),
            }
            for run in found.runs
        ],
        "against": None if found.against is None else names[found.against],
        "margin": found.margin,
        "fair": False if found.unfair else None if found.unknown else True,
        "unfair": list(found.unfair),
        "errors": {error: _json_standing(standing, names) for error, standing in found.standings.items()},
        "notes": notes_of_several(found),
    }


def _json_standing(standing: Standing, names: Sequence[str]) -> dict[str, Any]:
    return {
        "not_told_apart": [[names[i] for i in group] for group in standing.groups],
        "shown_to_be_tied": [[names[i] for i in group] for group in standing.tied],
        "places": dict(zip(names, map(list, standing.places), strict=True)) if standing.places else None,
        "pairs": [
            {
                "a": names[pair.a],
                "b": names[pair.b],
                "effect": as_json(pair.joint.difference.value),
                "interval": ends(pair.joint.interval),
                "standard_error": as_json(pair.joint.difference.standard_error),
                "p_adjusted": as_json(pair.joint.p_adjusted),
                "tied_within": as_json(pair.joint.tied_within),
                "num_problems": pair.joint.difference.num_problems,
                "verdict": pair.verdict,
            }
            for pair in standing.pairs
        ],
    }
