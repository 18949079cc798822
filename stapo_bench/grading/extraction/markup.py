r"""Markup around an answer: HTML, code, answer tags and JSON replies become plain text, or the value they hold."""

import html
import json
import re
import unicodedata
from itertools import groupby
from typing import Any

from stapo_bench.grading.extraction.asides import states_nothing
from stapo_bench.grading.extraction.mathml import mathml
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.units import without_micro

NO_VALUE = "null"  # the answer of a reply that says that it has none
MAX_NAME = 2  # characters of the names of values, where a reply holds nothing but these
MAX_LEFT_OPEN = 2_000  # characters of a text whose last tag may be left open: a longer one was cut off
MIN_ROWS, MAX_ROW = 3, 200  # lines of columns that are a table, and characters of one
MAX_JSON = 20_000  # characters of a reply that is read as JSON

_TAG = regex(
    r"</?(?:p|div|span|b|strong|i|em|u|s|ul|ol|li|br|hr|h[1-6]|table|tbody|thead|tr|td|th|code|pre|center|section|mark"
    r"|small|big|ins|html|body|article|blockquote|sup|sub|del|math|font)\b(?:\s[^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
# "[b]42[/b]", "[hide]...[/hide]"
_BBCODE = regex(r"\[(i|b|u|hide|quote|center)\](.{0,2000}?)\[/\1\]", re.DOTALL)
_DRAWING = regex(r"\[asy\].*?(?:\[/asy\]|\Z)", re.DOTALL)
_ARRAY = regex(
    r"(?<!\{)(?:\$\$|\\\[)?\s*\\begin\{(array|tabular)\}\s*\{[^{}]*\}(.{1,2000}?)\\end\{\1\}\s*(?:\$\$|\\\])?",
    re.DOTALL,
)
# "\end{proof}", "\qed", "$\blacksquare$"
_OF_DOCUMENT = regex(
    r"\\(?:begin|end)\{(?:solution|proof|exercise|problem|question|answer|document|example|theorem|lemma)\}"
    r"|\\qed(?:here|symbol)?(?![A-Za-z])|\$?\\blacksquare(?![A-Za-z])\$?|\$\\(?:square|Box)\$\s*\Z"
)
_IN_TEXT = regex(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}")
_STRUCK = regex(r"<(del|s|strike)>.{0,500}?</\1>|~~[^~\n]{1,500}~~", re.IGNORECASE | re.DOTALL)
_ENTITY = regex(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,12}\d{0,2});")
_SCRIPT = regex(r"<(sup|sub)>([^<>]{1,200})</\1>", re.IGNORECASE)
_SCRIPT_FRACTION = regex(r"<sup>(\d{1,9})</sup>\s*(?:/|&frasl;|\u2044)\s*<sub>(\d{1,9})</sub>", re.IGNORECASE)
_STRONG = frozenset({"b", "strong"})
_INLINE = frozenset({"em", "i", "mark", "u", "ins", "span", "small", "big", "font", "math", "s", "del", "sup", "sub"})
_CELLS = frozenset({"td", "th"})
_FENCE = regex(r"```[ \t]*([A-Za-z+#]*)[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_PROMPT = regex(r"^(?:>>>|\.\.\.)(?: .*)?(?:\n|\Z)", re.MULTILINE)
_ABOUT = regex(r"(?<=[\w)]) ~ (?=[\d.])")
_ARROW = regex(r"(?<=\s)[-=]{1,3}>(?=\s)")
_OTHER_BOX = regex(r"\\bbox\s{0,3}(?:\[[^\]\n]{0,80}\])?(?=\{)|\\enclose\{[a-z, ]*box[a-z, ]*\}\s{0,3}(?=\{)")
_WITHOUT = regex(r"ℝ\s*\\\s*\{([^{}\n]{1,60})\}")
_EMOJI = regex(
    "(?<=[0-9])\ufe0f?\u20e3|[\U0001f300-\U0001faff\u2728\u2b50\u2764\u270f\u263a]"
)  # pictures; digits with marks are others
_SMALL_FRACTION = regex("([⁰¹²³⁴⁵⁶⁷⁸⁹]+)[⁄∕/]([₀-₉]+)")  # "⁶⁄₂₀"
_ROW_BELOW = regex(r"(\[[^\[\]\n]*\],?)[ \t]*\n[ \t]*(?=\[)")  # "[[1, 3],\n [2, 4]]"
_AMPERSAND = regex(r"(?<=[\d)]) & (?=[-−\d(])")  # "23, 24 & 25"
_LOG_BASE = regex(r"\blog ?\(?([\w.]+)\)? \(base (\d+)\)")  # "log 7 (base 10)"
_REAIS = regex(r"\bR\$ ?(?=\d)")  # "R$ 45", in Brazil
_POINT = regex(r"\(\s?([-−]?\d[\d.,/]{0,9})\s?\|\s?([-−]?\d[\d.,/]{0,9})\s?\)")  # as German writes it
_CITATION = regex(r"(?<=[.!?])\s*(?:\[\d+\]\s*)+\Z")
# Lines side by side that are parted by bars, without such at their ends.
_ROWS = regex(
    r"^(?:(?![ \t]*\|)[^|\n$]*[^|\n$ ][ \t]+(?:(?<=[ \t])\|[ \t](?:[^|\n$]|\$(?!\d)[^|\n$]*\$"
    r"|\$(?=\d))*)+(?<![| ])(?:\n|\Z)){2,}",
    re.MULTILINE,
)
# "| x | 3 |" in two rows and more, none of them a head: names and their values.
_NAMED_CELLS = regex(
    r"(?:^[ \t]*\|\s*[*$]*[a-zA-Z][*$]*[ \t]*\|[^|\n]+\|[ \t]*(?:\n(?![ \t]*\|[ \t]*:?-)|\Z)){2,}", re.MULTILINE
)
# Empty cells at the end of a row: "| Total | 42 | | – |"
_EMPTY_CELLS = regex(r"^([ \t]*\|.*[^|\s–—-].*?\|)(?:[ \t]*[–—-]?[ \t]*\|)+[ \t]*$", re.MULTILINE)
_ITEMIZE = regex(r"\\(?:begin|end)\s*\{(?:itemize|enumerate)\}(?:\[[^\]\n]*\])?\n?")
_ITEM = regex(r"\\item\b[ \t]*(?:\[[^\]\n]*\])?[ \t]*")
_MARKS = regex(r"[\[(]\d+ marks?[\])]")
_PRINTS = regex(r"\s*(?:print|console\.log|cout|echo)\b")  # a program of one line
_PRICES = regex(r"(\|\s*)\$(?=\d[\d,.]*\s*\|)")  # "| $14 | $38 |", where no two signs hold a formula
_ROW_OPENS = regex(r"\|\s*[*$]*[a-zA-Z][*$]*[ \t]*\|[^|\n]+\|[ \t]*\n[ \t]*\|")
# Three lines and more like "apples    12"
_GAP = regex(r" {3,}|\t+")
_CELL = regex(r"\|\s*[*$]*([a-zA-Z])[*$]*\s*\|\s*([^|\n]+?)\s*\|")
_SERIES = regex(r"([-+*·×] )\.\.\.+(?= ?[-+*·×])")  # "1 + 2 + ... + n" ends no sentence
_CODE = regex(r"`([^`\n]{1,300})`")
_ANSWER_TAG = regex(
    r"[<\[]\s{0,3}(/?)\s{0,3}(answer|final(?:[_ -]?answer)?|ans|result|solution|output|value)"
    r"(?:\s[^<>\n]{0,100})?[>\]]",
    re.IGNORECASE,
)
_OPENED = regex(r"<(?:final[_ ]?)?answer>", re.IGNORECASE)
_PLACEHOLDER = regex(
    r"\W*(?:your |the |final |numerical |insert )*(?:answer|value|result|number)?(?: here| goes here)?\W*", re.I
)
_CHILD = regex(r"<(\w{1,12})>([^<>]{1,100})</\1>")
_NO_KEY = regex(r"not_|error|step|confidence|\w+_bound")
_KEYS = (
    "final_answer",
    "finalanswer",
    "final answer",
    "answer",
    "ans",
    "result",
    "final",
    "value",
    "solution",
    "output",
    "action_input",
)
_CHECKS = regex(r"checks?|verification|explanation|reasoning|notes?|method|steps?", re.IGNORECASE)
_PAIR = regex(r'"(?:final[_ ]?answer|answer)"\s*:\s*("(?:[^"\\]|\\.)*"|\[[^\[\]]*\]|-?[\d.eE+-]+)', re.IGNORECASE)


def plain_text(text: str) -> str:
    r"""The text without HTML's tags and entities and without the marks of code; full-width characters in ASCII.

    >>> plain_text("<p>It is <b>10<sup>12</sup></b>.</p>").strip(), plain_text("so `7`")
    ('It is **10^{12}**.', 'so 7')
    """
    text = _without_residues(text)
    if "\\hline" in text or "{tabular}" in text:
        text = _ARRAY.sub(_rows_of, text)
    if "</" in text or "<br" in text:
        text = mathml(text) if "<math" in text else text
        text = _SCRIPT_FRACTION.sub(r"\1/\2", text)
        text = _SCRIPT.sub(lambda m: f"{'^' if m[1].lower() == 'sup' else '_'}{{{m[2]}}}", text)
        text = _TAG.sub(_untagged, text)
    if ">" in text:
        text = _ARROW.sub("\u2192", text)
    if "\\bbox" in text or "\\enclose" in text:
        text = _OTHER_BOX.sub(r"\\boxed", text)
    text = _plain_signs(text)
    if "&" in text:
        text = _ENTITY.sub(lambda m: html.unescape(m[0]), text)
    if not text.isascii() and _WIDE.search(text):
        text = _ALPHABETS.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text.translate(_PLAIN))
    if "   " in text or "\t" in text:
        text = _columns(text)
    if "|" in text:
        text = _plain_rows(text)
    end = text.rstrip()[-2:]
    if end[1:] == "]" and end[0].isdigit():
        text = _CITATION.sub("", text)
    if "`" in text:
        text = _FENCE.sub(_unfenced, text)
        text = _CODE.sub(r"\1", text)
    return text


def _without_residues(text: str) -> str:
    """The text without what is struck out, drawings, and what is left of a document in LaTeX."""
    if "~~" in text or "<" in text:
        text = _STRUCK.sub(" ", text)
    if "[/" in text:
        text = _BBCODE.sub(r"\2", text)
    if "[asy]" in text:
        text = _DRAWING.sub(" ", text)
    if "\\item" in text:
        text = _ITEM.sub("- ", _ITEMIZE.sub("", text))
    if " mark" in text:
        text = _MARKS.sub("", text)
    if "\\qed" in text or "$\\square$" in text or "$\\Box$" in text or "\\end{" in text or "\\blacksquare" in text:
        text = _OF_DOCUMENT.sub(" ", text)
    return text


def _rows_of(array: re.Match[str]) -> str:
    """The rows of a table in LaTeX, with bars around them; an array without lines is a matrix, and stays."""
    if "\\hline" not in array[2] and array[1] == "array":
        return array[0]
    rows = _IN_TEXT.sub(r"\1", array[2].replace("\\hline", "")).split("\\\\")
    return "".join(f"\n| {' | '.join(cell.strip() for cell in row.split('&'))} |" for row in rows if row.strip()) + "\n"


def _plain_signs(text: str) -> str:
    """The text with ≈, sets without points, points and sums with dots in one form; no emoji, and no sign of reais."""
    if "~" in text:
        text = _ABOUT.sub(" ≈ ", text)
    if not text.isascii():
        text = _SMALL_FRACTION.sub(lambda m: unicodedata.normalize("NFKC", f" {m[1]}/{m[2]}"), _EMOJI.sub("", text))
    if "µ" in text or "μ" in text:
        text = without_micro(text)
    if " & " in text and "\\begin" not in text:
        text = _AMPERSAND.sub(" and ", text)
    if text.rstrip(" .").endswith(" ans"):
        text = text.rstrip(" .")[: -len(" ans")]
    if "(base " in text:
        text = _LOG_BASE.sub(r"\\log_{\2} \1", text)
    if "[[" in text:
        text = _ROW_BELOW.sub(r"\1 ", text)
    if "R$" in text:
        text = _REAIS.sub("", text)
    if "\\ " in text and not text.isascii():
        text = _WITHOUT.sub(r"$\\mathbb{R} \\setminus \\{\1\\}$", text)
    if "|" in text:
        text = _POINT.sub(lambda m: f"({m[1].replace(',', '.')}, {m[2].replace(',', '.')})", text)
    if " ..." in text:
        text = _SERIES.sub(r"\1…", text)
    return text


def _columns(text: str) -> str:
    """Lines of two or more columns that blanks part, three of them and more, as rows of a table."""
    lines = text.split("\n")
    for is_row, group in [
        (key, list(places)) for key, places in groupby(range(len(lines)), lambda n: _is_row(lines[n]))
    ]:
        if is_row and len(group) >= MIN_ROWS:
            for place in group:
                lines[place] = f"| {_GAP.sub(' | ', lines[place].strip())} |"
    return "\n".join(lines)


def _is_row(line: str) -> bool:
    """Whether a line has columns, and no bar, formula or equality."""
    bare = line.strip()
    return len(bare) <= MAX_ROW and _GAP.search(bare) is not None and not any(sign in bare for sign in "|$\\=")


def _plain_rows(text: str) -> str:
    """Rows of a table with bars around them; rows of a letter and its value as equations."""
    if " | " in text:
        text = _ROWS.sub(lambda rows: "".join(f"| {row} |\n" for row in rows[0].splitlines()), text)
    text = _PRICES.sub(r"\1", _EMPTY_CELLS.sub(r"\1", text))
    if _ROW_OPENS.search(text):
        text = _NAMED_CELLS.sub(lambda rows: _CELL.sub(r"\1 = \2", rows[0]), text)
    return text


_WIDE = regex("[\u2010\u2011\uff01-\uff5e\u3000\U0001d400-\U0001d7ff\u2044\u2215\u2236\u2259\u00a0\u2007\u2009\u202f]")
_ALPHABETS = regex("[\U0001d400-\U0001d7ff]+")
# Full-width characters, slashes, spaces and a sign of ratio of their own.
_PLAIN = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {0x3000: " ", 0x2044: "/", 0x2215: "/"}
_PLAIN |= {0x2010: "-", 0x2011: "-", 0x2236: ":", 0x2259: "=", 0xA0: " ", 0x2007: " ", 0x2009: " ", 0x202F: " "}


def _untagged(match: re.Match[str]) -> str:
    """What stands in the place of a tag: Markdown's bold, a cell's border, a new line, or nothing."""
    name = re.sub(r"[^a-z0-9]", "", match[0].split()[0].lower())
    if name == "li":
        return "" if match[0].startswith("</") else "\n- "
    if name in _STRONG:
        return "**"
    if name in _CELLS:
        return " | "
    return "" if name in _INLINE or name == "code" else "\n"


def _unfenced(match: re.Match[str]) -> str:
    """A fence around one line is that line; around more, the lines as they are; a program is no text."""
    body = match[2].strip("\n")
    if _PROMPT.match(body):  # an interpreter's session: what stands behind its last input
        return f"\n{_PROMPT.split(body)[-1]}\n"
    if match[1].lower() in ("python", "py", "cpp", "java", "javascript", "js", "c", "r", "julia", "sh", "bash"):
        return "\n" if "\n" in body or _PRINTS.match(body) else f"\n{body}\n"
    return f"\n{body}\n"


def tagged(text: str) -> str | None:
    """What stands in the last pair of answer tags that holds more than a placeholder.

    >>> tagged("<answer>your answer</answer> then <ANSWER>45</ANSWER>")
    '45'
    """
    if "</" not in text and "[/" not in text:
        return _left_open(text) if "answer>" in text else None
    opened: dict[str, int] = {}
    last = None
    for tag in _ANSWER_TAG.finditer(text):
        name = tag[2].lower()
        if not tag[1]:
            opened[name] = tag.end()
        elif name in opened:
            inner = text[opened[name] : tag.start()].strip()
            last = last if _PLACEHOLDER.fullmatch(inner) else _named_by_tags(inner)
            opened.clear()
    return last


def _left_open(text: str) -> str | None:
    """What stands behind a tag ``<answer>`` that is never closed, where it is the last line of a short text."""
    opened = list(_OPENED.finditer(text))
    inner = text[opened[-1].end() :].strip() if opened and len(text) <= MAX_LEFT_OPEN else ""
    return inner if inner and "\n" not in inner and "<" not in inner and not _PLACEHOLDER.fullmatch(inner) else None


def _named_by_tags(inner: str) -> str:
    """``x = 3, y = -4`` for ``<x>3</x><y>-4</y>``."""
    pairs = _CHILD.findall(inner)
    is_all = pairs and not _CHILD.sub("", inner).strip(" ,;\n")
    return ", ".join(f"{name} = {value.strip()}" for name, value in pairs) if is_all else inner


def json_reply(text: str) -> str | None:
    r"""The answer of a reply that is a JSON object, or ends with one in a fence.

    >>> json_reply('{"steps": ["1/2 = 3/6"], "answer": "5/6"}'), json_reply('{"answer": [-2, 5]}')
    ('5/6', '-2, 5')
    """
    if "{" not in text or not ('"' in text or "':" in text) or len(text) > MAX_JSON:
        return None
    text = text if '"' in text else text.replace("'", '"')  # as Python writes a dictionary
    fences = [body for language, body in _FENCE.findall(text) if language.lower() in ("json", "") and "{" in body]
    body = (fences[-1] if fences else text).strip()
    if not body.startswith("{") or not body.endswith("}"):
        end = body.rfind("}")
        start = 0 if body.startswith("{") else body.rfind("\n{", 0, end) + 1 if "\n{" in body else body.find('{"')
        behind = body[end + 1 :].strip()
        is_end = len(behind) <= 3 or (states_nothing(behind, notes=True) and not re.search(r"\d", behind))
        opens = text.lstrip().startswith("{") and "\n" in body[end:].strip()  # whatever is said behind it
        if end < 0 or start < 0 or not (is_end or opens):
            return None
        body = body[start : end + 1]
    try:
        found = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        pairs = _PAIR.findall(body)
        return pairs[-1].strip('"[]') if pairs else None
    return _answer_in(found)


def _answer_in(found: Any) -> str | None:
    """The value under a key that names the answer."""
    if not isinstance(found, dict):
        return None
    found = {key: value for key, value in found.items() if not _CHECKS.fullmatch(str(key))} or found
    named = {str(key).lower(): value for key, value in found.items()}
    key = next((key for key in _KEYS if key in named), None)
    key = last if key is None and (last := next(reversed(named), "")) in ("roots", "solutions", "zeros") else key
    if (named[key] in (None, "", [], {})) if key is not None else (found and all(map(_NO_KEY.match, named))):
        return NO_VALUE
    if key is None and found and all(len(name) <= MAX_NAME and _is_scalar(value) for name, value in found.items()):
        return ", ".join(f"{name} = {value}" for name, value in found.items())
    if key is None and len(named) == 1 and isinstance(next(iter(named.values())), dict | list):
        key = next(iter(named))  # {"roots": [4, -4]}
    return None if key is None else _spelled(named[key])


def _is_scalar(value: Any) -> bool:
    """Whether a value of JSON is a number, or a text that may stand for one."""
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _spelled(value: Any) -> str | None:
    """A value of JSON as the text of an answer."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = _answer_in(value)
        return inner if inner is not None else ", ".join(f"{name} = {part}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(str(_spelled(part)) for part in value)
    return None if value is None else str(value).strip()
