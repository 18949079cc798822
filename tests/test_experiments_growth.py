"""The experiments' section on growing entropy: ln of its end over its start, compared over seeds."""

import math
from pathlib import Path
from types import SimpleNamespace

from stapo_train.experiments import sections


def findings(folder, growths):
    """Variant A is the reference; of each variant and seed, what a training's entropy grew by (-inf: it ends at 0)."""
    trainings = []
    for variant, of_seeds in growths.items():
        for seed, growth in enumerate(of_seeds):
            training = folder / f"{variant}{seed}"
            training.mkdir()
            entropies = [0.5] * 5 + [0.5 * math.exp(growth)] * 10
            (training / "metrics.jsonl").write_text("".join(f'{{"entropy": {value}}}\n' for value in entropies))
            trainings.append(SimpleNamespace(variant=variant, folder=training))
    return SimpleNamespace(trainings=trainings, told=["B"], experiment=SimpleNamespace(reference="A"))


def test_growth_is_paired_over_seeds(tmp_path):
    results = findings(tmp_path, {"A": (0.1, 0.2, 0.3), "B": (-0.1, 0.0, 0.0)})
    found = sections.growth(results, Path())
    # A: mean 0.2, standard error 0.1 / sqrt(3), t_0.975(2) = 4.303: 0.2 -+ 0.248. B: -0.0333 -+ 4.303 / 30.
    # Changes -0.2, -0.2, -0.3: -0.233 -+ 4.303 / 30 = 0.143, which leaves out 0.
    assert found.answers == [
        "A's entropy growth is +0.200 [-0.048, +0.448] (3 seeds).",
        "B's entropy growth is -0.033 [-0.177, +0.110] (3 seeds).",
        "B's entropy growth is below A's: -0.233 [-0.377, -0.090] (3 seeds).",
    ]
    assert "| Variant | growth | minus A | p (Holm) |\n|---|---|---|---|\n| A | 0.200 | – | – |\n" in found.text
    assert "| B | -0.033 | -0.233 [-0.377, -0.090] | 0.020 |" in found.text


def test_a_training_that_ends_at_0_has_no_growth(tmp_path):
    results = findings(tmp_path, {"A": (0.1, 0.2, 0.3), "B": (-0.1, -math.inf, 0.0), "C": (-1000.0, 0.0, 0.0)})
    found = sections.growth(results, Path())
    # C: 0.5 exp(-1000) is 0 as a double, too.
    assert found.answers == [
        "A's entropy growth is +0.200 [-0.048, +0.448] (3 seeds).",
        "B's entropy growth has no mean: entropy is 0 first or last in 1 of 3 seeds.",
        "C's entropy growth has no mean: entropy is 0 first or last in 1 of 3 seeds.",
    ]
    assert "| B | – | – | – |\n| C | – | – | – |" in found.text
