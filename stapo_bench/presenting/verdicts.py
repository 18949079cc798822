"""Comparisons in words: one sentence for a reader in a hurry, then the numbers.

print(render_comparison(compare_runs(before, after)))
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stapo_bench.analysis import Comparison, Effect, ParityDifference, TaskComparison
from stapo_bench.errors import UsageError
from stapo_bench.statistics import Interval, signed

_LISTED = 4  # confounders named in the sentence; all stand below it


def render_comparison(comparison: Comparison, format_: str = "md") -> str:
    """A comparison as Markdown, or as JSON (fractions, all digits)."""
    if format_ == "json":
        return json.dumps(_json(comparison), indent=2)
    if format_ != "md":
        raise UsageError(f"unknown format '{format_}': expected md or json")
    return "\n".join(_markdown(comparison))


def sentence(comparison: Comparison) -> str:
    """The verdict about the mean over tasks, downgraded by whatever differs besides the weights."""
    if comparison.same_weights:
        return _same_weights_sentence(comparison)
    doubtful = [item for item in comparison.parity if item.weight == "caution"]
    caution = f" With caution: {_fields(doubtful)} differ." if doubtful else ""
    return _verdict(comparison) + caution + _sign(comparison)


def _sign(comparison: Comparison) -> str:
    """What could turn the sign, in a few words; the numbers stand below."""
    places = dict.fromkeys(task.title for task in (*comparison.tasks, comparison.average) if task.warnings)
    found = [f"samples that are cut off or ungraded on {', '.join(places)}"] if places else []
    found += ["the choice of the grader"] if comparison.graders_disagree else []
    return f" The sign could flip with {' and '.join(found)} (below)." if found else ""


def _verdict(comparison: Comparison) -> str:
    average = comparison.average
    these, like = average.effects
    a, b = comparison.name_a, comparison.name_b
    gap = f"{points(like.difference.value)} points"
    if comparison.confounders:
        told = {"better": "higher", "worse": "lower"}.get(these.verdict, "neither clearly higher nor lower")
        return (
            f"Not a fair comparison: {b} scores {told} than {a} ({gap} {interval_text(these)} on these problems), "
            f"but {_fields(comparison.confounders)} differ as well, so this is no evidence about the weights."
        )
    if like.verdict in ("better", "worse"):
        return f"{b} is {like.verdict} than {a}: {gap} {interval_text(like)} on problems like these."
    if these.verdict in ("better", "worse"):
        return (
            f"{b} is {these.verdict} than {a} on these problems ({gap} {interval_text(these)}); "
            f"{_open_or_tied(like)} on problems like these ({interval_text(like)})."
        )
    for effect in (like, these):
        if effect.verdict == "tied":
            within = 100 * effect.difference.tied_within
            return (
                f"{b} and {a} are tied within ±{within:.1f} points on {effect.error} ({gap} {interval_text(effect)})."
            )
    return (
        f"Not enough data to tell {b} from {a}: {gap}, {interval_text(these)} on these problems, "
        f"{interval_text(like)} on problems like these."
    )


def points(fraction: float) -> str:
    """A difference of scores in percentage points, with its sign."""
    return "–" if math.isnan(fraction) else signed(fraction)


def interval_text(effect: Effect) -> str:
    return _range(effect.difference.interval())


def _range(interval: Interval) -> str:
    return "[–]" if math.isnan(interval.low) else f"[{signed(interval.low)}, {signed(interval.high)}]"


def _open_or_tied(effect: Effect) -> str:
    if effect.verdict == "tied":
        return f"tied within ±{100 * effect.difference.tied_within:.1f} points"
    return "not enough data"


def _same_weights_sentence(comparison: Comparison) -> str:
    """Nothing but the settings differ: an effect of decoding, or an A/A check."""
    these, like = comparison.average.effects
    effect = like if like.verdict in ("better", "worse") else these
    gap = f"{points(effect.difference.value)} points {interval_text(effect)} on {effect.error}"
    shown = effect.verdict in ("better", "worse")
    settings = [item for item in comparison.parity if item.weight != "note"]
    if settings:
        told = {"better": "scores higher", "worse": "scores lower"}.get(effect.verdict, "shows no clear effect")
        return f"Same weights under other settings ({_fields(settings)}): {comparison.name_b} {told}, {gap}."
    if shown:
        name_a, name_b = comparison.name_a, comparison.name_b
        return f"Same weights and settings, yet {name_b} differs from {name_a}: {gap}; audit both."
    return f"Same weights and settings, and no difference beyond chance: {gap}."


def _fields(differences: Sequence[ParityDifference]) -> str:
    names = [item.field for item in differences]
    more = f" and {len(names) - _LISTED} more fields" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield f"**{sentence(comparison)}**"
    yield ""
    yield (
        f"A = {comparison.name_a}, B = {comparison.name_b}; effect = B − A in points; p corrected for "
        f"{len(comparison.tasks)} tasks (Holm); tied: within ±{100 * comparison.margin:g} points; paired by problem"
        + (" and, as the seeds are equal, by sample." if comparison.same_seeds else ".")
    )
    yield ""
    if comparison.parity:
        yield "Besides the weights, these differ:"
        yield from (f"- {item.weight}: {item}" for item in comparison.parity)
    else:
        yield "Parity: nothing but the weights differs."
    yield ""
    yield "| Task | A | B | B − A | these problems | p | verdict | problems like these | p | verdict |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    rows = comparison.tasks if len(comparison.tasks) == 1 else (*comparison.tasks, comparison.average)
    yield from (_line(task) for task in rows)
    remarks = [f"{task.title}: {warning}" for task in rows for warning in task.warnings]
    if remarks or comparison.notes:
        yield ""
        yield from (f"- {remark}" for remark in (*remarks, *comparison.notes))


def _line(task: TaskComparison) -> str:
    cells = [task.title, f"{100 * task.value_a:.2f}", f"{100 * task.value_b:.2f}"]
    cells.append(points(task.effects[0].difference.value))
    for effect in task.effects:
        p = (
            "–"
            if math.isnan(effect.p_adjusted)
            else "<0.0001"
            if effect.p_adjusted < 1e-4
            else f"{effect.p_adjusted:.4f}"
        )
        tie = f" ±{100 * effect.difference.tied_within:.1f}" if effect.verdict == "tied" else ""
        cells += [interval_text(effect), p, effect.verdict + tie]
    return "| " + " | ".join(cells) + " |"


def _json(comparison: Comparison) -> dict[str, Any]:
    return {
        "sentence": sentence(comparison),
        "a": comparison.name_a,
        "b": comparison.name_b,
        "same_weights": comparison.same_weights,
        "fair": not comparison.confounders,
        "parity": [{"field": i.field, "a": i.a, "b": i.b, "weight": i.weight} for i in comparison.parity],
        "same_seeds": comparison.same_seeds,
        "margin": comparison.margin,
        "tasks": [_json_task(task) for task in comparison.tasks],
        "average": _json_task(comparison.average),
        "notes": list(comparison.notes),
    }


def _json_task(task: TaskComparison) -> dict[str, Any]:
    return {
        "task": task.task,
        "a": _number(task.value_a),
        "b": _number(task.value_b),
        "effect": _number(task.effects[0].difference.value),
        "errors": {effect.error: _json_effect(effect) for effect in task.effects},
        "warnings": list(task.warnings),
    }


def _json_effect(effect: Effect) -> Mapping[str, Any]:
    interval = effect.difference.interval()
    return {
        "interval": [_number(interval.low), _number(interval.high)],
        "standard_error": _number(effect.difference.standard_error),
        "p_adjusted": _number(effect.p_adjusted),
        "tied_within": _number(effect.difference.tied_within),
        "num_problems": effect.difference.num_problems,
        "verdict": effect.verdict,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
