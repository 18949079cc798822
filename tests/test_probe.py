"""Servers that do otherwise than they are asked to, as their users reported it, and what the probe says of each."""

import io
import json
import random
from collections.abc import Callable
from functools import cache

import anyio
import pytest
from eval_setup import make_options
from fake_server import QUICK, Handler, make_requests, serving

from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.params import cut_at_stop
from stapo_bench.engines.probe import NUM_TOKENS, probe
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, SampleKey, SamplingParams
from stapo_bench.sampling.eval_options import sampling_params
from stapo_bench.sampling.evaluation import evaluate

pytestmark = pytest.mark.usefixtures("graded_here")

serve = pytest.fixture(serving)

WORDS = [f"{a}{b}" for a in ("ba", "do", "ke", "li", "mu", "no", "pi", "ru", "se", "ta") for b in "klmnrst"]
EVERY = SamplingParams(temperature=0.7, top_p=0.9, top_k=20, min_p=0.05, stop=("Q:",), max_new_tokens=100)
Behaviour = Callable[[dict], dict]


ORDER = random.Random(0)
PLACES = [ORDER.sample(WORDS, len(WORDS)) for _ in range(200)]


@cache
def weights_of(temperature: float, top_p: float, top_k: int, min_p: float) -> list[float]:
    """Of the words of a place, each e^0.5 times as probable as the next one."""
    weights = [2.718 ** (-0.5 * rank / max(temperature, 1e-3)) for rank in range(len(WORDS))]
    kept = [weight for weight in weights if weight >= min_p * weights[0]][: top_k if top_k > 0 else None]
    nucleus = next(count for count in range(1, 71) if sum(kept[:count]) >= top_p * sum(kept) - 1e-12)
    return kept[:nucleus]


def write(body: dict, noise: random.Random | None = None) -> tuple[str, int]:
    """A model's text and its tokens; ``noise``: one in fifty is rounded to another one."""
    rng = random.Random(repr(body["seed"]))
    weights = weights_of(*(body[name] for name in ("temperature", "top_p", "top_k", "min_p")))
    words: list[str] = []
    for place in PLACES[: body["max_tokens"]]:
        (word,) = rng.choices(place[: len(weights)], weights)
        words.append(noise.choice(WORDS) if noise and noise.random() < 0.02 else word)
        if any(stop in " ".join(words) for stop in body.get("stop", ())):
            break
    return cut_at_stop(" ".join(words), body.get("stop", ())), len(words)


def body_of(seed: int, params: SamplingParams) -> dict:
    return {
        "seed": seed,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k or -1,
        "min_p": params.min_p or 0.0,
        "max_tokens": params.max_new_tokens,
        "stop": list(params.stop),
    }


def asked(behaviour: Behaviour, noise: random.Random | None = None):
    """Asks a server that does with a request what ``behaviour`` makes of it."""

    async def ask(seed: int, params: SamplingParams) -> Completion:
        text, count = write(behaviour(body_of(seed, params)), noise)
        reason = "length" if not params.stop else "stop"
        return Completion(key=SampleKey("t", "p", 0), text=text, finish_reason=reason, num_tokens=count)

    return ask


ANY_SEED = random.Random()


def at_random(body: dict) -> dict:
    return body | {"seed": ANY_SEED.random()}


SEEDS = "seeds are ignored: a request sent again gave another text, 3 times of 3"
COPIES = "8 seeds at temperature 2 gave one text"
REPORTED: dict[str, tuple[Behaviour, tuple[str, ...]]] = {
    "vLLM": (lambda body: body, ()),
    "SGLang, /v1/completions leaves the seed aside (sgl-project/sglang 15481)": (at_random, (SEEDS,)),
    "llama.cpp's server left the seed aside (ggml-org/llama.cpp 7381)": (at_random, (SEEDS,)),
    "SGLang, deterministic inference with one seed for all (sgl-project/sglang 15746)": (
        lambda body: body | {"seed": 42},
        (COPIES,),
    ),
    "Ollama, no top_k and min_p over /v1 (ollama/ollama 11325)": (
        lambda body: body | {"top_k": -1, "min_p": 0.0},
        ("top-k is ignored", "min-p is ignored"),
    ),
    "a proxy that drops what it does not know": (
        lambda body: at_random(body) | {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0},
        ("the temperature is ignored", "top-p is ignored", "top-k is ignored", "min-p is ignored", SEEDS),
    ),
    "one that samples greedily whatever it is told (NightMean/OlliteRT 27)": (
        lambda body: body | {"temperature": 0.0},
        (COPIES,),
    ),
    "one with the protocol's default of 16 tokens": (
        lambda body: body | {"max_tokens": 16},
        (f"completions are cut off after 16 tokens where {NUM_TOKENS} were asked for",),
    ),
}


@pytest.mark.parametrize("server", REPORTED)
def test_what_a_server_does_otherwise_is_said_and_nothing_else(server):
    behaviour, expected = REPORTED[server]
    ANY_SEED.seed(0)  # what is random may stay unseen: of 40 seeds 39 show the seeds ignored, 28 all that a proxy drops
    lines = anyio.run(probe, asked(behaviour), EVERY)
    assert len(lines) == len(expected)
    assert all(any(line.startswith(words) for line in lines) for words in expected), lines


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (lambda body: body | {"max_tokens": 60}, "max_tokens is ignored: 24 were asked for, 60 came"),
        (lambda body: body | {"stop": []}, "stop texts are ignored: '...' was one, and came"),
    ],
)
def test_a_server_without_limits_is_refused(behaviour, words):
    with pytest.raises(StapoError, match=words):
        anyio.run(probe, asked(behaviour), EVERY)


def test_a_server_that_does_as_it_is_told_but_rounds_is_not_accused():
    """One token in fifty comes out otherwise, as on busy GPUs: fewer than one alarm in 1,000 servers."""
    noise = random.Random(1)
    accused = [lines for _ in range(100) if (lines := anyio.run(probe, asked(lambda body: body, noise), EVERY))]
    assert accused == []


def test_only_settings_of_the_run_are_looked_at():
    plain = SamplingParams(temperature=0.0, top_p=1.0, max_new_tokens=100)
    behaviour = REPORTED["Ollama, no top_k and min_p over /v1 (ollama/ollama 11325)"][0]
    assert anyio.run(probe, asked(lambda body: at_random(behaviour(body))), plain) == []


def test_from_what_is_refused_or_short_nothing_is_concluded():
    async def refuse(seed: int, params: SamplingParams) -> None:
        return None

    async def brief(seed: int, params: SamplingParams) -> Completion:
        return Completion(key=SampleKey("t", "p", 0), text="42", finish_reason="stop", num_tokens=1)

    assert anyio.run(probe, refuse, EVERY) == []
    assert anyio.run(probe, brief, EVERY) == []


@pytest.fixture
def toy(serve, monkeypatch):
    """A server that writes as ``write`` does, after its behaviour."""
    server = serve({"id": "tiny", "max_model_len": 4096})
    server.behaviour = lambda body: body

    def act(handler, action, seed):
        body = next(one for one in reversed(server.bodies) if one["seed"] == seed)
        text, count = write(server.behaviour(body))
        reason = "length" if count == body["max_tokens"] else "stop"
        answer = {"choices": [{"text": text, "finish_reason": reason}], "usage": {"completion_tokens": count}}
        handler.reply(200, json.dumps(answer).encode())

    monkeypatch.setattr(Handler, "act", act)
    return server


def test_it_is_said_once_before_the_first_sample(toy, tmp_path):
    toy.behaviour = at_random
    watch = io.StringIO()
    engine = OpenAIEngine([toy.url], retries=QUICK)
    evaluate(make_options(tmp_path), engine=engine, watch=watch)
    lines = watch.getvalue().splitlines()
    (place,) = [number for number, line in enumerate(lines) if SEEDS in line]
    assert lines[place].startswith(f"127.0.0.1:{toy.server_address[1]}: ")
    assert not any("samples/s" in line for line in lines[:place])
    probed = [body for body in toy.bodies if body["max_tokens"] == NUM_TOKENS]
    assert [body["seed"] for body in probed[:4]] == [0, 1, 2, 3]
    assert engine.probe(make_requests(1)[0], sampling_params(make_options(tmp_path))) == []


def test_a_server_without_a_limit_draws_nothing(toy, tmp_path):
    toy.behaviour = lambda body: body | {"max_tokens": 200}
    with pytest.raises(StapoError, match=rf"^127.0.0.1:{toy.server_address[1]}: max_tokens is ignored"):
        evaluate(make_options(tmp_path), engine=OpenAIEngine([toy.url], retries=QUICK), watch=io.StringIO())
    assert not list((tmp_path / "run" / "samples").glob("*.jsonl")) or not (tmp_path / "run").exists()
