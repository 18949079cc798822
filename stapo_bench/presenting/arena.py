"""Graders side by side on labelled responses, as a table."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from stapo_bench.analysis import MOST_CPU_S, Contender, as_json
from stapo_bench.presenting.words import markdown_line, markdown_table, percent, require_md_or_json

_COLUMNS = (
    "Grader",
    "agrees, %",
    "wrong accepts",
    "wrong refusals",
    "no answer",
    "unread",
    "p50 ms",
    "p99 ms",
    "hangs",
)


def render_arena(contenders: Sequence[Contender], missing: Sequence[str], format_: str = "md") -> str:
    """The graders in the order of their agreement, then why others did not run; JSON names the rows of the file."""
    require_md_or_json(format_)
    best_first = sorted(contenders, key=lambda contender: -contender.agreement)
    if format_ == "json":
        rows = [{**asdict(contender), "agreement": contender.agreement} for contender in best_first]
        return json.dumps(as_json({"graders": rows, "not_run": list(missing)}), indent=2)
    failed = [f"{s.name} crashed or raised on {len(s.failed)}" for s in best_first if s.failed]
    return "\n".join(
        [
            *markdown_table(_COLUMNS, map(_cells, best_first)),
            "",
            markdown_line(
                f"{best_first[0].num_responses if best_first else 0} responses. Times are CPU times; a response that "
                f"takes more than {MOST_CPU_S:g} s is a hang, and agrees with no label. "
                f"Versions: {', '.join(contender.version for contender in best_first)}."
            ),
            *(markdown_line(f"- {line}") for line in (*failed, *missing)),
        ]
    )


def _cells(contender: Contender) -> list[str]:
    counts = (contender.wrong_accepts, contender.wrong_refusals)
    return [
        contender.name,
        percent(contender.agreement, 2),
        *(str(len(rows)) for rows in counts),
        str(contender.num_no_answer),
        str(contender.num_unread) if contender.name == "math" else "",
        f"{contender.p50_ms:.2f}",
        f"{contender.p99_ms:.1f}",
        str(len(contender.hung)),
    ]
