"""What a run's samples cost: ``spent/<writer>.jsonl``, a line for each command that asked a server, as it ended.

It stands beside the samples and decides none of them; a command that was killed leaves no line.
"""

import os
from dataclasses import asdict
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from stapo_bench.engines import Spent
from stapo_bench.errors import StapoError
from stapo_bench.runs.files import after_last_newline, append, open_own, writing
from stapo_bench.runs.nested import JsonFields
from stapo_bench.runs.sealed import complete_lines, seal, unseal


def note_spent(run_dir: Path, writer: str, spent: Spent) -> None:
    """Add what a command spent on a run; the caller is the one writer of this name."""
    name = f"spent/{writer}.jsonl"
    with writing(run_dir / name), open_own(run_dir, name) as file:
        file.truncate(after_last_newline(file))  # behind a line that a full disk cut off
        file.seek(0, os.SEEK_END)
        append(file, seal(asdict(spent)))


def spent_on(run_dir: Path) -> Spent | None:
    """What all commands together spent on a run; None where none noted it.

    Raises:
        StapoError: a line is damaged.
    """
    found = []
    for path in sorted((run_dir / "spent").glob("*.jsonl")):
        for number, line in complete_lines(path):
            try:
                found.append(_from_json(unseal(line)))
            except ValueError as error:
                raise StapoError(
                    f"{path}:{number}: expected what a command spent, got damage ({error}); delete the line"
                ) from None
    return reduce(add, found) if found else None


def _from_json(raw: dict[str, Any]) -> Spent:
    """The reverse of ``asdict``; ValueError says which field is not as expected."""
    fields = JsonFields(raw, "spent")
    return Spent(
        num_answers=fields.integer("num_answers"),
        num_uncounted=fields.integer("num_uncounted"),
        prompt_tokens=fields.integer("prompt_tokens"),
        completion_tokens=fields.integer("completion_tokens"),
        money=fields.number("money") if fields.states("money") else None,
    )
