"""The embedded engine on a random tiny Qwen3: against a loop without cache or batch, reordered, with other weights."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from engine_setup import PARAMS, make_requests, tokens_of
from safetensors.torch import load_file, save_file

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.slots import RunningBatch
from stapo_bench.engines.token_sampling import sample_tokens, uniform_draws
from stapo_bench.engines.transformers import TransformersEngine, load_checkpoint
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_train.tiny.random_model import END


@torch.inference_mode()
def slow_tokens(model, request: Request, params: SamplingParams, end_ids: set[int]) -> tuple[list[int], list[float]]:
    """The definition: one sequence, no cache, the whole prefix run again for every token."""
    draws = torch.from_numpy(uniform_draws(request.seed, params.max_new_tokens))
    ids, new, log_probs = list(request.prompt.token_ids), [], []
    for j in range(params.max_new_tokens):
        logits = model(torch.tensor([ids + new])).logits[:, -1]
        token, log_prob = sample_tokens(logits, draws[j : j + 1], params)
        new.append(token.item())
        log_probs.append(log_prob.item())
        if new[-1] in end_ids:
            break
    return new, log_probs


@pytest.mark.parametrize(
    "params",
    [
        PARAMS,
        SamplingParams(temperature=0.7, top_p=0.9, max_new_tokens=40),
        SamplingParams(temperature=1.2, top_p=0.95, top_k=50, min_p=0.01, max_new_tokens=40),
    ],
)
def test_equals_a_loop_without_cache_or_batch(model, tokenizer, params):
    requests = make_requests(6, samples=2)
    end_ids = {END, *range(40, 52)}
    completions = {c.key: c for c in TransformersEngine(model, tokenizer, slots=4).generate(requests, params)}
    reasons = set()
    for request in requests:
        tokens, log_probs = slow_tokens(model, request, params, end_ids)
        completion = completions[request.key]
        assert completion.token_ids == tuple(tokens)
        assert completion.log_probs == pytest.approx(log_probs, abs=1e-4)
        assert completion.num_tokens == len(tokens)
        assert completion.finish_reason == ("stop" if tokens[-1] in end_ids else "length")
        reasons.add(completion.finish_reason)
    assert reasons == {"stop", "length"}


def test_greedy_is_the_most_probable_token_each_time(model, tokenizer):
    greedy = replace(PARAMS, temperature=0.0)
    requests = make_requests(4, samples=2)
    found = tokens_of(TransformersEngine(model, tokenizer).generate(requests, greedy))
    for request in requests[:4]:
        ids = list(request.prompt.token_ids)
        with torch.inference_mode():
            for token in found[request.key]:
                assert token == model(torch.tensor([ids])).logits[0, -1].argmax().item()
                ids.append(token)
        assert found[request.key] == found[request.key._replace(sample_index=1)]


def test_a_completion_ends_before_the_first_stop_text(model, tokenizer):
    """The tokens are those of a run without stop texts, as far as it goes; the text is that one's, cut."""
    requests = make_requests(8)
    free = {c.key: c for c in TransformersEngine(model, tokenizer, slots=5).generate(requests, PARAMS)}
    texts = [c.text for c in free.values() if len(c.text) > 8]
    stop = (texts[0][4:6], texts[1][5:7])
    num_stopped = 0
    for completion in TransformersEngine(model, tokenizer, slots=5).generate(requests, replace(PARAMS, stop=stop)):
        whole = free[completion.key]
        places = [place for place in map(whole.text.find, stop) if place >= 0]
        assert whole.token_ids[: completion.num_tokens] == completion.token_ids
        assert completion.text == (whole.text[: min(places)] if places else whole.text)
        assert completion.finish_reason == ("stop" if places else whole.finish_reason)
        if places:  # not a token later than the text shows it
            num_stopped += 1
            before = tokenizer.decode(completion.token_ids[:-1], skip_special_tokens=True)
            assert not any(text in before for text in stop)
    assert 2 <= num_stopped < len(requests)


def test_order_slots_and_company_do_not_change_a_sample(model, tokenizer):
    requests = make_requests(15)
    expected = tokens_of(TransformersEngine(model, tokenizer, slots=45).generate(requests, PARAMS))
    assert len(set(expected.values())) == 45
    shuffled = random.Random(1).sample(requests, len(requests))
    assert tokens_of(TransformersEngine(model, tokenizer, slots=7).generate(shuffled, PARAMS)) == expected
    few = tokens_of(TransformersEngine(model, tokenizer, slots=1).generate(requests[:3], PARAMS))
    assert few == {request.key: expected[request.key] for request in requests[:3]}


def test_slots_are_refilled_before_the_longest_ends(model, tokenizer):
    """Static batches of 8 would take the sum of each batch's longest; refilled slots take far fewer steps."""
    requests, steps = make_requests(40, samples=2), 0
    engine = TransformersEngine(model, tokenizer, slots=8)
    step = engine._step

    def counted(*arguments):
        nonlocal steps
        steps += 1
        return step(*arguments)

    engine._step = counted
    lengths = {c.key: c.num_tokens for c in engine.generate(requests, PARAMS)}
    in_order = [lengths[request.key] for request in requests]
    static = sum(max(in_order[i : i + 8]) for i in range(0, 80, 8))
    assert sum(in_order) / 8 <= steps < 0.8 * static


def test_equal_prompts_are_run_once(model, tokenizer, monkeypatch):
    requests = make_requests(5, samples=8)
    prompts_run = []
    original = TransformersEngine._prefill
    monkeypatch.setattr(
        TransformersEngine, "_prefill", lambda self, prefixes: prompts_run.extend(prefixes) or original(self, prefixes)
    )
    assert len(tokens_of(TransformersEngine(model, tokenizer, slots=6).generate(requests, PARAMS))) == 40
    assert sorted(prompts_run) == sorted({request.prompt.token_ids[:-1] for request in requests})


def test_text_is_what_the_tokens_say(model, tokenizer):
    for completion in TransformersEngine(model, tokenizer).generate(make_requests(10), PARAMS):
        kept = [token for token in completion.token_ids if token != END]
        assert completion.text == tokenizer.decode(kept)
        assert "<end>" not in completion.text


def test_text_prompts_are_tokenized_as_they_stand(model, tokenizer):
    by_text = Request(key=SampleKey("t", "p", 0), prompt=Prompt(task="t", problem_id="p", text="1+1="), seed=5)
    ids = tuple(tokenizer.encode("1+1=", add_special_tokens=False))
    by_ids = Request(key=by_text.key, prompt=Prompt(task="t", problem_id="p", text="", token_ids=ids), seed=5)
    engine = TransformersEngine(model, tokenizer)
    assert tokens_of(engine.generate([by_text], PARAMS)) == tokens_of(engine.generate([by_ids], PARAMS))


def test_new_tokens_end_at_the_context_and_a_full_prompt_is_refused_first(model, tokenizer):
    def request(length: int) -> Request:
        prompt = Prompt(task="t", problem_id=f"of{length}", text="", token_ids=(1,) * length)
        return Request(key=SampleKey("t", prompt.problem_id, 0), prompt=prompt, seed=1)

    engine = TransformersEngine(model, tokenizer)
    (completion,) = engine.generate([request(125)], PARAMS)
    assert completion.num_tokens <= 3
    for length in (0, 128, 500):
        with pytest.raises(StapoError, match=f"problem of{length}: expected a prompt of 1 to 127 tokens.*got {length}"):
            engine.generate([request(5), request(length)], PARAMS)


def test_checkpoint_sampling_defaults_have_no_say(model, tokenizer):
    requests = make_requests(5)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    before = model.generation_config.to_dict()
    try:
        model.generation_config.update(top_k=1, temperature=0.1, repetition_penalty=2.0, do_sample=False)
        assert tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS)) == expected
    finally:
        model.generation_config.update(**before)


def test_weights_may_change_between_calls_and_train_mode_comes_back(model, tokenizer):
    requests = make_requests(4)
    engine = TransformersEngine(model, tokenizer)
    model.train()
    first = tokens_of(engine.generate(requests, PARAMS))
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        model.model.embed_tokens.weight.neg_()
    try:
        assert tokens_of(engine.generate(requests, PARAMS)) != first
    finally:
        with torch.no_grad():
            model.model.embed_tokens.weight.neg_()
    assert tokens_of(engine.generate(requests, PARAMS)) == first
    running = engine.generate(requests, PARAMS)
    next(running)
    running.close()
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    model.eval()
    # Nothing computed for inference may be left in the model: a training step has to sequence afterwards.
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    model.zero_grad()


def test_no_requests_no_completions(model, tokenizer):
    assert list(TransformersEngine(model, tokenizer).generate([], PARAMS)) == []


def test_a_saved_checkpoint_gives_the_same_samples(model, tokenizer, tmp_path: Path):
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    requests = make_requests(4)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    engine = open_engine(EngineOptions(device="cpu"), tmp_path)
    assert tokens_of(engine.generate(requests, PARAMS)) == expected
    identity = engine.identity()
    assert identity["dtype"] == "float32"
    assert identity["end_token_ids"] == "40,41,42,43,44,45,46,47,48,49,50,51,256"
    assert identity["context_length"] == "128"
    assert open_engine(EngineOptions(name="transformers", dtype="bfloat16"), tmp_path).identity()["dtype"] == "bfloat16"
    engine.close()


def test_what_is_no_checkpoint_is_refused_in_one_line(model, tokenizer, tmp_path: Path):
    def message(path: Path) -> str:
        with pytest.raises(StapoError) as caught:
            open_engine(EngineOptions(name="transformers"), path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "found none" in message(tmp_path / "missing")
    assert "an empty folder" in message(tmp_path)
    model.save_pretrained(tmp_path)
    assert "no tokenizer" in message(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    states = load_file(weights)
    del states["model.norm.weight"]
    save_file(states, weights, metadata={"format": "pt"})
    assert message(tmp_path).endswith("1 weights are missing, model.norm.weight among them: save the whole model")
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "cannot be loaded" in message(tmp_path)
    weights.unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle, which is never opened")
    assert "*.safetensors" in message(tmp_path)


def test_eager_attention_gives_the_same_samples(model, tokenizer):
    requests = make_requests(5)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    model.set_attn_implementation("eager")
    try:
        assert tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS)) == expected
        assert model.config._attn_implementation == "eager"
    finally:
        model.set_attn_implementation("sdpa")


def test_rows_of_many_spans_read_only_their_own_length(model, tokenizer, monkeypatch):
    """Spans of two rows: the longest prompt costs its own span, and the samples stay what they are."""
    requests = make_requests(15)
    expected = tokens_of(TransformersEngine(model, tokenizer).generate(requests, PARAMS))
    monkeypatch.setattr("stapo_bench.engines.slots.SPAN_ROWS", 2)
    saved = []
    original = RunningBatch.spans

    def spans(self):
        found = original(self)
        longest = max(length for _, _, length in found)
        saved.append(
            1 - sum((last - first) * length for first, last, length in found) / (longest * len(self.sequences))
        )
        return found

    monkeypatch.setattr(RunningBatch, "spans", spans)
    assert tokens_of(TransformersEngine(model, tokenizer, slots=10).generate(requests, PARAMS)) == expected
    assert sum(saved) / len(saved) > 0.2  # of the positions that one span for all would read


def test_attention_that_slots_cannot_serve_is_refused(tokenizer):
    config = transformers.Qwen3Config(
        vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=1, num_key_value_heads=1, head_dim=32,
        intermediate_size=32, use_sliding_window=True, sliding_window=8, max_window_layers=1,
    )  # fmt: skip
    with pytest.raises(StapoError, match="sliding_attention"):
        TransformersEngine(transformers.Qwen3ForCausalLM(config), tokenizer)


def test_unknown_engines_are_refused_with_the_nearest_name(model, tokenizer, tmp_path: Path):
    with pytest.raises(UsageError, match="did you mean 'transformers'"):
        open_engine(EngineOptions(name="transformer"), tmp_path)
    with pytest.raises(UsageError, match="slots: expected at least 1, got 0"):
        TransformersEngine(model, tokenizer, slots=0)


def test_a_tokenizer_of_another_model_is_refused(model, tokenizer):
    class LargerTokenizer:
        eos_token_id = END

        def __len__(self):
            return 301

    with pytest.raises(StapoError, match="301 tokens, the model 300"):
        TransformersEngine(model, LargerTokenizer())


@pytest.mark.parametrize("asked", [None, "cpu", "meta"])
def test_a_device_that_is_asked_for_is_taken_whatever_there_is(model, tokenizer, tmp_path, monkeypatch, asked):
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: asked == "cpu")  # a GPU that is not asked for
    loaded, _ = load_checkpoint(tmp_path, device=asked)
    assert loaded.device.type == (asked or "cpu")
