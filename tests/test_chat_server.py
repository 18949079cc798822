"""Servers that chat: messages out, reasoning and content back; and models of which this machine has no folder."""

import json

import pytest
from cli_setup import NUM_PROBLEMS, one_line
from fake_server import PARAMS, QUICK, make_requests, serving

from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.server_settings import OFF
from stapo_bench.runs import load_manifest, read_samples

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)

EVAL = ("eval", "--engine", "openai", "--model", "tiny", "--tasks", "sums.yaml", "--data-dir", ".")
REST = ("--decoding", "justrl", "--samples", "2", "--max-new-tokens", "50")


@pytest.fixture
def chatty(serve):
    server = serve()
    server.chats_only = True
    return server


def test_a_question_goes_out_as_a_message_with_every_setting(chatty):
    engine = OpenAIEngine([chatty.url], chat=True, retries=QUICK)
    completions = {c.key.problem_id: c for c in engine.generate(make_requests(4), PARAMS)}
    assert completions["p2"].text == "answer 2"
    body = next(body for body in chatty.bodies if body["seed"] == 2)
    expected = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], "temperature": 0.7, "top_p": 0.9}
    assert {name: body[name] for name in expected} == expected
    assert {name: body[name] for name in OFF} == OFF
    assert "prompt" not in body
    assert engine.identity()["api"] == "chat"


@pytest.mark.parametrize(
    ("thought", "text"),
    [
        ({"reasoning_content": "2 + 2"}, "<think>2 + 2</think>answer 1"),
        ({"reasoning": "2 + 2"}, "<think>2 + 2</think>answer 1"),  # as newer servers call it
        ({"reasoning_content": "2 +", "content": None}, "<think>2 +"),  # cut off while thinking
        ({"reasoning_content": None}, "answer 1"),
        ({"content": None}, ""),
    ],
)
def test_reasoning_is_part_of_the_completion(chatty, thought, text):
    chatty.thought = thought
    (completion,) = OpenAIEngine([chatty.url], chat=True, retries=QUICK).generate(make_requests(2)[1:], PARAMS)
    assert completion.text == text


def test_a_message_that_is_none_is_asked_for_again(chatty):
    chatty.thought = {"content": ["a", "list"]}
    (completion,) = OpenAIEngine([chatty.url], chat=True, retries=QUICK).generate(make_requests(2)[1:], PARAMS)
    assert completion.finish_reason == "error"
    assert chatty.attempts[1] == QUICK.tries


def test_a_served_model_without_a_folder_is_evaluated(small, stapo, chatty):
    code, output, error = stapo(*EVAL, *REST, "--chat", "--base-url", chatty.url)
    assert code == 0, error
    run = small / "results/tiny-justrl"
    manifest = load_manifest(run)
    assert manifest.identity.checkpoint_digest == "served tiny"
    assert manifest.identity.engine["api"] == "chat"
    assert manifest.identity.tasks["sums"].prompt_format == "message"
    assert len(list(read_samples(run))) == 2 * NUM_PROBLEMS
    sent = {body["messages"][0]["content"] for body in chatty.bodies}
    assert sent == {f"{i} + {i}?" for i in range(NUM_PROBLEMS)}
    # Started again, nothing is asked for; graded and scored as any run.
    asked = len(chatty.bodies)
    assert "nothing is missing" in stapo(*EVAL, *REST, "--chat", "--base-url", chatty.url)[2]
    assert len(chatty.bodies) == asked
    assert stapo("score", run)[1].strip() == output.strip()
    code, _, error = stapo("continue", run, "--max-new-tokens", "80", "--base-url", chatty.url, "--data-dir", ".")
    assert code == 1 and "a server that chats cannot go on behind a cut-off answer" in one_line(error)


def test_the_one_model_of_a_server_need_not_be_named(small, stapo, chatty):
    unnamed = [word for word in EVAL if word not in ("--model", "tiny")]
    code, _, error = stapo(*unnamed, *REST, "--chat", "--base-url", chatty.url)
    assert code == 0, error
    assert load_manifest(small / "results/tiny-justrl").identity.checkpoint_digest == "served tiny"
    # It is the run that the name would have made.
    assert "nothing is missing" in stapo(*EVAL, *REST, "--chat", "--base-url", chatty.url)[2]
    code, _, error = stapo(*unnamed, *REST, "--chat", "--base-url", "http://127.0.0.1:9/v1")
    assert code == 1 and "expected an OpenAI-compatible server with /models" in one_line(error)


def test_a_served_model_takes_texts_where_a_format_is_named(small, stapo, serve):
    server = serve()
    code, _, error = stapo(*EVAL, *REST, "--prompt-format", "plain", "--base-url", server.url)
    assert code == 0, error
    assert {body["prompt"] for body in server.bodies} == {f"{i} + {i}?" for i in range(NUM_PROBLEMS)}
    code, _, error = stapo(
        "continue", "results/tiny-justrl", "--max-new-tokens", "60", "--base-url", server.url, "--data-dir", "."
    )
    assert code == 0, error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "its chat template is not known: expected --chat"),
        (("--chat", "--prompt-format", "base"), "--chat: expected no --prompt-format"),
        (("--prompt-format", "message"), "--prompt-format message: expected --chat beside it"),
        (("--engine", "transformers", "--chat"), "expected --ckpt, or a server's model"),
        (("--engine", "scripted", "--ckpt", "script.yaml", "--chat"), "--base-url and --model name a server"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_server_is_asked(small, stapo, arguments, words):
    code, _, error = stapo(*EVAL, *REST, "--base-url", "http://127.0.0.1:9/v1", *arguments)
    assert code == 2
    assert words in one_line(error)
    assert not (small / "results").exists()


@pytest.mark.parametrize("chat", [False, True])
def test_a_server_of_the_other_kind_says_which_way_to_ask(small, stapo, serve, chat):
    server = serve()
    server.chats_only = not chat
    asked = ("--chat",) if chat else ("--prompt-format", "plain")
    code, _, error = stapo(*EVAL, *REST, "--base-url", server.url, *asked)
    assert code == 1
    assert ("leave --chat out" if chat else "--chat asks it that way") in one_line(error)


def test_two_served_names_are_two_models(small, stapo, serve):
    server = serve({"id": "tiny", "max_model_len": 64}, {"id": "other", "max_model_len": 64})
    for model in ("tiny", "other"):
        command = (*EVAL, "--model", model, *REST, "--prompt-format", "plain", "--base-url", server.url)
        assert stapo(*command)[0] == 0
    digests = {json.loads((run / "manifest.json").read_text())["identity"]["checkpoint"]["digest"]
               for run in (small / "results").iterdir()}  # fmt: skip
    assert digests == {"served tiny", "served other"}
