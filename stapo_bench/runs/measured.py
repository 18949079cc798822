"""What a measurement has to say about itself: machine, versions, commit."""

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
    return {"device": device(), "versions": versions, "commit": commit()}


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


def commit() -> str:
    """``git describe`` of this checkout; "-dirty" where something is not committed."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
