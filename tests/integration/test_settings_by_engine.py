"""Every engine by every setting: tokens that it drew for real beside a slow reference over the model's own logits.

transformers, vLLM in process, and `vllm serve` by completions and by chat draw some 3,000 tokens a setting of one
random model. The reference is a softmax in numpy with the cuts in the order that ``SamplingParams`` states; it is asked
for the distribution of each token that was drawn, behind what stands before it: the end of a thought and what a tool
says among it. transformers' cells run everywhere, the others in an environment with vLLM (``scripts/integration.sh
vllm``).
"""

import importlib.util
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eval_setup import make_task

from stapo_bench.engines import Engine
from stapo_bench.engines.tool_calls import MOST_CALLS, ToolUse, generate_with_tools
from stapo_bench.errors import UsageError
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs import read_samples
from stapo_bench.sampling import EngineCache, EvalOptions, evaluate, evaluate_to_budgets
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import get_tool
from stapo_bench.tasks.calculator import calculate

torch = pytest.importorskip("torch")

from letters_setup import PLAIN, PROMPTS, Drawer, Engines, decoded, encoded, look_up, make_requests, save_letters  # noqa: E402
from tool_setup import tool_options  # noqa: E402

from stapo_train.tiny.random_model import END  # noqa: E402

pytestmark = pytest.mark.slow(reason="some thousand tokens for each setting of an engine")
needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)
ENGINES = ("transformers", *(pytest.param(name, marks=needs_vllm) for name in ("vllm", "completions", "chat")))

SETTINGS: Mapping[str, SamplingParams] = {
    "temperature 1": PLAIN,
    "temperature 0.5": replace(PLAIN, temperature=0.5),
    "top-p 0.8": replace(PLAIN, top_p=0.8),
    "top-k 5": replace(PLAIN, top_k=5),
    "min-p 0.1": replace(PLAIN, min_p=0.1),
    # In another order these would leave other tokens, or the same ones at another temperature.
    "all of them": replace(PLAIN, temperature=0.7, min_p=0.05, top_k=8, top_p=0.8),
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with ExitStack() as stack:
        checkpoint = save_letters(tmp_path_factory.mktemp("letters"))
        yield Engines(checkpoint, tmp_path_factory.mktemp("server"), stack)


@pytest.fixture(scope="module")
def drawer(engines: Engines) -> Drawer:
    return Drawer(engines)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_are_drawn_as_the_reference_says(drawer, engine, setting):
    drawn = drawer.drawn(engine, SETTINGS[setting])
    assert len(drawn.tokens) > 2500
    assert drawn.disagreements(SETTINGS[setting]) == []


@pytest.mark.parametrize("setting", list(SETTINGS)[1:])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_setting_that_does_not_arrive_is_seen(drawer, engine, setting):
    found = drawer.drawn(engine, PLAIN).disagreements(SETTINGS[setting])
    assert [line.split()[1] for line in found if "outside" in line] == ["tokens"] * (setting != "temperature 0.5")
    assert [line.split(":")[0] for line in found[-2:]] == ["ranks", "log-probs"], found


@pytest.mark.parametrize("engine", ENGINES)
def test_greedy_is_the_most_probable_token_each_time_whatever_the_seed(drawer, engine):
    greedy = replace(PLAIN, temperature=0.0)
    drawn = drawer.drawn(engine, greedy)
    assert np.array_equal(drawn.tokens, drawn.logits.argmax(axis=1))
    assert len({completion.token_ids for completion in drawer.completions(engine, greedy).values()}) == len(PROMPTS)
    plain = drawer.drawn(engine, PLAIN)
    assert (plain.tokens != plain.logits.argmax(axis=1)).mean() > 0.3  # what would be seen, were it not greedy


@pytest.mark.parametrize("engine", ENGINES)
def test_a_completion_ends_where_the_first_stop_text_is_whole(drawer, engine):
    """The same seeds without stop texts give the text that is cut; token by token, as the rule has it."""
    free = drawer.completions(engine, PLAIN)
    cut = [completion.token_ids for completion in free.values() if completion.finish_reason == "length"]
    stop = (decoded(cut[0][9:11]), decoded(cut[1][5:6]), decoded(cut[2][12:15]))  # of two, one and three tokens
    stopped = drawer.completions(engine, replace(PLAIN, stop=stop))
    ends = dict.fromkeys(stop, 0)
    for key, completion in free.items():
        ids, reason = completion.token_ids, completion.finish_reason
        text = decoded(ids)
        for length in range(1, len(ids) + 1):
            begun = decoded(ids[:length])
            if ended := [one for one in stop if one in begun]:
                ids, text, reason = ids[:length], begun[: min(begun.index(one) for one in ended)], "stop"
                ends[ended[0]] += 1
                break
        found = stopped[key]
        assert (found.text, found.token_ids, found.finish_reason) == (text, ids, reason)
        assert found.num_tokens == len(ids)
    assert min(ends.values()) >= 1 and sum(ends.values()) < len(free)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_cuts_a_completion_off_and_changes_nothing_before_it(drawer, engine):
    free = drawer.completions(engine, PLAIN)
    for limit in (1, 7):
        short = drawer.completions(engine, replace(PLAIN, max_new_tokens=limit))
        for key, completion in short.items():
            assert completion.token_ids == free[key].token_ids[:limit]
            assert completion.finish_reason == ("stop" if END in completion.token_ids else "length")
    assert any(completion.finish_reason == "stop" for completion in free.values())


# -- thinking budgets -------------------------------------------------------------------------------------------------

BUDGET, LIMIT = 9, 34
END_OF_THOUGHT = "\n</think>\n\n"  # 11 letters, a token each
NO_CHAT = "--thinking-budget: expected prompts of our own, got --chat, whose answers cannot be gone on with"


def goes_on_thinking(text: str) -> bool:
    return "</think>" not in text.rpartition("<think>")[2]


def thinking_options(engines: Engines, engine: str, folder: Path, **changes: Any) -> EvalOptions:
    return EvalOptions(
        checkpoint=engines.checkpoint,
        tasks=(make_task(folder, "one", 24),),
        out=folder / "run",
        data_dir=folder,
        max_new_tokens=LIMIT,
        style={"assistant_prefix": "<think>"},
        engine=engines.options(engine),
        **changes,
    )


def prompt_of(key: SampleKey) -> str:
    number = key.problem_id.removeprefix("one-")
    return f"User: one: {number} - {number} + 1?\n\nAssistant: <think>"


@pytest.fixture(scope="module")
def greedy_reply(drawer: Drawer) -> Callable[[str, int], tuple[int, ...]]:
    """Token by token, each the most probable; behind so many of them the end of a thought that goes on."""

    @cache
    def reply(prompt: str, budget: int) -> tuple[int, ...]:
        ids: tuple[int, ...] = ()
        while len(ids) < LIMIT and END not in ids:
            if len(ids) == budget and goes_on_thinking(prompt + decoded(ids)):
                ids += encoded(END_OF_THOUGHT)
            with torch.no_grad():
                ids += (int(drawer.model(torch.tensor([[*encoded(prompt), *ids]])).logits[0, -1].argmax()),)
        return ids

    return reply


@pytest.mark.parametrize("engine", ENGINES[:-1])
def test_greedy_thinking_is_ended_behind_each_budget_as_the_reference_does(engines, greedy_reply, engine, tmp_path):
    """One reference for all engines, so that they are equal."""
    options = thinking_options(engines, engine, tmp_path, decoding="greedy", limit=8)
    budgets = (BUDGET, BUDGET + 5)
    with EngineCache(engines(engine)) as opened:
        runs = list(evaluate_to_budgets(options, budgets, engines=opened, watch=io.StringIO()))
    for budget, run in zip(budgets, runs, strict=True):
        found = {sample.key: sample for sample in read_samples(run.run_dir)}
        assert len(found) == 8
        for key, sample in found.items():
            ids = greedy_reply(prompt_of(key), budget)
            assert (sample.completion, sample.num_tokens) == ("<think>" + decoded(ids), len(ids))
            assert sample.finish_reason == ("stop" if END in ids else "length")
        assert sum(END_OF_THOUGHT in sample.completion for sample in found.values()) >= 6


class Watched:
    """An engine whose last completion of each sample is kept, as it was drawn."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.last: dict[SampleKey, Completion] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        for completion in self._engine.generate(requests, params):
            self.last[completion.key] = completion
            yield completion


@pytest.mark.parametrize("engine", ENGINES[:-1])
def test_a_thought_is_that_of_its_sample_and_what_is_behind_its_end_follows_from_it(engines, drawer, engine, tmp_path):
    watched = Watched(engines(engine))
    options = thinking_options(engines, engine, tmp_path, decoding="training", samples=6)
    with EngineCache(watched) as opened:
        (run,) = evaluate_to_budgets(options, [BUDGET], engines=opened, watch=io.StringIO())
    begun = {sample.key: sample for sample in read_samples(run.run_dir.with_name(f"run-{BUDGET}"))}
    plain = [
        Request(
            key=key,
            prompt=Prompt(task="one", problem_id="", text=prompt_of(key), token_ids=encoded(prompt_of(key))),
            seed=sample.seed,
        )
        for key, sample in begun.items()
    ]
    free = {one.key: one.token_ids for one in engines(engine).generate(plain, replace(PLAIN, max_new_tokens=LIMIT))}
    rows, rows_without = [], []
    num_ended = 0
    found = {sample.key: sample for sample in read_samples(run.run_dir)}
    assert found.keys() == free.keys() and len(free) == 24 * 6
    for key, sample in found.items():
        thought = free[key][:BUDGET]
        text = "<think>" + decoded(thought)
        if END in thought:
            assert (sample.completion, sample.num_tokens) == (text, len(thought))
            continue
        given = encoded(END_OF_THOUGHT) if goes_on_thinking(text) else ()
        num_ended += not given
        log_probs = watched.last[key].log_probs
        rest = watched.last[key].token_ids[-len(log_probs) :]
        assert sample.completion == text + decoded(given) + decoded(rest)
        assert sample.num_tokens == BUDGET + len(given) + len(rest)
        assert sample.finish_reason == ("stop" if END in rest else "length")
        assert END in rest or sample.num_tokens == LIMIT
        assert sample.sum_log_prob == pytest.approx(begun[key].sum_log_prob + sum(log_probs), abs=1e-3)
        for ending, into in ((given, rows), ((), rows_without)):
            whole = (*encoded(prompt_of(key)), *thought, *ending, *rest)
            into.append((whole, range(len(whole) - len(rest), len(whole)), log_probs))
    assert num_ended >= 3 and len(rows) - num_ended > 100
    assert look_up(drawer.model, rows).disagreements(PLAIN) == []
    seen = look_up(drawer.model, rows_without).disagreements(PLAIN)  # had it not read the end
    assert seen[-1].startswith("log-probs")


@pytest.mark.parametrize("engine", ENGINES[-1:])
def test_a_server_that_chats_refuses_a_budget_before_it_is_asked_for_a_token(engines, engine, tmp_path):
    options = thinking_options(engines, engine, tmp_path, decoding="training", samples=1)
    watched = Watched(engines(engine))
    with EngineCache(watched) as opened, pytest.raises(UsageError) as refused:
        next(evaluate_to_budgets(options, [BUDGET], engines=opened, watch=io.StringIO()))
    assert str(refused.value) == NO_CHAT
    assert watched.last == {} and not list(tmp_path.glob("run*"))


# -- tools ------------------------------------------------------------------------------------------------------------

TOOL_LIMIT = 120
CALL_END = "</calculator>"


def answer(turn: str) -> str:
    """What the calculator says behind a turn that ends with a call: the values of its sums, by hand where they fit."""
    _, begun, asked = turn[: turn.index(CALL_END)].rpartition("<calculator>")
    if sum_ := re.fullmatch("([0-9]+) ([-*]) ([0-9]+)", asked):
        left, right = int(sum_[1]), int(sum_[3])
        said = str(left * right if sum_[2] == "*" else left - right)
    else:
        said = calculate(asked) if begun else f"error: expected <calculator> before {CALL_END}"
    return f"<output>{said}</output>"


@pytest.mark.slow(reason="replies with calls, turn by turn and once more without, by each engine")
@pytest.mark.parametrize("engine", ENGINES[:2])
def test_calls_are_answered_where_they_end_and_the_reply_goes_on_behind(engines, drawer, engine):
    """Read token by token: which calls are there, what the calculator says of them, and where a reply is cut off."""
    tokenizer = engines(engine)._tokenizer
    calls = {"t": ToolUse(tool=get_tool("calculator"), tokenizer=tokenizer)}
    params, requests = replace(PLAIN, max_new_tokens=TOOL_LIMIT), make_requests()[:64]
    found = {one.key: one for one in generate_with_tools(engines(engine), requests, params, calls)}
    alone = drawer.completions(engine, PLAIN)
    rows, rows_without, second_turns = [], [], {}
    answered = dict.fromkeys(("value", "error"), 0)
    reasons = dict.fromkeys(("ended", "full", "no room", "too many calls"), 0)
    for request in requests:
        one, prompt = found[request.key], request.prompt.token_ids
        outputs, whole, places, turn, reason = list(one.tool_outputs), prompt, [], "", "full"
        for place, token in enumerate(one.token_ids, 1):
            whole, places, turn = (*whole, token), [*places, len(whole)], turn + decoded((token,))
            if token == END:
                reason = "ended"
            if CALL_END in turn:
                said = encoded(answer(turn))
                if place == len(one.token_ids) and not outputs:
                    reason = "no room" if len(one.tool_outputs) < MOST_CALLS else "too many calls"
                    assert len(whole) - len(prompt) + len(said) >= (reason == "no room") * TOOL_LIMIT
                    break
                output = outputs.pop(0)
                assert (output.after, output.token_ids) == (place, said)
                answered["error" if "error" in answer(turn) else "value"] += 1
                whole, turn = whole + said, ""
                assert len(whole) - len(prompt) < TOOL_LIMIT
                if len(one.tool_outputs) - len(outputs) == 1:
                    second_turns[request.key] = replace(
                        request,
                        prompt=replace(request.prompt, token_ids=whole),
                        seed=derive_seed(request.seed, "tool", 1),
                        max_new_tokens=TOOL_LIMIT - (len(whole) - len(prompt)),
                    )
        reasons[reason] += 1
        assert outputs == [] and len(one.tool_outputs) <= MOST_CALLS
        assert one.finish_reason == ("stop" if reason == "ended" else "length")
        assert reason != "full" or len(whole) - len(prompt) == TOOL_LIMIT
        assert one.text == decoded(whole[len(prompt) :]) and one.num_tokens == len(one.token_ids)
        # As it would be without a tool, up to its first call.
        first = one.token_ids[: one.tool_outputs[0].after] if one.tool_outputs else one.token_ids
        assert first[: PLAIN.max_new_tokens] == alone[request.key].token_ids[: len(first)]
        rows.append((whole, places, one.log_probs))
        if one.tool_outputs:
            rows_without.append(
                ((*prompt, *one.token_ids), range(len(prompt), len(prompt) + len(one.token_ids)), one.log_probs)
            )
    assert min(answered.values()) >= 10 and min(reasons["full"], reasons["no room"]) >= 3
    assert look_up(drawer.model, rows).disagreements(PLAIN) == []
    seen = look_up(drawer.model, rows_without).disagreements(PLAIN)  # had it not read the outputs
    assert seen[-1].startswith("log-probs")
    again = engines(engine).generate(second_turns.values(), replace(params, stop=(CALL_END,)))
    for turn_alone in again:  # each by itself, with its own seed
        after = [output.after for output in found[turn_alone.key].tool_outputs]
        start, stop = (*after, len(found[turn_alone.key].token_ids))[:2]
        assert turn_alone.token_ids == found[turn_alone.key].token_ids[start:stop]


@pytest.mark.parametrize("engine", ENGINES[2:])
def test_a_server_refuses_a_task_whose_replies_call_a_tool(engines, engine, tmp_path):
    options = replace(tool_options(tmp_path), checkpoint=engines.checkpoint, engine=engines.options(engine))
    with pytest.raises(UsageError) as refused:
        evaluate(options, watch=io.StringIO())
    assert str(refused.value) == (
        "tool calculator: expected an engine that goes on behind the tool's tokens (transformers, vllm), got openai, "
        "which does not"
    )
    assert not options.out.exists()
