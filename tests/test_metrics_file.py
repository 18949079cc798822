"""What other trainers log, as a training log of ours: figures read it, resumed trainings go on."""

import pytest

from stapo_bench.errors import StapoError
from stapo_bench.presenting.figures import Sources
from stapo_bench.presenting.figures.training import candidate_entropy, column_lines, experiments, masked
from stapo_train.integrations.metrics_file import TRL, VERL, MetricsFile, record_of, stated
from stapo_train.objectives import build
from stapo_train.train_records import StepRecord


def of_verl(entropy: float, silenced: float = 2.0) -> dict[str, float]:
    return {
        "actor/entropy": entropy,
        "actor/objective/num_tokens": 400.0,
        "actor/objective/num_candidates": 8.0,
        "actor/objective/num_silenced": silenced,
        "actor/objective/candidate_entropy": 0.1,
        "actor/objective/num_kept": 400.0 - silenced,
        "actor/objective/rollout_mismatch": 0.01,
        "critic/score/mean": float("nan"),
        "timing_s/step": 3.0,
    }


def make(folder, **changes):
    facts = {"seed": 1, "objective": {"name": "stapo"}, "iterations": 3, "trainer": "verl"}
    return MetricsFile(folder, **{**facts, **changes})


def test_a_record_has_our_names_and_no_number_that_is_not_known():
    record = record_of(VERL, of_verl(0.5))
    # 2 of 400 tokens and of 8 candidates
    assert record == {
        "entropy": 0.5,
        "num_tokens": 400.0,
        "num_candidates": 8.0,
        "num_kept": 398.0,
        "candidate_entropy": 0.1,
        "rollout_mismatch": 0.01,
        "masked_share": 0.005,
        "masked_share_of_candidates": 0.25,
    }
    assert record_of(VERL, {"val-core/score": 0.5}) is None  # an evaluation's
    assert record_of(TRL, {"reward": 0.5, "objective/num_tokens": 4.0, "objective/num_silenced": 0.0}) == {
        "num_tokens": 4.0,
        "reward": 0.5,
        "masked_share": 0.0,
    }


@pytest.mark.parametrize("names", [VERL, TRL])
def test_every_name_is_one_of_our_own_records(names):
    known = StepRecord.__dataclass_fields__.keys() | {"num_silenced"}  # which becomes masked_share
    assert names.keys() <= known


def test_figures_read_the_log(tmp_path):
    log = make(tmp_path / "run")
    for step, entropy in ((1, 0.5), (2, 0.25)):
        log.add(step, record_of(VERL, of_verl(entropy)))
    trainings = Sources(logs=[tmp_path]).trainings
    assert [(t.method, t.seed, t.iterations) for t in trainings] == [("STAPO", 1, (1, 2))]
    line = column_lines(experiments(trainings), "entropy")[0]
    assert (line.label, line.x, line.y) == ("STAPO", (1.0, 2.0), (0.5, 0.25))
    assert masked(Sources(logs=[tmp_path])).panels[0].lines[0].y == (0.005, 0.005)
    assert candidate_entropy(Sources(logs=[tmp_path])).panels[0].lines[0].y == (0.1, 0.1)


def test_a_resumed_training_writes_the_steps_that_it_repeats_once(tmp_path):
    first, second = make(tmp_path), make(tmp_path)
    for step in (1, 2, 3):
        first.add(step, record_of(VERL, of_verl(step / 10)))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration":4,"entr')  # torn by a kill
    for step in (3, 4):
        second.add(step, record_of(VERL, of_verl(step)))
    (training,) = Sources(logs=[tmp_path]).trainings
    assert training.iterations == (1, 2, 3, 4)
    assert training.column("entropy").tolist() == [0.1, 0.2, 3.0, 4.0]


def test_a_damaged_line_is_named_and_nothing_is_lost(tmp_path):
    make(tmp_path).add(1, record_of(VERL, of_verl(0.5)))
    path = tmp_path / "metrics.jsonl"
    damaged = path.read_text().replace("0.5", "0.6")
    path.write_text(damaged)
    with pytest.raises(StapoError, match=r"metrics.jsonl:1: expected an iteration's record"):
        make(tmp_path).add(2, record_of(VERL, of_verl(0.5)))
    assert path.read_text() == damaged


def test_the_settings_that_were_stated_name_the_line():
    assert stated({"name": "stapo", "q": 0.5}) == {"name": "stapo", "q": 0.5}
    assert stated(build("stapo", q=0.5)) == {"name": "stapo", "q": 0.5}
    assert stated(build("stapo")) == {"name": "stapo"}
