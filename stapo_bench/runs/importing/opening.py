"""A file as rows, whatever its name: JSON lines, a JSON list or object, CSV or TSV, Parquet, a zip archive.

    opened = open_file(Path("samples.jsonl"))
    opened.kind, opened.first[0].keys(), sum(1 for _ in opened.rows())

The kind is found in the content. Rows stream: a file larger than memory can be read.
"""

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from stapo_bench.errors import StapoError
from stapo_bench.runs.importing.unpacking import read_zstd_member, refuse_bomb

Kind = Literal["json lines", "json list", "json", "table", "parquet", "zip", "text"]

LONGEST_LINE = 1 << 28
"""Characters of a line, or of an element of a list: a longer one is refused before it fills the memory."""
LONGEST_DOCUMENT = 1 << 30  # bytes of a JSON object, which is read whole
MOST_COLUMNS = 1 << 15  # of a table: a row is an object by column, and some are held to tell the format
_ZSTD = 93  # the number of that compression in a zip archive
_LOOKED_AT = 5  # rows from which a format is recognised
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A file whose kind is known."""

    path: Path
    kind: Kind
    delimiter: str = ","  # of a table
    first: tuple[dict[str, Any], ...] = field(default=())  # its first rows
    shown: Path | None = None  # its name where it lies elsewhere, such as in an archive

    @property
    def label(self) -> Path:
        """The file's name, as it is shown."""
        return self.shown or self.path

    @property
    def name(self) -> str:
        """The file's name as text."""
        return str(self.label)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every row, as an object by column; StapoError names the row that is none."""
        number = 0
        readers = {"json lines": _json_lines, "json list": _json_list, "parquet": _parquet}
        try:
            found = _table(self.path, self.delimiter) if self.kind == "table" else readers[self.kind](self.path)
            for number, row in enumerate(found, start=1):  # errors name it
                if not isinstance(row, dict):
                    raise _broken(self.label, f"row {number}", ValueError(f"expected an object, got {_shown(row)}"))
                yield row
        except (ValueError, RecursionError, csv.Error) as error:
            raise _broken(self.label, f"row {number + 1}", error) from None
        except OSError as error:
            raise StapoError(f"cannot read {self.name}: {error.strerror or error}") from None

    @cached_property
    def document(self) -> dict[str, Any]:
        """The object that the file is, or that its first line is."""
        if self.first:
            return self.first[0]
        with self.path.open("rb") as file:
            return _document(file.read(LONGEST_DOCUMENT + 1), self.label)

    def members(self) -> list[str]:
        """Names in a zip archive."""
        with _archive(self.path) as archive:
            return [info.filename for info in archive.infolist() if not info.is_dir()]

    def member(self, archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
        """A JSON object in a zip archive."""
        info, most = archive.getinfo(name), LONGEST_DOCUMENT + 1
        refuse_bomb(f"{self.name}:{name}", info.compress_size, info.file_size)
        try:
            if info.compress_type == _ZSTD:
                content = read_zstd_member(self.path, info, most)
            else:
                with archive.open(info) as file:
                    content = file.read(most)
        except (RuntimeError, zipfile.BadZipFile, OSError, EOFError) as error:  # encrypted: RuntimeError
            raise StapoError(f"{self.name}: cannot read {name}: {error}; export the log as JSON") from None
        return _document(content, Path(f"{self.name}:{name}"))

    def archive(self) -> zipfile.ZipFile:
        """The open archive."""
        return _archive(self.path)


def open_file(path: Path, shown: Path | None = None) -> Opened:
    """Find out what a file is; ``shown``: what errors call it, where it was unpacked from elsewhere.

    Raises:
        StapoError: no such file, not a regular one, or an empty one.
    """
    if not path.exists():
        raise StapoError(f"{shown or path}: no such file")
    if not path.is_file():
        raise StapoError(f"{shown or path}: expected a file, got a folder, pipe or device")
    try:
        with path.open("rb") as file:
            head = file.read(_BLOCK)
    except OSError as error:
        raise StapoError(f"cannot read {shown or path}: {error.strerror or error}") from None
    if not head.strip():
        raise StapoError(f"{shown or path}: the file is empty")
    kind, delimiter = _kind(head)
    opened = Opened(path=path, kind=kind, delimiter=delimiter, shown=shown)
    if kind in ("zip", "json", "text"):
        return opened
    first = tuple(islice(opened.rows(), _LOOKED_AT))
    return replace(opened, first=first)


def _kind(head: bytes) -> tuple[Kind, str]:
    if head.startswith(b"PK\x03\x04"):
        return "zip", ""
    if head.startswith(b"PAR1"):
        return "parquet", ""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return "json list", ""
    if text.startswith(b"{"):
        is_one_long_line = len(head) == _BLOCK and b"\n" not in text
        return ("json lines" if is_one_long_line or _is_object(text.split(b"\n", 1)[0]) else "json"), ""
    line = text.split(b"\n", 1)[0]
    counts = {delimiter: line.count(delimiter.encode()) for delimiter in ",\t;"}
    delimiter = max(counts, key=lambda name: counts[name])
    rest = text.split(b"\n", 1)[1:]
    is_table = counts[delimiter] > 0 and bool(rest and rest[0].strip()) and b"\0" not in head and b":" not in line
    return ("table", delimiter) if is_table else ("text", "")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for line in _lines(file):
            if line.strip():
                yield json.loads(line)


def _lines(file: BinaryIO) -> Iterator[str]:
    start = True
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise ValueError(f"a line is longer than {LONGEST_LINE} bytes")
        yield line.decode("utf-8-sig" if start else "utf-8")
        start = False


def _json_list(path: Path) -> Iterator[Any]:
    """The elements of a JSON list, one in memory at a time."""
    decoder = json.JSONDecoder()
    with path.open(encoding="utf-8-sig") as file:
        text, at, ended = file.read(_BLOCK), 0, False
        at = len(text) - len(text.lstrip()) + 1  # behind "["
        while True:
            at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
            if at < len(text) and text[at] == "]":
                return
            try:
                value, end = decoder.raw_decode(text, at) if at < len(text) else (None, -1)
            except ValueError:
                if ended or len(text) - at > LONGEST_LINE:
                    raise
                end = -1
            if end < 0 or (end > len(text) - 3 and not ended):  # a number may go on in the next block: 1, 1. or 1e+
                more = file.read(max(_BLOCK, len(text) - at))
                ended = not more
                if ended and end < 0 and at >= len(text):
                    raise ValueError("the list does not end")
                text, at = text[at:] + more, 0
                continue
            yield value
            at = end


def _table(path: Path, delimiter: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(LONGEST_LINE)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        names = [name.strip() for name in next(reader)]
        _check_width(len(names))
        if len(set(names)) < len(names):
            repeated = next(name for name, count in Counter(names).items() if count > 1)
            raise ValueError(f"two columns have the name {repeated!r}")
        for cells in reader:
            if len(cells) != len(names) and cells:
                raise ValueError(f"expected {len(names)} cells, got {len(cells)}")
            if cells:
                yield {name: cell if cell != "" else None for name, cell in zip(names, cells, strict=True)}


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        _check_width(len(file.schema_arrow))
        for batch in file.iter_batches(batch_size=256):
            yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None


def _check_width(num_columns: int) -> None:
    if num_columns > MOST_COLUMNS:
        raise ValueError(f"expected at most {MOST_COLUMNS} columns, got {num_columns}")


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise StapoError(f"{path}: expected a zip archive, got a damaged one ({error})") from None


def _document(content: bytes, path: Path) -> dict[str, Any]:
    if len(content) > LONGEST_DOCUMENT:
        raise StapoError(f"{path}: a JSON document of more than {LONGEST_DOCUMENT} bytes; split it")
    try:
        value = json.loads(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig").read())
    except (ValueError, RecursionError) as error:
        raise _broken(path, "the document", error) from None
    if not isinstance(value, dict):
        raise StapoError(f"{path}: expected a JSON object, got {_shown(value)}")
    return value


def _broken(path: Path, where: str, error: Exception) -> StapoError:
    why = "it is not in UTF-8; save it in that encoding" if isinstance(error, UnicodeDecodeError) else str(error)
    return StapoError(f"{path}: {where} cannot be read: {' '.join(why.split())[:200]}; repair or leave it out")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
