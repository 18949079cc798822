"""Log-prob, entropy and sum of squares from hidden states: time, memory and error, against naive code and peers.

    python -m bench.linear [--sizes tiny real] [--json results/bench/linear.json]      # any machine
    python -m bench.linear --sizes 1.7b 8b 14b --json results/bench/linear_gpu.json    # an NVIDIA GPU

All contestants get the same tensors in one process; medians over the repetitions. On a CPU they take turns and the time
is CPU time; on a GPU it is that between two events. Memory is what a forward and backward pass adds at its peak,
gradients included (on a CPU in a process of its own). Errors are against float64 on the first 64 rows: the largest of a
log-prob and of an entropy, and the norm of the gradient's by the hidden states to that of the gradient.

The matmul floor is 2 N D V floating-point operations forward and 6 N D V with the backward pass, at the rate that one
N x D x V matrix product reaches in the same run; who makes the logits again has 8 N D V to do, 1.33 of that floor.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bench.linear_peers import CONTESTANTS, Contestant, Example, Found, ours
from stapo_bench.runs import measured_with
from stapo_train.fused import blocks, linear_token_distribution

PACKAGES = ("torch", "triton", "trl", "liger-kernel", "cut-cross-entropy", "verl")
ROWS = 32  # stretches of the tokens, each with an advantage
AT_LEAST_S = 0.1  # shorter passes run several times between two looks at the clock


@dataclass(frozen=True, kw_only=True)
class Size:
    """One setting."""

    tokens: int
    hidden: int
    vocabulary: int
    dtype: torch.dtype


SIZES = {
    "tiny": Size(tokens=4096, hidden=128, vocabulary=64, dtype=torch.float32),
    "real": Size(tokens=1024, hidden=512, vocabulary=151_936, dtype=torch.float32),
    "1.7b": Size(tokens=32_768, hidden=2048, vocabulary=151_936, dtype=torch.bfloat16),
    "8b": Size(tokens=32_768, hidden=4096, vocabulary=151_936, dtype=torch.bfloat16),
    "14b": Size(tokens=32_768, hidden=5120, vocabulary=151_936, dtype=torch.bfloat16),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["tiny", "real"])
    parser.add_argument("--tokens", type=int, help="fewer than the size has")
    parser.add_argument("--repeats", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write the measurement to this file")
    parser.add_argument("--memory-of", choices=CONTESTANTS, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.memory_of:
        print(peak_bytes(CONTESTANTS[options.memory_of], make(_size(options.sizes[0], options.tokens), device)))
        return 0
    result: dict[str, Any] = {"sizes": {}, **measured_with(PACKAGES)}
    for name in options.sizes:
        result["sizes"][name] = measure(name, _size(name, options.tokens), device, options.repeats)
        print(render(name, result["sizes"][name]), flush=True)
        if options.json:  # after each size: a run that is cut short leaves what it has
            options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(name: str, size: Size, device: str, repeats: int) -> dict[str, Any]:
    """Everything about one size."""
    example = make(size, device)
    contestants = {**CONTESTANTS, **(other_tilings() if device == "cuda" and size.dtype.itemsize == 2 else {})}
    missing: dict[str, str] = {}
    errors: dict[str, dict[str, float | None]] = {}
    counts: dict[str, int] = {}
    for label, contestant in contestants.items():
        try:
            errors[label] = largest_errors(contestant, example)
            once = sum(passes(contestant, example, 1))
        except Exception as error:  # a peer may fail in any way; it is named as not run, and has no figures
            missing[label] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
            continue
        counts[label] = 1 + int(AT_LEAST_S / max(once, 1e-6))
    seconds: dict[str, list[tuple[float, float]]] = {label: [] for label in counts}
    floor = matmul_s(example, repeats)
    for label in turns(counts, repeats, device):
        seconds[label].append(passes(contestants[label], example, counts[label]))
    rows = {}
    for label, spent in seconds.items():
        forward, backward = (statistics.median(part) for part in zip(*spent, strict=True))
        rows[label] = {
            "forward_s": forward,
            "forward_backward_s": forward + backward,
            "forward_to_floor": forward / floor,
            "forward_backward_to_floor": (forward + backward) / (3 * floor),
            "peak_bytes": peak_bytes(contestants[label], example)
            if device == "cuda"
            else peak_in_own_process(label, name, size.tokens),
            **errors[label],
        }
    return {
        "tokens": size.tokens,
        "hidden": size.hidden,
        "vocabulary": size.vocabulary,
        "dtype": str(size.dtype).removeprefix("torch."),
        "gradient_bytes": example.hidden.nbytes + example.weight.nbytes,
        "matmul_s": floor,
        "matmul_flops_per_s": 2 * size.tokens * size.hidden * size.vocabulary / floor,
        "contestants": rows,
        "not_run": missing,
    }


def make(size: Size, device: str) -> Example:
    """Hidden states, an output embedding that gives entropies like a trained model's, and taken tokens."""
    generator = torch.Generator(device).manual_seed(0)
    hidden = torch.randn(size.tokens, size.hidden, generator=generator, device=device)
    weight = torch.randn(size.vocabulary, size.hidden, generator=generator, device=device)
    weight *= 4 / size.hidden**0.5  # logits with a standard deviation of 4
    taken = torch.randint(size.vocabulary, (size.tokens,), generator=generator, device=device)
    advantages = torch.randn(ROWS, generator=generator, device=device)
    return Example(
        hidden=hidden.to(size.dtype).requires_grad_(),
        weight=weight.to(size.dtype).requires_grad_(),
        taken=taken,
        by=advantages.repeat_interleave(size.tokens // ROWS),
        rows=ROWS,
    )


def other_tilings() -> dict[str, Contestant]:
    """Ours with tiles of other shapes: the first run on a new GPU says which is best there."""
    from stapo_train.fused import kernels

    shapes = [(128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3)]

    def with_tiling(tiling: kernels.Tiling) -> Contestant:
        def run(example: Example) -> Found:
            kernels.TILINGS = {**usual, 2: (tiling,)}
            try:
                return ours(example)
            finally:
                kernels.TILINGS = usual

        return run

    usual = kernels.TILINGS
    names = ("rows", "columns", "depth", "num_warps", "num_stages")
    return {
        f"ours, {'x'.join(map(str, shape))}": with_tiling(kernels.Tiling(**dict(zip(names, shape, strict=True))))
        for shape in shapes
    }


def turns(labels: Sequence[str], repeats: int, device: str) -> Iterator[str]:
    """Order of runs: interleaved on a CPU, where other load must affect all alike; in blocks on a GPU, where memory is
    slow to allocate and free."""
    if device == "cpu":
        for _ in range(repeats):
            yield from labels
        return
    for label in labels:
        torch.cuda.empty_cache()
        yield from [label] * repeats


def matmul_s(example: Example, repeats: int) -> float:
    """Seconds of one N x D x V product."""
    hidden, weight = example.hidden.detach(), example.weight.detach()
    once = timed(lambda: hidden @ weight.T, 1)[0]
    count = 1 + int(AT_LEAST_S / max(once, 1e-6))
    return statistics.median(timed(lambda: hidden @ weight.T, count)[0] / count for _ in range(repeats))


def passes(contestant: Contestant, example: Example, count: int) -> tuple[float, float]:
    """Seconds of a forward and of a backward pass, over ``count`` of each."""
    spent = [0.0, 0.0]
    for _ in range(count):
        example.hidden.grad = example.weight.grad = None
        forward, found = timed(lambda: contestant(example), 1)
        backward, _ = timed(found.loss.backward, 1)
        spent[0] += forward / count
        spent[1] += backward / count
    return spent[0], spent[1]


def timed(work: Callable[[], Any], count: int) -> tuple[float, Any]:
    """Seconds: between events on a GPU, of CPU time elsewhere."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if torch.cuda.is_available() else []
    if events:
        events[0].record()
    start, out = time.process_time(), None
    for _ in range(count):
        out = None  # frees its memory for the next run
        out = work()
    if not events:
        return time.process_time() - start, out
    events[1].record()
    torch.cuda.synchronize()
    return events[0].elapsed_time(events[1]) / 1000, out


def largest_errors(contestant: Contestant, example: Example) -> dict[str, float | None]:
    """Against float64, on the first 64 rows of a whole forward and backward pass."""
    count = min(64, len(example.taken))
    hidden = example.hidden[:count].detach().double().requires_grad_()
    weight = example.weight.detach().double()
    exact = linear_token_distribution(hidden, weight, example.taken[:count], 1.0, blocks.BACKEND)
    (by_hidden,) = torch.autograd.grad((exact.log_probs * example.by[:count]).sum(), hidden)
    del weight
    example.hidden.grad = example.weight.grad = None
    found = contestant(example)
    found.loss.backward()
    gradient = example.hidden.grad[:count].double()
    example.hidden.grad = example.weight.grad = None

    def error(ours: torch.Tensor | None, theirs: torch.Tensor) -> float | None:
        return None if ours is None else float((ours.detach()[:count] - theirs.detach()).abs().max())

    return {
        "log_prob_error": error(found.log_probs, exact.log_probs),
        "entropy_error": error(found.entropy, exact.entropy),
        "gradient_error": float((gradient - by_hidden).norm() / by_hidden.norm()),
    }


def peak_bytes(contestant: Contestant, example: Example) -> int:
    """What a forward and backward pass adds at its peak, gradients of weight and hidden states included."""
    example.hidden.grad = example.weight.grad = None
    if example.hidden.is_cuda:  # warm by now
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        contestant(example).loss.backward()
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again from what is resident now
    before = _resident("VmRSS")
    contestant(example).loss.backward()
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    """Bytes, by Linux's account of this process (``ru_maxrss`` would begin at the parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def peak_in_own_process(label: str, name: str, tokens: int) -> int:
    """``peak_bytes`` in a fresh process, whose allocator is unused."""
    command = [sys.executable, "-m", "bench.linear", "--sizes", name, "--tokens", str(tokens), "--memory-of", label]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def render(name: str, measured: dict[str, Any]) -> str:
    """A short table: ratios to naive, to the floor, memory, errors."""
    rows = measured["contestants"]
    naive_s = rows["naive"]["forward_backward_s"] if "naive" in rows else float("nan")
    lines = [
        f"{name}: {measured['tokens']} tokens, hidden {measured['hidden']}, |V| {measured['vocabulary']}, "
        f"{measured['dtype']}; matmul {measured['matmul_flops_per_s'] / 1e12:.3g} TFLOP/s; "
        f"gradients {measured['gradient_bytes'] / 1e6:.0f} MB",
        f"  {'':<24}{'forward':>10}{'+backward':>11}{'/ naive':>9}{'fwd/floor':>11}{'f+b/floor':>11}{'peak MB':>9}"
        f"{'log-prob err':>14}{'entropy err':>13}{'gradient err':>14}",
    ]
    for label, row in rows.items():
        errors = ["none" if row[e] is None else f"{row[e]:.1e}" for e in ("log_prob_error", "entropy_error")]
        lines.append(
            f"  {label:<24}{row['forward_s']:>9.4f}s{row['forward_backward_s']:>10.4f}s"
            f"{row['forward_backward_s'] / naive_s:>9.2f}{row['forward_to_floor']:>11.2f}"
            f"{row['forward_backward_to_floor']:>11.2f}{row['peak_bytes'] / 1e6:>9.0f}"
            f"{errors[0]:>14}{errors[1]:>13}{row['gradient_error']:>14.1e}"
        )
    lines += [f"  {label:<24}not run: {why}" for label, why in measured["not_run"].items()]
    return "\n".join(lines)


def _size(name: str, tokens: int | None) -> Size:
    return SIZES[name] if tokens is None else replace(SIZES[name], tokens=tokens)


if __name__ == "__main__":
    sys.exit(main())
