"""The measurement of an exact mask plants candidates as it says."""

import runpy
from pathlib import Path

import pytest

from stapo_train.check.toy import toy_batch, toy_objective
from stapo_train.objective import select
from stapo_train.objectives import build

SCRIPT = Path(__file__).parent.parent / "bench" / "trainer.py"


@pytest.fixture
def bench():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize("rate", [1e-4, 0.05, 0.2])
def test_the_planted_threshold_gives_the_asked_share_of_candidates(bench, rate):
    parts = [toy_batch(toy_objective("justrl"), seed).stats for seed in (1, 2)]
    tau_p = bench["planted_threshold"](parts, rate)
    candidates = sum(select(stats, build("stapo", tau_p=tau_p)).num_candidates for stats in parts)
    num_tokens = sum(len(stats.key) for stats in parts)
    assert candidates == max(1, round(rate * num_tokens))


def test_ratios_are_of_one_round(bench):
    way = bench["Contestant"](label="stapo, exact", objective={"name": "stapo", "tau_p": 0.002}, method="exact")
    found = bench["summary"](way, bench["Ran"](), spent=[2.2, 1.1, 30.0], base=[2.0, 1.0, 10.0])
    # 2.2 / 2.0 = 1.1, 1.1 / 1.0 = 1.1, 30 / 10 = 3
    assert found["ratio_to_justrl"] == pytest.approx(1.1)
    assert found["seconds"] == 2.2
    assert found["num_candidates"] == 0
