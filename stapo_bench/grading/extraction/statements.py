r"""The value that plain text states: the last sentence, line or list that gives one, read as prose.

A sentence states what follows its last "is", "are", "=" or a like verb, or else its last value that is no part of a
remark ("to save the $420", "than Tim"). A chain of equalities gives its end. Checks, examples, questions and courtesies
state nothing.
"""

import re
from collections.abc import Iterator

from stapo_bench.grading.extraction.asides import (
    concludes,
    heads_check,
    is_by_others,
    is_check,
    is_of_others,
    sets_out,
    states_nothing,
    without_last_remark,
)
from stapo_bench.grading.extraction.chains import chain_end
from stapo_bench.grading.extraction.clauses import in_clause, without_reasons
from stapo_bench.grading.extraction.formulas import Hidden, hide_formulas
from stapo_bench.grading.extraction.hedges import LEFT_OPEN, leaves_open
from stapo_bench.grading.extraction.lists import BULLET, block
from stapo_bench.grading.extraction.remarks import without_remarks
from stapo_bench.grading.extraction.spoken import spoken
from stapo_bench.grading.extraction.words import MAX_WORDS, YES_NO, in_words, option_chosen, winner
from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import NUMERAL, in_digits, region_in_words
from stapo_bench.grading.units import NEXT_VALUE

MAX_PROSE = 3_000  # characters from the end that are read
MAX_LETTERS = 3  # that sentences side by side give values
MAX_BACK = 6  # sentences that state nothing and are passed over
MAX_ABBREVIATED = 12  # characters before a full stop that may be abbreviated
MAX_CLAUSE = 800  # characters from the end of a sentence that are read
MAX_SENTENCE = 200  # characters of a sentence whose last words may be the answer
_ABBREVIATION = regex(
    r"(?:\b(?:i\.e|e\.g|approx|vs|No|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|кв|куб|Fig|Eq|cf|resp|Rs|St|Mr"
    r"|Mrs|Dr|[ap]\.m|sq|cu|ca|z\.B|d\.h|[a-z]\.[a-z])"
    r"|^\s*\(?\w{1,2})$"
)
# "f(6) = 24 - 9 = 15", where "Works." follows; "x = 6" is none
_CHECKED_SUM = regex(r"(?!\W*(?:so|hence|thus|therefore)\b)(?![a-zA-Z] ?= ?[^=]*$)[^=]*[\d)][^=]*=.*", re.IGNORECASE)
# "This works.", "✓"
_WORKS = regex(
    r"\W*(?:(?:this|that|it|and it|which) )?(?:works|fits|checks(?: out)?|holds|✓|✔|matches)\W*", re.IGNORECASE
)
_CAPITALS = regex(r"\b(?:LCM|GCD|MAX|MIN)(?=\()")
_SINCE_BEHIND = regex(r", (?:since|because) .*$")
# "for x < −2 as well as for x > 1"
_AND_FOR = regex(r"(?: as well as|,? and) for (?=[a-z] ?[<>≤≥]|[-−\d.]+ ?[<≤] ?[a-z])")
_HEADING_WORD = regex(r"(?:Final )?(?:Answer|Solution|Result|Conclusion|Note|Check)\.?")
# "all x such that x < -1 or x > 3"
_ALL_SUCH = regex(
    r"\b(?:all|every|any|those|the set of(?: all)?) (?:real )?(?:numbers? |values? )?[a-z] (?:such that|with"
    r"|for which|satisfying)"
    r" (?=[a-z] ?[<>≤≥]|[-−\d.]+ ?[<≤])"
)
_NONE_FITS = regex(
    r"\bthere (?:is|are|exists?) no (?:real |integer |such |positive |whole )*(?:[a-z]|values?|numbers?) (?:that"
    r"|which|with"
    r"|satisf\w+|for which)\b[^,;]*$",
    re.IGNORECASE,
)
_FACTORIAL = regex(r"[\d)]! [a-z]|(?:\d|\b[a-z]|\))! [-−+=·×*/÷<>≤≥≈(]")  # "8! possible orders", "n! = 24"
_DOTS = regex(r"[\dπ]\.\.\. (?=[a-z])")  # "0.4545... with 45 repeating"
_STOP = regex(r"[。！？]|[.!?](?=[\"')*\]]{0,3}(?:\s|$))[\"')*\]]{0,3}")
# "Let me check it. Tripling 14 gives 42; adding 8 gives 50. It works."
_CHECK_BEHIND = regex(
    r"(?:(?<=[.!?:)\]$*])\s+|\n\s*)Let(?:['’]s| me| us) (?:just |quickly )?(?:double[- ]?)?(?:check|verify)\b"
    r"(?!.*\b(?:mistake|wrong|wait|actually|but|so)\b)[^\n]*\b(?:works|holds|fits|checks out|matches|correct|right"
    r"|good)\W*\Z",
    re.IGNORECASE,
)
_FORMULA_ASIDE = regex(r"(?<=\$)\s+\(\$[^$()\n]*=[^$()\n]*\$\)")  # "$\sqrt{1764} = 42$ ($42^2 = 1764$)"
_OPTIONS = regex(r"(?:^|\n)A[.)] [^\n]+\nB[.)] [^\n]+\nC[.)] [^\n]+(?:\n[D-F][.)] [^\n]+)*(?=\n|$)")
EQUATION_SO_FAR = regex(r"[^=]*[A-Za-z]\W[^=]*[-+−*/·][^=]*=[^=]*")  # "V − E + F = 2", no value under a name
_BOLD_LETTER = regex(r"[a-z]")  # "0.6 **i**": a vector of a formula
_BOLD = regex(r"(?<![\w)}])\*\*(?=\S)|(?<=\S)\*\*(?![\w({\\-])")
_MINUTES = regex(r"°\s*\d+\s*(['′])[\s.*]*$")
# "x = 2, and hence y = 5" gives two values; what follows an equation is its solution.
_AND_HENCE = regex(
    r"(?<![-−+*/·] )\b([a-z]\s*=\s*[^=,]{1,30}|[\ue000-\uf8ff]),?\s+and\s+(?:hence|thus|therefore|then|consequently|so)"
    r"\s+(?=[\ue000-\uf8ff]|(?!\1)[a-z]\s*=)"
)
_LETTER_EQUALS = regex(r"(?<=\b[b-zB-Z] )equals(?= [-−\d(√\ue000-\uf8ff])")
# "plus or minus three"
_PLUS_MINUS = regex(r"plus or minus (\S+?(?=[\s,.;]|$))")
_AND_AT = regex(r"\b(and|or) (?:at|when|for|where) (?=[a-z] ?= ?[-−\d√(])")  # "at x = 2 and at x = -2"
_ANGLES = regex(r"[<\u27e8]\s*(-?[\w./+·\u221a\u2212-]+(?:\s*,\s*-?[\w./+·\u221a\u2212-]+)+)\s*[>\u27e9]")
_FRONT = regex(
    r"(.*?\S)\s+(?:is|ist|est|es|will be|must be)\s+(?:the|die|la|our|my)\s+(?:final\s|correct\s|required\s)?"
    r"(?:answer|Antwort|réponse|respuesta|solution|Lösung|result)$",
    re.IGNORECASE,
)
_SUBJECT = regex(
    r"(?:.*\b(?:hence|so|thus|therefore|then|that)\b,?\s+)?"
    r"((?=\S{0,60}[\d\ue000-\uf8ff]|(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty"
    r"|zero)\b)\S{1,60}(?:(?:,|,? and|,? or| [=+*/^-]) \S{1,40}){0,6}) (?:is|are)\s+(?:the|our"
    r"|its|their|indeed)\b[^\d=\ue000-\uf8ff]*",
    re.IGNORECASE,
)
# "So seven of the twelve months have 31 days"
_SOME_OF = regex(
    r"\W*(?:(?:so|thus|hence|therefore),? )?(\w+) of (?:the|these|those|them)\b(?! (?:is|are|was|were)\b)[^,;=]*?"
    r" (?:have|has|are|were|do|satisfy|work|remain|contain)\b(?!.*[=,;])",
    re.IGNORECASE,
)
_NUMBER_IS = regex(r"\W*(\d[\d,.]*) is the (?:\w+ ){0,3}of\b(?!.*(?:=|,|\b(?:so|hence|thus|therefore|is|are)\b)).*")
_HALF_OF_DAY = regex(r"(\d)\s*([ap])\.\s?m\b\.?", re.IGNORECASE)
_TOLD = regex(r"(?:\bis|\bare|[:=])\s$|^\W*$")  # "..., so it is 1 to 3"; "from 1 to 3" is none
_TO = regex(r"\b(\d+) to (\d+)$")
_SATISFIED = regex(r"\s(?:works?|satisf\w+(?: it| this)?|qualif\w+|is a solution)\b[^\d\ue000-\uf8ff]*$", re.IGNORECASE)
# "in other words 1 in 25"
_ONE_IN = regex(r"\b(?:in other words|is|or|just|exactly|means|of) 1 (?:in|out of) (\d+)$", re.IGNORECASE)
_NAMED_BASE = regex(r"\b(?:is|was) base (\d+)$")
LETTER_VALUE = regex(r"([A-Za-z]) = ([^=,;]+)")
# "the probability is 3 in 10, or 30%"
_CHANCE = regex(
    r"\b(?:probability|chances?|odds|likelihood)\b.*?\b(\S+) (?:in|out of) (?:every )?(\S+?)(?:,? (?:or|that is"
    r"|i\.e\.),? (?:[\d.,/%]+|(?:an? |one |two |three |five )?[a-z]+))?$",
    re.IGNORECASE,
)
_OPEN = regex(r"\b(?:if|not|never|unless|suppose)\b|n['’]t\b", re.IGNORECASE)
_SEVERAL = regex(r",(?!\d{3})|;| (?:and|or) ")
_ALL_REALS = regex(
    r"\b(?:all|every|any) (?:the )?(?:reals?|real (?:numbers?|values?|[a-z])(?: of [a-z])?)(?: (?:works?|satisf\w+"
    r"|is a solution))?$",
    re.IGNORECASE,
)


def stated(text: str, words: bool = True) -> str | None:
    """The value that the end of the text states, or None; ``words``: it may be words.

    >>> stated("Since 420 / 30 = 14, it takes her 14 weeks to save the $420."), stated("The curve is an ellipse.")
    ('14 \\\\text{ weeks }', 'ellipse')
    >>> stated("Check: 3 + 4 = 7."), stated("Is it 7?")
    (None, None)
    """
    text = _OPTIONS.sub("\n", _FORMULA_ASIDE.sub("", text[-MAX_PROSE:]))
    if (check := _CHECK_BEHIND.search(text)) and re.search(r"\d", text[: check.start()]):
        text = text[: check.start()]
    hidden = hide_formulas(without_last_remark(text))
    lines = [line for line in hidden.text.split("\n") if line.strip(" \t*_-=")]
    checks = next((place for place, line in enumerate(lines) if place and heads_check(line)), len(lines))
    found = _stated(lines[:checks], hidden, words, notes=False)
    return found if found is not None else _stated(lines[:checks], hidden, words, notes=True)


def _stated(lines: list[str], hidden: Hidden, words: bool, notes: bool) -> str | None:
    """The value that the last of the lines states; ``notes``: remarks may state it."""
    passed = 0
    approved = False  # the sentence behind says that it works
    remark = ""  # what a sentence on parts of the answer gives, behind one that may conclude
    values: list[str] = []  # of letters, from sentences side by side: "... so x = 3. Then y = 4."
    for index in range(len(lines) - 1, -1, -1):
        listed = block(lines, index)
        if listed is not None:
            return NEXT_VALUE.join([hidden.shown(listed), *values])
        for sentence in reversed(list(sentences(bare(lines[index])))):
            found = value_of(sentence, hidden, words, notes)
            if approved and not notes and found is not None and _CHECKED_SUM.fullmatch(sentence):
                found = None
            approved = _WORKS.fullmatch(sentence) is not None
            if found is not None and remark:
                is_answer = (
                    concludes(sentence) and not _SEVERAL.search(found) and (is_value(found) or not is_value(remark))
                )
                return found if is_answer else remark
            if found is not None and not values and is_of_others(sentence):
                remark = found
            elif found is None:
                passed += 1
            elif values and (_letter(found) is None or _letter(found) in map(_letter, values)):
                return NEXT_VALUE.join(values)
            elif _letter(found) is None:
                return found
            else:
                values.insert(0, found)
            if passed >= MAX_BACK or len(values) == MAX_LETTERS:
                return NEXT_VALUE.join(values) or remark or None
    return NEXT_VALUE.join(values) or remark or None


def is_value(found: str) -> bool:
    """Whether what a sentence states is mathematics, and no words alone."""
    return re.search(r"[\d\ue000-\uf8ff\\]", found) is not None


def _letter(value: str) -> str | None:
    """The letter of "x = 4"; None of any other value."""
    found = LETTER_VALUE.fullmatch(value)
    return found[1] if found else None


def sentences(line: str) -> Iterator[str]:
    """The sentences of a line, each with its stop."""
    start = 0
    for match in _STOP.finditer(line):
        if (
            (
                match[0][0] == "."
                and _ABBREVIATION.search(line[max(start, match.start() - MAX_ABBREVIATED) : match.start()])
                and match.end() < len(line.rstrip())
            )
            or _FACTORIAL.match(line, match.start() - 1)
            or _DOTS.match(line, match.start() - 3)
        ):
            continue
        yield line[start : match.end()].strip()
        start = match.end()
    if line[start:].strip():
        yield line[start:].strip()


def value_of(sentence: str, hidden: Hidden, with_words: bool, notes: bool) -> str | None:  # noqa: PLR0911 - one return for each kind of statement
    """What one sentence states, with its formulas shown; None where it states nothing."""
    sentence = sentence.strip()[-MAX_CLAUSE:]
    if states_nothing(sentence, notes) or is_check(sentence):
        return None
    if leaves_open(sentence):
        return LEFT_OPEN
    bold = _emphasised(sentence)
    clause = main_clause(bold or without_stop(sentence))
    if sets_out(clause, notes) or is_by_others(clause):
        return None
    phrased = _by_phrase(clause)
    if phrased is not None:
        return hidden.shown(phrased)
    if with_words and (name := winner(clause) or option_chosen(clause)) is not None:
        return name
    value = in_clause(clause, hidden)
    if not with_words:
        return None if value is None else chain_end(hidden.shown(value))
    if (answer := _yes_or_no(clause, hidden, value)) is not None:
        return answer
    main = without_reasons(clause) if value is not None else clause
    words = in_words(main) if len(main) <= MAX_SENTENCE else None
    words = None if words == clause and sentence[:-1] != clause else words  # a word alone needs its full stop
    counts = words is not None and NUMERAL.search(main[-len(words) - len("a ") :]) is not None
    if words is not None and (value is None or (main.endswith(words) and not counts)):
        return words
    if value is None:
        return bold if bold and len(bold.split()) <= MAX_WORDS and bold.isprintable() and not bold.isdigit() else None
    return chain_end(hidden.shown(value), goes_on=_OPEN.search(clause) is None)


def without_stop(sentence: str) -> str:
    """The sentence without its stop and marks around it; a factorial stays before a full stop."""
    if found := _MINUTES.search(sentence):
        return sentence[: found.end(1)].strip("*_ ")
    bare = sentence.rstrip(" *_\"'”’✓✔✅∎□■")
    if re.search(r"\d\.\d+\.\.\.+$", bare):
        return bare
    return (bare[:-1] if bare.endswith("!.") else bare.rstrip(" .!。！")).strip("*_\"'”’ ")


def main_clause(sentence: str) -> str:
    """A sentence without what it denies, remarks in parentheses, and marks; its abbreviations and names in one form."""
    clause = _HALF_OF_DAY.sub(r"\1 \2m", _BOLD.sub("", sentence))
    clause = re.sub(r"\bi\.\s?e\.,?", "that is", clause)
    clause = _AND_FOR.sub(" or ", clause).replace(" as well as ", " and ").replace(" and also ", " and ")
    clause = without_remarks(clause.replace(" ou bien ", " ou ").replace(" or else ", " or "))
    clause = _ALL_SUCH.sub("", clause)
    clause = _NONE_FITS.sub("there is no solution", clause)
    counted = _SOME_OF.match(clause)
    clause = counted[1] if counted else clause
    bare = _SINCE_BEHIND.sub("", clause)
    clause = subject[1] if (subject := _SUBJECT.fullmatch(bare) or _NUMBER_IS.fullmatch(clause)) else clause
    if "plus or minus " in clause:
        clause = _PLUS_MINUS.sub(lambda found: f"±{in_digits(found[1]) or found[1]}", clause)
        clause = NUMERAL.sub(lambda numeral: in_digits(numeral[0]) or numeral[0], clause)
    clause = _CAPITALS.sub(lambda name: name[0].lower(), spoken(clause))
    clause = _AND_HENCE.sub(r"\1 and ", clause).replace(", and finally ", ", and ")
    clause = re.sub(r"(?<![A-Za-z\d])([a-zA-Z])(\d)(?=\s*=)", r"\1_\2", _LETTER_EQUALS.sub("=", clause))
    clause = _ANGLES.sub(r"(\1)", _AND_AT.sub(r"\1 ", clause))
    front = _FRONT.match(clause)
    return front[1] if front and not _FRONT.match(front[1]) else clause


def _by_phrase(clause: str) -> str | None:
    """Intervals, bounds and ratios that a clause says in words: "from 2 to 6 inclusive", "x is at least 7"."""
    if _ALL_REALS.search(clause):
        return "all real numbers"
    counted = NUMERAL.sub(lambda numeral: in_digits(numeral[0]) or numeral[0], clause)
    if found := _NAMED_BASE.search(counted):
        return found[1]
    if region := region_in_words(_SATISFIED.sub("", counted)):
        return region
    if (chance := _chance(clause, counted)) is not None:
        return chance
    if (found := _TO.search(counted)) and ("ratio" in clause.lower() or _TOLD.search(counted[: found.start()])):
        return f"{found[1]}:{found[2]}"
    return None


def _chance(clause: str, counted: str) -> str | None:
    """A probability that a clause says as "3 in 10" or, with its numbers as digits, as "in other words 1 in 25"."""
    if (found := _CHANCE.search(clause)) and (chance := [_number(text) for text in found.groups()]) and all(chance):
        return "/".join(map(str, chance))
    return f"1/{one[1]}" if (one := _ONE_IN.search(counted)) else None


def _number(text: str) -> str | None:
    """A whole number in digits or words, as digits."""
    return text if text.isdigit() else in_digits(text)


def _yes_or_no(clause: str, hidden: Hidden, value: str | None) -> str | None:
    """The "yes" or "no" that opens a clause, or the text, where the clause states no value of its own."""
    if word := YES_NO.match(clause):
        if value is not None and clause[word.end() :].strip() == value:
            return None  # "Yes, −i"
        if value is not None and re.fullmatch(rf"\W*{re.escape(value)}\b[^\d=]{{0,20}}", clause[word.end() :]):
            return None  # "Yes - 6 ways"
        is_reason = re.match(r"\s*(?:since|because|as|for)\b", clause[word.end() :])
        if value is None or is_reason or not re.search(r"=|(?:\bis|['’]s)\s+[\d\ue000-\uf8ff]", clause):
            return word[1] or word[2]
    start = YES_NO.match(hidden.text) if value is None else None
    return (start[1] or start[2]) if start else None


def _emphasised(sentence: str) -> str | None:
    """The last bold part of a sentence that is more than it."""
    parts = re.findall(r"(?<![\w)])\*\*([^*\n]{1,200}?)\*\*(?![\w(])", sentence)
    if (
        not parts
        or _BOLD_LETTER.fullmatch(parts[-1])
        or (EQUATION_SO_FAR.fullmatch(parts[-1]) and "=" in sentence[sentence.rfind(parts[-1]) + len(parts[-1]) :])
        or parts[-1].rstrip().endswith(":")
        or _HEADING_WORD.fullmatch(parts[-1])
        or len(parts[-1]) + 8 > len(sentence.strip())
    ):
        return None
    behind = sentence[sentence.rfind(parts[-1]) + len(parts[-1]) :]
    return None if re.match(r"\*\*\W{0,4}:", behind) else parts[-1].strip(" .:")


def bare(line: str) -> str:
    """A line without marks of lists, headings, quotes and tables."""
    line = re.sub(r"^\s*(?:>\s*|#{1,6}\s+)+", "", line)
    if line.count("|") >= 3 and line.strip().startswith("|"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        return cells[-1]
    return BULLET.sub("", line)
