"""The console script ``stapo-train``, and ``python -m stapo_train``: it can be interrupted from the first import on."""

from collections.abc import Callable

from stapo_bench.errors import start_command
from stapo_train.stopping import when_stopped


def main() -> None:
    """Import the commands and run the one that was asked for."""
    start_command(_load, "stapo-train", when_stopped())


def _load() -> Callable[[], None]:
    from stapo_train.cli import main as run

    return run


if __name__ == "__main__":
    main()
