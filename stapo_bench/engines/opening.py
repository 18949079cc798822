"""An engine in this process, or several of them behind one queue: what callers open."""

from pathlib import Path

from stapo_bench.engines.engine import Engine, EngineOptions, check_taken, open_here


def open_engine(options: EngineOptions, checkpoint: Path) -> Engine:
    """Start an engine: in this process, or as many replicas as were asked for, each with its share of the GPUs.

    Raises:
        UsageError: no engine has that name, it does not take one of the options, or there are too few GPUs.
        StapoError: a replica does not start.
    """
    if options.replicas is None:
        return open_here(options, checkpoint)
    from stapo_bench.engines.replicas import open_replicas  # what it imports costs every other command time

    check_taken(options)
    return open_replicas(options, checkpoint)
