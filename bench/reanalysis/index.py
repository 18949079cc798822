"""The page that leads to the data sets, and what they say together."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from bench.reanalysis.pages import COMMAND, Facts, has_both, tasks_of, verdict
from bench.reanalysis.record import DataSet
from stapo_bench.analysis import LIKELY
from stapo_bench.presenting.words import markdown_line, markdown_row

_HARDLY_SOLVED = 0.02  # means below it say little of other benchmarks


def index(summary: Facts, data_sets: Sequence[DataSet]) -> str:
    """The page that leads to the others."""
    facts = {of["name"]: of for of in summary["data_sets"]}
    present = [(each, facts[each.name]) for each in data_sets if each.name in facts]
    rows = [row for _, of in present for row in of["comparisons"]]
    counts = Counter(row["verdict"] for row in rows)
    samples = sum(run["samples"] for _, of in present for run in of["runs"])
    disputed = sum(count for _, of in present for _, task in tasks_of(of) for count in task["disputes"].values())
    both = sum(task["samples"] for _, of in present for _, task in tasks_of(of) if has_both(task))
    lines = [
        "# The published record, judged again",
        "",
        f"**Of {len(rows)} comparisons between public evaluations, {counts['better'] + counts['worse']} show a "
        f"difference for problems like these and {counts['tied']} a tie; the other {counts['not enough data']} cannot "
        f"tell, and the scripts' verdicts differ from ours on {disputed:,} of {both:,} samples that both judged.**",
        "",
        f"{samples:,} samples in {summary['files']['used']} of {summary['files']['all']} files of public "
        f"repositories, read by `stapo-bench import`, graded by {summary['grader']}, compared and audited as any run "
        "of ours. Facts and figures only: no text of a problem or of a completion stands here. The table of the "
        "paper needs no samples: [paper.md](paper.md); its claims beside what small scale says of them: "
        "[claims.md](claims.md).",
        "",
        "| Data set | What it shows |",
        "|---|---|",
        *(f"| [{each.title}]({each.name}.md) | {verdict(of)} |" for each, of in present),
        "",
        "## How to read a page",
        "",
        "* *these problems*: the interval of the number, samples drawn again; *problems like these*: that of the "
        "claim.",
        "* *detectable*: the true difference that this many problems and samples find in 80 of 100.",
        "* *needed*: how many problems of this kind would find the difference that was seen, if it is the true one.",
        "* *script*: the verdicts that stand in the file, or the score beside it.",
        "* won : lost, with one sample of each problem: problems that B alone, and that A alone, has right.",
        "",
        "## What lies between problems",
        "",
        *_shares(present),
        "",
        "## Problems that training sets hold",
        "",
        *_overlaps(summary["overlaps"]),
        "",
        "## What was not judged, and why",
        "",
        "| files | why |",
        "|---:|---|",
        *(markdown_row([str(count), why]) for why, count in summary["files"]["unused"].items()),
        "",
        *_duplicates(summary["duplicates"]),
        f"Made by `{COMMAND}`, where DIR holds the benchmarks and `runs/`; the pages alone, from `summary.json`, by "
        "`python -m bench.reanalysis --pages`.",
    ]
    return "\n".join(lines) + "\n"


def _shares(present: Sequence[tuple[DataSet, Facts]]) -> Iterator[str]:
    """What the likely range of the error of a mean without samples rests on."""
    between = [
        (run["name"], task["task"], task["between"])
        for _, of in present
        for run, task in tasks_of(of)
        if task["between"] is not None and task["problems"] >= 10
    ]
    printed = [
        (f"{training['training']}, step {point['step']}", task["task"], point)
        for _, of in present
        for training in of.get("printed", ())
        for task in training["tasks"]
        for point in task["points"]
        if point["between"] is not None
    ]
    between += [(name, task, point["between"]) for name, task, point in printed if point["value"] >= _HARDLY_SOLVED]
    hardly = [point["between"] for _, _, point in printed if point["value"] < _HARDLY_SOLVED]
    common = sorted(
        row["common"]
        for _, of in present
        for row in of["comparisons"]
        if row["common"] is not None and row["problems"] >= 30
    )
    small, large = LIKELY["problems like these"]
    yield (
        "A mean without samples leaves its error open by two shares (`stapo_bench/statistics/reported.py`): how much "
        "of the variance lies between problems, and how much of it two models have in common."
    )
    yield ""
    yield "| measured in | on | between problems |"
    yield "|---|---|---:|"
    yield from (markdown_row([name, task, f"{share:.2f}"]) for name, task, share in between)
    yield ""
    if hardly:
        yield (
            f"Where hardly anything is solved it is less: {min(hardly):.2f} to {max(hardly):.2f} in {len(hardly)} "
            f"printed means below {100 * _HARDLY_SOLVED:g} %, which are near the worst case for these problems."
        )
        yield ""
    if common:
        quartile = len(common) // 4
        yield (
            f"What two models have in common: median {median(common):.2f}, half of {len(common)} comparisons between "
            f"{common[quartile]:.2f} and {common[-1 - quartile]:.2f}; over the share between problems that is the "
            f"correlation of their rates. The likely range therefore takes {small.between:g} to {large.between:g} of "
            f"the variance to lie between problems, with rates that correlate at {large.correlation:g} to "
            f"{small.correlation:g}."
        )


def _overlaps(overlaps: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if not overlaps:
        yield "The training sets were not at hand."
        return
    tasks = list(next(iter(overlaps.values())))
    yield "By `stapo-bench overlap`, siblings with other numbers included."
    yield ""
    yield "| Training set | " + " | ".join(tasks) + " |"
    yield "|---|" + "---:|" * len(tasks)
    for name, counts in overlaps.items():
        yield f"| {name} | " + " | ".join(str(counts[task]) for task in tasks) + " |"


def _duplicates(groups: Sequence[Sequence[str]]) -> Iterator[str]:
    if not groups:
        yield "No two files have equal content."
        yield ""
    else:
        yield "Files of equal content under several names:"
        yield ""
        yield from (markdown_line("* " + " = ".join(f"`{path}`" for path in group)) for group in groups)
        yield ""
