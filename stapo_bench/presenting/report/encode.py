"""How data travel inside the page: JSON that cannot end its element, and compressed chunks that are read on demand."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")

_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
_LEVEL = 6  # of gzip; 9 takes three times as long for 2 % less


def json_island(value: Any) -> str:
    r"""JSON for a ``<script type="application/json">``: ASCII, and no character that HTML gives a meaning.

    >>> json_island(["</script>", "\u2028"])
    '["\\u003c/script\\u003e","\\u2028"]'
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def pack(value: Any) -> str:
    """JSON, compressed and in base64: the same text for the same value, whenever it is made.

    ASCII JSON, because a completion may hold what UTF-8 cannot (half of a surrogate pair at a cut-off).

    >>> unpack(pack(["\\ud835 </script>"]))
    ['\\ud835 </script>']
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("ascii"), _LEVEL, mtime=0)).decode("ascii")


def unpack(text: str) -> Any:
    """The inverse of ``pack``; the page has its own in JavaScript."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def script_hash(text: str) -> str:
    """What a Content-Security-Policy calls an inline script or style sheet that may stand in the page.

    >>> script_hash("alert('Hello, world.');")
    "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def chunked(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Cut a sequence so that the items of a chunk have at most this size together, or stand alone.

    >>> list(chunked("aaa bbb c ddddddddd e".split(), len, most=6))
    [['aaa', 'bbb'], ['c'], ['ddddddddd'], ['e']]
    """
    chunk: list[Item] = []
    total = 0
    for item in items:
        if chunk and total + size(item) > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += size(item)
    if chunk:
        yield chunk
