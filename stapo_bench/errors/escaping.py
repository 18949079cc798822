r"""Text of strangers, made safe for where it goes: a terminal, Markdown, CSV, LaTeX, HTML.

A name in a run folder, a title in a task file or a server's answer may hold anything: a line break that ends a row, an
escape sequence that writes to the clipboard, a mark that turns the direction of writing. Such characters are shown as
their escapes (``\n``, ``\x1b``, ``\u202e``) and never passed on.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Literal

Target = Literal["terminal", "markdown", "csv", "latex", "html"]

# Letters and marks by their category, and yet nothing is seen of them.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")  # the full-width ones, too
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LATEX = {"\\": r"\textbackslash{}", "–": "--", "×": r"$\times$", "−": "$-$", "†": r"$^\dagger$"}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def safe_text(text: str, target: Target, *, lines: bool = False) -> str:
    r"""The text as it may stand at the target: one line, in which everything can be seen and nothing acts.

    ``terminal``: nothing beyond that. ``markdown``: a table's cell, or a line that begins with a word of ours; no cell
    ends early, no HTML or link begins. ``csv``: no spreadsheet takes it for a formula; numbers stay numbers. ``latex``,
    ``html``: the text as they print it.

    >>> safe_text("a\nb \x1b]52;c;aGk=\x07 \u202e", "terminal")
    'a\\nb \\x1b]52;c;aGk=\\x07 \\u202e'
    >>> safe_text("a|b <img> [x](y)", "markdown"), safe_text("=1+2", "csv"), safe_text("-1.5", "csv")
    ('a\\|b \\<img> [x]\\(y)', "'=1+2", '-1.5')
    >>> safe_text("5 % of A_1", "latex"), safe_text("<b>", "html")
    ('5 \\% of A\\_1', '&lt;b&gt;')

    Args:
        text: of whatever origin.
        target: where it goes.
        lines: line breaks and tabs stay, in an output of several lines or a text that is data.
    """
    if not text.isprintable() or _INVISIBLE.search(text):
        text = "".join(_visible(character, "\n\t" if lines else "") for character in text)
    return _ESCAPES[target](text)


def _visible(character: str, kept: str) -> str:
    if character in kept or (character.isprintable() and not _INVISIBLE.match(character)):
        return character
    return " " if unicodedata.category(character) == "Zs" else ascii(character)[1:-1]


def _markdown(text: str) -> str:
    """Backslashes before a bar are doubled, for some readers take the first one for an escape of the second."""
    text = re.sub(r"(\\*)\|", r"\1\1\\|", text)
    return re.sub(r"<(?=[A-Za-z/!?])", r"\\<", text).replace("](", "]\\(")


def _csv(text: str) -> str:
    """Texts that begin as guarded ones do are guarded once more, so that ``without_guard`` can tell them."""
    begins = _FORMULA.match(text.lstrip("'")) is not None
    return f"'{text}" if begins and not _NUMBER.fullmatch(text) else text


def without_guard(cell: str) -> str:
    """The text of a CSV cell without the apostrophe that ``safe_text`` put before what looks like a formula.

    >>> [without_guard(safe_text(text, "csv")) for text in ("=1+2", "'=1+2", "-1.5", "'quoted'")]
    ['=1+2', "'=1+2", '-1.5', "'quoted'"]
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell.lstrip("'")) else cell


_ESCAPES: Mapping[Target, Callable[[str], str]] = {
    "terminal": str,
    "markdown": _markdown,
    "csv": _csv,
    "latex": lambda text: "".join(_LATEX.get(character, character) for character in text),
    "html": html.escape,
}
