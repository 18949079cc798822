"""Engines opened only when needed: none for a finished run, one for all checkpoints that differ in weights alone.

with EngineCache() as engines:
    for options in several:
        evaluate(options, engines=engines)
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from stapo_bench.engines import Engine, EngineOptions, declared_identity, open_engine
from stapo_bench.sampling.eval_options import EvalOptions, sampling_params
from stapo_bench.sampling.eval_tasks import EvalTask, most_positions
from stapo_bench.tasks import file_hashes

_FRAME = (".json", ".jinja", ".model", ".tiktoken", ".txt")
_NO_FRAME = ("model.safetensors.index.json", "stapo.json", "trainer_state.json")  # say where weights are, and come from


@runtime_checkable
class TakesWeights(Protocol):
    """An engine that can go on with another checkpoint's weights in place of its own."""

    def load_folder(self, checkpoint: Path) -> None:
        """Read the weights of a checkpoint folder."""
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
        self._frame: dict[
            str, str
        ] = {}  # what stood beside them; a training may have deleted both since; {}: not known

    def open_early(self, options: EvalOptions) -> None:
        """Open an engine that asks servers: whether they answer is known before a tokenizer is loaded, and torch."""
        if self._theirs is None and options.engine.name == "openai":
            self._ours = open_engine(options.engine, options.folder)
            self._opened_with, self._checkpoint = options.engine, options.folder

    def identity(self, options: EvalOptions) -> dict[str, str]:
        """The engine's; before it is open for these options, what is known of it."""
        if self._theirs:
            return self._theirs.identity()
        if self._ours and self.has_weights(options):
            return self._ours.identity()
        return declared_identity(options.engine, options.folder)

    def has_weights(self, options: EvalOptions) -> bool:
        """Whether an engine is open that has read this checkpoint's weights: its folder is not needed any more."""
        known = (self._opened_with, self._checkpoint)
        return self._theirs is not None or (self._ours is not None and known == (options.engine, options.folder))

    def engine(self, options: EvalOptions, eval_tasks: Sequence[EvalTask]) -> Engine:
        """An engine for these options, open by now."""
        if self._theirs:
            return self._theirs
        asked = most_positions(eval_tasks, sampling_params(options).max_new_tokens)
        if self._ours and self._opened_with == options.engine and _within(asked, self._opened_with.positions):
            if self._checkpoint == options.folder:
                return self._ours
            if isinstance(self._ours, TakesWeights) and frame_of(options.folder) == self._frame:
                # Fails for names that only the engine's own loader understands: the engine is then opened anew.
                with suppress(KeyError, RuntimeError):
                    self._ours.load_folder(options.folder)
                    self._checkpoint = options.folder
                    return self._ours
        self.close()  # two models may not fit into memory
        self._ours = open_for(options, eval_tasks)
        self._opened_with, self._checkpoint = replace(options.engine, positions=asked), options.folder
        self._frame = {}
        if isinstance(self._ours, TakesWeights):
            with suppress(OSError):  # it was deleted just now
                self._frame = frame_of(options.folder)
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


def _within(asked: int | None, ready: int | None) -> bool:
    """Whether an engine that was opened for ``ready`` positions (None: for all that the model has) takes these."""
    return ready is None or (asked is not None and asked <= ready)


def frame_of(checkpoint: Path) -> dict[str, str]:
    """sha256 of what two checkpoints share that differ in weights alone: configuration, end tokens and tokenizer."""
    return file_hashes([file for file in checkpoint.iterdir() if file.suffix in _FRAME and file.name not in _NO_FRAME])


def open_for(options: EvalOptions, eval_tasks: Sequence[EvalTask]) -> Engine:
    """Open the engine asked for. ``open_engine`` passes the golds on only to one that answers at a known rate."""
    golds = {(one.task.name, p.problem_id): p.gold.answer for one in eval_tasks for p in one.problems}
    positions = most_positions(eval_tasks, sampling_params(options).max_new_tokens)
    return open_engine(replace(options.engine, golds=golds, positions=positions), options.folder)
