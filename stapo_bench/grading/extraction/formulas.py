"""Formulas in prose: each becomes one character of a private Unicode area, so that no rule cuts it in two."""

import re
from typing import NamedTuple

from stapo_bench.grading.patterns import regex

FIRST_HIDDEN, LAST_HIDDEN = 0xE000, 0xF8FF
_DISPLAY = regex(
    r"(?:(?:\$\$|\\\[)\s*)?\\begin\s*\{(aligned|split|align|equation|gather|eqnarray|multline)(\*?)\}(.{1,3000}?)"
    r"\\end\s*\{\1\2\}(?:\s*[.,]?\s*(?:\$\$|\\\]))?",
    re.DOTALL,
)
FORMULA = regex(
    r"\$\$(.{1,1500}?)\$\$|(?<!\\)\$((?:[^$\n]|(?<=\\)\$){1,1500})(?<!\\)\$|\\\[(.{1,1500}?)\\\]|\\\((.{1,800}?)\\\)",
    re.DOTALL,
)
_SO = regex(r"[^\\\n]*\b(?:so|hence|thus|therefore) (?=[^\n]*\\)")
_PROSE = regex(r"(?<![\\A-Za-z{])[A-Za-z]{3,}|^\s*\d[\d,.]*\s+[a-z]{2,}")


class Hidden(NamedTuple):
    """A text whose formulas are single characters, and the formulas."""

    text: str
    formulas: list[str]

    def shown(self, text: str) -> str:
        """``text`` with its formulas in their places again."""
        return "".join(
            self.formulas[ord(c) - FIRST_HIDDEN] if FIRST_HIDDEN <= ord(c) <= LAST_HIDDEN else c for c in text
        )


def hide_formulas(text: str) -> Hidden:
    """The text with a character in the place of each formula; "$50 and spent $26" holds none."""
    formulas: list[str] = []

    def hide(match: re.Match[str]) -> str:
        content: str = next(group for group in match.groups() if group)
        if len(formulas) > LAST_HIDDEN - FIRST_HIDDEN or (match[2] and is_money(content)):
            return match[0]
        formulas.append(f" {content.strip()} " if match[1] or match[3] else content.strip())
        return chr(FIRST_HIDDEN + len(formulas) - 1)

    text = re.sub(r"[\ue000-\uf8ff]", " ", text) if not text.isascii() else text
    if "\\begin" in text:
        text = _DISPLAY.sub(_last_row, text)
    text = "\n".join(map(_shown_as_latex, text.split("\n"))) if "\\" in text else text
    position, pieces = 0, []
    while match := FORMULA.search(text, position):
        shown = hide(match)
        if shown == match[0]:  # money: the next dollar sign may open a formula
            pieces.append(text[position : match.start() + 1])
            position = match.start() + 1
        else:
            pieces += [text[position : match.start()], shown]
            position = match.end()
    return Hidden("".join([*pieces, text[position:]]), formulas)


def _shown_as_latex(line: str) -> str:
    """A line that is LaTeX without dollar signs, with them; of "x > -4, so (-4, \\infty)." what follows "so"."""
    lead = _SO.match(line)
    before, formula = (line[: lead.end()], line[lead.end() :]) if lead else ("", line)
    return f"{before}$${formula}$$" if _is_latex(formula) else line


def _is_latex(line: str) -> bool:
    """Whether a line is LaTeX that stands without dollar signs, and no prose."""
    if "\\" not in line or "$" in line or not re.search(r"\\[A-Za-z]", line) or re.search(r"\\[()\[\]]|\\boxed", line):
        return False
    return not re.search(r"[A-Za-z\u0400-\u9fff]{3,}", re.sub(r"\\(?:text|mathrm)\{[^{}]*\}|\\[A-Za-z]+", " ", line))


def _last_row(match: re.Match[str]) -> str:
    """The last row of a display of several, as a formula of its own."""
    rows = [row for row in re.split(r"\\\\", match[3]) if row.strip()]
    row = rows[-1].replace("&", " ").strip() if rows else ""
    return f"$${row.rstrip(' .,')}$${'.' * row.endswith('.')}" if row else " "


def is_money(content: str) -> bool:
    """Whether what stands between two dollar signs is prose from one price to the next, or closes a bracket of it."""
    is_prose = bool(_PROSE.search(content)) or content.count(")") != content.count("(")
    is_prose = is_prose or content.rstrip().endswith(("=", "+", "-"))
    return content[:1].isdigit() and is_prose and "\\" not in content
