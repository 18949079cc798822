"""Sampling against hand-computed values, a slow reference and the distribution it claims to draw from."""

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
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top-p"),
        ({"top_p": 1.1}, "top-p"),
        ({"max_new_tokens": 0}, "max-new-tokens"),
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


def test_inverse_cdf_at_the_boundaries():
    # Cumulative 0.25, 0.25, 0.75, 1: token 1 has no mass and is never drawn, whatever falls on its edge.
    weights = torch.tensor([[0.25, 0.0, 0.5, 0.25]]).repeat(5, 1)
    uniforms = torch.tensor([0.0, 0.25, 0.5, 0.75, 1 - 2**-53], dtype=torch.float64)
    assert inverse_cdf(weights, uniforms).tolist() == [0, 2, 2, 3, 3]


def test_a_last_token_without_mass_is_never_drawn():
    weights = torch.rand(1000, 7, generator=torch.Generator().manual_seed(0))
    weights[:, -1] = 0.0
    assert int(inverse_cdf(weights, torch.full((1000,), 1 - 2**-53, dtype=torch.float64)).max()) <= 5


def test_log_probs_are_at_the_temperature_and_before_the_cut():
    # logits (0, ln 4) at temperature 2 are (0, ln 2): p = 1/3, 2/3. top-p 0.5 leaves token 1 alone, log p stays ln 2/3.
    logits = torch.tensor([[0.0, np.log(4.0)]], dtype=torch.float64)
    tokens, log_probs = sample_tokens(logits, torch.tensor([0.0], dtype=torch.float64), 2.0, 0.5)
    assert tokens.tolist() == [1]
    assert log_probs.dtype == torch.float32
    assert log_probs.item() == pytest.approx(np.log(2 / 3), abs=1e-6)


@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.6])
def test_draws_follow_the_distribution(top_p):
    num, vocabulary = 40_000, 6
    logits = torch.tensor([1.0, 0.0, 2.0, -1.0, 0.5, -3.0])
    probs = torch.softmax(logits / 0.7, -1)
    expected = probs.where(top_p_mask(probs[None], top_p)[0], torch.tensor(0.0))
    expected = (expected / expected.sum()).double().numpy()
    tokens, _ = sample_tokens(logits.repeat(num, 1), torch.from_numpy(uniform_draws(1, num)), 0.7, top_p)
    observed = np.bincount(tokens.numpy(), minlength=vocabulary)
    assert observed[expected == 0].sum() == 0
    inside = expected > 0
    chi_square = ((observed - num * expected)[inside] ** 2 / (num * expected[inside])).sum()
    assert chi_square < 20.5  # the 0.999 quantile at 5 degrees of freedom


def test_rows_are_independent_of_each_other():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 300, generator=generator) * 3
    uniforms = torch.rand(50, dtype=torch.float64, generator=generator)
    together, _ = sample_tokens(logits, uniforms, 0.7, 0.9)
    alone = [sample_tokens(logits[i : i + 1], uniforms[i : i + 1], 0.7, 0.9)[0].item() for i in range(50)]
    assert together.tolist() == alone
