"""How data travel inside the page: JSON that cannot end its element, and compressed chunks that are read on demand."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

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


def chunk_starts(sizes: Iterable[int], most: int) -> Iterator[int]:
    """Where to cut a sequence of texts of these sizes so that a chunk holds at most ``most``, or a single text.

    >>> list(chunk_starts([3, 3, 3, 9, 1], most=6))
    [0, 2, 3, 4]
    """
    total = 0
    for number, size in enumerate(sizes):
        if number == 0 or total + size > most:
            yield number
            total = 0
        total += size
