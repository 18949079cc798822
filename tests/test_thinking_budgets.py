"""Thinking that is ended after a budget: the same first tokens for every budget, and nothing drawn twice."""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cli_setup import one_line
from eval_setup import make_task

from stapo_bench.analysis import curve_of, score_run
from stapo_bench.analysis.curve import curve
from stapo_bench.engines import EngineOptions
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.curves import render_curve
from stapo_bench.records import Completion, Prompt, Request, Sample, SampleKey, SamplingParams
from stapo_bench.runs import load_manifest, read_samples
from stapo_bench.sampling import (
    ContinueOptions,
    EngineCache,
    EvalOptions,
    continue_run,
    continue_to_budgets,
    evaluate,
    evaluate_to_budgets,
)
from stapo_bench.sampling.evaluation import load_tokenizer
from stapo_bench.sampling.thinking import END_OF_THINKING, end_ids
from stapo_train.tiny.random_model import random_model, save

pytestmark = pytest.mark.usefixtures("graded_here")

NUM_PROBLEMS, BUDGETS, LIMIT = 6, [12, 20, 28], 60


class Thinker:
    """Thinks 4 i characters about problem i, then boxes how many it thought; a character is a token."""

    continues_exactly = False

    def __init__(self, *, fail_after: int | None = None, gives_up: tuple[str, int] | None = None) -> None:
        self.fail_after, self.gives_up = fail_after, gives_up  # a problem, asked for so many tokens
        self.num_drawn = 0
        self.num_requests = 0

    def identity(self) -> dict[str, str]:
        return {"engine": "openai", "model": "thinker"}

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        assert params.thinking_budget is None  # no engine's affair
        for request in requests:
            if self.num_requests == self.fail_after:
                raise RuntimeError("out of luck")
            self.num_requests += 1
            question, _, begun = request.prompt.text.partition("Assistant:")
            thought = "<think>" + "." * 4 * int(re.search(r"one: (\d+)", question)[1])
            ended = re.match(r".*</think>\s*", begun, re.DOTALL)
            whole = ended[0] if ended else f"{thought}</think>"
            rest = f"{whole}\\boxed{{{whole.count('.')}}}"[len(begun) :]
            shown = rest[: params.max_new_tokens]
            self.num_drawn += len(shown)
            reason = "stop" if shown == rest else "length"
            ids = tuple(map(ord, shown))
            given_up = self.gives_up == (request.key.problem_id, params.max_new_tokens)
            reason = "error" if given_up else reason
            yield Completion(key=request.key, text=shown, finish_reason=reason, num_tokens=len(shown), token_ids=ids)

    def close(self) -> None:
        """Nothing to give back."""


class Characters:
    """A tokenizer to whom a character is a token."""

    def __call__(self, text: str, **more: object) -> dict[str, list[int]]:
        return {"input_ids": [ord(character) for character in text]}

    def decode(self, ids: Iterable[int], **more: object) -> str:
        return "".join(map(chr, ids))


@pytest.fixture
def options(tmp_path, monkeypatch) -> EvalOptions:
    for module in ("evaluation", "continuation", "budgets"):
        name = f"stapo_bench.sampling.{module}.load_tokenizer"
        monkeypatch.setattr(name, lambda checkpoint: load_tokenizer(checkpoint) or Characters())
    (tmp_path / "script.yaml").write_text("success: 0.5\n")
    return EvalOptions(
        checkpoint=tmp_path / "script.yaml",
        decoding="justrl",
        tasks=(make_task(tmp_path, "one", NUM_PROBLEMS),),
        out=tmp_path / "run",
        samples=2,
        data_dir=tmp_path,
        max_new_tokens=BUDGETS[0],
    )


def draw(options: EvalOptions, engine: object) -> None:
    evaluate(options, engine=engine, watch=io.StringIO())


def go_on(options: EvalOptions, budgets: list[int], engine: object, **more: object) -> list[str]:
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=LIMIT, data_dir=options.data_dir, **more)
    return [r.run_dir.name for r in continue_to_budgets(asked, budgets, engine=engine, watch=io.StringIO())]


def samples(run_dir) -> dict[SampleKey, Sample]:
    return {sample.key: sample for sample in read_samples(run_dir)}


def expected(i: int, budget: int) -> str:
    """The reply on problem i: what fits into the budget of the thought, its end where it is cut, and the answer."""
    thought = f"<think>{'.' * 4 * i}</think>"
    if "</think>" not in thought[:budget]:
        thought = thought[:budget] + END_OF_THINKING  # a half written end is none, and stays before the one given
    return f"{thought}\\boxed{{{thought.count('.')}}}"


def test_every_budget_has_the_same_first_tokens_and_none_is_drawn_twice(tmp_path, options):
    engine = Thinker()
    draw(options, engine)
    names = go_on(options, BUDGETS[::-1], engine)
    assert names == [f"run-{LIMIT}-thinking{budget}" for budget in BUDGETS]
    for name, budget in zip(names, BUDGETS, strict=True):
        found = samples(tmp_path / name)
        assert len(found) == NUM_PROBLEMS * 2
        for key, sample in found.items():
            assert sample.completion == expected(int(key.problem_id.split("-")[1]), budget), (key, budget)
            assert sample.finish_reason == "stop"
    # Characters drawn: each thought once up to the largest budget, and an answer for each budget that cut a thought.
    most = 0
    for i in range(NUM_PROBLEMS):
        whole = f"<think>{'.' * 4 * i}</think>"
        complete = len(f"{whole}\\boxed{{{4 * i}}}")
        most += min(complete, BUDGETS[-1])
        for budget in BUDGETS:
            reply = expected(i, budget)
            if budget < complete:
                given = budget + (len(END_OF_THINKING) if "</think>" not in whole[:budget] else 0)
                most += len(reply) - given
    assert engine.num_drawn == 2 * most
    again = Thinker()
    assert go_on(options, BUDGETS, again) == names
    assert again.num_requests == 0


def test_one_command_draws_what_a_run_and_its_continuations_would(tmp_path, options):
    by_hand, at_once = Thinker(), Thinker()
    draw(options, by_hand)
    names = go_on(options, BUDGETS, by_hand)
    server = EngineOptions(name="openai", base_urls=("http://127.0.0.1:9/v1",))  # never asked: an engine is handed over
    asked = replace(options, out=tmp_path / "one", max_new_tokens=LIMIT, engine=server)
    with EngineCache(at_once) as engines:
        found = list(evaluate_to_budgets(asked, BUDGETS[::-1], engines=engines, watch=io.StringIO()))
    assert [result.run_dir.name for result in found] == [f"one-{LIMIT}-thinking{budget}" for budget in BUDGETS]
    assert [samples(result.run_dir) for result in found] == [samples(tmp_path / name) for name in names]
    assert samples(tmp_path / f"one-{BUDGETS[0]}") == samples(options.out)
    assert (at_once.num_drawn, at_once.num_requests) == (by_hand.num_drawn, by_hand.num_requests)
    assert not (tmp_path / "one").exists()  # free for a run without a budget
    again = Thinker()
    with EngineCache(again) as engines:
        assert [r.num_sampled for r in evaluate_to_budgets(asked, BUDGETS, engines=engines)] == [0] * len(BUDGETS)
    assert again.num_requests == 0


def test_a_budget_without_room_for_its_end_is_refused_before_the_first_sample(tmp_path, options, monkeypatch):
    monkeypatch.setattr("stapo_bench.sampling.budgets.load_tokenizer", lambda checkpoint: Characters())
    asked = replace(options, engine=EngineOptions(name="transformers"), max_new_tokens=28 + len(END_OF_THINKING))
    with pytest.raises(UsageError, match=r"expected fewer than 28 tokens, as those of --thinking-end \(11\).* got 28"):
        next(evaluate_to_budgets(asked, BUDGETS, watch=io.StringIO()))
    chat = EngineOptions(name="openai", base_urls=("http://127.0.0.1:9/v1",), chat=True)
    with pytest.raises(UsageError, match="expected prompts of our own, got --chat"):
        next(evaluate_to_budgets(replace(options, engine=chat), [8], watch=io.StringIO()))
    assert not options.out.with_name(f"run-{BUDGETS[0]}").exists()


def test_the_budget_is_part_of_the_run(tmp_path, options):
    draw(options, Thinker())
    (name,) = go_on(options, BUDGETS[:1], Thinker(), thinking_end="Time is up.</think>")
    manifest = load_manifest(tmp_path / name)
    assert manifest.identity.sampling == SamplingParams(
        temperature=0.7, top_p=0.9, max_new_tokens=LIMIT, thinking_budget=12, thinking_end="Time is up.</think>"
    )
    assert manifest.digest != load_manifest(options.out).digest
    assert any("Time is up.</think>" in sample.completion for sample in samples(tmp_path / name).values())
    with pytest.raises(StapoError, match=r"sampling\.thinking_end: the run has Time is up"):
        go_on(options, BUDGETS[:1], Thinker())
    with pytest.raises(StapoError, match=r"sampling\.thinking_budget: the run has 12, now nothing"):
        draw(replace(options, out=tmp_path / name, max_new_tokens=LIMIT), Thinker())
    asked = ContinueOptions(run_dir=tmp_path / name, max_new_tokens=90, data_dir=tmp_path, thinking_budget=LIMIT)
    with pytest.raises(UsageError, match=f"expected a run without one whose samples were cut off at {LIMIT}"):
        continue_run(asked, engine=Thinker(), watch=io.StringIO())


def test_what_ended_its_thinking_goes_on_as_it_is(tmp_path, options):
    """Cut off behind </think>, within the answer, nothing is put in between."""
    options = replace(options, max_new_tokens=18)  # <think></think>\boxed{0}: 15 characters, then the answer's first 3
    draw(options, Thinker())
    watch = io.StringIO()
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=LIMIT, data_dir=tmp_path, thinking_budget=18)
    found = samples(continue_run(asked, engine=Thinker(), watch=watch).run_dir)
    assert found[SampleKey("one", "one-0", 0)].completion == r"<think></think>\boxed{0}"
    assert f"{2 * (NUM_PROBLEMS - 1)} of {2 * NUM_PROBLEMS} cut-off samples were still thinking" in watch.getvalue()


def test_killed_on_the_way_it_goes_on_where_it_was(tmp_path, options):
    draw(options, Thinker())
    whole = go_on(options, BUDGETS, Thinker())
    unbroken = [samples(tmp_path / name) for name in whole]
    for number in (4, 9):
        out = tmp_path / f"again{number}"
        for _ in range(60):
            try:
                names = go_on(options, BUDGETS, Thinker(fail_after=number), out=out)
                break
            except StapoError as error:
                assert "out of luck" in str(error)
        assert [samples(tmp_path / name) for name in names] == unbroken


def test_what_a_run_between_lacks_is_missing(options):
    engine = Thinker()
    draw(options, engine)
    engine.gives_up = ("one-4", BUDGETS[1] - BUDGETS[0])  # both samples, on the way from 12 to 20
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=LIMIT, data_dir=options.data_dir)
    found = list(continue_to_budgets(asked, BUDGETS, engine=engine, watch=io.StringIO()))
    assert [result.num_missing for result in found] == [0, 2, 0]  # once: what is behind lacks the same ones
    engine.gives_up = None
    again = list(continue_to_budgets(asked, BUDGETS, engine=engine, watch=io.StringIO()))
    assert [result.num_missing for result in again] == [0, 0, 0]
    assert all(len(samples(result.run_dir)) == NUM_PROBLEMS * 2 for result in again)


def test_what_the_first_run_lacks_is_missing_once(tmp_path, options):
    engine = Thinker(gives_up=("one-4", BUDGETS[0]))
    server = EngineOptions(name="openai", base_urls=("http://127.0.0.1:9/v1",))
    asked = replace(options, out=tmp_path / "one", max_new_tokens=LIMIT, engine=server)
    with EngineCache(engine) as engines:
        found = list(evaluate_to_budgets(asked, BUDGETS, engines=engines, watch=io.StringIO()))
    assert [result.num_missing for result in found] == [2, 0, 0]


def test_a_budget_whose_end_leaves_no_token_or_cannot_be_counted_is_refused(tmp_path, options, monkeypatch):
    draw(options, Thinker())
    num_end = len(END_OF_THINKING)  # 12 + 11 tokens: 24 leave one for the answer, 23 leave none
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=12 + num_end, data_dir=tmp_path, thinking_budget=12)
    with pytest.raises(UsageError, match=r"expected fewer than 12 tokens, as those of --thinking-end \(11\).* got 12"):
        continue_run(asked, engine=Thinker(), watch=io.StringIO())
    one_more = replace(asked, max_new_tokens=12 + num_end + 1)
    found = samples(continue_run(one_more, engine=Thinker(), watch=io.StringIO()).run_dir)
    assert found[SampleKey("one", "one-5", 0)].completion == expected(5, 12).partition("boxed")[0]
    monkeypatch.setattr("stapo_bench.sampling.continuation.load_tokenizer", lambda checkpoint: None)
    with pytest.raises(UsageError, match="expected a tokenizer to count the tokens of the end"):
        continue_run(one_more, engine=Thinker(), watch=io.StringIO())


def test_with_a_model_the_answer_is_that_behind_the_ended_thought(tmp_path, options):
    from stapo_bench.engines.transformers import TransformersEngine, load_checkpoint

    checkpoint = save(random_model(end_ids=range(256, 262)), tmp_path / "model")
    model, tokenizer = load_checkpoint(checkpoint)
    style = {"assistant_prefix": "<think>"}
    options = replace(options, checkpoint=checkpoint, decoding="greedy", samples=1, style=style)
    options = replace(options, engine=EngineOptions(name="transformers"), max_new_tokens=10)
    evaluate(options, watch=io.StringIO())
    asked = ContinueOptions(run_dir=options.out, max_new_tokens=40, data_dir=tmp_path)
    (result,) = continue_to_budgets(asked, [10], watch=io.StringIO())
    before, after = samples(options.out), samples(result.run_dir)
    ids = end_ids(tokenizer, END_OF_THINKING)
    assert tokenizer.decode(ids) == END_OF_THINKING
    params = SamplingParams(temperature=0, top_p=1.0, max_new_tokens=40 - 10 - len(ids))
    cut = [sample for sample in before.values() if sample.finish_reason == "length"]
    assert cut
    for sample in cut:
        question = next(p for p in range(NUM_PROBLEMS) if sample.problem_id == f"one-{p}")
        text = f"User: one: {question} - {question} + 1?\n\nAssistant: <think>"
        begun = (*tokenizer(text)["input_ids"], *sample.token_ids, *ids)
        request = Request(key=sample.key, prompt=Prompt(task="one", problem_id="", text="", token_ids=begun), seed=0)
        (rest,) = TransformersEngine(model, tokenizer).generate([request], params)
        written = tokenizer.decode([*sample.token_ids, *ids, *rest.token_ids], skip_special_tokens=True)
        assert after[sample.key].completion == "<think>" + written
        assert after[sample.key].num_tokens == 10 + len(ids) + rest.num_tokens
        assert after[sample.key].sum_log_prob == pytest.approx(sample.sum_log_prob + sum(rest.log_probs), abs=1e-3)


def test_budgets_that_cannot_be_are_one_line(small, stapo):
    command = ("eval", "--engine", "scripted", "--ckpt", "script.yaml", "--decoding", "justrl", "--tasks", "sums.yaml")
    assert stapo(*command, "--data-dir", ".", "--max-new-tokens", "12", "--samples", "1", "--out", "run")[0] == 0
    for arguments, words in (
        (("8",), "expected at least 12, the limit that run was drawn under"),
        (("60",), "expected fewer than the 60 tokens of --max-new-tokens"),
        (("12",), "expected an engine that applies it, got scripted"),
        (("12", "--thinking-end", "Stop."), "expected a text with </think>"),
        (("0",), "expected numbers of tokens from 1 up, such as 1024,4096, got '0'"),
        (("20,", "--thinking-end", "</think>"), "expected numbers of tokens from 1 up"),
    ):
        limited = ("continue", "run", "--data-dir", ".", "--max-new-tokens", "60")
        code, _, error = stapo(*limited, "--thinking-budget", *arguments)
        assert (code, words in one_line(error)) == (2, True), error
    for arguments, words in (
        (("--thinking-budget", "8,12"), "expected fewer than the 12 tokens of --max-new-tokens"),
        (("--thinking-budget", "4,8"), "expected an engine that applies it, got scripted"),
        (("--thinking-budget", "4", "--shard", "0/2"), "expected no --shard, as its runs are whole ones"),
        (("--thinking-end", "</think>"), "expected --thinking-budget beside it"),
    ):
        limited = ("--data-dir", ".", "--max-new-tokens", "12", "--samples", "1", "--out", "other")
        code, _, error = stapo(*command, *limited, *arguments)
        assert (code, words in one_line(error)) == (2, True), error
    assert {path.name for path in small.iterdir() if path.is_dir()} == {"run"}


# -- the curve --------------------------------------------------------------------------------------------------------


def budget_run(make_run, budget, rows, tokens, **sampling):
    ended = {"thinking_budget": budget, "thinking_end": END_OF_THINKING} if budget else {}
    settings = {"temperature": 0.6, "top_p": 0.95, "max_new_tokens": 64, **ended, **sampling}
    identity = {"checkpoint": {"digest": "one"}, "sampling": settings}
    return make_run(f"b{budget}", {"t": rows}, identity=identity, sample=lambda *_: {"num_tokens": tokens})


def test_the_curve_over_budgets_is_that_of_their_outcomes(make_run):
    small, large, whole = [[1, 0], [0, 0], [0, 1]], [[1, 1], [1, 0], [0, 1]], [[1, 1], [1, 1], [0, 1]]
    runs = [
        budget_run(make_run, None, whole, 60),
        budget_run(make_run, 8, small, 14),
        budget_run(make_run, 16, large, 20),
    ]
    found = curve_of(runs, "math")
    assert [point.step for point in found.points] == [8, 16, 64]
    assert [point.tokens for point in found.points] == [14, 20, 60]
    # 2 of 6, 4 of 6, 5 of 6
    assert [point.value for point in found.points] == pytest.approx([2 / 6, 4 / 6, 5 / 6])
    matrices = [[np.array(rows, dtype=float) for rows in (small, large, whole)]]
    bands = curve(matrices, ["b8", "b16", "bNone"], [8, 16, 64], ["t"]).points
    assert [point.band for point in found.points] == [point.band for point in bands]
    table = render_curve(found)
    assert "| Run | budget | tokens a sample | avg@k |" in table
    assert re.search(r"\| b16 \| 16 \| 20 \| 66\.67 \| \+33\.3 ", table)
    assert "for all budgets together" in table


def test_runs_that_differ_in_more_than_their_budget_are_no_curve(make_run):
    rows = [[1, 0], [0, 1]]
    runs = [budget_run(make_run, 8, rows, 9), budget_run(make_run, 16, rows, 9, temperature=1.0)]
    with pytest.raises(StapoError, match=r"b16 and b8 differ besides their budgets: sampling\.temperature"):
        curve_of(runs, "math")
    with pytest.raises(StapoError, match="expected runs with budgets of their own, got 8 in b8 and b8"):
        curve_of([*runs, runs[0]], "math")


def test_the_command_ends_with_the_curve_where_there_are_several_budgets(make_run, small, stapo, monkeypatch):
    runs = [budget_run(make_run, 8, [[1, 0], [0, 1]], 14), budget_run(make_run, 16, [[1, 1], [0, 1]], 20)]

    def finished(options, budgets, end, engines):
        for _, run in zip(budgets, runs, strict=False):
            yield SimpleNamespace(run_dir=run, num_repeated=0, num_missing=0)

    monkeypatch.setattr("stapo_bench.sampling.evaluate_to_budgets", finished)
    monkeypatch.setattr("stapo_bench.presenting.finish_run", lambda run, **_: score_run(run, "math"))
    command = ("eval", "--engine", "scripted", "--ckpt", "script.yaml", "--decoding", "justrl", "--tasks", "sums.yaml")
    command = (*command, "--data-dir", ".", "--max-new-tokens", "64", "--samples", "2", "--out", "run")
    printed = {}
    for budgets in ("8", "8,16"):
        code, printed[budgets], error = stapo(*command, "--thinking-budget", budgets)
        assert code == 0, error
    assert "| Run | budget |" not in printed["8"] and printed["8,16"].count("| Run | budget |") == 1
    assert "\n| b16 | 16 | 20 | 75.00 |" in printed["8,16"]
