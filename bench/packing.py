#!/usr/bin/env python3
"""An update's forward and backward passes over packed rows and over padded ones: time, memory, and whether they agree.

    python -m bench.packing --size 0.6b [--json results/bench/packing_gpu.json]       # an NVIDIA GPU
    python -m bench.packing --device cpu --size toy                                   # any machine

Padded rows run under SDPA, which then needs no mask. Packed rows run under whatever attention there is: SDPA with a
mask, the flash attention that PyTorch carries (``torch_varlen``; row by row in SDPA on a CPU), FlexAttention, and the
flash-attn packages. All get the same rollouts of a model of random weights, in micro-batches of as many positions.
Everything runs in bfloat16 over float32 weights on a GPU and in float64 on a CPU; the difference is that of the
gradients' norms to the padded gradient's, and the largest of a log-prob.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench import gpu_setup as setup
from stapo_bench.runs import measured_with
from stapo_train.fused import varlen
from stapo_train.policy import Policy, set_attention

PACKED = ("sdpa", varlen.NAME, "flex_attention", "flash_attention_2", "flash_attention_3")


def main() -> None:
    """Measure each way, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    setup.add_options(parser)
    parser.add_argument("--repeats", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement to this file")
    options = parser.parse_args()
    size = setup.SIZES[options.size or "toy"]
    varlen.register()
    dtype = torch.float32 if options.device == "cuda" else torch.float64
    batch, _ = setup.random_batch(size, options.device, dtype)
    padded = Policy(
        model=setup.random_model(size, options.device, dtype),
        temperature=1.0,
        micro_batch_tokens=size.micro_batch_tokens,
        autocast=options.device == "cuda",
    )
    base = measure(padded, batch, options)
    ways: dict[str, dict[str, Any]] = {"padded, sdpa": about(base, base)}
    missing: dict[str, str] = {}
    for name in PACKED:
        try:
            set_attention(padded.model, name)
            ways[f"packed, {name}"] = about(measure(replace(padded, packed=True), batch, options), base)
        except Exception as error:  # an attention may fail in any way; it is named as not run, and has no figures
            missing[f"packed, {name}"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
    result = {
        "size": options.size or "toy",
        "num_rollouts": size.rollouts,
        "num_positions": sum(len(prompt) + len(response) for prompt, response in batch.rows),
        "micro_batch_tokens": size.micro_batch_tokens,
        "ways": ways,
        "not_run": missing,
        **measured_with(("torch", "transformers", "triton", "flash-attn")),
    }
    print(render(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measure(policy: Policy, batch: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Median seconds and peak memory of the passes, their positions, log-probs and gradient."""
    rows = range(len(batch.rows))
    seconds = []
    for repeat in range(options.repeats + 1):
        policy.model.zero_grad()
        if options.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        setup.synchronized(options.device)
        start, positions, log_probs = time.perf_counter(), 0, torch.zeros_like(batch.stats.advantages)
        for micro in policy.split(batch, rows):
            now = policy.stats(batch, micro)
            (now.log_probs * now.advantages).sum().backward()
            log_probs[micro.tokens] = now.log_probs.detach()
            positions += micro.input_ids.numel()
        setup.synchronized(options.device)
        if repeat:  # the first warms up
            seconds.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(seconds),
        "num_positions": positions,
        "peak_bytes": setup.peak_bytes(options.device),
        "log_probs": log_probs,
        "gradient": torch.cat([p.grad.flatten().cpu() for p in policy.model.parameters()]),
    }


def about(found: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """What is written of a way, beside the padded one."""
    difference = (found["gradient"] - base["gradient"]).norm() / base["gradient"].norm()
    return {
        "seconds": found["seconds"],
        "ratio_to_padded": found["seconds"] / base["seconds"],
        "num_positions": found["num_positions"],
        "peak_bytes": found["peak_bytes"],
        "gradient_difference": float(difference),
        "log_prob_difference": float((found["log_probs"] - base["log_probs"]).abs().max()),
    }


def render(result: dict[str, Any]) -> str:
    """A short table: time, memory, differences."""
    lines = [
        f"packing, {result['size']}: {result['num_rollouts']} rollouts, {result['num_positions']} positions",
        f"  {'':<28}{'seconds':>9}{'/ padded':>10}{'positions':>11}{'peak MB':>13}{'gradient diff':>15}"
        f"{'log-prob diff':>15}",
    ]
    for label, way in result["ways"].items():
        lines.append(
            f"  {label:<28}{way['seconds']:>9.3f}{way['ratio_to_padded']:>10.2f}{way['num_positions']:>11}"
            f"{setup.megabytes(way['peak_bytes']):>13}{way['gradient_difference']:>15.1e}"
            f"{way['log_prob_difference']:>15.1e}"
        )
    return "\n".join(lines + [f"  {label:<28}not run: {why}" for label, why in result["not_run"].items()])


if __name__ == "__main__":
    main()
