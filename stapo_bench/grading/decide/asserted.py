r"""What a sentence says of a gold that is words: a name, yes or no, "no solution", a day, a time, a ratio.

Such an answer is compared with the whole sentence that concludes a response, as no cut finds the words in every
sentence. A word in it is no answer by being there: the sentence has to assert it, without a denial, a doubt or a
condition before it, and without another of its kind beside it: another time behind, another option of the question's,
another day of the week, another name. A name has to be the subject of what is said, or what the subject is. In doubt
nothing is asserted.
"""

import re
from fractions import Fraction

from stapo_bench.grading.decide import text_answers
from stapo_bench.grading.decide.asked import MAX_QUESTION
from stapo_bench.grading.decide.polarity import NO, OR, YES, polarity, says_asked, words_of
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import NUMERAL, in_digits

_CONCEPTS = {
    "no solution": (
        r"\bno (?:\w+ ){0,2}(?:solutions?|roots?|numbers?|values?|integers?|points?|such)\b|\b(?:aren|isn)['’]t any"
        r"|\b(?:nothing|none)\b|\bcannot be solved|\bis inconsistent|\bnever (?:true|holds|satisfied|zero)"
        r"|\bempty set\b|\b(?:sets?|intersection|domain|range|interval|union|region) (?:is|are|must be)"
        r" (?:indeed |thus |therefore |then |always )?empty\b"
        r"|^\W*empty\W*$"
        r"|\b(?:pas de|aucune) (?:\w+ )?solution|\bno (?:tiene|hay) (?:\w+ )?soluci|\bkeine? (?:\w+ )?Lösung|\bunlösbar"
        r"|\bn[ãa]o (?:tem|há|possui|existem?) (?:\w+ )?soluç|\bnon (?:ha|ammette|esistono?) (?:\w+ )?soluzion"
        r"|\b(?:нет|не имеет) (?:\w+ )?(?:решений|корней)|无解|無解|没有(?:实数)?[解根]|无实[数根]|解なし|해가 없"
        r"|∅|\\(?:emptyset|varnothing)"
    ),
    "undefined": (
        r"\bundefined\b|(?:\bnot|n['’]t|\bno) (?:well[- ])?defined\b|\bDNE\b"
        r"|\b(?:does not|doesn['’]t|do not|don['’]t|cannot|fails? to) exist\b|\bhas no value(?=\s*(?:[.,;(]|$))"
        r"|\bno (?:\w+ )?(?:limit|slope|inverse|derivative)\b"
        r"|\bnicht definiert|\bpas défini|\bno está definid|не определ|不存在|无意义|未定义"
    ),
    "cannot be determined": (
        r"\b(?:cannot|can['’]t|can not|impossible to|not possible to|unable to|could not) (?:be )?"
        r"(?:determine|tell|know|decide|conclude|say|find|infer)|\bindeterminate\b|\bundetermined\b|无法确定"
        r"|(?:\bnot enough|\binsufficient|n['’]t enough|\btoo little) (?:information|data)\b"
    ),
    "infinitely many": r"\binfinite(?:ly many)?\b|\bunendlich|\bune infinité|\binfinit[ao]s|бесконечно|无穷多|无数",
    "diverges": r"\bdiverg\w+|(?:\b(?:does not|not|fails? to)|n['’]t) converge(?! to\b)|发散|расходится",
    "converges": r"(?<!not )(?<!fails to )(?<!fail to )(?<!n't )(?<!n’t )\bconverg\w+|收敛|сходится",
}
_KINDS = regex(r"(?<!not )\b(conditional|absolute|uniform|pointwise)(?:ly)?\b")
_WORD = regex(r"[^\W_]+(?:['’][^\W_]+)?")
_CLAUSE = regex(r"[,;:—]\s")
_NEGATION = words_of(
    "not never no neither nor than unlike without instead rather cannot hardly fails fail longer doubt unlikely nicht"
    " kein keine keinen pas jamais nunca não не ни non"
)
# Right beside a concept: "either converges or ...", "may diverge"
_OPEN = words_of("or either maybe perhaps possibly might may could")
# Words that leave the matter open to the values beside those excluded: "no other solutions", "none of the rest".
_OTHERS = regex(
    r"\b(?:others?|more|further|additional|else|besides|except|apart|than|remaining|rest|extra|but|until|outside|lost"
    r"|fails?|violat\w+|weiteren?|anderen?|autres?|otr[ao]s?|altr[ei]|других|иных)\b|其他|其它|别的|他の|다른",
    re.IGNORECASE,
)
_CONCLUDES = regex(r"[,;:.] (?:and |but )?(?:so|hence|thus|therefore|but|however|then)\b", re.IGNORECASE)
_VALUE = regex(r"\d|\\frac|\\sqrt|\\pi")
_WITHOUT_VALUES = ("no solution", "undefined")
# What makes a word another: "even so" is no parity, "the day before Friday" no Friday.
_PARTICLE = words_of("so if though when without the after before with in at for more less then as this that a an")
_AWAY = words_of("after before from since until following preceding behind past ago earlier later")
_BESIDE = words_of(
    "ahead followed because since as while beating leaving than though although before after with whereas"
)
_DEFINITE = words_of("the this that our each every any")
_IS = words_of("is was are be been becomes remains s it's that's he's she's who's winner")
_DOES = words_of(
    "is was has had wins won gets got comes came finishes finished arrives arrived runs ran took takes must will can"
)
_SAYS = _IS | _DOES | words_of("falls lies")  # the verb of a sentence; words without one are a name
# Words in a box that make it say less: "converges only for x < 1", "almost never"
_LIMITS = words_of("for only almost nearly can could was before one some sometimes")
# "diverges", "no real solutions": a sentence without another verb
_SAYS_CONCEPT = regex(r"\b(?:di|con)verges?\b|\bdoes not\b|\bno (?:\w+ )?(?:solutions?|roots?|limit)\b", re.IGNORECASE)
_SUPPOSES = words_of("if unless when whenever whether provided")
_LOSES = words_of(
    "lost loses lose losing beaten defeated second third fourth last overtaken behind slower lowest worst"
)
_OPTIONS = regex(r"((?:[^\W\d_][\w-]*, )*[^\W\d_][\w-]*),? or (?:an? |the )?([^\W\d_][\w-]*)")
_NAME = regex(r"(?<=[^.?!\s]\s)[A-Z][a-z]{2,}\b|(?:^|(?<=[.?!]\s))[A-Z][a-z]{2,}(?= (?:is|has|was|and|can)\b)")
_CLASSES = tuple(
    frozenset(words.split())
    for words in (
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april may june july august september october november december",
        "red blue green yellow black white orange purple brown pink",
        "north south east west northeast northwest southeast southwest",
        "even odd", "rational irrational", "prime composite", "increasing decreasing", "acute obtuse right",
        "equilateral isosceles scalene", "circle ellipse parabola hyperbola line",
        "positive negative zero", "heads tails", "injective surjective bijective", "maximum minimum",
        "larger smaller equal", "greater less equal", "always sometimes never",
    )
)  # fmt: skip
_DAYS = _CLASSES[0] | _CLASSES[1]
_FROM = regex(
    rf"\b(?:from|after|before|since|past|until) (?:an? |the )?(?:{'|'.join(sorted(_DAYS))})\b(?! (?:on|onwards?)\b)",
    re.I,
)
_JOINT = regex(r",? and |, ")
_IN_ORDER = regex(r"\b(?:order|rank|arrange|sort|sequence|first|last|from\b[^.?!]*\bto\b|respectively)", re.IGNORECASE)
_PROPER = regex(r"(?:^|[{\s])[A-Z][a-z]+")
_CONNECTIVES = words_of("so hence thus therefore then and that means this since because only answer final")
_NOT_THAT = regex(r"\b(?:not|n['’]t|false|wrong|doubt)\b[^,;]{0,20} that\b", re.IGNORECASE)
_DENIED_BEFORE = regex(r"不|没|非|未|并无")
_DENIED_BEHIND = regex(r"\s*(?:nicht\b|pas\b|kein|では?な|じゃな|이 ?아니|가 ?아니|not\b)")
_TIME = regex(r"\b\d{1,2}:[0-5]\d(?::[0-5]\d)?(?: ?[ap]\.?m\b\.?)?|\b\d{1,2} ?[ap]\.?m\b\.?", re.IGNORECASE)
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = regex(
    rf"\b(?:{_MONTH} {_DAY}(?:,? \d{{4}})?|{_DAY}(?: of)? {_MONTH}(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d)", re.IGNORECASE
)
_RATIO = regex(r"(\d+(?:\.\d+)?) ?(?:(?:is )?to|:) ?(\d+(?:\.\d+)?)(?: ?(?:to|:) ?(\d+(?:\.\d+)?))?")
_SPOKEN_TIME = regex(r"\b(\d+|quarter|half) (past|to) (1[0-2]|[1-9])\b(?! ?[:\d])", re.IGNORECASE)
_CONTRAST = regex(
    r"(?:, not|,? (?:rather than|instead of|as opposed to|and not|but not)) [^,.;]*"
    r"|\bnot (?:an? |the )?[^,.;]{1,40}?(?=,? but (?:rather )?(?:an? |the )?\w)",
    re.IGNORECASE,
)
# "it is Clara who comes last": its subject; "that would be the mean": what it is
_CLEFT = regex(r"\b(?:[Ii]t is|[Ii]t['’]s) ([A-Z][\w'’-]+) (?:who|that)\b")
_WOULD_BE = regex(r"\b(that|this|it|which|answer) would be\b", re.IGNORECASE)


def asserts(sentence: str, gold: str, question: str | None) -> bool:
    """Whether a sentence says that the answer is ``gold``, words.

    >>> asserts("So December 31 was a Sunday as well.", "Sunday", None), asserts("It is not a Sunday.", "Sunday", None)
    (True, False)
    >>> asserts("There isn't any: no real number does.", "no solution", None), asserts("9:45, so 10:05.", "9:45", None)
    (True, False)
    """
    target = text_answers.plain(gold)
    supposed = " would be" in sentence
    sentence = _WOULD_BE.sub(r"\1 is", sentence) if supposed else sentence
    counted = NUMERAL.sub(lambda numeral: in_digits(numeral[0]) or numeral[0], sentence)
    if (time := text_answers.time(gold)) is not None and (given := _last_time(counted)) is not None:
        read = text_answers.time(given)
        return read is not None and text_answers.same_time(read, time)
    if (day := text_answers.date(gold)) is not None:
        dates = [date for match in _DATE.finditer(counted) if (date := text_answers.date(match[0]))]
        return bool(dates) and dates[-1][1:] == day[1:] and (None in (dates[-1][0], day[0]) or dates[-1][0] == day[0])
    if target in YES | NO:
        said = polarity(sentence)
        if said is None and question and not supposed:
            said = says_asked(sentence.replace("*", ""), question)
        return said is (target in YES)
    kinds = _kinds(target)  # "converges absolutely" is not "conditionally"
    for name, concept in _CONCEPTS.items():
        if re.search(concept, target, re.IGNORECASE):
            return (not kinds or kinds == _kinds(sentence)) and _holds(name, concept, _CONTRAST.sub("", sentence))
    if len(parts := _JOINT.split(target)) > 1 and _lists(sentence.lower(), parts, question):
        return True
    sentence = _CLEFT.sub(r"\1", sentence)
    return _is_ratio(counted, target) or _names(sentence, gold, question or "")


def _kinds(text: str) -> set[str]:
    """The kinds of convergence that a text names."""
    return set(_KINDS.findall(text.lower()))


def box_asserts(words: str, gold: str, question: str | None) -> bool:
    """Whether words in a box are a sentence that says that the answer is ``gold``; a name with more words is another.

    >>> box_asserts("The series diverges", "diverges", None), box_asserts("It does not diverge", "diverges", None)
    (True, False)
    >>> box_asserts("The graph is a circle", "circle", None), box_asserts("The unit circle", "circle", None)
    (True, False)
    """
    said = set(_WORD.findall(text_answers.plain(words)))
    target = text_answers.plain(gold)
    is_concept = any(re.search(concept, target, re.IGNORECASE) for concept in _CONCEPTS.values())
    says = bool(_SAYS & said) or (is_concept and _SAYS_CONCEPT.search(words) is not None)
    return says and not (_SUPPOSES | _LIMITS) & said and asserts(words, gold, question)


def _holds(name: str, concept: str, sentence: str) -> bool:
    """Whether a sentence asserts a concept: neither denied nor supposed, and no value concluded behind it."""
    for match in re.finditer(concept, sentence, re.IGNORECASE):
        clause = _CLAUSE.split(sentence[: match.start()])[-1]
        behind = sentence[match.end() :]
        rest = _CLAUSE.split(behind)[0]
        before = _WORD.findall(clause.lower())
        supposed = {"if", "unless", "whether", "suppose", "otherwise", "would", "wenn", "si"} & {
            *before,
            *_WORD.findall(sentence[: match.start()].lower())[:2],
        }
        open_ = _OPEN & {*before[-2:], *_WORD.findall(rest.lower())[:1]}
        others = name == "no solution" and _OTHERS.search(match[0] + rest)
        concluded = _CONCLUDES.search(behind)
        valued = concluded and name in _WITHOUT_VALUES and _VALUE.search(behind, concluded.end())
        denied = _is_denied(before) or _DENIED_BEHIND.match(rest) or _NOT_THAT.search(clause)
        if not (denied or supposed or open_ or others or valued):
            return True
    return False


def _is_denied(before: list[str]) -> bool:
    """Whether one of the last words before what is said denies it."""
    near = before[-4:]
    return bool(_NEGATION & set(near)) or any(word.endswith(("n't", "n’t")) for word in near)


def _last_time(sentence: str) -> str | None:
    """The last time that a sentence states, in digits or as "12 past 7"."""
    if spoken := list(_SPOKEN_TIME.finditer(sentence)):
        minutes, side, hour = spoken[-1].groups()
        away = {"quarter": 15, "half": 30}.get(minutes.lower()) or int(minutes)
        if away < 60 and not _TIME.search(sentence, spoken[-1].end()):
            total = int(hour) * 60 + (away if side.lower() == "past" else -away)
            return f"{total // 60}:{total % 60:02d}"
    times = _TIME.findall(sentence)
    return times[-1] if times else None


def _is_ratio(sentence: str, gold: str) -> bool:
    """Whether the last ratio of a sentence is the gold's."""
    ratio, ratios = _RATIO.fullmatch(gold), _RATIO.findall(sentence)
    return ratio is not None and bool(ratios) and _shares(ratios[-1]) == _shares(ratio.groups())


def _shares(ratio: tuple[str | None, ...]) -> list[Fraction]:
    """The shares of the whole of each part of a ratio."""
    parts = [Fraction(part) for part in ratio if part]
    return [part / total for part in parts] if (total := sum(parts)) else []


def _lists(sentence: str, parts: list[str], question: str | None) -> bool:
    """Whether a sentence lists words side by side, and no others with them, in any order unless one is asked for."""
    item = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    joint = r"(?:, | and |, and | & )(?:the |an? )?"
    lists = list(
        re.finditer(rf"(?<!, )(?<! and )\b(?:{item})(?:{joint}(?:{item}))*\b(?!, \w+(?:,| and )| and )", sentence)
    )
    if not lists or _is_denied(_WORD.findall(sentence[: lists[-1].start()])):
        return False
    listed = re.findall(item, lists[-1][0])
    return listed == parts or (not _IN_ORDER.search(question or "") and sorted(listed) == sorted(parts))


def _names(sentence: str, gold: str, question: str) -> bool:
    """Whether a sentence asserts the words of an answer, with no rival beside them."""
    target = text_answers.plain(gold)
    words = _WORD.findall(target)
    if not words or len(target) < 2 or (target.isascii() and max(map(len, words)) < 3):
        return False
    if not target.isascii() and any(ord(char) > 0x2E7F for char in target):
        before, said, behind = sentence.rpartition(target)
        return bool(said) and not (_DENIED_BEFORE.search(before[-4:]) or _DENIED_BEHIND.match(behind))
    if re.search(rf"\w-{re.escape(target)}\b", sentence, re.IGNORECASE):
        return False  # "anti-parallel"
    question = question[:MAX_QUESTION]
    rivals = _rivals(words, question)
    names = {name.lower() for name in _NAME.findall(question)}
    is_offered = len(names) > 1 and set(words) <= names  # then the only one that a sentence names is its answer
    names -= set(words)
    is_name = bool(_PROPER.search(gold)) and not any(members & set(words) for members in _CLASSES)
    if not is_name and rivals:
        names = set()
    started = _FROM.sub(" ", _CONTRAST.sub("", sentence)).lower()  # a day from which another is counted is none
    clauses = [_WORD.findall(clause) for clause in _CLAUSE.split(started)]
    for said in reversed([clause for clause in clauses if not _BESIDE & set(clause[:1])] or clauses):
        places = [n for n in range(len(said) - len(words) + 1) if said[n : n + len(words)] == words]
        if places:
            start, end = places[-1], places[-1] + len(words)
            asserted = _is_said(said, start, end) and not (names & set(said[:start]) or rivals & _uncompared(said))
            loses = (_LOSES - set(_WORD.findall(question.lower()))) & set(said)
            alone = is_offered and not names & set(said)
            return asserted and (not is_name or (not loses and (alone or _is_subject(said, start, end, names))))
        if (rivals | (names if is_name else set())) & _uncompared(said):
            return False
    return False


def _is_said(said: list[str], start: int, end: int) -> bool:
    """Whether words of a clause are neither denied nor doubted, and are not a part of other words."""
    near, behind = set(said[:start][-2:]), said[end : end + 1]
    if _is_denied(said[:start]) or _is_denied(said[end : end + 2]) or OR & {*said[:start][-3:], *said[start : end + 1]}:
        return False
    if said[start:end] == ["even"] and _PARTICLE & set(behind) and not _IS & near:
        return False
    if said[start] in _DAYS and _AWAY & set(said[end:]):
        return False
    return not (start <= 2 and _DEFINITE & set(said[start - 1 : start]) and not _IS & set(said[:start]))


def _is_subject(said: list[str], start: int, end: int, names: set[str]) -> bool:
    """Whether a name is the subject of what a clause says, or what its subject is."""
    if names & _uncompared(said[end:]) or _is_denied(said[end : end + 2]):
        return False
    is_predicate = bool(_IS & set(said[:start][-3:])) and not _AWAY & set(said[:start])
    leads = set(said[:start]) <= _CONNECTIVES
    return is_predicate or (leads and (end == len(said) or bool(_DOES & set(said[end : end + 3]))))


def _uncompared(said: list[str]) -> set[str]:
    """The words of a clause but what stands behind "than"."""
    return set(said[: said.index("than")] if "than" in said else said)


def _rivals(words: list[str], question: str) -> set[str]:
    """The other options of the question, or the others of the answer's class."""
    rivals: set[str] = set()
    for listed, last in _OPTIONS.findall(question):
        options = {*listed.split(", "), last}
        if last[0].isupper():  # "Who is taller, Ann or Bea?"
            options = {option for option in options if option[0].isupper()}
        options = {option.lower() for option in options}
        if set(words) & options:
            rivals |= options
    for members in _CLASSES:
        if set(words) & members:
            rivals |= members
    return rivals - set(words)
