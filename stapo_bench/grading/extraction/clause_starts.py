"""Where the clauses of a sentence begin, and which of them give reasons, conditions and contrasts instead of values."""

import re
from itertools import pairwise

from stapo_bench.grading.extraction.languages import COPULAS, VERBS
from stapo_bench.grading.extraction.tokens import Token
from stapo_bench.grading.patterns import regex

WHICH = (  # that adds a remark, and no result
    r"which(?! (?:together |in (?:[a-z]+ ){1,3}|for (?:[a-z]+|\d+) [a-z]+ |thus |then "
    r"|to the nearest [a-z]+ |rounded [^,]{0,40}?|[a-z]+ed (?:by|with|in) \S+ )?(?:is|are"
    r"|equals?|gives?|says|makes?|corresponds|means|comes|works out|simplifies|reduces|factors|factori[sz]es"
    r"|expands|evaluates|leaves"
    r"|leaving|yields|totals|amounts"
    r"|rounds|brings"
    r"|takes|sends|maps|moves|raises|lowers|puts|sets|becomes|turns|reads|approaches|tends|tells us|shows|implies"
    r"|can happen|can be)\b)"
)
_AND = regex(r"(?<!,) (?:and|und|et|y)\s*$", re.IGNORECASE)  # with a comma before it the main clause may go on
_SENTENCE_BEFORE = regex(r"(?:[^\W\d_]{2,} [^;]*){3}$")  # words before a semicolon, and no row of equations
# Of what is not so, beside what is: "it would be 9 without the last"
_WOULD = regex(r"\b(?:would|sería|serait|wäre|sarebbe|seria)\b|было бы", re.IGNORECASE)
_STATES = regex(
    r"=|\b(?:is|are|was|were|has|have|gives?|get|obtain(?:s|ing)?|equals?|becomes?"
    r"|arrives? at|comes? (?:to|out)|reach(?:es)?|makes?|yields?|totals?)\b",
    re.IGNORECASE,
)
SINCE = regex(r"\s*(?:since|because)\b", re.IGNORECASE)
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
    + WHICH
    + r"|хотя|obwohl|bien que|aunque|embora|sebbene|benché|for which|of which"
    r"|car(?! \w+s\b)|puisque|pois|poiché|weil|da|denn|porque|ya que|perché|поскольку|так как|因为|由于)\b",
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
_SO = regex(r"\b(?:so|hence|thus|therefore)\s*$")  # "so you would pay $84" supposes nothing
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
    r"|, in (?:binary|octal|hexadecimal|base \w+)(?= [\dA-F]+\W*$)|, result (?=\d)"
    r"|, written (?:as )?(?=[(\d\ue000-\uf8ff√])"
    r"|[,，;；]\s*(?:所以|因此|故|即|于是|よって|ゆえに)|(?:なので|ですから|ため)[、,]|[,;] here\b",
    re.IGNORECASE,
)


def reasons_among(clause: str, starts: list[int]) -> set[int]:
    """The clauses that give reasons, conditions and contrasts, and those that "and" joins to one of them."""
    reasons: set[int] = set()
    for before, start in zip([None, *starts[:-1]], starts, strict=True):
        continues = before in reasons and _AND.search(clause[:start]) is not None
        if continues or _REASON.match(clause[start:].strip(" ,;:—→")):
            reasons.add(start)
    ends = [*starts[1:], len(clause)]
    supposed = {
        start
        for start, end in zip(starts, ends, strict=True)
        if _WOULD.search(clause, start, end) and not _SO.search(clause[:start])
    }
    told = any(
        start not in supposed | reasons and _STATES.search(clause, start, end)
        for start, end in zip(starts, ends, strict=True)
    )
    return reasons | supposed if told else reasons


def clause_starts(clause: str, pieces: list[Token]) -> list[int]:
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
        is_choice = piece.text == "or" and following.kind == "number"  # "ten or twelve zeros"
        if piece.kind == "joiner" and following.kind != "value" and not is_choice:
            rest = clause[piece.end :]
            begins = _OWN_VERB.match(rest) is not None or SINCE.match(rest) is not None
        if begins:
            starts.append(piece.end)
    starts += [match.end() for match in _CONSEQUENCE.finditer(clause)]
    starts += [match.end() for pattern in (_SINCE_EQUAL, _AS_EQUAL) for match in pattern.finditer(clause)]
    starts += [match.end() for match in _IF_THEN.finditer(clause)]
    starts += [match.end() for match in _SINCE_SHE.finditer(clause)]
    return sorted(set(starts))
