r"""From the many ways to write an answer to one: Unicode, LaTeX layout and markdown become plain LaTeX.

Nothing here changes a value. What carries meaning but no layout (``\text``, units, percent, degrees) is left in place.
"""

import re
import unicodedata

_VULGAR = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5"}
_VULGAR |= {"⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8"}
_VULGAR |= {"⅑": "1/9", "⅒": "1/10", "↉": "0/3"}
_VULGAR_TABLE = {ord(c): rf"\frac{{{f[0]}}}{{{f[2:]}}}" for c, f in _VULGAR.items()}
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᵗᵏᵐ", "0123456789+-=()nixytkm")
_SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙₖₘₓᵢⱼ", "0123456789+-=()nkmxij")
_SYMBOLS = {
    **dict.fromkeys("−‐‑‒–—―﹣－➖", "-"),
    **dict.fromkeys("×✕✖⨯", r"\times "),
    **dict.fromkeys("·⋅∙•∗⋆", r"\cdot "),
    **dict.fromkeys("÷∕⁄", "/"),
    **dict.fromkeys("≤⩽≦", r"\le "),
    **dict.fromkeys("≥⩾≧", r"\ge "),
    **dict.fromkeys("∅⌀", r"\emptyset "),
    **dict.fromkeys("≈≃≅", r"\approx "),
    **dict.fromkeys("°º˚", r"^{\circ}"),
    **dict.fromkeys("…⋯", r"\ldots "),
    **dict.fromkeys("′’‘`´", "'"),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("∣❘", r"\mid "),
    **dict.fromkeys("《【〈⟨", "("),
    **dict.fromkeys("》】〉⟩", ")"),
    "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp ", "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∉": r"\notin ", "∖": r"\setminus ", "≡": r"\equiv ", "∧": r"\land ", "∨": r"\lor ", "√": r"\sqrt ",
    "∛": r"\sqrt[3]", "∜": r"\sqrt[4]", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}",
    "ⅈ": "i", "ⅇ": "e", "→": r"\to ", "∠": r"\angle ", "△": r"\triangle ", "∶": ":", "、": ", ", "，": ", ", "；": "; ",
    "。": ". ", "∘": r"\circ ", "∑": r"\sum ", "∏": r"\prod ", "∫": r"\int ", "℃": r"^{\circ}\text{C}",
    "℉": r"^{\circ}\text{F}", "²": "^{2}", "￥": "¥", "٪": "%", "٫": ".", "ℏ": r"\hbar ", "ℓ": r"\ell ",
}  # fmt: skip
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
    "psi omega"
)
_SYMBOLS |= {c: rf"\{n} " for c, n in zip("αβγδεζηθικλμνξοπρστυφχψω", _GREEK.split(), strict=True)}
_SYMBOLS |= {
    c: rf"\{n.capitalize()} "
    for c, n in zip(
        "ΓΔΘΛΞΠΣΦΨΩ", ["gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "phi", "psi", "omega"], strict=True
    )
}
_SYMBOLS |= {"ϕ": r"\phi ", "ϵ": r"\epsilon ", "ϑ": r"\theta ", "µ": r"\mu ", "ς": r"\sigma "}
_SYMBOL_TABLE = {ord(c): text for c, text in _SYMBOLS.items()}

_RUNS = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᵗᵏᵐ]+)|([₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙₖₘₓᵢⱼ]+)")
_RADICAND = re.compile(r"√\s*(?=[A-Za-z0-9π])([A-Za-zπ]|\d+(?:\.\d+)?)")
_LAYOUT = re.compile(
    r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s?\.?|\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|boldmath|rm|bf|it|sf|tt"
    r"|centering|raggedright|mathstrut|strut|hfill|noindent|nonumber|[Ll]arge|LARGE|[Hh]uge|small|normalsize|allowbreak|protect|relax)(?![A-Za-z])\s?"
)
_SPACES = re.compile(
    r"\\(?:[,;:> ]|quad(?![A-Za-z])|qquad(?![A-Za-z])|enspace(?![A-Za-z])|thinspace(?![A-Za-z]))|[~\s]"
)
_VANISH = re.compile(
    r"\\(?:!|/|-)|\\[hv]?phantom\s*(?:\{[^{}]*\}|-|\+)|\\[hv]space\*?\s*\{[^{}]*\}|\\label\s*\{[^{}]*\}|\\tag\s*\{[^{}]*\}"
)
_RESTYLE = re.compile(
    r"\\(?:math(?:bf|it|sf|tt|normal|cal|scr|frak)|textbf|textit|emph|underline|bm|boldsymbol|pmb|boxed|fbox|mathbin|mathord|mathop|ensuremath|hl|color\s*\{\w*\})(?![A-Za-z])\s*(?=\{)"
)
_SAME = [
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\[dt]binom(?![A-Za-z])"), r"\\binom"),
    (re.compile(r"\\(?:leq|leqslant|leqq)(?![A-Za-z])"), r"\\le "),
    (re.compile(r"\\(?:geq|geqslant|geqq)(?![A-Za-z])"), r"\\ge "),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\(?:neq|not\s*=)"), r"\\ne "),
    (re.compile(r"<=|=<"), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"!="), r"\\ne "),
    (re.compile(r"\\not\s*\\in(?![A-Za-z])"), r"\\notin "),
    (re.compile(r"\\(?:varnothing|O)(?![A-Za-z])|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"\\lbrace(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\[lr]?vert(?![A-Za-z])"), "|"),
    (re.compile(r"\\(?:Re|Im)?backslash(?![A-Za-z])"), r"\\setminus "),
    (re.compile(r"\\var(epsilon|theta|phi|rho|sigma|pi)(?![A-Za-z])"), r"\\\1"),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb)(?![A-Za-z])|\.\.\.+"), r"\\ldots "),
    (re.compile(r"\\(?:text(?:normal|rm|sf|sc|tt)|[mh]box|mathrm|operatorname\*?)(?![A-Za-z])\s*"), r"\\text"),
    (re.compile(r"\\text\s+(?=\{)"), r"\\text"),
    (re.compile(r"\\(?:degree|textdegree)(?![A-Za-z])|(?<=[\d})])\s*\\deg(?![A-Za-z])"), r"^{\\circ}"),  # not \deg P
    (re.compile(r"\^\s*\\circ(?![A-Za-z])|\^\s*\{\s*\\circ\s*\}"), r"^{\\circ}"),
    (re.compile(r"\\(?:euro|texteuro)(?![A-Za-z])"), "€"),
    (re.compile(r"\\(?:pounds|textsterling)(?![A-Za-z])"), "£"),
    (re.compile(r"\\langle(?![A-Za-z])"), "("),
    (re.compile(r"\\rangle(?![A-Za-z])"), ")"),
    (re.compile(r"\\frac\s*\{\\text\{([^{}]*)\}\}\s*\{\\text\{([^{}]*)\}\}"), r"\\text{\1/\2}"),
    (re.compile(r"\\colon(?![A-Za-z])"), ":"),
    (re.compile(r"\\#"), "#"),
    (re.compile(r"\\_"), "_"),
    (re.compile(r"\\lbrack(?![A-Za-z])"), "["),
    (re.compile(r"\\rbrack(?![A-Za-z])"), "]"),
    (re.compile(r"\\&"), "&"),
]  # fmt: skip
_ROW_END = re.compile(
    r"\\\\(?:\*|\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm)\s*\])?(?=\s|[-+&\d\w{}\\(]|$)|\\newline(?![A-Za-z])"
)
_THOUSANDS_TEX = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\!,\\!|\\,)\s*(?=\d{3}(?!\d))")
_ALIGNED = re.compile(r"\\begin\s*\{(align(?:ed)?|gather(?:ed)?|split|equation)(\*?)\}(.*?)\\end\s*\{\1\2\}", re.DOTALL)
_LENGTH = re.compile(r"(?:(\d+(?:\.\d+)?) ?')? ?(?:(\d+(?:\.\d+)?) ?(?:\"|''))?")
_CALL = (
    rf"(?:\\?({'|'.join(_GREEK.replace(' pi ', ' ').split())})|([a-z]))"
    r"(_\w|_\{\w+\})?('*) ?\( ?([a-z]) ?\)"
)
_CALLED = re.compile(  # v(r) = ..., y_p(t) = ... at the start of a value
    rf"(^\\text\{{[^{{}}]*\}} ?|^|(?<=[,;])|(?<=[,;] )|(?<=and )|(?<=and\}} )|(?<=and \}} )){_CALL} ?=(?=([^,;]*))"
)
_CALLED_LAST = re.compile(rf"([^=<>,;\\]|\\[a-z{{}}])+?= ?{_CALL}$")
_EMPTY = re.compile(r"[\^_]\s*\{\s*\}|\\(?:checkmark|blacksquare|square|qed|Box|phantom)(?![A-Za-z])")
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


def clean(text: str) -> str:  # noqa: PLR0912
    r"""Rewrite ``text`` in plain LaTeX with single spaces.

    >>> clean("−½ × 10⁻³")
    '-\\frac{1}{2} \\times 10^{-3}'
    >>> clean(r"$\left( \dfrac{3}{2},\, 11{,}000 \right)$.")
    '( \\frac{3}{2}, 11000 )'
    """
    if not text.isascii():
        text = _ascii(text)
    if text.endswith("\\") and not text.endswith("\\\\"):
        text = text[:-1]  # half of a "\\ " whose space was stripped
    if "&" in text and ";" in text:
        for entity, char in _ENTITIES.items():
            text = text.replace(entity, char)
    if "\\" in text or "{,}" in text:
        if "\\begin" not in text:
            text = re.sub(r"\\\\(?=[A-Za-z])", r"\\", text)  # written for a language that escapes backslashes
        text = _ALIGNED.sub(_unaligned, text) if "\\begin" in text else text
        text = _ROW_END.sub(r"\\cr ", text)
        text = _THOUSANDS_TEX.sub("", text)
        text = _VANISH.sub("", text)
        text = re.sub(r"\\\$", "USD ", text) if re.search(r"\\\$\s*-?[\d.(\\]", text) else text.replace("\\$", "")
        text = re.sub(r"\\[()\[\]](?!\w*pt)", " ", text)
        text = _LAYOUT.sub(" " if "\\right " in text else "", text)
        text = _RESTYLE.sub("", text)
        for pattern, same in _SAME:
            text = pattern.sub(same, text)
        text = _EMPTY.sub("", text)
        text = re.sub(r"\\text\{\s*((?:USD )?[-+]?[\d.,]+%?)\s*\}", r"\1", text)
    elif any(c in text for c in "<>=!.") and not text.isalnum():
        for pattern, same in (_SAME[7], _SAME[8], _SAME[9], _SAME[17]):
            text = pattern.sub(same, text)
    if "&" in text and "\\begin" not in text:
        text = re.sub(r"\\?&", ", ", text)
    if "$" in text:
        text = re.sub(r"^\$(?=\s*-?[\d.]+[^$]*$)", "USD ", text).replace("$", " ")
    text = _SPACES.sub(" ", text)
    text = (
        re.sub(r"(?<![\w)}])\*\*(?=\S)|(?<=\S)\*\*(?![\w({\\-])|^__|__$", "", text)
        if "*" in text or "_" in text
        else text
    )
    text = _unquoted(re.sub(r" {2,}", " ", text).strip())
    text = re.sub(r"^(\*|_)(?=[^\s*_])([^*_]*[^\s*_])\1$", r"\2", text)  # *7*, _7_: emphasis
    if "." in text:
        text = re.sub(r"\b(?:np|numpy|math|sp)\.(?=[a-z])", "", text)
    text = _unquoted(_without_stops(text))
    if text.endswith(("'", '"')) and (length := _LENGTH.fullmatch(text)):
        text = " ".join(
            f"{number} \\text{{{unit}}}" for number, unit in zip(length.groups(), ("ft", "in"), strict=True) if number
        )
    if "(" in text and "=" in text:
        if text.endswith(")") and _CALLED_LAST.fullmatch(text):
            text = " = ".join(side.strip() for side in reversed(text.split("=")))
        text = _CALLED.sub(_called, text)
    for _ in range(4):
        if not (text.startswith("{") and text.endswith("}") and _encloses(text)):
            break
        text = text[1:-1].strip()
    return text


def _without_stops(text: str) -> str:
    """Without the stops at the end; ``\\;`` is a space and stays."""
    bare = text.rstrip(" \t\n.;:,")
    return bare + text[len(bare) : len(bare) + 1] if bare.endswith("\\") else bare


def _unquoted(text: str) -> str:
    """Without the quotes around the whole text; a single one is a prime, or the sign of feet or inches."""
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


def _ascii(text: str) -> str:
    """Spell what Unicode has for mathematics in LaTeX; drop marks that only steer layout."""
    text = text.translate(_VULGAR_TABLE)
    text = re.sub(r"√\s*\(", r"\\sqrt(", text)
    text = _RADICAND.sub(r"\\sqrt{\1}", text)
    text = _RUNS.sub(_script, text)
    text = text.translate(_SYMBOL_TABLE)
    out = []
    for char in text:
        if char.isascii():
            out.append(char)
            continue
        kind = unicodedata.category(char)
        if kind in ("Cf", "Cc", "Mn"):  # zero width, direction marks, combining accents
            continue
        digit = unicodedata.decimal(char, None)
        out.append(str(digit) if digit is not None else unicodedata.normalize("NFKC", char))
    # Mathematical alphabets hold Greek and signs of their own, which NFKC has just uncovered.
    return "".join(out).translate(_SYMBOL_TABLE)


def _script(match: re.Match[str]) -> str:
    if match[1]:
        return "^{" + match[1].translate(_SUPERSCRIPT) + "}"
    return "_{" + match[2].translate(_SUBSCRIPT) + "}"
