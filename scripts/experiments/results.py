"""What an experiment left behind, read once: scores by decoding, variant and seed, and the trainings' logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from design import Evaluation, Experiment, Training, evaluations, trainings

from stapo_bench.draws import CountedRun
from stapo_bench.figures import Sources
from stapo_bench.figures.settings import entropy_stability
from stapo_bench.figures.sources import read_training
from stapo_bench.over_seeds import SeedComparison, compare_over_seeds
from stapo_bench.scores import RunScore, current_score


@dataclass(frozen=True)
class Results:
    """All runs of an experiment; every one is finished."""

    experiment: Experiment
    out: Path

    @cached_property
    def trainings(self) -> list[Training]:
        return [training for training in trainings(self.experiment, self.out) if training.config is not None]

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        return evaluations(self.experiment, self.out)

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Sequence[RunScore]]]:
        """Decoding -> variant -> the last checkpoint of each seed, in the order of the seeds."""
        found: dict[str, dict[str, list[RunScore]]] = {}
        for evaluation in self.evaluations:
            if evaluation.step is None:
                by_variant = found.setdefault(evaluation.decoding, {})
                by_variant.setdefault(evaluation.training.variant, []).append(current_score(evaluation.folder))
        return found

    @cached_property
    def sources(self) -> Sources:
        """What figures are drawn from."""
        logs = list(dict.fromkeys(training.folder for training in self.trainings))
        return Sources(runs=[evaluation.folder for evaluation in self.evaluations], logs=logs)

    def folder(self, variant: str, seed: int, decoding: str) -> Path:
        """The run of a variant's last checkpoint."""
        return next(
            e.folder
            for e in self.evaluations
            if (e.training.variant, e.training.seed, e.decoding, e.step) == (variant, seed, decoding, None)
        )

    @cached_property
    def comparisons(self) -> Mapping[str, list[SeedComparison]]:
        """Decoding -> every variant against the reference."""
        reference = self.experiment.reference
        pairs = [(reference, name) for name in self.experiment.variants if name != reference]
        return {
            decoding: compare_over_seeds(
                {variant: [counted(score) for score in scores] for variant, scores in by_variant.items()}, pairs
            )
            for decoding, by_variant in self.scores.items()
        }

    def stabilities(self) -> dict[str, list[float]]:
        """Variant -> entropy-stability score of each seed's training; NaN for fewer than ten iterations."""
        found: dict[str, list[float]] = {}
        for training in self.trainings:
            entropies = read_training(training.folder).column("entropy").tolist()
            found.setdefault(training.variant, []).append(entropy_stability(entropies))
        return found


def counted(score: RunScore) -> CountedRun:
    """A run's counts, all that paired statistics need."""
    return CountedRun(counts={task.task: task.counts for task in score.tasks})
