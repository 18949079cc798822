"""Time and disk of a run, estimated before it starts from the model's shape.

    setup = Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8)
    seconds = iteration_seconds(SHAPES["8b"], setup, PUBLISHED_RECIPE, forward_passes=passes("stapo"))

Operations follow PaLM (arXiv:2204.02311, App. B). Three numbers are not derived: the share of a GPU's peak that
training reaches (MFU), the part of a decoding step's time that memory bandwidth does not explain, and the mean response
length. ``stapo_train.reproduce.cost_table`` compares the result with published durations.
"""

from dataclasses import dataclass

from stapo_train.cost.memory import cached_sequences
from stapo_train.cost.shapes import Recipe, Setup, Shape

MFU = 0.4
"""Share of the peak that forward and backward passes reach: Llama 3 reports 38 to 43 % (arXiv:2407.21783, Table 4)."""

DECODE_STEP_S = 0.010
"""Seconds of one decoding step beyond reading weights and keys: launches, sampling, scheduling. A compromise between
JustRL's published duration, which asks for less, and STAPO's, for more (``stapo_train.reproduce.cost_table``)."""

EVAL_SAMPLES = (30 + 30 + 40) * 32 + (500 + 272 + 674) * 4
"""Samples of one evaluation: the paper's six tasks."""
EVAL_MAX_TOKENS = 20_480


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """One iteration on the wall, by stage."""

    generation: float
    passes: float  # forward and backward passes: old log-probs, selection, update

    @property
    def total(self) -> float:
        """Seconds of an iteration."""
        return self.generation + self.passes


def passes(objective: str) -> int:
    """Cost of a rollout's tokens in forward passes, from the objective's declared ``needs``.

    One for the old log-probs; for each optimizer step on them, four for the update with recomputation and one without
    gradient where the selection depends on the current policy.

    >>> passes("justrl"), passes("stapo"), passes("lopti")
    (5, 6, 9)
    """
    from stapo_train.objectives import REGISTRY  # its classes load torch

    asked = REGISTRY[objective]
    return 1 + asked.num_phases * (4 + (asked.needs.current_policy != "none"))


def iteration_seconds(shape: Shape, setup: Setup, recipe: Recipe, forward_passes: int) -> Seconds:
    """An iteration without overlap: all rollouts, then all passes over them, at ``MFU`` of the peak."""
    flops = recipe.rollouts * recipe.mean_length * shape.forward_flops(recipe.mean_length)
    return Seconds(
        generation=generation_seconds(shape, setup, recipe, recipe.rollouts, recipe.max_response),
        passes=forward_passes * flops / (setup.world * setup.gpu.flops * MFU),
    )


def generation_seconds(shape: Shape, setup: Setup, recipe: Recipe, samples: int, max_tokens: int) -> float:
    """Seconds to generate ``samples`` on all GPUs; the longest runs to the limit, one decoding step per token.

    A step costs ``DECODE_STEP_S`` and reads the weights and the cache of every unfinished sequence; every token is
    computed. Where a GPU's cache cannot hold its sequences at once, they are generated in waves.
    """
    engines = setup.world / setup.tensor_parallel
    held = max(cached_sequences(shape, setup, recipe.mean_length), 1.0)
    waves = max(1.0, samples / engines / held)
    step = DECODE_STEP_S + 2 * shape.parameters / setup.tensor_parallel / setup.gpu.bandwidth
    tokens = samples * recipe.mean_response / setup.world  # per GPU
    read = tokens * (recipe.mean_prompt + recipe.mean_response / 2) * shape.kv_bytes / setup.gpu.bandwidth
    computed = tokens * shape.forward_flops(recipe.mean_length) / (setup.gpu.flops * MFU)
    return waves * max_tokens * step + read + computed


def checkpoint_bytes(shape: Shape) -> int:
    """A checkpoint that training resumes from: float32 weights and Adam's two moments."""
    return 12 * shape.parameters


def folder_bytes(shape: Shape) -> int:
    """A checkpoint that is evaluated: a Hugging Face folder in bfloat16."""
    return 2 * shape.parameters


def samples_bytes(samples: int, mean_tokens: float) -> float:
    """Samples on disk: about four bytes of text a token and half a kilobyte around it."""
    return samples * (4.0 * mean_tokens + 500)
