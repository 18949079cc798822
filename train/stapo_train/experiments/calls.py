"""How often a model calls a tool, what that is worth, and what it does without: a section of an experiment's page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stapo_bench.presenting import percent, score_interval
from stapo_bench.runs import load_manifest, read_samples
from stapo_bench.statistics import Interval, over_seeds
from stapo_train.experiments.design import in_words
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.section import Section


@dataclass(frozen=True, kw_only=True)
class Calls:
    """What the replies to one task of a run asked a tool."""

    per_reply: float  # mean number of calls
    share: float  # of replies with a call
    told: float  # mean number of tokens that the tool has written into a reply


def calls_of(run_dir: Path) -> dict[str, Calls]:
    """Of each task whose replies may call a tool."""
    tasks = load_manifest(run_dir).identity.tasks
    outputs: dict[str, list[tuple[int, int]]] = {name: [] for name, task in tasks.items() if task.tool is not None}
    for sample in read_samples(run_dir):
        if sample.task in outputs:
            told = sum(len(output.token_ids) for output in sample.tool_outputs)
            outputs[sample.task].append((len(sample.tool_outputs), told))
    return {
        name: Calls(
            per_reply=float(np.mean([number for number, _ in found])),
            share=float(np.mean([number > 0 for number, _ in found])),
            told=float(np.mean([told for _, told in found])),
        )
        for name, found in outputs.items()
        if found
    }


def calls(findings: Findings, folder: Path) -> Section:
    """Calls per reply, and the score of every task, with 95 % intervals over seeds."""
    lines = ["## Calls, and the score with and without them"]
    answers = []
    for decoding, by_variant in findings.scores.items():
        titles = [task.title for task in next(iter(by_variant.values()))[0].tasks]
        head = ["Variant", *titles, "calls per reply", "replies that call", "tool's tokens per reply"]
        lines += ["", f"{in_words(decoding)}; means over seeds with 95 % intervals for seeds like these.", ""]
        lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for variant, scores in by_variant.items():
            found = [list(calls_of(findings.folder(variant, seed, decoding)).values()) for seed in findings.seeds]
            values = [[task.value for task in score.tasks] for score in scores]
            cells = [_share(column) for column in zip(*values, strict=True)]
            per_reply = _mean(each.per_reply for run in found for each in run)
            share = [each.share for run in found for each in run]
            told = _mean(each.told for run in found for each in run)
            lines.append(f"| {' | '.join([variant, *cells, per_reply, _share(share), told])} |")
            answers.append(
                f"{variant}: {_in_words(dict(zip(titles, cells, strict=True)))}; {per_reply} calls per reply."
            )
    return Section(answers=answers, text="\n".join(lines))


def _in_words(cells: Mapping[str, str]) -> str:
    """Scores by task as a clause."""
    return ", ".join(f"{title[0].lower()}{title[1:]} {cell.replace(' ', ' % ', 1)}" for title, cell in cells.items())


def _interval(values: Sequence[float]) -> tuple[float, Interval]:
    """Mean over seeds, and its t-interval."""
    found = over_seeds([np.array(values)[:, None]], "seeds like these")
    return float(np.mean(values)), found.interval()


def _share(values: Sequence[float]) -> str:
    """A mean share in percent; where all seeds agree, nothing is known of its error."""
    mean, interval = _interval(values)
    if math.isnan(interval.low):
        return f"{percent(mean, 1)} [–]"
    return f"{percent(mean, 1)} {score_interval(Interval(low=max(0.0, interval.low), high=min(1.0, interval.high)))}"


def _mean(values: Iterable[float]) -> str:
    """A mean number; where all seeds agree, nothing is known of its error."""
    mean, interval = _interval(list(values))
    if math.isnan(interval.low):
        return f"{mean:.2f} [–]"
    return f"{mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
