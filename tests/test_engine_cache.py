"""One engine for many checkpoints: kept where it takes their weights, and what it then draws is theirs."""

import io
import json
import shutil
from dataclasses import replace

import pytest
import torch
from eval_setup import make_options

from stapo_bench.engines import EngineOptions
from stapo_bench.engines.transformers import TransformersEngine, load_checkpoint
from stapo_bench.engines.weights import read_weights
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling.engine_cache import EngineCache
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate
from stapo_train.tiny.random_model import random_model, save

pytestmark = pytest.mark.usefixtures("graded_here")


@pytest.fixture
def steps(tmp_path) -> list[EvalOptions]:
    """Evaluations of three checkpoints of one training run, and of a fourth that ends elsewhere."""
    options = make_options(tmp_path, samples=1, limit=2, engine=EngineOptions(name="transformers"), decoding="training")
    found = []
    for step in range(4):
        model = random_model()
        torch.manual_seed(step)
        for parameter in model.parameters():
            parameter.data.add_(torch.randn_like(parameter), alpha=0.02 * step)
        model.generation_config.eos_token_id = [256] if step == 3 else [256, 40]
        folder = save(model, tmp_path / f"step-{step}")
        (folder / "stapo.json").write_text(json.dumps({"step": step}))
        found.append(replace(options, checkpoint=folder, out=tmp_path / f"run-{step}"))
    return found


def completions(options: EvalOptions, **how: object) -> list[tuple[object, str]]:
    run_dir = evaluate(options, watch=io.StringIO(), **how).run_dir
    return sorted((sample.key, sample.completion) for sample in read_samples(run_dir))


def test_checkpoints_in_one_go_get_the_samples_that_each_gets_alone(tmp_path, steps, monkeypatch):
    alone = [completions(replace(options, out=tmp_path / f"alone-{i}")) for i, options in enumerate(steps)]
    assert len({str(found) for found in alone}) == 4
    opened, closed = [], []
    load, close = TransformersEngine.open, TransformersEngine.close
    monkeypatch.setattr(
        TransformersEngine, "open", lambda path, options: opened.append(path.name) or load(path, options)
    )
    monkeypatch.setattr(TransformersEngine, "close", lambda self: closed.append(1) or close(self))
    with EngineCache() as engines:
        assert [completions(options, engines=engines) for options in steps] == alone
        assert (opened, len(closed)) == (["step-0", "step-3"], 1)  # other end tokens: another engine
        completions(replace(steps[0], samples=2), engines=engines)  # finished runs are looked up without an engine,
        assert opened == ["step-0", "step-3", "step-0"]
        completions(replace(steps[1], samples=1), engines=engines)
        completions(replace(steps[0], samples=3), engines=engines)  # and do not displace the one that is there
        assert opened == ["step-0", "step-3", "step-0"]
    assert len(closed) == 3


def test_other_settings_open_another_engine(tmp_path, steps):
    with EngineCache() as engines:
        first = engines.engine(steps[0], [])
        assert engines.engine(steps[0], []) is first
        assert engines.engine(steps[1], []) is first
        assert engines.engine(replace(steps[1], engine=EngineOptions(name="transformers", slots=3)), []) is not first


def test_a_checkpoint_that_comes_again_has_its_own_weights_again(tmp_path, steps):
    with EngineCache() as engines:
        first, other, again = (
            completions(replace(steps[step], out=tmp_path / name), engines=engines)
            for step, name in ((0, "first"), (1, "other"), (0, "again"))
        )
    assert again == first != other


def test_a_checkpoint_that_was_deleted_meanwhile_is_compared_by_what_was_known_of_it(steps):
    with EngineCache() as engines:
        first = engines.engine(steps[0], [])
        shutil.rmtree(steps[0].checkpoint)
        assert engines.engine(steps[1], []) is first
        shutil.rmtree(steps[1].checkpoint)
        assert engines.engine(steps[3], []) is not first  # other end tokens


@pytest.mark.parametrize("error", [KeyError, RuntimeError])
def test_weights_under_names_that_only_loading_understands_open_another_engine(steps, monkeypatch, error):
    """GPT-2 ties transformer.wte.weight; load_state_dict refuses names that from_pretrained translates."""

    def unknown(_checkpoint: object) -> None:
        raise error("model.embed_tokens.weight")

    expected = completions(replace(steps[1], out=steps[1].out.with_name("alone")))
    with EngineCache() as engines:
        first = engines.engine(steps[0], [])
        monkeypatch.setattr("stapo_bench.engines.transformers.read_weights", unknown)
        assert engines.engine(steps[1], []) is not first
        assert completions(steps[1], engines=engines) == expected


def test_an_engine_that_is_handed_over_stays_open(steps):
    theirs = TransformersEngine(*load_checkpoint(steps[0].checkpoint))
    with EngineCache(theirs) as engines:
        assert engines.engine(steps[2], []) is theirs
    assert theirs.identity()["engine"] == "transformers"


@pytest.mark.parametrize("tied", [True, False])
def test_weights_on_disk_become_a_whole_state(tmp_path, tied):
    model = random_model()
    if tied:
        model.config.tie_word_embeddings = True
        model.tie_weights()
    folder = save(model, tmp_path)
    found, expected = dict(read_weights(folder)), model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
