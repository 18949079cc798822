"""Numbers in words of French, Spanish, German and Chinese, in digits; "one" is an article there, and stays."""

import re

from stapo_bench.grading.extraction.languages import ENGLISH, EUROPEAN
from stapo_bench.grading.patterns import regex

_FRENCH = (
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
)
_FRENCH_TENS = "vingt trente quarante cinquante soixante"
_SPANISH = (
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve"
)
_SPANISH_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa"
_GERMAN = (
    "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"


def _vocabulary() -> dict[str, int]:
    """Two to ninety-nine, and the round hundreds and thousands, as each language composes them."""
    french, spanish, german = (dict(enumerate(words.split(), start=1)) for words in (_FRENCH, _SPANISH, _GERMAN))
    words = {name: value for names in (french, spanish, german) for value, name in names.items() if value > 1}
    for tens, names in enumerate(_FRENCH_TENS.split(), start=2):
        words |= {f"{names}-{french[unit]}": 10 * tens + unit for unit in range(2, 20 if tens == 6 else 10)}
        words |= {names: 10 * tens, f"{names} et un": 10 * tens + 1}
    words |= {f"quatre-vingt-{french[unit]}": 80 + unit for unit in range(1, 20)} | {"quatre-vingts": 80}
    for tens, names in enumerate(_SPANISH_TENS.split(), start=3):
        words |= {f"{names} y {spanish[unit]}": 10 * tens + unit for unit in range(1, 10)} | {names: 10 * tens}
    for tens, names in enumerate(_GERMAN_TENS.split(), start=2):
        words |= {f"{german[unit]}und{names}": 10 * tens + unit for unit in range(1, 10)} | {names: 10 * tens}
    return words | {"cien": 100, "cent": 100, "hundert": 100, "mille": 1000, "mil": 1000, "tausend": 1000}


_WORDS = _vocabulary()
_PARTS = {
    "drittel": 3, "viertel": 4, "fünftel": 5, "sechstel": 6, "siebtel": 7, "achtel": 8, "neuntel": 9, "zehntel": 10,
    "zwölftel": 12, "zwanzigstel": 20, "hundertstel": 100, "tiers": 3, "quart": 4, "quarts": 4, "cinquième": 5,
    "cinquièmes": 5, "sixième": 6, "sixièmes": 6, "huitième": 8, "huitièmes": 8, "dixième": 10, "dixièmes": 10,
    "tercio": 3, "tercios": 3, "cuarto": 4, "cuartos": 4, "quinto": 5, "quintos": 5, "sexto": 6, "sextos": 6,
}  # fmt: skip
_ONE = "ein|un|une"
# Right behind its verb and at the end of its sentence: neither "not a quarter", nor "more than", nor "of 9".
_FRACTION = regex(
    r"\b((?:ist|beträgt|sind|ergibt sich|lautet|gleich|also|somit|est|vaut|donc|égale? à|es|son|igual a|è|é) )"
    rf"({'|'.join([*sorted(_WORDS, key=len, reverse=True), _ONE])}|\d+)"
    rf" ({'|'.join(_PARTS)})(?=\s*(?:[.!;]|\Z))",
    re.IGNORECASE,
)
# "dos horas y media", "3 heures et demie"
_AND_HALF = regex(
    r"\b(\d+) (horas?|heures?|ore|minut[eo]s|días?|jours?|metros?|mètres?|kilos?|Stunden)"
    r" (?:y medi[ao]|et demie?|e mezz[ao]|e meia)\b"
)
_KOREAN = dict(zip(("한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열"), range(1, 11), strict=True))
_KOREAN_NUMBER = regex(
    rf"((?:모두|총|[는은]) )({'|'.join(_KOREAN)}) ?"
    r"(?=(?:개|가지|명|번|쌍|장|마리|점|시간|살|줄)(?:입니다|이다|이에요|예요)?\s*(?:[.!]|\Z))"
)
_EUROPEAN_NUMBER = regex(rf"\b(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})\b(?!-)", re.IGNORECASE)
_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000}
_RUN = r"[零〇一二两三四五六七八九十百千万]+"
# Behind a verb or of two characters and more; not in "triangle", "quadratic", "the first", "together".
_CHINESE_NUMBER = regex(
    rf"百分之(?P<percent>{_RUN})|(?P<below>{_RUN})分之(?P<above>{_RUN})"
    rf"|(?<![第每])(?:(?<=[为是有得于共要])|(?={_RUN[:-1]}{{2}}))(?P<number>{_RUN})(?![角边维般共些样起直定])(?!次|元[一二])"
)


def with_digits(text: str) -> str:
    """The text with digits in the place of its numbers in words, where it is in one of these languages.

    >>> with_digits("Il y a donc vingt-quatre cas."), with_digits("共有二十四种，即百分之二十。")
    ('Il y a donc 24 cas.', '共有24种，即20%。')
    """
    if text.isascii() and ENGLISH.search(text):
        return text
    if re.search("[\uac00-\ud7af]", text):
        return _KOREAN_NUMBER.sub(lambda match: f"{match[1]}{_KOREAN[match[2]]}", text)
    if re.search("[\u4e00-\u9fff]", text):
        return _CHINESE_NUMBER.sub(_chinese, text)
    if ENGLISH.search(text) or not EUROPEAN.search(text):
        return text
    text = _FRACTION.sub(_fraction, text)
    text = _EUROPEAN_NUMBER.sub(lambda match: str(_WORDS[match[0].lower()]), text)
    return _AND_HALF.sub(r"\1.5 \2", text)


def _fraction(match: re.Match[str]) -> str:
    """ "fünf Sechstel" as 5/6."""
    above = match[2].lower()
    return f"{match[1]}{above if above.isdigit() else _WORDS.get(above, 1)}/{_PARTS[match[3].lower()]}"


def _chinese(match: re.Match[str]) -> str:
    """A Chinese numeral, percentage or fraction in digits."""
    if match["percent"]:
        return f"{_value(match['percent'])}%"
    if match["below"]:
        return f"{_value(match['above'])}/{_value(match['below'])}"
    return str(_value(match["number"]))


def _value(run: str) -> int:
    """The value of a run of Chinese digits and scales: 一百二十 is 120."""
    total = current = 0
    for char in run:
        if char in _DIGITS:
            current = _DIGITS[char]
        elif char == "万":
            total, current = (total + current) * 10_000, 0
        else:
            total, current = total + max(current, 1) * _SCALES[char], 0
    return total + current
