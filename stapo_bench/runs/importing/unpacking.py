"""Archives and compressed files: what lies in a zip, gzip or zstd file is read as if it lay in a folder.

    kind, files = files_at(Path("outputs.zip/model-a"), scratch)

A name within an archive leads into it: ``outputs.zip/model-a`` is a folder of it. Nothing in an archive decides where
its content is written, and what would unpack to more than its bounds is refused while it unpacks.
"""

import gzip
import io
import struct
import uuid
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from stapo_bench.errors import StapoError, missing_package

Kind = Literal["file", "folder", "archive"]

MOST_FILES = 10_000  # in an archive
MOST_BYTES = 1 << 32  # that an archive, or a compressed file, unpacks to
MOST_RATIO = 250  # of the unpacked to the packed bytes, beyond the first ``_FREE``; logs of samples have 5 to 50
_FREE = 1 << 24
_BLOCK = 1 << 20
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, struct.error)


@dataclass(frozen=True)
class Found:
    """A file to be read, and what it is called."""

    path: Path
    label: Path


def files_at(path: Path, scratch: Path) -> tuple[Kind, list[Found]]:
    """What kind of place a path is, and the files there, in order of their names.

    Args:
        path: a file, a folder, an archive, or a folder or file within an archive.
        scratch: a folder of the caller's for what has to be unpacked.

    Raises:
        StapoError: a damaged or encrypted archive, names that lead out of it, or more than its bounds.
    """
    if path.is_dir():
        return "folder", [_uncompressed(inner, scratch) for inner in sorted(p for p in path.rglob("*") if p.is_file())]
    archive, inside = _split(path)
    if archive is None:
        return "file", [_uncompressed(path, scratch)]
    return ("archive" if inside == PurePosixPath() else "folder"), _unpacked(archive, inside, scratch)


def _uncompressed(path: Path, scratch: Path, label: Path | None = None) -> Found:
    """A file as it is, or as it was before gzip or zstd."""
    label = label or path
    if path.is_file() and (kind := _compression(path)) is not None:
        out = _new(scratch)
        with path.open("rb") as packed:
            source: Any = gzip.open(packed) if kind == "gzip" else open_zstd(packed, label)  # noqa: SIM115  # as packed
            with source, out.open("wb") as file:
                _copy(source, file, label, path.stat().st_size, MOST_BYTES)
        return Found(out, label)
    return Found(path, label)


def open_zstd(packed: Any, label: Path) -> IO[bytes]:
    """What a file that is open holds, without its compression by zstd; StapoError where nothing here reads that."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    except ModuleNotFoundError:
        raise StapoError(f"{label}: compressed with zstd: {missing_package('pyarrow')}") from None
    stream: IO[bytes] = pa.input_stream(packed, compression="zstd")
    return stream


def read_zstd_member(path: Path, info: zipfile.ZipInfo, most: int) -> bytes:
    """A member of a zip archive that is compressed with zstd, which zipfile does not read; at most ``most`` bytes."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(name + extra, 1)
        with open_zstd(io.BytesIO(file.read(min(info.compress_size, most))), path) as stream:
            return stream.read(most)


def refuse_bomb(label: str, packed: int, size: int, most: int = MOST_BYTES) -> None:
    """StapoError for what unpacks to more than is read, or to far more than samples do."""
    if size > most:
        raise StapoError(f"{label}: unpacks to more than {most} bytes; unpack it, and import its files")
    if size > _FREE and size > MOST_RATIO * max(1, packed):
        raise StapoError(
            f"{label}: unpacks to more than {MOST_RATIO} times its {packed} bytes, as no samples do; if it holds some, "
            "unpack it, and import its files"
        )


def _unpacked(archive: Path, inside: PurePosixPath, scratch: Path) -> list[Found]:
    """The files below a name in an archive."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _members(archive, opened, inside)
            left, found = MOST_BYTES, []
            for info in members:
                label = archive / info.filename
                out = _new(scratch)
                with opened.open(info) as source, out.open("wb") as file:
                    left -= _copy(source, file, label, info.compress_size, left)
                found.append(_uncompressed(out, scratch, label))
            return found
    except _UNREADABLE as error:
        why = " ".join(str(error).split())[:200]
        raise StapoError(f"{archive}: expected a zip archive, got a damaged one ({why}); repair it") from None


def _split(path: Path) -> tuple[Path | None, PurePosixPath]:
    """The archive that a path is or leads into, and the name in it; None where it is neither.

    A log of inspect_ai, and a spreadsheet, are archives too, and files of their own.
    """
    for outer in (path, *path.parents):
        if outer.is_file():
            is_container = _begins(outer, b"PK\x03\x04") and not _is_document(outer)
            return (
                (outer, PurePosixPath(path.relative_to(outer).as_posix())) if is_container else (None, PurePosixPath())
            )
        if outer.is_dir():
            break
    return None, PurePosixPath()


def _is_document(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return not {"header.json", "_journal/start.json", "xl/workbook.xml"}.isdisjoint(archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _members(path: Path, archive: zipfile.ZipFile, inside: PurePosixPath) -> list[zipfile.ZipInfo]:
    """The files below a name in the archive, in order of their names."""
    files = [info for info in archive.infolist() if not info.is_dir()]
    if len(files) > MOST_FILES:
        raise StapoError(f"{path}: expected at most {MOST_FILES} files in an archive, got {len(files)}; unpack it")
    for info in files:
        name = PurePosixPath(info.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in name.parts[0]:
            raise StapoError(f"{path}: holds {info.filename!r}, a name that leads out of it; unpack it with care")
    refuse_bomb(str(path), path.stat().st_size, sum(info.file_size for info in files))
    chosen = [info for info in files if PurePosixPath(info.filename).is_relative_to(inside)]
    if not chosen:
        there = sorted({str(PurePosixPath(info.filename).parent) for info in files})[:4]
        raise StapoError(f"{path}: expected files in {inside}, got none; it has {', '.join(there) or 'no files'}")
    return sorted(chosen, key=lambda info: info.filename)


def _copy(source: IO[bytes], file: IO[bytes], label: Path, packed: int, most: int) -> int:
    """Write all of it, as long as it keeps within bounds, whatever its header says; returns the bytes."""
    size = 0
    try:
        while block := source.read(_BLOCK):
            size += len(block)
            refuse_bomb(str(label), packed, size, most)
            file.write(block)
    except _UNREADABLE as error:
        raise StapoError(f"{label}: cannot be unpacked: {' '.join(str(error).split())[:200]}; repair it") from None
    return size


def _compression(path: Path) -> str | None:
    return "gzip" if _begins(path, b"\x1f\x8b") else "zstd" if _begins(path, b"\x28\xb5\x2f\xfd") else None


def _begins(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False  # whoever opens it says why


def _new(scratch: Path) -> Path:
    """A file of its own: what an archive calls it decides nothing."""
    return scratch / uuid.uuid4().hex
