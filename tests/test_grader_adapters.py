"""Our grader as other packages call it, without these packages; ``tests/integration`` runs it inside them."""

import asyncio
import math
import subprocess
import sys

import pytest

from stapo_bench.errors import UsageError
from stapo_bench.grading import adapters, grade_many, grader_reward, lm_eval_results, verifiers_reward
from stapo_bench.records import Gold, Grade, Outcome

FAILED = Grade(outcome=Outcome.GRADER_ERROR, extracted=None, detail="crashed", grader="x")
PERCENT = "What percent of 50 is 5?"


@pytest.fixture
def broken(monkeypatch):
    monkeypatch.setattr(adapters.GraderPool, "grade", lambda self, pairs: [FAILED for _ in pairs])


def test_a_reward_for_trl_reads_chats_golds_and_questions():
    reward = grader_reward(workers=1)
    chat = [{"role": "assistant", "content": r"\boxed{10}"}]
    said = {"completions": [chat, r"\boxed{10}", "no idea"], "prompts": ["p"] * 3}
    assert reward(gold=[r"10\%", {"answer": "9", "tolerance": 2.0}, "1"], **said) == [0.0, 1.0, 0.0]
    assert reward(gold=[r"10\%", "9", "1"], question=[PERCENT] * 3, **said) == [1.0, 0.0, 0.0]


def test_a_reward_for_verifiers_asks_the_last_message():
    reward = verifiers_reward(workers=1)
    prompt = [{"role": "system", "content": "Think."}, {"role": "user", "content": [{"type": "text", "text": PERCENT}]}]
    assert asyncio.run(reward(completion=r"\boxed{10}", answer=r"10\%", prompt=prompt, state={})) == 1.0
    assert asyncio.run(reward(completion=r"\boxed{10}", answer=r"10\%")) == 0.0


def test_a_number_is_a_gold_for_trl():
    reward = grader_reward(workers=1)
    assert reward(completions=[r"\boxed{72}", r"\boxed{7}"], gold=[72, 72.0]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"prompts": ["p"], "answer": ["1"]}, "gold: expected a column of the data set .* there are prompts, answer"),
        ({"gold": ["1", "1"]}, "gold: expected one for each of 1 completions, got 2"),
        ({"gold": [None]}, "gold: expected the gold as a text, a finite number or a Gold, got None"),
        ({"gold": [" "]}, "gold: expected the gold as a text, a finite number or a Gold, got ' '"),
        ({"gold": [{"answer": ""}]}, "gold.answer: expected the gold as a text"),
    ],
)
def test_a_reward_without_a_gold_is_refused(said, message):
    with pytest.raises(UsageError, match=message):
        grader_reward(workers=1)(completions=["1"], **said)


def test_a_completion_without_a_message_is_refused():
    with pytest.raises(UsageError, match=r"completion: expected a text or a chat, got \[\]"):
        grader_reward(workers=1)(completions=[[]], gold=["1"])


def test_a_reward_is_called_by_name():
    with pytest.raises(TypeError):
        grader_reward(workers=1)(["prompt"], [r"\boxed{1}"], ["1"])  # in this order all would be wrong


def test_results_for_lm_eval():
    assert lm_eval_results({"answer": "0.5"}, [r"\boxed{\frac12}"]) == {"exact_match": 1.0}
    assert lm_eval_results({"answer": r"10\%", "question": PERCENT}, [r"\boxed{10}"]) == {"exact_match": 1.0}
    assert lm_eval_results({"answer": r"10\%"}, [r"\boxed{10}"]) == {"exact_match": 0.0}


def test_a_failure_is_never_a_zero(broken):
    assert grader_reward(workers=1)(completions=["1"], gold=["1"]) == [None]
    assert math.isnan(asyncio.run(verifiers_reward(workers=1)(completion="1", answer="1")))
    assert lm_eval_results({"answer": "1"}, ["1"]) == {}


def test_the_question_goes_into_the_workers():
    """A long answer, which no quick look decides, with and without its question."""
    asked, bare = grade_many(
        [(r"\boxed{10}", Gold(answer=r"10\%", question=PERCENT)), (r"\boxed{10}", Gold(answer=r"10\%"))], workers=1
    )
    assert (asked.outcome.value, bare.outcome.value) == ("CORRECT", "INCORRECT")
    assert asked.detail == "the question asks for a percentage"


def test_importing_the_grader_loads_no_other_package():
    """Who lifts the judge out gets no trainer, no harness and no command line with it."""
    code = (
        "import sys; before = set(sys.modules); import stapo_bench.grading\n"
        "import importlib.metadata, sysconfig\n"
        "site = sysconfig.get_path('purelib')\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before\n"
        "       if (getattr(sys.modules[name], '__file__', None) or '').startswith(site)}\n"
        "print(sorted(new), 'asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] in ("[] False", "['stapo_bench'] False")


def test_a_gold_with_a_question_of_its_own_keeps_it():
    reward = grader_reward("math", workers=1)
    gold = {"answer": r"10\%", "question": "What percent of 50 is 5?"}
    assert reward(prompts=[""], completions=[r"\boxed{10}"], gold=[gold]) == [1.0]
    assert reward(prompts=[""], completions=[r"\boxed{10}"], gold=[{"answer": r"10\%"}]) == [0.0]
