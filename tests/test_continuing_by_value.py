"""How samples that were cut off go on, by hand: thinking that is ended, contexts, and what an engine is told."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sampling_setup import eval_task, sample

from stapo_bench.engines import EngineOptions
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Completion, PromptStyle, SampleKey, SamplingParams
from stapo_bench.runs import SERVED
from stapo_bench.sampling import ContinueOptions, continuation, continue_run, engine_cache
from stapo_bench.sampling.continuation import _is_served
from stapo_bench.sampling.rests import Continuation
from stapo_bench.sampling.thinking import check_end, check_room, end_ids, is_thinking, thinking_fields
from stapo_bench.seeds import derive_seed

# --- samples that go on ----------------------------------------------------------------------------------------------


class Tokenizer:
    """A token is a character."""

    def __init__(self, forgets=False):
        self.forgets = forgets

    def __call__(self, text, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": list(map(ord, text))}

    def decode(self, ids, skip_special_tokens):
        text = "".join(map(chr, ids))
        return text.replace("</think>", "") if self.forgets else text


PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=20)


class Rest:
    """Writes "end" behind whatever it is given."""

    continues_exactly = False

    def __init__(self, context_length=None, gives_up=()):
        self.context_length, self.gives_up, self.asked = context_length, gives_up, []

    def generate(self, requests, params):
        for request in requests:
            self.asked.append((request, params))
            reason = "error" if request.key.sample_index in self.gives_up else "stop"
            yield Completion(
                key=request.key, text="end", finish_reason=reason, num_tokens=3, token_ids=tuple(map(ord, "end")),
                log_probs=(-1.0, -0.5, -0.25), seconds=2.0,
            )  # fmt: skip


def ids(text):
    return tuple(map(ord, text))


def cut(text, index=0, prefix="", **more):
    values = {"finish_reason": "length", "num_tokens": len(text), "token_ids": ids(text), "sum_log_prob": -3.0}
    return sample("0", index, completion=prefix + text, **{**values, "seconds": 1.0, **more})


def test_the_rest_is_asked_for_behind_all_that_stands_and_joined_to_it():
    engine = Rest(gives_up=(2,))
    task = eval_task("a", 1, 4, style=PromptStyle(assistant_prefix="So "))
    going = Continuation(engine, PARAMS, [task], Tokenizer())
    begun = {one.key: one for one in (cut("abcd", 0, "So "), cut("ab", 1, "So "), cut("xy", 2, "So "))}
    found = {one.sample_index: one for one in going.generate(begun)}
    # the shorter ones first, each group with the tokens that are left to it
    assert [(r.key.sample_index, r.prompt.text, p.max_new_tokens) for r, p in engine.asked] == [
        (1, "a0?ab", 18), (2, "a0?xy", 18), (0, "a0?abcd", 16),
    ]  # fmt: skip
    assert engine.asked[0][0].prompt.token_ids == (0, *ids("ab"))
    assert engine.asked[2][0].seed == derive_seed(5, "continue", 4)
    assert found[0] == cut(
        "abcdend", 0, "So ", finish_reason="stop", num_tokens=7, token_ids=None, sum_log_prob=-4.75, seconds=3.0
    )
    assert list(begun) == [SampleKey("a", "0", 2)] and set(found) == {0, 1}  # the engine gave one up
    assert going.num_asked == 4


def test_a_joined_text_ends_before_a_stop_text_across_the_cut():
    going = Continuation(Rest(), replace(PARAMS, stop=("be",)), [eval_task("a", 1, 1)], None)
    (found,) = going.generate({SampleKey("a", "0", 0): cut("ab", sum_log_prob=None, seconds=None)})
    assert (found.completion, found.finish_reason, found.num_tokens) == ("a", "stop", 5)
    assert (found.sum_log_prob, found.seconds) == (None, None)


@pytest.mark.parametrize(
    ("text", "reason", "context", "goes_on"),
    [
        ("a" * 19, "length", None, True),
        ("a" * 20, "length", None, False),  # the limit
        ("a" * 9, "stop", None, False),
        ("a" * 9, "length", 11, True),  # one prompt token and nine: one is free
        ("a" * 9, "length", 10, False),  # the model's context is full
    ],
)
def test_who_goes_on(text, reason, context, goes_on):
    going = Continuation(Rest(context), PARAMS, [eval_task("a", 1, 1)], None)
    assert going.can_continue(cut(text, finish_reason=reason)) == goes_on


def test_a_sample_without_its_tokens_cannot_go_on():
    going = Continuation(Rest(), PARAMS, [eval_task("a", 1, 1)], None)
    with pytest.raises(StapoError, match="a/0/0: its token ids are not stored, so it cannot be continued"):
        list(going.generate({SampleKey("a", "0", 0): cut("ab", token_ids=None)}))
    # To an engine that takes text alone they do not matter.
    text_alone = Continuation(Rest(), PARAMS, [eval_task("a", 1, 1, ids=False)], None)
    (found,) = text_alone.generate({SampleKey("a", "0", 0): cut("ab", token_ids=None)})
    assert (found.completion, found.num_tokens, found.token_ids) == ("abend", 5, None)


@pytest.mark.parametrize(
    ("imported", "prompt_format", "tool", "message"),
    [
        ("evalscope", "base", None, r"its samples were imported \(evalscope\); only runs sampled here continue"),
        (None, "message", None, "a server that chats cannot go on"),
        (None, "base", "calculator", "replies to t call a tool and cannot be continued"),
        (None, "base", None, "expected more than the run's 30, got 30"),
    ],
)
def test_what_cannot_go_on_is_refused(monkeypatch, imported, prompt_format, tool, message):
    task = SimpleNamespace(prompt_format=prompt_format, tool=tool)
    identity = SimpleNamespace(tasks={"t": task}, sampling=replace(PARAMS, max_new_tokens=30))
    old = SimpleNamespace(run_dir="run", imported=imported, identity=identity)
    monkeypatch.setattr(continuation, "load_manifest", lambda _: old)
    with pytest.raises(StapoError, match=message):
        continue_run(ContinueOptions(run_dir=Path("run"), max_new_tokens=30))


def test_what_was_still_thinking_at_the_budget_ends_it():
    params = replace(PARAMS, thinking_budget=8, thinking_end="</think>")
    going = Continuation(Rest(), params, [eval_task("a", 1, 1, style=PromptStyle(assistant_prefix="-"))], Tokenizer())
    thinking = cut("<think>a", prefix="-")
    ended = going.begun(thinking)
    assert ended.completion == "-<think>a</think>" and ended.token_ids == ids("<think>a</think>")
    assert ended.num_tokens == 16
    assert going.begun(replace(thinking, token_ids=None)).token_ids is None
    for other in (cut("<think>ab"), cut("no think"), replace(thinking, finish_reason="stop")):
        assert going.begun(other) is other


def test_thinking_and_its_end():
    assert [is_thinking(text) for text in ("", "<think>", "<think></think>", "</think><think>a")] == [0, 1, 0, 1]
    assert end_ids(Tokenizer(), "</think>") == ids("</think>")
    with pytest.raises(StapoError, match="expected a tokenizer that writes </think>"):
        end_ids(Tokenizer(forgets=True), "</think>")
    budget = replace(PARAMS, thinking_budget=11, thinking_end="</think>")  # 11 + 8 of 20: one token is left
    check_room(Tokenizer(), budget)
    check_room(None, PARAMS)
    with pytest.raises(UsageError, match=r"expected fewer than 12 tokens, .*\(8\).* 20, got 12"):
        check_room(Tokenizer(), replace(budget, thinking_budget=12))
    with pytest.raises(UsageError, match="expected a tokenizer to count"):
        check_room(None, budget)
    check_end("so</think>", ["no"])
    for end, stop in (("so", []), ("so</think>", ["no", "so"])):
        with pytest.raises(UsageError, match="--thinking-end"):
            check_end(end, stop)


@pytest.mark.parametrize(
    ("sampling", "budget", "found"),
    [
        (PARAMS, None, {}),
        (PARAMS, 20, {"thinking_budget": 20, "thinking_end": "</think>"}),
        (PARAMS, 19, None),
        (replace(PARAMS, thinking_budget=5, thinking_end="</think>"), 20, None),
    ],
)
def test_a_budget_is_the_limit_of_a_run_without_one(sampling, budget, found):
    run = SimpleNamespace(identity=SimpleNamespace(sampling=sampling), run_dir="run")
    if found is not None:
        assert thinking_fields(run, budget, "</think>") == found
    else:
        with pytest.raises(UsageError, match="expected a run without one whose samples were cut off at"):
            thinking_fields(run, budget, "</think>")


def test_an_engine_is_opened_once_for_what_it_takes(monkeypatch, tmp_path):
    opened, closed = [], []

    def open_for(options, eval_tasks):
        engine = SimpleNamespace(close=lambda: closed.append(options.folder.name), identity=lambda: {"engine": "x"})
        opened.append(options.folder.name)
        return engine

    monkeypatch.setattr(engine_cache, "open_for", open_for)
    monkeypatch.setattr(engine_cache, "sampling_params", lambda options: PARAMS)
    monkeypatch.setattr(engine_cache, "declared_identity", lambda engine, folder: {"engine": "declared"})

    def asked(name, engine=None):
        return SimpleNamespace(folder=tmp_path / name, engine=engine or EngineOptions(name="scripted"))

    tasks = [eval_task("a", 2, 1)]
    with engine_cache.EngineCache() as cache:
        assert (cache.identity(asked("x")), cache.has_weights(asked("x"))) == ({"engine": "declared"}, False)
        first = cache.engine(asked("x"), tasks)
        stays = asked("x", EngineOptions(name="scripted", positions=22))  # two tokens of a prompt and twenty
        assert cache.has_weights(stays) and cache.identity(stays) == {"engine": "x"}
        assert cache.engine(stays, tasks) is first
        assert cache.engine(asked("y"), tasks) is not first
    assert (opened, closed) == (["x", "y"], ["x", "y"])
    theirs = engine_cache.EngineCache(first)
    assert theirs.engine(asked("z"), tasks) is first and theirs.has_weights(asked("z"))
    assert theirs.identity(asked("z")) == {"engine": "x"}
    theirs.close()
    assert closed == ["x", "y"]


@pytest.mark.parametrize(("digest", "served"), [(SERVED + "gpt-5", True), ("sha256:ab", False), (None, False)])
def test_a_checkpoint_that_a_server_names_is_served(digest, served):
    assert _is_served(SimpleNamespace(identity=SimpleNamespace(checkpoint_digest=digest))) is served
