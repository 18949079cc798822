"""A training that is followed, by an engine whose checkpoints say how often they are right; imported by its tests."""

import io
import json
import struct
from pathlib import Path
from typing import ClassVar

import pytest
from eval_setup import FakeEngine, make_task

from stapo_bench.records import Completion
from stapo_bench.sampling import EvalOptions, FollowOptions, follow

NUM_PROBLEMS, NUM_SAMPLES = 12, 16


def write_weights(folder: Path, tenths: int, *, cut: int = 0) -> None:
    """A Hugging Face folder whose only tensor says how many tenths of the answers are right."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    header = json.dumps({"rate": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    content = struct.pack("<Q", len(header)) + header + bytes([tenths] * 4)
    (folder / "model.safetensors").write_bytes(content[: len(content) - cut])


def write_ours(training: Path, step: int, tenths: int, name: str = "") -> Path:
    """A checkpoint as ``stapo-train`` leaves it."""
    folder = training / "checkpoints" / (name or f"step-{step:06d}")
    write_weights(folder, tenths)
    about = {"method": "STAPO", "base": "tiny", "step": step, "training": "one"}
    (folder / "stapo.json").write_text(json.dumps(about))
    return folder


def write_trainer(training: Path, step: int, state: str | None = None) -> Path:
    """A checkpoint as TRL's trainer leaves it."""
    folder = training / f"checkpoint-{step}"
    write_weights(folder, 5)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}) if state is None else state)
    return folder


class ByWeights(FakeEngine):
    """Right in as many tenths of its answers as the checkpoint's weights say."""

    requests: ClassVar[list[tuple[str, str, int]]] = []
    before: ClassVar = None  # called before an answer

    def __init__(self, _: object, checkpoint: Path) -> None:
        super().__init__()
        self.tenths = (checkpoint / "model.safetensors").read_bytes()[-1]
        self.name = checkpoint.name

    def complete(self, request) -> Completion:
        if ByWeights.before:
            ByWeights.before(self, request)
        ByWeights.requests.append((self.name, request.key.problem_id, request.key.sample_index))
        answer = 1 if request.seed % 10 < self.tenths else 7
        text = f"{request.seed} \\boxed{{{answer}}}"
        return Completion(key=request.key, text=text, finish_reason="stop", num_tokens=3)


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    monkeypatch.setattr("stapo_bench.sampling.engine_cache.open_engine", ByWeights)
    monkeypatch.setattr(
        "stapo_bench.sampling.engine_cache.declared_identity", lambda *_: {"name": "fake", "version": "1"}
    )
    monkeypatch.setattr("stapo_bench.sampling.evaluation.load_tokenizer", lambda _: None)
    monkeypatch.setattr("stapo_bench.sampling.evaluation.check_before_loading", lambda *_: None)
    monkeypatch.setattr(ByWeights, "requests", [])
    monkeypatch.setattr(ByWeights, "before", None)


@pytest.fixture
def training(tmp_path) -> Path:
    """A base that is right in 2 of 10 answers, and two checkpoints: the second is better."""
    write_weights(tmp_path / "base", 2)
    write_ours(tmp_path / "run", 10, 2)
    write_ours(tmp_path / "run", 20, 9)
    return tmp_path / "run"


def options(training: Path, **changes) -> FollowOptions:
    folder = training.parent
    asked = EvalOptions(
        checkpoint=None,
        decoding="justrl",
        tasks=(make_task(folder / "data", "sums", NUM_PROBLEMS),),
        out=folder / "out",
        samples=NUM_SAMPLES,
        data_dir=folder / "data",
    )
    return FollowOptions(**{"folder": training, "base": folder / "base", "asked": asked, "once": True, **changes})


def followed(asked: FollowOptions, **how):
    """The last thing that ``follow`` says."""
    return list(follow(asked, io.StringIO(), **how))[-1]
