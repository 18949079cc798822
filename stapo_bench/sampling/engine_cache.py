"""Engines opened only when needed: none for a finished run, one for all checkpoints that differ in weights alone.

with EngineCache() as engines:
    for options in several:
        evaluate(options, engines=engines)
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from stapo_bench.engines import Engine, EngineOptions, declared_identity, open_engine
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.eval_tasks import EvalTask

_FRAME = (".json", ".jinja", ".model", ".tiktoken", ".txt")
_NO_FRAME = ("model.safetensors.index.json", "stapo.json", "trainer_state.json")  # say where weights are, and come from


@runtime_checkable
class TakesWeights(Protocol):
    """An engine that can go on with another checkpoint's weights in place of its own."""

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """``weights``: a model's whole ``state_dict()``."""
        ...


class EngineCache:
    """Opens an engine when it is first asked for, and keeps it for the next checkpoint whose weights it can load.

    An engine that is handed over serves every evaluation and stays open.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        """``engine``: an open one, the caller's; None: opened here."""
        self._theirs = engine
        self._ours: Engine | None = None
        self._opened_with = EngineOptions()
        self._checkpoint = Path()  # whose weights our engine has

    def identity(self, options: EvalOptions) -> dict[str, str]:
        """The engine's; before it is open for these options, what is known of it."""
        if self._theirs:
            return self._theirs.identity()
        if self._ours and (self._opened_with, self._checkpoint) == (options.engine, options.checkpoint):
            return self._ours.identity()
        return declared_identity(options.engine, options.checkpoint)

    def engine(self, options: EvalOptions, eval_tasks: Sequence[EvalTask]) -> Engine:
        """An engine for these options, open by now."""
        if self._theirs:
            return self._theirs
        if self._ours and self._opened_with == options.engine:
            if self._checkpoint == options.checkpoint:
                return self._ours
            if isinstance(self._ours, TakesWeights) and same_but_weights(self._checkpoint, options.checkpoint):
                # Fails for names that only the engine's own loader understands: the engine is then opened anew.
                with suppress(KeyError, RuntimeError):
                    self._ours.load_weights(read_weights(options.checkpoint))
                    self._checkpoint = options.checkpoint
                    return self._ours
        self.close()  # two models may not fit into memory
        self._ours = open_for(options, eval_tasks)
        self._opened_with, self._checkpoint = options.engine, options.checkpoint
        return self._ours

    def close(self) -> None:
        """Close the engine that was opened here."""
        engine, self._ours = self._ours, None
        if engine:
            engine.close()

    def __enter__(self) -> "EngineCache":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def same_but_weights(one: Path, other: Path) -> bool:
    """Whether two checkpoints have the same configuration, end tokens and tokenizer."""
    return _frame(one) == _frame(other)


def _frame(checkpoint: Path) -> dict[str, bytes]:
    files = (file for file in checkpoint.iterdir() if file.suffix in _FRAME and file.name not in _NO_FRAME)
    return {file.name: file.read_bytes() for file in files}


def open_for(options: EvalOptions, eval_tasks: Sequence[EvalTask]) -> Engine:
    """Open the engine asked for. ``open_engine`` passes the golds on only to one that answers at a known rate."""
    golds = {(one.task.name, p.problem_id): p.gold.answer for one in eval_tasks for p in one.problems}
    return open_engine(replace(options.engine, golds=golds), options.checkpoint)


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
