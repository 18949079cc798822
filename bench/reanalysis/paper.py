"""The page on the paper's own table: what its leads are worth by mean and protocol alone."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from stapo_bench.analysis import (
    LIKELY,
    VERDICTS,
    Claim,
    Lead,
    PublishedTable,
    claim,
    find_inconsistencies,
    load_facts,
    load_published,
    table_leads,
)
from stapo_bench.presenting import percent, points
from stapo_bench.statistics import (
    ERROR_NAMES,
    ErrorName,
    Reported,
    half_width,
    seed_spread_allowed,
    times_needed,
    trainings_needed,
)
from stapo_bench.tasks import load_task

TABLE, METHOD = "stapo_v1", "STAPO"
THESE, LIKE = ERROR_NAMES
COMMAND = "python -m bench.reanalysis --pages"

_MEANINGS = {
    "shown": "more than the worst case that mean and protocol allow",
    "likely": "more than the large end of the likely range",
    "open": "within the likely range: the samples would decide",
    "not told": "less than the small end of the likely range: not told from 0",
}
_REGIMES = {"training": "T 1.0, top-p 1.0", "justrl": "T 0.7, top-p 0.9"}


def page(overlaps: Mapping[str, Mapping[str, int]]) -> str:
    """The page as Markdown. ``overlaps``: by training set, the problems of each task that it holds."""
    table = load_published(TABLE)
    leads = table_leads(table, METHOD)
    cells = [lead for lead in leads if lead.task != "average"]
    averages = [lead for lead in leads if lead.task == "average"]
    lines = [
        "# The paper's table: which of its leads exceed sampling error",
        "",
        f"**{verdict(cells, averages)}**",
        "",
        f"{table.title}, {table.paper}, {table.version}; cells of `results/published/stapo_v1.yaml`. No sample of it "
        "is public, and none is needed: a mean over n problems with k samples each bounds its own error "
        "(`stapo_bench/statistics/reported.py` derives it). The cells of v4 and v5 were not found.",
        "",
        *_words(),
        "",
        "## How large a difference must be",
        "",
        *_widths(table),
        "",
        f"## {METHOD} over the best of the other methods",
        "",
        "![Every lead with what it has to exceed](paper.svg)",
        "",
        "Red: the lead (diamond: of the average). Dark to light grey: what sampling error can be, at the small and "
        "the large end of the likely range and at the worst.",
        "",
        *_table_of(leads),
        "",
        "## Over each other method",
        "",
        *_by_other(table),
        "",
        "## The headline, the sensitivities and a repetition",
        "",
        *_headline(table, averages),
        "",
        *_sensitivities(),
        "",
        *_repetition(),
        "",
        "## What would settle them",
        "",
        *_settle(leads),
        "",
        "## What else is known of the cells",
        "",
        *_notes(table, overlaps),
        "",
    ]
    return "\n".join(lines)


def verdict(cells: Sequence[Lead], averages: Sequence[Lead]) -> str:
    """The sentence on top."""
    shown = sum(lead.claims[THESE].verdict == "shown" and lead.value > 0 for lead in cells)
    together = sum(lead.claims[THESE].verdict_of_all == "shown" and lead.value > 0 for lead in cells)
    like = sum(lead.claims[LIKE].verdict in {"shown", "likely"} and lead.value > 0 for lead in cells)
    none = sum(lead.claims[THESE].verdict == "not told" for lead in cells)
    means = sum(lead.claims[THESE].verdict == "shown" for lead in averages)
    like_means = sum(lead.claims[LIKE].verdict in {"shown", "likely"} for lead in averages)
    return (
        f"{METHOD} is ahead of the best other method by more than sampling error on these problems in {shown} of "
        f"{len(cells)} cells, whatever the samples were (in {together} if corrected for being {len(cells)}), and in "
        f"{none} the difference is less than that error; for problems like these {like} leads are likely; of the "
        f"{len(averages)} averages {means} hold on these problems and {like_means} are likely for problems like "
        "these; and no training was repeated."
    )


def _words() -> Iterator[str]:
    these, like = LIKELY[THESE], LIKELY[LIKE]
    yield (
        "Two questions, as everywhere here: would the same table drawn again show the same sign (*these problems*), "
        "and does it hold for what the name of a benchmark stands for (*problems like these*)? The likely range "
        f"takes {100 * these[1].between:.0f} to {100 * these[0].between:.0f} % of the variance to lie between "
        f"problems, and the rates of two models to correlate at {like[1].correlation:g} to {like[0].correlation:g}, "
        "which is what published samples show ([README](README.md)). A difference is"
    )
    yield ""
    for name in VERDICTS:
        yield f"* **{name}**: {_MEANINGS[name]}"


def _widths(table: PublishedTable) -> Iterator[str]:
    yield "In points, at the mean of the table's cells: above it a single difference is told from 0 at 5 %."
    yield ""
    yield "| Task | problems × samples | mean | these problems: likely | at worst | like these: likely | at worst |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for task, num in table.num_problems.items():
        mean = sum(row.scores[task] for row in table.rows) / len(table.rows)
        cell = Reported(value=mean, num_problems=num, num_samples=table.samples[task])
        found = [claim([(cell, cell)], error) for error in ERROR_NAMES]
        size = f"{num} × {table.samples[task]}"
        yield f"| {_title(task)} | {size} | {percent(mean, 1)} | " + " | ".join(map(_range_and_worst, found)) + " |"


def _range_and_worst(found: Claim) -> str:
    return f"{_range(found)} | {100 * half_width(found.worst):.1f}"


def _range(found: Claim) -> str:
    return f"{100 * half_width(found.smallest):.1f}–{100 * half_width(found.largest):.1f}"


def _table_of(leads: Sequence[Lead]) -> Iterator[str]:
    yield (
        "Lead in points with what it has to exceed (likely range, and worst case); in brackets the verdict among all "
        "36 cells, or all 6 averages (Holm), where it is another."
    )
    yield ""
    yield "| Model, decoding | Task | over | lead | these problems | verdict | problems like these | verdict |"
    yield "|---|---|---|---:|---:|---|---:|---|"
    for lead in leads:
        name = f"{lead.model.removeprefix('Qwen3-').removesuffix('-Base')}, {_REGIMES[lead.regime or '']}"
        of = [cell for error in ERROR_NAMES for cell in _cells(lead.claims[error])]
        task = "**average**" if lead.task == "average" else _title(lead.task)
        yield f"| {name} | {task} | {lead.other} | {points(lead.value)} | {' | '.join(of)} |"


def _cells(found: Claim) -> tuple[str, str]:
    both = found.verdict if found.verdict == found.verdict_of_all else f"{found.verdict} ({found.verdict_of_all})"
    return f"{_range(found)}, {100 * half_width(found.worst):.1f}", both


def _by_other(table: PublishedTable) -> Iterator[str]:
    yield "Cells by verdict, ahead / behind, each taken alone."
    yield ""
    heads = [f"{error}: {name}" for error in ERROR_NAMES for name in VERDICTS]
    yield "| over | " + " | ".join(heads) + " |"
    yield "|---|" + "---:|" * len(heads)
    for other in dict.fromkeys(row.method for row in table.rows if row.method != METHOD):
        leads = [lead for lead in table_leads(table, METHOD, other) if lead.task != "average"]
        counts: Counter[tuple[ErrorName, str, bool]] = Counter(
            (error, lead.claims[error].verdict, lead.value > 0) for lead in leads for error in ERROR_NAMES
        )
        cells = [
            f"{counts[error, name, True]} / {counts[error, name, False]}" for error in ERROR_NAMES for name in VERDICTS
        ]
        yield f"| {other} | " + " | ".join(cells) + " |"


def _headline(table: PublishedTable, averages: Sequence[Lead]) -> Iterator[str]:
    """The mean relative gain over the models, g = mean_m lead_m / other_m, with errors to first order."""
    yield (
        "The paper's headline is the mean over the models of STAPO's average over that of the strongest other "
        "method, less 1; in percent, with half a 95 % interval (likely range, and worst case):"
    )
    yield ""
    yield "| Decoding | printed | from the cells | these problems, ± | problems like these, ± |"
    yield "|---|---:|---:|---:|---:|"
    for regime, printed in table.headline["printed"].items():
        leads = [lead for lead in averages if lead.regime == regime]
        bases = [_average(table, lead) for lead in leads]
        gain = sum(lead.value / base for lead, base in zip(leads, bases, strict=True)) / len(leads)
        widths = [
            [
                math.hypot(
                    *(
                        half_width(getattr(lead.claims[error], end)) / base
                        for lead, base in zip(leads, bases, strict=True)
                    )
                )
                / len(leads)
                for end in ("smallest", "largest", "worst")
            ]
            for error in ERROR_NAMES
        ]
        cells = [f"{100 * low:.1f}–{100 * high:.1f}, {100 * worst:.1f}" for low, high, worst in widths]
        yield f"| {_REGIMES[regime]} | {printed:.2f} | {100 * gain:.2f} | {' | '.join(cells)} |"


def _average(table: PublishedTable, lead: Lead) -> float:
    """The other method's mean over the tasks."""
    (row,) = (row for row in table.rows if (row.model, row.regime, row.method) == (lead.model, lead.regime, lead.other))
    return sum(row.scores.values()) / len(row.scores)


def _sensitivities() -> Iterator[str]:
    """The printed points of both thresholds: AIME24 of one model, 30 problems, 32 samples."""
    found = load_facts("stapo_facts")["sensitivity"]["v1-v3"]
    yield f"Its sensitivities, {found['model']} on {found['metric']}, 30 × 32:"
    yield ""
    yield "| Threshold | change | points | these problems | verdict | problems like these | verdict |"
    yield "|---|---|---:|---:|---|---:|---|"
    for name in ("tau_p", "tau_h_kept_top_share"):
        (before, a), (after, b) = found[name].items()
        pair = [Reported(value=value / 100, num_problems=30, num_samples=32) for value in (a, b)]
        of = [cell for error in ERROR_NAMES for cell in _cells(claim([(pair[0], pair[1])], error))]
        yield f"| {name} | {before} → {after} | {points((b - a) / 100)} | {' | '.join(of)} |"


def _repetition() -> Iterator[str]:
    table = load_published("taco")
    yield f"In another paper's table ({table.paper}) its own STAPO against its GRPO, the mean of six tasks:"
    yield ""
    yield "| Model | lead | these problems | verdict | problems like these | verdict |"
    yield "|---|---:|---:|---|---:|---|"
    for lead in table_leads(table, METHOD, "GRPO"):
        if lead.task == "average":
            of = [cell for error in ERROR_NAMES for cell in _cells(lead.claims[error])]
            yield f"| {lead.model} | {points(lead.value)} | {' | '.join(of)} |"


def _settle(leads: Sequence[Lead]) -> Iterator[str]:
    yield (
        "For each lead, if it is the true one: how many times as many samples or problems would find it in 80 of 100 "
        "for these problems, and how many times as many problems for problems like these (likely range; below 1 the "
        "protocol was enough); how far trainings of one method may differ from seed to seed (standard deviation) "
        "before one training each could bring the lead about; and how many trainings of each method would show it if "
        "that deviation is 1 or 2 points. The paper prints one training each."
    )
    yield ""
    yield (
        "| Model, decoding | Task | lead | samples, times | problems, times | seed deviation allowed "
        "| trainings at 1 point | at 2 points |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for lead in leads:
        these, like = (lead.claims[error] for error in ERROR_NAMES)
        name = f"{lead.model.removeprefix('Qwen3-').removesuffix('-Base')}, {_REGIMES[lead.regime or '']}"
        task = "**average**" if lead.task == "average" else _title(lead.task)
        trainings = [_many(trainings_needed(lead.value, spread)) for spread in (0.01, 0.02)]
        yield (
            f"| {name} | {task} | {points(lead.value)} | {_times(these)} | {_times(like)} | "
            f"{100 * seed_spread_allowed(lead.value):.1f} | {' | '.join(trainings)} |"
        )


def _times(found: Claim) -> str:
    low, high = times_needed(found.smallest), times_needed(found.largest)
    return f"{_many(low)}–{_many(high)}" if math.isfinite(high) else "–"


def _many(number: float) -> str:
    return "over 1,000" if number > 1000 else f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")


def _notes(table: PublishedTable, overlaps: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    odd = [item for item in find_inconsistencies(table) if item["what"] in table.num_problems]
    yield (
        f"* {len(odd)} of {sum(len(row.scores) for row in table.rows)} cells are printed as no count of right samples "
        "gives them, each by at most 0.03 points: rounding, or another number of samples "
        "(`results/published/stapo_v1.yaml` lists them)."
    )
    if dapo := overlaps.get("dapo_math_17k"):
        found = ", ".join(
            f"{count} of {table.num_problems[task]} of {_title(task)}" for task, count in dapo.items() if count
        )
        yield (
            f"* The training set, DAPO-Math-17k, holds {found} or siblings of them with other numbers (`stapo-bench "
            "overlap`): leads on these tasks may be memory. The AIME tasks, Minerva and the rest of the others are "
            "free of it."
        )
    yield "* The average of STAPO at 14B and T 1.0 is printed as 64.38; its cells give 64.90, which stands above."
    yield (
        "* All methods of a model were evaluated on the same problems, but their samples are independent, so the "
        "errors of two rows add up for these problems; for problems like these what both find hard cancels."
    )
    yield ""
    yield f"Made by `{COMMAND}` from the printed cells; `--data DIR` counts the overlap again."


def _title(task: str) -> str:
    return load_task(task).title
