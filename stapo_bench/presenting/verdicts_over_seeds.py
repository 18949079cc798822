"""Methods over training seeds in words: the verdict of every pair, then methods, differences and what they rest on."""

import json
import math
from collections.abc import Iterator
from typing import Any

from stapo_bench.analysis import MethodComparison, MethodScore, SeedComparison, as_json
from stapo_bench.presenting.verdicts import effect_cells, effect_interval
from stapo_bench.presenting.words import (
    counted,
    ends,
    markdown_line,
    markdown_table,
    percent,
    place_cell,
    points,
    require_md_or_json,
    score_interval,
    tie_meaning,
)
from stapo_bench.statistics import SEED_ERRORS, SeedsNeeded

MEANING = (
    "*Seeds like these*: the same problems, the trainings repeated. *Seeds and problems like these*: the problems new "
    "as well. Intervals are 95 %. *Rank*: places that no shown difference rules out."
)


def seeds_sentence(comparison: SeedComparison) -> str:
    """The verdict in words: the strongest claim that holds, under its named error."""
    a, b, seeds = comparison.name_a, comparison.name_b, _seeds(comparison)
    value = f"{points(comparison.effects[0].difference.value)} points"
    for effect in reversed(comparison.effects):
        if effect.verdict in ("better", "worse"):
            interval = effect_interval(effect)
            return f"{b} is {effect.verdict} than {a}: {value} {interval} on {effect.error} ({seeds})."
    for effect in reversed(comparison.effects):
        if effect.verdict == "tied":
            within = percent(effect.tied_within, 1)
            return f"{b} and {a} are tied within ±{within} points on {effect.error} ({value}, {seeds})."
    intervals = ", ".join(f"{effect_interval(e)} on {e.error}" for e in comparison.effects)
    return f"Not enough data to tell {b} from {a}: {value}, {intervals} ({seeds})."


def _seeds(comparison: SeedComparison) -> str:
    a, b = comparison.num_seeds
    return f"{a} seeds" if a == b else f"{b} and {a} seeds"


def render_methods(comparison: MethodComparison, format_: str = "md") -> str:
    """The comparison as Markdown, or as JSON (fractions, all digits)."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(_json(comparison), indent=2)
    return "\n".join(_markdown(comparison))


def _markdown(comparison: MethodComparison) -> Iterator[str]:
    for pair in comparison.pairs:
        yield markdown_line(f"**{seeds_sentence(pair)}**")
        yield ""
    yield from markdown_table(*method_table(comparison))
    yield ""
    yield pairs_about(comparison)
    yield ""
    yield from markdown_table(*pair_table(comparison))
    yield ""
    yield MEANING
    if comparison.notes:
        yield ""
        yield from (markdown_line(f"- {note}") for note in comparison.notes)


def method_table(comparison: MethodComparison) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: the methods, best first, with their tasks, average, spread over seeds, intervals and rank."""
    several = len(comparison.titles) > 1
    titles = list(comparison.titles.values())
    columns = ["Method", "seeds", *titles, *(["Avg"] if several else []), "SD over seeds", *SEED_ERRORS, "rank"]
    ordered = sorted(comparison.methods, key=lambda method: (-method.value, method.name))
    return columns, [_method_row(method, several) for method in ordered]


def _method_row(method: MethodScore, several: bool) -> list[str]:
    return [
        method.name,
        str(len(method.runs)),
        *(percent(value) for value in method.tasks.values()),
        *([percent(method.value)] if several else []),
        percent(method.deviation),
        *(score_interval(method.intervals[error]) for error in SEED_ERRORS),
        place_cell(*method.rank),
    ]


def pairs_about(comparison: MethodComparison) -> str:
    """What the table of pairs is about."""
    return (
        f"Differences in points; p and ties corrected for {counted(len(comparison.pairs), 'pair')} (Holm, Bonferroni); "
        f"{tie_meaning(comparison.margin)}; error: standard errors that come from the seeds and from the problems; "
        f"seeds for {100 * comparison.detect:g}: of each method, to show {100 * comparison.detect:g} points with 80 % "
        "power on each error, in brackets as far as these few seeds tell."
    )


def pair_table(comparison: MethodComparison) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: every pair with its difference under both errors, where the error comes from, seeds needed."""
    columns = ["B − A", "points", *(name for error in SEED_ERRORS for name in (error, "p", "verdict"))]
    columns += ["paired", "error: seeds", "error: problems"]
    columns += [f"seeds for {100 * comparison.detect:g}", "with problems"]
    return columns, [
        [
            f"{pair.name_b} − {pair.name_a}",
            points(pair.effects[0].difference.value),
            *(cell for effect in pair.effects for cell in effect_cells(effect)),
            "by seed" if pair.paired else "no",
            percent(pair.spread.seeds),
            percent(pair.spread.problems),
            *(_needed(needed[error]) for error in SEED_ERRORS),
        ]
        for pair, needed in zip(comparison.pairs, comparison.needed, strict=True)
    ]


def _needed(needed: SeedsNeeded) -> str:
    """The number of seeds with its range.

    >>> _needed(SeedsNeeded(number=10, fewest=6, most=math.inf)), _needed(SeedsNeeded(number=3, fewest=3, most=3))
    ('10 [6, –]', '3')
    """
    if math.isnan(needed.number):
        return "–"
    if math.isinf(needed.fewest):
        return "none is enough"
    number, fewest, most = (f"{n:.0f}" if math.isfinite(n) else "–" for n in _ends(needed))
    return number if fewest == most else f"{number} [{fewest}, {most}]"


def _ends(needed: SeedsNeeded) -> tuple[float, float, float]:
    return needed.number, needed.fewest, needed.most


def _json(comparison: MethodComparison) -> dict[str, Any]:
    return {
        "sentences": [seeds_sentence(pair) for pair in comparison.pairs],
        "margin": comparison.margin,
        "detect": comparison.detect,
        "methods": [_json_method(method) for method in comparison.methods],
        "pairs": [
            _json_pair(pair) | {"seeds_needed": {e: _json_needed(needed[e]) for e in SEED_ERRORS}}
            for pair, needed in zip(comparison.pairs, comparison.needed, strict=True)
        ],
        "notes": list(comparison.notes),
    }


def _json_method(method: MethodScore) -> dict[str, Any]:
    return {
        "method": method.name,
        "runs": list(method.runs),
        "seeds": list(method.seeds),
        "tasks": {task: as_json(value) for task, value in method.tasks.items()},
        "average": as_json(method.value),
        "sd_over_seeds": as_json(method.deviation),
        "intervals": {error: ends(i) for error, i in method.intervals.items()},
        "rank": list(method.rank),
    }


def _json_pair(pair: SeedComparison) -> dict[str, Any]:
    return {
        "a": pair.name_a,
        "b": pair.name_b,
        "effect": as_json(pair.effects[0].difference.value),
        "paired_by_seed": pair.paired,
        "errors": {
            effect.error: {
                "interval": ends(interval),
                "standard_error": as_json(effect.difference.standard_error),
                "p_adjusted": as_json(effect.p_adjusted),
                "tied_within": as_json(effect.tied_within),
                "verdict": effect.verdict,
            }
            for effect in pair.effects
            for interval in [effect.difference.interval()]
        },
        "error_from_seeds": as_json(pair.spread.seeds),
        "error_from_problems": as_json(pair.spread.problems),
    }


def _json_needed(needed: SeedsNeeded) -> dict[str, float | None]:
    """null: no number is enough, or nothing is known."""
    names = ("number", "fewest", "most")
    return {name: as_json(n if math.isfinite(n) else math.nan) for name, n in zip(names, _ends(needed), strict=True)}
