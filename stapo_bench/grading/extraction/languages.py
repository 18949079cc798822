r"""Words of several languages around an answer: what states it, what joins values, what numbers are called."""

import re

from stapo_bench.grading.patterns import regex

JOINERS = {
    "and": "and", "or": "or", "et": "and", "ou": "or", "und": "and", "oder": "or", "y": "and", "o": "or", "e": "and",
    "или": "or", "и": "and", "和": "and", "或": "or", "或者": "or", "と": "and", "または": "or", "及": "and",
    "및": "and", "또는": "or", "u": "or",
}  # fmt: skip
# Verbs that a value follows as what the subject is.
_COPULAS = """
    is are was were be being equals equal becomes become remains remain total totals makes make gives give giving yields
    yield yielding collapses reduces simplifies evaluates leaving comes come amounts amount
    ottiene ottengono obtiene obtienen obtém obtient erhält erhalten resulta résulte получаем получается получим
    corresponds correspond entspricht corresponde corrisponde
    est sont vaut valent égale donne ist sind beträgt lautet lauten ergibt gleich es son vale fue è
    hay há existem existe existen esistono misura mide mesure misst gibt существует всего
    sono é são vale fa fanno approaches равно равен равна равны составляет есть 是 为 為 等于 等於 得 有 共 は が
"""
# Verbs that a value follows as what the subject has or does.
_VERBS = """
    has have had holds hold fills fill packs pack needs need takes take costs cost covers cover contains contain
    measures measure gets get got earns earn obtain obtains find found leaves leave spends spend pays pay travels
    travel walks walk drives makes arrives reaches weighs lasts requires produces sells sold left receives saves uses
    used
    eats bakes runs read reads include includes comprises has tiene hat haben a ont
    consome consume verbraucht kostet cuesta custa coûte costa braucht necesita recorre fährt parcourt lleva
"""
COPULAS, VERBS = (frozenset(words.split()) for words in (_COPULAS, _VERBS))
_ENGLISH_PHRASE = (
    r"(?:final\s{1,3}answer|correct\s{1,3}answer|correct\s{1,3}(?:option|choice)(?=[\s:]{1,3}(?:is\s)?\W{0,4}\([A-J]\))"
    r"|answer|\bans(?=\.?[ \t*]{0,4}[:=]))\.?(?:\*\*|\s|\\text\{){0,8}(?:to\s(?:the"
    r"|this)\s\w{1,20}\s)?(?:is(?!n['’]t|\s(?:not\s)?(?:(?:in)?correct|(?:in)?valid|wrong|right)\b)|are(?!n['’]t)"
    r"|:|=|→|⇒|->|=>|would\sbe|should\sbe|must\sbe)(?:\s|\*\*|:|equal\sto|therefore|thus|simply|\\text\{){0,12}"
    r"|\bI(?:['’]d|['’]ll|\swould)?\s(?:go\swith|choose|pick)\s(?=\W{0,4}[A-J]\b(?:[^A-Za-z]*$|,? (?:since|because"
    r"|as|for)\b))"
)
_OTHER_PHRASES = (
    r"(?:r[ée]ponse(?:\s(?:finale|correcte))?\s{0,2}(?:\*\*)?\s{0,2}(?:est|:)"
    r"|(?:Antwort|Ergebnis|Lösung)\s{0,2}(?:\*\*)?\s{0,2}(?:ist|lautet|:)|lautet\s(?:die\s)?(?:Antwort|Lösung)"
    r"|respuesta(?:\s(?:final|correcta))?\s{0,2}(?:\*\*)?\s{0,2}(?:es|:)|resultado\s(?:final\s)?(?:es|:)"
    r"|resposta(?:\sfinal)?\s{0,2}(?:\*\*)?\s{0,2}(?:é|:)|risposta(?:\sfinale)?\s{0,2}(?:\*\*)?\s{0,2}(?:è|:)"
    r"|\bответ(?:\s(?:равен|есть))?\s{0,2}(?:\*\*)?\s{0,2}[:：—–-]?"
    r"|\bantwoord\s(?:is|:)|\bodpowied[źz](?:\s(?:to|:))|\bcevap\s?:|\bđáp\s(?:án|số)(?:\slà|\s?:)"
    r"|\bjawaban(?:nya)?(?:\sadalah|\s?:)|(?:الجواب|الإجابة)(?:\sهو|\sهي|\s?:)|उत्तर(?:\sहै|\s?:)"
    r"|【答案】|答案\s?(?:\*\*)?\s?(?:应?该?[是为為]|[:：])"
    r"|(?:^|\n|[。 ])答\s?[:：]|答え\s?[はがは:：]|解答\s?[:：]|정답\s?[은:：]|답\s?[은:：])[\s*:：]{0,6}"
)
_PHRASE = regex(_ENGLISH_PHRASE, re.IGNORECASE)
_ANY_PHRASE = regex(rf"{_ENGLISH_PHRASE}|{_OTHER_PHRASES}", re.IGNORECASE)
# Words that only a language with decimal commas has.
EUROPEAN = regex(
    r"\b(?:ist|und|der|das|beträgt|lautet|ergibt|est|sont|donc|vaut|les|des|el|los|las|es|respuesta|resultado|il|della"
    r"|è|são|não|uma|Preis|Betrag|prix|moyenne|Durchschnitt"
    r"|Wert|Antwort|é|valor|valeur|Mittelwert|Ergebnis|Lösung|résultat|réponse|promedio"
    r"|media|area|área|resposta|risposta|sind|somit|entspricht|custam?|assim|portanto|quindi|reais)\b|[а-яё]{3,}|€",
    re.IGNORECASE,
)
ENGLISH = regex(r"\b(?:the|is|we|that|with|this|which)\b", re.IGNORECASE)
_WITH_COMMA = regex(r"(?<![\d,.])(?<![\d,.]-)(\d+),(\d+)(?!\d|,\d|\.\d)")
_MEASURED = regex(
    r"=\s*-?0,\d+\s*$|\d,\d{1,2}\s?(?:[cmk]?m|k?g|[mc]?l|€|%|°|[VAWNJsh]|[kM]?Ω|Hz|min|км|кг|м)(?![A-Za-z])"
)
_GROUPED = regex(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d+)(?![\d,])")
_THOUSANDS = regex(r"(?<![\d.,])[1-9]\d{0,2}(?:\.\d{3})+(?![\d.,]\d|\d|\s?(?:%|\\\\%|[Pp]rozent|pour|por))")
_PAIR = regex(r"[(\[]\s*-?\d+,\d+\s*[)\]\[]|\\\{\s*\d+,\d+\s*\\\}")
# Words of a model that gives no answer.
GIVES_UP = regex(
    r"\b(?:cannot|can't|could not|couldn't|unable to|not able to|impossible to) (?:be )?"
    r"(?!(?:find|give) (?:any|an?|the) (?:\w+ )?(?:way|method|proof|shortcut|approach|mistake|error|decimal)s?\b)"
    r"(?:determined?|solved?|find|found|answer(?:ed)?|conclude|computed?|give|say|tell|decide|provide|help|assist"
    r"|continue)"
    r"|\bdo(?:n['’]t| not) (?:know|have (?:an|another|the|enough))\b|\b(?:not enough|n['’]t enough|insufficient) "
    r"(?:information|data)\b"
    r"|\bI can only (?:help|assist|answer)\b|\bmore (?:information|details|context)\b"
    r"|\bno idea\b|\bunanswered\b|\bI give up\b|\bran out of\b|\bwithout (?:giving|reaching|finding|a final"
    r"|an)\b[^.]{0,20}\banswer\b",
    re.IGNORECASE,
)
# What takes back an answer before it, in so many words.
_RETRACTED = regex(
    r"\b(?:wrong|incorrect|mistaken?|mistakes?|error|correction"
    r"|corrected|sorry|apolog\w+|misread|miscount\w*|scra(?:tch|p) (?:that|this|the|it|what)|not (?:quite )?right"
    r"|(?:that|this|it|value|answer|result)(?:['’]s| is| was)(?: not|n['’]t) (?:quite )?correct"
    r"|answer (?:needs? chang\w+|needs to (?:be )?changed?|changes|becomes) (?:in)?to|new answer"
    r"|my (?:previous|earlier|first|old) answer (?:doubled|halved|(?:over|under)?counted|missed|ignored|was too)"
    r"|(?:ignore|disregard) (?:that|this|it|my|what|the (?:above|previous|earlier|last|first|box\w*|answer))"
    r"|I (?:forgot|dropped|missed|overlooked|misread|miscalculated)|overlook\w*"
    r"|instead(?! of)|not \S{1,20},? but|should (?:be|have been|have read)|on (?:second thought|reflection)"
    r"|(?:retract|withdraw|revise|strike|cross out|amend|fix) (?:that|this|it|the|my)"
    r"|t(?:ake|ook) (?:that|it|this|the|my)(?: boxed| above| last)?(?: box| answer| value| result)? back"
    r"|take back (?:the|my|that|this|it)|change (?:it"
    r"|that|this|my)"
    r"|off by|typo|it must read|oops|hold on|no,? wait|forgot|upside down)\b|\bNo!|n['’]t (?:quite )?(?:right"
    r"|correct)\b"
    r"|\b(?:sbagliat[oaie]|errat[oa]|chiedo scusa|mi correggo|errad[oa]|desculp\w+|me enganei|Korrektur|falsch"
    r"|Fehler|Irrtum|doch nicht|erreur|faux|pardon|je corrige|error|incorrecto|me equivoqué"
    r"|corrijo|ошибка|ошибся|неверно|исправ\w+)\b|错了|不对|有误|更正|纠正|間違|訂正|잘못|정정|틀렸",
    re.IGNORECASE,
)
# What only sounds like it: "the margin of error", "a correction factor", "this should be noted".
_UNRETRACTED = regex(
    r"\b(?:no|not an?|without|any|common|avoid|typical) (?:\w+ )?(?:mistakes?|errors?)\b|\b(?:not"
    r"|n't) (?:wrong|incorrect|mistaken)\b|\bmargins? of error|\b(?:rounding|relative|absolute"
    r"|percent(?:age)?|standard"
    r"|approximation|measurement|numerical|truncation|sampling|average|mean) errors?\b"
    r"|\berror (?:bars?|bounds?|terms?)\b"
    r"|\b(?:not|never|n['’]t) (?:made|make|contain|have) (?:an?|any) (?:mistakes?|errors?)\b|\bcannot be wrong\b"
    r"|\bcorrection (?:factor|term)s?\b|\bmistakes? in (?:the|that|this) (?:claim|argument|statement|proof)\b"
    r"|\bshould be (?:enough|noted|clear|sufficient|discarded|rejected|remembered|compared|rounded|obvious"
    r"|easy|fine|preferred|kept|used|given|left|checked)\b"
    r"|\bhold on to\b|\btake (?:it|that|this) back (?:to|into)\b|\bfaux pas\b|\bIf\b[^.]*\binstead\b"
    r"|\btypo in the (?:problem|question|statement|exercise|options?)\b|\bmarge d['’]erreur|\bas (?:it"
    r"|they) should be\b",
    re.IGNORECASE,
)
_STANDS = regex(r"\bno need to change\b|\b(?:answer|value|result|box) (?:still )?stands\b", re.IGNORECASE)
_SUPPOSED = regex(
    r"\b(?:one|you|someone|people|students|many) (?:might|may|could|would|often)\b|\btempt\w+"
    r"|\bcommon (?:mistakes?|errors?|slips?|wrong|misconceptions?|traps?|belief|answer)\b|\bsome (?:people"
    r"|students|readers|authors|books?|would|might|may|will|get|write|say|think|claim)\b|(?<!\d )\bothers\b"
    r"|\bother (?:people|students|readers|authors)\b",
    re.I,
)
# What begins a second thought; it takes the answer back unless it ends in a confirmation.
_DOUBTED = regex(
    r"(?:^|[.!?…(\n—–-])\s*(?:(?:but|oh|no|ah),? )?(?:wait|hmm+|attends|attendez|moment|warte|espera|стоп|подожди\w*)\b"
    r"(?! (?:of|times?)\b)|\b(?:wait|moment|warte|espera)\s*[,.!…:—]|等等|等一下|待って|잠깐"
    r"|\bactually,? (?:it['’]s|it is|that['’]s|that is|no\b|(?:I|we) (?:need|should|must|have to)"
    r"|the (?:\w+ )?(?:answer|value|result|total|sum) (?:is|should))|\b(?:answer|value|result|total|sum) is actually\b"
    r"|\bactually\b[^.]*\b(?:too|also|as well)\b",
    re.IGNORECASE,
)
_CONFIRMED = regex(
    r"\b(?:yes|yep|indeed|confirm\w*|(?:correct|right)(?! (?:answer|value|result|number|count|total|sum|one))"
    r"|checks? out"
    r"|match\w*|consistent|holds|works|fine|good|same|still)\b",
    re.IGNORECASE,
)


def declines(sentence: str) -> bool:
    """Whether a sentence gives up, or breaks off: what a model could not say is no answer of its own.

    >>> declines("I could not solve it."), declines("So it must be the"), declines("It isn't Ann.")
    (True, True, False)
    """
    return GIVES_UP.search(sentence) is not None or sentence.rstrip(" *\"'”’)]")[-1:] not in ".!?…。！？"


def is_taken_back(behind: str) -> bool:
    """Whether what stands behind an answer takes it back: "the value above is wrong", "Wait, 0 counts, too".

    >>> is_taken_back("This is actually the 7th such number."), is_taken_back("The margin of error is 0.1.")
    (False, False)
    >>> is_taken_back("Wait, 0 counts, too: 9."), is_taken_back("Wait, let me check: yes, it holds.")
    (True, False)
    """
    if _SUPPOSED.search(behind) or _STANDS.search(behind):
        return False
    if _RETRACTED.search(_UNRETRACTED.sub("", behind)):
        return True
    return _DOUBTED.search(behind) is not None and not _CONFIRMED.search(behind)


def answer_phrases(text: str) -> list[re.Match[str]]:
    """The final-answer phrases of a text: "the answer is", "la réponse est", "答案是"."""
    return list((_PHRASE if ENGLISH.search(text) else _ANY_PHRASE).finditer(text))


def without_groups(text: str) -> str:
    """The text with "604.800" as 604800, where it is of a language that parts thousands so: for a gold that large."""
    if ENGLISH.search(text) or not EUROPEAN.search(text):
        return text
    return _THOUSANDS.sub(lambda m: m[0].replace(".", ""), text)


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
