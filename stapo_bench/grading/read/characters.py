"""Unicode to LaTeX: what Unicode has for mathematics, in ASCII."""

import re
import unicodedata

from stapo_bench.grading.patterns import regex

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
GREEK = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
)  # fmt: skip
_SYMBOLS |= {c: rf"\{n} " for c, n in zip("αβγδεζηθικλμνξοπρστυφχψω", GREEK, strict=True)}
_SYMBOLS |= {
    c: rf"\{n.capitalize()} "
    for c, n in zip(
        "ΓΔΘΛΞΠΣΦΨΩ", ["gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "phi", "psi", "omega"], strict=True
    )
}
_SYMBOLS |= {"ϕ": r"\phi ", "ϵ": r"\epsilon ", "ϑ": r"\theta ", "µ": r"\mu ", "ς": r"\sigma "}
CYRILLIC_UNITS = {
    "км/ч": "km/h", "м/с": "m/s", "кВт": "kW", "Вт": "W", "кДж": "kJ", "Дж": "J", "км": "km", "см": "cm", "мм": "mm",
    "м": "m", "кг": "kg", "мг": "mg", "г": "g", "мин": "min", "ч": "h", "л": "L",
}  # fmt: skip
_FOREIGN_UNITS = CYRILLIC_UNITS | {
    "平方厘米": "cm^2", "平方米": "m^2", "立方厘米": "cm^3", "厘米": "cm", "毫米": "mm", "千米": "km", "公里": "km",
    "米": "m", "千克": "kg", "克": "g", "升": "L", "小时": "hours", "分钟": "minutes", "秒": "seconds",
}  # fmt: skip
_FOREIGN_UNIT = regex(rf"(?<![а-яё])(?:{'|'.join(sorted(_FOREIGN_UNITS, key=len, reverse=True))})(?![а-яё])")
_OR = regex(r"(?<=[\w)}])\s*(?:或者?|または|또는)\s*(?=[-−\w(\\√])")
# "13 个苹果": what is counted
_COUNTED = regex(r"(?<=\d)\s?[个本只张条辆名人支颗件块朵棵头匹台双种道次天页岁元袋盒瓶箱][\u4e00-\u9fa5]{0,4}(?=\W*$)")
_HATLESS = str.maketrans("îĵıȷ", "ijij")
_SYMBOL_TABLE = {ord(c): text for c, text in _SYMBOLS.items()}

# "3î + 4ĵ", where Markdown and TeX have \hat{i}; in "connaît" it is a letter.
_HATTED = regex(r"(?<![^\W\d_])(?:([ijkıȷ])\u0302|([îĵ]))(?![^\W\d_])")
_RUNS = regex("([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣʸᵗᵏᵐ]+)|([₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙₖₘₓᵢⱼ]+)")
_RADICAND = regex(r"√\s*(?=[A-Za-z0-9π])([A-Za-zπ]|\d+(?:\.\d+)?)")


def in_ascii(text: str) -> str:
    r"""The text with Unicode's mathematics spelled in LaTeX, and without marks that only steer layout.

    >>> in_ascii("√2 ≤ α²")
    '\\sqrt{2} \\le  \\alpha ^{2}'
    """
    if text.isascii():
        return text
    text = _FOREIGN_UNIT.sub(lambda match: _FOREIGN_UNITS[match[0]], _COUNTED.sub("", _OR.sub(" or ", text))).translate(
        _VULGAR_TABLE
    )
    text = _HATTED.sub(_hat, text)
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
            if kind == "Mn" and out and out[-1][-1:].isdigit():
                out.append(char)  # a digit struck out, or with a dot, is not that digit
            continue
        if kind == "No" and unicodedata.digit(char, None) is not None:
            out.append(char)  # nor is a circled one
            continue
        digit = unicodedata.decimal(char, None)
        out.append(str(digit) if digit is not None else unicodedata.normalize("NFKC", char))
    # Mathematical alphabets hold Greek and signs of their own, which NFKC has just uncovered.
    return "".join(out).translate(_SYMBOL_TABLE)


def _hat(match: re.Match[str]) -> str:
    """A unit vector under its circumflex, in LaTeX."""
    return rf"\hat{{{(match[1] or match[2]).translate(_HATLESS)}}}"


def _script(match: re.Match[str]) -> str:
    """A run of raised, or lowered, characters as one exponent, or index."""
    if match[1]:
        return "^{" + match[1].translate(_SUPERSCRIPT) + "}"
    return "_{" + match[2].translate(_SUBSCRIPT) + "}"
