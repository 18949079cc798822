"""Which format a file has: found in its content; two that fit are a question and not a guess.

source = recognise(open_file(path))
for answer in source.answers(): ...
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from stapo_bench.errors import StapoError, UsageError, did_you_mean
from stapo_bench.runs.importing.answers import Answer, Stated
from stapo_bench.runs.importing.chats import OpenAiAnswers, Verifiers
from stapo_bench.runs.importing.harness_logs import Lighteval, LmEval
from stapo_bench.runs.importing.inspect_logs import InspectLog
from stapo_bench.runs.importing.known_layouts import LAYOUTS
from stapo_bench.runs.importing.opening import Opened
from stapo_bench.runs.importing.plain import mapped, plain_layout, why_not_plain
from stapo_bench.runs.importing.turned_away import reason


class Format(Protocol):
    """A reader of one tool's files."""

    @property
    def name(self) -> str:
        """What the format is called."""

    @property
    def reported(self) -> str:
        """The tool whose verdicts are in the file."""

    def fits(self, opened: Opened) -> str | None:
        """Why a file is of this format; None where it is not."""

    def stated(self, opened: Opened) -> Stated:
        """What the file says of all its samples."""

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """Every completion in the file."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file and its reader."""

    opened: Opened
    format: Format

    def answers(self) -> Iterator[Answer]:
        """Every completion in the file; can be read more than once."""
        return self.format.answers(self.opened)

    @property
    def stated(self) -> Stated:
        """What the file says of all its samples."""
        return self.format.stated(self.opened)


class NotSamplesError(StapoError):
    """A file that holds no samples."""


FORMATS: tuple[Format, ...] = (*LAYOUTS, LmEval(), Lighteval(), Verifiers(), OpenAiAnswers(), InspectLog())


def format_names() -> list[str]:
    """What ``--format`` takes besides ``auto``."""
    return [*dict.fromkeys(option(each.name) for each in FORMATS), "plain"]


def option(name: str) -> str:
    """A format's name on the command line.

    >>> option("OpenAI answers"), option("Qwen2.5-Math")
    ('openai-answers', 'qwen2.5-math')
    """
    return name.lower().replace(" ", "-").replace("_", "-")


def recognise(opened: Opened, wanted: str = "auto", columns: Mapping[str, str] | None = None) -> Source:
    """Find a file's reader.

    Args:
        opened: from ``open_file``.
        wanted: a format's name, or ``auto``.
        columns: of ``--map``: the file is then rows under these names, whatever else it looks like.

    Raises:
        NotSamplesError: it holds no samples; the error says what it is.
        UsageError: it fits two formats, or not the wanted one.
    """
    if columns or wanted == "plain":
        return Source(opened=opened, format=mapped(opened, columns or {}))
    if wanted != "auto" and wanted not in format_names():
        raise UsageError(
            f"unknown format '{wanted}': "
            + (did_you_mean(wanted, format_names()) or f"expected auto, {', '.join(format_names())}")
        )
    fitting = [(each, why) for each in FORMATS if (why := each.fits(opened)) is not None]
    if wanted != "auto":
        fitting = [(each, why) for each, why in fitting if option(each.name) == wanted]
        if not fitting:
            raise UsageError(f"{opened.name}: expected a file of {wanted}; its content is another's")
    names = {option(each.name): why for each, why in fitting}
    if len(names) > 1:
        found = " and ".join(f"{name} ({why})" for name, why in names.items())
        raise UsageError(f"{opened.name}: fits {found}; say which: --format {next(iter(names))}")
    if fitting:
        return Source(opened=opened, format=fitting[0][0])
    if (why := reason(opened)) is None and (layout := plain_layout(opened)) is not None:
        return Source(opened=opened, format=layout)
    raise NotSamplesError(f"{opened.name}: {why or _unknown(opened)}")


def _unknown(opened: Opened) -> str:
    columns = f" (columns: {', '.join(list(opened.first[0])[:20])}): {why_not_plain(opened)}" if opened.first else ""
    return f"no format fits{columns}; name its columns: --map problem=COLUMN,completion=COLUMN,gold=COLUMN"
