"""The console script ``stapo-bench``, and ``python -m stapo_bench``: it can be interrupted from the first import on."""

from collections.abc import Callable

from stapo_bench.errors import start_command

WHEN_STOPPED = "what is finished is safe: run the same command again to go on"


def main() -> None:
    """Import the commands and run the one that was asked for."""
    start_command(_load, "stapo-bench", WHEN_STOPPED)


def _load() -> Callable[[], None]:
    from stapo_bench.cli import main as run

    return run


if __name__ == "__main__":
    main()
