"""Servers that answer well and yet not as asked: one text for every seed, or another model's."""

import json
import re
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.bench import NUM_PROBLEMS, NUM_SAMPLES, Bench, stored
from tests.faults.process import Command, impatient, start
from tests.faults.servers import Act, Handler, answer, answering, free_port
from tests.faults.trial import Fault, Trial, WrongError, check, same

WORDS = "so that, as was to be shown, "
LONG = 400  # tokens of a text, as the server tells


def evaluated(bench: Bench, folder: Path, act: Act) -> Command:
    """An evaluation at such a server, ended."""
    port = free_port()
    server = answering(port, folder / "server", act)
    command = bench.eval(folder / "run", "--base-url", f"http://127.0.0.1:{port}/v1")
    command[command.index("scripted")] = "openai"
    command[command.index("--max-new-tokens") + 1] = 500
    try:
        done = start(command, folder, before=partial(impatient, timeout_s=10.0))
        done.wait()
        return done
    finally:
        server.kill()


def deaf_to_seeds(bench: Bench, rng: Random, folder: Path, *, every: int) -> Trial:
    """One text for all requests of a problem, or of every fifth: said at once, found, and counted once."""

    def act(handler: Handler, body: dict[str, Any]) -> None:
        problem = int(re.findall(r"\d+", body["prompt"] + "0")[0])  # "7 / 7?" is the seventh; "?" asks before the first
        text = problem if problem % every == 0 else body["seed"]
        choice = {"text": f"{text}: " + WORDS * 60 + f"\\boxed{{{problem}/7}}", "finish_reason": "stop"}
        told = {"choices": [choice], "usage": {"completion_tokens": min(LONG, body["max_tokens"])}}
        handler.reply(json.dumps(told).encode())

    done = evaluated(bench, folder, act).succeed()
    said = [line for line in done.err.splitlines() if "equal completions on" in line]
    check(len(said) == 1, f"said {len(said)} times while sampling")
    copies = NUM_PROBLEMS // every * (NUM_SAMPLES - 1)
    (task,) = json.loads((folder / "run" / "scores.json").read_text())["tasks"]
    same(task["num_copies"], copies, "copies")
    audit = start(["stapo-bench", "audit", folder / "run"], folder)
    check(audit.wait() == 3, "the audit does not end with its own exit code")
    if f"{copies} completions equal another of their problem" not in audit.out:
        raise WrongError(f"the audit does not say so: {audit.out[:300]}")
    return Trial(note=f"{copies} copies found")


def falling_back(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A gateway that answers a third of the requests, at their first try, by another model: none of that is stored."""
    tried: set[int] = set()

    def act(handler: Handler, body: dict[str, Any]) -> None:
        is_first = body["seed"] not in tried
        tried.add(body["seed"])
        model = "small" if is_first and body["seed"] % 3 == 0 else "tiny"
        told = answer(body)
        told["choices"][0]["text"] += f" says {model}"
        handler.reply(json.dumps({**told, "model": model}).encode())

    evaluated(bench, folder, act).succeed()
    texts = [row["completion"] for row in stored(folder / "run")]
    same(len(texts), NUM_PROBLEMS * NUM_SAMPLES, "samples")
    same([text for text in texts if not text.endswith("says tiny")], [], "another model's samples")
    return Trial()


def always_falling_back(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A gateway that has another model only: one line names both, and nothing is stored."""
    done = evaluated(
        bench, folder, lambda handler, body: handler.reply(json.dumps({**answer(body), "model": "small"}).encode())
    )
    line = done.fail(1)
    check("asked for model tiny, answered by 'small'" in line, f"does not say who answered: {line}")
    same(stored(folder / "run"), [], "samples")
    return Trial()


FAULTS = (
    Fault(name="a server deaf to seeds", unit="samples", trials=2, quick=1, inject=partial(deaf_to_seeds, every=1)),
    Fault(
        name="a server deaf to a fifth of the seeds",
        unit="samples",
        trials=2,
        quick=0,
        inject=partial(deaf_to_seeds, every=5),
    ),
    Fault(name="a gateway that falls back at times", unit="samples", trials=2, quick=0, inject=falling_back),
    Fault(name="a gateway that always falls back", unit="samples", trials=1, quick=1, inject=always_falling_back),
)
