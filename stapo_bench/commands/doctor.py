"""``doctor``: what this machine can do, and the next command to type."""

import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import click

from stapo_bench import __version__
from stapo_bench.engines import gpu_names
from stapo_bench.errors import EXTRAS, missing_package

_HUB = "https://huggingface.co"
_HUB_SECONDS = 3.0
_WITHOUT_HUB = "local checkpoints, and --data-dir DIR or the suite tiny"
_GIB = 1 << 30
_FOR = {
    "eval": "sampling from checkpoints, training",
    "parquet": "Parquet and zstd files",
    "plots": "figures",
    "low-memory": "training adapters",
    "graders": "other people's graders",
    "vllm": "fast sampling from checkpoints",
    "inspect": "the grader in inspect_ai",
    "lm-eval": "the tasks in lm-eval",
    "trl": "the objectives in TRL",
    "verl": "the objectives in verl",
    "trackers": "curves in MLflow, TensorBoard, W&B",
    "ray": "several machines",
}
"""What each extra is for."""


@click.command()
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="Where runs would stand.")
def doctor(folder: Path) -> None:
    """Say what this machine can do: packages, GPUs, the hub, locks and room for runs; then the next command to type.

    Nothing is installed, downloaded or left behind, and torch is not loaded.

    Example: stapo-bench doctor
    """
    found = dict(findings(folder))
    for name, text in found.items():
        click.echo(f"{name:<10} {text}")
    has_tasks = "data" in found or not found["hub"].endswith(_WITHOUT_HUB)
    click.echo(f"\nnext: {next_command(has_tasks=has_tasks)}")


def findings(folder: Path) -> Iterator[tuple[str, str]]:
    """What was looked at, and what was found, a line each."""
    yield "version", f"stapo-bench {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    yield "always", "import, grade, score, compare, table, report: need no extra"
    for extra in dict.fromkeys(EXTRAS.values()):
        yield extra, f"{_FOR[extra]}: {_extra(extra)}"
    yield "GPU", _gpus()
    if data := os.environ.get("STAPO_BENCH_DATA"):
        yield "data", f"{data} (STAPO_BENCH_DATA)" + ("" if Path(data).is_dir() else ": no such folder")
    yield "hub", _hub()
    yield "locks", _locks(folder)
    yield "room", f"{shutil.disk_usage(_existing(folder)).free / _GIB:.0f} GiB free at {_existing(folder)}"


def next_command(*, has_tasks: bool) -> str:
    """The command that somebody with this machine would most likely want first.

    ``has_tasks``: whether the benchmarks' problems can be had; those of the suite tiny always can.
    """
    if not _has("torch"):
        return "stapo-bench import FILES --out runs/mine, or pip install 'stapo-bench[eval]' to sample from checkpoints"
    task = "aime24" if has_tasks else "tiny_aime24"
    return f"stapo-bench eval --ckpt PATH --decoding justrl --tasks {task} --limit 5 --samples 2 --out runs/first"


def _gpus() -> str:
    """The GPUs that a driver lists, and whether torch is a build that can use them."""
    names = "; ".join(gpu_names())
    if names and _has("torch") and (version := _version("torch")).endswith("+cpu"):
        return f"{names}; but torch {version} is a build for CPUs: install one for CUDA"
    return names or "none that a driver lists: models run on the CPU"


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _extra(extra: str) -> str:
    """Versions of an extra's packages, or what brings the missing ones."""
    packages = [package for package, brought_by in EXTRAS.items() if brought_by == extra]
    if missing := [package for package in packages if not _has(package)]:
        return f"missing {', '.join(missing)}: {(missing_package(missing[0]) or '').partition(': ')[2]}"
    return ", ".join(f"{package} {_version(package)}" for package in packages)


def _version(package: str) -> str:
    import importlib.metadata  # slow to import, and every command imports this file

    names = _distributions().get(package, [])
    return importlib.metadata.version(names[0]) if names else "of an unknown version"


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Module -> distributions that bring it; asking for it reads what every installed one says of itself."""
    import importlib.metadata

    return importlib.metadata.packages_distributions()


def _hub() -> str:
    """Whether the hub of data sets and models answers."""
    import urllib.error  # slow to import, too
    import urllib.request

    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return f"not asked (HF_HUB_OFFLINE is set): what is cached, {_WITHOUT_HUB}"
    place = os.environ.get("HF_ENDPOINT", _HUB)
    if not place.startswith(("https://", "http://")):
        return f"HF_ENDPOINT={place}: expected an address that begins with https:// or http://"
    try:
        with urllib.request.urlopen(urllib.request.Request(place, method="HEAD"), timeout=_HUB_SECONDS):
            pass
    except urllib.error.HTTPError:
        pass  # it answers
    except (OSError, ValueError) as error:
        return f"{place} does not answer ({getattr(error, 'reason', error)}): {_WITHOUT_HUB}"
    return f"{place} answers"


def _locks(folder: Path) -> str:
    """Whether the file system that would hold the runs has locks."""
    from stapo_bench.runs import has_locks

    try:
        with tempfile.TemporaryDirectory(dir=_existing(folder)) as place:
            return (
                "the file system has them"
                if has_locks(Path(place))
                else "none on this file system: lease files instead"
            )
    except OSError as error:
        return f"{_existing(folder)}: cannot be written ({error.strerror}): runs can be read here, not made"


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder.resolve(), *folder.resolve().parents) if path.is_dir())
