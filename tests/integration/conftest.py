"""A random tiny Qwen3 with a tokenizer of bytes, in a shape that every engine takes."""

from pathlib import Path

import pytest

collect_ignore = [
    "verl_on_cpu.py", "verl_rollouts_on_cpu.py", "verl_steps.py",  # helpers that import verl
    "test_train_ranks.py", "test_train_beside_ranks.py",  # minutes, that each worker of pytest would spend anew; they
    # run where they are named
]  # fmt: skip


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    from stapo_train.tiny.random_model import END, random_model, save

    model = random_model(context_length=512, sharpness=1.0, end_ids=[END])
    # Defaults that would change every sample if they had a say: one token to choose from.
    return save(model, tmp_path_factory.mktemp("checkpoint"), top_k=1, temperature=0.1)
