"""One compressed file instead of hundreds of small ones: the settings and curves of an experiment's trainings.

tar xzf results/experiments/main/trainings.tar.gz && stapo-bench plot entropy --train trainings -o entropy.pdf
"""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

from stapo_bench.runs import read_bounded, write_result

TRAININGS = "trainings.tar.gz"
KEPT = ("config.yaml", "metrics.jsonl")
"""Files that the archive keeps of each training; checkpoints and dumps are not packed."""


def write_trainings(folders: Mapping[str, Path], page: Path) -> Path:
    """Pack ``KEPT`` of every training (name to folder) beside its page. Same files, same bytes: no times enter."""
    return pack(
        {
            f"trainings/{training}/{name}": read_bounded(folders[training] / name)
            for training in sorted(folders)
            for name in KEPT
        },
        page,
    )


def pack(files: Mapping[str, bytes], page: Path) -> Path:
    """Pack files, by their names in the archive, in their order."""
    packed = io.BytesIO()
    # gzip's header would otherwise hold the file's name and time.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    write_result(page / TRAININGS, packed.getvalue())
    return page / TRAININGS


def unpack(page: Path, there: Path) -> None:
    """Unpack the archive beside a page."""
    with tarfile.open(page / TRAININGS) as archive:
        for member in archive:
            path = there / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_result(path, cast(IO[bytes], archive.extractfile(member)).read())
