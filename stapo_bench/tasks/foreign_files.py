"""Files of strangers, read within bounds: no pipe that never ends, no gigabytes, no YAML that unfolds without end.

Whatever is wrong with a file is a StapoError of one line that names it. ``tests/test_house.py`` finds reads past this
module and ``runs/files.py``.
"""

import hashlib
import json
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from stapo_bench.errors import StapoError

MOST_BYTES = 1 << 20
"""Of a file of settings."""
LONGEST_LINE = 1 << 28
"""Bytes of a line, which is read whole."""
_MOST_NODES = 100_000
_LONGEST_NUMBER = 1000  # characters; a date or a number to the base 60 takes quadratic time


class BoundedLoader(yaml.SafeLoader):
    """Safe YAML whose aliases, written out, hold a bounded number of values; merged keys are bounded with them."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}  # of what is behind a node, aliases written out

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node; refuses one that holds too much."""
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if is_alias and node not in self._sizes:
            raise yaml.composer.ComposerError(None, None, "an alias of what it stands in", node.start_mark)
        if not is_alias:
            self._sizes[node] = 1 + sum(self._sizes.get(inner, 1) for inner in _inner(node))
        if self._sizes[node] > _MOST_NODES:
            raise yaml.composer.ComposerError(
                None, None, f"more than {_MOST_NODES} values, aliases written out", node.start_mark
            )
        return node

    def construct_scalar(self, node: Any) -> Any:
        """A scalar; a number or a date only where it is short."""
        if not node.tag.endswith(":str") and len(node.value) > _LONGEST_NUMBER:
            raise yaml.constructor.ConstructorError(None, None, "a number of too many digits", node.start_mark)
        return super().construct_scalar(node)


def _inner(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [inner for pair in node.value for inner in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def regular_file(path: Path) -> Path:
    """The path, for libraries that open it themselves; StapoError where it cannot be read or is no regular file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise StapoError(f"{path}: expected a file, got a folder, pipe or device")
    except OSError as error:
        raise StapoError(f"{path}: cannot be read: {error.strerror}") from None
    return path


def file_hashes(files: Sequence[Path]) -> dict[str, str]:
    """sha256 of files of one folder by their names; they are read in parallel.

    Raises:
        StapoError: a pipe, a device or a socket, which is not opened at all.
        OSError: the system's.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:  # hashing releases the interpreter's lock
        return dict(zip([file.name for file in files], pool.map(_sha256, files), strict=True))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # a folder is refused by the system, by name
        raise StapoError(f"{path}: expected a file, got a pipe, device or socket; remove it")
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def read_foreign_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a regular file, also behind a link.

    Raises:
        StapoError: it cannot be read, is no regular file, is larger than ``most_bytes``, or is not UTF-8.
    """
    try:
        with regular_file(path).open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise StapoError(f"{path}: expected at most {most_bytes} bytes, got more")
        return content.decode("utf-8")
    except OSError as error:
        raise StapoError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or a name that no file can have
        raise StapoError(f"{path}: expected a text in UTF-8: {error}") from None


def read_foreign_yaml(path: Path, loader: Callable[[str], BoundedLoader] = BoundedLoader) -> Any:
    """The value in a YAML file.

    Raises:
        StapoError: as ``read_foreign_text``; or it is not YAML, or holds too much.
    """
    text = read_foreign_text(path)
    try:
        return deepcopy(_parsed(text, loader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError) as error:  # no such date or number
        raise StapoError(f"{path}: not a readable YAML file: {' '.join(str(error).split())[:300]}") from None


@lru_cache(maxsize=64)  # a command that looks through all tasks reads what they include dozens of times
def _parsed(text: str, loader: Callable[[str], BoundedLoader]) -> Any:
    return loader(text).get_single_data()


def read_foreign_object(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The object in a JSON file; infinities, which some models' settings hold, are values, NaN is none.

    Raises:
        StapoError: as ``read_foreign_text``; or it is not JSON, or no object.
    """
    return _object(str(path), read_foreign_text(path, most_bytes), _infinity)


def read_foreign_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number (from 1) and object of each line of a file of JSON lines; empty lines are left out.

    Raises:
        StapoError: the file cannot be read; a line is no JSON object, or longer than ``LONGEST_LINE``.
    """
    with regular_file(path).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
            if line.strip():
                yield number, _row(f"{path}, line {number}", line)


def _row(place: str, line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise StapoError(f"{place}: expected at most {LONGEST_LINE} bytes, got more")
    try:
        return _object(place, line.decode("utf-8-sig"), _refuse)
    except UnicodeDecodeError as error:
        raise StapoError(f"{place}: expected a text in UTF-8: {error}") from None


def _object(place: str, text: str, constant: Callable[[str], float]) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a ValueError as well
        reason = " ".join(str(error).split())[:200]
        raise StapoError(f"{place}: expected a JSON object, got damage: {text[:60]!r} ({reason})") from None
    if not isinstance(found, dict):
        raise StapoError(f"{place}: expected a JSON object, got {type(found).__name__}")
    return found


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no value in JSON")


def _infinity(constant: str) -> float:
    return _refuse(constant) if constant == "NaN" else float(constant)
