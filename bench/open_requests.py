"""Threads and memory of the client that keeps thousands of requests open at a server.

    python -m bench.open_requests --json results/bench/engine.json

A server in a process of its own answers none before all are open, so that the first answer shows what all of them take:
threads of this process and its resident memory, beside those before the first was sent.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stapo_bench.engines.openai import OpenAIEngine
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs import measured_with, write_result

PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1024)


async def serve(wanted: int) -> None:
    """Print the address, answer ``wanted`` requests for completions once all are there, and go on until killed."""
    is_open, all_there = 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal is_open
        head = await reader.readuntil(b"\r\n\r\n")
        content: dict[str, Any] = {"data": [{"id": "tiny", "max_model_len": 4096}]}
        if head.startswith(b"POST"):
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = json.loads(await reader.readexactly(int(length.split(b":")[1])))
            content = {"choices": [{"text": "4", "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
            if "prompt" in asked:
                is_open += 1
                if is_open == wanted:
                    all_there.set()
                await all_there.wait()
        text = json.dumps(content).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=wanted)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def taken() -> dict[str, float]:
    """Threads and resident MB of this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return {"threads": int(lines["Threads"]), "resident_mb": int(lines["VmRSS"].split()[0]) / 1000}


def measure(number: int, prompt_tokens: int) -> dict[str, Any]:
    """What ``number`` open requests take, with prompts of so many token ids."""
    command = [sys.executable, "-m", "bench.open_requests", "--serve", str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdout is not None
        try:
            engine = OpenAIEngine([server.stdout.readline().strip()], concurrency=number)
            requests = [
                Request(
                    key=SampleKey("bench", str(i), 0),
                    prompt=Prompt(task="bench", problem_id=str(i), text="", token_ids=tuple(range(prompt_tokens))),
                    seed=i,
                )
                for i in range(number)
            ]
            before = taken()
            running = engine.generate(requests, PARAMS)
            answers = [next(running)]
            there = taken()
            answers += running
            assert len({answer.key for answer in answers}) == number
        finally:
            server.kill()
    more = {name: round(there[name] - before[name], 1) for name in before}
    return {"requests": number, "prompt_tokens": prompt_tokens, "before": before, "more": more}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--prompt-tokens", type=int, default=200)
    parser.add_argument("--json", type=Path, help="also write what was measured here; the rest of the file stays")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve is not None:
        asyncio.run(serve(given.serve))
        return
    found = measure(given.requests, given.prompt_tokens)
    print(json.dumps(found))
    if given.json:
        facts = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else {}
        facts["open_requests"] = {**measured_with(["httpcore2", "anyio"]), **found}
        write_result(given.json, json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
