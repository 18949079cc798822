"""Who answered? The model that was asked for under any of its names, and no other."""

import io
import json

import pytest
from eval_setup import make_options
from fake_server import QUICK, Handler, serving

from stapo_bench.analysis import audit_runs
from stapo_bench.engines.answering_model import OtherModelError, names_of, resolution
from stapo_bench.engines.openai import OpenAIEngine, Retries
from stapo_bench.errors import StapoError
from stapo_bench.runs import grade_run
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling.evaluation import evaluate

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)

BASE = {"id": "Qwen/Qwen3-1.7B", "root": "/models/Qwen3-1.7B", "parent": None}
CARDS = [BASE, {**BASE, "id": "ours"}, {"id": "adapter", "root": "/adapters/math", "parent": "Qwen/Qwen3-1.7B"}]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("tiny", None),  # llama.cpp of old and many proxies say nothing
        ("tiny", ""),
        ("tiny", "tiny"),
        ("Qwen/Qwen3-1.7B", "ours"),  # vllm serve --served-model-name Qwen/Qwen3-1.7B ours
        ("ours", "/models/Qwen3-1.7B"),
        ("Qwen/Qwen3-1.7B", "qwen3-1.7b"),
        ("adapter", "/adapters/math"),
        ("llama3.2", "llama3.2:latest"),  # Ollama's tag
    ],
)
def test_a_model_may_answer_under_its_own_names(asked, told):
    names = names_of(asked, CARDS if asked in {card["id"] for card in CARDS} else [{"id": asked}])
    assert resolution(asked, names, told) is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4", "gpt-4-0613"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("gemini-1.5-pro", "gemini-1.5-pro-002"),
    ],
)
def test_a_name_may_be_resolved_to_a_dated_version(asked, told):
    assert resolution(asked, [asked], told) == told


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20"),
        ("adapter", "Qwen/Qwen3-1.7B"),  # the adapter's base
        ("Qwen/Qwen3-1.7B", "adapter"),
        ("Qwen/Qwen3-1.7B", "someone/Qwen3-1.7B"),
        ("tiny", "tin"),
        ("tiny", 7),
        ("tiny", {"name": "tiny"}),
    ],
)
def test_any_other_name_is_another_model(asked, told):
    names = names_of(asked, CARDS if asked in {card["id"] for card in CARDS} else [{"id": asked}])
    with pytest.raises(OtherModelError, match=f"asked for model {asked}, answered by "):
        resolution(asked, names, told)


def answering(told):
    """A server's act: an answer under the name that ``told`` says for a request's seed and attempt."""

    def act(handler, action, seed):
        choice = {"text": f"{seed} \\boxed{{1}}", "finish_reason": "stop"}
        attempt = handler.server.attempts[seed] - 1
        answer = {"model": told(seed, attempt), "choices": [choice], "usage": {"completion_tokens": 5}}
        handler.reply(200, json.dumps(answer).encode())

    return act


def test_an_answer_by_a_gateways_fallback_is_asked_for_again_and_said(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(Handler, "act", answering(lambda seed, attempt: "tiny" if attempt else "small"))
    server, watch = serve(), io.StringIO()
    evaluate(make_options(tmp_path), engine=OpenAIEngine([server.url], retries=QUICK), watch=watch)
    assert {sample.model for sample in read_samples(tmp_path / "run")} == {None}
    assert {count for seed, count in server.attempts.items() if seed > 7} == {2}  # smaller ones are the probe's
    assert "192 answers turned away: another model, 'small', gave them\n192 new samples are safe" in watch.getvalue()


def test_a_gateway_that_always_falls_back_is_named_and_nothing_of_it_is_stored(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(Handler, "act", answering(lambda seed, attempt: "small\x1b]52;c;eA\x07"))
    engine = OpenAIEngine([serve().url], retries=Retries(tries=2, first_pause_s=0.001, timeout_s=10.0))
    with pytest.raises(StapoError) as stopped:
        evaluate(make_options(tmp_path), engine=engine, watch=io.StringIO())
    assert "asked for model tiny, answered by 'small\\x1b]52;c;eA\\x07'" in str(stopped.value)
    assert not list(read_samples(tmp_path / "run"))


def test_the_version_that_answered_is_stored_and_audited(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(Handler, "act", answering(lambda seed, attempt: "tiny-2026-01-31"))
    evaluate(make_options(tmp_path), engine=OpenAIEngine([serve().url]), watch=io.StringIO())
    assert {sample.model for sample in read_samples(tmp_path / "run")} == {"tiny-2026-01-31"}
    grade_run(tmp_path / "run", data_dir=tmp_path)
    (check,) = [check for check in audit_runs(tmp_path / "run") if check.name == "answered by one version"]
    assert (check.result, check.message) == ("ok", "run: samples by version: tiny-2026-01-31 (192)")


def test_a_run_does_not_go_on_with_another_version(serve, tmp_path, monkeypatch):
    server = serve()
    monkeypatch.setattr(Handler, "act", answering(lambda seed, attempt: "tiny-0131"))
    evaluate(make_options(tmp_path, samples=2), engine=OpenAIEngine([server.url]), watch=io.StringIO())
    monkeypatch.setattr(Handler, "act", answering(lambda seed, attempt: "tiny-0228"))
    with pytest.raises(StapoError, match="answered by tiny-0131 before and by tiny-0228 now"):
        evaluate(make_options(tmp_path), engine=OpenAIEngine([server.url]), watch=io.StringIO())
    assert {sample.model for sample in read_samples(tmp_path / "run")} == {"tiny-0131"}


def test_two_versions_in_one_run_are_a_finding(make_run):
    run = make_run("a", {"t": [[1, 0, 1, 0]]}, sample=lambda task, i, j: {"model": f"tiny-00{10 + j // 3}"})
    (check,) = [check for check in audit_runs(run) if check.name == "answered by one version"]
    assert (check.result, check.message) == ("finding", "a: samples by version: tiny-0010 (3), tiny-0011 (1)")
