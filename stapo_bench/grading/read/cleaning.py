r"""Many ways to write an answer become one: Unicode, LaTeX layout and markdown are rewritten in plain LaTeX.

Nothing here changes a value. What carries meaning but no layout (``\text``, units, percent, degrees) is left in place.
"""

import re
from collections.abc import Callable, Iterable

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read.characters import GREEK, in_ascii
from stapo_bench.grading.read.mixed_units import join_mixed
from stapo_bench.grading.read.notations import (
    drop_transposition,
    spell_binomials,
    spell_conditions,
    spell_exceptions,
    spell_joiners,
    spell_units,
)
from stapo_bench.grading.read.unit_spellings import plain_units, spell_rates

_LAYOUT = regex(
    r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s?\.?"
    r"|\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|boldmath|rm|bf|it|sf|tt|centering|raggedright|mathstrut"
    r"|strut|hfill|noindent|nonumber|[Ll]arge|LARGE|[Hh]uge|small|normalsize|allowbreak|protect|relax)(?![A-Za-z])\s?"
)
_SPACES = regex(r"\\(?:[,;:> ]|quad(?![A-Za-z])|qquad(?![A-Za-z])|enspace(?![A-Za-z])|thinspace(?![A-Za-z]))|[~\s]")
_VANISH = regex(
    r"\\(?:!|/|-)|\\[hv]?phantom\s*(?:\{[^{}]*\}|-|\+)|\\[hv]space\*?\s*\{[^{}]*\}|\\label\s*\{[^{}]*\}"
    r"|\\tag\s*\{[^{}]*\}"
)
_RESTYLE = regex(
    r"\\(?:math(?:bf|it|sf|tt|normal|cal|scr|frak)|textbf|textit|emph|underline|bm|boldsymbol|pmb|boxed|fbox"
    r"|mathbin|mathord|mathop|ensuremath|hl|color\s*\{\w*\})(?![A-Za-z])\s*(?=\{|\\[a-z]|[A-Za-z\d](?![A-Za-z]))"
)
_LESS_OR_EQUAL = (regex(r"<=|=<"), r"\\le ")
_GREATER_OR_EQUAL = (regex(r">="), r"\\ge ")
_UNEQUAL = (regex(r"(?<!\d)!="), r"\\ne ")
_PLUS_MINUS = (regex(r"\+\s?/\s?-|(?:^|(?<=[=(,])|(?<=[=(,] ))\+-|\+-(?=\s*\\?sqrt)"), r"\\pm ")
_DOTS = (regex(r"\\(?:dots|cdots|dotsc|dotsb)(?![A-Za-z])|\.\.\.+"), r"\\ldots ")
_SPELLINGS = (
    (regex(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (regex(r"\\[dt]binom(?![A-Za-z])"), r"\\binom"),
    (regex(r"\\(?:leq|leqslant|leqq)(?![A-Za-z])"), r"\\le "),
    (regex(r"\\(?:geq|geqslant|geqq)(?![A-Za-z])"), r"\\ge "),
    (regex(r"\\lt(?![A-Za-z])"), "<"),
    (regex(r"\\gt(?![A-Za-z])"), ">"),
    (regex(r"\\(?:neq|not\s*=)"), r"\\ne "),
    _LESS_OR_EQUAL,
    _GREATER_OR_EQUAL,
    _UNEQUAL,
    _PLUS_MINUS,
    (regex(r"\\not\s*\\in(?![A-Za-z])"), r"\\notin "),
    (regex(r"\\(?:varnothing|O)(?![A-Za-z])|\\\{\s*\\\}"), r"\\emptyset "),
    (regex(r"\\lbrace(?![A-Za-z])"), r"\\{"),
    (regex(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (regex(r"\\[lr]?vert(?![A-Za-z])"), "|"),
    (regex(r"\\(?:Re|Im)?backslash(?![A-Za-z])"), r"\\setminus "),
    (regex(r"\\var(epsilon|theta|phi|rho|sigma|pi)(?![A-Za-z])"), r"\\\1"),
    _DOTS,
    (regex(r"\\(?:text(?:normal|rm|sf|sc|tt)|[mh]box|mathrm|operatorname\*?)(?![A-Za-z])\s*"), r"\\text"),
    (regex(r"\\text\s+(?=\{)"), r"\\text"),
    (regex(r"\\text\{\s*(?:negative|minus)\s*\}(?=\s*[\d\\])"), "-"),
    (regex(r"\\(?:degree|textdegree)(?![A-Za-z])|(?<=[\d})])\s*\\deg(?![A-Za-z])"), r"^{\\circ}"),  # not \deg P
    (regex(r"\^\s*\\circ(?![A-Za-z])|\^\s*\{\s*\\circ\s*\}"), r"^{\\circ}"),
    (regex(r"\\(?:euro|texteuro)(?![A-Za-z])"), "€"),
    (regex(r"\\(?:pounds|textsterling)(?![A-Za-z])"), "£"),
    (regex(r"\\langle(?![A-Za-z])"), "("),
    (regex(r"\\rangle(?![A-Za-z])"), ")"),
    (regex(r"\\frac\s*\{\\text\{([^{}]*)\}\}\s*\{\\text\{([^{}]*)\}\}"), r"\\text{\1/\2}"),
    (regex(r"(?<![A-Za-z\\])m ?\\(?=(?:measured)?angle\b)"), r"\\"),
    (regex(r"\\colon(?![A-Za-z])"), ":"),
    (regex(r"\\#"), "#"),
    (regex(r"\\_"), "_"),
    (regex(r"\\lbrack(?![A-Za-z])"), "["),
    (regex(r"\\rbrack(?![A-Za-z])"), "]"),
    (regex(r"\\&"), "&"),
)  # fmt: skip
_SPELLINGS_WITHOUT_LATEX = (_LESS_OR_EQUAL, _GREATER_OR_EQUAL, _UNEQUAL, _PLUS_MINUS, _DOTS)
_ROW_END = regex(r"\\\\(?:\*|\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm)\s*\])?(?=\s|[-+&\d\w{}\\(]|$)|\\newline(?![A-Za-z])")
# No group of thousands follows a leading 0: "0{,}125" is a decimal.
_THOUSANDS_TEX = regex(r"(?<=\d)(?<!(?<!\d)0)(?:\{,\}|,\\!|\\!,\\!|\\,)\s*(?=\d{3}(?!\d))")
_DECIMAL_COMMA = regex(r"(?<=\d)\{,\}(?=\d)")
_MIXED_DEGREES = regex(r"(\d+) ?(\\frac(?:\{\d+\}\{\d+\}|\d\d)) ?(?=\^\{\\circ\})")
_COLOURED = regex(r"\\(?:textcolor|colorbox|fcolorbox\{\w*\})\s*\{#?\w*\}\s*(?=\{)|\\color\s*\{#?\w*\}")
_COLOURED_GROUP = regex(r"\\(?:color|textcolor)\s*\{#?\w*\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ALIGNED = regex(r"\\begin\s*\{(align(?:ed)?|gather(?:ed)?|split|equation)(\*?)\}(.*?)\\end\s*\{\1\2\}", re.DOTALL)
_LENGTH = regex(r"(?:(\d+(?:\.\d+)?) ?')? ?(?:(\d+(?:\.\d+)?) ?(?:\"|''))?")
_CALL = (
    rf"(?:\\?({'|'.join(name for name in GREEK if name != 'pi')})|([a-z]))"
    r"(_\w|_\{\w+\})?('*) ?\( ?([a-z]) ?\)"
)
_CALLED = regex(  # v(r) = ..., y_p(t) = ... at the start of a value
    rf"(^\\text\{{[^{{}}]*\}} ?|^|(?<=[,;])|(?<=[,;] )|(?<=and )|(?<=and\}} )|(?<=and \}} )){_CALL} ?=(?=([^,;]*))"
)
_NAME_OF_FUNCTION = regex(r"^\\?(gcd|lcm|max|min|det|dim|rank|deg) ?= ?(?=[^=]+$)")  # "gcd = 18"
_CALLED_LAST = regex(rf"([^=<>,;\\]|\\[a-z{{}}])+?= ?{_CALL}$")
_BUILDER = regex(r"[a-z](?: ?\\in ?[^|:]{1,20})? ?(?:\||\\mid|:(?!=)) ?[^|]*(?:[<>=]|\\[lgn]e)")
_NAMED_SET = regex(
    r"^[A-Z] ?= ?(?=\{[a-z] ?(?:\\in|\\mid|[|:])|\\?\{[^{}]*\\pm[^{}]*\}$)"
)  # D = {x | x < 5}, A = {0, ±1}
_EMPTY = regex(r"[\^_]\s*\{\s*\}|\\(?:checkmark|blacksquare|square|qed|Box|phantom)(?![A-Za-z])")
_ESCAPED = regex(r"\\\\(?=[A-Za-z])")  # written for a language that escapes backslashes
_PRICE = regex(r"\\\$\s*-?[\d.(\\]")
_DELIMITERS = regex(r"\\[()\[\]](?!\w*pt)")
_NUMBER_AS_TEXT = regex(r"\\text\{\s*((?:USD )?[-+]?[\d.,]+%?)\s*\}")
_LETTERS_AS_TEXT = regex(r"\s*\\text\{ ?[A-Za-z] ?\}(?:\^\{?\d\}?)? ?(?:=|[-+*/][^=]*=)")  # \text{F} = \text{ma}
_LETTER_AS_TEXT = regex(r"\\text\{ ?([A-Za-z]{1,2}) ?\}")
_BOLD = regex(r"(?<![\w)}])\*\*(?=\S)|(?<=\S)\*\*(?![\w({\\-])|^__|__$")
_BLANKS = regex(r" {2,}")
_EMPHASIS = regex(r"^(\*|_)(?=[^\s*_])([^*_]*[^\s*_])\1$")
_MODULE = regex(r"\b(?:np|numpy|math|sp)\.(?=[a-z])")
_ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&le;": r"\le ",
    "&ge;": r"\ge ",
    "&amp;": "&",
    "&nbsp;": " ",
    "&minus;": "-",
    "&pi;": r"\pi ",
}


def clean(text: str) -> str:
    r"""Rewrite ``text`` in plain LaTeX with single spaces, by the rules of ``RULES`` one after the other.

    >>> clean("−½ × 10⁻³")
    '-\\frac{1}{2} \\times 10^{-3}'
    >>> clean(r"$\left( \dfrac{3}{2},\, 11{,}000 \right)$.")
    '( \\frac{3}{2}, 11000 )'
    """
    for rule in RULES:
        text = rule(text)
    return text


def complete_commands(text: str) -> str:
    r"""Drop a backslash at the end: half of a ``\ `` whose space was stripped."""
    return text[:-1] if text.endswith("\\") and not text.endswith("\\\\") else text


def spell_entities(text: str) -> str:
    """Spell HTML's ``&lt;`` and the like."""
    if "&" in text and ";" in text:
        for entity, char in _ENTITIES.items():
            text = text.replace(entity, char)
    return text


def spell_plainly(text: str) -> str:
    r"""Use one spelling of each LaTeX command (``\dfrac``, ``\leqslant``, ``<=``) and none of those for layout."""
    if "\\" in text or "{,}" in text:
        return _plain_latex(text)
    if any(c in text for c in "<>=!.+") and not text.isalnum():
        text = _spelled(text, _SPELLINGS_WITHOUT_LATEX)
    return text


def _spelled(text: str, spellings: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """The text in these spellings; most stand in no answer, and a search costs less than a substitution."""
    for pattern, spelling in spellings:
        if pattern.search(text):
            text = pattern.sub(spelling, text)
    return text


def _plain_latex(text: str) -> str:
    """``spell_plainly`` where there is LaTeX."""
    if "\\begin" not in text:
        text = _ESCAPED.sub(r"\\", text)
    text = _ALIGNED.sub(_unaligned, text) if "\\begin" in text else text
    text = _ROW_END.sub(r"\\cr ", text)
    text = _DECIMAL_COMMA.sub(".", _THOUSANDS_TEX.sub("", text))
    text = _COLOURED.sub("", _COLOURED_GROUP.sub(r"\1", text)) if "color" in text else text
    text = _VANISH.sub("", text)
    if "\\$" in text:
        text = text.replace("\\$", "USD " if _PRICE.search(text) else "")
    text = _DELIMITERS.sub(" ", text)
    text = _LAYOUT.sub(" " if "\\right " in text else "", text)
    text = _RESTYLE.sub("", text)
    text = plain_units(_EMPTY.sub("", _spelled(text, _SPELLINGS)))
    if "\\frac" in text:
        text = _MIXED_DEGREES.sub(r"(\1+\2)", text)
    if _LETTERS_AS_TEXT.match(text):
        text = _LETTER_AS_TEXT.sub(r"\1", text)
    return _NUMBER_AS_TEXT.sub(r"\1", text)


def separate_cells(text: str) -> str:
    """Put a comma for each ``&`` outside an environment."""
    return re.sub(r"\\?&", ", ", text) if "&" in text and "\\begin" not in text else text


def drop_dollars(text: str) -> str:
    """Drop the dollar signs around formulas; one before a lone number is money."""
    return re.sub(r"^\$(?=\s*-?[\d.]+[^$]*$)", "USD ", text).replace("$", " ") if "$" in text else text


def drop_bold(text: str) -> str:
    """Drop markdown's ``**`` and ``__`` around a text, not the powers and products."""
    if "*" in text or "_" in text:
        return _BOLD.sub("", text)
    return text


def space_singly(text: str) -> str:
    """One blank for all the ways to leave space."""
    return _SPACES.sub(" ", text)


def strip_quotes(text: str) -> str:
    """Drop repeated blanks, blanks at the ends, and quotes around the whole."""
    return _unquoted(_BLANKS.sub(" ", text).strip())


def drop_emphasis(text: str) -> str:
    """``7`` for markdown's ``*7*`` and ``_7_``."""
    return _EMPHASIS.sub(r"\2", text) if text.startswith(("*", "_")) else text


def drop_modules(text: str) -> str:
    """``sqrt`` for ``np.sqrt``."""
    return _MODULE.sub("", text) if "." in text else text


def strip_stops(text: str) -> str:
    """Drop the stops at the end, and quotes around what is left."""
    return _unquoted(_without_stops(text))


def spell_lengths(text: str) -> str:
    """Feet and inches for ``5'6"``."""
    if text.endswith(("'", '"')) and (length := _LENGTH.fullmatch(text)):
        values = zip(length.groups(), ("ft", "in"), strict=True)
        return " ".join(f"{number} \\text{{{unit}}}" for number, unit in values if number)
    return text


def name_functions(text: str) -> str:
    """``v(r) = 2`` gives a value to a name; see ``_called``."""
    text = _NAME_OF_FUNCTION.sub(lambda name: rf"\text{{{name[1].upper()}}} = ", text)
    if "(" in text and "=" in text:
        if text.endswith(")") and _CALLED_LAST.fullmatch(text):
            text = " = ".join(side.strip() for side in reversed(text.split("=")))
        text = _CALLED.sub(_called, text)
    return text


def drop_braces(text: str) -> str:
    """Drop braces around the whole."""
    text = _NAMED_SET.sub("", text)
    for _ in range(4):
        if not (text.startswith("{") and text.endswith("}") and _encloses(text)):
            break
        text = text[1:-1].strip()
        if _BUILDER.match(text):
            return rf"\{{{text}\}}"
    return text


def _without_stops(text: str) -> str:
    """The text without the stops at its end; ``\\;`` is a space and stays."""
    bare = text.rstrip(" \t\n.;:,")
    return bare + text[len(bare) : len(bare) + 1] if bare.endswith("\\") else bare


def _unquoted(text: str) -> str:
    """The text without quotes around all of it; a single one is a prime, or the sign of feet or inches."""
    if not text.startswith(("'", '"', "`")):
        return text
    for opening, closing in (("``", "''"), ('"', '"'), ("'", "'"), ("`", "`"), ("`", "'")):
        inner = text[len(opening) : -len(closing)]
        if len(text) > len(opening + closing) and text == opening + inner + closing:
            return _without_stops(inner.strip()) if opening[0] not in inner and closing not in inner else text
    return text


def _called(match: re.Match[str]) -> str:
    """``v(r) = 2`` has a name, and is no product; f, g, h are known as functions, ``y'(t) = y`` is an equation."""
    before, greek, letter, index, primes, argument, value = match.groups()
    head = greek or letter
    if head in tuple("eifgh") or re.search(rf"(?<![A-Za-z{{]){head}(?![A-Za-z_}}])", value):
        return match[0]
    label = re.sub(r"[{}]", "", f"{head}{index or ''}{primes}({argument})")
    return rf"{before}\text{{{label}}} ="


def _unaligned(match: re.Match[str]) -> str:
    """Lines set below each other are values side by side."""
    return re.sub(r"\\\\", ", ", match[3].replace("&", " "))


def _encloses(text: str) -> bool:
    """Whether the first brace is closed by the last."""
    depth = 0
    for position, char in enumerate(text):
        escaped = position and text[position - 1] == "\\"
        depth += ((char == "{") - (char == "}")) * (not escaped)
        if depth == 0:
            return position == len(text) - 1
    return False


RULES: tuple[Callable[[str], str], ...] = (
    in_ascii,
    complete_commands,
    spell_entities,
    spell_plainly,
    separate_cells,
    spell_units,
    drop_dollars,
    space_singly,
    drop_bold,
    strip_quotes,
    drop_emphasis,
    drop_modules,
    strip_stops,
    drop_transposition,
    spell_binomials,
    spell_conditions,
    spell_exceptions,
    spell_joiners,
    spell_lengths,
    name_functions,
    drop_braces,
    join_mixed,
    spell_rates,
)
