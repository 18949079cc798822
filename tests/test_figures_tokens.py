"""Figures of tokens: who is silenced, and between which bounds gradients lie."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from figure_setup import axes_of, write_log
from safetensors.numpy import save_file

from stapo_bench.presenting.figures import Sources, available, render_svg
from stapo_bench.presenting.figures.tokens import Tokens, gradient_bounds
from stapo_train.token_statistics import logit_gradient_norm_bounds


def write_dump(log: Path, iteration: int, probs, entropies, advantages) -> None:
    """A dumped mini-batch of one-token responses."""
    folder = log / "dumps" / f"iteration-{iteration:06d}"
    (folder / "model").mkdir(parents=True)
    (folder / "dump.json").write_text("{}")
    (folder / "model" / "config.json").write_text(json.dumps({"vocab_size": 50}))
    save_file(
        {
            "old_log_probs": np.log(np.array(probs, dtype=np.float32)),
            "entropy": np.array(entropies, dtype=np.float32),
            "row_advantages": np.array(advantages, dtype=np.float32),
            "response_lengths": np.ones(len(probs), dtype=np.int64),
        },
        folder / "batch.safetensors",
    )


@pytest.fixture
def dumped(tmp_path) -> Sources:
    """A log with two dumps; the later one had no candidates. tau_p = 0.01, tau_h = 1."""
    log = write_log(
        tmp_path / "a", [{"thresholds": {"tau_h": [9.0, 1.0]}}, {"thresholds": {"tau_h": [1.0, None]}}], tau_p=0.01
    )
    write_dump(log, 1, [0.001, 0.001, 0.001, 0.5, 0.5], [0.5, 0.5, 2.0, 0.5, 2.0], [1.0, -2.0, 1.0, 1.0, 0.0])
    write_dump(log, 2, [0.5], [0.5], [1.0])
    return Sources(logs=[log])


def test_tokens_by_probability_and_entropy_with_the_silenced_quadrant(dumped):
    (ax,) = axes_of("tokens", dumped)
    found = {c.get_label(): np.round(c.get_offsets(), 6).tolist() for c in ax.collections}
    assert found == {
        "A ≤ 0": [[0.001, 0.5], [0.5, 2.0]],
        "A > 0": [[0.001, 2.0], [0.5, 0.5]],
        "silenced": [[0.001, 0.5]],
    }
    quadrant = ax.patches[0]
    assert quadrant.get_x() + quadrant.get_width() == pytest.approx(0.01)
    assert (quadrant.get_y(), quadrant.get_height()) == (0.0, 1.0)
    assert ax.get_xscale() == "log"


def test_an_objective_that_silences_nothing_has_no_quadrant(tmp_path):
    log = write_log(tmp_path / "a", [{}], name="grpo")
    write_dump(log, 1, [0.5], [0.5], [1.0])
    (ax,) = axes_of("tokens", Sources(logs=[log]))
    assert not ax.patches
    assert "gradients" not in available(Sources(logs=[log]))


def test_gradient_norms_per_quadrant(dumped):
    (ax,) = axes_of("gradients", dumped)
    # low pi, low H: A = 1 and -2 at pi = 0.001, H = 0.5. Least: A^2 (1 - 0.002 + e^-0.5), e^-0.5 = 0.606531
    least = math.sqrt((1 + 4) / 2 * (0.998 + 0.606531))
    most = math.sqrt((1 + 4) / 2 * (0.998 + 1 - 49 / (50 * math.log(50) ** 2) * 0.25))
    first = ax.patches[0]
    assert (first.get_x(), first.get_x() + first.get_width()) == (pytest.approx(least), pytest.approx(most))
    counts = [text.get_text() for text in ax.texts]
    assert counts == ["n = 2", "n = 1", "n = 1", "n = 0"]  # the token without advantage has no gradient


def test_gradient_bounds_hold_and_lie_within_the_papers():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 40)) * rng.uniform(0.1, 6, size=(200, 1))
    pi = np.exp(logits - logits.max(axis=1, keepdims=True))
    pi /= pi.sum(axis=1, keepdims=True)
    taken, advantage = pi[:, 0], rng.normal(size=200)
    entropy = -(pi * np.log(pi)).sum(axis=1)
    found = Tokens(title="", prob=taken, entropy=entropy, advantage=advantage, vocabulary=40, tau_p=0.1, tau_h=1.0)
    least, most = gradient_bounds(found)
    exact = advantage**2 * (1 - 2 * taken + (pi**2).sum(axis=1))
    assert (least <= exact + 1e-12).all() and (exact <= most + 1e-12).all()
    low, high = logit_gradient_norm_bounds(*map(torch.from_numpy, (advantage, taken, entropy)), vocabulary=40)
    assert (least >= low.numpy() - 1e-12).all() and (most <= high.numpy() + 1e-9).all()


def test_a_hatched_bar_keeps_its_colour_in_a_page(dumped):
    text = render_svg("gradients", dumped)
    assert 'fill="#d55e00"' in text and 'id="gradients-h' in text
