"""What answers cost, in tokens and in money."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_server import PARAMS, QUICK, make_requests, serving

from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.spent import Purse, Spent, prices
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs import load_manifest, note_spent, spent_on
from stapo_bench.sampling.generate import billed

pytestmark = pytest.mark.usefixtures("graded_here")

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
    # Completions of seed % 7 + 1 tokens: 1 + 2 + 3 + 4 + 5, 3 of the answer that was aborted, and 1 of the question at
    # the start; 7 prompts of 4. 28 / 10^6 x 1000 + 19 / 10^6 x 2000 = 0.028 + 0.038
    (line,) = told
    assert line == "7 answers: 28 prompt and 19 completion tokens, cost 0.066 (1000 and 2000 a million)"


def test_the_questions_at_the_start_are_the_first_run_s_once(serve, tmp_path):
    server = serve()
    server.prompt_tokens = 4
    engine = OpenAIEngine([server.url], retries=QUICK)
    assert engine.spent.num_answers == 0  # asked for by no run yet
    for name, num_answers in (("first", 1 + 1 + 2), ("second", 2)):  # a question, and whether a setting is refused
        with billed(engine, tmp_path / name, "shard0of1"):
            if name == "first":
                engine.probe(make_requests(1)[0], PARAMS)
            before = server.attempts.total()
            assert len(list(engine.generate(make_requests(2), PARAMS))) == 2
        probed = before if name == "first" else 0
        found = spent_on(tmp_path / name)
        assert found.num_answers == num_answers + probed
        assert (found.prompt_tokens, found.num_uncounted) == (4 * found.num_answers, 0)
    assert engine.spent.num_answers == server.attempts.total() + 2


def test_what_a_server_does_not_count_is_said_to_be_unknown():
    spent = Purse()
    for answer in ([], {}, {"usage": None}, {"usage": {"prompt_tokens": -1, "completion_tokens": 2}}, {"usage": 3}):
        spent.add(answer)
    spent.add({"usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    assert spent.line() == "6 answers: 3 prompt and 2 completion tokens (5 answers without a count)"
    assert Purse().line() is None


@pytest.mark.parametrize("text", ["", "1", "1/2/3", "a/b", "-1/2", "nan/1", "inf/1", "1,2"])
def test_prices_are_two_numbers(text):
    with pytest.raises(UsageError, match=r"--price: expected the prices .*, such as 0\.15/0\.60, got"):
        prices(text)


def test_what_is_not_priced_makes_a_sum_unknown_and_tokens_add_up():
    priced = Spent(num_answers=2, prompt_tokens=10, completion_tokens=20, money=0.5)
    free = Spent(num_answers=1, num_uncounted=1, prompt_tokens=1, completion_tokens=2, money=None)
    assert priced + priced == Spent(num_answers=4, prompt_tokens=20, completion_tokens=40, money=1.0)
    assert priced + free == Spent(num_answers=3, num_uncounted=1, prompt_tokens=11, completion_tokens=22, money=None)
    assert (priced + free).since(free) == replace(priced, money=None)
    assert (priced + priced).since(priced) == priced


def test_a_run_keeps_what_it_cost_and_its_identity_does_not_know_of_it(small, stapo, serve):
    server = serve()
    server.prompt_tokens = 4
    priced = (*EVAL, *REST, "--base-url", server.url, "--out", "run", "--price")
    code, table, error = stapo(*priced, "0.15/0.6")
    assert code == 0, error
    (line,) = [line for line in error.splitlines() if "completion tokens" in line]
    assert "(0.15 and 0.6 a million)" in line
    found = spent_on(Path("run"))
    assert found is not None and line.startswith(str(found))
    # The probe's answers are charged for as well as the samples': tokens x prices.
    assert found.prompt_tokens == 4 * found.num_answers
    assert found.money == pytest.approx((0.15 * found.prompt_tokens + 0.6 * found.completion_tokens) / 1e6)
    assert str(found) in table
    assert str(found) in Path("run/table.md").read_text()
    before = load_manifest(Path("run")).digest
    code, _, error = stapo(*priced[:-1])
    assert (code, "nothing is missing" in error) == (0, True)
    assert (load_manifest(Path("run")).digest, spent_on(Path("run"))) == (before, found)
    more = [*priced[:-1], "--samples", "3"]  # of prices that were not given the sum is not known
    code, table, error = stapo(*more)
    assert code == 0, error
    total = spent_on(Path("run"))
    assert total.money is None and total.completion_tokens > found.completion_tokens
    assert f"; {total}" in table
    page = stapo("report", "run", "-o", "page.html")
    assert page[0] == 0, page
    assert f"{total.num_answers:,} answers: " in Path("page.html").read_text()
    (Path("run") / "spent" / "other.jsonl").write_text('{"num_answers": "many"}\n')  # decides no score
    code, table, error = stapo("table", "run")
    assert code == 0, error
    assert "what it cost is not known: run/spent/other.jsonl:1: expected what a command spent, got damage" in table


def test_a_failed_command_has_been_charged_for_as_well(tmp_path):
    class Charged:
        spent = Spent(num_answers=1, prompt_tokens=3, completion_tokens=0, money=None)

    engine = Charged()
    with pytest.raises(RuntimeError), billed(engine, tmp_path, "shard0of1"):
        engine.spent += Spent(num_answers=1, prompt_tokens=5, completion_tokens=7, money=None)
        raise RuntimeError("gone")
    with billed(engine, tmp_path, "shard1of2"):
        engine.spent += Spent(num_answers=1, prompt_tokens=2, completion_tokens=1, money=None)
    with billed(engine, tmp_path, "shard1of2"):  # nothing: no line
        pass
    assert spent_on(tmp_path) == Spent(num_answers=2, prompt_tokens=7, completion_tokens=8, money=None)
    assert len((tmp_path / "spent" / "shard1of2.jsonl").read_text().splitlines()) == 1
    with (tmp_path / "spent" / "shard1of2.jsonl").open("a") as file:
        file.write('{"num_ans')  # cut off: read over, and cut away by the next command
    assert spent_on(tmp_path).num_answers == 2
    note_spent(tmp_path, "shard1of2", engine.spent)
    assert spent_on(tmp_path).num_answers == 2 + 3
    (tmp_path / "spent" / "shard0of1.jsonl").write_text('{"num_answers": "many"}\n')
    with pytest.raises(StapoError, match=r"shard0of1\.jsonl:1: expected what a command spent, got damage"):
        spent_on(tmp_path)
    assert spent_on(tmp_path / "nowhere") is None


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
