"""Tables for papers: LaTeX with booktabs, where bold means "not beaten significantly".

A measured number is bold unless another measured run of the same model and setting (decoding, token limit, grader) is
better by a paired test for ``problems like these`` at 5 %, Holm-corrected over all pairs in its column; against a run
that stopped early, the test holds at every look. An average is tested against averages over the same tasks. Published
numbers carry no test.
"""

import math
from collections.abc import Sequence
from itertools import combinations

from stapo_bench.analysis import at_every_look
from stapo_bench.errors import safe_text
from stapo_bench.presenting.tables.blocks import TableBlock
from stapo_bench.presenting.tables.rows import Cell, Row, Setting
from stapo_bench.presenting.words import percent, score_interval
from stapo_bench.records import Outcomes
from stapo_bench.statistics import LEVEL, Difference, ErrorName, holm, mean_difference, paired_difference


def latex_table(block: TableBlock, notes: Sequence[str], error: ErrorName) -> str:
    """A booktabs table of a block, brackets with intervals under this error, and lines below it."""
    tasks, titles = [*block.tasks, "average"], [*map(block.title, block.tasks), "Avg"]
    bold = unbeaten(block)
    lines = [
        r"\begin{tabular}{lll" + "r" * len(titles) + "l}",
        r"\toprule",
        _line(["Model", "Method", "Decoding", *titles, "Origin"]),
        r"\midrule",
    ]
    for i, row in enumerate(block.rows):
        if i and row.model != block.rows[i - 1].model:
            lines.append(r"\midrule")
        values = [_cell(cell, error, (i, task) in bold) for task, cell in zip(tasks, block.cells(row), strict=True)]
        lines.append(_line([row.model or "–", block.method(row), row.sampling], values, [row.origin]))
    lines += [r"\bottomrule", r"\end{tabular}", r"{\par\smallskip\footnotesize"]
    lines += [safe_text(note, "latex") + r"\par" for note in notes] + ["}"]
    return "\n".join(lines)


def unbeaten(block: TableBlock) -> set[tuple[int, str]]:
    """Row numbers and tasks (or "average") of measured numbers that no other run of their group beats."""
    rows = block.rows
    groups: dict[tuple[str | None, Setting], list[int]] = {}
    for i, row in enumerate(rows):
        if row.counts is not None:
            groups.setdefault((row.model, row.setting), []).append(i)
    found: set[tuple[int, str]] = set()
    for members in groups.values():
        for task in (*block.tasks, "average"):
            needed = set(block.tasks) if task == "average" else {task}
            candidates = [i for i in members if needed <= rows[i].cells.keys()]
            beaten = _beaten(candidates, rows, task)
            found |= {(i, task) for i in candidates if i not in beaten}
    return found


def _beaten(members: Sequence[int], rows: Sequence[Row], task: str) -> set[int]:
    pairs = list(combinations(members, 2))
    differences = [at_every_look(_difference(rows[i], rows[j], task), (rows[i].aim, rows[j].aim)) for i, j in pairs]
    adjusted = holm([difference.p_value for difference in differences])
    return {
        i if difference.value > 0 else j
        for (i, j), difference, p in zip(pairs, differences, adjusted, strict=True)
        if p < LEVEL
    }


def _difference(row_a: Row, row_b: Row, task: str) -> Difference:
    """avg@k of B minus that of A on one task, or on the mean over their tasks, which are the same."""
    a, b = row_a.counts, row_b.counts
    assert a is not None and b is not None
    parts = []
    for name in a if task == "average" else [task]:
        shared = [problem_id for problem_id in a[name] if problem_id in b[name]]
        of_a, of_b = (Outcomes.of_counts(counts[name]).of(shared).scores for counts in (a, b))
        parts.append(paired_difference(of_a, of_b, "problems like these"))
    return mean_difference(parts)


def _cell(cell: Cell | None, error: ErrorName, is_bold: bool) -> str:
    if cell is None or math.isnan(cell.value):
        return "--"
    mark = "$^*$" if not cell.complete else r"$^\dagger$" if cell.note else ""
    number = percent(cell.value)
    ends = cell.these_problems if error == "these problems" else cell.problems_like_these
    interval = "" if math.isnan(ends.low) else rf" {{\scriptsize {score_interval(ends)}}}"
    return (rf"\textbf{{{number}}}" if is_bold else number) + mark + interval


def _line(labels: Sequence[str], values: Sequence[str] = (), tail: Sequence[str] = ()) -> str:
    before, after = ([safe_text(text, "latex") for text in texts] for texts in (labels, tail))
    return " & ".join([*before, *values, *after]) + r" \\"
