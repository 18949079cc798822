"""What answers cost, in tokens and in money."""

import pytest
from fake_server import PARAMS, QUICK, make_requests, serving

from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.spent import Spent, prices
from stapo_bench.errors import UsageError

serve = pytest.fixture(serving)

EVAL = ("eval", "--engine", "openai", "--model", "tiny", "--tasks", "sums.yaml", "--data-dir", ".")
REST = ("--decoding", "justrl", "--samples", "1", "--max-new-tokens", "50", "--prompt-format", "plain")


def test_every_answer_counts_also_one_that_is_no_sample(serve):
    server = serve()
    server.prompt_tokens = 4
    server.fault = lambda seed, attempt: "abort" if seed == 2 and attempt == 0 else "answer"
    engine = OpenAIEngine([server.url], retries=QUICK, price="1000/2000")
    told: list[str] = []
    engine.tell = told.append
    assert len(list(engine.generate(make_requests(5), PARAMS))) == 5
    engine.close()
    # Completions of seed % 7 + 1 tokens: 1 + 2 + 3 + 4 + 5 and 3 of the answer that was aborted; 6 prompts of 4.
    # 24 / 10^6 x 1000 + 18 / 10^6 x 2000 = 0.024 + 0.036
    (line,) = told
    assert line == "6 answers: 24 prompt and 18 completion tokens; at 1000 and 2000 a million 0.06"


def test_what_a_server_does_not_count_is_said_to_be_unknown():
    spent = Spent()
    for answer in ([], {}, {"usage": None}, {"usage": {"prompt_tokens": -1, "completion_tokens": 2}}, {"usage": 3}):
        spent.add(answer)
    spent.add({"usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    assert spent.line() == "6 answers: 3 prompt and 2 completion tokens (5 answers without a count)"
    assert Spent().line() is None


@pytest.mark.parametrize("text", ["", "1", "1/2/3", "a/b", "-1/2", "nan/1", "inf/1", "1,2"])
def test_prices_are_two_numbers(text):
    with pytest.raises(UsageError, match=r"--price: expected the prices .*, such as 0\.15/0\.60, got"):
        prices(text)


def test_a_run_ends_with_what_it_cost_and_its_identity_does_not_know_of_it(small, stapo, serve):
    server = serve()
    server.prompt_tokens = 4
    code, _, error = stapo(*EVAL, *REST, "--base-url", server.url, "--price", "0.15/0.6")
    assert code == 0, error
    (line,) = [line for line in error.splitlines() if "completion tokens" in line]
    assert "at 0.15 and 0.6 a million " in line
    code, _, error = stapo(*EVAL, *REST, "--base-url", server.url)
    assert (code, "nothing is missing" in error) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--base-url", "http://127.0.0.1:9/v1"), "--price: expected the prices"),
        (("--engine", "scripted", "--ckpt", "script.yaml"), "--price: expected --engine openai, got scripted"),
    ],
)
def test_a_price_that_cannot_be_is_refused_at_once(small, stapo, arguments, words):
    start = EVAL if "--base-url" in arguments else ("eval", "--tasks", "sums.yaml", "--data-dir", ".")
    code, _, error = stapo(*start, *REST, *arguments, "--price", "cheap")
    assert code == 2
    assert words in error
