"""A "model" that calls the calculator, and an evaluation of it; imported by the tests of replies that call tools.

Its tokenizer is the byte tokenizer, so that a character is a token.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from stapo_bench.engines import cut_at_stop
from stapo_bench.engines.tool_calls import ToolUse
from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams
from stapo_bench.sampling import EvalOptions, evaluate
from stapo_bench.tasks import get_tool
from stapo_train.tiny.random_model import byte_tokenizer, random_model, save

USE = ToolUse(tool=get_tool("calculator"), tokenizer=byte_tokenizer())
CALLS = {"sums": USE}
PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=200)


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(USE.tokenizer(text)["input_ids"])


class Clerk:
    """Asked ``n``, it has the calculator triple it and add one, calling it ``num_calls`` times, and then says ``last``:
    what it got, in a box, where nothing else is given.

    A letter that follows from the seed begins each turn, and its log-prob is that letter's number.
    """

    continues_exactly = False
    context_length = 512

    def __init__(self, *, num_calls: int = 2, fail_after: int | None = None, last: str = "so \\boxed{{{}}}.") -> None:
        self.num_calls, self.fail_after, self.last = num_calls, fail_after, last
        self.requests: list[Request] = []

    def identity(self) -> dict[str, str]:
        return {"engine": "clerk"}

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        for request in requests:
            if self.fail_after is not None and len(self.requests) == self.fail_after:
                raise RuntimeError("out of luck")
            self.requests.append(request)
            yield self._turn(request, params)

    def _turn(self, request: Request, params: SamplingParams) -> Completion:
        prompt = USE.tokenizer.decode(request.prompt.token_ids)
        assert prompt == request.prompt.text
        (asked, *_), outputs = re.findall(r"\d+", prompt), re.findall(r"<output>(.*?)</output>", prompt)
        last = outputs[-1] if outputs else asked
        sum_ = f"{last} * 3" if not outputs else f"{last} + 1"
        said = f"<calculator>{sum_}</calculator>" if len(outputs) < self.num_calls else self.last.format(last)
        letter = request.seed % 26
        text = chr(ord("a") + letter) + said
        for stop in params.stop:  # the token that completes a stop text is the last
            if stop in text:
                text = text[: text.index(stop) + len(stop)]
        ids = ids_of(text)[: request.max_new_tokens or params.max_new_tokens]
        whole = len(ids) == len(text)
        return Completion(
            key=request.key,
            text=cut_at_stop(text, params.stop) if whole else text[: len(ids)],
            finish_reason="stop" if whole else "length",
            num_tokens=len(ids),
            token_ids=ids,
            log_probs=(-float(letter),) * len(ids),
            seconds=0.5,
        )

    def close(self) -> None:
        """Nothing to give back."""


def request(number: int, seed: int = 0, task: str = "sums") -> Request:
    text = f"{number}?"
    prompt = Prompt(task=task, problem_id=f"p{number}", text=text, token_ids=ids_of(text))
    return Request(key=SampleKey(task, prompt.problem_id, 0), prompt=prompt, seed=seed)


def tool_options(folder: Path, tool: str | None = "calculator", num_problems: int = 5) -> EvalOptions:
    """An evaluation of ``n``-problems, whose gold is 3 n + 1, with a checkpoint that holds the byte tokenizer."""
    if not (folder / "model").exists():
        save(random_model(), folder / "model")
    rows = [{"id": f"p{n}", "problem": f"{n}?", "answer": str(3 * n + 1)} for n in range(num_problems)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metadata = f"num_problems: {num_problems}, prompt_format: plain" + (f", tool: {tool}" if tool else "")
    (folder / "sums.yaml").write_text(
        f"task: sums\nrepeats: 3\ndoc_to_text: '{{{{problem}}}}'\nmetadata: {{{metadata}}}\n"
    )
    return EvalOptions(
        checkpoint=folder / "model",
        decoding="training",
        tasks=(str(folder / "sums.yaml"),),
        out=folder / "run",
        data_dir=folder,
        max_new_tokens=200,
    )


def run(options: EvalOptions, engine: Clerk) -> None:
    evaluate(options, engine=engine, watch=io.StringIO())
