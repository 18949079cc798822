"""Engines when they are needed: none for a finished run, one for all checkpoints whose weights fit into it.

with Opener() as opener:
    for options in several:
        evaluate(options, opener=opener)
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from stapo_bench.engines import Engine, declared_identity, open_engine
from stapo_bench.sampling.options import EvalOptions
from stapo_bench.sampling.work import Work

_FRAME = (".json", ".jinja", ".model", ".tiktoken", ".txt")
_NO_FRAME = ("model.safetensors.index.json", "stapo.json", "trainer_state.json")  # say where weights are, and come from


@runtime_checkable
class TakesWeights(Protocol):
    """An engine that can go on with another checkpoint's weights in place of its own."""

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """``weights``: a model's whole ``state_dict()``."""
        ...


class Opener:
    """Opens an engine when it is first asked for, and keeps it for the next checkpoint where that takes its place.

    An engine that is handed over serves every evaluation and stays open.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._theirs = engine
        self._ours: Engine | None = None
        self._settings: tuple[object, ...] = ()  # under which ours was opened
        self._checkpoint = Path()  # whose weights it has

    def identity(self, options: EvalOptions) -> dict[str, str]:
        """The engine's; before it is open for these options, what is known of it."""
        if self._theirs:
            return self._theirs.identity()
        if self._ours and (self._settings, self._checkpoint) == (_settings(options), options.checkpoint):
            return self._ours.identity()
        return declared_identity(
            options.engine, options.checkpoint, model=options.model, tensor_parallel=options.tensor_parallel
        )

    def engine(self, options: EvalOptions, works: Sequence[Work]) -> Engine:
        """An engine for these options, open by now."""
        if self._theirs:
            return self._theirs
        if self._ours and self._settings == _settings(options):
            if self._checkpoint == options.checkpoint:
                return self._ours
            if isinstance(self._ours, TakesWeights) and same_but_weights(self._checkpoint, options.checkpoint):
                # Under names that only an engine's own loading understands, it is opened anew.
                with suppress(KeyError, RuntimeError):
                    self._ours.load_weights(read_weights(options.checkpoint))
                    self._checkpoint = options.checkpoint
                    return self._ours
        self.close()  # two models may not fit into memory
        self._ours = open_for(options, works)
        self._settings, self._checkpoint = _settings(options), options.checkpoint
        return self._ours

    def close(self) -> None:
        """Close the engine that was opened here."""
        engine, self._ours = self._ours, None
        if engine:
            engine.close()

    def __enter__(self) -> "Opener":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _settings(options: EvalOptions) -> tuple[object, ...]:
    """What an engine is opened with, the checkpoint apart."""
    return options.engine, options.slots, options.base_urls, options.model, options.tensor_parallel


def same_but_weights(one: Path, other: Path) -> bool:
    """Whether two checkpoints have the same configuration, end tokens and tokenizer."""
    return _frame(one) == _frame(other)


def _frame(checkpoint: Path) -> dict[str, bytes]:
    files = (file for file in checkpoint.iterdir() if file.suffix in _FRAME and file.name not in _NO_FRAME)
    return {file.name: file.read_bytes() for file in files}


def open_for(options: EvalOptions, works: Sequence[Work]) -> Engine:
    """The engine asked for; only the scripted one is told what is right."""
    golds = {(work.task.name, p.problem_id): p.gold.answer for work in works for p in work.problems}
    return open_engine(
        options.engine,
        options.checkpoint,
        golds=golds if options.engine == "scripted" else None,
        slots=options.slots,
        base_urls=options.base_urls,
        model=options.model,
        tensor_parallel=options.tensor_parallel,
    )


def read_weights(checkpoint: Path) -> dict[str, Any]:
    """The whole ``state_dict()`` of a checkpoint: tied embeddings, which a file holds once, under both names."""
    from safetensors.torch import load_file
    from transformers import AutoConfig

    weights: dict[str, Any] = {}
    for file in sorted(checkpoint.glob("*.safetensors")):
        weights.update(load_file(file))
    config = AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
    if config.tie_word_embeddings:
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    return weights
