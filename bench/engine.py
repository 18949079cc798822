"""Tokens per second of the embedded engine beside transformers' own two ways, on the same prompts in one run.

    python -m bench.engine --requests 512 --slots 64 --json results/bench/engine.json

`generate` runs left-padded batches and waits for the longest of each; `generate_batch` is transformers' continuous
batching. Without --ckpt the model is a random Qwen3 of half a million parameters whose sequences end at long-tailed
(geometric) lengths. A token counts when it was generated before or as the end of its sequence; padding does not.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from stapo_bench.engines.transformers import TransformersEngine, load_checkpoint
from stapo_bench.records import Prompt, Request, SampleKey, SamplingParams
from stapo_bench.runs import measured_with
from stapo_train.tiny.random_model import byte_tokenizer, random_model

Lengths = list[int]
END_SHARE = 0.02  # of the random model's probability: a geometric length of 50 tokens in the mean


def long_tailed_model() -> Any:
    """Sequences end at geometric lengths: ``END_SHARE`` of the probability, as long as all ids are about as likely."""
    count = math.ceil(300 * END_SHARE)
    ends = range(300 - count, 300)
    return random_model(hidden_size=128, num_layers=4, context_length=2048, sharpness=1.0, end_ids=ends)


def make_requests(count: int, samples: int, vocabulary: int) -> list[Request]:
    """``count`` requests over prompts of 12 to 28 random tokens, ``samples`` of each, prompt by prompt in rounds."""
    rng = random.Random(0)
    prompts = [
        Prompt(task="bench", problem_id=str(i), text="", token_ids=tuple(rng.choices(range(vocabulary), k=length)))
        for i, length in enumerate(rng.choices(range(12, 29), k=count // samples))
    ]
    return [
        Request(key=SampleKey("bench", prompt.problem_id, j), prompt=prompt, seed=j * len(prompts) + i)
        for j in range(samples)
        for i, prompt in enumerate(prompts)
    ]


def run_ours(model: Any, tokenizer: Any, requests: list[Request], params: SamplingParams, slots: int) -> Lengths:
    """All requests by our engine."""
    engine = TransformersEngine(model, tokenizer, slots=slots)
    return [completion.num_tokens for completion in engine.generate(requests, params)]


def run_generate(model: Any, tokenizer: Any, requests: list[Request], params: SamplingParams, slots: int) -> Lengths:
    """The same by ``generate`` in batches of equal size."""
    lengths, ends = [], torch.tensor(model.generation_config.eos_token_id, device=model.device).flatten()
    for start in range(0, len(requests), slots):
        prompts = [request.prompt.token_ids or () for request in requests[start : start + slots]]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        out = model.generate(ids, attention_mask=mask, generation_config=_plain(model, params))[:, width:]
        before_end = torch.isin(out, ends).long().cumsum(-1) - torch.isin(out, ends).long() == 0
        lengths += before_end.sum(-1).tolist()
    return lengths


def run_generate_batch(
    model: Any, tokenizer: Any, requests: list[Request], params: SamplingParams, slots: int
) -> Lengths:
    """The same by transformers' own continuous batching."""
    prompts = [list(request.prompt.token_ids or ()) for request in requests]
    page = 64
    pages = math.ceil((max(map(len, prompts)) + params.max_new_tokens) / page)  # of the longest sequence
    # As many sequences as we run, and memory for all of them: by default it takes most of what the machine has.
    batching = transformers.ContinuousBatchingConfig(
        page_size=page, num_blocks=slots * pages, max_requests_per_batch=slots, max_batch_tokens=1024
    )
    results = model.generate_batch(
        inputs=prompts, generation_config=_plain(model, params), continuous_batching_config=batching
    )
    return [len(result.generated_tokens) for result in results.values()]


def _plain(model: Any, params: SamplingParams) -> Any:
    return transformers.GenerationConfig(
        do_sample=True,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=0,
        max_new_tokens=params.max_new_tokens,
        eos_token_id=model.generation_config.eos_token_id,
        pad_token_id=0,
    )


RUNS: dict[str, Callable[..., Lengths]] = {
    "ours": run_ours,
    "generate": run_generate,
    "generate_batch": run_generate_batch,
}


def main() -> None:
    """Measure each engine, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", type=Path, help="a Hugging Face folder; default a random tiny Qwen3")
    parser.add_argument("--requests", type=int, default=1024)
    parser.add_argument("--samples", type=int, default=4, help="per prompt")
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--runs", default=",".join(RUNS), help="which to run, and in which order")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    arguments = parser.parse_args()

    model, tokenizer = load_checkpoint(arguments.ckpt) if arguments.ckpt else (long_tailed_model(), byte_tokenizer())
    requests = make_requests(arguments.requests, arguments.samples, min(256, len(tokenizer)))
    params = SamplingParams(
        temperature=arguments.temperature, top_p=arguments.top_p, max_new_tokens=arguments.max_new_tokens
    )
    rows = []
    for name in arguments.runs.split(","):
        RUNS[name](model, tokenizer, requests[:32], params, arguments.slots)  # warm up
        wall, cpu = time.perf_counter(), time.process_time()
        lengths = RUNS[name](model, tokenizer, requests, params, arguments.slots)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rows.append(
            {
                "run": name,
                "samples": len(lengths),
                "tokens": sum(lengths),
                "longest": max(lengths),
                "seconds": round(wall, 2),
                "cpu_seconds": round(cpu, 2),
                "tokens_per_second": round(sum(lengths) / wall),
                "tokens_per_cpu_second": round(sum(lengths) / cpu),
            }
        )
        ratio = rows[0]["tokens_per_second"] / rows[-1]["tokens_per_second"]
        print(
            f"{name:15} {len(lengths)} samples, {sum(lengths)} tokens (longest {max(lengths)}) in {wall:.1f} s: "
            f"{sum(lengths) / wall:.0f} tokens/s; {rows[0]['run']} is {ratio:.2f} times as fast",
            flush=True,
        )
    if arguments.json:
        settings = {name: value for name, value in vars(arguments).items() if name not in ("json", "ckpt")}
        result = {
            **measured_with(["torch", "transformers"]),
            "threads": torch.get_num_threads(),
            "settings": settings,
            "runs": rows,
        }
        there = json.loads(arguments.json.read_text(encoding="utf-8")) if arguments.json.exists() else {}
        arguments.json.write_text(json.dumps(there | result, indent=1) + "\n")  # the other part of it stays


if __name__ == "__main__":
    main()
