"""Regular expressions that are compiled where they are first used: importing the grader compiles none of them."""

import re
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn")


class _Lazy:
    """A pattern that becomes a compiled one, method by method, at its first use."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern, self.flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:  # found at once from now on
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def regex(source: str, flags: int = 0) -> re.Pattern[str]:
    """``re.compile``, put off to the first search.

    >>> regex(r"\\d+").findall("1 and 23")
    ['1', '23']
    """
    return cast("re.Pattern[str]", _Lazy(source, flags))
