"""Servers that refuse settings which they do not take: what is off is left out, what is on ends the run in one line."""

import json
from dataclasses import replace

import pytest
import recorded_refusals
from cli_setup import NUM_PROBLEMS
from fake_server import QUICK, make_requests, serving
from recorded_refusals import LEFT_OUT

from stapo_bench.engines import http
from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.server_settings import OFF, Telling, named_in
from stapo_bench.errors import StapoError
from stapo_bench.records import SamplingParams
from stapo_bench.runs import load_manifest, read_samples

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)

PLAIN = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=50)
EVAL = ("eval", "--engine", "openai", "--model", "tiny", "--tasks", "sums.yaml", "--data-dir", ".", "--chat")
REST = ("--samples", "2", "--max-new-tokens", "50", "--out", "run", "--base-url")


@pytest.fixture
def strict(serve):
    server = serve()
    server.chats_only = True
    return server


MORE = pytest.mark.slow(reason="an evaluation for each way to refuse that servers are known to have")


@pytest.mark.parametrize(
    "refuses",
    [pytest.param(refuses, marks=MORE if number % 4 else []) for number, refuses in enumerate(LEFT_OUT)],
    ids=lambda refuses: refuses.__name__,
)
def test_what_is_off_and_refused_is_left_out_and_the_run_says_so(small, stapo, strict, refuses):
    strict.refuses = refuses
    code, _, error = stapo(*EVAL, "--decoding", "training", *REST, strict.url)
    assert code == 0, error
    assert len(list(read_samples(small / "run"))) == 2 * NUM_PROBLEMS
    left_out = LEFT_OUT[refuses]
    for body in strict.bodies:
        assert left_out.isdisjoint(body)
        assert {name: body[name] for name in OFF.keys() - left_out} == {n: OFF[n] for n in OFF.keys() - left_out}
    identity = load_manifest(small / "run").identity.engine
    assert identity["left_out"] == ", ".join(sorted(left_out))
    assert json.loads(identity["sent"]) == {name: OFF[name] for name in OFF.keys() - left_out}
    (line,) = [line for line in error.splitlines() if "left out" in line]
    assert f"the server refuses {identity['left_out']}: left out where they are off" in line
    assert ("no sample can be drawn again" in line) == ("seed" in left_out)


def test_a_server_that_takes_everything_is_told_everything(strict):
    engine = OpenAIEngine([strict.url], chat=True, retries=QUICK)
    assert len(list(engine.generate(make_requests(2), PLAIN))) == 2
    assert strict.bodies[0].keys() >= {*OFF, "seed", "temperature", "top_p", "return_token_ids", "max_tokens"}
    assert engine.identity().keys().isdisjoint({"left_out", "limit"})


@pytest.mark.parametrize("refuses", [recorded_refusals.openai_reasoning, recorded_refusals.copilot])
def test_the_limit_has_the_name_that_the_server_wants(strict, refuses):
    strict.refuses = refuses
    engine = OpenAIEngine([strict.url], chat=True, retries=QUICK)
    completions = list(engine.generate(make_requests(3), PLAIN))
    assert [c.finish_reason for c in sorted(completions, key=lambda c: c.key)] == ["length", "stop", "stop"]
    assert all(body["max_completion_tokens"] == 50 and "max_tokens" not in body for body in strict.bodies)
    assert engine.identity()["limit"] == "max_completion_tokens"


@pytest.mark.parametrize("refuses", [recorded_refusals.mistral, recorded_refusals.mistral_as_text])
def test_the_seed_has_the_name_that_the_server_takes(strict, refuses):
    strict.refuses = refuses
    engine = OpenAIEngine([strict.url], chat=True, retries=QUICK)
    assert len(list(engine.generate(make_requests(3), PLAIN))) == 3
    assert sorted(body["random_seed"] for body in strict.bodies) == [0, 1, 2]
    assert all("seed" not in body for body in strict.bodies)
    assert engine.identity()["seed"] == "random_seed" and "seed" not in engine.identity()["left_out"]


def test_a_server_without_any_seed_is_told_neither_name(strict):
    strict.refuses = recorded_refusals.gemini
    engine = OpenAIEngine([strict.url], chat=True, retries=QUICK)
    assert len(list(engine.generate(make_requests(3), PLAIN))) == 3
    assert all({"seed", "random_seed"}.isdisjoint(body) for body in strict.bodies)
    assert "seed" not in engine.identity() and engine.identity()["left_out"].endswith("seed, top_k")


@pytest.mark.parametrize(
    ("refuses", "params", "words"),
    [
        (recorded_refusals.openai, {"top_k": 20}, "top_k=20: HTTP 400 .*Unrecognized request argument supplied: top_k"),
        (recorded_refusals.mistral, {"min_p": 0.1}, "min_p=0.1: HTTP 422 .*extra_forbidden"),
        (recorded_refusals.openai_reasoning, {"temperature": 0.7}, "temperature=0.7: HTTP 400 .*Only the default"),
        (recorded_refusals.openai_reasoning, {"temperature": 0.0}, "temperature=0.0: HTTP 400"),
        (recorded_refusals.deepseek_reasoner, {"top_p": 0.9}, "top_p=0.9: HTTP 400 .*does not support the parameter"),
    ],
)
def test_what_is_on_and_refused_ends_the_run_before_its_first_sample(strict, refuses, params, words):
    strict.refuses = refuses
    engine = OpenAIEngine([strict.url], chat=True, retries=QUICK)
    expected = rf"the server refuses {words}.*; a run without it would be another one"
    with pytest.raises(StapoError, match=expected):
        engine.probe(make_requests(1)[0], replace(PLAIN, **params))
    with pytest.raises(StapoError, match="HTTP 4"):  # nor is it left out by whoever does not probe
        list(engine.generate(make_requests(1), replace(PLAIN, **params)))
    assert strict.bodies == []


def test_a_setting_that_is_on_ends_the_command_in_one_line(small, stapo, strict):
    strict.refuses = recorded_refusals.openai
    code, _, error = stapo(*EVAL, "--decoding", "training", "--top-k", "20", *REST, strict.url)
    assert code == 1
    assert "the server refuses top_k=20: HTTP 400" in error.splitlines()[-1]
    assert strict.bodies == []


def test_servers_that_refuse_different_settings_are_told_the_same(serve):
    servers = [serve() for _ in range(2)]
    for server, refuses in zip(servers, (recorded_refusals.xai, recorded_refusals.openai), strict=True):
        server.chats_only, server.refuses = True, refuses
    engine = OpenAIEngine([server.url for server in servers], chat=True, retries=QUICK)
    assert len(list(engine.generate(make_requests(8), PLAIN))) == 8
    both = LEFT_OUT[recorded_refusals.xai] | LEFT_OUT[recorded_refusals.openai]
    assert engine.identity()["left_out"] == ", ".join(sorted(both))
    assert all(both.isdisjoint(body) for server in servers for body in server.bodies)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_moment_leaves_nothing_out(strict, monkeypatch, status):
    monkeypatch.setattr(http, "_PAUSES_S", (0.0, 0.001, 0.001))
    asked = []

    def refuses(body):
        asked.append(body)
        return (status, {"error": "busy, says 'top_k'"}) if len(asked) < 3 else None

    strict.refuses = refuses
    assert "left_out" not in OpenAIEngine([strict.url], chat=True, retries=QUICK).identity()
    assert len(asked) == 3


def test_a_refusal_that_names_no_setting_is_left_to_the_first_sample(strict):
    strict.refuses = lambda body: (400, {"error": {"message": "temperature in Paris? n/a", "param": "billing"}})
    engine = OpenAIEngine([strict.url], chat=True, retries=QUICK)
    assert "left_out" not in engine.identity()
    with pytest.raises(StapoError, match=r"the server refuses the request: HTTP 400 .*billing"):
        list(engine.generate(make_requests(1), PLAIN))


SENT = ("n", "seed", "stop", "temperature", "top_k", "top_p")


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ('{"error": {"param": "top_k", "message": "\'temperature\' is fine, \'top_k\' is not"}}', {"top_k"}),
        ('{"detail": [{"loc": ["body", "messages", 0, "n"], "msg": "Extra inputs are not permitted"}]}', set()),
        ("property 'top_k' is unsupported, did you mean 'top_p'?", {"top_k"}),
        ("`temperature` and `top_p` cannot both be specified for this model", {"temperature", "top_p"}),
        ("Argument not supported on this model: topK", {"top_k"}),
        ("no seed can stop n of us", set()),
        (
            '{"error": {"message": "Provider returned error", "metadata": {"raw": "{\\"param\\": \\"seed\\"}"}}}',
            {"seed"},
        ),
        ("[" * 100_000, set()),
        ("", set()),
    ],
)
def test_names_are_those_of_the_param_of_the_list_or_of_the_words_in_this_order(page, named):
    assert named_in(page, SENT) == named


def test_only_a_limit_that_the_server_calls_otherwise_is_renamed():
    telling = Telling()
    too_small = '{"error": {"message": "integer below minimum value", "param": "max_tokens"}}'
    assert telling.without(too_small, telling.settings(PLAIN, 50, 0)) == telling
