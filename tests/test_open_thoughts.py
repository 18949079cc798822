"""A thought that was cut off stays open, however a server writes that no answer followed it."""

import pytest
from fake_server import QUICK, make_requests, serving

from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.records import SamplingParams

serve = pytest.fixture(serving)

PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=50)


@pytest.mark.parametrize(
    ("seed", "content", "text"),  # the server ends seed 3 for length, seed 1 by itself
    [
        (3, "", "<think>2 +"),
        (3, None, "<think>2 +"),
        (3, "4", "<think>2 +</think>4"),  # the answer was cut off, the thought was not
        (1, "", "<think>2 +</think>"),
        (1, None, "<think>2 +"),
    ],
)
def test_only_a_thought_that_ended_is_closed(serve, seed, content, text):
    server = serve()
    server.chats_only = True
    server.thought = {"reasoning_content": "2 +", "content": content}
    engine = OpenAIEngine([server.url], chat=True, retries=QUICK)
    (completion,) = engine.generate(make_requests(4)[seed : seed + 1], PARAMS)
    assert (completion.text, completion.finish_reason) == (text, "length" if seed == 3 else "stop")
