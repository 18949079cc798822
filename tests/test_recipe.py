"""What a training leaves out and keeps: prompts that are too long, checkpoints that are too many."""

import pytest
from train_setup import grade_by_hash, make_base, make_config

from stapo_bench.errors import StapoError
from stapo_train import run
from stapo_train.data import load_problems
from stapo_train.policy import load_model
from stapo_train.prompts import render, short_enough


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    make_base(folder / "base")
    return folder


def test_longer_prompts_are_left_out_and_that_is_said(folder, capsys):
    config = make_config(folder)
    problems = load_problems(config.data, config.seed)
    _, tokenizer = load_model(folder / "base", config)
    sizes = sorted(len(prompt.token_ids) for prompt in render(problems, config, tokenizer))
    assert short_enough(problems, config, tokenizer) == problems and not capsys.readouterr().err
    config = make_config(folder)
    at_most = {**config.nested()["data"], "max_prompt_tokens": sizes[0]}
    config = make_config(folder, data=at_most)
    kept = short_enough(problems, config, tokenizer)
    assert len(kept) == sizes.count(sizes[0])
    if len(kept) < len(problems):
        said = f"{len(problems) - len(kept)} of 10 prompts are longer than {sizes[0]} tokens: left out"
        assert said in capsys.readouterr().err
    with pytest.raises(StapoError, match=r"data\.max_prompt_tokens=1: no prompt of 10 is as short; raise it"):
        short_enough(problems, make_config(folder, data={**at_most, "max_prompt_tokens": 1}), tokenizer)


MORE = pytest.mark.slow(reason="two more trainings")


@pytest.mark.parametrize(
    ("keep", "keep_every", "numbers"),
    [
        pytest.param(None, None, (1, 2, 3), marks=MORE),
        (1, None, (3,)),
        pytest.param(2, None, (2, 3), marks=MORE),
        (1, 2, (2, 3)),
    ],
)
def test_the_newest_checkpoints_are_kept_and_those_of_every_so_many_iterations(
    folder, monkeypatch, keep, keep_every, numbers
):
    monkeypatch.setattr(run, "grade", grade_by_hash)
    out = folder / f"keep-{keep}-{keep_every}"
    rule = {"every": 1, "keep": keep, "keep_every": keep_every}
    config = make_config(folder, out=str(out), iterations=4, checkpoint=rule)
    run.train(config)
    names = ["final", *(f"step-{number:06d}" for number in numbers)]
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == names
    longer = make_config(folder, out=str(out), iterations=6, checkpoint={"every": 1, "keep": 1})
    run.train(longer, resume=True)
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["final", "step-000005"]
