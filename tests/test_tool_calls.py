"""Replies that call a tool: what is drawn, what the tool says, and that one is never taken for the other."""

from dataclasses import replace

import pytest
import torch
from tool_setup import CALLS, PARAMS, USE, Clerk, ids_of, request

from stapo_bench.engines.replica_wire import as_json, request_of
from stapo_bench.engines.tool_calls import AT_ONCE, ToolUse, generate_with_tools
from stapo_bench.engines.transformers import TransformersEngine
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, ToolOutput
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import Tool
from stapo_train.tiny.random_model import END, byte_tokenizer, random_model


def drawn(engine: Clerk, *requests: Request, **changes: object) -> list[Completion]:
    return list(generate_with_tools(engine, requests, replace(PARAMS, **changes), CALLS))


def letter(seed: int) -> str:
    return chr(ord("a") + seed % 26)


def test_a_reply_of_two_calls_by_hand():
    engine, seeds = Clerk(), [7, derive_seed(7, "tool", 1), derive_seed(7, "tool", 2)]
    (found,) = drawn(engine, request(4, seed=7))
    turns = [
        f"{letter(seeds[0])}<calculator>4 * 3</calculator>",
        f"{letter(seeds[1])}<calculator>12 + 1</calculator>",
        f"{letter(seeds[2])}so \\boxed{{13}}.",
    ]
    outputs = ["<output>12</output>", "<output>13</output>"]
    assert found.text == turns[0] + outputs[0] + turns[1] + outputs[1] + turns[2]
    assert found.token_ids == ids_of("".join(turns))  # what the model drew, and nothing else
    first, second = len(turns[0]), len(turns[0] + turns[1])
    assert found.tool_outputs == tuple(map(ToolOutput, (first, second), map(ids_of, outputs)))
    assert found.num_tokens == len("".join(turns)) == len(found.log_probs)
    expected = [-float(seed % 26) for seed, turn in zip(seeds, turns, strict=True) for _ in turn]
    assert list(found.log_probs) == expected
    assert (found.finish_reason, found.seconds) == ("stop", 1.5)
    assert [asked.seed for asked in engine.requests] == seeds
    # 200 tokens in all, less those of the turns and outputs before
    left = [200 - len(turns[0] + outputs[0]), 200 - len(turns[0] + outputs[0] + turns[1] + outputs[1])]
    assert [asked.max_new_tokens for asked in engine.requests] == [None, *left]


def test_a_reply_without_a_call_is_what_it_would_be_without_a_tool():
    asked = request(4, seed=3)
    (with_tool,) = drawn(Clerk(num_calls=0), asked)
    (without,) = Clerk(num_calls=0).generate([asked], PARAMS)
    assert with_tool == without and with_tool.tool_outputs == ()


def test_tasks_without_a_tool_call_none():
    found = {one.key: one for one in drawn(Clerk(), request(4), request(4, task="others"))}
    other = found["others", "p4", 0]
    assert "<output>" not in other.text and other.tool_outputs == ()
    assert len(found["sums", "p4", 0].tool_outputs) == 2


def test_the_ninth_call_and_the_limit_cut_a_reply_off():
    (endless,) = drawn(Clerk(num_calls=99), request(1), max_new_tokens=10_000)
    assert endless.finish_reason == "length" and len(endless.tool_outputs) == 8
    assert endless.text.endswith("<calculator>10 + 1</calculator>")  # 1 * 3, then seven times one more: 10
    # "a<calculator>4 * 3</calculator>" is 31 tokens, its output 19: in all 50, and one is needed behind them
    (short,) = drawn(Clerk(), request(4), max_new_tokens=50)
    assert (short.finish_reason, short.num_tokens, short.tool_outputs) == ("length", 31, ())
    (longer,) = drawn(Clerk(), request(4), max_new_tokens=51)
    assert (longer.finish_reason, longer.num_tokens, len(longer.tool_outputs)) == ("length", 32, 1)


def test_the_context_is_a_limit_too():
    engine = Clerk()
    engine.context_length = 53  # two tokens of the prompt, 31 drawn, 19 of the tool, one more
    (found,) = drawn(engine, request(4))
    assert (found.finish_reason, found.num_tokens, len(found.tool_outputs)) == ("length", 32, 1)


def test_a_stop_text_ends_a_reply_before_and_behind_a_call():
    (before,) = drawn(Clerk(), request(4), stop=("lator>",))
    assert before.text == f"{letter(0)}<calcu" and before.finish_reason == "stop" and before.tool_outputs == ()
    (behind,) = drawn(Clerk(), request(4), stop=("boxed",))
    assert behind.text.endswith("so \\") and len(behind.tool_outputs) == 2  # not at "output", which the tool wrote
    (outputs_do_not_end_it,) = drawn(Clerk(), request(4), stop=("<output>",))
    assert outputs_do_not_end_it.text.endswith("so \\boxed{13}.")


def test_what_the_calculator_cannot_do_is_told_to_the_model():
    class Divider(Clerk):
        def _turn(self, request, params):
            found = super()._turn(request, params)
            return replace(found, token_ids=ids_of(USE.tokenizer.decode(found.token_ids).replace("* 3", "/ 0")))

    (found,) = drawn(Divider(num_calls=1), request(4))
    assert "<calculator>4 / 0</calculator><output>error: division by zero</output>" in found.text


def test_failed_turns_and_engines_that_say_nothing():
    class Failing(Clerk):
        def _turn(self, request, params):
            found = super()._turn(request, params)
            given_up = "<output>" in request.prompt.text and request.key.problem_id == "p4"
            gone = Completion(key=request.key, text="", finish_reason="error", num_tokens=0)
            return gone if given_up else replace(found, log_probs=None, seconds=None)

    failed, whole = sorted(drawn(Failing(), request(4), request(5)), key=lambda one: one.key)
    assert failed.finish_reason == "error" and failed.token_ids is None
    assert whole.log_probs is None and whole.seconds is None and len(whole.tool_outputs) == 2


def test_a_prompt_without_ids_is_refused():
    asked = request(4)
    with pytest.raises(StapoError, match="sums/p4/0: a tool is called: expected token ids, got text alone"):
        drawn(Clerk(), replace(asked, prompt=replace(asked.prompt, token_ids=None)))


def test_replies_are_finished_a_part_at_a_time():
    engine = Clerk(num_calls=1)
    requests = [replace(request(1), key=request(1).key._replace(sample_index=i), seed=i) for i in range(AT_ONCE + 1)]
    found = generate_with_tools(engine, requests, PARAMS, CALLS)
    assert len([next(found) for _ in range(AT_ONCE)]) == AT_ONCE
    assert len(engine.requests) == 2 * AT_ONCE  # both turns of all of them, none of the last one's
    assert len(list(found)) == 1


def test_a_request_keeps_its_own_limit_on_its_way_to_a_replica():
    asked = replace(request(4), max_new_tokens=17)
    assert request_of(as_json(asked)) == asked


class Vowel(Tool):
    """A tool whose call ends at a byte that the random model draws often; it tells how long the call was."""

    @property
    def end(self) -> str:
        return "e"

    def answer(self, text: str) -> str:
        return f"[{len(text)}]"


@pytest.fixture(scope="module")
def random_replies():
    """What a model with random weights writes: engine, what is drawn with, and pairs of request and completion."""
    engine = TransformersEngine(random_model(sharpness=1.0, end_ids=(END,)), byte_tokenizer(), slots=40)
    requests = [request(n, seed=n) for n in range(40)]
    calls = {"sums": ToolUse(tool=Vowel(name="vowel", version=1, run=str), tokenizer=byte_tokenizer())}
    params = replace(PARAMS, max_new_tokens=60)
    found = {one.key: one for one in generate_with_tools(engine, requests, params, calls)}
    return engine, params, calls, [(asked, found[asked.key]) for asked in requests]


def test_a_real_model_draws_turn_by_turn_what_it_would_draw_alone(random_replies):
    engine, params, calls, replies = random_replies
    called = [(asked, one) for asked, one in replies if one.tool_outputs]
    assert len(called) >= 4
    for asked, one in called[:4]:
        (alone,) = generate_with_tools(engine, [asked], params, calls)
        assert (alone.token_ids, alone.tool_outputs, alone.text) == (one.token_ids, one.tool_outputs, one.text)
        # Slowly: every turn is one plain generation behind the tokens so far.
        whole, start = asked.prompt.token_ids, 0
        for turn, (after, ids) in enumerate((*one.tool_outputs, ToolOutput(len(one.token_ids), ()))):
            seed = derive_seed(asked.seed, "tool", turn) if turn else asked.seed
            plainly = replace(asked, prompt=replace(asked.prompt, token_ids=whole), seed=seed)
            left = 60 - (len(whole) - len(asked.prompt.token_ids))
            (plain,) = engine.generate([plainly], replace(params, max_new_tokens=left, stop=("e",)))
            assert plain.token_ids == one.token_ids[start:after]
            whole, start = whole + plain.token_ids + ids, after


def test_log_probs_are_those_of_the_drawn_tokens_with_the_outputs_before_them(random_replies):
    engine, _, _, replies = random_replies
    asked, one = max(replies, key=lambda reply: len(reply[1].tool_outputs))
    row, own = list(asked.prompt.token_ids), []
    starts = [0, *(after for after, _ in one.tool_outputs)]
    ends = [*(after for after, _ in one.tool_outputs), len(one.token_ids)]
    outputs = [*(ids for _, ids in one.tool_outputs), ()]
    for start, end, ids in zip(starts, ends, outputs, strict=True):
        own += range(len(row), len(row) + end - start)
        row += [*one.token_ids[start:end], *ids]
    with torch.no_grad():
        logits = engine._model(torch.tensor([row])).logits[0].log_softmax(-1)
    expected = [float(logits[place - 1, row[place]]) for place in own]
    assert one.log_probs == pytest.approx(expected, abs=1e-4)
