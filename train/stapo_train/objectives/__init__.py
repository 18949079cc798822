"""The objectives by name, ours and other packages'. To add one: a file with a subclass of ``Objective``, a line here.

Another package offers one by an entry point of the group ``stapo_train.objectives``, whose value names the class:

    [project.entry-points."stapo_train.objectives"]
    positive-only = "their_package.positive_only:PositiveOnly"

A class is imported when it is first asked for, so that names, labels and looks can be had without torch.

>>> build("stapo", q=0.5).q
0.5
"""

import ast
import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.plugins import load_offered, offered
from stapo_train.parse import parse_record, unknown_name

if TYPE_CHECKING:
    from stapo_train.objective import Objective

GROUP = "stapo_train.objectives"

BUILT_IN = {
    "grpo": "stapo_train.objectives.grpo:Grpo",
    "20-entropy": "stapo_train.objectives.entropy20:Entropy20",
    "justrl": "stapo_train.objectives.dapo:JustRl",
    "stapo": "stapo_train.objectives.stapo:Stapo",
    "stapo-old": "stapo_train.objectives.stapo:StapoOld",
    "random-mask": "stapo_train.objectives.ablations:RandomMask",
    "high-entropy-mask": "stapo_train.objectives.ablations:HighEntropyMask",
    "full-mask": "stapo_train.objectives.ablations:FullMask",
    "stapo-micro-batch": "stapo_train.objectives.ablations:StapoMicroBatch",
    "dapo": "stapo_train.objectives.dapo:Dapo",
    "ar": "stapo_train.objectives.low_probability:AdvantageReweighting",
    "lopti": "stapo_train.objectives.low_probability:Lopti",
    "stare": "stapo_train.objectives.stare:Stare",
    "taco": "stapo_train.objectives.taco:Taco",
    "lp-reg": "stapo_train.objectives.lp_reg:LpReg",
    "kl-cov": "stapo_train.objectives.covariance:KlCov",
    "clip-cov": "stapo_train.objectives.covariance:ClipCov",
    "dr-grpo": "stapo_train.objectives.ratios:DrGrpo",
    "gspo": "stapo_train.objectives.ratios:Gspo",
    "cispo": "stapo_train.objectives.ratios:Cispo",
    "sapo": "stapo_train.objectives.ratios:Sapo",
    "dppo-tv": "stapo_train.objectives.dppo:DppoTv",
    "dppo-kl": "stapo_train.objectives.dppo:DppoKl",
    "gmpo": "stapo_train.objectives.whole_rollouts:Gmpo",
    "luspo": "stapo_train.objectives.whole_rollouts:Luspo",
    "vespo": "stapo_train.objectives.whole_rollouts:Vespo",
    "ce-gppo": "stapo_train.objectives.ce_gppo:CeGppo",
    "aspo": "stapo_train.objectives.aspo:Aspo",
    "maxrl": "stapo_train.objectives.baselines:MaxRl",
    "rloo": "stapo_train.objectives.baselines:Rloo",
    "reinforce++": "stapo_train.objectives.baselines:ReinforcePlusPlus",
    "reinforce++-baseline": "stapo_train.objectives.baselines:ReinforcePlusPlusBaseline",
    "opo": "stapo_train.objectives.baselines:Opo",
    "grpo-pass-k": "stapo_train.objectives.baselines:PassK",
    "gpg": "stapo_train.objectives.unclipped:Gpg",
    "dro": "stapo_train.objectives.unclipped:Dro",
}
"""The location of each class, in the order of legends."""


class Registry(MutableMapping[str, "type[Objective]"]):
    """Names to classes, each imported when it is first asked for: ours, then other packages', by name."""

    def __init__(self) -> None:
        self._set: dict[str, type[Objective]] = {}

    def __getitem__(self, name: str) -> "type[Objective]":
        """The class of that name; KeyError where there is none, StapoError where another package's is broken."""
        return self._set[name] if name in self._set else _load(name, places()[name])

    def __setitem__(self, name: str, objective: "type[Objective]") -> None:
        """Register an objective under a name, in this process only."""
        self._set[name] = objective

    def __delitem__(self, name: str) -> None:
        del self._set[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**places(), **self._set})

    def __len__(self) -> int:
        return len({**places(), **self._set})


@cache
def places() -> Mapping[str, str]:
    """The location of each objective's class, as ``package.module:Class``, by name."""
    return BUILT_IN | offered(GROUP, BUILT_IN)


@cache
def _load(name: str, place: str) -> "type[Objective]":
    from stapo_train.objective import Objective

    found = load_offered(f"objective {name}", place)
    if not (isinstance(found, type) and issubclass(found, Objective)):
        raise StapoError(f"objective {name}: expected a subclass of Objective at {place}, got {found!r}")
    return found


REGISTRY = Registry()


def require_known(name: str) -> None:
    """UsageError, with the nearest known name, where no objective has this one; none is imported."""
    if name not in list(REGISTRY):
        raise UsageError(unknown_name("objective", name, REGISTRY))


def build(name: str, **settings: Any) -> "Objective":
    """The objective of that name, its settings read as a config's other values are.

    Raises:
        UsageError: an unknown name or setting, with the nearest known; a value of wrong type or out of range.
    """
    require_known(name)
    known = [f.name for f in dataclasses.fields(REGISTRY[name])]
    for key in settings:
        if key not in known:
            raise UsageError(unknown_name(f"setting of objective {name}", key, known))
    return parse_record(REGISTRY[name], settings, f"objective {name}")


def for_run(settings: Mapping[str, Any], *, seed: int, max_new_tokens: int) -> "Objective":
    """The objective of a run's ``objective:`` section, completed with values that the run's config already holds."""
    name = settings["name"]
    known = {f.name for f in dataclasses.fields(REGISTRY[name])} if name in REGISTRY else set()
    facts = {"seed": seed, "max_length": max_new_tokens}
    stated = {str(key): value for key, value in settings.items()}  # YAML has keys of any type
    return build(**{key: value for key, value in facts.items() if key in known} | stated)


def methods() -> dict[str, tuple[str, str]]:
    """Label and look of each objective by name, for figures and tables, in the order of legends.

    They are read from the class's source without importing it, so that figures do not need torch.

    >>> methods()["stapo"]
    ('STAPO', 'red circle solid')
    """
    found = {}
    for name, place in places().items():
        facts = _stated(place)
        found[name] = (facts.get("label", name), facts.get("look", ""))
    return found


def _stated(place: str) -> dict[str, Any]:
    """Class attributes that are written out as constants in the class's own source; none where there is no source."""
    module, _, class_name = place.partition(":")
    try:
        spec = find_spec(module)
        source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        tree = ast.parse(source)
    except (ImportError, OSError, SyntaxError, ValueError):
        return {}  # a broken package keeps its name; ``build`` reports the error
    (*_, body) = [[], *(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)]
    facts = {}
    for line in body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Constant):
            target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
            facts[ast.unparse(target)] = line.value.value
    return facts
