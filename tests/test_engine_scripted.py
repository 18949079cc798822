"""The scripted engine does what its script says, for every seed the same."""

from pathlib import Path

import pytest

from stapo_bench.engines import EngineOptions, open_engine
from stapo_bench.engines.scripted import Script, ScriptedEngine, load_script
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.seeds import derive_seed

PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1000)
GOLDS = {("easy", "e1"): "\\frac{1}{2}", ("hard", "h1"): "7", ("hard", "h2"): "8"}


def make_requests(samples: int) -> list[Request]:
    return [
        Request(
            key=SampleKey(task, problem_id, j),
            prompt=Prompt(task=task, problem_id=problem_id, text="?"),
            seed=derive_seed(0, task, problem_id, j),
        )
        for j in range(samples)
        for task, problem_id in GOLDS
    ]


def draw(script: Script, samples: int = 400, params: SamplingParams = PARAMS):
    return list(ScriptedEngine(script, GOLDS).generate(make_requests(samples), params))


def test_success_rates_by_task_and_problem():
    completions = draw(Script(success={"easy": 1.0, "h2": 0.0, "*": 0.25}))
    rate = {}
    for (task, problem_id), gold in GOLDS.items():
        texts = [c.text for c in completions if c.key[:2] == (task, problem_id)]
        assert len(texts) == 400
        rate[problem_id] = sum(f"\\boxed{{{gold}}}." in text for text in texts) / 400
    assert rate["e1"] == 1.0
    assert rate["h2"] == 0.0
    assert rate["h1"] == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 400) ** 0.5)


def test_a_sample_depends_on_its_seed_alone():
    script = Script(success=0.5, truncated=0.2)
    forward = {c.key: c for c in ScriptedEngine(script, GOLDS).generate(make_requests(20), PARAMS)}
    backward = {c.key: c for c in ScriptedEngine(script, GOLDS).generate(make_requests(20)[::-1], PARAMS)}
    assert forward == backward
    assert len({c.text for c in forward.values()}) > 20


def test_truncated_samples_have_no_answer_and_the_full_length():
    completions = draw(Script(success=0.5, truncated=0.5))
    cut = [c for c in completions if c.finish_reason == "length"]
    assert len(cut) / len(completions) == pytest.approx(0.5, abs=0.06)
    assert all(c.num_tokens == 1000 and "boxed" not in c.text for c in cut)
    assert all(c.num_tokens == len(c.token_ids) == len(c.text) for c in completions)


def test_a_budget_below_the_length_cuts():
    completions = draw(
        Script(median_tokens=200, spread=0.0), params=SamplingParams(temperature=1, top_p=1, max_new_tokens=50)
    )
    assert {(c.finish_reason, c.num_tokens) for c in completions} == {("length", 50)}


def test_lengths_have_the_median_asked_for():
    lengths = sorted(c.num_tokens for c in draw(Script(median_tokens=300, spread=0.2)))
    assert lengths[len(lengths) // 2] == pytest.approx(300, rel=0.1)


def test_faults():
    engine = ScriptedEngine(Script(crash_after=10), GOLDS)
    safe = []
    with pytest.raises(RuntimeError, match="after 10 samples"):
        for completion in engine.generate(make_requests(100), PARAMS):
            safe.append(completion)
    assert len(safe) == 10
    repeated = [c.key for c in draw(Script(duplicates=0.1), samples=100)]
    assert len(set(repeated)) == 300
    assert 310 <= len(repeated) <= 350
    assert ScriptedEngine(Script(crash_after=10), GOLDS).identity() == ScriptedEngine(Script(), GOLDS).identity()
    assert ScriptedEngine(Script(success=0.1), GOLDS).identity() != ScriptedEngine(Script(), GOLDS).identity()


def test_scripts_are_read_and_checked(tmp_path: Path):
    path = tmp_path / "script.yaml"
    path.write_text("success: {easy: 0.25, '*': 0.5}\nwrong: [123456]\nright: 'It is \\boxed{gold}'\n")
    assert load_script(path) == Script(success={"easy": 0.25, "*": 0.5}, wrong=("123456",), right="It is \\boxed{gold}")
    engine = open_engine(EngineOptions(name="scripted", golds=GOLDS), path)
    assert {c.key for c in engine.generate(make_requests(2), PARAMS)} == {r.key for r in make_requests(2)}
    path.write_text("sucess: 0.5\n")
    with pytest.raises(UsageError, match=r"script\.yaml: expected a mapping with keys among success"):
        load_script(path)
    path.write_text("success: [\n")
    with pytest.raises(StapoError, match="not a readable YAML file"):
        load_script(path)
    with pytest.raises(StapoError, match="cannot be read"):
        load_script(tmp_path / "missing.yaml")
    with pytest.raises(UsageError, match=r"expected 0 to 0\.8 .*got 0\.9"):
        Script(success=0.9, truncated=0.2)


@pytest.mark.parametrize("line", ["success: [1]", "wrong: 3", "median_tokens: x", "spread: .nan", "truncated: {}"])
def test_a_value_of_another_type_is_one_line(tmp_path: Path, line: str):
    path = tmp_path / "script.yaml"
    path.write_text(line)
    with pytest.raises(UsageError, match=r"script\.yaml: a value of the wrong type"):
        load_script(path)


def test_a_missing_gold_or_rate_is_named():
    with pytest.raises(StapoError, match="no gold answer was given for easy e1"):
        list(ScriptedEngine(Script(success=1.0), {}).generate(make_requests(1), PARAMS))
    with pytest.raises(StapoError, match="no rate for easy e1"):
        list(ScriptedEngine(Script(success={"hard": 1.0}), GOLDS).generate(make_requests(1), PARAMS))


def test_shares_that_make_one_are_accepted_as_they_are_written():
    assert Script(success=0.1, truncated=0.9).success_rate("t", "p") == 0.1  # 1 - 0.9 is 0.09999999999999998
    with pytest.raises(UsageError, match=r"expected 0 to 0\.1 \(1 - truncated\), got 0\.11"):
        Script(success=0.11, truncated=0.9)
