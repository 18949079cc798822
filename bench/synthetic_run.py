"""The manifest of a synthetic run, for measurements of the stages after sampling."""

from pathlib import Path

from stapo_bench import runs
from stapo_bench.records import SamplingParams
from stapo_bench.runs import About, AskedTask, Identity, Manifest, TaskIdentity

PROBLEM_IDS = tuple(f"p{i}" for i in range(500))


def write_manifest(folder: Path, per_problem: int) -> None:
    """One task ``t``, so many samples of each of ``PROBLEM_IDS``."""
    identity = Identity(
        checkpoint_digest="synthetic",
        tasks={"t": TaskIdentity(data="d", prompts="p", prompt_format="plain")},
        sampling=SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=1024),
        seed=0,
        engine={"engine": "synthetic"},
    )
    about = About(tasks={"t": AskedTask(title="T", problem_ids=PROBLEM_IDS, num_samples=per_problem)})
    folder.mkdir(parents=True, exist_ok=True)
    runs.write_manifest(Manifest(run_dir=folder, identity=identity, about=about))
