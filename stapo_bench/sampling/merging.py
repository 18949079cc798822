"""verl's checkpoints, which are shards of one training process each, as Hugging Face folders, by verl's own merger.

    merged(Path("runs/verl/global_step_20/actor"), Path("results/verl"), 20)   # results/verl/merged/step-000020

verl's shards are pickles, which its merger reads in a process of its own: merge none that you did not train.
"""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from stapo_bench.errors import StapoError


def in_shards(checkpoint: Path) -> bool:
    """Whether a complete checkpoint is what verl wrote for its actor, and no Hugging Face folder."""
    return checkpoint.name == "actor"


def merged_folder(out: Path, step: int) -> Path:
    """Where the merged checkpoint of a step is kept while it is evaluated."""
    return out / "merged" / f"step-{step:06d}"


def merged(shards: Path, out: Path, step: int) -> Path:
    """The merged checkpoint's folder, made where it is not there; whole, or not there at all.

    Raises:
        StapoError: verl is not installed, or its merger failed.
    """
    folder = merged_folder(out, step)
    if folder.is_dir():
        return folder
    if find_spec("verl") is None:
        raise StapoError(
            f"{shards}: expected verl in this environment, whose merger makes a Hugging Face folder of these shards; "
            "pip install 'stapo-bench[verl]'"
        )
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    merge = ["-m", "verl.model_merger", "merge", "--backend", "fsdp", "--use_cpu_initialization"]
    places = ["--local_dir", str(shards), "--target_dir", str(partial)]
    ran = subprocess.run([sys.executable, *merge, *places], capture_output=True, check=False)
    if ran.returncode:
        said = " ".join(ran.stderr.decode(errors="replace").split())[-300:]
        raise StapoError(f"{shards}: verl's merger failed (exit {ran.returncode}): {said}")
    about = {"method": shards.parents[1].name, "step": step}
    (partial / "stapo.json").write_text(json.dumps(about) + "\n", encoding="utf-8")
    partial.rename(folder)
    return folder
