"""Pretraining of the tiny base: tokenizer, packing, schedule, and a run that may be stopped anywhere."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import locked
from stapo_bench.tasks import tiny
from stapo_train.tiny import pretrain as pretraining
from stapo_train.tiny import problems as tiny_data
from stapo_train.tiny.batches import NO_TARGET, ROW_LENGTH, Document, assign_rows, encode, pack
from stapo_train.tiny.pretrain import PretrainConfig, load_config, pretrain
from stapo_train.tiny.problems import worked_example

BASE_YAML = Path(__file__).resolve().parent.parent / "train" / "configs" / "tiny" / "base.yaml"


def small(out: Path, **changes: object) -> PretrainConfig:
    """A run of seconds: one layer, a few steps."""
    values = {"steps": 6, "examples_per_step": 8, "hidden_size": 32, "intermediate_size": 32, "num_layers": 1}
    return PretrainConfig(out=str(out), **{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tokenizer():
    return pretraining.make_tokenizer(PretrainConfig(out="", steps=1))


# --- tokenizer --------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_text_survives_the_tokenizer(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert max(ids, default=0) < len(tokenizer) == 384


def test_digits_and_newlines_stand_alone_and_boxed_endings_are_one_token(tokenizer):
    tokens = tokenizer.get_vocab()
    assert not [token for token in tokens if len(token) > 1 and any(c.isdigit() for c in token)]
    for closing, _ in tiny_data.CLOSINGS[:3]:
        assert len(tokenizer(closing)["input_ids"]) == 1, closing
    assert len(tokenizer("4\n7")["input_ids"]) == 3


def test_prompt_and_solution_are_encoded_the_same_together_and_apart(tokenizer):
    for index in range(200):
        example = worked_example(0, index)
        apart = [tokenizer(text)["input_ids"] for text in (example.prompt, example.solution)]
        assert tokenizer(example.prompt + example.solution)["input_ids"] == apart[0] + apart[1]


def test_the_tokenizer_is_the_same_every_time():
    config = PretrainConfig(out="", steps=1)
    first, second = (pretraining.make_tokenizer(config).backend_tokenizer.to_str() for _ in range(2))
    assert first == second


# --- packing ----------------------------------------------------------------------------------------------------------


def test_pack_lays_out_two_documents_by_hand():
    long = Document(prompt=[1, 2], solution=[3, 4])
    short = Document(prompt=[5], solution=[6])
    batch = pack([short, long], pad_id=9, row_length=7)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 5, 6, 9]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 0]]
    # the token before each solution token predicts it; prompts, ends and padding predict nothing
    n = NO_TARGET
    assert batch.targets.tolist() == [[n, 3, 4, n, 6, n, n]]
    sees = batch.attention_mask[0, 0].int().tolist()
    assert sees[3] == [1, 1, 1, 1, 0, 0, 0]
    assert sees[4] == [0, 0, 0, 0, 1, 0, 0]
    assert sees[5] == [0, 0, 0, 0, 1, 1, 0]


@given(st.lists(st.integers(2, 20), min_size=1, max_size=40))
def test_rows_hold_every_document_once_and_never_overflow(sizes):
    documents = [Document(prompt=[0], solution=[0] * (size - 1)) for size in sizes]
    rows = assign_rows(documents, row_length=20)
    assert sorted(len(document) for row in rows for document in row) == sorted(sizes)
    assert all(sum(map(len, row)) <= 20 for row in rows)


def test_a_packed_loss_is_that_of_the_documents_alone(tokenizer):
    torch.manual_seed(0)
    config = PretrainConfig(out="", steps=1, num_layers=2)
    model = pretraining.make_model(config, tokenizer)
    documents = encode(tokenizer, [worked_example(0, index) for index in range(6)])
    packed = pretraining.batch_loss(model, pack(documents, tokenizer.pad_token_id))
    total, count = 0.0, 0
    for document in documents:
        ids = torch.tensor([document.prompt + document.solution])
        log_probs = model(input_ids=ids).logits[0].log_softmax(-1)
        for place in range(len(document.prompt), len(document)):
            total -= log_probs[place - 1, ids[0, place]].item()
            count += 1
    assert packed.item() == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_kind_fits_a_row(tokenizer, kind):
    rng = random.Random(0)
    problems = [tiny.KINDS[kind](rng) for _ in range(100)]
    examples = [
        tiny_data.Example(prompt=tiny_data.prompt_text(p), solution=tiny_data.worked_solution(rng, p)) for p in problems
    ]
    assert max(map(len, encode(tokenizer, examples))) <= ROW_LENGTH


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
    capsys.readouterr()
    assert pretrain(small(tmp_path / "base")) == out
    assert "finished before, 6/6 steps" in capsys.readouterr().out
    assert (out / "model.safetensors").read_bytes() == weights


def test_a_folder_of_other_settings_is_refused_with_the_difference(tmp_path):
    pretrain(small(tmp_path / "base"))
    with pytest.raises(StapoError, match="steps 6 there, 7 here"):
        pretrain(small(tmp_path / "base", steps=7))


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
