"""``follow``: checkpoints of a training that goes on, one by one, whatever is killed, deleted or half there."""

# ruff: noqa: F401, F811  engine and training are fixtures, which tests take as arguments
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from follow_setup import (
    NUM_PROBLEMS,
    NUM_SAMPLES,
    ByWeights,
    engine,
    followed,
    options,
    training,
    write_ours,
    write_trainer,
    write_weights,
)

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting import write_curve
from stapo_bench.runs import num_lines
from stapo_bench.sampling import FollowOptions, follow
from stapo_bench.sampling import following as module
from stapo_bench.sampling.merging import in_shards, merged, merged_folder

pytestmark = pytest.mark.usefixtures("graded_here")


def test_the_base_gets_all_samples_and_a_clear_gain_fewer(training):
    base, first, second = followed(options(training))
    assert (base.number, base.state, base.run) == (0, "base", "base")
    assert first.state in ("open", "tied") and second.state == "better"
    assert num_lines(training.parent / "out/base") == NUM_PROBLEMS * NUM_SAMPLES
    drawn = num_lines(training.parent / "out/step-000020")
    assert drawn == NUM_PROBLEMS * second.rounds < NUM_PROBLEMS * NUM_SAMPLES
    assert 0.0 < second.low < second.value < second.high


def test_without_a_base_the_first_checkpoint_is_it(training):
    base, second = followed(options(training, base=None))
    assert (base.state, base.step, base.run, second.step, second.state) == ("base", 10, "base", 20, "better")


def test_nothing_is_drawn_twice_after_a_kill_at_any_moment(training):
    class Killed(BaseException):
        pass

    def kill(engine, request):
        if len(ByWeights.requests) in (7, 150, 230):
            ByWeights.requests.append(("killed", "", len(ByWeights.requests)))
            raise Killed

    ByWeights.before = kill
    kills = 0
    while True:
        try:
            entries = followed(options(training))
            break
        except Killed:
            kills += 1
    asked = [request for request in ByWeights.requests if request[0] != "killed"]
    stored = sum(num_lines(training.parent / "out" / entry.run) for entry in entries)
    assert kills == 3 and stored == sum(NUM_PROBLEMS * (entry.rounds or NUM_SAMPLES) for entry in entries)
    assert len(asked) - len(set(asked)) <= 5 * kills  # what was in flight, and on no disk, when it was killed
    assert [entry.number for entry in entries] == [0, 1, 2]


def test_a_second_command_draws_nothing_and_goes_on_with_what_is_new(training):
    before = followed(options(training))
    ByWeights.requests.clear()
    assert followed(options(training)) == before and not ByWeights.requests
    write_ours(training, 30, 2)
    assert followed(options(training))[3].step == 30
    assert {name for name, *_ in ByWeights.requests} == {"step-000030"}


def test_checkpoints_that_were_deleted_after_their_evaluation_stay(training):
    before = followed(options(training))
    shutil.rmtree(training / "checkpoints/step-000010")
    assert followed(options(training)) == before


def test_a_checkpoint_that_is_deleted_before_its_evaluation_ended_is_left_behind(training):
    write_ours(training, 10, 4)  # not decided by its first rounds

    def stop(engine, request):
        if engine.name == "step-000010" and request.key.sample_index == 3:
            shutil.rmtree(training / "checkpoints/step-000010", ignore_errors=True)
            raise KeyboardInterrupt

    ByWeights.before = stop
    with pytest.raises(KeyboardInterrupt):
        followed(options(training))
    ByWeights.before = None
    _, first, second = followed(options(training))
    assert (first.number, first.state, first.value) == (1, "vanished", None)
    assert (second.number, second.state) == (2, "better")  # its own share of false alarms, whatever became of the first


def test_a_checkpoint_that_is_deleted_before_its_turn_is_told_once(training):
    def prune(engine, request):
        if engine.name == "step-000010":
            shutil.rmtree(training / "checkpoints/step-000020", ignore_errors=True)

    write_ours(training, 30, 2)
    ByWeights.before, watch = prune, io.StringIO()
    entries = list(follow(options(training), watch))[-1]
    assert [entry.step for entry in entries] == [None, 10, 30]
    assert watch.getvalue().count("step 20: was deleted before its evaluation began; have the training keep more") == 1
    assert "step 10: was deleted" not in watch.getvalue() and "step 30: was deleted" not in watch.getvalue()


def test_what_fails_after_the_weights_were_read_is_no_vanishing(training):
    def out_of_memory(engine, request):
        if engine.name == "step-000010":
            shutil.rmtree(training / "checkpoints/step-000010")
            raise StapoError("the device is out of memory")

    ByWeights.before = out_of_memory
    with pytest.raises(StapoError, match="the device is out of memory"):
        followed(options(training))
    assert [entry.state for entry in module.read_log(training.parent / "out").values()] == ["base", "begun"]
    ByWeights.before, watch = None, io.StringIO()
    _, first, _ = list(follow(options(training), watch))[-1]
    assert first.state == "vanished" and "can be: no such checkpoint: " in watch.getvalue()


def test_a_checkpoint_that_is_deleted_while_it_is_sampled_is_sampled_to_its_verdict(training):
    def delete(engine, request):
        if engine.name == "step-000010" and request.key.sample_index == 5:
            shutil.rmtree(training / "checkpoints/step-000010", ignore_errors=True)

    expected = followed(options(training))
    shutil.rmtree(training.parent / "out")
    ByWeights.before = delete
    assert followed(options(training)) == expected


def test_a_verdict_that_was_reached_and_not_noted_is_kept_though_the_checkpoint_is_gone(training, monkeypatch):
    expected, note = followed(options(training)), module._note
    shutil.rmtree(training.parent / "out")

    def killed(out, log, entry):
        if entry.number == 2 and entry.has_ended:
            raise KeyboardInterrupt
        note(out, log, entry)

    monkeypatch.setattr(module, "_note", killed)
    with pytest.raises(KeyboardInterrupt):
        followed(options(training))
    monkeypatch.setattr(module, "_note", note)
    shutil.rmtree(training / "checkpoints/step-000020")
    assert followed(options(training)) == expected


def test_it_goes_on_from_another_directory(training, monkeypatch):
    def stop(engine, request):
        if engine.name == "step-000010":
            raise KeyboardInterrupt

    ByWeights.before = stop
    monkeypatch.chdir(training.parent)
    with pytest.raises(KeyboardInterrupt):
        followed(options(training, folder=Path("run"), base=Path("base")))
    ByWeights.before = None
    monkeypatch.chdir(training)
    entries = followed(options(training, folder=Path(), base=Path("../base")))
    assert entries[1].state in ("open", "tied") and entries[1].checkpoint == str(training / "checkpoints/step-000010")


def test_a_checkpoint_with_the_step_of_its_base_is_evaluated_and_the_base_itself_is_not(tmp_path):
    base, of_that_step = write_trainer(tmp_path / "sft", 500), write_trainer(tmp_path / "run", 500)
    found = followed(options(tmp_path / "run", base=base))
    assert [(entry.step, entry.checkpoint) for entry in found] == [(500, str(base)), (500, str(of_that_step))]
    curve = write_curve(tmp_path / "out", found, DEFAULT_GRADER, "")
    assert curve is not None and [(point.name, point.step) for point in curve.points] == [
        ("base", None),  # its 500 are of another training
        ("step-000500", 500),
    ]
    write_trainer(tmp_path / "sft", 600)
    asked = options(tmp_path / "sft", base=base)
    own = FollowOptions(**{**asked.__dict__, "asked": replace(asked.asked, out=tmp_path / "own")})
    assert [entry.step for entry in followed(own)] == [500, 600]


def write_adapter(training: Path, step: int) -> Path:
    """A LoRA checkpoint as TRL's trainer leaves it."""
    folder = write_trainer(training, step)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "config.json").rename(folder / "adapter_config.json")
    return folder


def test_adapters_are_followed_from_the_base_that_is_named_once(tmp_path):
    write_weights(tmp_path / "base", 2)
    write_adapter(tmp_path / "run", 40)
    with pytest.raises(UsageError, match=r"checkpoint-40: expected the model .* got none; give it: --base PATH"):
        followed(options(tmp_path / "run", base=None))
    assert not (tmp_path / "out/followed.jsonl").exists()
    assert [entry.step for entry in followed(options(tmp_path / "run"))] == [None, 40]
    manifest = json.loads((tmp_path / "out/step-000040/manifest.json").read_text())
    assert (manifest["about"]["step"], manifest["about"]["base"]) == (40, str(tmp_path / "base"))
    write_adapter(tmp_path / "run", 50)
    assert [entry.step for entry in followed(options(tmp_path / "run", base=None))] == [None, 40, 50]


def test_it_waits_for_checkpoints_and_ends_with_the_final_one(training):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            write_ours(training, 40, 9, name="final")

    entries = followed(options(training, once=False, every_s=7.0), sleep=sleep)
    assert waits == [7.0] * 3 and [entry.step for entry in entries] == [None, 10, 20, 40]


def test_waiting_is_told_once_from_the_beginning_and_once_more_after_a_checkpoint(training):
    shutil.rmtree(training / "checkpoints")
    (training / "checkpoints").mkdir()
    told, watch = [], io.StringIO()

    def sleep(_):
        told.append(watch.getvalue().count("waiting for the next complete checkpoint"))
        if len(told) in (2, 4):
            write_ours(training, 10 * len(told), 2, name="final" if len(told) == 4 else "")

    entries = list(follow(options(training, base=None, once=False), watch, sleep=sleep))[-1]
    assert told == [1, 1, 2, 2] and [entry.step for entry in entries] == [20, 40]


def test_until_leaves_later_steps_out(training):
    assert [entry.step for entry in followed(options(training, once=False, until=15))] == [None, 10]


def test_shards_that_are_merged_are_not_merged_again(tmp_path, monkeypatch):
    monkeypatch.setattr("stapo_bench.sampling.merging.subprocess", None)
    folder = merged_folder(tmp_path, 20)
    assert folder == tmp_path / "merged" / "step-000020"
    folder.mkdir(parents=True)
    assert merged(tmp_path / "actor", tmp_path, 20) == folder and in_shards(tmp_path / "actor")


def test_a_checkpoint_of_which_samples_are_missing_is_not_judged(training, monkeypatch):
    complete = ByWeights.complete

    def lacking(self, request):
        given_up = self.name == "step-000020" and request.key.sample_index == 0
        return replace(complete(self, request), finish_reason="error" if given_up else "stop")

    with monkeypatch.context() as patch:
        patch.setattr(ByWeights, "complete", lacking)
        with pytest.raises(StapoError, match=f"the engine gave up on {NUM_PROBLEMS} samples; run the same command"):
            followed(options(training))
    assert followed(options(training))[-1].state == "better"


def test_verls_shards_are_merged_once_evaluated_and_removed(tmp_path, monkeypatch):
    write_weights(tmp_path / "base", 2)
    (tmp_path / "run/global_step_10/actor/huggingface").mkdir(parents=True)
    (tmp_path / "run/latest_checkpointed_iteration.txt").write_text("10")
    asked = options(tmp_path / "run")
    monkeypatch.setattr("stapo_bench.sampling.merging.find_spec", lambda _: None)
    with pytest.raises(StapoError, match="global_step_10/actor: expected verl in this environment"):
        followed(asked)
    monkeypatch.setattr("stapo_bench.sampling.merging.find_spec", lambda _: "found")
    commands = []

    def merge(command, **_):
        commands.append(command)
        if len(commands) == 2:
            write_weights(Path(command[-1]), 9)
        return SimpleNamespace(returncode=int(len(commands) == 1), stderr=b"no shard of rank 1")

    monkeypatch.setattr("stapo_bench.sampling.merging.subprocess", SimpleNamespace(run=merge))
    with pytest.raises(StapoError, match=r"verl's merger failed \(exit 1\): no shard of rank 1"):
        followed(asked)
    assert followed(asked)[1].state == "better"
    assert commands[1][1:4] == ["-m", "verl.model_merger", "merge"] and not any((tmp_path / "out/merged").iterdir())
    manifest = json.loads((tmp_path / "out/step-000010/manifest.json").read_text())
    assert (manifest["about"]["step"], manifest["about"]["method"]) == (10, "run")
