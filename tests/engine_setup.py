"""Requests for the embedded engine; imported by its tests."""

import random
from collections.abc import Iterable

from stapo_bench.records import Completion, Prompt, Request, SampleKey, SamplingParams

PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=40)


def make_requests(num_prompts: int, samples: int = 3) -> list[Request]:
    rng = random.Random(0)
    prompts = [
        Prompt(task="t", problem_id=f"p{i}", text="", token_ids=tuple(rng.choices(range(256), k=rng.randint(1, 20))))
        for i in range(num_prompts)
    ]
    return [
        Request(key=SampleKey("t", prompt.problem_id, j), prompt=prompt, seed=1000 * j + i)
        for j in range(samples)
        for i, prompt in enumerate(prompts)
    ]


def tokens_of(completions: Iterable[Completion]) -> dict[SampleKey, tuple[int, ...]]:
    found = list(completions)
    by_key = {completion.key: completion.token_ids for completion in found}
    assert len(by_key) == len(found), "a sample was returned twice"
    return by_key
