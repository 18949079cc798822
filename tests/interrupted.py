"""Interrupts for tests and the fault campaign. In the background (``scripts/test.sh &``) SIGINT is ignored, as it is in
children."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

# A module that is interrupted while it is imported, catches whatever comes, and is half there.
SHADOW = """\
import importlib, os, sys
try:
    os.kill(os.getpid(), {number})
    for _ in range(1000):
        pass
except BaseException:
    pass
sys.path.remove(os.path.dirname(__file__))
del sys.modules[__name__]
importlib.import_module(__name__)
"""


@contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """Within it SIGINT raises KeyboardInterrupt in this process, and children start with its usual meaning."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
