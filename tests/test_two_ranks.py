"""One iteration on two CPU ranks is that of one process; ``scripts/integration.sh ranks`` compares whole trainings."""

import pytest
from ranks_setup import assert_same_training, on_ranks, train_each
from train_setup import make_base

from stapo_train.objective import ONE_PROCESS


@pytest.mark.slow(reason="three processes that load torch")
def test_an_iteration_of_two_ranks_is_that_of_one_process(tmp_path):
    make_base(tmp_path / "base", sharpness=10.0)
    wanted = {"stapo": {"iterations": 1, "checkpoint__every": 1}}
    train_each(ONE_PROCESS, tmp_path, wanted)
    on_ranks(2, train_each, tmp_path, wanted)
    assert_same_training(tmp_path / "1" / "stapo", tmp_path / "2" / "stapo")
