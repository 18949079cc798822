"""The rest of a cut-off sample: generated behind its stored tokens, and joined to one sample under a larger limit.

A sample that a thinking budget has cut off while it was thinking gets the end of its thinking first: it is part of the
completion and of its tokens, and what follows is sampled as if the model had written it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, TypeVar

from stapo_bench.engines import Engine, cut_at_stop
from stapo_bench.errors import StapoError
from stapo_bench.records import Completion, Request, Sample, SampleKey, SamplingParams
from stapo_bench.sampling.eval_tasks import EvalTask
from stapo_bench.sampling.thinking import end_ids, is_thinking
from stapo_bench.seeds import derive_seed

Stated = TypeVar("Stated")


class Continuation:
    """Generates the rest of cut-off samples."""

    def __init__(
        self, engine: Engine, params: SamplingParams, eval_tasks: Sequence[EvalTask], tokenizer: Any | None
    ) -> None:
        self.engine = engine
        self._params = replace(params, thinking_budget=None, thinking_end=None)  # with the new limit
        self._budget, self._end = params.thinking_budget, params.thinking_end or ""
        self._end_ids = () if tokenizer is None or not self._end else end_ids(tokenizer, self._end)
        self._prompts = {(p.task, p.problem_id): p for one in eval_tasks for p in one.prompts}
        self._tokenizer = tokenizer
        self._prefixes = {one.task.name: one.style.assistant_prefix for one in eval_tasks}
        self._context_length: int | None = getattr(engine, "context_length", None)
        self.num_asked = sum(one.num_keys for one in eval_tasks)  # samples that the run is to have

    def begun(self, sample: Sample) -> Sample:
        """The sample with the end of its thinking, where it was cut off by the budget while it was thinking."""
        if sample.finish_reason != "length" or sample.num_tokens != self._budget:
            return sample
        if not is_thinking(self._prompts[sample.task, sample.problem_id].text + self._written(sample)):
            return sample
        return replace(
            sample,
            completion=sample.completion + self._end,
            token_ids=None if sample.token_ids is None else sample.token_ids + self._end_ids,
            num_tokens=known(sample.num_tokens) + len(self._end_ids),
        )

    def _written(self, sample: Sample) -> str:
        """What the model has written of a sample: all but what its prompt gave it."""
        return sample.completion.removeprefix(self._prefixes[sample.task])

    def can_continue(self, sample: Sample) -> bool:
        """Whether a sample was cut off by the limit; by the end of the model's context it stays cut off."""
        if sample.finish_reason != "length" or known(sample.num_tokens) >= self._params.max_new_tokens:
            return False
        ids = self._prompts[sample.task, sample.problem_id].token_ids
        return self._context_length is None or ids is None or len(ids) + known(sample.num_tokens) < self._context_length

    def generate(self, cut: dict[SampleKey, Sample]) -> Iterator[Sample]:
        """Yield the samples with their rest as each ends, and take them out of ``cut``; what is left there failed."""
        if self.engine.continues_exactly:
            for whole in self.engine.generate([self._whole_request(sample) for sample in cut.values()], self._params):
                if whole.finish_reason != "error":
                    text = self._prefixes[whole.key.task] + whole.text
                    yield self._extended(cut.pop(whole.key), replace(whole, text=text))
            return
        for length in sorted({known(sample.num_tokens) for sample in cut.values()}):  # usually a single length
            requests = [self._rest_request(sample) for sample in cut.values() if sample.num_tokens == length]
            params = replace(self._params, max_new_tokens=self._params.max_new_tokens - length)
            for rest in self.engine.generate(requests, params):
                if rest.finish_reason != "error":
                    sample = cut.pop(rest.key)
                    yield self._extended(sample, self._joined(sample, rest))

    def _whole_request(self, sample: Sample) -> Request:
        """The sample's own request, with what it has generated."""
        prompt = self._prompts[sample.task, sample.problem_id]
        return Request(key=sample.key, prompt=prompt, seed=known(sample.seed), generated_ids=_stored_ids(sample))

    def _rest_request(self, sample: Sample) -> Request:
        """A request whose prompt ends with what the sample has generated."""
        prompt = self._prompts[sample.task, sample.problem_id]
        return Request(
            key=sample.key,
            prompt=replace(
                prompt,
                text=prompt.text + self._written(sample),
                token_ids=None if prompt.token_ids is None else prompt.token_ids + _stored_ids(sample),
            ),
            seed=derive_seed(known(sample.seed), "continue", known(sample.num_tokens)),
        )

    def _joined(self, sample: Sample, rest: Completion) -> Completion:
        """The completion from the sample's first token on."""
        ids = None if sample.token_ids is None or rest.token_ids is None else sample.token_ids + rest.token_ids
        text = self._written(sample) + rest.text
        if self._tokenizer is not None and ids is not None:  # a character may lie across the cut
            text = self._tokenizer.decode(ids, skip_special_tokens=True)
        shown = cut_at_stop(text, self._params.stop)  # whose tokens are among the ids, and which may lie across the cut
        return replace(
            rest,
            text=self._prefixes[sample.task] + shown,
            finish_reason=rest.finish_reason if shown == text else "stop",
            token_ids=ids,
            num_tokens=known(sample.num_tokens) + rest.num_tokens,
        )

    def _extended(self, sample: Sample, whole: Completion) -> Sample:
        """The sample under the larger limit; ``whole`` has the log-probs and the time of its rest."""
        log_prob = None
        if sample.sum_log_prob is not None and whole.log_probs is not None:
            log_prob = sample.sum_log_prob + fsum(whole.log_probs)
        return replace(
            sample,
            completion=whole.text,
            num_tokens=whole.num_tokens,
            finish_reason=whole.finish_reason,
            token_ids=whole.token_ids if whole.finish_reason == "length" else None,
            sum_log_prob=log_prob,
            seconds=None if sample.seconds is None or whole.seconds is None else sample.seconds + whole.seconds,
        )


def known(value: Stated | None) -> Stated:
    """What every run and sample states that was drawn here; only of imported ones something may be unknown."""
    assert value is not None
    return value


def _stored_ids(sample: Sample) -> tuple[int, ...]:
    """The token ids of a cut-off sample; StapoError where its engine reported none."""
    if sample.token_ids is None:
        raise StapoError(
            f"{'/'.join(map(str, sample.key))}: its token ids are not stored, so it cannot be continued; "
            "evaluate anew with the larger limit"
        )
    return sample.token_ids
