"""Four ways to sample one model are not told apart, a wrong temperature in any of them is: ``bench.engines``, small.

Run by ``scripts/integration.sh vllm``, in an environment with vLLM.
"""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)


def test_engines_are_not_told_apart_and_a_wrong_temperature_is(tmp_path):
    """A random model is never right, and sure enough of its tokens here for a temperature to matter to it."""
    from bench.engines import measure
    from stapo_train.tiny.random_model import END, random_model, save

    checkpoint = save(random_model(context_length=512, sharpness=8.0, end_ids=[END]), tmp_path / "model")
    found = measure(checkpoint, tmp_path, num_problems=16, samples=8, wrong=0.7, max_new_tokens=24)
    assert (len(found["right"]), len(found["wrong"])) == (6, 16)
    assert found["right_told_apart"] == 0, found["right"]
    assert found["wrong_told_apart"] == 16, found["wrong"]
