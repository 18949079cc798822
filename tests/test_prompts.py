"""Prompts: the three formats, and the two ways in which a template can quietly spoil a run."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import Environment

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, Problem
from stapo_bench.tasks import prompts
from stapo_bench.tasks.prompts import render_all, render_prompt, render_question, resolve_format

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


def test_a_template_is_compiled_once_and_remembers_no_problem(monkeypatch):
    counting = "{% set seen = namespace(n=0) %}{% set seen.n = seen.n + 1 %}{{problem}} {{seen.n}}"
    compiled = []
    from_string = Environment.from_string
    monkeypatch.setattr(Environment, "from_string", lambda *args: compiled.append(1) or from_string(*args))
    others = [replace(PROBLEM, question=f"{number}?") for number in range(3)]
    assert [render_question(counting, problem) for problem in others] == ["0? 1", "1? 1", "2? 1"]
    assert len(compiled) == 1


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


class ChatTokenizer:
    """The part of transformers' tokenizers that renders: their own rendering of a chat template."""

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        from transformers.utils.chat_template_utils import render_jinja_template

        (text,), _ = render_jinja_template([messages], chat_template=self.chat_template)
        return text

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [1] * len(text)}


LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (LOOP, r"task t: doc_to_text: took more than 0\.5 s"),
        ("{{ problem.center(10**10) }}", "may not use|took more than 1 GB of memory"),
        *(
            pytest.param(template, "took more than 1 GB of memory", marks=pytest.mark.slow(reason="fills a gigabyte"))
            for template in ("{{ problem.center(4000000000) }}", "{{ '%4000000000d' % 1 }}")
        ),
        ("{{ problem }}{{ problem.center(2000000) }}", "t/p: expected a prompt of at most 1000000 characters"),
        ("{{ problem.__class__.__mro__ }}", "cannot be rendered: .*unsafe"),
        ("{% for a in range(3) %}", "cannot be rendered"),
        ("{{ '" + "x" * 400 + "' + 1 }}", "cannot be rendered"),
        ("{{" + "(" * 5000 + "1" + ")" * 5000 + "}}", "cannot be rendered"),
    ],
)
def test_a_stranger_s_template_ends_at_its_limits(monkeypatch, template, message):
    before = children()
    monkeypatch.setattr(prompts, "CPU_S", 0.5)
    monkeypatch.setattr(prompts, "CPU_S_EACH", 0.0)
    with pytest.raises(StapoError, match=message) as caught:
        render_prompt(PROBLEM, template, "plain", None)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert children() <= before  # nothing is left running
    if "doc_to_text" in message:
        message = message.replace("doc_to_text:", "doc_to_text or the chat template:")
    pytest.importorskip("transformers")
    with pytest.raises(StapoError, match=message):
        render_prompt(PROBLEM, "{{problem}}", "chat", ChatTokenizer(template.replace("problem", "messages[0].content")))
    assert children() <= before


def children() -> set[str]:
    """Processes that this one has started and not reaped."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(stat.parent.name)
    return found


def test_what_a_limited_process_renders_is_what_this_one_renders():
    template = "{% if problem %}{{ problem }}{% endif %} Box it."
    expected = render_question(template, PROBLEM)
    assert [p.text for p in render_all([PROBLEM] * 3, template, "plain", None)] == [expected] * 3
    with pytest.raises(StapoError, match="t/p: the plain template drops the problem's text"):
        render_all([PROBLEM], "{% if problem %}nothing{% endif %}", "plain", None)
