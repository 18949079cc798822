"""Replies that call a tool: drawn up to the end of a call, answered, and drawn on behind the answer.

    calls = {"sums": ToolUse(tool=get_tool("calculator"), tokenizer=tokenizer)}
    for completion in generate_with_tools(engine, requests, params, calls): ...

    prompt ─► drawn … </calculator> ─► <output>4</output> ─► drawn … </calculator> ─► <output>7</output> ─► drawn … end
              turn 0, the sample's seed                      turn 1, a seed of its own                       turn 2

A reply is a function of its prompt, its seed and the parameters, as one without a tool is: turn n > 0 is drawn with the
seed ``derive_seed(seed, "tool", n)`` behind all tokens so far, the tool's included. So one that was stopped between two
turns is drawn again as it was, and a reply that calls nothing is what it would be without a tool.

The limit on new tokens holds for drawn tokens and the tool's together. A reply is cut off (``length``) at a call whose
output leaves no token within it, and at one call more than ``MOST_CALLS``. Evaluation and training both draw by this.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from stapo_bench.engines.engine import Engine
from stapo_bench.engines.params import cut_at_stop
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, FinishReason, Request, SampleKey, SamplingParams, ToolOutput
from stapo_bench.seeds import derive_seed

if TYPE_CHECKING:  # what knows engines by name alone, as --help does, loads no tasks
    from stapo_bench.tasks import Tool

MOST_CALLS = 8
"""Calls that a reply may make; one more ends it, as the token limit would."""

AT_ONCE = 1024
"""Replies whose turns are drawn together: what a kill between turns can cost."""


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A tool, and the tokenizer that turns its outputs into tokens: the model's."""

    tool: "Tool"
    tokenizer: Any


@dataclass(frozen=True, kw_only=True)
class _Reply:
    """A reply as far as it has come."""

    request: Request
    budget: int  # drawn tokens and the tool's together, at most
    drawn: tuple[int, ...] = ()
    log_probs: tuple[float, ...] | None = ()
    outputs: tuple[ToolOutput, ...] = ()
    whole: tuple[int, ...] = ()  # drawn tokens and the tool's, as they follow one another
    seconds: float | None = 0.0

    def next_turn(self, use: ToolUse) -> Request:
        """What the engine is asked for next."""
        if not self.outputs:
            return self.request
        prompt = self.request.prompt
        return replace(
            self.request,
            prompt=replace(
                prompt, text=prompt.text + _text(use, self.whole), token_ids=_ids(self.request) + self.whole
            ),
            seed=derive_seed(self.request.seed, "tool", len(self.outputs)),
            max_new_tokens=self.budget - len(self.whole),
        )

    def with_turn(self, turn: Completion) -> "_Reply":
        """The reply with what was drawn last."""
        new = turn.token_ids or ()
        known = None if self.log_probs is None or turn.log_probs is None else self.log_probs + turn.log_probs
        seconds = None if self.seconds is None or turn.seconds is None else self.seconds + turn.seconds
        return replace(self, drawn=self.drawn + new, whole=self.whole + new, log_probs=known, seconds=seconds)

    def with_output(self, ids: tuple[int, ...]) -> "_Reply":
        """The reply with what the tool says."""
        told = ToolOutput(len(self.drawn), ids)
        return replace(self, outputs=(*self.outputs, told), whole=self.whole + ids)

    def completion(self, use: ToolUse, turn: Completion, reason: FinishReason, num_hidden: int = 0) -> Completion:
        """The whole completion, whose last turn is given, without so many of its last characters."""
        text = _text(use, self.whole)
        return replace(
            turn,
            text=text[: len(text) - num_hidden],
            finish_reason=reason,
            num_tokens=len(self.drawn),
            token_ids=self.drawn,
            log_probs=self.log_probs,
            seconds=self.seconds,
            tool_outputs=self.outputs,
        )


def generate_with_tools(
    engine: Engine, requests: Iterable[Request], params: SamplingParams, calls: Mapping[str, ToolUse]
) -> Iterator[Completion]:
    """Yield one completion per request, as ``Engine.generate`` does, with what tools were asked on the way.

    Args:
        engine: one that can go on behind a tool's output (``check_tool``), where a tool may be called.
        requests: with the prompts' token ids, where a tool may be called.
        params: with the limit on a whole reply.
        calls: by task, the tool that its replies may call; other tasks have none.
    """
    if not calls:
        yield from engine.generate(requests, params)
        return
    waiting = iter(requests)
    while some := list(islice(waiting, AT_ONCE)):
        if alone := [request for request in some if request.key.task not in calls]:
            yield from engine.generate(alone, params)
        for task, use in calls.items():
            yield from _with_tool(engine, [request for request in some if request.key.task == task], params, use)


def _with_tool(
    engine: Engine, requests: Sequence[Request], params: SamplingParams, use: ToolUse
) -> Iterator[Completion]:
    """The replies to these requests, each of which may call the tool."""
    until_call = replace(params, stop=(*params.stop, use.tool.end))
    context: int | None = getattr(engine, "context_length", None)
    open_: dict[SampleKey, _Reply] = {}
    for request in requests:
        room = params.max_new_tokens if context is None else context - len(_ids(request))
        open_[request.key] = _Reply(request=request, budget=min(params.max_new_tokens, room))
    while open_:
        calling: dict[SampleKey, _Reply] = {}
        for turn in engine.generate([reply.next_turn(use) for reply in open_.values()], until_call):
            if turn.finish_reason == "error":
                yield turn
                continue
            reply = open_[turn.key].with_turn(turn)
            written = _text(use, turn.token_ids or ())
            shown = cut_at_stop(written, params.stop)
            if use.tool.end not in shown:
                yield reply.completion(use, turn, turn.finish_reason, len(written) - len(shown))
                continue
            output = tuple(use.tokenizer(use.tool.answer(shown), add_special_tokens=False)["input_ids"])
            if len(reply.outputs) == MOST_CALLS or len(reply.whole) + len(output) >= reply.budget:
                yield reply.completion(use, turn, "length")
            else:
                calling[turn.key] = reply.with_output(output)
        open_ = calling


def _ids(request: Request) -> tuple[int, ...]:
    """The prompt's token ids; StapoError where it has none."""
    if request.prompt.token_ids is None:
        raise StapoError(f"{'/'.join(map(str, request.key))}: a tool is called: expected token ids, got text alone")
    return request.prompt.token_ids


def _text(use: ToolUse, ids: tuple[int, ...]) -> str:
    return str(use.tokenizer.decode(ids, skip_special_tokens=True))
