"""What to say about a name nobody knows: the nearest one that is known, and the list."""

from collections.abc import Iterable

from stapo_bench.errors import did_you_mean


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """One line for a ``UsageError``.

    >>> unknown_name("key", "objectiv", ["objective", "optim"])
    "unknown key 'objectiv': did you mean 'objective'? expected one of objective, optim"
    """
    names = list(known)
    hint = did_you_mean(name, names)
    return f"unknown {what} '{name}': {hint and hint + ' '}expected one of {', '.join(names)}"
