"""SIGINT for tests: in the background (``scripts/test.sh &``) it is ignored, and so it is in children."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """Within it SIGINT raises KeyboardInterrupt in this process, and children start with its usual meaning."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
