"""What servers of each kind tell of how they serve a model: part of a run's identity, and the same for all of a run."""

import json

import pytest
from fake_server import QUICK, Handler, serving

from stapo_bench.engines import http
from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.errors import StapoError
from stapo_bench.runs import load_manifest

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)

EVAL = ("eval", "--engine", "openai", "--model", "tiny", "--tasks", "sums.yaml", "--data-dir", ".")
REST = ("--decoding", "justrl", "--samples", "1", "--max-new-tokens", "50", "--prompt-format", "plain")

CARD = {"id": "tiny", "max_model_len": 4096, "root": "/models/tiny-base", "owned_by": "vllm"}
KINDS = {
    "vllm": (CARD, "/version", {"version": "0.32.0"},
             {"server": "vllm 0.32.0", "context_length": "4096", "root": "tiny-base"}),
    "sglang": ({"id": "tiny"}, "/server_info",
               {"version": "0.6.1", "model_path": "/m/tiny-base/", "dtype": "bfloat16", "quantization": None,
                "context_length": 8192, "tp_size": 1},
               {"server": "sglang 0.6.1", "root": "tiny-base", "dtype": "bfloat16", "context_length": "8192"}),
    "llama.cpp": ({"id": "tiny", "meta": {"n_params": 1720574976, "size": 1828500480, "n_vocab": 151936}}, "/props",
                  {"build_info": "b9000-abc", "model_path": "/m/tiny-q8_0.gguf",
                   "default_generation_settings": {"n_ctx": 2048}},
                  {"server": "llama.cpp b9000-abc", "root": "tiny-q8_0.gguf", "context_length": "2048",
                   "parameters": "1720574976", "bytes": "1828500480"}),
    "ollama": ({"id": "tiny", "owned_by": "library"}, "/api/version", {"version": "0.20.1"},
               {"server": "ollama 0.20.1"}),
    "one that tells a version and no kind": ({"id": "tiny"}, "/version", {"version": "1.2"}, {"version": "1.2"}),
    "one of another kind": ({"id": "tiny", "owned_by": "lmdeploy"}, "/version", {"version": "1.2"}, {"version": "1.2"}),
    "a hosted one": ({"id": "tiny", "owned_by": "system", "created": 1}, "/none", {}, {}),
}  # fmt: skip


@pytest.fixture
def told(monkeypatch) -> dict[tuple[int, str], dict]:
    """(port, path) -> what a server answers there, beside its list of models."""
    answers: dict[tuple[int, str], dict] = {}
    get = Handler.do_GET

    def do_get(handler) -> None:
        answer = answers.get((handler.server.server_address[1], handler.path))
        handler.reply(200, json.dumps(answer).encode()) if answer is not None else get(handler)

    monkeypatch.setattr(Handler, "do_GET", do_get)
    return answers


def answering(monkeypatch, answer) -> list[str]:
    """The paths asked for beside the models; ``answer(times)``: status and content of each."""
    asked: list[str] = []
    get = Handler.do_GET

    def do_get(handler) -> None:
        if handler.path == "/v1/models":
            get(handler)
            return
        asked.append(handler.path)
        handler.reply(*answer(len(asked)))

    monkeypatch.setattr(Handler, "do_GET", do_get)
    return asked


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_server_is_known_by_what_it_tells(serve, told, kind):
    card, path, answer, facts = KINDS[kind]
    server = serve(card)
    told[server.server_address[1], path] = answer
    engine = OpenAIEngine([server.url], retries=QUICK)
    identity = engine.identity()
    assert {name: identity[name] for name in facts} == facts
    assert identity.keys() - facts.keys() == {"engine", "model", "sent"} | ({"context_length"} - facts.keys())
    assert engine.context_length == (int(facts["context_length"]) if "context_length" in facts else None)


@pytest.mark.parametrize(
    ("card", "version", "words"),
    [
        ({**CARD, "max_model_len": 2048}, "0.32.0", "as context_length .* tells '4096', .* '2048'"),
        ({**CARD, "root": "/models/tiny-tuned"}, "0.32.0", "as root .* tells 'tiny-base', .* 'tiny-tuned'"),
        (CARD, "0.31.0", "as server .* tells 'vllm 0.32.0', .* 'vllm 0.31.0'"),
        (CARD, None, "as server .* tells 'vllm 0.32.0', .* nothing; a run takes samples of one kind: leave one out"),
    ],
)
def test_servers_that_differ_are_not_asked_as_one(serve, told, card, version, words):
    servers = [serve(CARD), serve(card)]
    for server, says in zip(servers, ("0.32.0", version), strict=True):
        if says:
            told[server.server_address[1], "/version"] = {"version": says}
    with pytest.raises(StapoError, match=f"the servers serve tiny differently: {words}"):
        OpenAIEngine([server.url for server in servers], retries=QUICK)


def test_the_same_weights_in_another_folder_are_the_same(serve, told):
    servers = [serve(CARD), serve({**CARD, "root": "/scratch/tiny-base"})]
    assert OpenAIEngine([server.url for server in servers], retries=QUICK).identity()["root"] == "tiny-base"


@pytest.mark.parametrize("answer", [[], {"version": None}, {"version": {"a": 1}}, {"version": "v" * 10_000}, {}])
def test_what_makes_no_sense_is_cut_short(serve, told, answer):
    server = serve(CARD)
    told[server.server_address[1], "/version"] = answer
    assert len(OpenAIEngine([server.url], retries=QUICK).identity().get("server", "")) <= 200


@pytest.fixture
def no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(http, "_PAUSES_S", (0.0, 0.001, 0.001))


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_moment_changes_nothing_that_a_run_is_known_by(serve, monkeypatch, no_pauses, status):
    asked = answering(monkeypatch, lambda times: (status, b"busy") if times < 3 else (200, b'{"version": "0.32.0"}'))
    assert OpenAIEngine([serve(CARD).url], retries=QUICK).identity()["server"] == "vllm 0.32.0"
    assert asked == ["/version"] * 3


def test_a_server_that_stays_busy_is_one_line(serve, monkeypatch, no_pauses):
    asked = answering(monkeypatch, lambda _: (503, b"busy\nhere"))
    with pytest.raises(
        StapoError, match=r"from /version, .*got 3 times none, the last time HTTP 503 busy here; see to"
    ):
        OpenAIEngine([serve(CARD).url], retries=QUICK)
    assert asked == ["/version"] * 3


@pytest.mark.parametrize("status, content, times", [(404, b"no", 1), (403, b"no", 1), (200, b"<html>a page</html>", 3)])
def test_a_clear_answer_that_nothing_is_told_is_taken(serve, monkeypatch, status, content, times):
    asked = answering(monkeypatch, lambda _: (status, content))  # at once: no pause is cut here
    assert "server" not in OpenAIEngine([serve(CARD).url], retries=QUICK).identity()
    assert asked.count("/version") == times


def test_a_run_goes_on_at_a_server_of_the_same_kind_alone(small, stapo, serve, told):
    first, second = serve(CARD), serve(CARD)
    for server, version in ((first, "0.32.0"), (second, "0.33.0")):
        told[server.server_address[1], "/version"] = {"version": version}
    assert stapo(*EVAL, *REST, "--base-url", first.url)[0] == 0
    assert load_manifest(small / "results/tiny-justrl").identity.engine["server"] == "vllm 0.32.0"
    code, _, error = stapo(*EVAL, *REST, "--samples", "2", "--base-url", second.url)
    assert code == 1
    assert "engine.server: the run has vllm 0.32.0, now vllm 0.33.0" in error
    assert stapo(*EVAL, *REST, "--samples", "2", "--base-url", first.url)[0] == 0
