"""Why two numbers differ, in words: the causes that were found, then every part with what is known of it."""

import json
from collections.abc import Iterator
from typing import Any

from stapo_bench.analysis import Explanation, Part, TaskGap, as_json
from stapo_bench.presenting.words import change_interval, ends, markdown_row, percent, points, require_md_or_json

_LEFT = ("sampling noise", "unexplained")


def render_why(found: Explanation, format_: str = "md") -> str:
    """An explanation as Markdown, or as JSON (fractions, all digits)."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(_json(found), indent=2)
    return "\n".join(_markdown(found))


def why_sentence(found: Explanation) -> str:
    """The gap, the causes that were found, and what is left."""
    gap = found.average
    said = [f"{found.name_b} − {found.name_a} is {points(gap.gap)} points ({gap.title})."]
    told = [part for part in gap.parts if part.is_told and part.cause not in _LEFT]
    if told:
        told.sort(key=lambda part: -abs(part.value))
        said.append(f"Found: {', '.join(f'{part.cause} {_with_interval(part)}' for part in told)}.")
    rest = gap.part("unexplained")
    if rest.is_told:
        said.append(f"Unexplained: {_with_interval(rest)}.")
    elif rest.value:
        said.append(f"Unexplained: {_with_interval(rest)}, which what is bounded could make up.")
    else:
        said.append(f"The rest is within chance ({points(gap.part('sampling noise').value)}).")
    if unknown := [part.cause for part in gap.parts if part.knowledge == "unknown"]:
        said.append(f"Not known: {', '.join(unknown)}.")
    return " ".join(said)


def _with_interval(part: Part) -> str:
    return f"{points(part.value)} {change_interval(part.interval)}"


def _markdown(found: Explanation) -> Iterator[str]:
    yield f"**{why_sentence(found)}**"
    yield ""
    yield (
        f"A = {found.name_a}, B = {found.name_b}; parts of B − A in points, which add up to it; 95 % intervals for "
        "these problems. Unknown parts count as 0: their effect is in what is unexplained."
    )
    yield ""
    yield "| Part | points | interval | what is known |"
    yield "|---|---|---|---|"
    for part in _shown(found.average):
        cells, said = ("–", "–"), part.note or part.knowledge
        if part.knowledge == "same":
            cells, said = (_nothing(part),) * 2, part.note or _nothing(part)
        elif part.knowledge != "unknown":
            cells = (points(part.value), change_interval(part.interval))
        yield markdown_row((part.cause, *cells, said))
    yield markdown_row(("**B − A**", f"**{points(found.average.gap)}**", "", ""))
    if len(found.tasks) > 1:
        yield ""
        causes = [part.cause for part in _shown(found.average)]
        yield markdown_row(("Task", "A", "B", "B − A", *causes))
        yield "|" + "---|" * (4 + len(causes))
        for task in found.tasks:
            values = (percent(task.value_a), percent(task.value_b), points(task.gap))
            yield markdown_row((task.title, *values, *(_cell(task.part(cause)) for cause in causes)))
    remarks = [*(f"may be behind it: {suspect}" for suspect in found.suspects), *found.notes]
    if remarks:
        yield ""
        yield from (f"- {remark}" for remark in remarks)


def _shown(gap: TaskGap) -> list[Part]:
    """Every part; the joint one only where it has a share."""
    return [part for part in gap.parts if part.cause != "prompt and decoding" or part.knowledge != "same"]


def _cell(part: Part) -> str:
    return {"same": _nothing(part), "unknown": "unknown"}.get(part.knowledge, points(part.value))


def _nothing(part: Part) -> str:
    """Of what is the same on both sides, or left nothing over."""
    return "none" if part.cause in _LEFT else "same"


def _json(found: Explanation) -> dict[str, Any]:
    return {
        "sentence": why_sentence(found),
        "a": found.name_a,
        "b": found.name_b,
        "average": _json_gap(found.average),
        "tasks": [_json_gap(task) for task in found.tasks],
        "suspects": list(found.suspects),
        "notes": list(found.notes),
    }


def _json_gap(gap: TaskGap) -> dict[str, Any]:
    return {
        "task": gap.task,
        "a": as_json(gap.value_a),
        "b": as_json(gap.value_b),
        "gap": as_json(gap.gap),
        "main": gap.main.cause,
        "parts": {
            part.cause: {
                "knowledge": part.knowledge,
                "value": as_json(part.value),
                "interval": ends(part.interval),
                "note": part.note,
            }
            for part in gap.parts
        },
    }
