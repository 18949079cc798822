"""The commands of an experiment in order. Whether one is finished is read from the folder that it writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stapo_bench.analysis import current_score, run_score
from stapo_bench.errors import StapoError
from stapo_bench.grading import DEFAULT_GRADER, get_grader
from stapo_bench.runs import load_manifest, read_checkpoint, read_grades
from stapo_bench.tasks import read_foreign_yaml
from stapo_train.config import parse_config
from stapo_train.experiments.design import (
    CONFIGS,
    Evaluation,
    Experiment,
    Training,
    evaluations,
    trainings,
)
from stapo_train.tiny.pretrain import FINISHED_FILE, stored_config
from stapo_train.tiny.pretrain import load_config as load_pretrain_config

CPU_SECONDS = {"pretrain": 280.0, "train": 115.0, "eval": 30.0, "grade": 6.0}
"""CPU seconds measured on the tiny suite (a training: 50 iterations), used only to estimate durations."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command; ``is_done`` checks the folder that it writes."""

    name: str
    kind: str  # in CPU_SECONDS
    command: Sequence[str]
    needs: Sequence[str]
    is_done: Callable[[], bool]
    scale: float = 1.0  # times the CPU time of its kind

    @property
    def cpu_s(self) -> float:
        """Expected seconds of CPU time."""
        return CPU_SECONDS[self.kind] * self.scale


def plan(experiment: Experiment, out: Path, num_seeds: int | None = None) -> dict[str, Step]:
    """Every step of an experiment by name, each after what it needs, for the first ``num_seeds`` seeds (default: all).

    Steps go seed by seed, so that a run stopped early has complete seeds, from training to grades.
    """
    all_trainings, all_evaluations = trainings(experiment, out), evaluations(experiment, out)
    steps = [_pretrain(base, settings) for base, settings in {t.base: t.pretrain for t in all_trainings}.items()]
    for seed in experiment.used_seeds[:num_seeds]:
        steps += [_train(t, experiment.dumps) for t in all_trainings if t.config and t.seed == seed]
        for evaluation in all_evaluations:
            if evaluation.training.seed == seed:
                steps.append(_evaluate(evaluation, experiment.evaluated, experiment.options))
                steps += [_grade(evaluation, grader) for grader in experiment.graders]
    return {step.name: step for step in steps}


def _pretrain(base: Path, settings: Sequence[str]) -> Step:
    overrides = [*settings, f"out={base}"]
    config = load_pretrain_config(CONFIGS / "base.yaml", overrides)
    return Step(
        name=base.name,
        kind="pretrain",
        command=["stapo-train", "pretrain", str(CONFIGS / "base.yaml"), *overrides],
        needs=(),
        is_done=lambda: (base / FINISHED_FILE).is_file() and stored_config(base) == config,
    )


def _train(training: Training, dumps: Sequence[int]) -> Step:
    command = ["stapo-train", str(CONFIGS / "_recipe.yaml"), *training.overrides, "--resume"]
    if dumps:
        command += ["--dump-rollouts", ",".join(map(str, dumps))]
    return Step(
        name=training.folder.name,
        kind="train",
        command=command,
        needs=(training.base.name,),
        is_done=lambda: is_trained(training),
        scale=training.config.iterations / 50 if training.config else 0.0,
    )


def is_trained(training: Training) -> bool:
    """Whether the folder holds this training's last checkpoint."""
    if training.config is None or not (training.folder / "checkpoints" / "final").is_dir():
        return False
    stored = parse_config(read_foreign_yaml(training.folder / "config.yaml"), str(training.folder))
    if stored.digest() != training.config.digest():
        raise StapoError(f"{training.folder}: expected the training that its name says, got another; move it away")
    return True


def _evaluate(evaluation: Evaluation, evaluated: Sequence[str], options: dict[str, int]) -> Step:
    training = evaluation.training
    command = ["stapo-bench", "eval", *evaluated, "--ckpt", str(evaluation.checkpoint)]
    command += ["--decoding", evaluation.decoding, "--seed", str(training.seed), "--out", str(evaluation.folder)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return Step(
        name=evaluation.folder.name,
        kind="eval",
        command=command,
        needs=(training.folder.name,),
        is_done=lambda: is_evaluated(evaluation, options),
    )


def is_evaluated(evaluation: Evaluation, options: dict[str, int]) -> bool:
    """Whether all samples under these settings are there, graded by the grader's present version and scored."""
    if not (evaluation.folder / "scores.json").is_file():
        return False
    score = current_score(evaluation.folder)
    training = evaluation.training
    asked = (str(evaluation.checkpoint), training.seed, evaluation.decoding, options["max-new-tokens"])
    found = (score.checkpoint, score.seed, score.regime, score.max_new_tokens)
    samples = {task.samples_per_problem for task in score.tasks}
    if found != asked or ("samples" in options and samples != {options["samples"]}):
        raise StapoError(f"{evaluation.folder}: expected a run of {asked}, got {found}; move it away")
    weights = read_checkpoint(evaluation.checkpoint).digest
    if load_manifest(evaluation.folder).identity.checkpoint_digest != weights:
        raise StapoError(f"{evaluation.folder}: {evaluation.checkpoint} had other weights when it ran; move it away")
    is_whole = all(task.num_samples == task.num_samples_expected and not task.num_ungraded for task in score.tasks)
    return is_whole and score.grader == get_grader(DEFAULT_GRADER).version


def _grade(evaluation: Evaluation, grader: str) -> Step:
    return Step(
        name=f"{evaluation.folder.name} {grader}",
        kind="grade",
        command=["stapo-bench", "grade", str(evaluation.folder), "--grader", grader],
        needs=(evaluation.folder.name,),
        is_done=lambda: is_graded(evaluation.folder, grader),
    )


def is_graded(run: Path, grader: str) -> bool:
    """Whether every sample of the run has this grader's verdict."""
    if not (run / "grades" / f"{grader}.jsonl").is_file():
        return False
    score = run_score(load_manifest(run), grader, read_grades(run, grader))
    return score.grader == get_grader(grader).version and not any(task.num_ungraded for task in score.tasks)
