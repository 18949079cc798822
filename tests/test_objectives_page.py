"""docs/objectives.md says what the code does and what was measured; every objective was compared with somebody's."""

import math
import re

import pytest

from bench.objective_oracles import ours, random_batch, reference_apart
from bench.objectives_page import OTHERWISE, PAGE, PROBES, read_rows, render, weights
from stapo_bench.errors import UsageError
from stapo_train.integrations.limits import check_supported
from stapo_train.objectives import BUILT_IN, for_run

ROWS = read_rows()


def of(name):
    return weights(for_run({"name": name}, seed=3, max_new_tokens=25))


def test_the_page_is_what_the_code_and_the_measurements_say():
    assert PAGE.read_text(encoding="utf-8") == render(ROWS)


def test_the_weights_by_hand():
    # 400 tokens, of which STAPO silences one of the two candidates that differ in entropy, and the fallen one's twin
    assert [w == 0 for w in of("stapo")[:8]] == [True] + [False] * 7
    assert of("ar")[:4] == pytest.approx([0.2 * 0.001 + 0.8] * 2 + [0.2 * 0.5 + 0.8] * 2)
    # 0.1 + 0.9 pi / (0.01 exp(-0.1)), 0.1 + 0.9 pi / (0.01 exp(-2)); the risen one is beyond the clip
    assert of("taco")[:2] == pytest.approx([0.1 + 0.09 * math.exp(0.1), 0.1 + 0.09 * math.exp(2)])
    # surrogate 1, and 1 - proxy / pi = -3 of the KL, at the unsure token alone
    assert of("lp-reg")[4:6] == pytest.approx([1, -2])
    assert of("ce-gppo")[8:] == pytest.approx([1.2, 0.4])
    assert of("dppo-tv")[8:] == pytest.approx([4, 0.25])
    assert len(PROBES) == 10


def test_the_trainers_readme_names_each_once():
    text = (PAGE.parents[1] / "train" / "README.md").read_text(encoding="utf-8")
    rows = text.split("| name | what it is |", 1)[1].split("\n\n", 1)[0].splitlines()
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ", 1)[0])]
    assert sorted(named) == sorted(BUILT_IN)


@pytest.mark.parametrize("trainer", ["TRL", "verl"])
def test_the_trainers_readme_names_what_other_trainers_refuse(trainer):
    text = (PAGE.parents[1] / "train" / "README.md").read_text(encoding="utf-8")
    section = text.split(f"## Inside {trainer}\n", 1)[1]
    refused, besides = section.split("every objective but ", 1)[1].split("into", 1)
    said = {name: {"name": name} for name in re.findall(r"`([^`]+)`", refused)}
    for settings in [{"name": name} for name in BUILT_IN] + [{"name": "stare", "gate": "mini-batch"}]:
        objective = for_run(settings, seed=3, max_new_tokens=25)
        if said.get(settings["name"]) == settings:
            with pytest.raises(UsageError, match=f"which {trainer}'s trainer does not give"):
                check_supported(objective, trainer)
        else:
            check_supported(objective, trainer)
    assert "`stare` with `gate: mini-batch`, too" in besides.split("\n\n", 1)[0]


def test_every_objective_was_compared_and_none_is_apart():
    found = {}
    for row in ROWS:
        found.setdefault(row.objective, []).append(row)
    assert list(found) == list(BUILT_IN)
    assert all("slow reference, from the paper" in {row.oracle for row in rows} for rows in found.values())
    assert max(row.difference for row in ROWS) < 2e-7  # verl adds 1e-8 to lengths, TRL has constants in float32


def test_the_page_says_at_which_settings_each_was_compared():
    found = {(row.objective, row.oracle) for row in ROWS}
    at_defaults = {name for name, oracle in found if oracle == "slow reference, at the defaults"}
    assert set(BUILT_IN) - at_defaults == {"lopti", "lp-reg"}  # phases; a proxy
    assert set(OTHERWISE) <= found
    text = PAGE.read_text(encoding="utf-8")
    assert "STARE (weight_negative 0.9; variant C2, the gate handed in open; their weights" in text
    assert "Lp-Reg-dev (share 0.2; the proxy handed in to both)" in text
    assert "verl 0.9.1 (share 1.0, low 0.0, high 1000000000.0; which tokens" in text


def test_a_wrong_constant_is_seen_at_the_defaults(monkeypatch):
    batch = random_batch()
    assert reference_apart("stare", batch) < 1e-12
    monkeypatch.setattr("bench.objective_oracles.ours", lambda *_: ours("stare", {"weight_positive": 1.2}, batch))
    assert reference_apart("stare", batch) > 1e-3


@pytest.mark.parametrize(
    ("oracle", "names"),
    [
        ("verl 0.9.1", "grpo justrl dapo kl-cov clip-cov dr-grpo gspo cispo sapo dppo-tv dppo-kl gmpo gpg dro"),
        ("verl 0.9.1, advantages", "justrl rloo reinforce++ reinforce++-baseline opo grpo-pass-k gpg"),
        ("TRL 1.16", "grpo dapo dr-grpo gspo cispo sapo luspo vespo 20-entropy"),
        ("the authors' code", "stare taco lp-reg ce-gppo aspo maxrl 20-entropy ar"),
    ],
)
def test_what_others_ship_was_compared_with_theirs(oracle, names):
    compared = [r for r in ROWS if (r.oracle == oracle if "verl" in oracle else r.oracle.startswith(oracle))]
    assert {row.objective for row in compared} == set(names.split())
