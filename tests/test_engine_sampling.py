"""Sampling against hand-computed values, a slow reference and the distribution it claims to draw from."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.engines.params import check_params
from stapo_bench.engines.token_sampling import inverse_cdf, sample_tokens, top_p_mask, uniform_draws
from stapo_bench.errors import UsageError
from stapo_bench.records import SamplingParams


def params(**changes: float) -> SamplingParams:
    return SamplingParams(**{"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 8, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top-p"),
        ({"top_p": 1.1}, "top-p"),
        ({"max_new_tokens": 0}, "max-new-tokens"),
        ({"top_k": 0}, "top-k"),
        ({"min_p": 0.0}, "min-p"),
        ({"min_p": 1.1}, "min-p"),
        ({"stop": ("a", "")}, "stop"),
        ({"temperature": 0.0, "top_p": 0.9}, "greedy"),
        ({"temperature": 0.0, "top_k": 1}, "greedy"),
    ],
)
def test_parameters_that_cannot_be_sampled_are_refused(changes, word):
    check_params(params())
    with pytest.raises(UsageError, match=word):
        check_params(params(**changes))


def test_draws_are_a_prefix_of_longer_draws_and_differ_between_seeds():
    assert np.array_equal(uniform_draws(3, 10), uniform_draws(3, 1000)[:10])
    assert not np.array_equal(uniform_draws(3, 10), uniform_draws(4, 10))
    assert uniform_draws(2**63 - 1, 3).max() < 1


def test_draws_are_pinned():
    # A sample stored last year has to come out the same: numpy's Philox streams are stable across versions (NEP 19).
    assert uniform_draws(0, 3).tolist() == pytest.approx([0.01154675, 0.2415492, 0.11142586], abs=1e-6)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (0.4, [1]),  # the first token alone reaches it
        (0.5, [1]),  # exactly
        (0.51, [1, 3]),  # 0.5 + 0.25
        (0.75, [1, 3]),
        (0.76, [0, 1, 3]),  # tokens 0 and 2 tie at 0.125: the lower id first
        (0.9, [0, 1, 2, 3]),
    ],
)
def test_nucleus_is_the_smallest_set_that_reaches_top_p(top_p, kept):
    # Powers of two: the sums are exact.
    mask = top_p_mask(torch.tensor([[0.125, 0.5, 0.125, 0.25]]), top_p)
    assert mask[0].nonzero().squeeze(-1).tolist() == kept


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.floats(0.01, 1.0))
@settings(deadline=None, max_examples=100)
def test_nucleus_equals_a_slow_loop(weights, top_p):
    probs = torch.tensor([weights], dtype=torch.float64) / sum(weights)
    total, expected = 0.0, set()
    for token in sorted(range(len(weights)), key=lambda v: (-weights[v], v)):
        if total < top_p:
            expected.add(token)
        total += float(probs[0, token])
    assert set(top_p_mask(probs, top_p)[0].nonzero().squeeze(-1).tolist()) == expected


def test_nucleus_of_a_flat_distribution_over_a_large_vocabulary():
    # Row 0: 4096 equal tokens; three quarters of them, by id. Row 1: two tokens of 1/4 and the others of 1/8192 each:
    # both, and (0.75 - 0.5) * 8192 = 2048 of the others by id, of which number 7 is none.
    probs = torch.full((2, 4096), 1 / 4096)
    probs[1] = 1 / 8192
    probs[1, [7, 4095]] = 0.25
    mask = top_p_mask(probs, 0.75)
    assert mask[0].nonzero().squeeze(-1).tolist() == list(range(3072))
    assert mask[1].nonzero().squeeze(-1).tolist() == [*range(2049), 4095]


@pytest.mark.parametrize("size", [4, 5])
def test_weights_that_are_no_numbers_give_a_token_that_there_is(size):
    weights = torch.full((1, size), float("nan"))
    assert inverse_cdf(weights, torch.tensor([0.5], dtype=torch.float64)).tolist() == [size - 1]


def test_inverse_cdf_at_the_boundaries():
    # Cumulative 0.25, 0.25, 0.75, 1: token 1 has no mass and is never drawn, whatever falls on its edge.
    weights = torch.tensor([[0.25, 0.0, 0.5, 0.25]]).repeat(5, 1)
    uniforms = torch.tensor([0.0, 0.25, 0.5, 0.75, 1 - 2**-53], dtype=torch.float64)
    assert inverse_cdf(weights, uniforms).tolist() == [0, 2, 2, 3, 3]


def test_a_last_token_without_mass_is_never_drawn():
    weights = torch.rand(1000, 7, generator=torch.Generator().manual_seed(0))
    weights[:, -1] = 0.0
    assert int(inverse_cdf(weights, torch.full((1000,), 1 - 2**-53, dtype=torch.float64)).max()) <= 5


def test_log_probs_are_those_with_which_tokens_are_drawn():
    # logits (0, ln 2, ln 4) at temperature 2 are (0, ln 2 / 2, ln 2): weights 1, √2, 2. top-p 0.7 leaves the last two.
    logits = torch.tensor([[0.0, np.log(2.0), np.log(4.0)]] * 2, dtype=torch.float64)
    tokens, log_probs = sample_tokens(
        logits, torch.tensor([0.0, 0.9], dtype=torch.float64), params(temperature=2.0, top_p=0.7)
    )
    assert tokens.tolist() == [1, 2]
    assert log_probs.dtype == torch.float32
    root = 2**0.5
    assert log_probs.tolist() == pytest.approx([np.log(root / (root + 2)), np.log(2 / (root + 2))], abs=1e-6)
    alone = sample_tokens(logits[:1], torch.tensor([0.5], dtype=torch.float64), params(temperature=2.0, top_p=0.1))
    assert alone[1].item() == pytest.approx(0.0, abs=1e-6)  # the only one that is left is certain


def reference_distribution(logits: list[float], asked: SamplingParams) -> np.ndarray:
    """The definition, token by token in plain Python: temperature, min-p, top-k, then top-p of what these leave."""
    weights = [math.exp(logit / asked.temperature) for logit in logits]
    probs = [weight / sum(weights) for weight in weights]
    ranked = sorted(range(len(probs)), key=lambda token: (-probs[token], token))
    kept = [token for token in ranked if probs[token] >= (asked.min_p or 0.0) * probs[ranked[0]]][: asked.top_k]
    left = sum(probs[token] for token in kept)
    nucleus, reached = [], 0.0
    for token in kept:
        if reached >= asked.top_p:
            break
        nucleus.append(token)
        reached += probs[token] / left
    total = sum(probs[token] for token in nucleus)
    return np.array([probs[token] / total if token in nucleus else 0.0 for token in range(len(probs))])


@pytest.mark.parametrize(
    ("settings", "num_kept"),
    [
        ({}, 6),
        ({"top_p": 0.9}, 3),
        ({"top_p": 0.6}, 1),
        ({"top_k": 4}, 4),
        ({"top_k": 100}, 6),
        ({"min_p": 0.1}, 3),
        # Of tokens 0 and 2, top-p 0.9 of the whole would keep a third one; of what top-k leaves it keeps both,
        ({"top_k": 2, "top_p": 0.9}, 2),
        # and 0.8 of these two the first alone: it has 0.807 of them, but 0.67 of all.
        ({"top_k": 2, "top_p": 0.8}, 1),
        ({"min_p": 0.05, "top_k": 4, "top_p": 0.95}, 3),
    ],
)
def test_draws_follow_the_distribution(settings, num_kept):
    num, asked = 40_000, params(temperature=0.7, **settings)
    logits = [1.0, 0.0, 2.0, -1.0, 0.5, -3.0]
    expected = reference_distribution(logits, asked)
    assert np.count_nonzero(expected) == num_kept
    vocabulary = len(logits)
    uniforms = torch.from_numpy(uniform_draws(1, num))
    tokens, log_probs = sample_tokens(torch.tensor(logits).repeat(num, 1), uniforms, asked)
    assert log_probs.exp().numpy() == pytest.approx(expected[tokens.numpy()], abs=1e-6)
    observed = np.bincount(tokens.numpy(), minlength=vocabulary)
    assert observed[expected == 0].sum() == 0
    inside = expected > 0
    chi_square = ((observed - num * expected)[inside] ** 2 / (num * expected[inside])).sum()
    assert chi_square < 20.5  # the 0.999 quantile at 5 degrees of freedom


def test_greedy_takes_the_most_probable_and_of_equals_the_first():
    logits = torch.tensor([[0.0, 2.0, 2.0], [3.0, 1.0, 0.0]])
    tokens, log_probs = sample_tokens(logits, torch.tensor([0.99, 0.99], dtype=torch.float64), params(temperature=0.0))
    assert tokens.tolist() == [1, 0]
    # At temperature 1: 2 - ln(1 + 2 e^2) and 3 - ln(e^3 + e + 1).
    assert log_probs.tolist() == pytest.approx([2 - np.log(1 + 2 * np.e**2), 3 - np.log(np.e**3 + np.e + 1)], abs=1e-6)


def test_what_is_asked_for_alone_changes_nothing_of_another_setting():
    """A sample that was stored before top-k existed comes out the same: nothing is divided by a sum of nearly 1."""
    generator = torch.Generator().manual_seed(1)
    logits, uniforms = torch.randn(200, 300, generator=generator), torch.rand(200, dtype=torch.float64)
    probs = torch.log_softmax(logits / 0.7, dim=-1).exp()
    kept = probs.masked_fill(~top_p_mask(probs, 0.9), 0.0)
    tokens, _ = sample_tokens(logits, uniforms, params(temperature=0.7, top_p=0.9))
    assert torch.equal(tokens, inverse_cdf(kept, uniforms))


def test_rows_are_independent_of_each_other():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 300, generator=generator) * 3
    uniforms = torch.rand(50, dtype=torch.float64, generator=generator)
    together, _ = sample_tokens(logits, uniforms, params(temperature=0.7, top_p=0.9))
    alone = [
        sample_tokens(logits[i : i + 1], uniforms[i : i + 1], params(temperature=0.7, top_p=0.9))[0].item()
        for i in range(50)
    ]
    assert together.tolist() == alone
