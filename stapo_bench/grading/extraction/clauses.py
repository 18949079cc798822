"""The value that the main clause of a sentence gives, by where it stands to verbs, remarks and consequences."""

import re
from itertools import pairwise

from stapo_bench.grading.extraction.chains import is_working
from stapo_bench.grading.extraction.clause_names import named_in_clause
from stapo_bench.grading.extraction.formulas import Hidden
from stapo_bench.grading.extraction.hedges import condition_leaves_open
from stapo_bench.grading.extraction.languages import COPULAS, VERBS
from stapo_bench.grading.extraction.spans import Span, spans
from stapo_bench.grading.extraction.tokens import Token, tokens
from stapo_bench.grading.patterns import regex

MAX_RUNS = 60  # values of a clause, from its end, that are looked at
MAX_BEFORE = 60  # characters before a value that may hedge it
_WHICH = (  # that adds a remark, and no result
    r"which(?! (?:together |in (?:[a-z]+ ){1,3}|for (?:[a-z]+|\d+) [a-z]+ |thus |then "
    r"|to the nearest [a-z]+ |rounded [^,]{0,40}?|[a-z]+ed (?:by|with|in) \S+ )?(?:is|are"
    r"|equals?|gives?|says|makes?|corresponds|means|comes|works out|simplifies|reduces|factors|factori[sz]es|expands|evaluates|leaves"
    r"|leaving|yields|totals|amounts"
    r"|rounds|brings"
    r"|takes|sends|maps|moves|raises|lowers|puts|sets|becomes|turns|reads|approaches|tends|tells us|shows|implies"
    r"|can happen|can be)\b)"
)
_SUBORDINATE = regex(
    r",?\s+\b(?:because|since|as (?:desired|required|claimed|shown|needed|expected|stated|\w+ was)|as (?:we"
    r"|the|it)\b|where(?:as)?|"
    + _WHICH
    + r"|whose|while|although|though|compared|when(?:ever)?|if|provided|assuming|so that|in order|for (?:all|any"
    r"|every|each|which)|of which|as (?=[^,;]*\d[^,;]*(?:=|\bis\b|\bmakes\b)[^,;]*\d)"
    r"|хотя|obwohl|bien que|aunque|embora|sebbene|benché|虽然|尽管|tra cui|dont|darunter|entre (?:ellos|ellas|eles)"
    r"|в том числе|(?<!the )(?<!a )(?<!each )car|puisque|weil|da|denn|porque|поскольку|так как)\b",
    re.IGNORECASE,
)
_AND = regex(r"(?<!,) (?:and|und|et|y)\s*$", re.IGNORECASE)  # with a comma before it the main clause may go on
_IF = regex(r",?\s+(?:if|unless|provided|assuming)\b", re.IGNORECASE)
# Behind a clause: "it is 5, if x > 0"
_CONDITION = regex(r"[\s,;]*(?:if|unless|provided|assuming)\b", re.IGNORECASE)
_SENTENCE_BEFORE = regex(r"(?:[^\W\d_]{2,} [^;]*){3}$")  # words before a semicolon, and no row of equations
# Of what is not so, beside what is: "it would be 9 without the last"
_WOULD = regex(r"\b(?:would|sería|serait|wäre|sarebbe|seria)\b|было бы", re.IGNORECASE)
_STATES = regex(
    r"=|\b(?:is|are|was|were|has|have|gives?|get|obtain(?:s|ing)?|equals?|becomes?"
    r"|arrives? at|comes? (?:to|out)|reach(?:es)?|makes?|yields?|totals?)\b",
    re.IGNORECASE,
)
# "it is true because 7 is odd"
_BECAUSE = regex(r"(?<=\w) (?:because|since|weil|denn|porque) ", re.IGNORECASE)
_SINCE = regex(r"\s*(?:since|because)\b", re.IGNORECASE)
_LEFT_WITH = frozenset(["up", "us", "her", "him", "them", "leaves", "leaving", "left"])  # "ends up with 6"
_QUOTES = frozenset("\"\u201c\u201d\u201e'\u2019")
# What opens a clause that gives a reason, a condition or a contrast, and no value.
_REASON = regex(
    r"[\s,;]*(?:(?:and|but)\s+)?(?:because"
    r"|since(?![^,;]*\b(?:(?:it|this|that) (?:means|follows|implies)|we (?:leave|keep|write))\b)"
    r"|as(?! an? (?:[a-z]+ (?:of|in|for)|percent(?:age)?|fraction|decimal)\b)|if|when|while|whereas|although"
    r"|though|unless|provided|where"
    r"|with(?![^,;]*\b(?:(?:this|that|it) (?:is|are|\w+s)|(?:we|i|he|she|they) [a-z]+|the [a-z]+ (?:therefore "
    r"|then |thus "
    r"|also )?(?:are|[a-z]+s)) )|not|rather"
    r"|instead(?! (?:of (?:that|this|it) )?(?:the|it|we|this|you)\b)|compared|unlike|assuming|supposing|"
    + _WHICH
    + r"|хотя|obwohl|bien que|aunque|embora|sebbene|benché|for which|of which"
    r"|car(?! \w+s\b)|puisque|weil|da|denn|porque|ya que|perché|поскольку|так как|因为|由于)\b",
    re.IGNORECASE,
)
# Behind a comma: a clause of its own has a subject and a verb before its value.
_OWN_VERB = regex(
    r"\s*(?:and\s+|but\s+|or\s+)?(?:[^\W\d_][\w'’-]*\s+|\$?\d\S*\s+|[-+−×·*/]\s+){0,8}?(?:"
    + "|".join(sorted(COPULAS | VERBS, key=len, reverse=True))
    + r"|(?<!\d )(?<!the )(?!times\b|is\b|as\b|units\b)[a-z]{3,}[^s\W]s|[a-z]{3,}ing|happens?|turns?|adds? up)\b"
    r"|\s*(?:and\s+|but\s+|so\s+)?(?:that|it|this)['’]s\s"
    r"|\s*(?:and\s+|but\s+)?(?:they|we|you|these|those|he|she|it|i)\s+[a-z]{3,}",
    re.IGNORECASE,
)
# "and since a week has five days she earns $85"
_SINCE_SHE = regex(
    r"(?:^\W*|\b(?:and|so) )(?:since|as) (?!we|he|she|they)[^,;=]{8,60}?[\w)] (?=(?:he|she|they|we|it) [a-z]+ "
    r"|the [a-z]+ (?:equals|is|must be) )",
    re.IGNORECASE,
)
# "If we take 10 away from that we are left with 200"
_IF_THEN = regex(
    r"(?:^\W*|\band )(?:if|when) (?:we|you|he|she|they|it|one) [a-z]+ [^,;]*?\S (?=(?:we|you|he|she|they|it|there) "
    r"(?:are|is|have|has|gets?|obtains?|ends?)\b)",
    re.IGNORECASE,
)
# "since A = π r² the region has area 5π": the equation is the reason
_SINCE_EQUAL = regex(
    r"\b(?:since|as|because) [\w'() ]{1,15} ?= ?\S+(?: ?[-−+*/·×^=] ?\S+)*(?= (?:the|it|we|this|there|that|our|its"
    r"|his|her)\b)"
)
_AS_EQUAL = regex(r",\s+(?=as [^,;a-z]*=[^,;]*\b(?:and|but)\b)")  # "24, as 24 = 6·4 = 8·3 and neither is ..."
_KNOWN = regex(r"\b(?:the|these|those|all|both|other|remaining|first|last|original)\s+$", re.IGNORECASE)
_AT = regex(
    r"(?<!end up )(?<!ends up )(?<!left )\b(?:at|when|where|with|for|if|from|by|after|since|as|using|because"
    r"|given|mit|con|com|bei|при|pour|para|für|per|при|avec|wenn|quand)\s+$",
    re.IGNORECASE,
)
_CONSEQUENCE = regex(
    r"[,;:—–-]\s*(?:and\s+)?(?:so|hence|thus|therefore|consequently|then|which means|from which|meaning|it follows"
    r"|that is|in other words|(?:or )?in (?:\w+ )?(?:form|notation|terms)|o sea|de modo que|así que"
    r"|por (?:lo )?tanto|de sorte que|sodass|so dass|di modo che"
    r"|так что|следовательно|es decir|c['’]est-à-dire|das heißt|cioè|ou seja|то есть|namely|altogether|in total"
    r"|soit(?! (?:environ|à peu près))|adding up to|amounting to|totall?ing|coming to"
    r"|which (?:together |in all |in total |thus |then )?(?:comes (?:down )?to|boils down to|works out (?:to|as"
    r"|at)|amounts to|totals"
    r"|gives?|says|makes?|equals?|leaves?|corresponds to"
    r"|yields?|reads|simplifies to|evaluates to)|which in (?:base \w+|binary|octal|hexadecimal|decimal)(?= is\b)"
    r"|which is to say|which,? (?:(?:rounded )?to the nearest \w+|to (?:\w+ )?(?:decimals?"
    r"|places?|figures|digits)(?: places?)?|in (?:[a-z]+ )?(?:notation"
    r"|form|terms|percent|words|degrees|decimals?)),?(?= (?:is|gives|makes|becomes|reads)\b)|donc"
    r"|also|daher|somit|luego|поэтому|значит|(?:rounded )?to the nearest \w+)\b(?: that\b(?!['’]))?"
    r"|\s(?:so|hence|thus|therefore)\s(?=\d|[a-z] ?=|the\b|it\b|there\b)"
    r"|, (?:zusammen|insgesamt|au total|en tout|en total|in totale|всего)(?: also| donc)?\b"
    r"|, written (?:as )?(?=[(\d\ue000-\uf8ff√])|[,，;；]\s*(?:所以|因此|故|即|于是|よって|ゆえに)|(?:なので|ですから|ため)[、,]|[,;] here\b",
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
    r"|exercise|problem|page|section|example|part|modulus|degree|order|dimension|chapitre|Kapitel|cap[ií]tulo|capitolo"
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
    r"|\bis the same as $|\bcomes out (?:as|at|to) $|\badds? up to $|\b(?:sums?|adds) to $",
    re.IGNORECASE,
)
# "so those are our two solutions, 4 and −1"
_COUNTS_VALUES = regex(
    r"\s+(?:[a-z]+ )?(?:solutions|roots|values|numbers|integers|answers|points)\s*[:,(]?\s*[-−(\d√π\ue000-\uf8ff]"
)
# "seven apples remain in the basket of 12"
_ARE_LEFT = regex(r"(?: [a-z]+){0,2} (?:remains?|(?:is|are|were|was) left|(?:is|are) needed)\b")
_KOREAN_IS = regex(r" ?(?:입니다|이다|이에요|예요|となる|になる|となります|になります)\W*$")  # "9π입니다"
_OF_THAT = regex(r" of (?:that|this|it|these|those), [^,;=]*$")
_HAPPENS_AT = regex(r"\b(?:happens|occurs)\b[^;]*, (?:at|when|for) $")
# "; sottraendo b si ottiene il vettore (−2, 8)"
_OBTAINS = regex(
    r"[^;.=\d]* (?:(?:we|one) (?:obtain|get|have|find|arrive at)|si ottiene|si ottengono|se obtienen?|obtém-se"
    r"|on obtient|erhält man|получаем|получим)\b"
)
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
    starts = _clause_starts(clause, pieces)
    reasons = _reasons(clause, starts)
    for start, end in zip(reversed(starts), [len(clause), *reversed(starts)], strict=False):
        part = clause[start:end].strip(" ,;:—→")
        if start not in reasons and (found := _in_part(part, hidden)) is not None:
            condition = _CONDITION.match(clause, end) if end < len(clause) else None
            is_open = condition is not None and condition_leaves_open(hidden.shown(found), clause[condition.end() :])
            return None if is_open else found or None
    # "One can see it at once, since a = b": where there is a main clause, its reasons state nothing.
    told = min(reasons - {0}, default=None)
    is_reason = told is not None and 0 not in reasons and _SINCE.match(clause, told) and runs[0].start > told
    return None if is_reason else _in_part(clause, hidden) or None


def _reasons(clause: str, starts: list[int]) -> set[int]:
    """The clauses that give reasons, conditions and contrasts, and those that "and" joins to one of them."""
    reasons: set[int] = set()
    for before, start in zip([None, *starts], starts, strict=False):
        continues = before in reasons and _AND.search(clause[:start]) is not None
        if continues or _REASON.match(clause[start:].strip(" ,;:—→")):
            reasons.add(start)
    ends = [*starts[1:], len(clause)]
    supposed = {start for start, end in zip(starts, ends, strict=True) if _WOULD.search(clause, start, end)}
    told = any(
        start not in supposed | reasons and _STATES.search(clause, start, end)
        for start, end in zip(starts, ends, strict=True)
    )
    return reasons | supposed if told else reasons


def without_reasons(clause: str) -> str:
    """The clause without the reasons, conditions and contrasts behind it: "..., while the rest is gravel"."""
    end = len(clause)
    starts = _clause_starts(clause, tokens(clause))
    reasons = _reasons(clause, starts)
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


def _clause_starts(clause: str, pieces: list[Token]) -> list[int]:
    """Where clauses begin: behind a stop, and behind a comma or "and" that a verb of its own follows."""
    starts, depth = [0], 0
    seen = [piece for piece in pieces if piece.kind != "space"]
    for piece, following in pairwise(seen):
        depth = max(0, depth + (piece.text in ("(", "[", "{")) - (piece.text in (")", "]", "}")))
        if depth:
            continue
        begins = piece.kind == "stop" and piece.text not in _QUOTES
        if piece.text == ";" and following.text != "=":
            rest = clause[piece.end :]
            begins = _SENTENCE_BEFORE.search(clause[: piece.start]) is not None and "=" in rest
            begins = begins or _OBTAINS.match(rest) is not None
        is_choice = piece.text == "or" and following.kind == "number"  # "ten or twelve zeros"
        if piece.kind == "joiner" and following.kind != "value" and not is_choice:
            rest = clause[piece.end :]
            begins = _OWN_VERB.match(rest) is not None or _SINCE.match(rest) is not None
        if begins:
            starts.append(piece.end)
    starts += [match.end() for match in _CONSEQUENCE.finditer(clause)]
    starts += [match.end() for pattern in (_SINCE_EQUAL, _AS_EQUAL) for match in pattern.finditer(clause)]
    starts += [match.end() for match in _IF_THEN.finditer(clause)]
    starts += [match.end() for match in _SINCE_SHE.finditer(clause)]
    return sorted(set(starts))


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
    if "," not in clause and (told := [run for run in runs if _KOREAN_IS.match(clause, run.end)]):
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
