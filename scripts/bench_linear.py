"""Log-prob, entropy and sum of squares from hidden states: time, memory and error, against naive code and peers.

    python scripts/bench_linear.py [--sizes tiny real] [--json results/bench/linear.json]      # any machine
    python scripts/bench_linear.py --sizes 1.7b 8b 14b --json results/bench/linear_gpu.json    # an NVIDIA GPU

All contestants get the same tensors in one process, in turn; medians over the repetitions. On a CPU the time is CPU
time, on a GPU that between two events. Memory is what a forward and backward pass adds at its peak, in a process of its
own. The error is the largest one of a log-prob and of an entropy against float64 on some of the rows.

The matmul floor is 2 N D V floating-point operations forward and 6 N D V with the backward pass (8 where the logits are
made again), at the rate that one N x D x V matrix product reaches in the same run.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measured import measured_with
from torch import Tensor

from stapo_train.fused import blocks, linear_token_distribution
from stapo_train.statistics import token_distribution

Contestant = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""Hidden states, output embedding, taken tokens -> log-probs and entropies (None: it has none)."""

PACKAGES = ("torch", "triton", "trl", "liger-kernel", "cut-cross-entropy", "verl")


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


def ours(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """The backend that the trainer takes on this device."""
    out = linear_token_distribution(hidden, weight, taken, 1.0)
    return out.log_probs, out.entropy


def ours_in_blocks(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """Plain PyTorch blocks, on a GPU too."""
    out = linear_token_distribution(hidden, weight, taken, 1.0, blocks.BACKEND)
    return out.log_probs, out.entropy


def naive(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """All logits, in float32 where they were less."""
    out = token_distribution(hidden @ weight.T, taken, 1.0)
    return out.log_probs, out.entropy


def trl(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """TRL's two functions, on logits of the model's dtype as its trainer has them."""
    from trl.trainer.utils import entropy_from_logits, selective_log_softmax

    logits = hidden @ weight.T
    with torch.no_grad():
        entropy = entropy_from_logits(logits)
    return selective_log_softmax(logits, taken), entropy


def liger(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """Liger's fused linear cross-entropy: no entropy, and only a sum of log-probs has a gradient."""
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    out = LigerFusedLinearCrossEntropyFunction.apply(hidden, weight, taken, None, None, -100, 0.0, 0.0, "none")
    return -(out[0] if isinstance(out, tuple) else out), None


def cut_cross_entropy(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """Apple's kernel: no entropy."""
    from cut_cross_entropy import linear_cross_entropy

    return -linear_cross_entropy(hidden, weight, taken, reduction="none"), None


def verl(hidden: Tensor, weight: Tensor, taken: Tensor) -> tuple[Tensor, Tensor | None]:
    """verl's kernel."""
    from verl.utils.kernel.linear_cross_entropy import linear_cross_entropy

    log_probs, entropy = linear_cross_entropy(hidden, weight, taken, 1.0, "none")
    return log_probs, entropy


CONTESTANTS: dict[str, Contestant] = {
    "ours": ours,
    "ours, plain PyTorch": ours_in_blocks,
    "naive": naive,
    "naive, torch.compile": torch.compile(naive),
    "TRL": trl,
    "Liger": liger,
    "cut-cross-entropy": cut_cross_entropy,
    "verl": verl,
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
        size = _size(options.sizes[0], options.tokens)
        print(peak_bytes(CONTESTANTS[options.memory_of], make(size, device), device))
        return 0
    result: dict[str, Any] = {"sizes": {}, **measured_with(PACKAGES)}
    for name in options.sizes:
        result["sizes"][name] = measure(name, _size(name, options.tokens), device, options.repeats)
        print(render(name, result["sizes"][name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(name: str, size: Size, device: str, repeats: int) -> dict[str, Any]:
    """Everything about one size."""
    tensors = make(size, device)
    missing: dict[str, str] = {}
    errors: dict[str, tuple[float, float | None]] = {}
    for label, contestant in CONTESTANTS.items():
        try:
            errors[label] = largest_errors(contestant, tensors)
        except (ImportError, RuntimeError, AttributeError, AssertionError) as error:
            missing[label] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
    seconds: dict[str, list[tuple[float, float]]] = {label: [] for label in errors}
    matmul: list[float] = []
    for repeat in range(repeats + 1):
        matmul.append(timed(lambda: tensors[0].detach() @ tensors[1].detach().T, device)[0])
        for label in errors:
            spent = passes(CONTESTANTS[label], tensors, device)
            if repeat:  # the first round warms up
                seconds[label].append(spent)
    floor = statistics.median(matmul[1:])
    rows = {}
    for label, spent_times in seconds.items():
        forward, backward = (statistics.median(part) for part in zip(*spent_times, strict=True))
        rows[label] = {
            "forward_s": forward,
            "forward_backward_s": forward + backward,
            "forward_to_floor": forward / floor,
            "forward_backward_to_floor": (forward + backward) / (3 * floor),
            "peak_bytes": peak_in_own_process(label, name, size.tokens),
            "log_prob_error": errors[label][0],
            "entropy_error": errors[label][1],
        }
    return {
        "tokens": size.tokens,
        "hidden": size.hidden,
        "vocabulary": size.vocabulary,
        "dtype": str(size.dtype).removeprefix("torch."),
        "matmul_s": floor,
        "matmul_flops_per_s": 2 * size.tokens * size.hidden * size.vocabulary / floor,
        "contestants": rows,
        "not_run": missing,
    }


def make(size: Size, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, an output embedding that gives entropies like a trained model's, and taken tokens."""
    generator = torch.Generator(device).manual_seed(0)
    hidden = torch.randn(size.tokens, size.hidden, generator=generator, device=device)
    weight = torch.randn(size.vocabulary, size.hidden, generator=generator, device=device)
    weight *= 4 / size.hidden**0.5  # logits with a standard deviation of 4
    taken = torch.randint(size.vocabulary, (size.tokens,), generator=generator, device=device)
    return hidden.to(size.dtype).requires_grad_(), weight.to(size.dtype).requires_grad_(), taken


def passes(contestant: Contestant, tensors: tuple[Tensor, Tensor, Tensor], device: str) -> tuple[float, float]:
    """Seconds of the forward and of the backward pass."""
    hidden, weight, _ = tensors
    hidden.grad = weight.grad = None
    forward, (log_probs, _) = timed(lambda: contestant(*tensors), device)
    loss = log_probs.sum()
    backward, _ = timed(loss.backward, device)
    return forward, backward


def timed(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds: between events on a GPU, of CPU time elsewhere."""
    if device == "cuda":
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        out = work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000, out
    start = time.process_time()
    out = work()
    return time.process_time() - start, out


def largest_errors(contestant: Contestant, tensors: tuple[Tensor, Tensor, Tensor]) -> tuple[float, float | None]:
    """Of log-probs and entropies against float64, on the first 64 rows of a whole forward pass."""
    hidden, weight, taken = tensors
    log_probs, entropy = contestant(hidden, weight, taken)
    log_probs.sum().backward()  # one that cannot run backward is not a contestant
    hidden.grad = weight.grad = None
    wide = hidden[:64].detach().double(), weight.detach().double()
    exact = linear_token_distribution(*wide, taken[:64], 1.0, blocks.BACKEND)
    error = float((log_probs.detach()[:64] - exact.log_probs).abs().max())
    return error, None if entropy is None else float((entropy.detach()[:64] - exact.entropy).abs().max())


def peak_bytes(contestant: Contestant, tensors: tuple[Tensor, Tensor, Tensor], device: str) -> int:
    """What a forward and backward pass adds at its peak, gradients of weight and hidden states included."""
    if device == "cuda":
        contestant(*tensors)[0].sum().backward()  # compiles
        tensors[0].grad = tensors[1].grad = None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        contestant(*tensors)[0].sum().backward()
        return torch.cuda.max_memory_allocated() - before
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again from what is resident now
    before = _resident("VmRSS")
    contestant(*tensors)[0].sum().backward()
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    """Bytes, by Linux's account of this process (``ru_maxrss`` would begin at the parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def peak_in_own_process(label: str, name: str, tokens: int) -> int:
    """``peak_bytes`` where nobody else has touched the allocator."""
    command = [sys.executable, __file__, "--sizes", name, "--tokens", str(tokens), "--memory-of", label]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def render(name: str, measured: dict[str, Any]) -> str:
    """A short table: ratios to naive, to the floor, memory, errors."""
    rows = measured["contestants"]
    naive_s = rows["naive"]["forward_backward_s"] if "naive" in rows else float("nan")
    lines = [
        f"{name}: {measured['tokens']} tokens, hidden {measured['hidden']}, |V| {measured['vocabulary']}, "
        f"{measured['dtype']}; matmul {measured['matmul_flops_per_s'] / 1e12:.3g} TFLOP/s",
        f"  {'':<22}{'forward':>10}{'+backward':>11}{'/ naive':>9}{'fwd/floor':>11}{'f+b/floor':>11}{'peak MB':>9}"
        f"{'log-prob err':>14}{'entropy err':>13}",
    ]
    for label, row in rows.items():
        entropy = "none" if row["entropy_error"] is None else f"{row['entropy_error']:.1e}"
        lines.append(
            f"  {label:<22}{row['forward_s']:>9.4f}s{row['forward_backward_s']:>10.4f}s"
            f"{row['forward_backward_s'] / naive_s:>9.2f}{row['forward_to_floor']:>11.2f}"
            f"{row['forward_backward_to_floor']:>11.2f}{row['peak_bytes'] / 1e6:>9.0f}"
            f"{row['log_prob_error']:>14.1e}{entropy:>13}"
        )
    lines += [f"  {label:<22}not run: {why}" for label, why in measured["not_run"].items()]
    return "\n".join(lines)


def _size(name: str, tokens: int | None) -> Size:
    return SIZES[name] if tokens is None else replace(SIZES[name], tokens=tokens)


if __name__ == "__main__":
    sys.exit(main())
