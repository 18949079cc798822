"""Definition of an experiment: one YAML file, and the trainings and evaluations that follow from it.

A training's folder is named by a hash of what it computes, so experiments that need the same training share it.
``overrides`` are settings of ``stapo-train`` on top of ``train/configs/tiny/_recipe.yaml``; those that begin with
``pretrain.`` are the base model's, on top of ``base.yaml`` there. A variant without any is the untrained base model.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from stapo_bench.engines import REGIMES, preset, sampling_in_words
from stapo_bench.errors import UsageError
from stapo_bench.tasks import read_foreign_yaml
from stapo_train.config import TrainConfig, load_config

_TRAIN = Path(__file__).resolve().parents[2]
HERE = _TRAIN / "experiments"
CONFIGS = _TRAIN / "configs" / "tiny"

SEEDS: Mapping[str, tuple[int, ...]] = {
    "fresh": (101, 102, 103, 104, 105),
    "search": (1, 2, 3),
    "second": (201, 202, 203, 204, 205),
}
"""Settings are searched with the search seeds and measured with the fresh ones, by which nothing is ever chosen.

The second ones are for predictions about methods that were seen with the fresh ones.
"""

PRETRAIN = "pretrain."
"""How settings of the base model begin."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment, as its YAML file defines it."""

    name: str
    question: str
    seeds: str  # a name in SEEDS
    num_seeds: int | None = None  # use only the first ones; None: all
    variants: Mapping[str, Sequence[str]]  # name on the page -> overrides; none: base model
    reference: str  # the variant that every other is compared with
    verdicts: Sequence[str] = ()  # the variants whose comparison opens the page; none: all
    pairs: Sequence[Sequence[str]] = ()  # [A, B]: B is compared with A, too, neither of which need be the reference
    decodings: Sequence[str] = REGIMES
    dumps: Sequence[int] = ()  # iterations whose last mini-batch is kept, with the weights before it
    figures: Sequence[str] = ()  # of ``stapo-bench plot``
    sections: Sequence[str] = ()  # of pages.SECTIONS
    graders: Sequence[str] = ()  # besides ``math``
    overrides: Sequence[str] = ()  # of every training
    left_out: str = ""  # of what the compared methods' authors do; said at the head of the page
    suite: str = "tiny"  # the tasks of every evaluation
    tasks: Sequence[str] = ()  # evaluate these alone, of whatever suite
    evaluation: Mapping[str, int] = field(default_factory=dict)  # options of ``stapo-bench eval`` on top of EVALUATION

    @property
    def used_seeds(self) -> tuple[int, ...]:
        """The seeds of every variant: the first ``num_seeds`` of those that ``seeds`` names."""
        return SEEDS[self.seeds][: self.num_seeds]

    @property
    def untrained(self) -> Sequence[str]:
        """Variants that are the base model."""
        return [name for name, own in self.variants.items() if not own]

    @property
    def told(self) -> Sequence[str]:
        """Variants whose comparison with the reference is the page's answer."""
        return self.verdicts or [name for name in self.variants if name != self.reference]

    @property
    def compared(self) -> set[str]:
        """Variants that ``reference``, ``verdicts`` and ``pairs`` name."""
        return {self.reference, *self.verdicts, *(name for pair in self.pairs for name in pair)}

    @property
    def options(self) -> dict[str, int]:
        """Options of ``stapo-bench eval``."""
        return {**EVALUATION, **self.evaluation}

    @property
    def evaluated(self) -> Sequence[str]:
        """What ``stapo-bench eval`` is told to evaluate."""
        return ["--tasks", ",".join(self.tasks)] if self.tasks else ["--suite", self.suite]


EVALUATION = {"max-new-tokens": 96}


@dataclass(frozen=True, kw_only=True)
class Training:
    """One variant with one seed; ``overrides`` is empty for the base model."""

    variant: str
    seed: int
    folder: Path
    base: Path  # the folder of the model that it begins with, one per set of ``pretrain``
    pretrain: Sequence[str]
    config: TrainConfig | None
    overrides: Sequence[str] = ()

    @property
    def checkpoint(self) -> Path:
        """The folder of the last checkpoint."""
        return self.base if self.config is None else self.folder / "checkpoints" / "final"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The evaluation of a last checkpoint in one decoding regime, sampled with the training's seed."""

    training: Training
    decoding: str
    checkpoint: Path
    folder: Path


def load_experiment(name: str) -> Experiment:
    """The experiment of that name, or of that file.

    Raises:
        UsageError: no such experiment, or a YAML with an unknown key.
    """
    path = Path(name) if name.endswith(".yaml") else HERE / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in HERE.glob("*.yaml")))
        ours = f"one of {known}" if known else "the checkout's train/experiments, which an installed package lacks"
        raise UsageError(f"experiment '{name}': expected {ours}, or a YAML file")
    values = read_foreign_yaml(path)
    if not isinstance(values, dict):
        raise UsageError(f"{path}: expected keys and values, got {type(values).__name__}")
    known_keys = {f.name for f in fields(Experiment)} - {"name"}
    if unknown := sorted(set(values) - known_keys):
        raise UsageError(f"{path}: unknown {', '.join(unknown)}; expected {', '.join(sorted(known_keys))}")
    experiment = Experiment(name=path.stem, **values)
    if experiment.seeds not in SEEDS:
        raise UsageError(f"{path}: seeds: expected one of {', '.join(SEEDS)}, got {experiment.seeds}")
    if unknown := sorted(experiment.compared - set(experiment.variants)):
        raise UsageError(f"{path}: expected the names of variants, got {', '.join(unknown)}")
    return experiment


def trainings(experiment: Experiment, out: Path) -> list[Training]:
    """Every variant with every seed, seed by seed."""
    return [
        _training(experiment, variant, seed, out) for seed in experiment.used_seeds for variant in experiment.variants
    ]


def _training(experiment: Experiment, variant: str, seed: int, out: Path) -> Training:
    own = experiment.variants[variant]
    stated = [*experiment.overrides, *own]
    pretrain = [pair.removeprefix(PRETRAIN) for pair in stated if pair.startswith(PRETRAIN)]
    base = out / "-".join(["base", *map(_slug, pretrain)])
    if not own:
        return Training(variant=variant, seed=seed, folder=base, base=base, pretrain=pretrain, config=None)
    overrides = [pair for pair in stated if not pair.startswith(PRETRAIN)]
    overrides += [f"model={base}", f"seed={seed}", "device=cpu"]
    # The folder is named by a hash of the config, which must not contain the folder.
    config = load_config(CONFIGS / "_recipe.yaml", [*overrides, "out=unknown"])
    kept = "-dumps" if experiment.dumps else ""  # a finished training cannot write dumps afterwards
    name = f"{_slug(str(config.objective['name']))}-s{seed}-{config.digest()[:8]}{kept}"
    folder = out / "trainings" / name
    return Training(
        variant=variant,
        seed=seed,
        folder=folder,
        base=base,
        pretrain=pretrain,
        config=config,
        overrides=[*overrides, f"out={folder}"],
    )


def evaluations(experiment: Experiment, out: Path) -> list[Evaluation]:
    """Every training's last checkpoint in every decoding regime."""
    return [
        Evaluation(
            training=training,
            decoding=decoding,
            checkpoint=training.checkpoint,
            folder=out / "evals" / f"{_run_name(training)}-{decoding}",
        )
        for training in trainings(experiment, out)
        for decoding in experiment.decodings
    ]


def _run_name(training: Training) -> str:
    return training.folder.name + (f"-s{training.seed}" if training.config is None else "")


def in_words(decoding: str) -> str:
    """A decoding regime as pages name it.

    >>> in_words("justrl")
    'T=0.7, top-p 0.9'
    """
    params = preset(decoding)
    return sampling_in_words(params)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
