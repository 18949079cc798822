"""`vllm serve` for real, on a CPU too: asked for completions and for chat, killed in the middle, started again.

Run by ``scripts/integration.sh vllm``, in an environment with vLLM.
"""

import importlib.util
import io
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.engines import end, free_port, start_server
from stapo_bench.engines import EngineOptions
from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.engines.servers import Retries
from stapo_bench.errors import StapoError
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.store import read_samples
from stapo_bench.sampling.eval_options import EvalOptions
from stapo_bench.sampling.evaluation import evaluate

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: scripts/integration.sh runs this"
)

IMPATIENT = Retries(tries=3, first_pause_s=0.2)


@pytest.fixture
def start(checkpoint, tmp_path) -> Iterator[Callable[[], tuple[str, subprocess.Popen]]]:
    """Starts the server at one address, again and again; each is ended with all its processes."""
    port, running = free_port(), []

    def begin() -> tuple[str, subprocess.Popen]:
        # A step takes one prompt of the longest: two that come together would be cut, were that not forbidden.
        running.append(start_server(checkpoint, tmp_path, port, "--max-num-batched-tokens", "512"))
        return f"http://127.0.0.1:{port}/v1", running[-1]

    yield begin
    for server in running:
        end(server)


def test_a_server_is_asked_both_ways_killed_and_gone_on_with(start, checkpoint, tmp_path):
    url, server = start()

    def draw(name: str, samples: int, *, chat: bool = False, watch: io.StringIO | None = None) -> Path:
        """4 problems of the tiny suite."""
        options = EvalOptions(
            checkpoint=None if chat else checkpoint,
            decoding="justrl",
            tasks=("tiny_aime24",),
            out=tmp_path / name,
            samples=samples,
            limit=4,
            max_new_tokens=24,
            engine=EngineOptions(name="openai", base_urls=(url,), model="served", chat=chat),
        )
        engine = OpenAIEngine([url], model="served", chat=chat, retries=IMPATIENT, concurrency=4)
        return evaluate(options, engine=engine, watch=watch or io.StringIO()).run_dir

    for name, chat in (("completions", False), ("chat", True)):
        watch = io.StringIO()
        run = draw(name, 2, chat=chat, watch=watch)
        assert len({sample.key for sample in read_samples(run)}) == 4 * 2
        assert len({sample.completion for sample in read_samples(run)}) == 4 * 2
        engine = load_manifest(run).identity.engine
        assert engine["server"].startswith("vllm 0.")
        assert (engine["context_length"], engine.get("api")) == ("512", "chat" if chat else None)
        assert engine["log_probs"] == "as drawn"
        assert all(sample.sum_log_prob < 0 for sample in read_samples(run))
        assert "ignored" not in watch.getvalue() and "limit of its own" not in watch.getvalue()

    crowd = [  # prompts of 300 tokens
        Request(
            key=SampleKey("t", str(i), 0),
            prompt=Prompt(task="t", problem_id=str(i), text=f"{i:03d}" * 100),
            seed=i,
        )
        for i in range(8)
    ]
    with closing(OpenAIEngine([url], model="served", retries=IMPATIENT)) as engine:
        params = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=4)
        assert {c.finish_reason for c in engine.generate(crowd, params)} <= {"stop", "length"}
    assert server.poll() is None, "the server died of seeded prompts that wait for one another"

    before = {sample.key: sample.completion for sample in read_samples(tmp_path / "completions")}

    class Watch(io.StringIO):
        """Kills the server as the run begins to draw."""

        def write(self, text: str) -> int:
            if "run folder" in text:
                end(server)
            return super().write(text)

    with pytest.raises(StapoError, match=r"requests in a row failed 3 times each.* run the same command again"):
        draw("completions", 8, watch=Watch())
    assert {sample.key: sample.completion for sample in read_samples(tmp_path / "completions")} == before

    _, server = start()
    draw("completions", 8)
    after = {sample.key: sample.completion for sample in read_samples(tmp_path / "completions")}
    assert len(after) == 4 * 8
    assert {key: after[key] for key in before} == before
    again = {sample.key: sample.completion for sample in read_samples(draw("again", 2))}
    assert again == before  # the same seeds at a server that was started again
