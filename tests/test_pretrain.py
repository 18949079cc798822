"""Pretraining of the tiny base: a run that may be stopped anywhere, and its settings."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import locked
from stapo_train.tiny import pretrain as pretraining
from stapo_train.tiny.pretrain import PretrainConfig, load_config, pretrain

MAKE_TOKENIZER = pretraining.make_tokenizer
BASE_YAML = Path(__file__).resolve().parent.parent / "train" / "configs" / "tiny" / "base.yaml"


def small(out: Path, **changes: object) -> PretrainConfig:
    """A run of seconds: one layer, a few steps."""
    values = {"steps": 6, "examples_per_step": 8, "hidden_size": 32, "intermediate_size": 32, "num_layers": 1}
    return PretrainConfig(out=str(out), **{**values, **changes})  # type: ignore[arg-type]


@cache
def tokenizer_of(text: str, seed: int, vocab_size: int):
    return MAKE_TOKENIZER(PretrainConfig(out="", steps=1, text=text, seed=seed, vocab_size=vocab_size))


@pytest.fixture(autouse=True)
def tokenizers_learnt_once(monkeypatch):
    """That learning one again gives the same is a test of its own."""
    monkeypatch.setattr(pretraining, "make_tokenizer", lambda c: tokenizer_of(c.text, c.seed, c.vocab_size))


# --- the run ----------------------------------------------------------------------------------------------------------


def test_the_folder_is_a_checkpoint_that_transformers_loads(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = pretrain(small(tmp_path / "base"))
    assert json.loads((out / "stapo.json").read_text()) == {
        "method": "Base", "objective": None, "base": "tiny", "step": 6,
    }  # fmt: skip
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert model.config.model_type == "qwen3"
    assert model.config.head_dim == 32
    assert model.config.vocab_size == len(tokenizer)
    assert tokenizer.decode(tokenizer("Ω = 12\n")["input_ids"]) == "Ω = 12\n"
    generation = model.generation_config
    assert (generation.temperature, generation.top_p) == (1.0, 1.0)
    assert generation.eos_token_id == tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids("<eos>")
    assert not (out / pretraining.STATE_FILE).exists()
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_a_run_that_was_killed_ends_where_an_unbroken_one_ends(tmp_path, monkeypatch):
    from safetensors.torch import load_file

    monkeypatch.setattr(pretraining, "SAVE_EVERY", 2)
    whole = pretrain(small(tmp_path / "whole"))

    advance, calls = pretraining.Run.advance, iter(range(100))

    def killed_in_the_fourth_step(run, batch, share):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return advance(run, batch, share)

    monkeypatch.setattr(pretraining.Run, "advance", killed_in_the_fourth_step)
    with pytest.raises(KeyboardInterrupt):
        pretrain(small(tmp_path / "broken"))
    assert not (tmp_path / "broken" / "stapo.json").exists()
    monkeypatch.setattr(pretraining.Run, "advance", advance)
    broken = pretrain(small(tmp_path / "broken"))

    ours, theirs = (load_file(out / "model.safetensors") for out in (broken, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    losses = [
        [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        for out in (broken, whole)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", ["metrics.jsonl", pretraining.STATE_FILE])
def test_what_it_goes_on_from_is_checked(tmp_path, monkeypatch, name):
    monkeypatch.setattr(pretraining, "SAVE_EVERY", 2)
    advance = pretraining.Run.advance

    def stopped_in_the_fifth_step(run, batch, share):
        if run.step == 4:
            raise KeyboardInterrupt
        return advance(run, batch, share)

    monkeypatch.setattr(pretraining.Run, "advance", stopped_in_the_fifth_step)
    with pytest.raises(KeyboardInterrupt):
        pretrain(small(tmp_path / "run"))
    path = tmp_path / "run" / name
    damaged = bytearray(path.read_bytes())
    damaged[5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StapoError, match=name):
        pretrain(small(tmp_path / "run"))
    assert path.read_bytes() == damaged


def test_a_kill_after_going_on_costs_no_metrics(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining, "SAVE_EVERY", 2)
    out, killed, advance = tmp_path / "run", tmp_path / "killed", pretraining.Run.advance

    def stopped_in_the_fifth_step(run, batch, share):
        if run.step == 4:
            raise KeyboardInterrupt
        return advance(run, batch, share)

    def copied_in_the_fifth_step(run, batch, share):
        if run.step == 4 and not killed.exists():
            shutil.copytree(out, killed)  # what a SIGKILL leaves here
        return advance(run, batch, share)

    monkeypatch.setattr(pretraining.Run, "advance", stopped_in_the_fifth_step)
    with pytest.raises(KeyboardInterrupt):
        pretrain(small(out))
    monkeypatch.setattr(pretraining.Run, "advance", copied_in_the_fifth_step)
    pretrain(small(out))
    pretrain(small(killed))
    for folder in (out, killed):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_what_marks_a_run_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    written = []
    write = pretraining.write_atomically
    monkeypatch.setattr(
        pretraining, "write_atomically", lambda path, text: written.append(path.name) or write(path, text)
    )
    pretrain(small(tmp_path / "base", steps=2))
    assert written == ["pretrain.json", "metrics.jsonl", "stapo.json"]


def test_training_lowers_the_loss_and_seeds_differ(tmp_path):
    def losses(out: Path) -> list[float]:
        return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

    one = losses(pretrain(small(tmp_path / "one", steps=40)))
    other = losses(pretrain(small(tmp_path / "other", steps=2, seed=1)))
    assert sum(one[-5:]) / 5 < one[0] - 1.0
    assert one[:2] != other


def test_a_finished_run_says_so_and_changes_nothing(tmp_path, capsys):
    out = pretrain(small(tmp_path / "base"))
    weights = (out / "model.safetensors").read_bytes()
    began = capsys.readouterr()
    assert "6/6 steps done" in began.err
    assert pretrain(small(tmp_path / "base")) == out
    again = capsys.readouterr()
    assert "finished before, 6/6 steps" in again.err
    assert began.out == again.out == ""  # which is the result's alone
    assert (out / "model.safetensors").read_bytes() == weights


def test_a_folder_of_other_settings_is_refused_with_the_difference(tmp_path):
    pretrain(small(tmp_path / "base"))
    with pytest.raises(StapoError, match="steps 6 there, 7 here"):
        pretrain(small(tmp_path / "base", steps=7))
    with pytest.raises(StapoError, match="text arithmetic there, knights here"):
        pretrain(small(tmp_path / "base", text="knights"))


def test_a_folder_that_is_older_than_a_setting_has_its_default(tmp_path):
    out = pretrain(small(tmp_path / "base"))
    settings = json.loads((out / "pretrain.json").read_text())
    assert "text" not in settings  # named where it is another than arithmetic
    assert settings.pop("seed") == 0
    (out / "pretrain.json").write_text(json.dumps(settings))
    assert pretraining.stored_config(out) == small(out)
    assert pretrain(small(out)) == out


def test_an_unwritable_folder_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StapoError, match="choose another with out=DIR"):
        pretrain(small(tmp_path / "file"))


def test_two_at_once_do_not_write_one_folder(tmp_path):
    out = tmp_path / "base"
    out.mkdir()
    with locked(out / ".lock"), pytest.raises(StapoError, match=r"out .*base: another process is training there; wait"):
        pretrain(small(out))
    pretrain(small(out))


@pytest.mark.parametrize("at", ["pretrain_state.safetensors", "model.safetensors"])
def test_a_full_disk_names_the_file_and_the_way_out(tmp_path, monkeypatch, at):
    def full(*_arguments, **_more):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    if at == "model.safetensors":
        monkeypatch.setattr("transformers.modeling_utils.safe_save_file", full)
    else:
        monkeypatch.setattr(pretraining, "save_file", full)
    place = "base" if at == "model.safetensors" else "base/pretrain_state.safetensors"
    with pytest.raises(StapoError, match=rf"cannot write \S+{place}: No space left on device; make room there and run"):
        pretrain(small(tmp_path / "base"))
    monkeypatch.undo()
    assert pretrain(small(tmp_path / "base")).joinpath("model.safetensors").is_file()


# --- settings ---------------------------------------------------------------------------------------------------------


def test_the_committed_config_loads_and_overrides_win():
    config = load_config(BASE_YAML, ["out=elsewhere", "steps=3", "muon_lr=1e-2"])
    assert (config.out, config.steps, config.muon_lr) == ("elsewhere", 3, 0.01)
    assert load_config(BASE_YAML).out == "runs/tiny/base"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["stps=3"], "stps"),
        (["steps=many"], "steps: expected int"),
        (["steps"], "expected key=value"),
        (["steps=]"], "expected YAML"),
    ],
)
def test_bad_overrides_are_refused_by_name(overrides, message):
    with pytest.raises(UsageError, match=message):
        load_config(BASE_YAML, overrides)


def test_a_config_that_is_not_there_is_named():
    with pytest.raises(UsageError, match=r"nowhere\.yaml: no such file"):
        load_config(Path("nowhere.yaml"))
