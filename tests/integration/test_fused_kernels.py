"""The Triton kernels against float64: on an NVIDIA GPU for real, elsewhere by Triton's interpreter.

The interpreter multiplies bfloat16 matrices wrongly (it has no such numbers), so half precision is float16 there. That
the kernels compile for an H100 or H200, and into what, is seen without a GPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton")

from stapo_train.fused import kernels, linear_token_distribution

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16 if torch.cuda.is_available() else torch.float16

HOPPER_SHARED = 232_448  # bytes that a program can have of an H100's or H200's multiprocessor


def example(num_tokens, depth, vocabulary, dtype):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, depth, generator=generator)
    weight = torch.randn(vocabulary, depth, generator=generator)
    taken = torch.randint(vocabulary, (num_tokens,), generator=generator)
    taken[0], taken[-1] = 0, vocabulary - 1
    return hidden.to(DEVICE, dtype).requires_grad_(), weight.to(DEVICE, dtype).requires_grad_(), taken.to(DEVICE)


def exact(hidden, weight, taken, temperature):
    log_pi = torch.log_softmax(hidden @ weight.T / temperature, dim=1)
    log_probs = log_pi.gather(1, taken.unsqueeze(1)).squeeze(1)
    return log_probs, -(log_pi.exp() * log_pi).sum(1), (2 * log_pi).exp().sum(1)


@pytest.mark.parametrize(
    ("num_tokens", "depth", "vocabulary", "dtype", "value_error", "gradient_error"),
    [
        (3, 5, 7, torch.float32, 1e-5, 1e-5),  # less than a tile in every direction
        (130, 70, 1500, torch.float32, 5e-5, 1e-5),  # divisible by no tile
        (128, 64, 1024, torch.float32, 5e-5, 1e-5),  # divisible by all
        (130, 70, 1500, HALF, 1e-4, 1e-2),
    ],
)
def test_values_and_gradients(  # noqa: PLR0917
    monkeypatch, num_tokens, depth, vocabulary, dtype, value_error, gradient_error
):
    monkeypatch.setattr(kernels, "EXTRA_BYTES", 0)
    monkeypatch.setattr(kernels, "LEAST_BYTES", num_tokens * 512 * 4)  # several turns over the vocabulary
    hidden, weight, taken = example(num_tokens, depth, vocabulary, dtype)
    found = linear_token_distribution(hidden, weight, taken, 0.7, kernels.BACKEND)
    wide = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    expected = exact(*wide, taken, 0.7)
    for a, b in zip((found.log_probs, found.entropy, found.sum_squares), expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=0, atol=value_error)
    by_log_prob, by_entropy = torch.randn(2, num_tokens, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    for uses in ([1, 0], [0, 1], [1, 1]):  # of log-prob and entropy in the loss
        ours = uses[0] * (by_log_prob * found.log_probs).sum() + uses[1] * (by_entropy * found.entropy).sum()
        theirs = uses[0] * (by_log_prob * expected[0]).sum() + uses[1] * (by_entropy * expected[1]).sum()
        ours_by = torch.autograd.grad(ours, (hidden, weight), retain_graph=True)
        theirs_by = torch.autograd.grad(theirs, wide, retain_graph=True)
        for a, b in zip(ours_by, theirs_by, strict=True):
            assert (a.double() - b).norm() <= gradient_error * b.norm()


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter would take hours at the real vocabulary")
@pytest.mark.parametrize("depth", [2048, 5120])
def test_at_the_real_vocabulary(depth):
    hidden, weight, taken = example(300, depth, 151_936, HALF)
    with torch.no_grad():
        weight *= 4 / depth**0.5
    found = linear_token_distribution(hidden, weight, taken, 1.0)
    expected = exact(hidden.detach().double(), weight.detach().double(), taken, 1.0)
    for a, b in zip((found.log_probs, found.entropy, found.sum_squares), expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-4)


def test_compiled_for_hopper(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(Path(__file__).parent.parent / "compile_for_hopper.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 3 * sum(map(len, kernels.TILINGS.values()))
    for row in rows:
        assert row["shared"] <= row["predicted_shared"] <= HOPPER_SHARED, row  # else it cannot be launched
        assert row["spills_between_wgmmas"] == 0, row  # the loop over D keeps its sums in registers
        assert row["local"] <= 64, row  # bytes of a thread, outside that loop
        assert row["wide_copies"] > 0, row  # 16 bytes at a time, on their way while others are multiplied
        assert (row["wgmma"] > 0) == (row["dtype"] == "bf16"), row


def test_the_widest_tiling_that_fits_is_taken():
    assert kernels.tiling_for(2, HOPPER_SHARED) == kernels.TILINGS[2][0]
    assert kernels.tiling_for(2, 101_376) == kernels.TILINGS[2][1]  # a GeForce 4090: 3 x 64 x 384 x 2 = 147,456 do not
    assert kernels.tiling_for(2, 1) == kernels.TILINGS[2][-1]


@pytest.mark.parametrize("depth", [2048, 4096, 5120])
def test_the_backward_pass_takes_less_than_a_gigabyte(depth):
    columns = kernels.columns_at_a_time(32_768, depth, 2, 256)
    assert 32_768 * depth * 4 + 32_768 * columns * 2 < 1e9  # sums by hidden states, a part of the gradient by logits
    assert columns >= 4096  # each part adds to the sums once, and reading and writing them should not count


def test_a_part_has_a_tile_at_least():
    assert kernels.columns_at_a_time(10_000_000, 4096, 2, 256) == 256
