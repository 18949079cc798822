"""Cost of one full reproduction (four methods, three sizes), and the estimate compared with published durations.

python -m stapo_train.reproduce.cost_table      # the tables of train/README.md and train/SCALE.md
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stapo_train.cost.estimate import EVAL_MAX_TOKENS, EVAL_SAMPLES, generation_seconds, iteration_seconds, passes
from stapo_train.cost.memory import sharded_memory, single_memory
from stapo_train.cost.shapes import GPUS, PUBLISHED_RECIPE, SHAPES, Recipe, Setup, Shape
from stapo_train.reproduce.table import METHODS

PAPER = Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8)
PAPER_DAYS = (5, 7)  # a run on PAPER, arXiv:2602.15620
EVALUATIONS = 5 * 2  # base and four methods, in two decoding regimes
ITERATIONS = 1000


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published duration in seconds per iteration, with the setup that it was measured on."""

    what: str
    seconds: tuple[float, float]  # least and most
    shape: Shape
    setup: Setup
    recipe: Recipe
    objective: str = "justrl"
    only_passes: bool = False  # forward and backward passes alone; generation depends on unknown lengths


QWEN25_1_5B = Shape(
    layers=28, hidden=1536, intermediate=8960, heads=12, kv_heads=2, head_dim=128, vocab=151936, tied=True
)
QWEN25_MATH_7B = Shape(
    layers=28, hidden=3584, intermediate=18944, heads=28, kv_heads=4, head_dim=128, vocab=152064, tied=False
)
_JUSTRL = Setup(gpu=GPUS["a100"], nodes=4, gpus_per_node=8)
# Its mean response is not stated. 1,200 tokens give the time on 64 GPUs; the other two rows test the scaling.
_VERL = replace(PUBLISHED_RECIPE, prompts=512, group_size=16, mini_batches=16, max_response=28 * 1024)
_VERL_MEAN = 1200
_DAY = 86_400

PUBLISHED = (
    Published(
        what="JustRL: 4,380 and 3,440 iterations in about 15 days, 32 × A800 (arXiv:2512.16649, Sec. 3.1, 4)",
        seconds=(15 * _DAY / 4380, 15 * _DAY / 3440),
        shape=QWEN25_1_5B,
        setup=_JUSTRL,
        recipe=PUBLISHED_RECIPE,
    ),
    Published(
        what="STAPO, 1.7B: more than 3,000 iterations in 5 to 7 days, 64 × H20 (arXiv:2602.15620)",
        seconds=(5 * _DAY / 3000, 7 * _DAY / 3000),
        shape=SHAPES["1.7b"],
        setup=PAPER,
        recipe=PUBLISHED_RECIPE,
        objective="stapo",
    ),
    *(
        Published(
            what=f"verl's docs (fully_async), 7B, 512 × 16 rollouts, passes alone, {8 * nodes} × H20",
            seconds=(seconds, seconds),
            shape=QWEN25_MATH_7B,
            setup=replace(PAPER, nodes=nodes),
            recipe=replace(_VERL, mean_response=_VERL_MEAN),
            only_passes=True,
        )
        for nodes, seconds in ((4, 107.71 + 313.81), (8, 70.26 + 133.41), (16, 53.92 + 113.81))
    ),
)


def estimated(published: Published) -> float:
    """Seconds of an iteration, or of its passes, by ``stapo_train.cost.estimate``."""
    seconds = iteration_seconds(published.shape, published.setup, published.recipe, passes(published.objective))
    return seconds.passes if published.only_passes else seconds.total


def evaluation_hours(shape: Shape, setup: Setup) -> float:
    """Wall hours of all evaluations of one size."""
    seconds = generation_seconds(shape, setup, PUBLISHED_RECIPE, EVAL_SAMPLES, EVAL_MAX_TOKENS)
    return EVALUATIONS * seconds / 3600


def reproduction_rows() -> Iterator[tuple[str, float, float, float, float, float]]:
    """Size, seconds of an iteration without and with a selection pass, GPU-hours of training and evaluation, days."""
    for name, shape in SHAPES.items():
        seconds = {m: iteration_seconds(shape, PAPER, PUBLISHED_RECIPE, passes(m)).total for m in METHODS}
        training = sum(seconds.values()) * ITERATIONS / 3600 * PAPER.world
        evaluation = evaluation_hours(shape, PAPER) * PAPER.world
        days = seconds["stapo"] * ITERATIONS / _DAY
        yield name.upper(), seconds["justrl"], seconds["stapo"], training, evaluation, days


def render_memory() -> str:
    """GiB per GPU while weights are updated, as Markdown. While vLLM samples, the GPU holds vLLM's share and the
    shard's weights and optimizer instead."""
    lines = [
        "| Model | `stapo-train`, 1 GPU | verl, 8 GPUs | 16 | 64 | 8, sequence parallel 2 | vLLM's weights |",
        "| ----- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, shape in SHAPES.items():
        alone = single_memory(shape, replace(PAPER, nodes=1, gpus_per_node=1), 32_768).while_updating
        setups = [replace(PAPER, nodes=nodes) for nodes in (1, 2, 8)]
        setups.append(replace(PAPER, nodes=1, sequence_parallel=2))
        ranks = [sharded_memory(shape, setup, PUBLISHED_RECIPE) for setup in setups]
        cells = [alone, *(rank.while_updating for rank in ranks), ranks[0].rollout_weights]
        lines.append(f"| {name.upper()} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    return "\n".join(lines)


def render_hours() -> str:
    """Hours of one full reproduction, and published durations beside the estimate, as Markdown."""
    lines = [
        f"| Model | GRPO, JustRL: s | 20-Entropy, STAPO: s | days of {ITERATIONS:,} | training, GPU-h | "
        "evaluation, GPU-h |",
        "| ----- | ---: | ---: | ---: | ---: | ---: |",
    ]
    totals = [0.0, 0.0]
    for name, short, long, training, evaluation, days in reproduction_rows():
        totals = [totals[0] + training, totals[1] + evaluation]
        lines.append(f"| {name} | {short:.0f} | {long:.0f} | {days:.1f} | {training:,.0f} | {evaluation:,.0f} |")
    lines.append(f"| all | | | | {totals[0]:,.0f} | {totals[1]:,.0f} |")
    least, most = (PAPER.world * 24 * days * len(METHODS) * len(SHAPES) for days in PAPER_DAYS)
    lines += ["", f"By the paper's own 5 to 7 days a run: {least:,} to {most:,} GPU-hours.", ""]
    lines += ["| Published | reported, s | this model, s |", "| --------- | ---: | ---: |"]
    for published in PUBLISHED:
        low, high = (f"{seconds:.0f}" for seconds in published.seconds)
        reported = low if low == high else f"{low} to {high}"
        lines.append(f"| {published.what} | {reported} | {estimated(published):.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    tables = {"memory": render_memory, "hours": render_hours}
    print("\n\n".join(tables[name]() for name in sys.argv[1:] or tables))
