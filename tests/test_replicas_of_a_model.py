"""Two processes with the transformers engine draw, to the byte, the texts that one draws."""

import pytest
from engine_setup import PARAMS, make_requests

from stapo_bench.engines import EngineOptions, open_engine
from stapo_train.tiny.random_model import random_model, save


@pytest.mark.slow(reason="three processes that load torch")
def test_two_replicas_of_a_model_draw_what_one_process_draws(tmp_path):
    save(random_model(), tmp_path / "base")
    requests = make_requests(8)
    drawn = []
    for replicas in (None, "2"):
        engine = open_engine(EngineOptions(name="transformers", replicas=replicas), tmp_path / "base")
        found = list(engine.generate(requests, PARAMS))
        assert len(found) == len(requests)
        engine.close()
        drawn.append({one.key: one for one in found})
    alone, several = drawn
    assert alone.keys() == several.keys()
    for key, one in alone.items():
        other = several[key]
        assert other.text.encode() == one.text.encode()
        assert (other.token_ids, other.finish_reason) == (one.token_ids, one.finish_reason)
        # The sums behind them are rounded as the batch has it, and batches are others.
        assert other.log_probs == pytest.approx(one.log_probs, abs=1e-5)
