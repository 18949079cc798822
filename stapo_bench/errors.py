"""The one exception that reaches a user: a sentence that says what was expected, what came, where, and what to do."""

from collections.abc import Iterable


class StapoError(Exception):
    """A failure the user can act on. Commands print it as one line and exit with ``exit_code``."""

    exit_code = 1


class UsageError(StapoError):
    """The command cannot be understood as given (unknown task, preset, key): exit code 2."""

    exit_code = 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a name that nobody knows: the nearest known one, or "" where none is near.

    >>> did_you_mean("objectiv", ["objective", "optim"]), did_you_mean("zzz", ["objective"])
    ("did you mean 'objective'?", '')
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else ""
