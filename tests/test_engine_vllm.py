"""vLLM for real, in process and as a server, on a random tiny Qwen3, where it is installed (its CPU build will do).

OMP_WAIT_POLICY=PASSIVE VLLM_CPU_KVCACHE_SPACE=1 pytest tests/test_engine_vllm.py
"""

import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from fake_vllm import FakeVllm, install
from test_adapters import LAYERS, make_adapter

from stapo_bench.engines import EngineOptions, declared_identity, open_engine, options_of
from stapo_bench.engines.adapter import merge, read_adapter
from stapo_bench.engines.token_sampling import top_k_mask, top_p_mask
from stapo_bench.engines.transformers import load_checkpoint
from stapo_bench.engines.vllm import VllmEngine
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_train.tiny.random_model import ENDS, random_model, save

INSTALLED = importlib.util.find_spec("vllm") is not None
needs_vllm = pytest.mark.skipif(not INSTALLED, reason="vLLM is not installed")
PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=40)
NUCLEUS = SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=40)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Defaults that would change every sample if they had a say; the end tokens are meant.
    defaults = {"top_k": 1, "temperature": 0.1, "repetition_penalty": 2.0}
    return save(random_model(), tmp_path_factory.mktemp("checkpoint"), **defaults)


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Iterator:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    opened = open_engine(EngineOptions(name="vllm"), checkpoint)
    yield opened
    opened.close()


def make_requests(num_prompts: int, samples: int, ids: range = range(256)) -> list[Request]:
    rng = random.Random(0)
    prompts = [
        Prompt(task="t", problem_id=f"p{i}", text="", token_ids=tuple(rng.choices(ids, k=rng.randint(2, 20))))
        for i in range(num_prompts)
    ]
    return [
        Request(key=SampleKey("t", prompt.problem_id, j), prompt=prompt, seed=2**62 + 1000 * j + i)
        for j in range(samples)
        for i, prompt in enumerate(prompts)
    ]


def by_key(completions) -> dict[SampleKey, Completion]:
    found = list(completions)
    assert len({completion.key for completion in found}) == len(found)
    return {completion.key: completion for completion in found}


def comparable(completion: Completion) -> tuple[Any, ...]:
    """Without the replacement characters at the end: a server holds bytes back that are not yet a character."""
    return completion.token_ids, completion.text.rstrip("\ufffd"), completion.finish_reason, completion.num_tokens


@pytest.mark.skipif(INSTALLED, reason="vLLM is installed")
def test_without_vllm_the_extra_is_named(tmp_path: Path):
    with pytest.raises(StapoError, match=r"stapo-bench\[vllm\]"):
        open_engine(EngineOptions(name="vllm"), tmp_path)


@pytest.mark.skipif(INSTALLED, reason="vLLM is installed")
def test_auto_is_vllm_where_it_and_a_gpu_are_there(tmp_path: Path, monkeypatch):
    with pytest.raises(StapoError, match="checkpoint folder"):
        open_engine(EngineOptions(), tmp_path)
    monkeypatch.setattr("stapo_bench.engines.engine._vllm_on_gpu", lambda: True)
    with pytest.raises(StapoError, match="engine vllm"):
        open_engine(EngineOptions(), tmp_path)


@pytest.fixture
def fake_vllm(monkeypatch, tmp_path: Path) -> dict[str, Any]:
    """A stand-in for the package, for what must reach its constructor; returns what did. Splits over 4 GPUs at most."""
    (tmp_path / "config.json").write_text("{}")
    return install(monkeypatch, FakeVllm()).asked


def test_tensor_parallel_reaches_vllm_and_is_read_back(fake_vllm, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")  # has no say: a core that is killed would be waited for
    open_engine(EngineOptions(name="vllm", tensor_parallel=4), tmp_path)
    assert fake_vllm["tensor_parallel_size"] == 4
    open_engine(EngineOptions(name="vllm"), tmp_path)
    assert fake_vllm["tensor_parallel_size"] == 1
    with pytest.raises(StapoError, match="vLLM split the model over 4 GPUs where 8 were asked for"):
        open_engine(EngineOptions(name="vllm", tensor_parallel=8), tmp_path)
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    split = EngineOptions(name="vllm", tensor_parallel=4)
    assert declared_identity(split, tmp_path) == {"engine": "vllm", "tensor_parallel": "4"}
    assert declared_identity(EngineOptions(name="vllm"), tmp_path) == {"engine": "vllm", "tensor_parallel": "1"}


@pytest.mark.parametrize(
    ("asked", "on_cpu", "expected"),
    [("bfloat16", False, "bfloat16"), ("bfloat16", True, "bfloat16"), (None, False, "auto"), (None, True, "float32")],
)
def test_a_precision_that_is_asked_for_reaches_vllm(fake_vllm, tmp_path: Path, asked, on_cpu, expected):
    from stapo_bench.engines import vllm as engine  # the stand-in answers for the package that it imports

    engine.import_module("vllm.platforms").current_platform.is_cpu = lambda: on_cpu
    engine.VllmEngine(tmp_path, dtype=asked)
    assert fake_vllm["dtype"] == expected


@pytest.mark.parametrize(("sleeps", "on_cpu"), [(True, False), (False, False), (True, True), (False, True)])
def test_an_engine_sleeps_where_it_is_asked_to_and_has_a_gpu(fake_vllm, tmp_path: Path, sleeps, on_cpu):
    from stapo_bench.engines import vllm as engine

    engine.import_module("vllm.platforms").current_platform.is_cpu = lambda: on_cpu
    engine.VllmEngine(tmp_path, sleeps=sleeps)
    assert fake_vllm.get("enable_sleep_mode", False) is (sleeps and not on_cpu)
    assert (fake_vllm["enforce_eager"], fake_vllm.get("enable_chunked_prefill", True)) == (on_cpu, not on_cpu)


def test_a_quantization_is_vllm_s_and_part_of_the_identity(fake_vllm, tmp_path: Path, monkeypatch):
    effective = SimpleNamespace(all_stop_token_ids={1})
    monkeypatch.setattr(VllmEngine, "_effective", lambda self, params: effective)
    plain, fp8 = (open_engine(EngineOptions(name="vllm", quantization=kind), tmp_path) for kind in (None, "fp8"))
    assert fake_vllm["quantization"] == "fp8"
    assert {**plain.identity(), "quantization": "fp8"} == fp8.identity() and "quantization" not in plain.identity()
    assert options_of(fp8.identity()).quantization == "fp8"
    for name in ("transformers", "scripted", "openai"):
        with pytest.raises(UsageError, match=f"--quantization: expected engine vllm, got {name}"):
            open_engine(EngineOptions(name=name, quantization="fp8"), tmp_path)


def test_vllm_reads_settings_that_do_not_reach_out(fake_vllm, tmp_path: Path):
    VllmEngine(tmp_path)
    assert "tokenizer" not in fake_vllm and "hf_config_path" not in fake_vllm  # a folder like most is read as it is
    hostile = {"auto_map": {"AutoConfig": "owner/repository--x.C"}, "_attn_implementation": "owner/repository"}
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 7, **hostile}))
    engine = VllmEngine(tmp_path)
    assert fake_vllm["model"] == str(tmp_path)
    assert fake_vllm["tokenizer"] == fake_vllm["hf_config_path"] != str(tmp_path)
    clean = Path(fake_vllm["hf_config_path"])
    assert json.loads((clean / "config.json").read_text()) == {"vocab_size": 7}
    engine._llm = SimpleNamespace(llm_engine=SimpleNamespace(engine_core=SimpleNamespace(shutdown=lambda: None)))
    engine.close()
    assert not clean.exists()


@pytest.mark.parametrize("name", ["transformers", "openai", "scripted"])
def test_tensor_parallel_is_refused_by_other_engines(tmp_path: Path, name: str):
    for ask in (open_engine, declared_identity):
        with pytest.raises(UsageError, match=f"--tensor-parallel: expected engine vllm, got {name}"):
            ask(EngineOptions(name=name, tensor_parallel=2), tmp_path)


@needs_vllm
def test_same_seeds_same_samples_in_any_order_and_company(engine):
    requests = make_requests(12, samples=4)
    first = by_key(engine.generate(requests, PARAMS))
    assert len(first) == 48
    assert len({completion.token_ids for completion in first.values()}) > 40
    shuffled = random.Random(1).sample(requests, len(requests))
    again = by_key(engine.generate(shuffled[:20], PARAMS))
    assert {key: c.token_ids for key, c in again.items()} == {key: first[key].token_ids for key in again}


@needs_vllm
def test_more_prompts_than_a_batch_takes_are_drawn_like_few(engine):
    """vLLM's CPU build died of a seeded request whose prompt stood half in one batch, half in the next."""
    rng = random.Random(0)
    prompts = [
        Prompt(task="t", problem_id=f"p{i}", text="", token_ids=tuple(rng.choices(range(256), k=101)))
        for i in range(97)
    ]
    requests = [Request(key=SampleKey("t", p.problem_id, 0), prompt=p, seed=i) for i, p in enumerate(prompts)]
    params = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4)
    scheduler = engine._llm.llm_engine.vllm_config.scheduler_config
    assert 2 * scheduler.max_num_batched_tokens < 97 * 101
    together = by_key(engine.generate(requests, params))
    few = by_key(engine.generate(requests[-5:], params))
    assert {key: c.token_ids for key, c in few.items()} == {key: together[key].token_ids for key in few}


@needs_vllm
def test_sequences_end_where_the_checkpoint_says_and_are_reported_truthfully(engine):
    completions = by_key(engine.generate(make_requests(20, samples=4), NUCLEUS)).values()
    ends = set(ENDS)
    assert {c.finish_reason for c in completions} == {"stop", "length"}
    for completion in completions:
        assert completion.num_tokens == len(completion.token_ids)
        assert (completion.token_ids[-1] in ends) == (completion.finish_reason == "stop")
        assert not ends.intersection(completion.token_ids[:-1])
    assert engine.identity()["end_token_ids"] == "40,41,42,43,44,45,46,47,48,49,50,51,256"


@needs_vllm
def test_log_probs_are_those_of_transformers(engine, checkpoint: Path):
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    requests = make_requests(3, samples=1)
    completions = by_key(engine.generate(requests, PARAMS))
    for request in requests:
        completion = completions[request.key]
        ids = torch.tensor([request.prompt.token_ids + completion.token_ids])
        with torch.no_grad():
            expected = model(ids).logits[0, len(request.prompt.token_ids) - 1 : -1].log_softmax(-1)
        expected = expected.gather(-1, torch.tensor(completion.token_ids)[:, None]).squeeze(-1).tolist()
        assert completion.log_probs == pytest.approx(expected, abs=1e-3)


@needs_vllm
@pytest.mark.parametrize("changes", [{"top_p": 1.0}, {}, {"top_p": 1.0, "top_k": 5}, {"top_p": 1.0, "min_p": 0.1}])
def test_log_probs_are_those_with_which_tokens_were_drawn(engine, checkpoint: Path, changes):
    """By the embedded engine's definition, given vLLM's tokens."""
    params = replace(NUCLEUS, **changes)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    for completion, request in ((c, r) for r in make_requests(3, samples=1) for c in engine.generate([r], params)):
        ids = torch.tensor([request.prompt.token_ids + completion.token_ids])
        with torch.no_grad():
            logits = model(ids).logits[0, len(request.prompt.token_ids) - 1 : -1]
        probs = (logits / params.temperature).softmax(-1)
        if params.min_p:
            probs = probs * (probs >= params.min_p * probs.max(-1, keepdim=True).values)
        if params.top_k:
            probs = probs * top_k_mask(probs, params.top_k)
        if params.top_p < 1:
            probs = probs * top_p_mask(probs, params.top_p)
        expected = (probs / probs.sum(-1, keepdim=True)).log()
        expected = expected.gather(-1, torch.tensor(completion.token_ids)[:, None]).squeeze(-1).tolist()
        assert completion.log_probs == pytest.approx(expected, abs=1e-3)


@needs_vllm
def test_the_text_is_that_of_all_tokens_but_the_end_token(engine, checkpoint: Path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    completions = by_key(engine.generate(make_requests(6, samples=4), PARAMS)).values()
    assert {completion.finish_reason for completion in completions} == {"stop", "length"}
    for completion in completions:
        ended = completion.finish_reason == "stop"
        assert (completion.token_ids[-1] in ENDS) == ended
        expected = tokenizer.decode(completion.token_ids[: -1 if ended else None], skip_special_tokens=True)
        assert completion.text == expected
        assert expected


@needs_vllm
def test_sampling_defaults_of_the_checkpoint_have_no_say_and_would_be_noticed(engine, monkeypatch):
    # top_k = 1 would make every sample of a prompt the same.
    completions = by_key(engine.generate(make_requests(1, samples=8), PARAMS)).values()
    assert len({completion.token_ids for completion in completions}) == 8
    original = engine._effective

    def sneaked_in(params):
        effective = original(params)
        effective.top_k = 20
        return effective

    monkeypatch.setattr(engine, "_effective", sneaked_in)
    with pytest.raises(StapoError, match="would draw with top_k 20 where 0 was asked for"):
        engine.generate(make_requests(1, samples=1), PARAMS)


@needs_vllm
def test_bad_prompts_are_refused_and_an_early_close_leaves_a_working_engine(engine):
    def request(ids: tuple[int, ...] | None) -> Request:
        return Request(
            key=SampleKey("t", "p", 0), prompt=Prompt(task="t", problem_id="p", text="?", token_ids=ids), seed=1
        )

    assert engine.context_length == 128
    for ids, message in [((1,) * 128, "got 128"), ((), "got 0"), (None, "text alone")]:
        with pytest.raises(StapoError, match=message):
            engine.generate([request(ids)], PARAMS)
    (completion,) = engine.generate([request((1,) * 125)], PARAMS)
    assert completion.num_tokens <= 3
    running = engine.generate(make_requests(10, samples=2), PARAMS)
    next(running)
    running.close()
    assert len(by_key(engine.generate(make_requests(10, samples=2), PARAMS))) == 20


@needs_vllm
def test_a_real_server_gives_what_the_engine_in_process_gives(engine, checkpoint: Path):
    held = socket.socket()  # until the server has it, no other process is given its port
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as vLLM does
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(checkpoint)]
    command += ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "128"]
    command += ["--dtype", "float32", "--enforce-eager"] if engine.identity()["device"] == "cpu" else []
    log = (checkpoint / "server.log").open("w")
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        client = None
        deadline = time.monotonic() + 240
        while client is None:
            assert server.poll() is None, (checkpoint / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the server did not start in four minutes"
            try:
                client = open_engine(
                    EngineOptions(name="openai", base_urls=(f"http://127.0.0.1:{port}/v1",)), checkpoint
                )
            except StapoError:
                time.sleep(1)
        # Prompts of ASCII alone: vLLM puts what a prompt has left of a character before the completion's text.
        requests = make_requests(6, samples=3, ids=range(94))
        served, local = by_key(client.generate(requests, NUCLEUS)), by_key(engine.generate(requests, NUCLEUS))
        assert client.identity()["context_length"] == "128"
        assert {key: comparable(completion) for key, completion in served.items()} == {
            key: comparable(completion) for key, completion in local.items()
        }
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
        log.close()
        held.close()


# Last: an engine that is closed takes the process groups of the shared one with it.
@needs_vllm
@pytest.mark.parametrize("tied", [False, True])
def test_the_next_checkpoint_is_read_by_the_ranks_whole(tmp_path: Path, tied: bool):
    """Tied embeddings stand in a folder once; without the second name vLLM would keep its old output embedding."""
    models = [random_model(), random_model()]
    torch.manual_seed(0)
    for model, scale in zip(models, (0.0, 0.15), strict=True):
        model.config.tie_word_embeddings = tied
        model.tie_weights()
        for parameter in model.parameters():
            parameter.data.add_(torch.randn_like(parameter), alpha=scale)
    first, second = (save(model, tmp_path / name) for model, name in zip(models, ("first", "second"), strict=True))
    engine = open_engine(EngineOptions(name="vllm", positions=60), first)
    try:
        assert engine._llm.llm_engine.model_config.max_model_len == 60
        assert (engine.context_length, engine.identity()["context_length"]) == (128, "128")
        (request,) = make_requests(1, samples=1)
        for model in models:
            (completion,) = engine.generate([request], PARAMS)
            ids = torch.tensor([request.prompt.token_ids + completion.token_ids])
            with torch.no_grad():
                expected = model(ids).logits[0, len(request.prompt.token_ids) - 1 : -1].log_softmax(-1)
            expected = expected.gather(-1, torch.tensor(completion.token_ids)[:, None]).squeeze(-1).tolist()
            assert completion.log_probs == pytest.approx(expected, abs=1e-3)
            engine.load_folder(second)
    finally:
        engine.close()


@needs_vllm
def test_an_adapter_beside_the_weights_is_the_one_that_transformers_merges(checkpoint: Path, tmp_path: Path):
    folder = make_adapter(tmp_path / "lora", None, {name: LAYERS[name] for name in LAYERS if name != "lm_head"})
    model, _ = load_checkpoint(checkpoint, dtype="float32", device="cpu")
    (request,) = make_requests(1, samples=1)
    engine = open_engine(EngineOptions(name="vllm", adapter=folder), checkpoint)
    try:
        (completion,) = engine.generate([request], PARAMS)
    finally:
        engine.close()
    ids = torch.tensor([request.prompt.token_ids + completion.token_ids])

    def log_probs() -> list[float]:
        with torch.no_grad():
            found = model(ids).logits[0, len(request.prompt.token_ids) - 1 : -1].log_softmax(-1)
        return found.gather(-1, torch.tensor(completion.token_ids)[:, None]).squeeze(-1).tolist()

    of_base = log_probs()
    merge(model, read_adapter(folder))
    assert completion.log_probs == pytest.approx(log_probs(), abs=1e-3)
    assert completion.log_probs != pytest.approx(of_base, abs=1e-1)
