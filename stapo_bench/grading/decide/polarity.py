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
OR = words_of(
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
# What a question asks by its last word, and what says or denies it of the question's subject.
_YES_NO_QUESTION = regex(
    r"(?:^|[.?!] )(?:Is|Are|Does|Do|Did|Can|Will|Was)\b[^.?!]*?"
    r"(?:\b(?:an? ([a-z]+)|([a-z]+ly)) )?\b([A-Za-z]{4,})\?\s*$"
)
_SUBJECT = (
    r"\W*(?:(?:so|thus|hence|therefore),? )?(?:the|this|that|it|\d[\d.,]*(?: = [^a-z,;]*)?)(?=\s)([^,;:]{{0,60}}?)"
)
_ASKED_OF_IT = r" (?:an? )?{kind}({word}|{stem}[a-z]{{0,4}})(?: number)?\W*"  # "a right triangle", "converges"
_DENIES_ASKED = (
    _SUBJECT + r" (?:does not|doesn['’]t|do not|don['’]t|is not|isn['’]t|are not|cannot|can['’]t)" + _ASKED_OF_IT
)
_SAYS_ASKED = _SUBJECT + r"(?: (?:is|are|does|do))?(?: (?:indeed|in fact|therefore|thus|also))?" + _ASKED_OF_IT
# What one case does not show, and words that a subject may have beside the question's.
_OF_ALL = regex(r"\b(?:every|each|all|any|always|never|necessarily|only|not|no|true|or|if|when)\b", re.IGNORECASE)
_NAME_OR_NUMBER = regex(r"[^\W\d_]+|\d+")
_SMALL = words_of("the a an of with given this that it is are does do indeed in fact therefore thus also so hence")
_LEADS = regex(r"(?:since|as|because)\b[^,]*, |.*[,;] (?=(?:so|hence|thus|therefore)\b)", re.IGNORECASE | re.DOTALL)


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
        return None if OR & set(_WORD.findall(sentence.lower())) else word in YES
    said = _REASON_BEHIND.sub("", sentence)
    said = _CLAUSE.split(said)[-1] if _REASON_BEFORE.match(said) else said
    if _DENIES.search(said):
        return None if _DENIED_AGAIN.search(said) else False
    return True if _AFFIRMS.search(said) else None


def says_asked(sentence: str, question: str) -> bool | None:
    """Whether a sentence says or denies what a question asks by its last word, of its subject; None: neither.

    >>> says_asked("Hence the integral does not converge.", "Does the integral converge?")
    False
    >>> says_asked("As it is 5, the matrix A is indeed invertible.", "Is the matrix A invertible?")
    True
    >>> says_asked("Some tree is not a path.", "Is some tree a path?"), says_asked("It is not clear.", "Is it even?")
    (None, None)
    >>> says_asked("The sequence is monotone.", "Is every such sequence monotone?")
    """
    asked = _YES_NO_QUESTION.search(question)
    if asked is None:
        return None
    word, sentence = asked[3].lower(), _LEADS.sub("", sentence.lower())
    kind = f"{asked[1] or asked[2]} " if asked[1] or asked[2] else ""
    if word.startswith("conver") and _DIVERGES.fullmatch(sentence):
        return False
    words = {"word": word, "kind": kind, "stem": word[:MAX_STEM]}
    known = question.lower() + "".join(names for sign, names in _OBJECTS.items() if sign in question)
    if denied := re.fullmatch(_DENIES_ASKED.format(**words), sentence):
        return False if all(word in known for word in _WORD.findall(denied[1]) if len(word) > 3) else None
    said = None if _OF_ALL.search(asked[0]) else re.fullmatch(_SAYS_ASKED.format(**words), sentence)
    of_it = said and set(_NAME_OR_NUMBER.findall(said[0])) <= {*_NAME_OR_NUMBER.findall(known), *_SMALL, said[2]}
    return True if of_it else None
