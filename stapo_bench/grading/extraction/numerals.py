"""Numbers in words of other languages than English, in digits; "one" is an article in most of them, and stays.

Below a million. French, Spanish, German, Italian, Portuguese and Russian are composed by one grammar of ones, tens,
hundreds and thousands (``_number``); a text is read in the language that most of its own words are of (``_language``).
Half of this file is their words.

    >>> with_digits("Il reste deux cent trente et un cas."), with_digits("Sono tutti i duecentotrentuno casi.")
    ('Il reste 231 cas.', 'Sono tutti i 231 casi.')
"""

import re
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from stapo_bench.grading.extraction.languages import ENGLISH, EUROPEAN
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import CYRILLIC_UNITS


class _Language(NamedTuple):
    """The number words of a language in the order of their values, "/" between forms of one; and what links them."""

    ones: str  # from 1
    teens: str  # from 10, as long as they are words of their own
    tens: str  # up to 90
    hundreds: str  # from 100; where it is one word, a number before it multiplies it
    thousand: str
    zero: str
    below_hundred: str  # how {tens}, {teens} and {ones} make a number
    times: str  # between what multiplies a hundred or thousand and that word
    plus: str  # between hundreds and what is below them
    plus_thousand: str  # between thousands and what is below them
    own: str  # words that show a text to be of this language


_LANGUAGES = {
    "French": _Language(
        "un/une deux trois quatre cinq six sept huit neuf",
        "dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf",
        "vingt trente quarante cinquante soixante septante quatre-vingt/quatre-vingts/huitante/octante nonante",
        "cent/cents", "mille", "zéro",
        r"(?:soixante|quatre[- ]vingts?)(?:[- ]et)?[- ]{teens}|{tens}(?:[- ](?:et[- ](?=un))?{ones})?|{teens}|{ones}",
        "[- ]", "[- ]", "[- ]",
        "au aux avec ce cela cette dans de des donc du elle en est et fait faut il la le les nous on ont par pour "
        "qui qu reste se soit son sont sur un une vaut réponse résultat total",
    ),
    "Spanish": _Language(
        "uno/un/una dos tres cuatro cinco seis siete ocho nueve",
        "diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve veinte veintiuno/veintiún/"
        "veintiuna veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve",
        "treinta cuarenta cincuenta sesenta setenta ochenta noventa",
        "cien/ciento doscientos/doscientas trescientos/trescientas cuatrocientos/cuatrocientas quinientos/quinientas "
        "seiscientos/seiscientas setecientos/setecientas ochocientos/ochocientas novecientos/novecientas",
        "mil", "cero",
        "{tens}(?: y {ones})?|{teens}|{ones}", " ", " ", " ",
        "al como con cual cuesta de decir del el en entonces es está fue hay la las lo los luego para por que quedan "
        "se son su tanto total tiene un una y respuesta resultado valor",
    ),
    "German": _Language(
        "eins/ein/eine zwei/zwo drei vier fünf/fuenf sechs sieben acht neun",
        "zehn elf zwölf/zwoelf dreizehn vierzehn fünfzehn/fuenfzehn sechzehn siebzehn achtzehn neunzehn",
        "zwanzig dreißig/dreissig vierzig fünfzig/fuenfzig sechzig siebzig achtzig neunzig",
        "hundert", "tausend", "null",
        "(?:{ones}und)?{tens}|{teens}|{ones}", " ?", "(?:und)?", "(?: |und)?",
        "also am antwort auf aus beträgt bleiben dann das dem den der des die ein eine er es ergibt ergebnis für gibt "
        "hat im in insgesamt ist lautet man mit noch sie sind somit und von wir zu zusammen",
    ),
    "Italian": _Language(
        "uno/un/una due tre quattro cinque sei sette otto nove",
        "dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove",
        # The last vowel falls before another: ventuno, centottanta.
        "venti/vent(?=un|otto) trenta/trent(?=un|otto) quaranta/quarant(?=un|otto) cinquanta/cinquant(?=un|otto) "
        "sessanta/sessant(?=un|otto) settanta/settant(?=un|otto) ottanta/ottant(?=un|otto) novanta/novant(?=un|otto)",
        "cento/cent(?=un|ott)", "mille/mila", "zero",
        "{tens}{ones}?|{teens}|{ones}", " ?", " ?", " ?",
        "a al che ci con da dei del della delle di dunque e gli hanno i il in l la le lo nel per più quindi restano "
        "risposta risultato se si sono tutte tutti tutto totale un una è",
    ),
    "Portuguese": _Language(
        "um/uma dois/duas três quatro cinco seis sete oito nove",
        "dez onze doze treze catorze/quatorze quinze dezesseis/dezasseis dezessete/dezassete dezoito dezenove/dezanove",
        "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
        "cem/cento duzentos/duzentas trezentos/trezentas quatrocentos/quatrocentas quinhentos/quinhentas "
        "seiscentos/seiscentas setecentos/setecentas oitocentos/oitocentas novecentos/novecentas",
        "mil", "zero",
        "{tens}(?: e {ones})?|{teens}|{ones}", " ", " e ", " (?:e )?",
        "a ao as com como custa da das de do dos e em então existem ficam há logo na no não o os para pela por "
        "portanto que restam resposta resultado se seja são também tem total um uma valor é",
    ),
    "Russian": _Language(
        "один/одна/одно/одного/одной/одному/одним/одну два/две/двух/двум/двумя/двое три/трёх/трём/тремя/трое "
        "четыре/четырёх/четырём/четырьмя/четверо пять/пяти/пятью/пятеро шесть/шести/шестью/шестеро семь/семи "
        "восемь/восьми/восемью/восьмью девять/девяти/девятью",
        "десять/десяти/десятью одиннадцать/одиннадцати двенадцать/двенадцати тринадцать/тринадцати "
        "четырнадцать/четырнадцати пятнадцать/пятнадцати шестнадцать/шестнадцати семнадцать/семнадцати "
        "восемнадцать/восемнадцати девятнадцать/девятнадцати",
        "двадцать/двадцати/двадцатью тридцать/тридцати/тридцатью сорок/сорока пятьдесят/пятидесяти/пятьюдесятью "
        "шестьдесят/шестидесяти/шестьюдесятью семьдесят/семидесяти/семьюдесятью "
        "восемьдесят/восьмидесяти/восемьюдесятью девяносто/девяноста",
        "сто/ста двести/двухсот/двумстам/двумястами триста/трёхсот/трёмстам/тремястами "
        "четыреста/четырёхсот/четырёмстам/четырьмястами пятьсот/пятисот/пятистам/пятьюстами "
        "шестьсот/шестисот/шестистам/шестьюстами семьсот/семисот/семистам/семьюстами "
        "восемьсот/восьмисот/восьмистам/восемьюстами девятьсот/девятисот/девятистам/девятьюстами",
        "тысяча/тысячи/тысяч/тысячу/тысяче/тысячей/тысячам/тысячами", "ноль/нуль/ноля/нуля/нолю/нулю",
        "{tens}(?: {ones})?|{teens}|{ones}", " ", " ", " ",
        "",  # told by its letters
    ),
}  # fmt: skip
_ENGLISH_OWN = (
    "a am an and are as at by can com die do each for from has hat have hay he her his how if in it man no not of on "
    "or our per pour she so son sur their them then there they to total war was will you answer one two three four "
    "five six seven eight nine ten hundred"
)
# Accents are often left out: veintidos, trentatre, четырех. Letter by letter, so that places stay.
_ACCENTED, _BARE = "áàâãéèêëíìóòôõöúùûüё", "aaaaeeeeiiooooouuuuе"
_WITHOUT_ACCENTS = str.maketrans(_ACCENTED + _ACCENTED.upper(), _BARE + _BARE.upper())
# "vingt et unième", "двадцать первый": the last word of an ordinal alone shows it.
_ORDINAL = regex(
    r" (?:et \w+i[eè]me|(?:перв|втор|трет|четв[её]рт|пят|шест|седьм|восьм|девят|десят|\w+надцат)"
    r"(?:ый|ой|ий|ая|ое|ого|ому|ым|ом|ую|ых|ые|ыми|ье|ья|ью|ьего|ьей|ьему|ьим|ьем))\b",
    re.IGNORECASE,
)
# "deux millions"
_MILLIONS = regex(r" (?:mil(?:li[oa]|h[oõã]|l[oó]n)|bilh|миллио|миллиар)", re.IGNORECASE)
_NOT_BEFORE = regex(r"\b(?:не|não) \Z", re.IGNORECASE)
# Before "cent", which is then no hundred: "vingt pour cent".
_PER = ("pour ", "por ", "per ")
# "sei" is "you are", too: six only before a plural, a unit or the end of a clause.
_SIX = regex(
    r"\s*(?:[.,;:!?)*]|\Z|\n)| (?:cm|mm|km|m|g|kg|euro|ore|in tutto|in totale"
    r"|(?!capac|abil|gentil|qui\b|forse|anche|pure)\w{3,}[ie])\b",
    re.IGNORECASE,
)
# "tu sei bravo"
_YOU_ARE = regex(r"\b(?:tu|ci|non|che|chi|dove|ne) \Z", re.IGNORECASE)

# What counts a part as one: "ein Drittel", "un tiers"
_ONE = "ein|eine|une?|una|uno|uma?|одна|одной|одну|одно"
_VERB = (
    r"(?:ist|beträgt|sind|ergibt sich|lautet|gleich|also|somit|est|vaut|donc|égale? à|es|son|vale|igual a|è|é|sono|são"
    r"|uguale a|quedan?|resulta|obtenemos|равн[аоы]|равен|составляет|это|получаем) (?:de |di |d['’])?"
)
# Endings of parts: "одна пятая", "две пятых"
_AFTER = ("ая", "ой", "ую", "ых", "ым")
_PARTS = {
    "halb": 2, "demi": 2, "drittel": 3, "viertel": 4, "fünftel": 5, "sechstel": 6, "siebtel": 7, "achtel": 8,
    "neuntel": 9, "zehntel": 10,
    "zwölftel": 12, "zwanzigstel": 20, "hundertstel": 100, "tiers": 3, "quart": 4, "quarts": 4, "cinquième": 5,
    "cinquièmes": 5, "sixième": 6, "sixièmes": 6, "huitième": 8, "huitièmes": 8, "dixième": 10, "dixièmes": 10,
    "tercio": 3, "tercios": 3, "cuarto": 4, "cuartos": 4, "quinto": 5, "quintos": 5, "sexto": 6, "sextos": 6,
    "mezzo": 2, "mezzi": 2, "terzo": 3, "terzi": 3, "quarto": 4, "quarti": 4, "quinti": 5, "sesto": 6, "sesti": 6,
    "doceavo": 12, "doceavos": 12, "onceavo": 11, "onceavos": 11, "quinceavos": 15, "veinteavo": 20, "veinteavos": 20,
    "settimo": 7, "settimi": 7, "ottavo": 8, "ottavi": 8, "nono": 9, "noni": 9, "decimo": 10, "decimi": 10,
    "meio": 2, "meios": 2, "terço": 3, "terços": 3, "quartos": 4, "sétimo": 7, "sétimos": 7, "oitavo": 8, "oitavos": 8,
    "nonos": 9, "décimo": 10, "décimos": 10, "septième": 7, "septièmes": 7, "neuvième": 9, "neuvièmes": 9,
    "medio": 2, "medios": 2, "octavo": 8, "octavos": 8, "треть": 3, "трети": 3, "третям": 3, "третьих": 3,
    "четверть": 4, "четверти": 4, "четвертям": 4,
} | {
    stem + after: value
    for stem, value in {"втор": 2, "четвёрт": 4, "четверт": 4, "пят": 5, "шест": 6, "седьм": 7, "восьм": 8, "девят": 9,
                        "десят": 10, "двенадцат": 12, "двадцат": 20}.items()
    for after in _AFTER
}  # fmt: skip
# Right behind its verb and at the end of its sentence: neither "not a quarter", nor "more than", nor "of 9".
_END = r"(?=\s*(?:[.!;]|\Z)|\s[а-яё]{3,}\s*(?:[.!]|\Z))"
_FRACTION = regex(rf"\b({_VERB})({_ONE}|\d+) ({'|'.join(_PARTS)}){_END}", re.IGNORECASE)
# What else stands behind a number that is none alone: "пять целых две десятых".
_PART = regex(
    rf" (?:({'|'.join(_PARTS)}){_END}|(?:{'|'.join(_PARTS)}|(?:цел|\w*сот|\w*тысячн)(?:ая|ой|ую|ых|ым))\b)", re.I
)
_SAID = regex(rf"\b{_VERB}\Z", re.IGNORECASE)
# "vaut moins 3"; "ist minus eins"
_MINUS = regex(rf"((?:\b{_VERB}|: ))(?:moins|menos|meno|minus|минус) (?=\d)", re.IGNORECASE)
_MINUS_ONE = regex(rf"((?:\b{_VERB}|: ))(?:moins un|menos uno?|meno uno|minus eins|минус один)\b", re.IGNORECASE)
# "dos horas y media", "3 heures et demie"; "два с половиной часа"
_AND_HALF = regex(
    r"\b(\d+)(?:( horas?| heures?| ore| minut[eo]s| días?| jours?| metros?| mètres?| kilos?| Stunden)"
    r" (?:y medi[ao]|et demie?|e mezz[ao]|e meia)| (?:y medio|et demie?|e mezzo|e meio|с половиной))\b"
)
# Korean numbers that count things: "스물네 개" is 24.
_NATIVE = dict(zip(("한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉"), range(1, 10), strict=True))
_NATIVE_TENS = dict(
    zip(("열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"), range(10, 100, 10), strict=True)
) | {"스무": 20}
_KOREAN_NUMBER = regex(
    rf"((?:모두|총|[는은]) )(?=\S)({'|'.join(_NATIVE_TENS)})?({'|'.join(_NATIVE)})? ?"
    r"(?=(?:개|가지|명|번|쌍|장|마리|점|시간|살|줄)(?:입니다|이다|이에요|예요)?\s*(?:[.!]|\Z))"
)
_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000}
_RUN = r"[零〇一二两三四五六七八九十百千万]+"
# Behind a verb or of two characters and more; not in "triangle", "quadratic", "the first", "together".
_CHINESE_NUMBER = regex(
    rf"百分之(?P<percent>{_RUN})|(?P<below>{_RUN}|\d+) ?分[之の] ?(?P<above>{_RUN}|\d+)"
    rf"|(?<![第每])(?:(?<=[为是有得于共要])|(?={_RUN[:-1]}{{2}}))(?P<number>{_RUN})(?![角边维般共些样起直定])(?!次|元[一二])"
)
_PERCENT = regex(r"(?<=\d) (?:Prozent|pour cent|por ciento|por cento|per cento|процент(?:а|ов)?)(?![\w])")
# Behind a number; a single letter may begin a word cut short ("2020 г.").
_UNIT = regex(rf"(?<=\d) ?({'|'.join(unit for unit in CYRILLIC_UNITS if len(unit) > 1)})(?![а-яё/])")
_METRES = regex(r"(?<=\d) м(?=\.?\s*\Z)")
_NO = regex(r", no (?=\d)")  # "35, no 70"
_SAID_TWICE = regex(r"(?<![\w.,])(\d+) \(\1\)")  # "settantacinque (75)"
# "2 horas y 30 minutos"
_HOURS = regex(
    r"(\d+) (?:horas?|heures?|Stunden?|or[ae]) (?:y|et|und|e) (\d+) (?:minutos?|minutes?|Minuten?|minut[oi])\b"
)


def with_digits(text: str) -> str:
    """The text with digits in the place of its numbers in words, where it is in one of these languages.

    >>> with_digits("Il y a donc vingt-quatre cas."), with_digits("共有二十四种，即百分之二十。")
    ('Il y a donc 24 cas.', '共有24种，即20%。')
    """
    if text.isascii() and ENGLISH.search(text):
        return text
    if re.search("[\uac00-\ud7af]", text):
        return _KOREAN_NUMBER.sub(_korean, text)
    if re.search("[\u4e00-\u9fff]", text):
        return _CHINESE_NUMBER.sub(_chinese, text)
    if ENGLISH.search(text) or (name := _language(text)) is None:
        return text
    text = _replaced(_NO.sub(", y no ", text) if name == "Spanish" else text, name)
    text = _UNIT.sub(lambda unit: f" {CYRILLIC_UNITS[unit[1]]}", _FRACTION.sub(_fraction, text))
    text = _METRES.sub(" m", text)
    text = _MINUS.sub(r"\1-", _MINUS_ONE.sub(r"\1-1", text))
    text = _SAID_TWICE.sub(r"\1", _HOURS.sub(r"\1 h \2 min", _PERCENT.sub("%", text)))
    return _AND_HALF.sub(r"\1.5\2", text)


def _language(text: str) -> str | None:
    """The language that most of a text's words are of; None for English, or where but one number is of it.

    >>> _language("A soma dos dois números é cento e um."), _language("La suma de los dos es ciento uno.")
    ('Portuguese', 'Spanish')
    """
    if re.search("[а-яё]{3}", text, re.IGNORECASE):
        return "Russian"
    words = set(re.findall(r"[^\W\d_]{2,}|[èé]", text.lower()))  # other single letters are names of numbers
    shown = {name: words & own for name, own in _own_words().items()}
    best = max(shown, key=lambda name: len(shown[name]))
    alone = shown[best] - shown["English"]
    if not alone:
        return None
    return best if len(alone) > 1 or EUROPEAN.search(text) or alone & {*_LANGUAGES[best].own.split()} else None


@cache
def _own_words() -> dict[str, frozenset[str]]:
    """The words that show a text to be of a language: its numbers, and what stands in every text."""
    words = {name: " ".join((*language[:6], language.own)) for name, language in _LANGUAGES.items()}
    # English is first, and so is it among equals.
    return {name: frozenset(_forms(own)) for name, own in [("English", _ENGLISH_OWN), *words.items()]}


def _plain(words: str) -> str:
    """Words without accents, letter by letter."""
    return words if words.isascii() else words.translate(_WITHOUT_ACCENTS)


def _forms(words: str) -> list[str]:
    """All the words of a list that has "/" between the forms of one."""
    return words.replace("/", " ").split()


@cache
def _values(name: str) -> dict[str, int]:
    """The value of each number word of a language, without accents."""
    language = _LANGUAGES[name]
    lists = ((1, 1, language.ones), (10, 1, language.teens), (100, 100, language.hundreds))
    valued = [(start + step * i, forms) for start, step, words in lists for i, forms in enumerate(words.split())]
    valued += [(90 - 10 * i, forms) for i, forms in enumerate(reversed(language.tens.split()))]
    valued += [(1000, language.thousand), (0, language.zero)]
    return {_plain(form).partition("(")[0]: value for value, forms in valued for form in forms.split("/")}


@cache
def _number(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of a number of a language, whose words ``_sum`` adds up, and of one word in it."""
    language = _LANGUAGES[name]
    ones, teens, tens, hundreds, thousand, zero = (_any_of(words) for words in language[:6])
    below_hundred = f"(?:{language.below_hundred.format(ones=ones, teens=teens, tens=tens)})"
    if " " not in language.hundreds:
        hundreds = f"(?:(?:{teens}|{ones}){language.times})?{hundreds}"
    below = f"(?:{hundreds}(?:{language.plus}{below_hundred})?|{below_hundred})"
    thousands = f"(?:{below}{language.times})?{thousand}(?:{language.plus_thousand}{below})?"
    word = _any_of(" ".join(language[:6]))
    # Most words begin no number: one flat look ahead tells.
    number = rf"(?<!\w-)\b(?={word})(?:{thousands}|{below}|{zero})\b"
    return re.compile(number, re.IGNORECASE), re.compile(word, re.IGNORECASE)


def _any_of(words: str) -> str:
    """A pattern of one of these words, the longest first; a hyphen may be a blank."""
    return f"(?:{'|'.join(sorted(_forms(_plain(words)), key=len, reverse=True))})".replace("-", "[- ]")


def _replaced(text: str, name: str) -> str:
    """The text with digits in the place of a language's numbers.

    >>> _replaced("Zweitausenddreihundertfünf Schafe, hundert Prozent, sechs- bis siebenmal, ein Hund", "German")
    '2305 Schafe, 100 Prozent, sechs- bis siebenmal, ein Hund'
    """
    (number, word), values = _number(name), _values(name)
    found = [
        (match, value)
        for match in number.finditer(_plain(text))
        if (value := _sum([values[part.lower().replace(" ", "-")] for part in word.findall(match[0])])) != 1
    ]
    if not found:
        return text
    gaps = [text[a.end() : b.start()] for (a, _), (b, _) in pairwise(found)]
    parts, end = [], 0
    for (match, value), before, behind in zip(found, ["", *gaps], [*gaps, ""], strict=True):
        # two side by side are neither: "два пять"
        if " " not in (before, behind) and _counts(text, match, value, name):
            parts += [text[end : match.start()], str(value)]
            end = match.end()
    return "".join([*parts, text[end:]])


def _sum(values: list[int]) -> int:
    """The number of which these are the words: a hundred or thousand multiplies what stands before it.

    >>> _sum([2, 100, 30, 5]), _sum([1000, 2, 100]), _sum([1000, 100])
    (235, 1200, 1100)
    """
    total = current = 0
    for value in values:
        if value == 1000:
            total, current = (current or 1) * 1000, 0
        else:
            current = (current or 1) * 100 if value == 100 else current + value
    return total + current


def _counts(text: str, match: re.Match[str], value: int, name: str) -> bool:
    """Whether a number in words is one: not in "cinq pour cent", "deux millions", "vingt et unième", "tu sei bravo"."""
    start, end = match.span()
    before = text[max(0, start - 30) : start]
    if text[end : end + 1] == "-" or _MILLIONS.match(text, end) or _NOT_BEFORE.search(before):
        return False
    if value in (100, 1000) and " " not in match[0] and before.lower().endswith(_PER):
        return False
    if name == "Italian" and match[0].lower() == "sei":
        return _SIX.match(text, end) is not None and not _YOU_ARE.search(before)
    if name in ("Italian", "Portuguese", "Russian") and (part := _PART.match(text, end)):
        return part[1] is not None and _SAID.search(before) is not None
    return value < 20 or value % 10 != 0 or not _ORDINAL.match(text, end)


def _fraction(match: re.Match[str]) -> str:
    """ "fünf Sechstel" as 5/6."""
    return f"{match[1]}{match[2] if match[2].isdigit() else 1}/{_PARTS[match[3].lower()]}"


def _korean(match: re.Match[str]) -> str:
    """ "모두 스물네" as "모두 24"; no number where none of its words are there."""
    value = _NATIVE_TENS.get(match[2], 0) + _NATIVE.get(match[3], 0)
    return f"{match[1]}{value}" if value else match[0]


def _chinese(match: re.Match[str]) -> str:
    """A Chinese numeral, percentage or fraction in digits."""
    if match["percent"]:
        return f"{_value(match['percent'])}%"
    if match["below"]:
        return f"{_value(match['above'])}/{_value(match['below'])}"
    return str(_value(match["number"]))


def _value(run: str) -> int:
    """The value of a run of digits, or of Chinese digits and scales: 一百二十 is 120."""
    if run.isdecimal():
        return int(run)
    total = current = 0
    for char in run:
        if char in _DIGITS:
            current = _DIGITS[char]
        elif char == "万":
            total, current = (total + current) * 10_000, 0
        else:
            total, current = total + max(current, 1) * _SCALES[char], 0
    return total + current
