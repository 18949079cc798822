"""The value that the main clause of a sentence gives, by where it stands to verbs, remarks and consequences."""

import re

from stapo_bench.grading.extraction.chains import is_working
from stapo_bench.grading.extraction.clause_names import named_in_clause
from stapo_bench.grading.extraction.clause_starts import SINCE, WHICH, clause_starts, reasons_among
from stapo_bench.grading.extraction.formulas import Hidden
from stapo_bench.grading.extraction.hedges import condition_leaves_open
from stapo_bench.grading.extraction.languages import COPULAS, VERBS
from stapo_bench.grading.extraction.spans import Span, spans
from stapo_bench.grading.extraction.tokens import Token, tokens
from stapo_bench.grading.patterns import regex

MAX_RUNS = 60  # values of a clause, from its end, that are looked at
MAX_BEFORE = 60  # characters before a value that may hedge it
_SUBORDINATE = regex(
    r",?\s+\b(?:because|since|as (?:desired|required|claimed|shown|needed|expected|stated|\w+ was)|as (?:we"
    r"|the|it)\b|where(?:as)?|"
    + WHICH
    + r"|whose|while|although|though|compared|when(?:ever)?|if|provided|assuming|so that|in order|for (?:all|any"
    r"|every|each|which)|of which|as (?=[^,;]*\d[^,;]*(?:=|\bis\b|\bmakes\b)[^,;]*\d)"
    r"|хотя|obwohl|bien que|aunque|embora|sebbene|benché|虽然|尽管|tra cui|dont|darunter|entre (?:ellos|ellas|eles)"
    r"|в том числе|(?<!the )(?<!a )(?<!each )car|puisque|pois|poiché|weil|da|denn|porque|поскольку|так как)\b",
    re.IGNORECASE,
)
_IF = regex(r",?\s+(?:if|unless|provided|assuming)\b", re.IGNORECASE)
# Behind a clause: "it is 5, if x > 0"
_CONDITION = regex(r"[\s,;]*(?:if|unless|provided|assuming)\b", re.IGNORECASE)
# "it is true because 7 is odd"
_BECAUSE = regex(r"(?<=\w) (?:because|since|weil|denn|porque) ", re.IGNORECASE)
_LEFT_WITH = frozenset(["up", "us", "her", "him", "them", "leaves", "leaving", "left"])  # "ends up with 6"
_KNOWN = regex(r"\b(?:the|these|those|all|both|other|remaining|first|last|original)\s+$", re.IGNORECASE)
_AT = regex(
    r"(?<!end up )(?<!ends up )(?<!left )\b(?:at|when|where|with|for|if|from|by|after|since|as|using|because"
    r"|given|mit|con|com|bei|при|pour|para|für|per|при|avec|wenn|quand)\s+$",
    re.IGNORECASE,
)
# "Since the time is 2 hours, ...": what opens a sentence and states nothing.
_OPENING = regex(
    r"\W*(?:since|because|as|if|when|while|although|given that"
    r"|seeing that)\b.*,\s+(?=(?:the|it|he|she|they|we|you|everyone|everybody|there|this|that"
    r"|each|his|her|its|their|our)\b[^,]*\b(?:\d|[\ue000-\uf8ff]|two\b|three\b|four\b|five\b|six\b|seven\b|eight\b"
    r"|nine\b|ten\b|eleven\b|twelve\b|[a-z]+teen\b|[a-z]+ty\b|half\b)|[\ue000-\uf8ff]\W*$|\S{1,20} is the\b)"
    r"|\W*(?:plugging|substituting|using|putting|setting|inserting|taking|with)\b[^:;]*\b(?:we|one) (?:get"
    r"|obtain|find|have|arrive at|come to|end up with)s?\s+|(?:.*\band )?\b[a-z]{2,}ing (?:[a-z]+ )?(?:by|with|for"
    r"|from|in) [^,=]*,\s+(?=[a-z] ?=)"
    r"|\W*(?:since|because|as) [^,]*=[^,]*,\s+(?=[^,=]*[A-Za-z(][^,=]*=)"
    r"|(?:.*[,;] (?:and )?)?[a-z]{3,}ing (?=[^,;:=]*\d)[^,;:=]*?\b(?:shows?|tells us|means|reveals"
    r"|implies)\s+(?:that\s+)?(?=[^=]*\d)",
    re.IGNORECASE,
)
_TAIL = regex(
    r"\b(?:to|than|of|after|before|at|from|for|by|per|within|among|between|with|without|in|on|into|through"
    r"|over|under|since|until|using|via|mod|de|des|du|von|di|del|della|entre|zwischen|из|между)\s+(?:the\s+|a\s+"
    r"|an\s+|its\s+|her\s+|his\s+|their\s+|only\s+"
    r"|[a-z]+ing\s+)*$|\bto\s+[a-z]+\s+(?:the\s+|a\s+|all\s+)?$",
    re.IGNORECASE,
)
_FILLER_WORDS = """
    about approximately roughly around exactly just therefore thus then hence also simply equal to given by
    only now the a an number value total of precisely indeed actually either clearly equivalent obviously
    always still up out back donc also genau alors entonces somit folglich als así ровно значит поэтому 约 約 于 为 for
    tutto totale insgesamt todo tout zusammen всего as him her them us it me you each every both all in total
    altogether my our your his de accordingly consequently
"""
_FILLER = frozenset(_FILLER_WORDS.split())
_HEDGE = regex(
    r"\b(?:at least|at most|no more than|no less than|no fewer than|not more than|not less than|more than"
    r"|less than|fewer than|greater than|larger than|smaller than|bigger than"
    r"|(?<!\badd )(?<!\badds )(?<!comes )(?<!rounds )up to|(?<!hands )(?<!hand )(?<!left )(?<!pays )over|under"
    r"|above|below"
    r"|nearly|almost|between|neither|maybe|perhaps"
    r"|possibly|might be|may be|could be|cannot be|can't be|never|not|isn['’]t|aren['’]t|n['’]t|bounded by|off by"
    r"|menor\w* (?:que|do que|a)|mayor\w* (?:que|a)|maior\w* (?:que|do que)"
    r"|inf[eé]rie?u?r\w* (?:a|à)|sup[eé]rie?u?r\w* (?:a|à)|(?:kleiner|größer|weniger|mehr|jünger|älter) als"
    r"|plus (?:petit|grand)\w* que|(?:moins|plus) de|(?:minor|maggior)\w* di|меньше|больше|не превосходящ\w+"
    r"|mod|modulo|divisible by|multiple of|power of|multiples of|base|step|case|(?<!has the )(?<!has )equation"
    r"|lemma|theorem|figure|chapter"
    r"|exercise|problem|page|section|example|part|modulus|(?<!has )degree|order|dimension|chapitre|Kapitel"
    r"|cap[ií]tulo|capitolo"
    r"|глав[аеу]|exercice|Aufgabe|ejercicio|esercizio)\s*(?:to\s+|be\s+|exactly\s+|a\s+|the\s+)?(?:[^\w\s(]\s*)?$",
    re.IGNORECASE,
)
# "On day 4 it is taller than 20 cm" bounds its subject, and gives no value.
_BOUNDED = regex(
    r"\b(?:is|are|was|were)\s+(?:\w+\s)?(?:(?:\w+er|more|less)\sthan|at least|at most)\s\W?\d", re.IGNORECASE
)
_ROUGH = regex(
    r"\b(?:about|approximately|approx\.?|roughly|around|circa|environ|etwa|ungefähr|aproximadamente|unos"
    r"|примерно|около)\s*$|[约約大概]\s*$",
    re.IGNORECASE,
)
# "which brings the thermometer to −7"
_BRINGS_TO = regex(
    r"(?<!would )\b(?:brings?|takes?|moves?|sends?|maps?|(?<=\) )goes|raises?|lowers?|drops?"
    r"|falls?|rises?|shrinks?|grows?|reduces?|sinks?|climbs?|leads?)\b(?: [^\W\d_]+){0,4} to (?:exactly |just )?$"
    r"|\b(?:puts?|sets?) (?:[^\W\d_]+ ){1,6}(?:at|to) (?:exactly |just )?$"
    r"|\b(?:leave|keep|state|rewrite|put|write|written|express|expressed|represent|represented)\b(?: \S+){1,3} as $"
    r"|\b(?:sold|sells|bought|goes|went) for $|\bends? (?:in|with) $"
    r"|\b(?:expands?|factors?|factori[sz]es?|simplifies|evaluates|works out|multiplies out) (?:to|as|at|into|out to) $"
    r"|\b(?:happen|occur|be (?:done|arranged|chosen|seated|ordered|lined up)) in (?:exactly )?$"
    r"|\blies? in $|\bbelongs? to $|\bis the same as $|\bcomes out (?:as|at|to) $|\badds? up to $|\b(?:sums?"
    r"|adds) to $",
    re.IGNORECASE,
)
# "so those are our two solutions, 4 and −1"
_COUNTS_VALUES = regex(
    r"\s+(?:[a-z]+ )?(?:solutions|roots|values|numbers|integers|answers|points)\s*[:,(]?\s*[-−(\d√π\ue000-\uf8ff]"
)
# "seven apples remain in the basket of 12"
_ARE_LEFT = regex(r"(?: [a-z]+){0,2} (?:remains?|(?:is|are|were|was) left|(?:is|are) needed)\b")
_AND_ANOTHER = regex(r"이며|이고|[,、] ?(?!즉)(?=[^,]{0,12}[은는이가は])")  # "the sum is 7, and the roots are 3 and 4"
_KOREAN_IS = regex(
    r" ?(?:원|개|명|도|점|번|가지|권|장)?(?:입니다|이다|이에요|예요|となる|になる|となります|になります)\W*$"
)  # "9π입니다"
_OF_THAT = regex(r" of (?:that|this|it|these|those), [^,;=]*$")
_HAPPENS_AT = regex(r"\b(?:happens|occurs)\b[^;]*, (?:at|when|for) $")
# "Area = "
_WORD_EQUALS = regex(r"[A-Za-z]{3,} ?= ?$")
_CALL = regex(r"[A-Za-z\u0370-\u03ff]'*\([a-z]\)")
_MORE = regex(
    r"^\s*(?:ago\b|or\s+(?:more|less|fewer|so|greater|higher|above|below)|and (?:above|over|up)|times\s+(?:as|more"
    r"|the|larger)|percentage points)",
    re.IGNORECASE,
)
# "gives a density of 3"; not "gives a multiple of 3"
_NOUN_OF = regex(
    r"\b(?:is|are|gives?|giving|makes?|yields?|leaves?|with|at|(?:amounts?|comes?) to) an? "
    r"(?!(?:\w+ )?(?:multiple|factor|divisor|power|root|member|part|product|fraction|subset|sum|group|set|pair"
    r"|maximum|minimum|base)\b)(?:[a-z]+ ){1,3}of $"
)


def in_clause(clause: str, hidden: Hidden) -> str | None:
    """The value that a sentence gives: the last of its clauses that states one, reasons and conditions aside."""
    clause = clause[opening.end() :] if (opening := _OPENING.match(clause)) else clause
    pieces = tokens(clause)
    runs = _firm_runs(clause, pieces)
    if not runs:
        return None
    if (named := named_in_clause(clause, runs)) is not None:
        return named
    starts = clause_starts(clause, pieces)
    reasons = reasons_among(clause, starts)
    for start, end in zip(reversed(starts), [len(clause), *reversed(starts)], strict=False):
        part = clause[start:end].strip(" ,;:—→")
        if start not in reasons and (found := _in_part(part, hidden)) is not None:
            condition = _CONDITION.match(clause, end) if end < len(clause) else None
            is_open = condition is not None and condition_leaves_open(hidden.shown(found), clause[condition.end() :])
            return None if is_open else found or None
    # "One can see it at once, since a = b": where there is a main clause, its reasons state nothing.
    told = min(reasons - {0}, default=None)
    is_reason = told is not None and 0 not in reasons and SINCE.match(clause, told) and runs[0].start > told
    return None if is_reason else _in_part(clause, hidden) or None


def without_reasons(clause: str) -> str:
    """The clause without the reasons, conditions and contrasts behind it: "..., while the rest is gravel"."""
    end = len(clause)
    starts = clause_starts(clause, tokens(clause))
    reasons = reasons_among(clause, starts)
    for start in reversed(starts):
        if not start or start not in reasons:
            break
        end = start
    return clause[:end].rstrip(" ,;:—→")


def _firm_runs(clause: str, pieces: list[Token]) -> list[Span]:
    """The runs of mathematics that no word before them bounds or denies; f(x) alone is a name."""
    return [
        run
        for run in spans(pieces)[-MAX_RUNS:]
        if not _CALL.fullmatch(run.text) and (not _HEDGE.search(clause[: run.start][-MAX_BEFORE:]) or _hides_bound(run))
    ]


def _in_part(clause: str, hidden: Hidden) -> str | None:
    """The value that one clause gives, by where it stands to verbs and remarks; "" where a condition leaves it open."""
    pieces = tokens(clause)
    runs = _firm_runs(clause, pieces)
    if not runs:
        return None
    firm = [(run, strength) for run in runs if (strength := _brought(clause, run) or _strength(pieces, run))]
    why = None if firm else _BECAUSE.search(clause, 0, runs[0].start)
    if why and "," not in clause[why.end() : runs[0].start]:
        return None  # the reason has the value, and the clause before it none
    first = firm[0][0] if firm else runs[0]
    if cut := _SUBORDINATE.search(clause, first.end):
        if firm and _IF.match(cut[0]) and condition_leaves_open(hidden.shown(first.text), clause[cut.end() :]):
            return ""
        firm = [(run, strength) for run, strength in firm if run.start < cut.start()]
        runs = [run for run in runs if run.start < cut.start()]
    related = [
        run
        for run in runs
        if "=" in hidden.shown(run.text)
        and not run.in_words
        and (not _AT.search(clause[: run.start]) or _HAPPENS_AT.search(clause[: run.start]))
    ]
    chosen = _chosen(clause, runs, firm, related)
    bounded = not firm and not related and _BOUNDED.search(clause)
    if chosen is None or bounded or _MORE.match(clause[chosen.end :]):
        return None
    rough = _ROUGH.search(clause[: chosen.start])
    shown = hidden.shown(chosen.text)
    worked = "=" in shown and (_WORD_EQUALS.search(clause[: chosen.start]) or is_working(clause[: chosen.start], shown))
    return ("≈ " if rough else "") + (f"A = {chosen.text}" if worked else chosen.text)


def _chosen(clause: str, runs: list[Span], firm: list[tuple[Span, int]], related: list[Span]) -> Span | None:
    """The run that the clause gives: behind a copula, with a relation of its own, behind a verb, or the last."""
    if not _AND_ANOTHER.search(clause) and (told := [run for run in runs if _KOREAN_IS.match(clause, run.end)]):
        return told[-1]
    strong = [run for run, strength in firm if strength == 2]
    strong = [run for run in strong if not run.in_words] or [
        run for run in strong if not _COUNTS_VALUES.match(clause, run.end)
    ]
    halves = [run for run, _ in firm if run.in_words and _OF_THAT.match(clause, run.end)]
    if halves and runs[-1] not in halves and not runs[-1].in_words and not clause[runs[-1].end :].strip(" ."):
        return runs[-1]  # "has half of that, 15"
    if strong and all(run.in_words for run in strong) and not related and runs[-1] not in strong:
        apposed = not runs[-1].in_words and clause[: runs[-1].start].rstrip().endswith(",")
        if apposed and not clause[runs[-1].end :].strip(" ."):
            return runs[-1]  # "is half the product of the diagonals, 120"
    if both := sorted({*strong, *related}, key=lambda run: run.start):
        return both[-1]
    digits = [run for run in runs if not run.in_words and not run.is_bare_letter]
    for choice in (
        [run for run in digits if any(sign in run.text for sign in "<>≤≥")],
        [run for run, strength in firm if run in digits],
        [run for run, _ in firm if run.in_words and not _COUNTS_VALUES.match(clause, run.end)],
        [run for run in digits if not _TAIL.search(clause[: run.start]) and not _KNOWN.search(clause[: run.start])],
        [run for run in runs if run.in_words and _ARE_LEFT.match(clause, run.end)],
        [run for run in digits if not _KNOWN.search(clause[: run.start])],
        [run for run, strength in firm],
        [run for run in runs if run.in_words],
        digits,
    ):
        if choice:
            return choice[-1]
    return runs[-1] if len(clause.split()) <= 3 else None


def _brought(clause: str, run: Span) -> int:
    """2 where something is said to be brought to the run; 0 otherwise."""
    return 2 if _BRINGS_TO.search(clause[: run.start]) else 0


def _strength(pieces: list[Token], run: Span) -> int:  # noqa: PLR0911 - one return for each kind of word
    """2 where a copula stands before the run, 1 where another verb does, fillers aside; 0 otherwise."""
    before = [piece for piece in pieces if piece.end <= run.start and piece.kind != "space"]
    for place in range(len(before) - 1, max(-1, len(before) - 7), -1):
        piece = before[place]
        lower = piece.text.lower()
        if place and before[place - 1].text.lower() == "to" and lower not in COPULAS:
            return 0  # "to save the $420" is no statement
        if lower in ("remain", "remains") and before[place + 1 : place + 2] and before[place + 1].text == "of":
            return 0  # "48 remain of the 90"
        if lower in COPULAS or piece.text.endswith(
            ("是", "为", "為", "は", "が", "得", "有", "剩", "等于", "은", "는")
        ):
            return 2
        if lower.endswith(("'s", "’s")) and lower[:2] in ("it", "th", "he"):
            return 2
        if (piece.text in ":：" and piece.kind == "stop") or (
            piece.text == "=" and place and before[place - 1].kind == "word"
        ):
            return 2
        if lower in VERBS:
            return 1
        if lower == "of" and _NOUN_OF.search("".join(f"{piece.text} " for piece in before[: place + 1]).lower()):
            return 2
        if lower == "with" and place and before[place - 1].text.lower() in _LEFT_WITH:
            continue
        if lower not in _FILLER:
            return 0
    return 0


def _hides_bound(run: Span) -> bool:
    """Whether the run is a relation of its own, of which no word before it takes anything."""
    return any(sign in run.text for sign in "=<>≤≥")
