"""Prompts: the three formats, and the two ways in which a template can quietly spoil a run."""

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, Problem
from stapo_bench.tasks.prompts import render_prompt, render_question, resolve_format

PROBLEM = Problem(task="t", problem_id="p", question="What is {{7*7}} + $\\frac{1}{2}$?", gold=Gold(answer="1"))
TEMPLATE = "{{problem}} Box it."


class FakeTokenizer:
    """Characters as ids; BOS is 1; a chat template of the given shape."""

    bos_token_id = 1

    def __init__(self, chat_template=None):
        self.chat_template = chat_template

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        assert add_generation_prompt and not tokenize
        return self.chat_template.format(messages[0]["content"])

    def __call__(self, text, add_special_tokens):
        ids = [1 if c == "^" else ord(c) for c in text]
        return {"input_ids": [1, *ids] if add_special_tokens else ids}


def test_a_problem_is_data_and_no_template():
    assert render_question(TEMPLATE, PROBLEM) == "What is {{7*7}} + $\\frac{1}{2}$? Box it."


def test_an_unknown_name_in_a_template_is_an_error():
    with pytest.raises(StapoError, match="doc_to_text cannot be rendered"):
        render_question("{{question}}", PROBLEM)


def test_plain_is_the_question_alone():
    prompt = render_prompt(PROBLEM, "{{problem}}\n", "plain", None)
    assert (prompt.text, prompt.token_ids) == (PROBLEM.question + "\n", None)


def test_base_is_user_and_assistant():
    prompt = render_prompt(PROBLEM, TEMPLATE, "base", None)
    assert prompt.text == f"User: {PROBLEM.question} Box it.\n\nAssistant:"


def test_chat_uses_the_checkpoints_template_and_adds_no_second_bos():
    prompt = render_prompt(PROBLEM, TEMPLATE, "chat", FakeTokenizer("^[{}]"))
    assert prompt.text == f"^[{PROBLEM.question} Box it.]"
    assert prompt.token_ids[:2] == (1, ord("["))


def test_outside_chat_the_tokenizer_adds_its_bos():
    assert render_prompt(PROBLEM, TEMPLATE, "base", FakeTokenizer()).token_ids[:2] == (1, ord("U"))


def test_two_bos_tokens_are_an_error():
    with pytest.raises(StapoError, match="t/p: the prompt begins with two BOS"):
        render_prompt(PROBLEM, TEMPLATE, "chat", FakeTokenizer("^^{}"))


def test_a_template_that_drops_the_problem_is_an_error():
    with pytest.raises(StapoError, match="t/p: the chat template drops the problem"):
        render_prompt(PROBLEM, TEMPLATE, "chat", FakeTokenizer("hello"))


@pytest.mark.parametrize(
    ("requested", "tokenizer", "expected"),
    [
        ("auto", None, "base"),
        ("auto", FakeTokenizer(), "base"),
        ("auto", FakeTokenizer("{}"), "chat"),
        ("plain", FakeTokenizer("{}"), "plain"),
    ],
)
def test_auto_means_chat_where_there_is_a_template(requested, tokenizer, expected):
    assert resolve_format(requested, tokenizer) == expected


def test_chat_without_a_template_is_an_error():
    with pytest.raises(StapoError, match="no chat template; use --prompt-format base or plain"):
        resolve_format("chat", FakeTokenizer())


def test_an_unknown_format_is_bad_usage():
    with pytest.raises(UsageError, match="unknown prompt format 'chatml'"):
        resolve_format("chatml", None)


@pytest.mark.parametrize(
    "template",
    ["{{ 'x' * 10**10 }}", "{% for i in range(10**9) %}{% endfor %}", "{{ problem / 0 }}", "{{ problem + 1 }}"],
)
def test_a_template_that_runs_wild_is_one_line(template):
    with pytest.raises(StapoError, match="doc_to_text cannot be rendered"):
        render_question(template, PROBLEM)
