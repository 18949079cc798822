"""``follow``: checkpoints of a training that goes on, one by one, whatever is killed, deleted or half there."""

import io
import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from click.testing import CliRunner
from eval_setup import FakeEngine, make_task

from stapo_bench.commands.follow import follow as follow_command
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.presenting import write_curve
from stapo_bench.records import Completion
from stapo_bench.runs import complete_checkpoints, num_lines, read_checkpoint
from stapo_bench.sampling import EvalOptions, FollowOptions, follow
from stapo_bench.sampling import following as module

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


# --- what is complete -------------------------------------------------------------------------------------------------


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


# --- one after another ------------------------------------------------------------------------------------------------


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
        ("base", 500),
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


def test_until_leaves_later_steps_out(training):
    assert [entry.step for entry in followed(options(training, once=False, until=15))] == [None, 10]


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


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_followed_is_refused(training, tmp_path):
    with pytest.raises(StapoError, match="nowhere: expected a folder with the checkpoints of a training, found none"):
        followed(options(training, folder=tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(StapoError, match="expected a complete checkpoint, found none; leave --once out"):
        followed(options(training, folder=tmp_path / "empty", base=None))
    followed(options(training))
    with pytest.raises(UsageError, match=r"--base: .* follows with the base .*/base, got .*/other"):
        followed(options(training, base=tmp_path / "other"))
    with module._held(tmp_path / "out"), pytest.raises(StapoError, match="another process follows a training here"):
        followed(options(training))


def test_another_base_is_refused_while_the_first_is_only_begun(training):
    def stop(engine, request):
        raise KeyboardInterrupt

    ByWeights.before = stop
    with pytest.raises(KeyboardInterrupt):
        followed(options(training))
    ByWeights.before = None
    write_weights(training.parent / "other", 5)
    with pytest.raises(UsageError, match=r"--base: .* follows with the base .*/base, got .*/other"):
        followed(options(training, base=training.parent / "other"))


def test_other_settings_are_refused_before_a_checkpoint_is_looked_at(training):
    followed(options(training))
    asked = options(training)
    hotter = FollowOptions(**{**asked.__dict__, "asked": EvalOptions(**{**asked.asked.__dict__, "seed": 1})})
    with pytest.raises(StapoError, match="seed: the run has 0, now 1"):
        followed(hotter)


def test_a_damaged_log_is_named(training):
    followed(options(training))
    log = training.parent / "out/followed.jsonl"
    log.write_text(log.read_text().replace("better", "bettor"))
    with pytest.raises(StapoError, match=r"followed.jsonl:3: expected a followed checkpoint, got its content"):
        followed(options(training))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_each_checkpoint_and_writes_the_curve(training, monkeypatch):
    asked = options(training).asked
    folder = training.parent
    arguments = [str(training), "--base", str(folder / "base"), "--decoding", "justrl", "--tasks", asked.tasks[0]]
    arguments += ["--data-dir", str(folder / "data"), "--samples", "16", "--out", str(folder / "out"), "--once"]
    result = CliRunner().invoke(follow_command, arguments, catch_exceptions=False)
    lines = [line for line in result.stdout.splitlines() if line]
    assert lines[0] == f"base: {folder / 'base'}"
    assert lines[1].startswith("step 10: not told from the base, ") or lines[1].startswith("step 10: tied")
    assert lines[2].startswith("step 20: better than the base, +")
    assert lines[3].startswith("the gain over the base is shown from step 20 on;")
    curve = json.loads((folder / "out/curve.json").read_text())
    assert [point["step"] for point in curve["points"]] == [None, 10, 20]
    assert curve["points"][2]["gain"] > 0.3
    assert "step-000020" in (folder / "out/curve.md").read_text()
    assert (folder / "out/curve.svg").read_text().startswith("<?xml")
