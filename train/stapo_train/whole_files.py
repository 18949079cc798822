"""Checkpoints and their like are there whole or not at all: written under another name, flushed to disk and renamed."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stapo_bench.runs import sync, writing


@contextmanager
def writing_tensors(path: Path) -> Iterator[None]:
    """Name the file in what the system says while tensors are written, also by way of safetensors, which wraps it."""
    with writing(path), system_errors():
        yield


@contextmanager
def system_errors() -> Iterator[None]:
    """As OSError, what safetensors and tokenizers raise as their own when the system refuses them a file."""
    try:
        yield
    except Exception as error:  # tokenizers raises no narrower one
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to ``path`` once it is filled and flushed to disk."""
    temporary = path.with_name(f".{path.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)  # an orphan: the other half of its pair never appeared
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            file.chmod(temporary.stat().st_mode & 0o666)  # as open() would; safetensors lets its owner alone read
            sync(file)
        sync(temporary)
        temporary.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
