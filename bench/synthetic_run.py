"""The manifest of a run that nobody drew, for measurements of what comes after drawing."""

import json
from pathlib import Path

from stapo_bench.runs import canonical_digest

PROBLEM_IDS = tuple(f"p{i}" for i in range(500))


def write_manifest(folder: Path, per_problem: int) -> None:
    """One task ``t``, so many samples of each of ``PROBLEM_IDS``."""
    identity = {
        "checkpoint": {"digest": "synthetic"},
        "tasks": {"t": {"data": "d", "prompts": "p", "prompt_format": "plain"}},
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 1024},
        "seed": 0,
        "engine": {"engine": "synthetic"},
    }
    about = {"tasks": {"t": {"title": "T", "num_samples": per_problem, "problem_ids": list(PROBLEM_IDS)}}}
    manifest = {"format": 1, "digest": canonical_digest(identity), "identity": identity, "about": about}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
