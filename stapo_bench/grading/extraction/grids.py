r"""A matrix or a column written as the lines that end a text: rows of numbers side by side."""

from stapo_bench.grading.patterns import regex

_ENTRY = r"[-−]?(?:\d+(?:\.\d+)?(?:/\d+)?)"
_ROW = regex(rf"(?:[\[(|⎡⎢⎣┌│└]\s*)?({_ENTRY}(?:[,\s]\s*{_ENTRY})+)(?:\s*[\])|⎤⎥⎦┐│┘])?(?:\s*,)?")
_BREAK = regex(r"[,\s]\s*")
MAX_ROWS = 6


def grid(text: str) -> str | None:
    r"""The matrix whose rows end the text, two or more of the same length; None of any other text.

    >>> grid("The transpose is\n\n[1 3]\n[2 4]"), grid("1 2\n3") is None
    ('\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}', True)
    """
    rows: list[list[str]] = []
    for line in reversed(text.rstrip(" \n.").split("\n")[-MAX_ROWS:]):
        row = _ROW.fullmatch(line.strip())
        if row is None:
            break
        rows.insert(0, _BREAK.split(row[1].strip()))
    if len(rows) < 2 or len({len(row) for row in rows}) > 1:
        return None
    return r"\begin{pmatrix}" + r"\\".join("&".join(row) for row in rows) + r"\end{pmatrix}"
