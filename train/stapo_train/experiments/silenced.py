"""Counts which tokens are silenced, on dumped mini-batches, in rollouts whose answer is right.

In the tiny suite "spurious" can be checked: a wrong step in spite of a right answer, or a stray letter (see
``arithmetic``), should not have been rewarded, so a mask that finds spurious tokens would hit the tokens of such places
more often than others. Candidates are the tokens with A > 0 and pi < tau_p, among which entropy chooses. What entropy
adds is the share of silenced tokens in such places minus the share of candidates there, which a random choice would
have on average. All masks are applied to the same mini-batches of real trainings.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stapo_bench.presenting.figures.sources import read_training
from stapo_bench.statistics import LEVEL, UNDECIDED, Difference, holm, over_seeds
from stapo_train.experiments.arithmetic import stray_letters, written_steps
from stapo_train.experiments.design import Training
from stapo_train.experiments.findings import Findings
from stapo_train.experiments.section import Section, in_points

if TYPE_CHECKING:
    from stapo_train.inspect.dump import Dump

WORDS = 12
"""Number of words shown per list."""

MASKS: Mapping[str, Mapping[str, Any]] = {
    f"{label}{suffix}": {"name": name, "tau_p": tau_p}
    # A mini-batch here has few tokens; the larger tau_p gives more candidates.
    for suffix, tau_p in (("", 0.002), (", tau_p 0.05", 0.05))
    for label, name in (("STAPO", "stapo"), ("STAPO (v1-v3)", "stapo-old"))
}


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Response tokens of one rewarded rollout, in order."""

    texts: Sequence[str]
    candidate: Sequence[bool]  # might be silenced
    silenced: Sequence[bool]


@dataclass(kw_only=True)
class Places:
    """Counts of places (text spans) of one kind and of the tokens that overlap them."""

    count: int = 0
    hit: int = 0  # with a silenced token
    tokens: int = 0
    silenced: int = 0
    kept: int = 0  # candidates that were not silenced


@dataclass(kw_only=True)
class Tally:
    """Counts over rollouts; ``whole`` counts every token, with a whole rollout as one place."""

    whole: Places = field(default_factory=Places)
    wrong_steps: Places = field(default_factory=Places)
    right_steps: Places = field(default_factory=Places)
    letters: Places = field(default_factory=Places)
    silenced_words: Counter[str] = field(default_factory=Counter)
    kept_words: Counter[str] = field(default_factory=Counter)

    @property
    def num_candidates(self) -> int:
        """Tokens that the mask could silence, silenced or not."""
        return self.whole.silenced + self.whole.kept

    def lift(self, places: Places) -> float:
        """Share of silenced tokens in these places minus the share of candidates there; NaN: none silenced."""
        if not self.whole.silenced:
            return np.nan
        return places.silenced / self.whole.silenced - (places.silenced + places.kept) / self.num_candidates


def tally(rollouts: Iterable[Rollout]) -> Tally:
    """Counts over rewarded rollouts."""
    found = Tally()
    for rollout in rollouts:
        text = "".join(rollout.texts)
        steps = written_steps(text)
        _count(found.whole, rollout, [(0, len(text))])
        _count(found.wrong_steps, rollout, [(step.start, step.end) for step in steps if not step.right])
        _count(found.right_steps, rollout, [(step.start, step.end) for step in steps if step.right])
        _count(found.letters, rollout, [(place, place + 1) for place in stray_letters(text)])
        for token, candidate, silenced in zip(rollout.texts, rollout.candidate, rollout.silenced, strict=True):
            if silenced:
                found.silenced_words[token] += 1
            elif candidate:
                found.kept_words[token] += 1
    return found


def _count(places: Places, rollout: Rollout, spans: Sequence[tuple[int, int]]) -> None:
    ends = np.cumsum([len(text) for text in rollout.texts])
    starts = ends - [len(text) for text in rollout.texts]
    silenced, candidate = np.array(rollout.silenced, dtype=bool), np.array(rollout.candidate, dtype=bool)
    anywhere = np.zeros(len(ends), dtype=bool)
    for start, end in spans:
        inside = (start < ends) & (starts < end)
        places.count += 1
        places.hit += bool((inside & silenced).any())
        anywhere |= inside
    places.tokens += int(anywhere.sum())
    places.silenced += int((anywhere & silenced).sum())
    places.kept += int((anywhere & candidate & ~silenced).sum())


def read_rollouts(folder: Path) -> dict[str, list[Rollout]]:
    """The rewarded rollouts (A > 0) of a dump under each mask."""
    from stapo_train.inspect.replay import objective_for
    from stapo_train.objective import select

    dump = open_dump(folder)
    batch, stats = dump.batch, dump.batch.stats
    rewarded = [row for row, (_, response) in enumerate(batch.rows) if response and batch.row_advantages[row] > 0]
    texts = {row: [dump.tokenizer.decode([token]) for token in batch.rows[row][1]] for row in rewarded}
    found: dict[str, list[Rollout]] = {}
    for mask, settings in MASKS.items():
        selection = select(stats, objective_for(dump, **settings))
        silenced, candidate = (~selection.keep_mask).tolist(), selection.candidate_mask.tolist()
        found[mask] = [
            Rollout(texts=texts[row], candidate=candidate[place], silenced=silenced[place])
            for row in rewarded
            for place in [slice(batch.starts[row], batch.starts[row] + len(texts[row]))]
        ]
    return found


def spurious(findings: Findings, folder: Path) -> Section:
    """Does the mask hit steps that are wrong although the answer came out right?"""
    lines = [
        "## What are the silenced tokens?",
        "",
        "In rollouts with a positive advantage of all dumped mini-batches, every mask laid over the same ones. A step "
        "is wrong where its arithmetic does not hold although the answer came out right; a stray letter stands in "
        "front of a number. Candidates are below tau_p. Choice: the share of the silenced tokens that lie there minus "
        "that of the candidates, which is what drawing among them by lot would have; in points, mean over the seeds in "
        "which any is silenced, with its 95 % interval.",
        "",
        "| Training | Mask | tokens | candidates | silenced | in wrong steps: all, candidates, silenced | choice "
        "| stray letters: all, candidates, silenced | choice | wrong steps hit | right steps hit |",
        "|" + "---|" * 11,
    ]
    answers, words = [], []
    for variant in findings.variants:
        made = [training for training in findings.trainings if training.variant == variant]
        by_mask: dict[str, list[Tally]] = {mask: [] for mask in MASKS}
        for training in made:
            dumped = [read_rollouts(dump) for dump in dumps(training.folder)]
            for mask, tallies in by_mask.items():
                tallies.append(tally(rollout for rollouts in dumped for rollout in rollouts[mask]))
        found = {mask: tallies for mask, tallies in by_mask.items() if any(t.whole.tokens for t in tallies)}
        if found:
            answers.append(_share(variant, made))
        choices = {mask: _change([t.lift(t.wrong_steps) for t in by_seed]) for mask, by_seed in found.items()}
        adjusted = holm([choice.p_value for choice in choices.values()])
        for (mask, by_seed), p in zip(found.items(), adjusted, strict=True):
            lines.append(f"| {variant} | {mask} | {_row(by_seed)} |")
            answers.append(_answer(variant, mask, by_seed, choices[mask], p))
            words += [_words(variant, mask, name, by_seed) for name in ("silenced", "kept")]
    if not words:
        return Section(text=f"{lines[0]}\n\nNo rollout with a positive advantage was kept.")
    return Section(answers=answers, text="\n".join([*lines, "", "Most frequent texts:", "", *words]))


def open_dump(folder: Path) -> "Dump":
    """Load a dump without progress bars."""
    from transformers.utils.logging import disable_progress_bar

    from stapo_train.inspect.dump import load_dump

    disable_progress_bar()
    return load_dump(folder)


def dumps(training: Path) -> list[Path]:
    """Mini-batches that a training kept."""
    return sorted(path.parent for path in (training / "dumps").glob("iteration-*/dump.json"))


def _share(variant: str, trainings: Sequence[Training]) -> str:
    shares = [100 * float(np.mean(read_training(t.folder).column("masked_share"))) for t in trainings]
    return (
        f"{variant} silences {np.mean(shares):.3f} % of all response tokens over training ({min(shares):.3f} to "
        f"{max(shares):.3f} % by seed)."
    )


def _row(by_seed: Sequence[Tally]) -> str:
    whole, wrong, right, letters = (
        total([getattr(found, name) for found in by_seed])
        for name in ("whole", "wrong_steps", "right_steps", "letters")
    )
    cells = [f"{count:,}" for count in (whole.tokens, whole.silenced + whole.kept, whole.silenced)]
    for name, places in (("wrong_steps", wrong), ("letters", letters)):
        cells.append(", ".join(_shares(places, whole)))
        cells.append(in_points(_change([found.lift(getattr(found, name)) for found in by_seed])))
    return " | ".join([*cells, *(f"{p.hit:,} of {p.count:,}" for p in (wrong, right))])


def _shares(places: Places, whole: Places) -> list[str]:
    """The shares of all tokens, of candidates and of silenced tokens that lie in these places."""
    candidates = places.silenced + places.kept, whole.silenced + whole.kept
    pairs = ((places.tokens, whole.tokens), candidates, (places.silenced, whole.silenced))
    return [f"{100 * part / of:.1f} %" if of else "–" for part, of in pairs]


def total(parts: Sequence[Places]) -> Places:
    """Their sums."""
    return Places(**{name: sum(getattr(part, name) for part in parts) for name in Places.__dataclass_fields__})


def _answer(variant: str, mask: str, by_seed: Sequence[Tally], choice: Difference, p_adjusted: float) -> str:
    """``choice``: mean lift on wrong steps; its p is corrected for the number of masks applied to the same rollouts."""
    whole, wrong, letters = (total([getattr(t, n) for t in by_seed]) for n in ("whole", "wrong_steps", "letters"))
    if not whole.silenced:
        return f"{mask} on {variant}'s rollouts: no token is silenced."
    of_all, of_candidates, of_silenced = _shares(wrong, whole)
    _, letters_of_candidates, letters_of_silenced = _shares(letters, whole)
    return (
        f"{mask} on {variant}'s rollouts: {of_silenced} of the silenced tokens lie in steps that are wrong although "
        f"the answer is right, {of_candidates} of the candidates, {of_all} of all tokens. Choosing among the "
        f"candidates by entropy is {'' if p_adjusted < LEVEL else 'not '}told apart from drawing by lot "
        f"({in_points(choice)} points, p {p_adjusted:.3f} by Holm, {len(by_seed)} seeds). "
        f"It hits {wrong.hit} of {wrong.count} such steps and {letters.hit} of {letters.count} stray letters "
        f"({letters_of_silenced} of the silenced tokens, {letters_of_candidates} of the candidates)."
    )


def _words(variant: str, mask: str, name: str, by_seed: Sequence[Tally]) -> str:
    counts = sum((getattr(found, f"{name}_words") for found in by_seed), Counter[str]())
    # Ties are sorted by text, so that the page does not depend on the reading order.
    first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS]
    return f"- {variant}, {mask}, {name}: {', '.join(f'`{text!r}` {count}' for text, count in first) or 'none'}"


def _change(lifts: Sequence[float]) -> Difference:
    """Mean lift over seeds, without those in which nothing is silenced; NaN: fewer than two seeds left."""
    known = [lift for lift in lifts if not np.isnan(lift)]
    return over_seeds([np.array(known)[:, None]], "seeds like these") if len(known) > 1 else UNDECIDED
