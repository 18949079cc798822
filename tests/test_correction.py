"""Weights against the mismatch of training and inference, by hand; and what a training does with them."""

import hashlib
import json
import math

import pytest
import torch
from train_setup import grade_by_hash, make_base, make_config

from stapo_bench.errors import UsageError
from stapo_bench.runs import flatten
from stapo_train import run
from stapo_train.config import LATER_KEYS, PLACE_KEYS
from stapo_train.correction import BOUNDS, correct

# Two rollouts: r = 4 and 0.5, of product 2 and geometric mean sqrt 2; and r = 0.25, 8, 3 with 6 and 6^(1/3) = 1.817
LOG_RATIO = torch.tensor([4.0, 0.5, 0.25, 8.0, 3.0], dtype=torch.float64).log()
SEQUENCE = torch.tensor([0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("kind", "bounds", "weights"),
    [
        ("token-tis", None, [2, 0.5, 0.25, 2, 2]),
        ("token-tis", (0, 3.5), [3.5, 0.5, 0.25, 3.5, 3]),
        ("token-tis", (0.3, 3.5), [3.5, 0.5, 0.25, 3.5, 3]),  # no lower bound, whatever it says
        ("sequence-tis", None, [2, 2, 2, 2, 2]),
        ("sequence-tis", (0, 5), [2, 2, 5, 5, 5]),
        ("icepop", None, [4, 0.5, 0, 0, 3]),
        ("mis", None, [2, 2, 0, 0, 0]),
        ("mis", (3, 7), [0, 0, 6, 6, 6]),
        ("rejection", None, [1] * 5),
    ],
)
def test_weights_by_hand(kind, bounds, weights):
    found = correct(LOG_RATIO, SEQUENCE, 2, kind, bounds or BOUNDS[kind])
    assert found.weights.tolist() == pytest.approx(weights)
    assert found.kept.all() or kind == "rejection"


@pytest.mark.parametrize(
    ("bounds", "kept"), [((0.999, 1.001), [False] * 2), ((1, 1.5), [True, False]), ((1.5, 2), [False, True])]
)
def test_rejection_looks_at_the_geometric_mean(bounds, kept):
    assert correct(LOG_RATIO, SEQUENCE, 2, "rejection", bounds).kept.tolist() == kept
    alone = correct(LOG_RATIO[:1], SEQUENCE[:1], 1, "rejection", (3.9, 4.1))  # one token, r = 4
    assert alone.kept.tolist() == [True]


def test_a_rollout_without_tokens_is_kept_and_huge_ratios_stay_finite():
    found = correct(torch.tensor([0.0]), torch.tensor([1]), 3, "rejection", BOUNDS["rejection"])
    assert found.kept.tolist() == [True] * 3
    huge = correct(torch.tensor([800.0, 800.0]), torch.tensor([0, 0]), 1, "sequence-tis", (0, 1e30))
    assert huge.weights.tolist() == pytest.approx([math.exp(20)] * 2, rel=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("correction")
    make_base(folder / "base")
    return folder


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"correction": "icepop", "importance_cap": 2.0}, "importance_cap: expected none beside correction"),
        ({"correction_bounds": [0.5, 5.0]}, "correction_bounds: expected with correction alone"),
        ({"correction": "icepop", "correction_bounds": [5.0, 0.5]}, "correction_bounds: expected a lower bound of 0"),
        ({"correction": "token-tis", "correction_bounds": [0.5, 2]}, "expected 0 as the lower bound of token-tis"),
        (
            {"correction": "sequence-tis", "correction_bounds": [0.1, 2]},
            "expected 0 as the lower bound of sequence-tis",
        ),
        ({"correction": "tis"}, "correction: expected "),
    ],
)
def test_what_cannot_be_meant_is_refused(folder, update, message):
    with pytest.raises(UsageError, match=message):
        make_config(folder, update={"mini_batches": 2, **update})


def test_runs_from_before_keep_their_digest(folder):
    config = make_config(folder)
    before = {k: v for k, v in flatten(config.nested()).items() if k not in (*PLACE_KEYS, *LATER_KEYS)}
    assert config.digest() == hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()[:16]
    assert make_config(folder, update__correction="mis").digest() != config.digest()


def test_a_training_corrects_and_leaves_out(folder, monkeypatch):
    """The transformers engine samples with the trainer's own model: r is 1, so that TIS changes nothing."""
    monkeypatch.setattr(run, "grade", grade_by_hash)
    losses = {}
    nothing = {"correction": "rejection", "correction_bounds": [2, 3]}
    for name, update in {"plain": {}, "tis": {"correction": "token-tis"}, "none": nothing}.items():
        config = make_config(
            folder,
            out=str(folder / name),
            iterations=1,
            update={"mini_batches": 2, "micro_batch_tokens": 128, **update},
        )
        run.train(config)
        (line,) = (folder / name / "metrics.jsonl").read_text().splitlines()
        losses[name] = json.loads(line)
    assert losses["tis"]["loss"] == pytest.approx(losses["plain"]["loss"], abs=1e-5)
    assert losses["plain"]["grad_norm"] > 0 and losses["none"]["grad_norm"] == 0
    assert (losses["plain"]["num_rejected"], losses["none"]["num_rejected"]) == (0, 16)
