"""Log-probs, entropies and sums of squares from hidden states: exact against float64, whatever the cut."""

import inspect
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_train.check.toy import toy_batch, toy_objective, toy_policy
from stapo_train.fused import blocks, linear_token_distribution, varlen
from stapo_train.policy import set_attention
from stapo_train.token_statistics import token_distribution

VOCABULARY = 151_936


def example(num_tokens, depth, vocabulary, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, depth, generator=generator, dtype=torch.float64)
    weight = torch.randn(vocabulary, depth, generator=generator, dtype=torch.float64)
    taken = torch.randint(vocabulary, (num_tokens,), generator=generator)
    taken[0], taken[-1] = 0, vocabulary - 1
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), taken


def exact(hidden, weight, taken, temperature):
    """From all logits in float64; here the entropy has a gradient."""
    log_pi = torch.log_softmax(hidden.double() @ weight.double().T / temperature, dim=1)
    log_probs = log_pi.gather(1, taken.unsqueeze(1)).squeeze(1)
    return log_probs, -(log_pi.exp() * log_pi).sum(1), (2 * log_pi).exp().sum(1)


def outputs(found):
    return found.log_probs, found.entropy, found.sum_squares


@pytest.fixture
def cut(monkeypatch):
    def to(columns, block_size, kept_bytes=0):
        monkeypatch.setattr(blocks, "COLUMNS", columns)
        monkeypatch.setattr(blocks, "BLOCK_SIZE", block_size)
        monkeypatch.setattr(blocks, "KEPT_BYTES", kept_bytes)

    return to


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
@pytest.mark.parametrize(("columns", "block_size"), [(101, 10_000), (13, 130), (7, 7), (100, 300), (1, 5)])
def test_any_cut_gives_the_exact_values_and_gradients(cut, columns, block_size, kept_bytes):
    cut(columns, block_size, kept_bytes)
    hidden, weight, taken = example(37, 5, 101)
    found = outputs(linear_token_distribution(hidden, weight, taken, 0.7))
    expected = exact(hidden, weight, taken, 0.7)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    a, b = torch.randn(2, 37, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for uses in ([1, 0], [0, 1], [1, 1]):  # of log-prob and entropy in the loss
        ours, theirs = (
            torch.autograd.grad(
                uses[0] * (a * x[0]).sum() + uses[1] * (b * x[1]).sum(), (hidden, weight), retain_graph=True
            )
            for x in (found, expected)
        )
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


def test_a_loss_of_one_output_alone_differentiates():
    hidden, weight, taken = example(4, 3, 9)
    found = linear_token_distribution(hidden, weight, taken, 1.0)
    log_prob, entropy, _ = exact(hidden, weight, taken, 1.0)
    for ours, theirs in ((found.log_probs, log_prob), (found.entropy, entropy)):
        x = torch.autograd.grad(ours.sum(), hidden, retain_graph=True)[0]
        torch.testing.assert_close(x, torch.autograd.grad(theirs.sum(), hidden, retain_graph=True)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_at_the_real_vocabulary(dtype):
    hidden, weight, taken = example(6, 48, VOCABULARY, dtype)
    found = outputs(linear_token_distribution(hidden, weight, taken, 1.0))
    assert all(x.dtype == torch.float32 for x in found)
    for a, b in zip(found, exact(hidden, weight, taken, 1.0), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=0, atol=2e-5)
    wide = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    expected = torch.autograd.grad(exact(*wide, taken, 1.0)[0].sum(), wide)
    for a, b in zip(torch.autograd.grad(found[0].sum(), (hidden, weight)), expected, strict=True):
        assert (a.double() - b).norm() <= (1e-5 if dtype == torch.float32 else 4e-3) * b.norm()


def test_certainty_and_huge_logits():
    hidden = torch.tensor([[1e4], [-1e4], [0.0]])
    weight = torch.tensor([[1.0], [0.5], [0.0], [-1.0]])
    found = linear_token_distribution(hidden, weight, torch.tensor([0, 3, 1]), 1.0)
    assert found.log_probs[:2].tolist() == [0.0, 0.0]
    assert found.entropy[:2].tolist() == [0.0, 0.0]
    assert found.sum_squares.tolist() == pytest.approx([1, 1, 0.25])
    assert found.entropy[2].item() == pytest.approx(torch.tensor(4.0).log().item())


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 200), st.floats(0.2, 3))
def test_the_chain_rule_holds_for_every_cut(num_tokens, columns, block_size, temperature):
    hidden, weight, taken = example(num_tokens, 4, 53)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "COLUMNS", columns)
        patch.setattr(blocks, "BLOCK_SIZE", max(block_size, columns))
        found = outputs(linear_token_distribution(hidden, weight, taken, temperature))
    whole = token_distribution((hidden @ weight.T).detach(), taken, temperature)
    for a, b in zip(found, outputs(whole), strict=True):
        torch.testing.assert_close(a.detach(), b, rtol=1e-10, atol=1e-10)


def test_the_trainer_measures_large_vocabularies_this_way(cut, monkeypatch):
    objective = toy_objective("stapo")
    policy, batch = toy_policy(objective, micro_batch_tokens=64), toy_batch(objective)
    whole = policy.measure(batch)
    cut(5, 50)
    monkeypatch.setattr(type(policy), "logits", None)  # nobody may ask for them
    parts = policy.measure(batch)
    torch.testing.assert_close(parts.log_probs, whole.log_probs, rtol=0, atol=1e-6)
    torch.testing.assert_close(parts.entropy, whole.entropy, rtol=0, atol=1e-6)


def gradient(policy, batch):
    policy.model.zero_grad()
    for micro in policy.split(batch, range(len(batch.rows))):
        policy.stats(batch, micro).log_probs.sum().backward()
    return torch.cat([p.grad.flatten() for p in policy.model.parameters()])


@pytest.mark.parametrize("max_tokens", [1, 64, 10_000])
def test_packed_rows_equal_padded_rows(max_tokens):
    objective = toy_objective("stapo")
    padded, batch = toy_policy(objective, micro_batch_tokens=64), toy_batch(objective)
    packed = replace(padded, packed=True, micro_batch_tokens=max_tokens)
    micros = list(packed.split(batch, range(len(batch.rows))))
    lengths = [len(prompt) + len(response) for prompt, response in batch.rows if response]
    assert sum(micro.input_ids.numel() for micro in micros) == sum(lengths)  # no padding
    assert all(micro.input_ids.numel() <= max_tokens for micro in micros if (micro.position_ids == 0).sum() > 1)
    assert len(micros) == {1: len(lengths), 10_000: 1}.get(max_tokens, len(micros))
    torch.testing.assert_close(packed.measure(batch).log_probs, padded.measure(batch).log_probs, rtol=0, atol=1e-6)
    expected = gradient(padded, batch)
    assert (gradient(packed, batch) - expected).abs().max() <= 1e-6 * expected.abs().max()


@pytest.mark.parametrize("max_tokens", [1, 64, 10_000])
def test_rows_end_to_end_under_torchs_own_attention_equal_padded_rows(max_tokens):
    objective = toy_objective("stapo")
    padded, batch = toy_policy(objective, micro_batch_tokens=64), toy_batch(objective)
    expected, expected_gradient = padded.measure(batch), gradient(padded, batch)
    packed = replace(padded, packed=True, micro_batch_tokens=max_tokens)
    set_attention(packed.model, varlen.NAME)
    torch.testing.assert_close(packed.measure(batch).log_probs, expected.log_probs, rtol=0, atol=1e-12)
    assert (gradient(packed, batch) - expected_gradient).abs().max() <= 1e-12 * expected_gradient.abs().max()


def test_torchs_own_attention_takes_autocasts_dtype():
    """As SDPA does; queries and keys come in float32, since the rotation is, and values in bfloat16."""
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    positions = torch.tensor([[0, 1, 2, 0, 1]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, weights = varlen.attention_forward(None, q, k, v.bfloat16(), None, scaling=0.5, position_ids=positions)
    assert (out.dtype, out.shape, weights) == (torch.bfloat16, (1, 5, 2, 8), None)
    first, alone = out[0, [0, 3]].float(), v[0, :, [0, 3]].transpose(0, 1)
    torch.testing.assert_close(first, alone, rtol=0, atol=2e-2)  # a row's first token sees nothing but itself


def test_what_torchs_flash_attention_is_asked_for(monkeypatch):
    """It runs on a GPU alone: here a row-by-row one stands in, called as the real one can be."""
    from torch.nn.attention import varlen as real

    q, k, v = torch.randn(3, 6, 2, 8)
    signature = inspect.signature(real.varlen_attn)
    asked = []

    def stand_in(*arguments, **named):
        asked.append(signature.bind(*arguments, **named).arguments)
        return varlen._row_by_row(q, k, v, [0, 2, 6], 0.5)

    stand_in.__signature__ = signature
    monkeypatch.setattr(real, "varlen_attn", stand_in)
    varlen._flash(q, k, v, [0, 2, 6], 0.5)
    (found,) = asked
    assert found["cu_seq_q"].tolist() == found["cu_seq_k"].tolist() == [0, 2, 6]
    assert (found["cu_seq_q"].dtype, found["max_q"], found["max_k"], found["scale"]) == (torch.int32, 4, 4, 0.5)
    assert found.get("window_size") == (-1, 0) or found.get("is_causal") is True  # sees what came before, not after
