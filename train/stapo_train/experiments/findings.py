"""Results of an experiment, read once: scores by decoding, variant and seed, and the trainings' logs.

An experiment need not be finished. Variants without a finished seed are left out; a seed counts when all the others
have finished it, so that all compared variants have the same seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from stapo_bench.analysis import RunScore, SeedComparison, compare_over_seeds, current_score, score_by
from stapo_bench.errors import StapoError
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.figures.settings import entropy_stability
from stapo_bench.presenting.figures.sources import read_training
from stapo_bench.records import Outcomes
from stapo_bench.tasks import file_hashes
from stapo_train.experiments.design import Evaluation, Experiment, Training, evaluations, trainings
from stapo_train.experiments.steps import plan


@dataclass(frozen=True)
class Findings:
    """The finished runs of an experiment."""

    experiment: Experiment
    out: Path

    @cached_property
    def finished(self) -> Mapping[str, Sequence[int]]:
        """Variant -> its seeds with every step done."""
        done = {name for name, step in plan(self.experiment, self.out).items() if step.is_done()}
        needs: dict[tuple[str, int], set[str]] = {}
        for training in trainings(self.experiment, self.out):
            name = training.folder.name
            needs.setdefault((training.variant, training.seed), set()).add(name)
        for evaluation in evaluations(self.experiment, self.out):
            run = evaluation.folder.name
            names = {run, *(f"{run} {grader}" for grader in self.experiment.graders)}
            needs[evaluation.training.variant, evaluation.training.seed] |= names
        return {
            variant: [seed for seed in self.experiment.used_seeds if needs[variant, seed] <= done]
            for variant in self.experiment.variants
        }

    @cached_property
    def variants(self) -> Sequence[str]:
        """Variants with a finished seed."""
        return [variant for variant, seeds in self.finished.items() if seeds]

    @cached_property
    def seeds(self) -> Sequence[int]:
        """Seeds that all of ``variants`` have finished."""
        return [s for s in self.experiment.used_seeds if all(s in self.finished[variant] for variant in self.variants)]

    def check(self) -> None:
        """Raise StapoError if there are no results yet."""
        if not self.variants or not self.seeds:
            raise StapoError(
                f"{self.experiment.name}: expected a seed that every variant with a finished one has finished, got "
                f"none in {self.out}; 'stapo-bench experiment {self.experiment.name}' goes on"
            )

    @cached_property
    def told(self) -> Sequence[str]:
        """Variants whose comparison with the reference is the page's answer: not those that are the same training."""
        reference = self.experiment.reference
        return [v for v in self.experiment.told if v in self.variants and self.same.get(v) != reference]

    @cached_property
    def trainings(self) -> list[Training]:
        """Trainings that count, without the untrained base."""
        return [
            training
            for training in trainings(self.experiment, self.out)
            if training.config is not None and self._is_used(training)
        ]

    @cached_property
    def same(self) -> Mapping[str, str]:
        """Variant -> another whose trainings ended in bit-identical weights with every seed, if any.

        The setting in which the two differ had no effect. The other is the reference, or else the first such variant.
        """
        weights: dict[str, list[str]] = {}
        for training in self.trainings:
            file = training.checkpoint / "model.safetensors"
            weights.setdefault(training.variant, []).append(file_hashes([file])[file.name])
        names = sorted(weights, key=lambda variant: variant != self.experiment.reference)
        first: dict[tuple[str, ...], str] = {}
        for variant in names:
            first.setdefault(tuple(weights[variant]), variant)
        found = {variant: first[tuple(weights[variant])] for variant in weights}
        return {variant: other for variant, other in found.items() if other != variant}

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """Evaluations that count, the untrained base's included."""
        return [e for e in evaluations(self.experiment, self.out) if self._is_used(e.training)]

    def _is_used(self, training: Training) -> bool:
        return training.variant in self.variants and training.seed in self.seeds

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Sequence[RunScore]]]:
        """Decoding -> variant -> the last checkpoint of each seed, in the order of the seeds."""
        found: dict[str, dict[str, list[RunScore]]] = {}
        for evaluation in self.evaluations:
            by_variant = found.setdefault(evaluation.decoding, {})
            by_variant.setdefault(evaluation.training.variant, []).append(current_score(evaluation.folder))
        return found

    @cached_property
    def sources(self) -> Sources:
        """The data that figures are plotted from."""
        logs = list(dict.fromkeys(training.folder for training in self.trainings))
        return Sources(runs=[evaluation.folder for evaluation in self.evaluations], logs=logs)

    def folder(self, variant: str, seed: int, decoding: str) -> Path:
        """The evaluation run of a variant's last checkpoint."""
        return next(
            e.folder
            for e in self.evaluations
            if (e.training.variant, e.training.seed, e.decoding) == (variant, seed, decoding)
        )

    @cached_property
    def comparisons(self) -> Mapping[str, list[SeedComparison]]:
        """Decoding -> every variant against the reference; empty until the reference has a finished seed."""
        return {decoding: self.compared(by_variant) for decoding, by_variant in self.scores.items()}

    def compared(
        self, scores: Mapping[str, Sequence[RunScore]], pairs: Sequence[Sequence[str]] | None = None
    ) -> list[SeedComparison]:
        """By the given scores, every variant against the reference, or these ``pairs``; of finished variants alone."""
        reference = self.experiment.reference
        if pairs is None:
            pairs = [(reference, name) for name in self.variants if name != reference]
        whole = [(a, b) for a, b in pairs if {a, b} <= set(self.variants)]
        return compare_over_seeds({name: [counted(score) for score in found] for name, found in scores.items()}, whole)

    def graded(self, decoding: str, grader: str) -> Mapping[str, Sequence[RunScore]]:
        """``scores`` of one decoding regime under another grader."""
        return {
            variant: [score_by(self.folder(variant, seed, decoding), grader) for seed in self.seeds]
            for variant in self.scores[decoding]
        }

    def stabilities(self) -> dict[str, list[float]]:
        """Variant -> entropy-stability score of each seed's training; NaN for fewer than ten iterations."""
        return self._by_variant("entropy", entropy_stability)

    def late_rewards(self) -> dict[str, list[float]]:
        """Variant -> mean training reward of each seed over the last tenth of its iterations."""
        return self._by_variant("reward", lambda rewards: float(np.nanmean(rewards[-max(1, len(rewards) // 10) :])))

    def _by_variant(self, column: str, value: Callable[[Sequence[float]], float]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for training in self.trainings:
            values = read_training(training.folder).column(column).tolist()
            found.setdefault(training.variant, []).append(value(values))
        return found


ARCHIVED_OUT = Path("runs/experiments")
"""Where the trainings of an archive were made: their names hang on the path of their base model."""


@dataclass(frozen=True, kw_only=True)
class Archived(Findings):
    """The finished trainings of an experiment without evaluations, from the archive of its page."""

    unpacked: Path

    @cached_property
    def finished(self) -> Mapping[str, Sequence[int]]:
        """Variant -> its seeds with a curve in the archive."""
        there = {(t.variant, t.seed) for t in trainings(self.experiment, self.out) if self._folder(t).is_dir()}
        return {v: [s for s in self.experiment.used_seeds if (v, s) in there] for v in self.experiment.variants}

    @cached_property
    def trainings(self) -> list[Training]:
        """Trainings that count, where they were unpacked."""
        return [replace(training, folder=self._folder(training)) for training in super().trainings]

    @cached_property
    def same(self) -> Mapping[str, str]:
        """None is known to be another's: weights are not in the archive."""
        return {}

    def _folder(self, training: Training) -> Path:
        return self.unpacked / "trainings" / training.folder.name


def counted(score: RunScore) -> dict[str, Outcomes]:
    """A run's outcome counts, which is all that paired statistics need."""
    return {task.task: Outcomes.of_counts(task.counts) for task in score.tasks}
