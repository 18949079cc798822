"""What stands around a question: system, examples, keywords of the chat template, the beginning of the reply."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from cli_setup import EVAL, one_line
from eval_setup import FakeEngine, make_options, run
from fake_server import serving
from test_prompts import PROBLEM, ChatTokenizer

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import PromptStyle
from stapo_bench.runs import canonical_digest, load_manifest, read_samples
from stapo_bench.sampling.identity import prompts_digest
from stapo_bench.tasks import check_style, load_task, render_all
from stapo_bench.tasks.prompts import render_prompts

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)

STYLE = PromptStyle(system="Be terse.", examples=(("1 + 1?", "It is 2."),), assistant_prefix="It is")
Q = PROBLEM.question
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    "{% if enable_thinking is false %}<think></think>{% endif %}"
)


class KeywordTokenizer(ChatTokenizer):
    """Passes keywords on to the template, as transformers' tokenizers do."""

    def apply_chat_template(self, messages, add_generation_prompt, tokenize, **keywords):
        from transformers.utils.chat_template_utils import render_jinja_template

        (text,), _ = render_jinja_template([messages], chat_template=self.chat_template, **keywords)
        return text


def text_of(style, prompt_format, tokenizer=None):
    (prompt,) = render_all([PROBLEM], "{{problem}} Box it.", prompt_format, tokenizer, style)
    return prompt.text


def test_without_a_template_the_parts_follow_one_another():
    assert text_of(STYLE, "plain") == f"Be terse.\n\n1 + 1? Box it. It is 2.\n\n{Q} Box it. It is"
    assert text_of(STYLE, "base") == (
        f"Be terse.\n\nUser: 1 + 1? Box it.\n\nAssistant: It is 2.\n\nUser: {Q} Box it.\n\nAssistant: It is"
    )


def test_a_chat_template_gets_messages_and_keywords():
    pytest.importorskip("transformers")
    tokenizer = KeywordTokenizer(TEMPLATE)
    expected = f"[system]Be terse.[user]1 + 1? Box it.[assistant]It is 2.[user]{Q} Box it.[assistant]"
    assert text_of(STYLE, "chat", tokenizer) == expected + "It is"
    without = PromptStyle(chat_template_kwargs={"enable_thinking": False})
    assert text_of(without, "chat", tokenizer) == f"[user]{Q} Box it.[assistant]<think></think>"


def test_a_server_that_chats_gets_messages_and_keywords():
    style = PromptStyle(system="Be terse.", examples=STYLE.examples, chat_template_kwargs={"enable_thinking": False})
    (prompt,) = render_all([PROBLEM], "{{problem}}", "message", None, style)
    roles = [(one["role"], one["content"]) for one in prompt.chat["messages"]]
    assert roles == [("system", "Be terse."), ("user", "1 + 1?"), ("assistant", "It is 2."), ("user", Q)]
    assert prompt.chat["chat_template_kwargs"] == {"enable_thinking": False}
    (bare,) = render_all([PROBLEM], "{{problem}}", "message", None)
    assert (bare.text, bare.chat) == (Q, None)


def test_the_prompts_digest_is_of_what_a_chatting_server_is_sent():
    styles = (PromptStyle(), PromptStyle(system="Be terse."), PromptStyle(system="Be brief."))
    sent = [prompts_digest(render_all([PROBLEM], "{{problem}}", "message", None, style)) for style in styles]
    assert len(set(sent)) == 3
    assert sent[0] == canonical_digest([["p", Q]])  # as it was before there were styles


@pytest.mark.parametrize(
    ("style", "prompt_format", "message"),
    [
        (
            {"chat_template_kwargs": {"enable_thinking": False}},
            "base",
            "expected prompt format chat, or --chat, got base",
        ),
        ({"chat_template_kwargs": {"add_generation_prompt": False}}, "chat", "got add_generation_prompt"),
        ({"chat_template_kwargs": {"thinking": False}}, "chat", "the checkpoint's chat template reads, got thinking"),
        ({"assistant_prefix": "So"}, "message", "--assistant-prefix: expected no --chat"),
        ({"system": "Be terse."}, "chat", "t/p: the chat template drops, or changes, 'Be terse.'"),
    ],
)
def test_what_would_have_no_effect_is_refused(style, prompt_format, message):
    pytest.importorskip("transformers")
    tokenizer = KeywordTokenizer(TEMPLATE.replace("{{ m.role }}]{{ m.content }}", "{{ messages[-1].content }}]"))
    with pytest.raises((StapoError, UsageError), match=message.replace("(", r"\(")):
        render_all([PROBLEM], "{{problem}}", prompt_format, tokenizer, PromptStyle(**style))


def styled_task(folder, more="", metadata=""):
    (folder / "styled.yaml").write_text(
        f"task: sums\nrepeats: 2\ndoc_to_text: '{{{{problem}}}}'\nmetadata: {{num_problems: 10{metadata}}}\n{more}"
    )
    return load_task(str(folder / "styled.yaml"))


def test_a_task_file_states_its_style_in_lm_evals_keys(tmp_path):
    samples = "[{problem: One, answer: A}, {problem: Two, answer: B}]"
    more = f"num_fewshot: 1\nfewshot_config: {{samples: {samples}}}\ngen_prefix: So\n"
    task = styled_task(tmp_path, more, ", system: Be terse., chat_template_kwargs: {enable_thinking: false}")
    keywords = {"enable_thinking": False}
    assert task.style == PromptStyle(
        system="Be terse.", examples=(("One", "A"),), assistant_prefix="So", chat_template_kwargs=keywords
    )
    assert (
        styled_task(tmp_path, f"fewshot_config: {{samples: {samples}}}\n").style == PromptStyle()
    )  # as lm-eval has it


@pytest.mark.parametrize(
    ("more", "metadata", "message"),
    [
        ("num_fewshot: 2\nfewshot_config: {samples: [{problem: One, answer: A}]}", "", "got 2 and 1"),
        ("num_fewshot: -1\nfewshot_config: {samples: []}", "", "got -1 and 0"),
        ("num_fewshot: 1\nfewshot_config: {samples: {problem: One}}", "", "got 1 and dict"),
        ("num_fewshot: 1\nfewshot_config: {samples: [{problem: One, answer: 2}]}", "", "example 1: expected texts"),
        ("gen_prefix: [So]", "", "gen_prefix: expected str, got list"),
        ("", ", chat_template_kwargs: {date: 2020-01-01}", "expected values as JSON has them, got date"),
        ("", ", chat_template_kwargs: {1: 2}", "expected values as JSON has them, got 1"),
    ],
)
def test_a_style_that_is_none_is_one_line(tmp_path, more, metadata, message):
    with pytest.raises(StapoError, match=message):
        styled_task(tmp_path, more, metadata)


def test_an_example_that_is_asked_is_refused(tmp_path):
    task = styled_task(tmp_path)
    with pytest.raises(StapoError, match="task sums: example 2 is its problem p, with the answer"):
        render_prompts(task, [PROBLEM], None, None, PromptStyle(examples=(("1?", "A"), (f" {Q}\n", "B"))))


def test_the_style_is_part_of_the_run_and_the_reply_is_whole(tmp_path):
    style = {"system": "Be terse.", "assistant_prefix": "So: "}
    options = make_options(tmp_path, style=style)
    engine = FakeEngine()
    run(options, engine)
    assert {r.prompt.text.split("\n\n")[0] for r in engine.requested} == {"Be terse."}
    identity = load_manifest(options.out).identity
    assert identity.tasks["one"].style == PromptStyle(**style)
    assert all(sample.completion.startswith("So: ") for sample in read_samples(options.out))
    for other in ({}, {**style, "system": "Be brief."}, {"system": "Be terse."}):
        with pytest.raises(StapoError, match=r"tasks\.one\.style"):
            run(make_options(tmp_path, style=other))
    assert run(options).num_sampled == 0


def test_a_run_without_a_style_has_the_digest_that_it_always_had(tmp_path):
    options = make_options(tmp_path)
    run(options)
    written = json.loads((options.out / "manifest.json").read_text())["identity"]["tasks"]["one"]
    assert set(written) == {"data", "prompts", "prompt_format"}


def test_the_command_line_goes_before_the_task_file(small, stapo):
    (small / "shots.jsonl").write_text('{"problem": "1?", "answer": "one"}\n{"problem": "2?", "answer": "two"}\n')
    (small / "system.txt").write_text("Be\nterse.")
    flags = ("--system", "@system.txt", "--fewshot", "shots.jsonl", "--assistant-prefix", "So")
    code, output, error = stapo(*EVAL, "--data-dir", ".", "--samples", "2", *flags)
    assert code == 0, error
    assert "T=0.7, top-p 0.9, system 'Be" in output and "terse.', 2-shot, reply begins 'So'" in output
    run_dir = small / "results/script-justrl-system-examples-assistant_prefix"
    style = load_manifest(run_dir).identity.tasks["sums"].style
    expected = {"system": "Be\nterse.", "examples": (("1?", "one"), ("2?", "two")), "assistant_prefix": "So"}
    assert style == PromptStyle(**expected)
    assert json.loads((run_dir / "scores.json").read_text())["prompt"].endswith("2-shot, reply begins 'So'")
    # Another prompt is another run, which is never mixed with this one.
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--samples", "2", "--system", "Be terse.", "--out", run_dir)
    assert code != 0 and r"tasks.sums.style.system: the run has" in error
    code, _, _ = stapo(*EVAL, "--data-dir", ".", "--samples", "2")
    assert code == 0
    compared = stapo("compare", "results/script-justrl", run_dir)[1]
    assert "tasks.sums.style.system" in compared


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--system", "@nowhere.txt"), 2, "nowhere.txt: no such file"),
        (("--fewshot", "nowhere.jsonl"), 2, "nowhere.jsonl: no such file; expected one JSON object per line"),
        (("--fewshot", "empty.jsonl"), 1, "expected at least one example, got none"),
        (("--fewshot", "script.yaml"), 1, "script.yaml"),
        (("--fewshot", "sums.jsonl"), 1, "expected texts for problem and answer"),
        (("--chat-template-kwargs", "enable_thinking=false"), 2, "expected a JSON object such as"),
        (("--chat-template-kwargs", '{"a": NaN}'), 2, "expected a JSON object such as"),
        (("--chat-template-kwargs", '{"enable_thinking": false}', "--prompt-format", "plain"), 2, "got plain"),
    ],
)
def test_bad_styles_are_one_line(small, stapo, flags, code, words):
    (small / "empty.jsonl").write_text("")
    (small / "sums.jsonl").write_text('{"problem": "1?", "answer": 2}\n')
    found, _, error = stapo(*EVAL, "--data-dir", ".", *flags)
    assert (found, words in one_line(error)) == (code, True), error
    assert not (small / "results").exists()


def test_a_chatting_server_is_told_the_style(small, stapo, serve):
    server = serve()
    server.chats_only = True
    to = ("--engine", "openai", "--model", "tiny", "--chat", "--base-url", server.url, "--max-new-tokens", "50")
    command = ("eval", *to, "--tasks", "sums.yaml", "--data-dir", ".", "--decoding", "justrl", "--samples", "1")
    code, _, error = stapo(*command, "--system", "Be terse.", "--chat-template-kwargs", '{"enable_thinking": false}')
    assert code == 0, error
    assert server.bodies[-1]["messages"][0] == {"role": "system", "content": "Be terse."}
    assert server.bodies[-1]["chat_template_kwargs"] == {"enable_thinking": False}


def test_the_page_says_which_formats_refuse_what():
    page = (Path(__file__).parent.parent / "docs/decoding.md").read_text(encoding="utf-8")
    section = page.split("\n## What stands around the question")[1].split("\n## ")[0]
    header, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line
    )
    parts = {
        "system": "Be terse.",
        "fewshot": STYLE.examples,
        "chat-template-kwargs": {"a": 1},
        "assistant-prefix": "So",
    }
    said = {}
    for flags, *cells in rows:
        for flag in re.findall("--([a-z-]+)", flags):
            for formats, cell in zip(header[1:], cells, strict=True):
                for name in ["message"] if formats == "`--chat`" else re.findall("[a-z]+", formats):
                    said[flag, name] = cell == "refused"
    for (flag, name), refused in said.items():
        field = {"fewshot": "examples"}.get(flag, flag.replace("-", "_"))
        with pytest.raises(UsageError, match=flag.replace("-", "[-_]")) if refused else nullcontext():
            check_style(PromptStyle(**{field: parts[flag]}), name)
    assert len(said) == 4 * 4 and sum(said.values()) == 3
