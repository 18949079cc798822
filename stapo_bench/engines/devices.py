"""Where a model computes by default, and in which precision there.

A GPU that nobody hid and that torch does not see is an error: a run on the CPU would be slow for no visible reason.
"""

import os
import shutil
import subprocess
import warnings

from stapo_bench.errors import StapoError, UsageError

_SMI_SECONDS = 30.0  # a driver that hangs has to end too


def default_device() -> str:
    """``cuda`` where torch sees a GPU, ``cpu`` where there is none, or where CUDA_VISIBLE_DEVICES hides all.

    Raises:
        StapoError: ``nvidia-smi -L`` lists GPUs and torch sees none: the driver is too old, or torch a build for CPUs.
    """
    import torch

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return "cuda"
    names = gpu_names()
    if not names or os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1", "NoDevFiles"):
        return "cpu"
    if torch.version.cuda is None:
        why = f"torch {torch.__version__} is a build for CPUs; install the one for CUDA (docs/gpu.md)"
    else:
        said = " ".join(str(told[0].message).split())[:200] if told else f"torch wants CUDA {torch.version.cuda}"
        why = f"{said}; update the driver, or install a torch for its CUDA (docs/gpu.md)"
    raise StapoError(
        f"expected torch to see this machine's GPUs ({names[0]}{', ...' if names[1:] else ''}), got none: {why}; "
        "CUDA_VISIBLE_DEVICES= (empty) computes on the CPU"
    )


def gpu_names() -> list[str]:
    """One line per GPU as the driver lists them (``nvidia-smi -L``); none where there is no driver.

    >>> all("GPU" in name for name in gpu_names())
    True
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "-L"], capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=_SMI_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    # Names are kept, serial numbers are not: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)".
    return [line.split(" (UUID")[0] for line in done.stdout.splitlines() if line.startswith("GPU ")]


def check_number(replicas: str) -> None:
    """UsageError for what is neither a number from 1 up nor ``auto``."""
    if replicas != "auto" and not (replicas.isdecimal() and int(replicas) > 0):
        raise UsageError(f"--replicas: expected a number from 1 up or auto, got {replicas!r}")


def gpu_groups(replicas: str, each: int) -> list[str | None]:
    """What every replica gets as CUDA_VISIBLE_DEVICES: ``each`` of this machine's GPUs; None: as it is, without GPUs.

    Args:
        replicas: a number, or ``auto``: as many as there are GPUs for.
        each: GPUs that share a model.

    Raises:
        UsageError: no number from 1 up, more than there are GPUs for, or ``auto`` without any.
    """
    check_number(replicas)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = map(str, range(len(gpu_names()))) if hidden is None else hidden.split(",")
    gpus = [gpu for gpu in found if gpu not in ("", "-1", "NoDevFiles")]
    number = len(gpus) // each if replicas == "auto" else int(replicas)
    if number * each > len(gpus) > 0 or number == 0:
        raise UsageError(
            f"--replicas {replicas}: expected {max(number, 1)} × {each} GPUs, found {len(gpus)}"
            + ("; without GPUs give a number" if not gpus else "")
        )
    return [",".join(gpus[each * i : each * (i + 1)]) if gpus else None for i in range(number)]


def default_dtype(device: str) -> str:
    """float32 on a CPU; bfloat16 on a GPU, float16 where it has no bfloat16.

    The same for every checkpoint, whatever its file holds: a base in bfloat16 and what was trained from it in float32
    are then compared in one precision.
    """
    if not device.startswith("cuda"):
        return "float32"
    import torch

    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
