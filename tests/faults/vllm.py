"""kill -9 of rollout engines: of a trainer and of an ``eval`` with vLLM inside, and of vLLM's workers.

    STAPO_BENCH_VLLM_PYTHON=.venv-vllm/bin/python -m tests.faults --only vLLM

vLLM needs an environment of its own (``scripts/integration.sh vllm`` makes one). A trial is performed by that
environment's interpreter, which runs this checkout's code and forks its commands as the campaign does. Where there is
no such environment the row says so.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.bench import Bench, key_of, num_lines, results, reward_by_hash, stored, trained_results, until
from tests.faults.kills import children
from tests.faults.process import Command, fork, preload, start
from tests.faults.trial import BrokenError, Fault, Trial, WrongError, check, same

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = "STAPO_BENCH_VLLM_PYTHON"
"""Environment variable: the interpreter of an environment with vLLM; default .venv-vllm's."""
PATIENCE_S = 1200.0  # of one trial; vLLM starts in ten seconds, on a busy machine in a minute or two
START_S = 300.0
KILLS = 3  # into one run


# -- in the environment with vLLM -------------------------------------------------------------------------------------


def train(bench: Bench, out: Path) -> list[object]:
    """Six iterations on vLLM's rollouts, a checkpoint after every second."""
    sizes = ("iterations=6", "checkpoint.every=2", "rollout.prompts=8", "rollout.max_new_tokens=48")
    return [*bench.train(out), "rollout.engine=vllm", *sizes]


def evaluation(bench: Bench, run: Path) -> list[object]:
    """The bench's task, drawn by vLLM from its random checkpoint."""
    command = bench.eval(run)
    command[command.index("scripted")] = "vllm"
    command[command.index("--ckpt") + 1] = bench.base
    return [*command, "--samples", 32, "--slots", 16]  # forty times 16 at once: some seconds


def unbroken(bench: Bench, command: Callable[[Bench, Path], list[object]], folder: Path) -> Path:
    """The same command uninterrupted; a result of an earlier trial is used again."""
    start(command(bench, folder), bench.outputs, before=reward_by_hash).succeed()
    return folder


def kill_trainer(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A trainer dies with the engine in it, at random moments from the first rollout on."""
    whole, out, lost, injected = unbroken(bench, train, bench.root / "vllm" / "trained"), folder / "run", 0, 0
    for _ in range(KILLS):
        command = start(train(bench, out), folder, before=reward_by_hash)
        training(command)
        time.sleep(rng.uniform(0.0, 4.0))
        injected += command.poll() is None
        command.kill()
        states = [int(path.name.removeprefix("step-")) for path in (out / "state").glob("step-*")]
        if not (out / "checkpoints" / "final").exists():
            lost += max(0, num_lines(out / "metrics.jsonl") - max(states, default=0))
    start(train(bench, out), folder, before=reward_by_hash).succeed()
    same(trained_results(out), trained_results(whole), "weights and metrics")
    return Trial(injected=injected, lost=lost)


def kill_eval(bench: Bench, rng: Random, folder: Path) -> Trial:
    """An evaluation dies with the engine in it; stored samples stay, and the rest is sampled identically."""
    whole, run, lost, injected = unbroken(bench, evaluation, bench.root / "vllm" / "run"), folder / "run", 0, 0
    for _ in range(KILLS):
        before = stored(run)
        command = start(evaluation(bench, run), folder)
        drawing(command, run, len(before))
        time.sleep(rng.uniform(0.0, 1.0))
        injected += command.poll() is None
        command.kill()
        lost += sum(row not in stored(run) for row in before)
    start(evaluation(bench, run), folder).succeed()
    same(results(run), results(whole), "samples, grades, scores or table")
    return Trial(injected=injected, lost=lost)


def kill_worker(bench: Bench, rng: Random, folder: Path) -> Trial:
    """One of the two processes that share the model dies: one line, what is safe is told, no process is left."""
    run = folder / "run"
    arguments = [*map(str, evaluation(bench, run)), "--tensor-parallel", "2"]
    command = new_process(arguments, folder)
    drawing(command, run, 0)
    processes = [pid for pid in descendants(command.pid) if b"VLLM::Worker" in cmdline(pid)]
    check(len(processes) == 2, f"expected two processes that share the model, got {len(processes)}")
    time.sleep(rng.uniform(0.0, 1.0))
    os.kill(rng.choice(processes), 9)
    command.wait(START_S)
    line = command.fail(1)
    safe = stored(run)
    check("the engine stopped" in line and "to go on" in line, f"not what happened: {line}")
    check(f"{len(safe)} new samples are safe" in command.err, f"what is safe is not told: {command.err[-300:]}")
    check(until(lambda: not any(map(cmdline, processes)), 20), "a process is left behind")
    again = new_process(arguments, folder)
    again.wait(START_S)
    again.succeed()
    rows = stored(run)
    keys, texts = [key_of(row) for row in rows], [row["completion"] for row in rows]
    whole = stored(unbroken(bench, evaluation, bench.root / "vllm" / "run"))
    same(keys, [key_of(row) for row in whole], "keys")
    differing = sum(text != row["completion"] for text, row in zip(texts, whole, strict=True))
    return Trial(
        lost=sum(row not in rows for row in safe),
        note=f"{differing} of {len(rows)} samples are others than those of one process",
    )


def new_process(arguments: Sequence[str], folder: Path) -> Command:
    """``stapo-bench`` in a new interpreter: vLLM's workers start from its main module, which a fork of ours is not."""
    settings = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "0|1"}  # one processor for each of the two
    command = [sys.executable, "-m", "stapo_bench", *arguments[1:]]
    return fork(lambda: os.execve(sys.executable, command, settings), folder)


def training(command: Command) -> None:
    """Wait until a trainer has its engine: it says then what it will do."""
    begun = until(lambda: "  settings: " in command.err or command.poll() is not None, START_S)
    check(begun and command.poll() is None, f"no iteration was begun: {command.err[-300:]}")


def drawing(command: Command, run: Path, num_before: int) -> None:
    """Wait until an evaluation has drawn its first samples."""
    begun = until(lambda: len(stored(run)) > num_before or command.poll() is not None, START_S)
    check(begun, f"no sample was drawn: {command.err[-300:]}")


def descendants(pid: int) -> list[int]:
    """Ids of all processes below this one."""
    return [found for child in children(pid) for found in (child, *descendants(child))]


def cmdline(pid: int) -> bytes:
    """A process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


TRIALS: dict[str, Callable[[Bench, Random, Path], Trial]] = {
    "kill -9 stapo-train with vLLM in it": kill_trainer,
    "kill -9 eval with vLLM in it": kill_eval,
    "kill -9 one of two processes of vLLM": kill_worker,
}


def main() -> None:
    """Perform one trial and tell what came of it in the last line."""
    name, root, seed, folder = sys.argv[1:]
    preload()
    from vllm import LLM  # noqa: F401

    told: dict[str, Any]
    try:
        told = asdict(TRIALS[name](Bench(Path(root)), Random(int(seed)), Path(folder)))
    except BrokenError as error:
        told = {"error": str(error), "is_wrong": isinstance(error, WrongError)}
    print(json.dumps(told))


# -- in the campaign --------------------------------------------------------------------------------------------------


def elsewhere(bench: Bench, rng: Random, folder: Path, *, name: str) -> Trial:
    """One trial in the environment with vLLM."""
    python = Path(os.environ.get(PYTHON) or ROOT / ".venv-vllm" / "bin" / "python").absolute()
    if not python.exists():
        return Trial(injected=0, note=f"not run: there is no {python}; scripts/integration.sh vllm makes it")
    places = os.pathsep.join(str(ROOT / part) for part in (".", "train"))
    settings = {"PYTHONPATH": places, "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [str(python), "-m", "tests.faults.vllm", name, str(bench.root), str(rng.getrandbits(32)), str(folder)]
    host = fork(lambda: os.execve(python, command, os.environ | settings), folder / "host")
    code = host.wait(PATIENCE_S)
    check(code == 0, f"the interpreter with vLLM ended with {code}: {host.err[-300:]}")
    told = json.loads(host.out.splitlines()[-1])
    if "error" in told:
        raise (WrongError if told["is_wrong"] else BrokenError)(told["error"])
    return Trial(**told)


FAULTS = tuple(
    Fault(
        name=name,
        unit="iterations" if "train" in name else "samples",
        trials=1 if "two" in name else 2,
        quick=0,
        inject=partial(elsewhere, name=name),
    )
    for name in TRIALS
)

if __name__ == "__main__":
    main()
