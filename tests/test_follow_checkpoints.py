"""Which checkpoints of a training are complete, and what they say of themselves."""

# ruff: noqa: F401, F811  engine and training are fixtures, which tests take as arguments
import json
import shutil
from pathlib import Path

import pytest
from follow_setup import (
    engine,
    training,
    write_ours,
    write_trainer,
    write_weights,
)

from stapo_bench.runs import complete_checkpoints, read_checkpoint


def names(folder: Path) -> list[tuple[int, str]]:
    return [(found.step, found.path.name) for found in complete_checkpoints(folder)]


def test_our_checkpoints_are_complete_once_they_are_renamed(training):
    shutil.copytree(training / "checkpoints/step-000020", training / "checkpoints/.step-000030.partial")
    write_ours(training, 40, 5, name="final")
    expected = [(10, "step-000010"), (20, "step-000020"), (40, "final")]
    assert names(training) == names(training / "checkpoints") == expected


@pytest.mark.parametrize("state", ["", '{"global_step": 2', '{"global_step": 19}', "[]"])
def test_a_trainers_checkpoint_is_complete_when_its_state_is_written_last_and_whole(tmp_path, state):
    write_trainer(tmp_path, 5)
    write_trainer(tmp_path, 20, state)
    assert names(tmp_path) == [(5, "checkpoint-5")]
    write_trainer(tmp_path, 20)
    assert names(tmp_path) == [(5, "checkpoint-5"), (20, "checkpoint-20")]


def test_weights_that_are_cut_short_or_a_shard_that_is_missing_are_not_complete(tmp_path):
    folder = write_trainer(tmp_path, 5)
    write_weights(folder, 5, cut=1)
    assert names(tmp_path) == []
    write_weights(folder, 5)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}))
    assert names(tmp_path) == []
    shutil.copy(folder / "model.safetensors", folder / "model-2.safetensors")
    assert names(tmp_path) == [(5, "checkpoint-5")]


def test_verls_are_complete_up_to_the_step_that_it_names(tmp_path):
    for step in (10, 20):
        (tmp_path / f"global_step_{step}/actor/huggingface").mkdir(parents=True)
    assert names(tmp_path) == []
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("10")
    assert names(tmp_path) == [(10, "actor")]
    write_weights(tmp_path / "global_step_10/actor/huggingface", 5)  # the training saves the model as well
    assert names(tmp_path) == [(10, "huggingface")]


def test_a_trainers_checkpoint_states_its_step_and_its_training(tmp_path):
    found = read_checkpoint(write_trainer(tmp_path / "grpo", 20))
    assert (found.method, found.step) == ("grpo", 20)


def test_the_model_beside_verls_shards_states_its_step_and_its_training(tmp_path):
    folder = tmp_path / "dapo/global_step_20/actor/huggingface"
    write_weights(folder, 5)
    assert (read_checkpoint(folder).method, read_checkpoint(folder).step) == ("dapo", 20)
    write_weights(tmp_path / "dapo/global_step_20/critic/huggingface", 5)
    assert read_checkpoint(tmp_path / "dapo/global_step_20/critic/huggingface").step is None
