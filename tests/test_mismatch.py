"""What another trainer's correction promises is in the mini-batch, or the step is refused."""

import pytest

from stapo_bench.errors import StapoError
from stapo_train.integrations.mismatch import TRL_WEIGHTS, VERL_LOG_PROBS, VERL_WEIGHTS, require_trls, require_verls

OFF = {"rollout_is": None, "rollout_rs": None}


@pytest.mark.parametrize(
    ("correction", "names", "message"),
    [
        (None, set(), None),
        ({}, set(), None),
        (OFF, {"advantages"}, None),
        (OFF | {"rollout_is": "token"}, {VERL_WEIGHTS}, None),
        (OFF | {"rollout_rs": "seq_mean_k1"}, {VERL_LOG_PROBS}, None),
        (OFF | {"rollout_is": "token"}, {VERL_LOG_PROBS}, "rollout_is: token is on, .* has no rollout_is_weights"),
        (OFF | {"rollout_rs": "seq_mean_k1"}, {VERL_WEIGHTS}, "rollout_rs: seq_mean_k1 is on, .* no rollout_log_probs"),
    ],
)
def test_a_correction_of_verls_has_what_it_works_with(correction, names, message):
    if message is None:
        require_verls(correction, names)
        return
    with pytest.raises(StapoError, match=message) as caught:
        require_verls(correction, names)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("is_on", "names", "refused"),
    [(False, set(), False), (True, {TRL_WEIGHTS}, False), (True, {"advantages"}, True)],
)
def test_a_correction_of_trls_has_its_ratio(is_on, names, refused):
    if not refused:
        require_trls(is_on, names)
        return
    with pytest.raises(StapoError, match="correction: True, and the batch has no importance_sampling_ratio"):
        require_trls(is_on, names)
