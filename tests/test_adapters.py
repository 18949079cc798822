"""LoRA adapters: merged as the equation says, known by two digests, and refused where they ask for anything else."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_setup import one_line
from engine_setup import PARAMS, make_requests, tokens_of
from fake_vllm import FakeVllm, install
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file, save_file

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.adapter import WEIGHTS, merge, read_adapter
from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import load_manifest, read_adapted, read_checkpoint
from stapo_train.tiny.random_model import random_model, save

pytestmark = pytest.mark.usefixtures("graded_here")

LAYERS = {"model.layers.0.self_attn.q_proj": (128, 64), "model.layers.1.mlp.down_proj": (64, 96), "lm_head": (300, 64)}
RANK, ALPHA = 4, 6.0
EVAL = ("eval", "--tasks", "sums.yaml", "--data-dir", ".", "--decoding", "training", "--samples", "2", "--limit", "2",
        "--max-new-tokens", "8", "--engine", "transformers", "--dtype", "float32")  # fmt: skip


def make_adapter(
    folder: Path, base: str | None, layers: Mapping[str, tuple[int, int]] = LAYERS, **settings: object
) -> Path:
    """An adapter in peft's format, large enough to change what is drawn."""
    folder.mkdir(parents=True)
    content = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", "init_lora_weights": True}
    content |= {"base_model_name_or_path": base, "target_modules": ["q_proj", "down_proj"], "modules_to_save": None}
    (folder / "adapter_config.json").write_text(json.dumps(content | settings))
    random = torch.Generator().manual_seed(1)
    weights = {}
    for layer, (outside, inside) in layers.items():
        weights[f"base_model.model.{layer}.lora_A.weight"] = torch.randn(RANK, inside, generator=random) / 4
        weights[f"base_model.model.{layer}.lora_B.weight"] = torch.randn(outside, RANK, generator=random) / 4
    save_file(weights, folder / WEIGHTS)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return save(random_model(), tmp_path_factory.mktemp("models") / "base")


@pytest.fixture
def adapter(base, tmp_path) -> Path:
    return make_adapter(tmp_path / "lora", str(base))


@pytest.mark.parametrize("rank_stabilised", [False, True])
def test_the_merged_weights_are_the_base_s_and_s_b_a(base, tmp_path, rank_stabilised):
    folder = make_adapter(tmp_path / "lora", None, use_rslora=rank_stabilised)
    model, _ = load_checkpoint(base, dtype="float32", device="cpu")
    merge(model, read_adapter(folder))
    before, pairs = load_arrays(base / "model.safetensors"), load_arrays(folder / WEIGHTS)
    scale = 6 / 2 if rank_stabilised else 6 / 4  # alpha / sqrt(r), alpha / r
    for name, found in model.state_dict().items():
        expected = before[name].astype(np.float64)
        if (layer := name.removesuffix(".weight")) in LAYERS:
            a, b = (pairs[f"base_model.model.{layer}.lora_{side}.weight"].astype(np.float64) for side in "AB")
            expected = expected + scale * np.einsum("or,ri->oi", b, a)
            assert np.abs(expected - before[name]).max() > 0.1
        assert np.abs(found.numpy() - expected).max() < 1e-6


def test_an_adapter_on_its_base_draws_what_the_saved_merged_model_draws(base, adapter, tmp_path):
    model, _ = load_checkpoint(base, dtype="float32", device="cpu")
    merge(model, read_adapter(adapter))
    merged = Path(shutil.copytree(base, tmp_path / "merged"))
    model.save_pretrained(merged)
    options = EngineOptions(name="transformers", dtype="float32", device="cpu")
    drawn = {
        name: tokens_of(open_engine(one, folder).generate(make_requests(3), PARAMS))
        for name, one, folder in (
            ("adapted", EngineOptions(name="transformers", dtype="float32", device="cpu", adapter=adapter), base),
            ("merged", options, merged),
            ("base", options, base),
        )
    }
    assert drawn["adapted"] == drawn["merged"] != drawn["base"]


def test_eval_knows_base_and_adapter_apart(small, stapo, base, adapter):
    assert stapo(*EVAL, "--ckpt", adapter, "--out", "run")[0] == 0
    run = load_manifest(Path("run"))
    of_base, whole = read_checkpoint(base).digest, read_adapted(base, adapter).digest
    assert run.identity.checkpoint_digest == whole and whole.startswith(of_base + "+") and len(whole) == 129
    assert (run.about.checkpoint, run.about.base, run.about.method) == (str(adapter), str(base), "lora")
    code, _, error = stapo(*EVAL, "--ckpt", base, "--out", "run")
    assert code == 1 and "checkpoint.digest: the run has" in error
    # The same base from elsewhere is the same run, and it is continued with the adapter that it names.
    moved = shutil.copytree(base, small / "moved")
    assert "nothing is missing" in stapo(*EVAL, "--ckpt", adapter, "--base", moved, "--out", "run")[2]
    code, _, error = stapo("continue", "run", "--max-new-tokens", 12, "--data-dir", ".", "--out", "longer")
    assert code == 0, error
    assert load_manifest(Path("longer")).identity.checkpoint_digest == whole
    # A pattern names adapters as it names checkpoints.
    for step in (1, 2):
        shutil.copytree(adapter, small / f"lora-run/step-{step}")
    assert stapo(*EVAL, "--ckpt", "lora-run/step-*", "--out", "all")[0] == 0
    assert sorted(path.name for path in Path("all").iterdir()) == [f"lora-run-step-{step}-training" for step in (1, 2)]


def test_an_adapter_has_the_step_of_its_trainer_and_is_the_one_that_was_written(base, adapter):
    saved = Path(shutil.copytree(adapter, adapter.parent / "grpo/checkpoint-40"))
    (saved / "trainer_state.json").write_text('{"global_step": 40}')
    found = read_adapted(base, saved)
    assert (found.method, found.step, found.digest) == ("grpo", 40, read_adapted(base, adapter).digest)
    about = {
        "method": "GRPO",
        "step": 41,
        "sha256": {WEIGHTS: hashlib.sha256((saved / WEIGHTS).read_bytes()).hexdigest()},
    }
    (saved / "stapo.json").write_text(json.dumps(about))
    assert read_adapted(base, saved).step == 41
    weight(f"{Q}A.weight", (4, 64))(saved)
    with pytest.raises(StapoError, match=f"{WEIGHTS}: expected sha256 {about['sha256'][WEIGHTS][:12]}, as when it was"):
        read_adapted(base, saved)


def setting(**values: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return edit


def weight(name: str, shape: tuple[int, ...] | None) -> Callable[[Path], None]:
    """A weight of another shape under that name; None: it is not there."""

    def edit(folder: Path) -> None:
        weights = load_file(folder / WEIGHTS)
        if shape is None:
            del weights[name]
        else:
            weights[name] = torch.zeros(shape)
        save_file(weights, folder / WEIGHTS)

    return edit


def replaced(name: str, how: Callable[[Path], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / name).unlink()
        how(folder / name)

    return edit


Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
REFUSED = {
    "another kind": (setting(peft_type="LOHA"), "expected peft_type LORA, got 'LOHA'"),
    "DoRA": (setting(use_dora=True), "use_dora True, which is not applied here"),
    "whole modules": (setting(modules_to_save=["lm_head"]), "modules_to_save ['lm_head']"),
    "PiSSA": (setting(init_lora_weights="pissa_niter_4"), "init_lora_weights pissa_niter_4"),
    "biases": (setting(bias="all"), "bias all"),
    "no rank": (setting(r=10**9), "r: expected a whole number from 1 to 512, got 1000000000"),
    "rank in words": (setting(r="4"), "r: expected a whole number"),
    "no alpha": (setting(lora_alpha=None), "lora_alpha: expected a number other than 0"),
    "another rank": (setting(r=8), "expected lora_A [8, in] and lora_B [out, 8], got [4, 64] and [300, 4]"),
    "half a pair": (weight(f"{Q}B.weight", None), "got [4, 64] and []"),
    "another name": (weight("base_model.model.lm_head.weight", (2, 2)), "got 'base_model.model.lm_head.weight'"),
    "another base's": (weight(f"{Q}A.weight", (4, 32)), "expected a linear layer of the base with weights [128, 32]"),
    "no such layer": (
        lambda folder: [weight(f"base_model.model.x.lora_{side}.weight", shape)(folder)
                        for side, shape in (("A", (4, 8)), ("B", (8, 4)))],
        "x: expected a linear layer of the base with weights [8, 8], got none of that name",
    ),
    "endless settings": (replaced("adapter_config.json", lambda path: path.write_text("[" * 100_000)), "a JSON"),
    "large settings": (replaced("adapter_config.json", lambda path: path.write_text(" " * (1 << 24))), "at most"),
    "a device": (replaced(WEIGHTS, lambda path: path.symlink_to("/dev/zero")), "got a pipe or device"),
    "a pipe": (replaced(WEIGHTS, os.mkfifo), "got a pipe or device"),
    "a pickle": (lambda folder: (folder / WEIGHTS).rename(folder / "adapter_model.bin"), "adapter as safetensors"),
    "damage": (replaced(WEIGHTS, lambda path: path.write_bytes(b"\xff" * 99)), "cannot be read as safetensors"),
    "no base": (setting(base_model_name_or_path=None), "expected the adapter to name its base"),
    "a base elsewhere": (setting(base_model_name_or_path="/nowhere/at-all"), "no such checkpoint: /nowhere/at-all"),
    "its own template": (
        lambda folder: (folder / "chat_template.jinja").write_text("{{messages}}"),
        "expected the chat template of its base",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_asks_for_more_than_s_b_a_is_refused_in_one_line(small, stapo, adapter, case):
    edit, words = REFUSED[case]
    edit(adapter)
    code, _, error = stapo(*EVAL, "--ckpt", adapter, "--out", "run")
    assert code in (1, 2) and words in one_line(
        error[error.rindex("stapo-bench: ") :]
    )  # behind the bar of what is loaded
    assert not (small / "run").exists()


def test_a_base_of_what_is_no_adapter_is_refused(small, stapo, base, adapter):
    code, _, error = stapo(*EVAL, "--ckpt", base, "--base", base)
    assert code == 2 and "--base: expected an adapter (adapter_config.json) as --ckpt" in one_line(error)
    with pytest.raises(UsageError, match="--ckpt: expected an engine that applies adapters"):
        open_engine(EngineOptions(name="scripted", adapter=adapter), base)


def test_tied_weights_are_not_changed_by_an_adapter_of_one_of_them(base, adapter):
    model, _ = load_checkpoint(base, dtype="float32", device="cpu")
    model.config.tie_word_embeddings = True
    with pytest.raises(StapoError, match="lm_head: expected weights of its own"):
        merge(model, read_adapter(adapter))


def test_vllm_gets_the_adapter_itself(base, adapter, monkeypatch):
    fake = install(monkeypatch, FakeVllm())
    engine = open_engine(EngineOptions(name="vllm", adapter=adapter), base)
    assert {name: fake.asked[name] for name in ("enable_lora", "max_lora_rank", "max_loras")} == {
        "enable_lora": True, "max_lora_rank": 8, "max_loras": 1,  # ranks 1, 8, 16, …: the least that holds 4
    }  # fmt: skip
    assert engine._lora == ("adapter", 1, str(adapter))
