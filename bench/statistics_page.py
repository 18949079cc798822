"""The tables and the figure of docs/statistics.md: coverage from the record, and what other tools print on three runs.

    python -m bench.statistics_page        # writes them into the page, between its markers; a test holds them equal

The other tools' formulas are written out here, slowly and after their sources, not imported.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pairs import PAIRS, from_aime
from stapo_bench.statistics import ERROR_NAMES, Interval, interval, normal_quantile

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "statistics.md"
FIGURE = ROOT / "docs" / "statistics.svg"
RECORD = ROOT / "results" / "bench" / "coverage.json"
BEYOND = ROOT / "results" / "bench" / "outcomes.json"

Outcomes = NDArray[np.float64]
"""[num_problems, num_samples], 1 or 0."""


def three_runs() -> dict[str, Outcomes]:
    """A hard benchmark, a large one, and one of which nothing is solved; drawn once, always the same."""
    rng = np.random.default_rng(2411)
    hard = from_aime(rng, 30)
    large = 1.0 / (1.0 + np.exp(-rng.normal(1.5, 2.5, 500)))
    return {
        "30 × 32, AIME24's rates": _sample(rng, hard, 32),
        "500 × 4, mostly solved": _sample(rng, large, 4),
        "30 × 32, nothing solved": np.zeros((30, 32)),
    }


def lm_eval(correct: Outcomes) -> Interval:
    """± 1.96 s / sqrt(n) over problems, s of the first sample alone: lm-eval scores one of the repeats by default.

    ``mean_stderr`` in lm_eval/api/metrics.py; the filter ``take_first``.
    """
    return _normal(float(correct[:, 0].mean()), float(correct[:, 0].std(ddof=1)) / len(correct) ** 0.5)


def inspect_ai(correct: Outcomes) -> Interval:
    """± 1.96 s / sqrt(n), s over problems' means: epochs are reduced to their mean first.

    ``stderr`` in inspect_ai/scorer/_metrics/std.py; the reducer ``mean``.
    """
    means = correct.mean(axis=1)
    return _normal(float(means.mean()), float(means.std(ddof=1)) / len(means) ** 0.5)


def nemo(correct: Outcomes) -> Interval:
    """± 1.96 s / sqrt(k), s over the k runs' averages: pass@1[avg-of-k] with its standard error over runs.

    ``std_err_across_runs`` of nemo_skills/evaluation/metrics/base.py, which NeMo Evaluator reports as its stderr.
    """
    runs = correct.mean(axis=0)
    return _normal(float(runs.mean()), float(runs.std(ddof=1)) / len(runs) ** 0.5)


def miller(correct: Outcomes) -> Interval:
    """± 1.96 SE clustered by problem: SE^2 = sum_i sum_jl (x_ij - m)(x_il - m) / N^2. arXiv:2411.00640."""
    mean, variance = float(correct.mean()), 0.0
    for row in correct:
        for x in row:
            for y in row:
                variance += float((x - mean) * (y - mean))
    return _normal(mean, variance**0.5 / correct.size)


def bowyer(correct: Outcomes) -> Interval:
    """2.5 and 97.5 % of Beta(1 + S, 1 + N - S), all N samples taken for independent. arXiv:2503.01747."""
    from scipy.stats import beta

    right, total = float(correct.sum()), correct.size
    low, high = beta.ppf([0.025, 0.975], 1.0 + right, 1.0 + total - right)
    return Interval(low=float(low), high=float(high))


TOOLS: dict[str, Callable[[Outcomes], Interval]] = {
    "stapo-bench, these problems": lambda correct: interval(correct, ERROR_NAMES[0]),
    "stapo-bench, problems like these": lambda correct: interval(correct, ERROR_NAMES[1]),
    "lm-eval": lm_eval,
    "inspect_ai": inspect_ai,
    "NeMo Evaluator": nemo,
    "Miller 2024": miller,
    "Bowyer 2025": bowyer,
}


def peers_table() -> str:
    """What each would print on the three runs."""
    runs = three_runs()
    lines = ["| percent | " + " | ".join(runs) + " |", "|---|" + "---|" * len(runs)]
    lines.append("| avg@k | " + " | ".join(f"{100 * float(run.mean()):.2f}" for run in runs.values()) + " |")
    for name, tool in TOOLS.items():
        found = (tool(run) for run in runs.values())
        lines.append(f"| {name} | " + " | ".join(f"[{100 * i.low:.1f}, {100 * i.high:.1f}]" for i in found) + " |")
    return "\n".join(lines)


def coverage_table(record: dict[str, Any]) -> str:
    """By population, over all designs: the lowest coverage of both errors, and the most false ties."""
    rows = record["pairs"]["rows"]
    lines = [
        "| population of pairs | B − A, points | least coverage: these problems | problems like these "
        "| false ties at most | told apart at 30 × 32 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    like = ERROR_NAMES[1]
    for name in PAIRS:
        of_name = [row for row in rows if row["population"] == name]
        least = [min(row[error]["covered"] for row in of_name) for error in ERROR_NAMES]
        ties = max(row[like]["false_tie"] for row in of_name)
        shown = next(row[like]["shown"] for row in of_name if row["design"] == [30, 32])
        cells = (100 * of_name[0]["truth"], *(100 * x for x in least), 100 * ties, 100 * shown)
        lines.append(f"| {name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    return "\n".join(lines)


def draw(path: Path) -> None:
    """The intervals of the three runs by tool, side by side."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "statistics"
    import matplotlib.pyplot as plt

    runs = three_runs()
    figure, axes = plt.subplots(1, len(runs), figsize=(10, 2.8), sharey=True, layout="constrained")
    for axis, (name, run) in zip(axes, runs.items(), strict=True):
        for row, (tool, of_tool) in enumerate(TOOLS.items()):
            found = of_tool(run)
            colour = "#b3261e" if tool.startswith("stapo") else "#444444"
            axis.plot([100 * found.low, 100 * found.high], [row, row], color=colour, linewidth=3, marker="|")
        axis.axvline(100 * float(run.mean()), color="#999999", linewidth=1)
        axis.set(title=name, xlabel="percent", yticks=range(len(TOOLS)), yticklabels=list(TOOLS))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def scores_table(record: dict[str, Any]) -> str:
    """By what scores look like, over all designs: least coverage of B - A, of t and of one score; what ours adds."""
    lines = [
        "| scores | B − A, least coverage: these problems | problems like these | Student's t "
        "| longer than t by at most | one score: these problems | problems like these |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows = record["scores"]["rows"]
    for name in dict.fromkeys(row["population"] for row in rows):
        of_name = [row for row in rows if row["population"] == name]
        least = [min(row[column] for row in of_name) for column in ("covered_these", "covered_like", "covered_t")]
        longer = max(row["width_like"] / row["width_t"] for row in of_name) - 1.0
        of_one = [min(row[column] for row in of_name) for column in ("score_these", "score_like")]
        lines.append(f"| {name} | " + " | ".join(f"{100 * cell:.1f}" for cell in (*least, longer, *of_one)) + " |")
    return "\n".join(lines)


def clusters_table(record: dict[str, Any]) -> str:
    """By clusters and correlation, least over one and four samples: both errors, items taken for independent."""
    lines = [
        "| clusters | correlation | these problems | problems like these | items taken for independent |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = record["clusters"]["rows"]
    for name, correlation in dict.fromkeys((row["clusters"], row["correlation"]) for row in rows):
        alike = [row for row in rows if (row["clusters"], row["correlation"]) == (name, correlation)]
        columns = ("covered_these", "covered_like", "covered_independent")
        least = (f"{100 * min(row[column] for row in alike):.1f}" for column in columns)
        lines.append(f"| {name} | {correlation:g} | " + " | ".join(least) + " |")
    return "\n".join(lines)


def said_of_outcomes(record: dict[str, Any]) -> str:
    """The figures of ``outcomes.json`` in words, as results/bench/README.md has them."""
    scores = record["scores"]["rows"]
    clusters, several = record["clusters"]["rows"], record["several"]["rows"]
    spread = [row for row in scores if not row["population"].endswith("gains in full")]
    rarest = [row for row in scores if row["population"].startswith("a twentieth")]
    least = 100 * min(row["covered_like"] for row in scores if row not in rarest)
    rare = 100 * min(row["covered_like"] for row in rarest)
    longer = max(row["width_like"] / row["width_t"] for row in spread) - 1.0
    more = [row["repetitions"] for row in several if "repetitions" in row]
    sets = f"{record['several']['repetitions']} data sets a cell" + (f", {more[0]} in {len(more)}" if more else "")
    return (
        f"Problems like these are covered in at least {least:.1f} % of the data sets of every population of scores, "
        f"but {rare:.1f} % where a twentieth of the items gains in full, with intervals at most {100 * longer:.1f} % "
        f"longer than t but where few items gain; with clusters in {_from_to(clusters, 'covered_like')} %, where items "
        f"taken for independent are covered in {_from_to(clusters, 'covered_independent')} %. Six equal models: some "
        f"false claim in {_from_to(several, *(f'together: {error}' for error in ERROR_NAMES))} % where all pairs "
        f"are judged together, {_from_to(several, *(f'by_pair: {error}' for error in ERROR_NAMES))} % by pair; {sets}."
    )


def _from_to(rows: list[dict[str, Any]], *columns: str) -> str:
    shares = [100 * row[column] for row in rows for column in columns]
    return f"{min(shares):.1f} to {max(shares):.1f}"


def several_table(record: dict[str, Any]) -> str:
    """Six equal models: false claims by pair, by Holm and together; and how often seven points are found."""
    lines = [
        "| models | problems × samples | error | by pair | Holm | together | 7 points found: Holm | together |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in record["several"]["rows"]:
        for error in ERROR_NAMES:
            names = ("by_pair", "holm", "together", "power_holm", "power_together")
            cells = (f"{100 * row[f'{name}: {error}']:.1f}" for name in names)
            num, k = row["design"]
            lines.append(f"| {row['population']} | {num} × {k} | {error} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with its tables as they are now."""
    tables = {"peers": peers_table(), "coverage": coverage_table(json.loads(RECORD.read_text(encoding="utf-8")))}
    beyond = json.loads(BEYOND.read_text(encoding="utf-8"))
    makers = {"scores": scores_table, "clusters": clusters_table, "several": several_table}
    tables |= {part: makers[part](beyond) for part in makers if part in beyond}
    for name, table in tables.items():
        marked = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        page = re.sub(marked, lambda found, table=table: found[1] + table + found[2], page, flags=re.DOTALL)
    return page


def _sample(rng: np.random.Generator, rates: NDArray[np.float64], num_samples: int) -> Outcomes:
    return (rng.random((len(rates), num_samples)) < rates[:, None]).astype(np.float64)


def _normal(mean: float, error: float) -> Interval:
    half = normal_quantile(0.95) * error
    return Interval(low=mean - half, high=mean + half)


def main() -> None:
    """Write the tables into the page, and the figure beside it."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    draw(FIGURE)


if __name__ == "__main__":
    main()
