"""The configuration of a training run, a frozen record read from one YAML file. Defaults are defined here only.

    config = load_config(Path("train/configs/tiny/stapo.yaml"), ["iterations=10", "objective.q=0.5"])

``defaults: OTHER.yaml`` puts a file's values on top of another's (relative to the file). Unknown keys are refused, with
the nearest known one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import flatten
from stapo_bench.tasks import get_tool, read_foreign_yaml
from stapo_train.data_config import STYLE_KEYS, DataConfig, with_examples
from stapo_train.parse import check_range, parse_record, value_of

_GREEDY = 1e-6  # a share below that of the likeliest of any vocabulary's tokens; a temperature that leaves that one


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """How an iteration's rollouts are sampled."""

    prompts: int  # per iteration
    group_size: int = 8  # rollouts per prompt
    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    engine: Literal["transformers", "vllm"] = "transformers"
    # Share that vllm takes while it samples, and gives back while weights are updated unless it draws ahead.
    gpu_memory: float = 0.5
    max_rounds: int = 1  # above 1: dynamic sampling, more prompts until all groups are informative (arXiv:2503.14476)
    # 1: the next iteration's rollouts are drawn while this one trains, by the weights that it begins with; None: by
    # those that it ends with.
    ahead: Literal[1] | None = None
    tool: Literal["calculator"] | None = None  # that replies may call, see stapo_bench.tasks.tool; None: none

    def __post_init__(self) -> None:
        check_range(self, "prompts", "max_new_tokens", "max_rounds", at_least=1)
        if self.group_size < 2:
            raise UsageError(
                f"group_size: expected at least 2, got {self.group_size}: an advantage compares rollouts of one "
                "prompt, and without any nothing is learned"
            )
        check_range(self, "temperature", above=0)
        check_range(self, "top_p", "gpu_memory", above=0, at_most=1)
        for name in ("temperature", "top_p"):
            if getattr(self, name) <= _GREEDY:
                raise UsageError(
                    f"{name}: expected above {_GREEDY:g}, got {getattr(self, name):g}: it leaves one token to sample, "
                    "so that all rollouts of a prompt are equal, none has an advantage, and nothing is learned"
                )


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """What turns a completion into 0 or 1."""

    grader: Literal["strict", "math"] = "strict"
    workers: int = 1  # grader processes
    # Tokens before the limit over which the reward falls by a half: DAPO's penalty of 1 (arXiv:2503.14476, Eq. 13)
    # belongs to rewards of -1 and 1, and ours are 0 and 1.
    overlong_buffer: int | None = None

    def __post_init__(self) -> None:
        check_range(self, "workers", "overlong_buffer", at_least=1)


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """AdamW, constant after a linear warm-up over iterations."""

    lr: float
    warmup_iterations: int = 10
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip_norm: float = 1.0
    states: Literal["8bit"] | None = None  # of the two moments, see stapo_train.optimizer; None: float32

    def __post_init__(self) -> None:
        check_range(self, "lr", "warmup_iterations", "weight_decay", "eps", at_least=0)
        check_range(self, "clip_norm", above=0)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"betas: expected at least 0 and below 1, got {list(self.betas)}")


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """An adapter that is trained in place of the weights, see stapo_train.lora."""

    rank: int
    alpha: float  # the adapter's part is multiplied by alpha / rank
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

    def __post_init__(self) -> None:
        check_range(self, "rank", at_least=1, at_most=512)  # vLLM's greatest
        check_range(self, "alpha", above=0)
        if not self.targets:
            raise UsageError("targets: expected the names of linear layers, got none")
        if len(set(self.targets)) < len(self.targets):
            raise UsageError(f"targets: expected each layer once, got {', '.join(self.targets)}")


CorrectionKind = Literal["token-tis", "sequence-tis", "icepop", "mis", "rejection"]
"""See stapo_train.correction."""


@dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """How an iteration's rollouts become optimizer steps."""

    mini_batches: int = 4  # optimizer steps per iteration
    micro_batch_tokens: int = 8192  # padded positions in one forward pass; changes memory and rounding only
    selection: Literal["exact", "probe", "old-policy"] = "exact"  # see stapo_train.update
    importance_cap: float | None = None  # short for correction: token-tis with this upper bound
    # Against the mismatch of the trainer and the engine that sampled, see stapo_train.correction; None: not corrected.
    correction: CorrectionKind | None = None
    correction_bounds: tuple[float, float] | None = None  # of pi_trainer / pi_engine; None: the kind's own
    max_skipped_in_row: int = 3  # steps without a finite gradient before the run stops

    def __post_init__(self) -> None:
        check_range(self, "mini_batches", "micro_batch_tokens", "max_skipped_in_row", at_least=1)
        check_range(self, "importance_cap", above=0)
        if self.importance_cap is not None and self.correction is not None:
            raise UsageError("importance_cap: expected none beside correction, of which it is one: correction_bounds")
        if self.correction_bounds is not None and self.correction is None:
            raise UsageError("correction_bounds: expected with correction alone, got it without")
        if self.correction_bounds is not None and not 0 <= self.correction_bounds[0] < self.correction_bounds[1]:
            raise UsageError(
                f"correction_bounds: expected a lower bound of 0 or more and a higher one, got {self.correction_bounds}"
            )
        if self.correction in ("token-tis", "sequence-tis") and self.correction_bounds and self.correction_bounds[0]:
            raise UsageError(
                f"correction_bounds: expected 0 as the lower bound of {self.correction}, which has an upper one alone, "
                f"got {self.correction_bounds[0]}"
            )

    @property
    def correction_used(self) -> tuple[CorrectionKind, tuple[float, float] | None] | None:
        """Kind of correction and its bounds (None: the kind's own), also where ``importance_cap`` says it."""
        if self.importance_cap is not None:
            return "token-tis", (0.0, self.importance_cap)
        return None if self.correction is None else (self.correction, self.correction_bounds)


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When weights are saved; the last iteration's always are."""

    every: int = 20  # iterations
    keep: int | None = None  # how many besides the last iteration's, the newest; None: all
    keep_every: int | None = None  # and those of every so many iterations, for as long as the run; None: no others

    def __post_init__(self) -> None:
        check_range(self, "every", "keep", "keep_every", at_least=1)
        if self.keep_every is not None and self.keep is None:
            raise UsageError("keep_every: expected with checkpoint.keep alone, got it without: all are kept")
        if self.keep_every is not None and self.keep_every % self.every:
            raise UsageError(
                f"keep_every: expected a multiple of checkpoint.every = {self.every}, got {self.keep_every}: no "
                "checkpoint is written in between"
            )


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """An evaluation of checkpoints while the training goes on, see stapo_train.evaluation. It changes no weight."""

    every: int  # iterations, a multiple of checkpoint.every; the base and the last iteration's are evaluated, too
    tasks: tuple[str, ...]  # as ``stapo-bench tasks`` lists them
    samples: int | None = None  # of each problem; None: the task's own
    decoding: str = "training"  # a preset, or a file with one; new tokens are those of rollouts
    data_dir: str | None = None  # the tasks' data; None: the hub

    def __post_init__(self) -> None:
        check_range(self, "every", "samples", at_least=1)
        if not self.tasks:
            raise UsageError("tasks: expected at least one task, got none")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run. ``PLACE_KEYS`` say where it runs; the rest says what it computes."""

    out: str
    model: str  # Hugging Face checkpoint folder to start from
    seed: int = 0
    iterations: int
    device: str = "auto"
    autocast: bool = False  # bfloat16 arithmetic over float32 weights
    gradient_checkpointing: bool = False
    activation_offload: bool = False  # what gradient_checkpointing keeps, a layer's input each, waits in main memory
    # All but sdpa take rows end to end, without padding. Flash attention needs its package, an NVIDIA GPU and autocast;
    # torch_varlen (fused/varlen.py) needs neither and cannot sample.
    attention: Literal["sdpa", "torch_varlen", "flash_attention_2", "flash_attention_3"] = "sdpa"
    tensorboard: bool = False  # metrics.jsonl is written in any case
    wandb: bool = False
    data: DataConfig
    rollout: RolloutConfig
    reward: RewardConfig = field(default_factory=RewardConfig)
    objective: Mapping[str, Any]  # name, and settings of that objective
    lora: LoraConfig | None = None  # None: all weights are trained
    optim: OptimConfig
    update: UpdateConfig = field(default_factory=UpdateConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    eval: EvalConfig | None = None  # None: no checkpoint is evaluated

    def __post_init__(self) -> None:
        check_range(self, "iterations", at_least=1)
        if not isinstance(self.objective.get("name"), str):
            raise UsageError(
                f"objective.name: expected the name of an objective, got {self.objective.get('name', 'none')}"
            )
        if self.rollout.prompts % self.update.mini_batches:
            raise UsageError(
                f"rollout.prompts: expected a multiple of update.mini_batches = {self.update.mini_batches}, "
                f"got {self.rollout.prompts}"
            )
        if self.activation_offload and not self.gradient_checkpointing:
            raise UsageError(
                "activation_offload: expected gradient_checkpointing=true with it, got false: what it moves to main "
                "memory is the input of each layer, which alone is then kept"
            )
        if self.eval is not None and self.eval.every % self.checkpoint.every:
            raise UsageError(
                f"eval.every: expected a multiple of checkpoint.every = {self.checkpoint.every}, got "
                f"{self.eval.every}: what is evaluated is a checkpoint"
            )
        if self.attention == "torch_varlen" and self.rollout.engine != "vllm":
            raise UsageError(
                "attention: torch_varlen takes whole rows, but the transformers engine samples token by token with "
                "that model; expected rollout.engine=vllm with it, or attention=sdpa"
            )

    @property
    def groups_each(self) -> int:
        """Groups of a mini-batch."""
        return self.rollout.prompts // self.update.mini_batches

    def nested(self) -> dict[str, Any]:
        """Every setting, as YAML and JSON can hold it."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values

    def digest(self) -> str:
        """A hash of what the run computes; where it is written and on which device it runs do not enter.

        >>> len(load_config(Path("train/configs/tiny/stapo.yaml")).digest())
        16
        """
        return self._digest_without(*PLACE_KEYS)

    def training_digest(self) -> str:
        """A hash of what an iteration computes: all checkpoints of a run have it, also after it was made longer."""
        return self._digest_without(*PLACE_KEYS, *LENGTH_KEYS, *EVAL_KEYS)

    def _digest_without(self, *keys: str) -> str:
        from stapo_train.objectives import REGISTRY

        stated = flatten(self.nested()).items()
        what = {k: v for k, v in stated if k not in keys and not (k in LATER_KEYS and v is None)}
        name = self.objective["name"]
        if name in REGISTRY and REGISTRY[name].definition > 1:
            what["objective definition"] = REGISTRY[name].definition
        if self.rollout.tool is not None:
            what["rollout.tool"] = get_tool(self.rollout.tool).identity
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


PLACE_KEYS = ("out", "device", "activation_offload", "tensorboard", "wandb")
"""Settings of location and reporting; two runs that differ only in these are the same run."""

LENGTH_KEYS = ("iterations", "checkpoint.every", "checkpoint.keep", "checkpoint.keep_every")
"""Settings that decide how many iterations there are and which are kept, and no number of any of them."""


EVAL_KEYS = ("eval", *(f"eval.{name}" for name in EvalConfig.__dataclass_fields__))
"""Settings of the evaluation beside the training, whose weights are the same with and without it."""

LATER_KEYS = (
    "lora", "update.correction", "update.correction_bounds", "data.max_prompt_tokens", "checkpoint.keep",
    "checkpoint.keep_every", "rollout.ahead", "rollout.tool", "optim.states", "eval",
    *(f"data.{name}" for name in STYLE_KEYS),
)  # fmt: skip
"""Settings that came after runs had been made: where they are not set, a run's digest is what it was without them."""

_DEEPEST = 8  # longest chain of ``defaults``


def load_config(path: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a run's YAML, put ``key.key=value`` pairs on top, check everything.

    Raises:
        UsageError: no such file, not YAML, unknown key, wrong type, impossible value.
    """
    return parse_config(_values(path, overrides), str(path))


def _values(path: Path, overrides: Sequence[str]) -> dict[str, Any]:
    values = _read(path)
    for pair in overrides:
        _override(values, pair)
    return with_examples(values)


def parse_config(values: Mapping[str, Any], place: str) -> TrainConfig:
    """The record of nested values as YAML gives them; ``place`` names their source in errors."""
    from stapo_train.objectives import for_run

    config = parse_record(TrainConfig, values, place)
    # A wrong setting of the objective is refused before anything is loaded.
    try:
        for_run(config.objective, seed=config.seed, max_new_tokens=config.rollout.max_new_tokens)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    return config


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """The settings in which two nested configs differ, ``PLACE_KEYS`` aside.

    >>> differences({"seed": 1, "out": "a"}, {"seed": 2, "out": "b"})
    ['seed: 1 here, 2 there']
    >>> differences({"objective": {"q": 0.5}}, {"objective": {}})
    ['objective.q: 0.5 here, not set there']
    """
    a, b = flatten(ours), flatten(theirs)
    keys = sorted((a.keys() | b.keys()) - set(PLACE_KEYS))
    unset = "not set"  # an objective's default stands in its class
    return [f"{key}: {a.get(key, unset)} here, {b.get(key, unset)} there" for key in keys if a.get(key) != b.get(key)]


def _read(path: Path, depth: int = 0) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file; expected a training config, as the repository has them in train/configs/"
        )
    try:
        values = read_foreign_yaml(path)
    except StapoError as error:
        raise UsageError(str(error)) from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: expected keys and values, got {type(values).__name__}")
    base = values.pop("defaults", None)
    if base is None:
        return values
    if not isinstance(base, str) or depth == _DEEPEST:
        raise UsageError(f"{path}: defaults: expected the name of a file, at most {_DEEPEST} in a row, got {base!r}")
    return _merge(_read(path.parent / base, depth + 1), values)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _override(values: dict[str, Any], pair: str) -> None:
    name, equals, _ = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"override '{pair}': expected key=value, for example optim.lr=1e-5")
    *sections, key = name.split(".")
    for depth, section in enumerate(sections, start=1):
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise UsageError(f"override '{pair}': {'.'.join(sections[:depth])} is a value, not a section")
    values[key] = value_of(pair)
