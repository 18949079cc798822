"""What are the silenced tokens? Counted on dumped mini-batches, in rollouts whose answer came out right.

"Spurious" can be checked here: a step that is wrong although the answer is right (see ``arithmetic``) should not have
been rewarded, so a mask that finds what its name says would hit the tokens of such steps more often than others.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from arithmetic import written_steps

from results import Results
from stapo_bench.over_seeds import over_seeds

WORDS = 12
"""Of each list."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Response tokens of one rewarded rollout, in order."""

    texts: Sequence[str]
    candidate: Sequence[bool]  # might be silenced
    silenced: Sequence[bool]


@dataclass(kw_only=True)
class Tally:
    """Counts of tokens; "in wrong" are those that belong to a wrong step, in whole or in part."""

    tokens: int = 0
    in_wrong: int = 0
    silenced: int = 0
    silenced_in_wrong: int = 0
    kept: int = 0  # candidates that were not silenced
    kept_in_wrong: int = 0
    steps: int = 0
    wrong_steps: int = 0
    wrong_steps_hit: int = 0  # with a silenced token
    silenced_words: Counter[str] = field(default_factory=Counter)
    kept_words: Counter[str] = field(default_factory=Counter)

    @property
    def lift(self) -> float:
        """Share of silenced tokens in wrong steps minus that of all tokens; NaN where nothing was silenced."""
        return self.silenced_in_wrong / self.silenced - self.in_wrong / self.tokens if self.silenced else np.nan


def tally(rollouts: Iterable[Rollout]) -> Tally:
    """Count over rewarded rollouts."""
    found = Tally()
    for rollout in rollouts:
        ends = np.cumsum([len(text) for text in rollout.texts])
        steps = written_steps("".join(rollout.texts))
        of_step = [
            [step.start < end and end - len(text) < step.end for text, end in zip(rollout.texts, ends, strict=True)]
            for step in steps
            if not step.right
        ]
        in_wrong = [any(column) for column in zip(*of_step, strict=True)] if of_step else [False] * len(ends)
        found.tokens += len(in_wrong)
        found.in_wrong += sum(in_wrong)
        found.steps += len(steps)
        found.wrong_steps += len(of_step)
        found.wrong_steps_hit += sum(
            any(inside and hit for inside, hit in zip(row, rollout.silenced, strict=True)) for row in of_step
        )
        for text, inside, candidate, hit in zip(
            rollout.texts, in_wrong, rollout.candidate, rollout.silenced, strict=True
        ):
            if hit:
                found.silenced += 1
                found.silenced_in_wrong += inside
                found.silenced_words[text] += 1
            elif candidate:
                found.kept += 1
                found.kept_in_wrong += inside
                found.kept_words[text] += 1
    return found


def read_rollouts(folder: Path) -> list[Rollout]:
    """The rewarded rollouts (A > 0) of a dump, with what its own objective does with them."""
    from stapo_train.dump import load_dump
    from stapo_train.objective import select
    from stapo_train.replay import objective_for

    dump = load_dump(folder)
    stats = dump.batch.stats
    selection = select(stats, objective_for(dump, dump.about["objective"]["name"]))
    silenced, candidate = (~selection.keep_mask).tolist(), selection.candidate_mask.tolist()
    rollouts = []
    for (_, response), start in zip(dump.batch.rows, dump.batch.starts, strict=True):
        place = slice(start, start + len(response))
        if float(stats.advantages[start]) > 0:
            texts = [dump.tokenizer.decode([token]) for token in response]
            rollouts.append(Rollout(texts=texts, candidate=candidate[place], silenced=silenced[place]))
    return rollouts


def spurious(results: Results) -> str:
    """Does the mask hit steps that are wrong although the answer came out right?"""
    lines = [
        "## What are the silenced tokens?",
        "",
        "In rollouts with a positive advantage of all dumped mini-batches; a token is in a wrong step where the "
        "`a op b = c` around it does not hold. Lift: share of silenced tokens in wrong steps minus that of all tokens, "
        "in points, mean over seeds with its 95 % interval (seeds like these).",
        "",
        "| Variant | tokens | in wrong steps | silenced | in wrong steps | kept candidates | in wrong steps "
        "| wrong steps | hit | lift |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    words = []
    for variant in results.experiment.variants:
        by_seed = [
            tally(rollout for dump in _dumps(training.folder) for rollout in read_rollouts(dump))
            for training in results.trainings
            if training.variant == variant
        ]
        if not by_seed:  # the base model
            continue
        cells = [
            (sum(t.tokens for t in by_seed), sum(t.in_wrong for t in by_seed)),
            (sum(t.silenced for t in by_seed), sum(t.silenced_in_wrong for t in by_seed)),
            (sum(t.kept for t in by_seed), sum(t.kept_in_wrong for t in by_seed)),
            (sum(t.wrong_steps for t in by_seed), sum(t.wrong_steps_hit for t in by_seed)),
        ]
        told = " | ".join(f"{whole:,} | {part:,} ({_percent(part, whole)})" for whole, part in cells)
        lines.append(f"| {variant} | {told} | {_lift(by_seed)} |")
        for name in ("silenced", "kept"):
            counts = sum((getattr(t, f"{name}_words") for t in by_seed), Counter[str]())
            listed = ", ".join(f"`{text!r}` {count}" for text, count in _first(counts))
            words.append(f"- {variant}, {name}: {listed or 'none'}")
    return "\n".join([*lines, "", "Most frequent texts:", "", *words])


def _dumps(training: Path) -> list[Path]:
    return sorted(path.parent for path in (training / "dumps").glob("iteration-*/dump.json"))


def _first(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent; equal counts by text, so that the page does not depend on the order of reading."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS]


def _lift(by_seed: Sequence[Tally]) -> str:
    difference = over_seeds([np.array([[t.lift] for t in by_seed])], "seeds like these")
    interval = difference.interval()
    if np.isnan(interval.low):
        return "–"
    return f"{100 * difference.value:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
