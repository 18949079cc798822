"""A run's folder on disk, from which the run can resume after a kill at any moment.

    <run>/config.yaml                    what the run computes; another config is refused once an iteration has ended
    <run>/base.json                      the digest of the model that it began with
    <run>/metrics.jsonl                  one line per iteration
    <run>/checkpoints/step-000020/       Hugging Face folder with stapo.json; the last iteration's is ``final``
    <run>/state/step-000020/             optimizer.safetensors and state.json, of the last checkpoint alone

Folders are written atomically, see ``whole_files``. The state is written before its checkpoint, so that every
checkpoint can be continued. No file is a pickle. The file is long because what a kill may leave, and what is refused
then, is read in one place.
"""

import errno
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from stapo_bench.errors import StapoError, tell
from stapo_bench.runs import (
    check_hashes,
    is_adapter,
    nothing_left_behind,
    own_file,
    read_adapted,
    read_bounded,
    read_checkpoint,
    seal,
    try_lock,
    unseal,
    write_atomically,
)
from stapo_bench.tasks import file_hashes, read_foreign_object, read_foreign_yaml
from stapo_train.config import LENGTH_KEYS, PLACE_KEYS, TrainConfig, differences
from stapo_train.objective import ONE_PROCESS, Reduce, wait_for_all
from stapo_train.rollout_files import drop_rollouts
from stapo_train.whole_files import system_errors, whole_folder

if TYPE_CHECKING:
    import torch
    from filelock import BaseFileLock

FINAL = "final"
CONFIG_FILE, BASE_FILE = "config.yaml", "base.json"


@dataclass(frozen=True, kw_only=True)
class TrainState:
    """The loop's state beside weights and optimizer; every random number is a function of it and the seed."""

    iteration: int = 0  # finished
    position: int = 0  # prompts asked so far, see stapo_train.data
    skipped_in_row: int = 0  # optimizer steps without a finite gradient, up to now


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What ``stapo.json`` says of every checkpoint of a run; the evaluation labels its rows by it."""

    method: str  # the objective's label
    base: str  # the model that the run began with
    base_digest: str


class RunFolder:
    """A run's folder, held by one process at a time; of several ranks by the first, beside which the others read it."""

    def __init__(self, config: TrainConfig, *, resume: bool, ranks: Reduce = ONE_PROCESS) -> None:
        """Take the folder for this config.

        Raises:
            StapoError: it cannot be written, another process holds it, it holds another run, or it holds this one
                begun and ``resume`` is False.
        """
        self.path = Path(config.out)
        self.metrics = self.path / "metrics.jsonl"
        self._base = Path(config.model)
        self._writes = ranks.rank == 0
        self._iterations = config.iterations
        self._first_state = f"step-{config.checkpoint.every:06d}"
        self._checkpoints = config.checkpoint
        self._about = {
            "objective": config.objective["name"],
            "config_digest": config.digest(),
            "training": config.training_digest(),
        }
        if self._writes:
            self._take(config, resume=resume)
        wait_for_all(ranks)

    def _take(self, config: TrainConfig, *, resume: bool) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = hold_folder(self.path)
        except OSError as error:
            raise StapoError(f"out {self.path}: expected a folder that can be written, got: {error.strerror}") from None
        for name in ("checkpoints/none", "state/none", "dumps/none", self.metrics.name):
            own_file(self.path, name)  # a folder from elsewhere must not lead us to other files of ours
        self._check_config(config, resume=resume)
        if config.eval is None:  # else it is evaluated first
            self.finish()  # a kill came between the two halves of ``_reopen``
        if not resume and self._is_begun and not self.is_finished:
            raise StapoError(f"out {self.path}: holds this run, begun; --resume goes on, out=OTHER starts anew")

    @property
    def final(self) -> Path:
        """The last iteration's checkpoint, there once the run has finished."""
        return self.path / "checkpoints" / FINAL

    @property
    def is_finished(self) -> bool:
        """Whether the last iteration's checkpoint is there."""
        return self.final.is_dir()

    @property
    def _is_begun(self) -> bool:
        """Whether an iteration has ended here. Until then the config may still be changed."""
        has_lines = self.metrics.exists() and self.metrics.stat().st_size > 0
        return has_lines or self.is_finished or bool(self._names("checkpoints"))

    def latest(self) -> Path | None:
        """The checkpoint to resume from: the last whose state is there too; StapoError where either is damaged.

        None: no iteration is saved. Checkpoints without any state, and a state past the first without its checkpoint,
        count as damage and not as an empty folder: no kill leaves them so, and a new run would overwrite them.
        """
        found = self._latest()
        checkpoints, states = self._names("checkpoints"), self._names("state")
        if found is None and (checkpoints or any(name > self._first_state for name in states)):
            raise StapoError(
                f"{self.path}: no checkpoint has its state: checkpoints/ holds {_last(checkpoints)}, state/ holds "
                f"{_last(states)}; restore what is missing, or train anew with out=OTHER"
            )
        if found is not None:
            read_adapted(self._base, found) if is_adapter(found) else read_checkpoint(found)  # checks its weights
            read_state(self.path / "state" / found.name)
        return found

    def _latest(self) -> Path | None:
        found = (self.path / "checkpoints" / name for name in reversed(self._names("state")))
        return next((checkpoint for checkpoint in found if checkpoint.is_dir()), None)

    def _names(self, kind: str) -> list[str]:
        return sorted(path.name for path in (self.path / kind).glob("step-*"))

    def check_base(self, start: Path | None, digest: str) -> None:
        """Refuse another base, of the same name, than the run began with; until an iteration has ended note this one.

        An adapter and a KL term are relative to it, every checkpoint names it, and rollouts that wait were drawn by it.

        Args:
            start: the checkpoint that the run goes on from.
            digest: of the base as it is now.
        """
        path = own_file(self.path, BASE_FILE)
        stated = start / "stapo.json" if start else path
        began = read_foreign_object(stated).get("base_digest") if stated.exists() else None
        if began == digest:
            return
        if began is not None and self._is_begun:
            raise StapoError(
                f"model {self._base}: expected the one that this run began with (digest {str(began)[:12]}), got "
                f"another ({digest[:12]}); restore it, or train anew with out=OTHER"
            )
        if self._writes and start is None:
            if began is not None:
                drop_rollouts(self.path)  # of the other
            write_atomically(path, json.dumps({"base_digest": digest}) + "\n")

    def save(
        self,
        state: TrainState,
        model: Any,
        tokenizer: Any,
        optimizer: "torch.optim.Optimizer",
        labels: Labels,
        *,
        final: bool,
    ) -> None:
        """Write checkpoint and state, then drop older states. Disk full: what was there stays.

        Sharded weights and moments are made whole first, for which every rank has to call this; one writes.
        """
        # And torch with them, which a refusal does not need.
        from stapo_train.optimizer_file import optimizer_tensors, save_optimizer
        from stapo_train.sharding import weights_to_save

        weights = weights_to_save(model, keep=self._writes)
        moments = optimizer_tensors(model, optimizer, keep=self._writes)
        if not self._writes:
            return
        name = f"step-{state.iteration:06d}"
        try:
            with system_errors(), whole_folder(self.path / "state" / name) as folder:
                save_optimizer(moments, folder / "optimizer.safetensors")
                content = {**asdict(state), "sha256": file_hashes([folder / "optimizer.safetensors"])}
                (folder / "state.json").write_bytes(seal(content))
            with system_errors(), whole_folder(self.path / "checkpoints" / (FINAL if final else name)) as folder:
                model.save_pretrained(folder, state_dict=weights)
                tokenizer.save_pretrained(folder)
                hashes = file_hashes(sorted(folder.glob("*.safetensors")))
                about = {**asdict(labels), **self._about, "step": state.iteration, "sha256": hashes}
                (folder / "stapo.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            last = self._latest()
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise StapoError(
                f"{self.path}: {'disk full' if full else error} at iteration {state.iteration}; "
                f"{f'{last} is whole' if last else 'nothing is saved yet'}: free space, then --resume"
            ) from None
        self.drop_states(before=state.iteration)
        self._prune()

    def _prune(self) -> None:
        """Delete checkpoints but the newest ``keep``, those of every ``keep_every`` iterations and the last one's."""
        keep, keep_every = self._checkpoints.keep, self._checkpoints.keep_every
        if keep is not None:
            last = self._checkpoint(self._iterations).name  # stays in any case
            for name in [name for name in self._names("checkpoints") if name != last][:-keep]:
                if keep_every is None or int(name.removeprefix("step-")) % keep_every:
                    shutil.rmtree(self.path / "checkpoints" / name)

    def tidy_finished(self) -> bool:
        """Whether the run has finished; what only an unfinished one needs is then removed."""
        if not self.is_finished or not self._writes:
            return self.is_finished
        tell(sys.stderr, f"{self.path}: finished already, {self._iterations} iterations")
        self.drop_states(before=self._iterations)  # where it ended between its last checkpoint and this
        drop_rollouts(self.path, self._iterations)  # those drawn ahead of the next one stay, to go on from
        return True

    def finish(self) -> None:
        """Name the last iteration's checkpoint ``final``, where it has its own name still."""
        if self._writes and (last := self._checkpoint(self._iterations)).is_dir() and not self.is_finished:
            last.rename(self.final)

    def drop_states(self, before: int) -> None:
        """Delete the states of earlier checkpoints; a finished run keeps its last one, to go on from."""
        for old in (self.path / "state").glob("step-*"):
            if old.name != f"step-{before:06d}":
                shutil.rmtree(old)

    def close(self) -> None:
        """Let other processes have the folder."""
        if self._writes:
            self._lock.release()

    def _checkpoint(self, iteration: int) -> Path:
        return self.path / "checkpoints" / f"step-{iteration:06d}"

    def _check_config(self, config: TrainConfig, *, resume: bool) -> None:
        """Write a new run's config; of one that has begun, refuse what would change its numbers."""
        path = self.path / CONFIG_FILE
        if not path.exists() or not self._is_begun:  # the config may still be corrected
            ours = yaml.safe_dump(config.nested(), sort_keys=False)
            if not path.exists() or read_bounded(path) != ours.encode():
                drop_rollouts(self.path)  # possibly of another config
                write_atomically(path, ours)
            return
        try:
            theirs = read_foreign_yaml(path)
        except StapoError as error:
            raise StapoError(f"{error}: expected the run's config; restore the file") from None
        if not isinstance(theirs, dict):
            raise StapoError(f"{path}: expected the run's config, got {type(theirs).__name__}; restore the file")
        changed = differences(config.nested(), theirs)
        if others := [change for change in changed if change.partition(":")[0] not in LENGTH_KEYS]:
            raise StapoError(
                f"out {self.path}: holds a run with another config ({'; '.join(others)}); choose another out. With "
                f"--resume may change: {', '.join(LENGTH_KEYS)}, and where it runs ({', '.join(PLACE_KEYS)})"
            )
        if changed:
            self._reopen(config, theirs, changed, resume=resume)
        if resume and not self.is_finished and (effects := effects_of_place(config, theirs)):
            for effect in effects:
                tell(sys.stderr, f"{self.path}: {effect}")
            write_atomically(path, yaml.safe_dump(config.nested(), sort_keys=False))

    def _reopen(self, config: TrainConfig, theirs: Mapping[str, Any], changed: Sequence[str], *, resume: bool) -> None:
        """Let a run go on for more iterations than it was begun with: its last checkpoint becomes one among others."""
        what = "; ".join(changed)
        if not resume:
            raise StapoError(f"out {self.path}: holds this run ({what}); --resume goes on, out=OTHER starts anew")
        before = int(theirs["iterations"])
        if config.iterations < before:
            raise StapoError(f"out {self.path}: expected iterations={before} or more, as it began, got {what}")
        if self.is_finished and config.iterations > before:
            if not (self.path / "state" / self._checkpoint(before).name).is_dir():
                raise StapoError(
                    f"out {self.path}: finished after {before} iterations, without the state that going on needs; "
                    "train anew with out=OTHER"
                )
            self.final.rename(self._checkpoint(before))
        tell(sys.stderr, f"{self.path}: goes on ({what})")
        write_atomically(self.path / CONFIG_FILE, yaml.safe_dump(config.nested(), sort_keys=False))


_EFFECTS = {
    "device": "the next iterations are computed there; beside those of an unbroken run they differ by rounding",
    "tensorboard=True": "TensorBoard shows the iterations from here on; metrics.jsonl has all",
    "tensorboard=False": "TensorBoard's curves end here; metrics.jsonl has all",
    "wandb=True": "Weights & Biases shows the iterations from here on; metrics.jsonl has all",
    "wandb=False": "Weights & Biases' curves end here; metrics.jsonl has all",
}
"""What a change of a setting of ``PLACE_KEYS`` does to a run that goes on."""


def effects_of_place(config: TrainConfig, theirs: Mapping[str, Any]) -> list[str]:
    """What a run that goes on does otherwise where it runs, or is shown, than it did.

    Args:
        config: of now.
        theirs: the nested values that the run has.
    """
    ours = config.nested()
    changed = [key for key in PLACE_KEYS if key in theirs and theirs[key] != ours[key]]
    said = [(key, _EFFECTS.get(key, _EFFECTS.get(f"{key}={ours[key]}"))) for key in changed]
    return [f"{key}={ours[key]}, it was {theirs[key]}: {effect}" for key, effect in said if effect]


@contextmanager
def opened_folder(config: TrainConfig, *, resume: bool, ranks: Reduce = ONE_PROCESS) -> Iterator[RunFolder]:
    """A training's folder while the block runs; if that fails before there is any work, what was made is removed."""
    tidied = nothing_left_behind(Path(config.out), CONFIG_FILE, BASE_FILE) if ranks.rank == 0 else nullcontext()
    with tidied, closing(RunFolder(config, resume=resume, ranks=ranks)) as folder:
        yield folder


def _last(names: Sequence[str]) -> str:
    return names[-1] if names else "none"


def load_state(checkpoint: Path, model: Any, optimizer: "torch.optim.Optimizer") -> TrainState:
    """Restore the optimizer from the checkpoint's state and return the loop's state."""
    from stapo_train.optimizer_file import read_optimizer

    folder = checkpoint.parent.parent / "state" / checkpoint.name
    state = read_state(folder)
    read_optimizer(model, optimizer, folder / "optimizer.safetensors")
    return state


def read_state(folder: Path) -> TrainState:
    """The loop's state; StapoError where a file of the folder was changed or damaged."""
    path = folder / "state.json"
    try:
        content = unseal(read_bounded(path))
        expected = content.pop("sha256", {})
        state = TrainState(**content)
    except (ValueError, TypeError) as error:
        raise StapoError(f"{path}: expected a training state, got damage: {error}; restore the file") from None
    check_hashes(folder, expected, file_hashes([folder / "optimizer.safetensors"]))
    return state


def hold_folder(path: Path) -> "BaseFileLock":
    """Hold a training's folder until ``release``, or the end of the process.

    Raises:
        StapoError: another process trains there.
    """
    lock = try_lock(own_file(path, ".lock"))
    if lock is None:
        raise StapoError(f"out {path}: another process is training there; wait for it, or choose another out")
    return lock
