r"""Words of several languages around an answer: what states it, what joins values, what numbers are called."""

import re

JOINERS = {
    "and": "and", "or": "or", "et": "and", "ou": "or", "und": "and", "oder": "or", "y": "and", "o": "or", "e": "and",
    "или": "or", "и": "and", "和": "and", "或": "or", "或者": "or", "と": "and", "または": "or", "及": "and",
    "및": "and", "또는": "or", "u": "or",
}  # fmt: skip
# Verbs that a value follows as what the subject is.
_COPULAS = """
    is are was were be being equals equal becomes become remains total totals makes make gives give giving yields
    yield yielding leaving comes come amounts amount
    est sont vaut valent égale donne ist sind beträgt lautet lauten ergibt gleich es son vale fue è
    sono é são vale равно равен равна равны составляет есть 是 为 為 等于 等於 得 有 共 は が
"""
# Verbs that a value follows as what the subject has or does.
_VERBS = """
    has have had holds hold needs need takes take costs cost covers cover contains contain measures measure
    gets get got earns earn obtain obtains find found leaves leave spends spend pays pay travels travel walks
    walk drives makes arrives reaches weighs lasts requires produces sells sold left receives saves uses used
    eats bakes runs read reads include includes comprises has tiene hat haben a ont
"""
COPULAS, VERBS = (frozenset(words.split()) for words in (_COPULAS, _VERBS))
_ENGLISH_PHRASE = (
    r"(?:final\s{1,3}answer|correct\s{1,3}answer"
    r"|correct\s{1,3}(?:option|choice)(?=[\s:]{1,3}(?:is\s)?\W{0,4}\([A-J]\))|answer|\bans(?=\.?[ \t*]{0,4}[:=]))\.?"
    r"(?:\*\*|\s|\\text\{){0,8}"
    r"(?:to\s(?:the|this)\s\w{1,20}\s)?(?:is(?!n['’]t)|are(?!n['’]t)|:|=|→|⇒|->|=>|would\sbe|should\sbe|must\sbe)"
    r"(?:\s|\*\*|:|equal\sto|therefore|thus|simply|\\text\{){0,12}"
)
_OTHER_PHRASES = (
    r"(?:r[ée]ponse(?:\s(?:finale|correcte))?\s{0,2}(?:\*\*)?\s{0,2}(?:est|:)"
    r"|(?:Antwort|Ergebnis|Lösung)\s{0,2}(?:\*\*)?\s{0,2}(?:ist|lautet|:)|lautet\s(?:die\s)?(?:Antwort|Lösung)"
    r"|respuesta(?:\s(?:final|correcta))?\s{0,2}(?:\*\*)?\s{0,2}(?:es|:)|resultado\s(?:final\s)?(?:es|:)"
    r"|resposta(?:\sfinal)?\s{0,2}(?:\*\*)?\s{0,2}(?:é|:)|risposta(?:\sfinale)?\s{0,2}(?:\*\*)?\s{0,2}(?:è|:)"
    r"|\bответ(?:\s(?:равен|есть))?\s{0,2}(?:\*\*)?\s{0,2}[:：—–-]?"
    r"|答案\s?(?:\*\*)?\s?(?:应?该?[是为為]|[:：])"
    r"|(?:^|\n|[。 ])答\s?[:：]|答え\s?[はがは:：]|解答\s?[:：]|정답\s?[은:：]|답\s?[은:：])[\s*:：]{0,6}"
)
_PHRASE = re.compile(_ENGLISH_PHRASE, re.IGNORECASE)
_ANY_PHRASE = re.compile(rf"{_ENGLISH_PHRASE}|{_OTHER_PHRASES}", re.IGNORECASE)
# Words that only a language with decimal commas has.
EUROPEAN = re.compile(
    r"\b(?:ist|und|der|das|beträgt|lautet|ergibt|est|sont|donc|vaut|les|des|el|los|las|es|respuesta|resultado|il|della"
    r"|è|são|não|uma|Preis|Betrag|prix|moyenne|Durchschnitt|Wert|é|valor|valeur|Mittelwert|Ergebnis|Lösung|résultat"
    r"|réponse|promedio|media|area|área)\b|[а-яё]{3,}|€",
    re.IGNORECASE,
)
ENGLISH = re.compile(r"\b(?:the|is|we|that|with|this|which)\b", re.IGNORECASE)
_WITH_COMMA = re.compile(r"(?<![\d,.])(?<![\d,.]-)(\d+),(\d+)(?![\d,]|\.\d)")
_MEASURED = re.compile(r"=\s*-?0,\d+\s*$|\d,\d{1,2}\s?(?:[cmk]?m|k?g|[mc]?l|€|%|°)(?![A-Za-z])")
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d+)(?![\d,])")
_PAIR = re.compile(r"[(\[]\s*-?\d+,\d+\s*[)\]\[]|\\\{\s*\d+,\d+\s*\\\}")


def answer_phrases(text: str) -> list[re.Match[str]]:
    """The final-answer phrases of a text: "the answer is", "la réponse est", "答案是"."""
    return list((_PHRASE if ENGLISH.search(text) else _ANY_PHRASE).finditer(text))


def with_points(text: str) -> str:
    """The text with points in its decimal numbers, where it writes them with commas.

    It does where its words are of a language that does, or where two of its numbers begin with ``0,``, one such ends an
    equality, or one has a unit behind it, and no
    number in it has a point. A comma before exactly three digits may group thousands,
    and then shows nothing.

    >>> with_points("La moyenne est 1,5."), with_points("the roots 1,2"), with_points("Es sind 1.234,50 €")
    ('La moyenne est 1.5.', 'the roots 1,2', 'Es sind 1234.50 €')
    """
    if "," not in text or ENGLISH.search(text):
        return text
    text = _GROUPED.sub(lambda m: m[1].replace(".", "") + "." + m[2], text)
    clear = [m for m in _WITH_COMMA.finditer(text) if len(m[2]) != 3 or m[1] == "0"]
    if not clear:
        return text
    shown = EUROPEAN.search(text) or _MEASURED.search(text) or sum(m[1] == "0" for m in clear) > 1
    if not shown or (not EUROPEAN.search(text) and re.search(r"\d\.\d", text)):
        return text
    pairs = [m.span() for m in _PAIR.finditer(text)]
    return _WITH_COMMA.sub(lambda m: m[0] if any(a <= m.start() < b for a, b in pairs) else f"{m[1]}.{m[2]}", text)
