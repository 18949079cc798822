"""Comparisons in words: one sentence for a reader in a hurry, then the numbers.

print(render_comparison(compare_runs(before, after)))
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stapo_bench.analysis import Comparison, Effect, ParityDifference, SignRisk, TaskComparison, as_json
from stapo_bench.presenting.parity_words import parity_lines, shown_confounders, shown_parity
from stapo_bench.presenting.words import (
    change_interval,
    counted,
    ends,
    from_to,
    markdown_line,
    markdown_table,
    p_value,
    percent,
    points,
    require_md_or_json,
    tie_meaning,
    verdict_cell,
)
from stapo_bench.statistics import FEW_PAIRS, Clustering

SCHEMA = "stapo-bench/comparison/1"
"""Name and version of what ``comparison_as_json`` makes; the file beside this module describes it."""

_LISTED = 4  # confounders named in the sentence; all stand below it


def render_comparison(comparison: Comparison, format_: str = "md") -> str:
    """A comparison as Markdown, or as JSON (fractions, all digits)."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(comparison_as_json(comparison), indent=2)
    return "\n".join(_markdown(comparison))


def sentence(comparison: Comparison) -> str:
    """The verdict about the mean over tasks, downgraded by whatever differs besides the weights."""
    if comparison.same_weights:
        return _same_weights_sentence(comparison) + _drift(comparison)
    cautions = []
    if doubtful := [item for item in comparison.parity if item.weight == "caution"]:
        cautions.append(f"{_fields(doubtful)} differ")
    if unknown := [item for item in shown_parity(comparison) if item.weight == "unknown"]:
        named = _fields(unknown) if len(unknown) <= _LISTED else f"{len(unknown)} settings (below)"
        cautions.append(f"{named} are not known of both and may differ")
    if lacking := comparison.unfinished:
        cautions.append(f"{' and '.join(lacking)} {'lack' if len(lacking) > 1 else 'lacks'} samples (below)")
    caution = f" With caution: {'; '.join(cautions)}." if cautions else ""
    return _verdict(comparison) + caution + _sign(comparison)


def sign_risk(risk: SignRisk) -> str:
    """What samples that are open could do to the sign."""
    return (
        f"{risk.what} samples ({percent(risk.share_a, 1)} % of A, {percent(risk.share_b, 1)} % of B) could flip the "
        f"sign: between {points(risk.lowest)} and {points(risk.highest)} points"
    )


def single_samples(task: TaskComparison, num_tasks: int) -> Iterator[str]:
    """Of how many problems one run alone has the one sample right, and what follows for the test; nothing otherwise.

    ``num_tasks``: whose p-values stand together, corrected for one another.
    """
    if (pairs := task.effects[0].difference.pairs or task.effects[1].difference.pairs) is None:
        return
    said = f"one sample per problem: B alone is right on {pairs.wins}, A alone on {pairs.losses}"
    has_p = any(each.difference.pairs and not math.isnan(each.difference.p_value) for each in task.effects)
    if sum(pairs) < FEW_PAIRS and has_p:
        corrected = f" before Holm's correction for {num_tasks} tasks" if num_tasks > 1 else ""
        said += f" (exact test, McNemar's mid-p; no p below {p_value(pairs.smallest_p)} could have come out{corrected})"
    yield said


def clusters_of(*pairs: Clustering, what: str = "B − A of two items") -> str:
    """How far items of one cluster hang together, and what it costs the interval: of two runs, or every two of them."""
    alike = from_to((found.correlation for found in pairs), digits=2)
    effect = from_to((found.design_effect for found in pairs), digits=1)
    first = pairs[0]
    return (
        f"{counted(first.num_clusters, 'cluster')} of up to {counted(first.largest, 'item')} are what varies on "
        f"problems like these: {what} in one correlates by {alike}, design effect {effect} (its variance "
        "over that of independent items)"
    )


def _sign(comparison: Comparison) -> str:
    """What could turn the sign, in a few words; the numbers stand below."""
    places = dict.fromkeys(task.title for task in (*comparison.tasks, comparison.average) if task.warnings)
    found = [f"samples that are cut off, missing or ungraded on {', '.join(places)}"] if places else []
    found += ["the choice of the grader"] if comparison.graders_disagree else []
    return f" The sign could flip with {' and '.join(found)} (below)." if found else ""


def _verdict(comparison: Comparison) -> str:
    average = comparison.average
    these, like = average.effects
    a, b = comparison.name_a, comparison.name_b
    gap = f"{points(like.difference.value)} points"
    if comparison.confounders:
        where = {"better": "higher", "worse": "lower"}.get(these.verdict, "neither clearly higher nor lower")
        return (
            f"Not a fair comparison: {b} scores {where} than {a} ({gap} {effect_interval(these)} on these problems), "
            f"but {_fields(shown_confounders(comparison))} differ as well, so this is no evidence about the weights."
        )
    if like.verdict in ("better", "worse"):
        return f"{b} is {like.verdict} than {a}: {gap} {effect_interval(like)} on problems like these."
    if these.verdict in ("better", "worse"):
        return (
            f"{b} is {these.verdict} than {a} on these problems ({gap} {effect_interval(these)}); "
            f"{_open_or_tied(like)} on problems like these ({effect_interval(like)})."
        )
    for effect in (like, these):
        if effect.verdict == "tied":
            within = percent(effect.tied_within, 1)
            interval = f"95 % interval {effect_interval(effect)}"  # ±within is of another kind, see ``tie_meaning``
            tie = f"{b} and {a} are tied within ±{within} points on {effect.error} ({gap}, {interval})"
            num = like.difference.num_problems
            too_few = f"; {num} problems are too few to say so of problems like these ({effect_interval(like)})"
            return f"{tie}{too_few if effect is these else ''}."
    return (
        f"Not enough data to tell {b} from {a}: {gap}, {effect_interval(these)} on these problems, "
        f"{effect_interval(like)} on problems like these."
    )


def effect_interval(effect: Effect) -> str:
    """The 95 % interval of an effect, in points."""
    return change_interval(effect.difference.interval())


def effect_cells(effect: Effect) -> tuple[str, str, str]:
    """An effect in a table: interval, corrected p-value, verdict."""
    verdict = verdict_cell(effect.verdict, effect.tied_within)
    return effect_interval(effect), p_value(effect.p_adjusted), verdict


def _open_or_tied(effect: Effect) -> str:
    if effect.verdict == "tied":
        return f"tied within ±{percent(effect.tied_within, 1)} points"
    return "not enough data"


def _same_weights_sentence(comparison: Comparison) -> str:
    """The sentence where only settings differ: an effect of decoding, or an A/A check."""
    these, like = comparison.average.effects
    order = [(effect, verdict) for verdict in ("better", "worse", "tied") for effect in (like, these)]
    effect = next((effect for effect, verdict in order if effect.verdict == verdict), these)
    gap = f"{points(effect.difference.value)} points {effect_interval(effect)} on {effect.error}"
    tied = _open_or_tied(effect)
    if settings := _settings(comparison):
        words = {"better": "scores higher", "worse": "scores lower", "tied": f"is {tied}"}
        does = words.get(effect.verdict, "shows no clear effect")
        return f"Same weights under other settings ({_fields(settings)}): {comparison.name_b} {does}, {gap}."
    if effect.verdict in ("better", "worse"):
        name_a, name_b = comparison.name_a, comparison.name_b
        return f"Same weights and settings, yet {name_b} differs from {name_a}: {gap}; audit both."
    found = tied if effect.verdict == "tied" else "no difference beyond chance"
    return f"Same weights and settings, and {found}: {gap}."


def _drift(comparison: Comparison) -> str:
    """What samples say against settings that are stated to be the same."""
    if comparison.drift is None:
        return ""
    reason = "" if _settings(comparison) else ", so one of them was not drawn as its settings say"
    return f" Their samples differ beyond chance: {comparison.drift}{reason}."


def _settings(comparison: Comparison) -> list[ParityDifference]:
    """What differs besides the weights, or may, and may move samples: all but the seed."""
    return [item for item in comparison.parity if item.weight != "note"]


def _fields(differences: Sequence[ParityDifference]) -> str:
    names = [item.field for item in differences]
    more = f" and {len(names) - _LISTED} more fields" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


COLUMNS = ("Task", "A", "B", "B − A", *("these problems", "p", "verdict"), *("problems like these", "p", "verdict"))
"""What ``task_cells`` holds."""


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield markdown_line(f"**{sentence(comparison)}**")
    yield ""
    yield markdown_line(legend(comparison))
    yield ""
    about, differing = parity_lines(comparison)
    yield about
    yield from (markdown_line(f"- {item}") for item in differing)
    yield ""
    yield from markdown_table(COLUMNS, map(task_cells, table_rows(comparison)))
    if remarks := remarks_on(comparison):
        yield ""
        yield from (markdown_line(f"- {remark}") for remark in remarks)


def legend(comparison: Comparison) -> str:
    """What A, B, p-values, ties and pairs are."""
    several = len(comparison.tasks)
    corrected = f"p and ties corrected for {several} tasks (Holm, Bonferroni); " if several > 1 else ""
    return (
        f"A = {comparison.name_a}, B = {comparison.name_b}; effect = B − A in points; "
        f"{corrected}{tie_meaning(comparison.margin)}; "
        + "paired by problem"
        + (" and, as the seeds are equal, by sample." if comparison.same_seeds else ".")
    )


def table_rows(comparison: Comparison) -> tuple[TaskComparison, ...]:
    """The tasks, and below several of them their mean."""
    return comparison.tasks if len(comparison.tasks) == 1 else (*comparison.tasks, comparison.average)


def remarks_on(comparison: Comparison) -> tuple[str, ...]:
    """What could turn a sign, what tests of single samples and clusters rest on, what was left out."""
    rows, together = table_rows(comparison), len(comparison.tasks)  # the mean over tasks is one test by itself
    return (
        *(f"{task.title}: {sign_risk(risk)}" for task in rows for risk in task.warnings),
        *(f"{task.title}: {said}" for task in comparison.tasks for said in single_samples(task, together)),
        *(f"{task.title}: {clusters_of(task.clustering)}" for task in comparison.tasks if task.clustering),
        *comparison.notes,
    )


def task_cells(task: TaskComparison) -> tuple[str, ...]:
    """A task in a table: title, A, B, B - A; then interval, p-value and verdict under both errors."""
    values = (percent(task.value_a), percent(task.value_b), points(task.effects[0].difference.value))
    return (task.title, *values, *(cell for effect in task.effects for cell in effect_cells(effect)))


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """What ``comparison.schema.json`` describes: fractions, all digits, null for what is not known."""
    return {
        "schema": SCHEMA,
        "sentence": sentence(comparison),
        "a": comparison.name_a,
        "b": comparison.name_b,
        "same_weights": comparison.same_weights,
        "fair": _fair(comparison),
        "parity": [{"field": i.field, "a": i.a, "b": i.b, "weight": i.weight} for i in comparison.parity],
        "same_seeds": comparison.same_seeds,
        "margin": comparison.margin,
        "tasks": [_json_task(task) for task in comparison.tasks],
        "average": _json_task(comparison.average),
        "notes": list(comparison.notes),
        **({"drift": comparison.drift} if comparison.drift else {}),
    }


def _fair(comparison: Comparison) -> bool | None:
    """Whether nothing confounds; None where nothing is known to, and something is not known of both runs."""
    if comparison.confounders:
        return False
    return None if any(item.weight == "unknown" for item in comparison.parity) else True


def _json_task(task: TaskComparison) -> dict[str, Any]:
    return {
        "task": task.task,
        "a": as_json(task.value_a),
        "b": as_json(task.value_b),
        "effect": as_json(task.effects[0].difference.value),
        "errors": {effect.error: _json_effect(effect) for effect in task.effects},
        "warnings": [sign_risk(risk) for risk in task.warnings],
        **({"clusters": as_json(asdict(task.clustering))} if task.clustering else {}),
    }


def _json_effect(effect: Effect) -> Mapping[str, Any]:
    interval, pairs = effect.difference.interval(), effect.difference.pairs
    return {
        "interval": ends(interval),
        "standard_error": as_json(effect.difference.standard_error),
        "p_adjusted": as_json(effect.p_adjusted),
        "tied_within": as_json(effect.tied_within),
        "num_problems": effect.difference.num_problems,
        **({"wins": pairs.wins, "losses": pairs.losses, "smallest_p": pairs.smallest_p} if pairs else {}),
        "verdict": effect.verdict,
    }
