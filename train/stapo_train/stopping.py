"""What a stopped training says, and who says it: known from the first import on, before anything heavy."""

import os


def launched() -> bool:
    """Whether a launcher has started this process, as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "TORCHELASTIC_RUN_ID" in os.environ


def when_stopped() -> str | None:
    """How to go on; None in one of several processes, for all of which the launcher speaks."""
    return None if launched() else "the same command goes on from the last checkpoint (a run: --resume)"
