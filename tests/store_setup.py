"""Samples of one task, and a run folder that holds them."""

from pathlib import Path

from stapo_bench.records import Sample, SampleKey
from stapo_bench.runs import sample_writer, store
from stapo_bench.seeds import derive_seed


def make_sample(index: int, completion: str = "so \\boxed{4}", seed: int | None = None) -> Sample:
    key = SampleKey("aime24", f"I-{index % 7}", index)
    return Sample(
        **key._asdict(),
        seed=derive_seed(0, *key) if seed is None else seed,
        completion=completion,
        num_tokens=5,
        finish_reason="stop",
    )


def write(run_dir: Path, samples: list[Sample], label: str = "shard0of1") -> Path:
    with sample_writer.SegmentWriter(run_dir, label) as writer:
        for sample in samples:
            writer.append(sample)
    return store.segments(run_dir)[-1]
