"""JSON lines with a checksum: damage to them is detected.

The last field of a line is the CRC-32 of everything before it:

    {"task":"aime24","problem_id":"I-1","sample_index":3, ... ,"crc32":"1c291ca3"}

A flipped bit is found wherever it is, also inside a text, where the line would still be valid JSON. Lines without the
field, made by hand or by other tools, are taken as they are.

    >>> line = seal({"a": 1})
    >>> line, unseal(line)
    (b'{"a":1,"crc32":"a702fc6e"}\\n', {'a': 1})
    >>> unseal(line.replace(b"1", b"2", 1))
    Traceback (most recent call last):
    ValueError: its content is not what was written: crc32 a702fc6e does not fit
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.runs.files import open_to_read
from stapo_bench.tasks import LONGEST_LINE

_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\s*\Z')
_LONGEST = 24  # bytes of a seal, with the end of the line
_encode = json.JSONEncoder(separators=(",", ":")).encode  # one for all: json.dumps would make it anew for each line


def seal(values: Mapping[str, Any]) -> bytes:
    """Values as one line of ASCII JSON. At least one value."""
    body = _encode(values)[:-1].encode("ascii")
    return b'%b,"crc32":"%08x"}\n' % (body, zlib.crc32(body))


def unseal(line: bytes) -> dict[str, Any]:
    """The values of a line; ValueError says what is wrong with it."""
    try:
        values: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    if "crc32" in values:
        found = _SEAL.search(line, max(0, len(line) - _LONGEST))
        if found is None or int(found[1], 16) != zlib.crc32(memoryview(line)[: found.start()]):
            raise ValueError(f"its content is not what was written: crc32 {values['crc32']} does not fit")
        del values["crc32"]
    return values


def complete_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of every whole line; a last line without its end is being written, or torn.

    Raises:
        StapoError: the file is a pipe or a device; a line is longer than ``LONGEST_LINE``.
    """
    with open_to_read(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
            if len(line) > LONGEST_LINE:
                raise StapoError(f"{path}:{number}: expected a line of at most {LONGEST_LINE} bytes, got more")
            if not line.endswith(b"\n"):
                return  # stop here: what its writer adds meanwhile would look like a separate line
            yield number, line
