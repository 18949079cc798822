"""Graders of one run side by side: their scores, where they disagree, and the answers that they dispute."""

from collections.abc import Iterator

import numpy as np

from stapo_bench.analysis import Dispute, GraderAgreement
from stapo_bench.presenting.words import markdown_line, markdown_row, percent
from stapo_bench.statistics import Interval

MAX_DISPUTES = 20  # shown
_MAX_ANSWER = 60  # characters shown of an answer


def render_graders(agreement: GraderAgreement) -> str:
    """How far a run's graders agree, as Markdown."""
    return "\n".join([*_score_lines(agreement), "", *_disagreement_lines(agreement), *_dispute_lines(agreement)])


def _score_lines(agreement: GraderAgreement) -> Iterator[str]:
    """A table of scores: graders down, tasks across."""
    yield "Graders: avg@k in percent (and its bounds, where a grader failed or has not graded all samples)"
    yield ""
    yield markdown_row(["Grader", *agreement.titles.values(), "Average"])
    yield "|---|" + "---:|" * (len(agreement.titles) + 1)
    for score in agreement.scores:
        mean_bounds = Interval(
            low=float(np.mean([bound.low for bound in score.bounds.values()])),
            high=float(np.mean([bound.high for bound in score.bounds.values()])),
        )
        average = _with_bounds(float(np.mean(list(score.values.values()))), mean_bounds)
        cells = [_with_bounds(score.values[task], score.bounds[task]) for task in agreement.titles]
        version = f" ({score.version})" * (score.version != score.name)  # verdicts that came along have none
        yield markdown_row([f"{score.name}{version}", *cells, average])


def _with_bounds(value: float, bounds: Interval) -> str:
    """A score, and where the undecided samples leave it open its lowest and highest value.

    >>> _with_bounds(0.5, Interval(low=0.5, high=0.5)), _with_bounds(0.5, Interval(low=0.25, high=0.75))
    ('50.00', '50.00 (25.00 to 75.00)')
    """
    is_open = bounds.high - bounds.low > 1e-12
    return f"{percent(value)} ({percent(bounds.low)} to {percent(bounds.high)})" if is_open else percent(value)


def _disagreement_lines(agreement: GraderAgreement) -> Iterator[str]:
    """A table of disputed samples: pairs of graders down, tasks across."""
    yield "Disagreement: samples that one of two graders accepts and the other does not, of those that both decided"
    yield ""
    yield markdown_row(["Graders", *agreement.titles.values()])
    yield "|---|" + "---:|" * len(agreement.titles)
    for pair in agreement.disagreements:
        cells = [_share(*pair.by_task[task]) for task in agreement.titles]
        yield markdown_row([f"{pair.first}, {pair.second}", *cells])


def _share(count: int, total: int) -> str:
    """A count of a total with its share."""
    return f"{count} of {total} ({percent(count / total)} %)" if total else "–"


def _dispute_lines(agreement: GraderAgreement) -> Iterator[str]:
    """A table of the disputed answers; nothing where there is none."""
    if not agreement.disputes:
        return
    yield ""
    shown = agreement.disputes[:MAX_DISPUTES]
    more = f"; the first {len(shown)} of {len(agreement.disputes)}" if len(shown) < len(agreement.disputes) else ""
    note = f" ({agreement.note})" if agreement.note else ""
    yield markdown_line(f"Disputed answers, those of most samples first{more}{note}")
    yield ""
    has_golds = any(dispute.gold is not None for dispute in shown)
    names = [score.name for score in agreement.scores]
    yield markdown_row(["Samples", "Problem", "Answer", *(["Gold"] if has_golds else []), *names])
    yield "|---:|" + "---|" * (2 + has_golds + len(names))
    for dispute in shown:
        answer = "(none)" if dispute.extracted is None else _short(dispute.extracted)
        gold = [_short(dispute.gold or "")] if has_golds else []
        verdicts = [_verdict(dispute, i) for i in range(len(dispute.verdicts))]
        yield markdown_row([str(dispute.num_samples), f"{dispute.task}/{dispute.problem_id}", answer, *gold, *verdicts])


def _verdict(dispute: Dispute, grader: int) -> str:
    """What one grader said, with its own reading of the answer where that is not the one shown."""
    verdict, reading = dispute.verdicts[grader], dispute.readings[grader]
    said = verdict.value if verdict else "–"
    return said if reading in (None, dispute.extracted) else f"{said} (read {_short(reading)})"


def _short(text: str) -> str:
    r"""An answer on one line, not longer than a table can show.

    >>> _short("a\n b"), _short("x" * 99)[-3:]
    ('a b', 'xx…')
    """
    line = " ".join(text.split())
    return line if len(line) <= _MAX_ANSWER else line[: _MAX_ANSWER - 1] + "…"
