"""The tokens of dumped mini-batches, as ``stapo-train audit DUMP --tokens`` writes them into ``<dump>/tokens.jsonl``.

First line: ``{"objective": NAME, "thresholds": {NAME: NUMBER}}``. Each further line is a response:

    prompt, advantage        its prompt's text; A_i
    text, prob, entropy      one per token: decoded, probability of the token taken, nats of its distribution
    mark                     one letter per token: s silenced, c candidate that was kept, . neither
    top                      one list per token: the likeliest tokens with their probabilities, most likely first
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.presenting.report.encode import pack
from stapo_bench.tasks import read_foreign_rows

FILE = "tokens.jsonl"
_COLUMNS = ("text", "prob", "entropy", "mark", "top")  # of equal lengths


@dataclass(frozen=True, kw_only=True)
class TokenData:
    """What the token view reads: a line per response, and the responses packed."""

    index: list[dict[str, Any]]  # per dump: name, objective, thresholds, responses
    chunks: dict[str, str]  # element id -> packed


def collect_tokens(folders: Sequence[Path]) -> tuple[TokenData, list[str]]:
    """Read the dumps in these folders (training runs, or dumps); and, in words, those that lack the file."""
    index: list[dict[str, Any]] = []
    chunks: dict[str, str] = {}
    notes = []
    for folder in dumps(folders):
        path = folder / FILE
        if not path.is_file():
            notes.append(f"{folder.name}: no tokens to show; 'stapo-train audit {folder} --tokens' makes them")
            continue
        header, responses = read_token_file(path)
        lines = []
        for number, response in enumerate(responses):
            name = f"tokens-{len(index)}-{number}"
            chunks[name] = pack(response)
            lines.append(
                {
                    "chunk": name,
                    "advantage": response["advantage"],
                    "tokens": len(response["text"]),
                    "silenced": response["mark"].count("s"),
                    "candidates": len(response["mark"]) - response["mark"].count("."),
                }
            )
        name = f"{folder.resolve().parent.parent.name}/{folder.name}"
        index.append({"name": name, **header, "responses": lines})
    return TokenData(index=index, chunks=chunks), notes


def dumps(folders: Sequence[Path]) -> Iterator[Path]:
    """The dumps in these folders: themselves, or those that a training run kept."""
    for folder in folders:
        if (folder / "dump.json").is_file():
            yield folder
        yield from sorted(path.parent for path in folder.glob("dumps/*/dump.json"))


def read_token_file(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and responses of a token file.

    Raises:
        StapoError: a damaged line, named.
    """
    header: dict[str, Any] = {}
    responses: list[dict[str, Any]] = []
    number = 1
    try:
        for number, row in read_foreign_rows(path):
            if number == 1:
                header = {"objective": str(row["objective"]), "thresholds": dict(row["thresholds"])}
                continue
            if len({len(row[name]) for name in _COLUMNS}) != 1:
                raise ValueError(f"expected one {', '.join(_COLUMNS)} per token")
            responses.append({name: row[name] for name in ("prompt", "advantage", *_COLUMNS)})
    except (StapoError, ValueError, KeyError, TypeError) as error:
        reason = (
            str(error)
            if isinstance(error, StapoError)
            else (f"{path}, line {number}: expected the tokens of a response, got damage ({error!r})")
        )
        raise StapoError(f"{reason}; 'stapo-train audit {path.parent} --tokens' makes the file again") from None
    return header, responses
