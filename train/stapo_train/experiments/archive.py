"""One compressed file instead of hundreds of small ones: the settings and curves of an experiment's trainings.

tar xzf results/experiments/main/trainings.tar.gz && stapo-bench plot entropy --train trainings -o entropy.pdf
"""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

TRAININGS = "trainings.tar.gz"
KEPT = ("config.yaml", "metrics.jsonl")
"""Of each training; its checkpoints and dumps stay where they were made."""


def write_trainings(folders: Mapping[str, Path], page: Path) -> Path:
    """Pack ``KEPT`` of every training, name to folder, beside its page. Same files, same bytes: no clock is in them."""
    packed = io.BytesIO()
    # The file's own name and time would stand in gzip's header.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for training in sorted(folders):
            for name in KEPT:
                content = (folders[training] / name).read_bytes()
                member = tarfile.TarInfo(f"trainings/{training}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    (page / TRAININGS).write_bytes(packed.getvalue())
    return page / TRAININGS
