"""The conditions of a measurement: machine, versions, commit."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def measured_with(packages: Sequence[str]) -> dict[str, object]:
    """Device, versions of Python and of those of ``packages`` that are installed, and the commit."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    state = "-dirty" if is_dirty() else ""
    return {"device": device(), "versions": versions, "commit": (commit() or "unknown") + state}


def device() -> str:
    """The GPU where torch is loaded and sees one, else the processor and how many cores of it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} CPUs"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def commit() -> str | None:
    """Commit of the checkout that this code runs from; None in an installed wheel, or without git."""
    return _git("rev-parse", "HEAD")


def is_dirty() -> bool | None:
    """Whether tracked files differ from that commit; None where no commit is known."""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return None if changed is None else bool(changed)


def _git(*arguments: str) -> str | None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # an installed wheel may lie inside another project's checkout
        return None
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
