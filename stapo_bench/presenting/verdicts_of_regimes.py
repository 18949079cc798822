"""Two checkpoints under two decoding regimes in words: does the regime decide who wins?"""

import json
import math
from collections.abc import Mapping
from typing import Any

from stapo_bench.analysis import Ranking, RegimeComparison, as_json
from stapo_bench.presenting.words import change_interval, markdown_line, markdown_row, points, require_md_or_json
from stapo_bench.statistics import ERROR_NAMES, LEVEL, Difference


def regime_sentence(comparison: RegimeComparison) -> str:
    """Whether the ranking of A and B depends on the regime, and how sure that is."""
    first, second = (comparison.contrasts[f"effect under {i}"] for i in (1, 2))
    interaction = comparison.contrasts["interaction"]
    sure = next((error for error in reversed(ERROR_NAMES) if interaction[error].p_value < LEVEL), None)
    effects = (
        f"B − A is {_contrast_cell(first['these problems'])} under {comparison.regimes[0]} "
        f"and {_contrast_cell(second['these problems'])} under {comparison.regimes[1]}"
    )
    change = f"the change of {_contrast_cell(interaction[sure or 'these problems'])} is " + (
        f"beyond chance on {sure}" if sure else "within chance"
    )
    if fields := comparison.differing("confounds"):
        return (
            f"Not a fair comparison: {effects}; {change}; but {fields} differ as well, so this is no evidence about "
            "the weights or the regime."
        )
    caution = f" With caution: {fields} differ." if (fields := comparison.differing("caution")) else ""
    return f"{_ranking(comparison, sure is not None)}: {effects}; {change}.{caution}"


def _ranking(comparison: RegimeComparison, changes: bool) -> str:
    """The strongest claim about the order of A and B that is shown under both regimes."""
    for error in reversed(ERROR_NAMES):
        said: Mapping[Ranking, str] = {
            "flips": f"The ranking flips with the regime on {error}",
            "the same": f"The ranking is the same under both regimes on {error}",
        }
        if (found := comparison.ranking(error)) in said:
            return said[found]
    open_ = "whether the ranking flips is open, as A and B are not told apart under both regimes"
    return f"The regime changes B − A, but {open_}" if changes else f"{open_[0].upper()}{open_[1:]}"


def render_regimes(comparison: RegimeComparison, format_: str = "md") -> str:
    """The comparison as Markdown or JSON."""
    require_md_or_json(format_)
    if format_ == "json":
        return json.dumps(_json(comparison), indent=2)
    a1, b1, a2, b2 = comparison.names
    lines = [
        markdown_line(f"**{regime_sentence(comparison)}**"),
        "",
        markdown_line(
            f"A = {a1}, {a2}; B = {b1}, {b2}; 1 = {comparison.regimes[0]}, 2 = {comparison.regimes[1]}; "
            f"mean over {comparison.num_tasks} tasks, points, 95 % intervals."
        ),
        "",
        "| Contrast | these problems | problems like these |",
        "|---|---|---|",
    ]
    for name, found in comparison.contrasts.items():
        lines.append(markdown_row([name, *(_contrast_cell(found[error]) for error in ERROR_NAMES)]))
    if comparison.notes:
        lines += ["", *(markdown_line(f"- {note}") for note in comparison.notes)]
    return "\n".join(lines)


def _contrast_cell(difference: Difference) -> str:
    """A contrast with its interval, in points."""
    if math.isnan(difference.value):
        return "unknown"
    return f"{points(difference.value)} {change_interval(difference.interval())}"


def _json(comparison: RegimeComparison) -> dict[str, Any]:
    """The comparison as JSON values: fractions, all digits."""

    return {
        "sentence": regime_sentence(comparison),
        "ranking": {error: comparison.ranking(error) for error in ERROR_NAMES},
        "fair": not comparison.differing("confounds"),
        "runs": dict(zip(("a1", "b1", "a2", "b2"), comparison.names, strict=True)),
        "regimes": list(comparison.regimes),
        "notes": list(comparison.notes),
        "contrasts": {
            name: {error: _json_contrast(found[error]) for error in ERROR_NAMES}
            for name, found in comparison.contrasts.items()
        },
    }


def _json_contrast(difference: Difference) -> Mapping[str, float | None]:
    interval = difference.interval()
    values = {"value": difference.value, "low": interval.low, "high": interval.high, "p": difference.p_value}
    return {name: as_json(value) for name, value in values.items()}
