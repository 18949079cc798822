"""The objectives by name. To add one: a file with a subclass of ``Objective``, a line here; see train/README.md.

>>> build("stapo", q=0.5).q
0.5
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from stapo_bench.errors import UsageError
from stapo_train.nearest import unknown_name
from stapo_train.objective import Objective
from stapo_train.objectives.ablations import FullMask, HighEntropyMask, RandomMask, StapoMicroBatch
from stapo_train.objectives.covariance import ClipCov, KlCov
from stapo_train.objectives.dapo import Dapo, JustRl
from stapo_train.objectives.entropy20 import Entropy20
from stapo_train.objectives.grpo import Grpo
from stapo_train.objectives.low_probability import AdvantageReweighting, Lopti
from stapo_train.objectives.lp_reg import LpReg
from stapo_train.objectives.ratios import Cispo, DrGrpo, Gspo, Sapo
from stapo_train.objectives.stapo import Stapo, StapoOld
from stapo_train.objectives.stare import Stare
from stapo_train.parse import parse_record

REGISTRY: dict[str, type[Objective]] = {
    "grpo": Grpo,
    "dapo": Dapo,
    "justrl": JustRl,
    "20-entropy": Entropy20,
    "stapo": Stapo,
    "stapo-old": StapoOld,
    "random-mask": RandomMask,
    "high-entropy-mask": HighEntropyMask,
    "full-mask": FullMask,
    "stapo-micro-batch": StapoMicroBatch,
    "ar": AdvantageReweighting,
    "lopti": Lopti,
    "stare": Stare,
    "lp-reg": LpReg,
    "kl-cov": KlCov,
    "clip-cov": ClipCov,
    "dr-grpo": DrGrpo,
    "gspo": Gspo,
    "cispo": Cispo,
    "sapo": Sapo,
}


def build(name: str, **settings: Any) -> Objective:
    """The objective of that name, its settings read as a config's other values are.

    Raises:
        UsageError: a name or setting that nobody knows, with the nearest known; a value of another type or range.
    """
    if name not in REGISTRY:
        raise UsageError(unknown_name("objective", name, REGISTRY))
    known = [f.name for f in dataclasses.fields(REGISTRY[name])]
    for key in settings:
        if key not in known:
            raise UsageError(unknown_name(f"setting of objective {name}", key, known))
    return parse_record(REGISTRY[name], settings, f"objective {name}")


def for_run(settings: Mapping[str, Any], *, seed: int, max_new_tokens: int) -> Objective:
    """The objective of a run's ``objective:`` section; what the run knows already is not written there again."""
    known = {f.name for f in dataclasses.fields(REGISTRY.get(settings["name"], Objective))}
    facts = {"seed": seed, "max_length": max_new_tokens}
    stated = {str(name): value for name, value in settings.items()}  # YAML has keys of any type
    return build(**{name: value for name, value in facts.items() if name in known} | stated)
