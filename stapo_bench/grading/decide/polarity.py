"""Yes or no: what a sentence says in so many words."""

import re

from stapo_bench.grading.patterns import regex


def words_of(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


YES = words_of("yes true correct sí si oui ja да верно 是 对 是的 正确 はい 예 네 wahr richtig vrai verdadero")
NO = words_of("no false incorrect wrong non nein нет неверно 否 错 错误 不是 不对 没有 いいえ 아니요 falsch faux falso")
_DENIES = regex(
    r"\b(?:impossible|not possible|such an? [a-z]+ (?:cannot|can['’]t|does not|doesn['’]t)(?: possibly)? exist"
    r"|no such [a-z]+ (?:exists|can)|(?:it|this|that|statement|claim|one) (?:is not|isn['’]t|cannot|can['’]t"
    r"|does not|doesn['’]t)(?! (?:hard|difficult|easy|clear|obvious|surprising|necessary|only"
    r"|just|until|matter|fail|the case|true that|correct that))|(?:it|this|that)['’]s not(?! (?:hard|difficult|easy"
    r"|clear|obvious|surprising|necessary|only|just|until|the case))|is (?:false|wrong|incorrect|not true)(?! that\b)"
    r"|(?:is|can|will|could) never(?! fail))\b|n['’]t possible|(?<=\s)нет\W*$"
    r"|是错|错误|不对|不可能|不正确|没有|ではない|아니",
    re.IGNORECASE,
)
_DENIED_AGAIN = regex(r"\b(?:fail\w*|violat\w*|otherwise|not (?:false|wrong|impossible))\b", re.IGNORECASE)
_AFFIRMS = regex(
    r"\b(?:it|this|that|statement|claim) is (?:indeed |always )?(?:true|correct|possible|right)\b(?! that\b)"
    r"|是对的|正确",
    re.IGNORECASE,
)
# A yes or no that opens a sentence, and one that ends it as what something is.
_OPENS = regex(
    r"\W*(?:(?:so|hence|thus|therefore|then|consequently|donc|also|daher),? )?"
    r"([^\W\d_]+)(?:\W*$|\*{0,2}[,.:;!—–，。、！]|\s+[-—–]\s"
    r"|(?<=no) (?:it|this|that|they|he|she|we|you|I|there) |(?<=yes) (?!or\b))",
    re.IGNORECASE,
)
_ENDS = regex(
    r"(?:\b(?:is|are|was|be|answer|ist|est|es|è|é)|['’]s|:|, so|hence|thus)[\s*\"“]+"
    r"(?:(?:indeed|always|therefore|thus|also|clearly|in fact"
    r"|a|simply|definitely)[\s*\"“]+)?([^\W\d_]+)\W*$",
    re.IGNORECASE,
)
# Behind a yes: said of a part alone, or hardly. Behind a no it says the same again.
_IN_PART = regex(
    r"\b(?:not (?:really|quite|exactly|always|necessarily)|unless|except|only (?:if|for|when|in)|sometimes|partly"
    r"|mostly)\b",
    re.IGNORECASE,
)
_OR = words_of(
    "or maybe perhaps possibly might may could either nor if unless whether probably would were oder ou или si wenn"
)
_CONCLUDED = regex(r"[,;:.] (?:and )?(?:so|hence|thus|therefore),? ((?:yes|no),)", re.IGNORECASE)
_CLAUSE = regex(r"[,;:—]\s")
_REASON_BEHIND = regex(r",?\s(?:because|since)\b.*", re.IGNORECASE | re.DOTALL)
_REASON_BEFORE = regex(r"(?:since|as|because)\b", re.IGNORECASE)  # up to the last comma
_WORD = regex(r"[^\W\d_]+")
MAX_STEM = 6  # letters of the word that is compared: "converge" and "converges"
_DIVERGES = regex(
    r"(?:.*\b(?:so|hence|thus|therefore) )?(?:the|this) (?:series|integral|sequence|sum) diverges\W*", re.IGNORECASE
)
_OBJECTS = {"\\int": " improper integral", "\\sum": " infinite series", "\\lim": " limit"}  # what a formula is called
# What a question asks by its last word, and what denies it of the question's subject.
_YES_NO_QUESTION = regex(r"(?:^|[.?!] )(?:Is|Are|Does|Do|Did|Can|Will|Was)\b[^.?!]*?\b([A-Za-z]{4,})\?\s*$")
_DENIES_ASKED = (
    r"\W*(?:(?:so|thus|hence|therefore),? )?(?:the|this|that|it|\d[\d.,]*(?: = [^a-z,;]*)?)(?=\s)([^,;:]{{0,40}}?)"
    r" (?:does not|doesn['’]t|do not|don['’]t|is not|isn['’]t|cannot"
    r"|can['’]t) (?:an? )?{stem}[a-z]{{0,4}}(?: number)?\W*"
)


def polarity(sentence: str) -> bool | None:
    """Whether a sentence says yes or no; None where it says neither, denies a denial or takes back what it says.

    >>> polarity("So yes, it does."), polarity("Hence this is not possible."), polarity("So 221 is not prime.")
    (True, False, None)
    >>> polarity("Yes, but only for even n."), polarity("No, it is true."), polarity("No, not always.")
    (None, None, False)
    """
    if concluded := _CONCLUDED.search(sentence):
        sentence = sentence[concluded.start(1) :]
    if (opens := _OPENS.match(sentence)) and (word := opens[1].lower()) in YES | NO:
        rest = _REASON_BEHIND.sub("", sentence[opens.end(1) :])
        against = (_DENIES.search(rest) or _IN_PART.search(rest)) if word in YES else _AFFIRMS.search(rest)
        return None if against else word in YES
    if (ends := _ENDS.search(sentence)) and (word := ends[1].lower()) in YES | NO:
        return None if _OR & set(_WORD.findall(sentence.lower())) else word in YES
    said = _REASON_BEHIND.sub("", sentence)
    said = _CLAUSE.split(said)[-1] if _REASON_BEFORE.match(said) else said
    if _DENIES.search(said):
        return None if _DENIED_AGAIN.search(said) else False
    return True if _AFFIRMS.search(said) else None


def is_denied(sentence: str, question: str) -> bool:
    """Whether a sentence denies what a question asks by its last word, of its subject.

    >>> is_denied("Hence the integral does not converge.", "Does the integral converge?")
    True
    >>> is_denied("Some tree is not a path.", "Is some tree a path?"), is_denied("It is not clear.", "Is it even?")
    (False, False)
    """
    asked = _YES_NO_QUESTION.search(question)
    stem = re.escape(asked[1].lower()[:MAX_STEM]) if asked else ""
    denied = re.fullmatch(_DENIES_ASKED.format(stem=stem), sentence.lower()) if stem else None
    known = question.lower() + "".join(names for sign, names in _OBJECTS.items() if sign in question)
    if stem.startswith("conver") and _DIVERGES.fullmatch(sentence):
        return True
    return denied is not None and all(word in known for word in _WORD.findall(denied[1]) if len(word) > 3)
