"""Log-probabilities of servers are taken where they are those with which tokens were drawn, and only there."""

import json
import math

import pytest
from fake_server import PARAMS, QUICK, Handler, make_requests, serving

from stapo_bench.engines import http
from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.server_log_probs import log_probs_of
from stapo_bench.errors import StapoError

serve = pytest.fixture(serving)

LOGITS = [3.0, 2.0, 0.0]


def log_softmax(logits):
    return [one - math.log(sum(map(math.exp, logits))) for one in logits]


def raw(body):
    return log_softmax(LOGITS)[0]


def at_temperature(body):  # and not after the cut
    return log_softmax([one / body["temperature"] for one in LOGITS])[0]


def as_drawn(body):
    return 0.0 if body["top_p"] < 0.5 else at_temperature(body)


@pytest.fixture
def vllm(serve, monkeypatch):
    """A server of vLLM's kind that gives the log-probability which ``kind(body)`` is."""
    server = serve({"id": "tiny", "max_model_len": 64, "owned_by": "vllm"})
    get = Handler.do_GET

    def do_get(handler) -> None:
        handler.reply(200, b'{"version": "0.32.0"}') if handler.path == "/version" else get(handler)

    def do_post(handler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        server.bodies.append(body)
        if not body.get("prompt") and not body.get("messages"):
            handler.reply(400, b"no prompt")
            return
        value, choice = server.kind(body), {"finish_reason": "stop"}
        if isinstance(value, int):
            handler.reply(value, b"busy")
            return
        if "messages" in body:
            choice |= {"message": {"content": "a"}}
            best = {"token": "a", "logprob": value}
            is_best = not body.get("top_logprobs") or value in (0.0, "x")
            drawn = best if is_best else {"token": "b", "logprob": -8.0}  # which stands first, as in vLLM
            token = drawn | {"top_logprobs": [drawn, best][: body.get("top_logprobs")]}
            told = {"content": [token]} if body.get("logprobs") else None
        else:
            choice |= {"text": "a"}
            told = {"token_logprobs": [value], "top_logprobs": [{"a": value, "b": -9.0}]}
        answer = {"choices": [choice | {"logprobs": told}], "usage": {"completion_tokens": 1}}
        handler.reply(200, json.dumps(answer).encode())

    monkeypatch.setattr(Handler, "do_GET", do_get)
    monkeypatch.setattr(Handler, "do_POST", do_post)
    return server


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("kind", [raw, at_temperature, as_drawn, lambda body: -1e-6, lambda body: "x"])
def test_those_of_the_drawing_are_taken_and_said(vllm, chat, kind):
    vllm.kind = kind
    engine = OpenAIEngine([vllm.url], chat=chat, retries=QUICK)
    (completion,) = engine.generate(make_requests(1), PARAMS)
    if kind is as_drawn:
        # T = 0.7: log softmax(3/0.7, 2/0.7, 0)_1 = -log(1 + e^(-1/0.7) + e^(-3/0.7))
        assert completion.log_probs == pytest.approx([-math.log(1 + math.exp(-1 / 0.7) + math.exp(-3 / 0.7))])
        assert engine.identity()["log_probs"] == "as drawn"
    else:
        assert completion.log_probs is None
        assert "log_probs" not in engine.identity()
        assert "logprobs" not in vllm.bodies[-1]


def test_a_busy_moment_changes_nothing_that_a_run_is_known_by(vllm, monkeypatch):
    monkeypatch.setattr(http, "_PAUSES_S", (0.0, 0.001, 0.001))
    times = iter([503, 500, None, None, 503, None])

    def kind(body):
        return as_drawn(body) if (status := next(times, None)) is None else status

    vllm.kind = kind
    assert OpenAIEngine([vllm.url], retries=QUICK).identity()["log_probs"] == "as drawn"


def test_a_server_that_stays_busy_is_one_line(vllm, monkeypatch):
    monkeypatch.setattr(http, "_PAUSES_S", (0.0, 0.001, 0.001))
    vllm.kind = lambda body: 503
    with pytest.raises(
        StapoError, match=r"from /v1/completions, .* got 3 times none, the last time HTTP 503 busy; see"
    ):
        OpenAIEngine([vllm.url], retries=QUICK)


def test_a_server_of_another_kind_that_tells_a_version_is_not_asked(vllm):
    vllm.models[0]["owned_by"] = "lmdeploy"
    vllm.kind = as_drawn
    engine = OpenAIEngine([vllm.url], retries=QUICK)
    assert "log_probs" not in engine.identity()
    assert not any("logprobs" in body for body in vllm.bodies)


def test_other_servers_are_not_asked(serve):
    server = serve()
    assert "log_probs" not in OpenAIEngine([server.url], retries=QUICK).identity()
    assert server.bodies == []


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"token_logprobs": [-0.5, -1.0]}, (-0.5, -1.0)),
        ({"content": [{"logprob": -0.5}, {"logprob": 0.0}]}, (-0.5, 0.0)),
        ({"token_logprobs": [-0.5]}, None),
        ({"token_logprobs": [-0.5, None]}, None),
        ({"token_logprobs": [-0.5, 0.1]}, None),
        ({"token_logprobs": [-0.5, float("nan")]}, None),
        ({"content": None}, None),
        (None, None),
    ],
)
def test_there_is_one_for_each_token_or_none(told, found):
    assert log_probs_of({"logprobs": told}, 2) == found
