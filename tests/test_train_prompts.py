"""What stands around a question in training: the evaluation's settings, rendered by its code, and part of the run."""

import hashlib
import json
from dataclasses import replace

import pytest
from test_prompt_styles import TEMPLATE, styled_task
from train_setup import grade_by_hash, make_base, make_config, make_values

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import flatten
from stapo_bench.tasks import render_prompts
from stapo_train import run
from stapo_train.config import LATER_KEYS, PLACE_KEYS, load_config, parse_config
from stapo_train.data import load_problems
from stapo_train.data_config import STYLE_KEYS
from stapo_train.integrations.verl_data import refuse_style
from stapo_train.objectives import for_run
from stapo_train.policy import load_model
from stapo_train.preflight import check_before_loading
from stapo_train.prompts import render
from stapo_train.recipe import deviations

SHOT = '{"problem": "1?", "answer": "A"}\n'
STYLE = {"system": "Be terse.", "fewshot": [["1?", "A"]], "assistant_prefix": "So"}
AS_TASK = "num_fewshot: 1\nfewshot_config: {samples: [{problem: '1?', answer: A}]}\ngen_prefix: So\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("prompts") / "base")


def styled(folder, base, prompt_format="plain", **style):
    data = {**make_values(folder)["data"], "question": "{{problem}}", "prompt_format": prompt_format, **style}
    return make_config(folder, model=str(base), data=data)


@pytest.mark.parametrize("prompt_format", ["plain", "base", "chat"])
def test_a_training_asks_as_an_evaluation_token_by_token(tmp_path, base, prompt_format):
    keywords = {"enable_thinking": False} if prompt_format == "chat" else {}
    config = styled(tmp_path, base, prompt_format, **STYLE, chat_template_kwargs=keywords)
    task = styled_task(tmp_path, AS_TASK, f", system: Be terse., chat_template_kwargs: {json.dumps(keywords)}")
    assert config.data.style == task.style
    _, tokenizer = load_model(base, config)
    tokenizer.chat_template = TEMPLATE
    problems = load_problems(config.data, config.seed)
    trained = render(problems, config, tokenizer)
    assert trained == render_prompts(task, problems, tokenizer, prompt_format)
    assert (
        trained[0].text
        == {
            "plain": "Be terse.\n\n1? A\n\nWhat is 0+0? So",
            "base": "Be terse.\n\nUser: 1?\n\nAssistant: A\n\nUser: What is 0+0?\n\nAssistant: So",
            "chat": "[system]Be terse.[user]1?[assistant]A[user]What is 0+0?[assistant]<think></think>So",
        }[prompt_format]
    )
    assert tokenizer.decode(trained[0].token_ids) == trained[0].text


def test_without_a_style_prompts_and_digests_are_what_they_were(tmp_path, base):
    config = styled(tmp_path, base)
    _, tokenizer = load_model(base, config)
    prompts = render(load_problems(config.data, config.seed), config, tokenizer)
    assert [prompt.text for prompt in prompts] == [f"What is {i}+{i}?" for i in range(10)]
    data = {name: value for name, value in config.nested()["data"].items() if name not in STYLE_KEYS}
    before = flatten({**config.nested(), "data": data})
    kept = {name: value for name, value in before.items() if name not in (*PLACE_KEYS, *LATER_KEYS)}
    assert config.digest() == hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]
    unset = dict.fromkeys(STYLE_KEYS)
    assert styled(tmp_path, base, **unset).digest() == config.digest()
    others = [styled(tmp_path, base, **{name: value}) for name, value in STYLE.items()]
    assert len({one.digest() for one in [config, *others]}) == 4


def test_examples_of_a_file_are_part_of_the_config_whatever_becomes_of_it(tmp_path, base):
    shots, file = tmp_path / "shots.jsonl", tmp_path / "run.yaml"
    shots.write_text(SHOT)
    file.write_text(json.dumps(make_values(tmp_path)))
    config = load_config(file, [f"data.fewshot={shots}"])
    assert config.data.style.examples == (("1?", "A"),)
    assert config.nested()["data"]["fewshot"] == [["1?", "A"]]
    assert parse_config(config.nested(), "again") == config
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: no such file; expected one JSON object per line"):
        load_config(file, ["data.fewshot=nowhere.jsonl"])


def test_the_reply_is_graded_whole_and_another_style_is_another_run(tmp_path, base, monkeypatch):
    seen = []

    def graded(rollouts, golds, pool):
        seen.extend(rollouts)
        return grade_by_hash(rollouts, golds, pool)

    monkeypatch.setattr(run, "grade", graded)
    config = replace(styled(tmp_path, base, **STYLE), iterations=1)
    final = run.train(config)
    _, tokenizer = load_model(final, config)
    assert len(seen) == 16
    for one in seen:  # its words are the prompt's tokens, and none of the policy's
        assert tokenizer.decode(one.prompt_ids).endswith("? So") and one.text.startswith("So")
        written = tokenizer.decode(one.response_ids, skip_special_tokens=True)
        assert one.text == "So" + written
    other = replace(styled(tmp_path, base, **{**STYLE, "system": "Be brief."}), iterations=2)
    with pytest.raises(StapoError, match=r"another config \(data\.system: Be brief\. here, Be terse\. there\)"):
        run.train(other, resume=True)
    with pytest.raises(StapoError, match=r"data\.fewshot: None here, \[\['1\?', 'A'\]\] there"):
        run.train(replace(styled(tmp_path, base, system="Be terse.", assistant_prefix="So"), iterations=2), resume=True)
    run.train(replace(config, iterations=2), resume=True)


@pytest.mark.parametrize(
    ("style", "message"),
    [
        ({"fewshot": "shots.jsonl"}, "data: fewshot: expected a list or null, got shots.jsonl"),
        ({"fewshot": [["1?"]]}, r"data: fewshot: expected a list of 2, got \['1\?'\]"),
        ({"chat_template_kwargs": {"a": False}}, "chat_template_kwargs: expected prompt format chat, .* got plain"),
        ({"prompt_format": "chat", "chat_template_kwargs": {1: 2}}, "expected values as JSON has them, got 1: 2"),
        ({"assistant_prefx": "So"}, "did you mean 'assistant_prefix'"),
    ],
)
def test_a_style_that_cannot_be_is_one_line(tmp_path, base, style, message):
    with pytest.raises(UsageError, match=message):
        styled(tmp_path, base, **style)


def test_what_gives_an_answer_away_or_has_no_effect_is_refused(tmp_path, base):
    given = styled(tmp_path, base, fewshot=[["1?", "A"], ["What is 3+3?", "6"]])
    with pytest.raises(StapoError, match=r"data\.fewshot, training data: example 2 is its problem 3, with the answer"):
        load_problems(given.data, 0)
    keywords = styled(tmp_path, base, "auto", chat_template_kwargs={"enable_thinking": False})
    with pytest.raises(UsageError, match=r"chat_template_kwargs: expected prompt format chat, .* got base"):
        check_before_loading(keywords)


def test_the_header_and_verl_name_a_style(tmp_path, base):
    config = styled(tmp_path, base, "chat", chat_template_kwargs={"enable_thinking": False})
    objective = for_run(config.objective, seed=0, max_new_tokens=8)
    assert "data.chat_template_kwargs {'enable_thinking': False} (None)" in map(str, deviations(config, objective))
    with pytest.raises(
        UsageError, match=r"data\.chat_template_kwargs .*: expected none, as verl gets the question alone"
    ):
        refuse_style(config.data)
    refuse_style(styled(tmp_path, base).data)
