"""What a clause says beside its value: remarks behind it, what it is not, another unit, a proof, a comparison."""

import re

from stapo_bench.grading.patterns import regex
from stapo_bench.grading.read import KNOWN_NAMES, NUMERAL

# "42 (= 6 · 7)"
_EQUALITY_ASIDE = regex(
    r"(?<=[\w\d)%°²³\ue000-\uf8ff])\s+[(\[][^()\[\]=≈<>]*(?:\([^()]*\)[^()=≈<>]*)*"
    r"[=≈][^()]*(?:\([^()]*\)[^()]*)*[)\]](?!\s*[=*/^+-])"
)
# "30 kg·m/s (or 30 N·s)"
_SAME_AGAIN = regex(r"(?<=\d)\(=[^()]*\)$")  # "400(=4×100)"
_OR_SO = regex(r"(?<=[\w²³)]) \(or (?:about |≈ ?)?-?[\d.,/]+ ?[^\W\d][^()\d]{0,11}[²³]?\)$")
# "12 (the larger one)", "5 (as in $x = 5$)"
_PARENTHESIS = regex(
    r"\s*\((?:as in|as|see|cf\.|so|since) ?[\ue000-\uf8ff]\)"
    r"|\s*[(（][^()（）]*?[A-Za-z\u0400-\u04ff]{3,}[^()（）]*(?:\([^()]*\)[^()（）]*)?[)）]"
)
# "3, 5 and 7, which are consecutive odds": what follows a value and holds none.
_PLAIN_REMARK = regex(
    r"(?<=[\w)%\ue000-\uf8ff]); (?:that|this|it)(?:['’]s| is) (?:the|our|your|my) [a-z ]+$|"
    r"(?<=[\w)%\ue000-\uf8ff]), by (?:the )?[a-zA-Z'’ -]+$|(?:(?<=[\d)²³\ue000-\uf8ff])"
    r"|(?<=[-−+·/] [a-z])), (?:the|an?|its) [a-z]+ of (?!.*\b(?:is|are|was|equals)\b)[^\d=\ue000-\uf8ff]*$"
    r"|(?<=[\w)%\ue000-\uf8ff]), that is,? an? (?:decrease|drop|loss|increase|rise|gain|fall|reduction) of [^,;]*$"
    rf"|(?<=[\w)%\ue000-\uf8ff]),? (?:which (?:is|are|was|were)(?! to say\b)(?! (?:{NUMERAL.pattern})(?: [a-z]+)?\W*$)"
    r"|que (?:é|es|son|são)|ce qui est|qui (?:est|sont)|che (?:è|sono)|(?:что|это) и есть"
    r"|was (?:genau )?(?:der|die|das))\s[^\d\ue000-\uf8ff=;]*$"
)
# "75°; check: ...", "5, for example x = 2", "6 et on vérifie que ..."
_CHECKED = regex(
    r"(?<=[\w)%°\ue000-\uf8ff]); (?=[^;]*=)[^;a-z]*(?:[a-z][^;a-z]+)*? ?(?:and [^;a-z]*)?,? ?(?:as (?:demanded"
    r"|required|expected|desired|needed|claimed|given|stated|it should)|✓|✔|works|checks(?: out)?)\W*$"
    r"|(?<=[\w)%°\ue000-\uf8ff])\s?[:;,—–-]\s+(?:check|indeed|verification)\b.*$"
    r"|(?<=[\w)%°\ue000-\uf8ff]),? (?:and (?:one|we|you|i) (?:can |may )?(?:check|verif)\w* (?:that|this)"
    r"|(?:et|y|e|und) (?:l['’]on |on |se |man )?(?:vérifie|comprueba|verifica|prüft))\b.*$"
    r"|(?<=[\w)%°\ue000-\uf8ff]), (?:for (?:example|instance)"
    r"|zum Beispiel|z\.\s?B\.|par exemple|por ejemplo|por exemplo|per esempio|например)\b.*$",
    re.IGNORECASE,
)
# "5, reached when x = 1"
_ATTAINED = regex(
    r"(?<=[\w)\ue000-\uf8ff]),? (?:which is )?(?:starting|beginning|counting) (?:when|at|for|where|if|from|with)\b"
    r"(?:(?!,? (?:so|hence|thus|therefore)\b)[^=]|(?<=[a-z] )= [-−]?\d+$)*$"
    r"|(?<=[\w)\ue000-\uf8ff]),? (?:which is )?(?:reached|attained|achieved|taken|assumed|occurring) (?:when|at"
    r"|for|where|if|from|with)\b(?:(?!,? (?:so|hence|thus|therefore)\b).)*$"
    r"|(?<=[\w)\ue000-\uf8ff]), (?:which is )?(?:defined|valid) (?:when|at|for|where|if|on)\b.*$"
)
# "60 minutes, 10 minutes longer than by train"
_COMPARED = regex(
    r"(?<=[\w%)]),\s+(?:which is )?(?![^.;]* (?:is|are|equals) |or\b|and\b|but\b)\S+(?: [a-z]+)? (?:more|less"
    r"|[a-z]{2,}er) (?:[a-z]+ )?than\b[^.;]*$|(?<=[\w%)]),\s+(?:which is )?(?:\$?\d[^\s()]*|one|two"
    r"|three|four|five|six|seven|eight|nine|ten|half)(?: [a-z]+)? (?:above|below|over(?! \d)|under|short of"
    r"|shy of)\b[^.;]*$"
    r"|(?<=[\w%)]),\s+(?:more|less|fewer|(?!other|rather)[a-z]{3,}er) than\b[^.;,]*$"
    r"|(?<=[\w%)]),? (?:that is|то есть|es decir|d\.\s?h\.|c['’]est-à-dire|cioè),? (?:\S+ )?(?:more|less"
    r"|больше|меньше|más|menos|mehr|weniger|plus|moins)\b.*$|(?<=[\w%)]), which is (?:just |only )?(?:a (?:little|bit) "
    r"|slightly |well |far )?(?:below|above|under|over|(?:less|more|greater|smaller|larger) than)\b[^.;]*$"
    r"|(?<=[\w%)]), (?:roughly |about |nearly |almost |exactly )?\S+ times (?:an?|the|as|that|its|this)\b[^.;]*$"
    r"|(?<=[\w%)])(?:,| [—–-]) (?:a (?:little|bit) |slightly "
    r"|just |only |well )(?:more|less|over|under|above|below)\b[^.;]*$"
)
# "9√3, about 15.6", "n(n+1)/2, as can be checked with n = 1": what only repeats the value, or proves it.
_REPEATED = regex(
    r"(?<=[\w)}²³\ue000-\uf8ff])(?:,? \(?(?:which is |that is "
    r"|or )?(?:about|approximately|roughly|around|(?<=[(,] )≈|(?<=\()≈) \$?[\d.,]+\d(?: [a-z]+){0,2}\)?$"
    r"| \((?:≈ ?|about |approximately |roughly )?\d+\.\d+(?:…|\.\.\.)?\)$|, as (?:can be|is|one|you"
    r"|we) (?:\w+ )?(?:checked|check|verified|verify|seen|see|confirmed|confirm)\b.*$)"
)
# "3,500 meters, or about 2.17 miles"
_IN_OTHER_UNIT = regex(
    r"(?<=\d )([a-z]+)(?:,? or|,|,? which is|,? that is) (?:about|approximately|roughly|around|≈)"
    r" \$?[\d.,]*\d (?!\1\b)[a-z]+$"
)
# "9, and four of these do make 36"
_DO_MAKE = regex(
    r"(?<=[\w)²³]),? and [^,;=]* (?:do|does|indeed) (?:make|give|add up|sum|multiply|come|equal)s?\b[^;=]*$"
)
_ALL = regex(r"\b(?:all|any|every|each|real)\b")
_ALSO = regex(r" \(or ([-−]?\d[\d.,/]*)\)$")  # "-7/2 (or -3.5)"
_DOES_SO = regex(r",? along with [^,;=]*$|,? and (?:he|she|it|they|one) do(?:es)? so\b[^;=]*$")
_SQUARE_REMARK = regex(r" \[[a-z]{2,}[^\[\]]*\]$")
# "当 x = 2 时，最小值是 3": a condition before the value
_WHEN = regex(
    r"(?:当|而?当且仅当)[^，,。当]{1,40}?(?:时|的时候)\s*[，,](?=.*[\d\ue000-\uf8ff])"
    r"|(?<=[\d\ue000-\uf8ff])\s*[，,]\s*当(?:且仅当)?[^，,。当]{1,40}?(?:时|的时候)(?:取得?到?|等号成立|成立)?$"
)
# "5/(x − 2) for x ≠ −2": where it is defined
_DEFINED = regex(
    r"(?<=[\w)²³]),? (?:for|where|when|with|as long as|provided(?: that)?) [a-z] ?≠ ?[-−±]?[\d.]+"
    r"(?:(?:,| and| or) (?:[a-z] ?≠ ?)?[-−]?[\d.]+)*$"
)
# "33, assuming I've read the problem correctly"
_IF_READ = regex(
    r",? (?:assuming|provided|if) (?:that )?I(?:['’]ve| have|['’]m| am)? (?:[a-z]+ ){0,2}(?:read|understood"
    r"|understand\w*|interpret\w*|remember\w*|not mistaken)\b[^=;]*$"
)
_OPERATORS = tuple("=+−*/·×÷^≈")
# A value that an approximation repeats: √2, π/3.
_EXACT = regex(r"[√π/\ue000-\uf8ff]")
# "42, not 24", "30 instead of 16"
_CONTRAST = regex(
    r"(?:,?\s+(?:instead of(?! (?:that|this|it)\b)|rather than|as opposed to|in contrast to|and not"
    r"|but not|und nicht|(?:an)?statt|et non|et pas|au lieu de|plutôt que|en (?:lugar|vez) de|invece di|вместо|а не)"
    r"|(?:,\s*|\s[(])(?:not|nicht|y no|et non|non|а не))\s(?:(?!;|:\s[a-z]\s?="
    r"|,?\s(?:so|hence|thus|therefore|also|donc|daher)\b|,\s(?:it|that|this|there|the [a-z]+)(?:['’]s| is| are)\b).)*"
    r"|，?而不是.*|,? (?:and|but) please (?:ignore|disregard|note|see|check|let|tell|feel|accept)\b.*$",
    re.IGNORECASE,
)
# "so it is 14, and 15 is ruled out"
_EXCLUDED = regex(
    r"(?:,? (?:and|but|while)|;) (\S+) (?:is|are) (?:ruled out|excluded|impossible|too (?:large|small|big|many|few))$"
)
# "there are two roots if and only if k < −2 or k > 6"
_EXACTLY_IF = regex(
    r".*\b(?:if and only if|exactly (?:if|when)|precisely (?:if|when))\s+(?=[^=]*[<>≤≥≠\ue000-\uf8ff])", re.IGNORECASE
)
# "So instead of 16, the count is 30"
_CONTRAST_OPENS = regex(
    r"(^\W*(?:so|thus|hence|therefore)?,? ?|[;:] )(?:instead of|rather than|statt|anstatt|au lieu de)\s"
    r"(?:[^,;.]*,\s|[^,;.]{1,30}?\s(?=(?:it|this|that|we|they|the [a-z]+) (?:is|must|are|should|has|have)\b))",
    re.IGNORECASE,
)
# "it is not 24 but 42"
_BUT = regex(
    r"(?:\b(?:is|are|was)(?:n['’]t| not)\b|\bnot\b)[^.]*?(?:,\s*|\s)but\s+(?:rather\s+|instead\s+|actually\s+)?",
    re.IGNORECASE,
)
# "it is 42 not 24"
_NOT_SO = regex(r"(?<=[\d)%\ue000-\uf8ff])\s+not(?= [\d\ue000-\uf8ff−+-])\s.*")


def without_remarks(clause: str) -> str:
    """A clause without what it denies, and without what it says behind its value of that, or of something else.

    >>> without_remarks("the area is 6, twice that of the other, not 8"), without_remarks("it is 9√3, about 15.6")
    ('the area is 6, twice that of the other', 'it is 9√3')
    """
    clause = _WHEN.sub("", clause) if "当" in clause else clause
    clause = _ALSO.sub(r", or \1", clause)
    defined = () if _ALL.search(clause) else (_DEFINED,)
    for remark in (*defined, _DO_MAKE, _DOES_SO, _SQUARE_REMARK, _IF_READ, _OR_SO, _SAME_AGAIN):
        clause = remark.sub("", clause)
    if (repeated := _REPEATED.search(clause)) and _EXACT.search(clause[: repeated.start()].rpartition("=")[2]):
        clause = clause[: repeated.start()]
    if excluded := _EXCLUDED.search(clause):  # a value that is taken back leaves none
        before = clause[: excluded.start()]
        clause = "" if excluded[1] in before.replace(",", " ").split() else before
    clause = clause[match.end() :] if (match := _EXACTLY_IF.match(clause)) else clause
    clause = _CONTRAST_OPENS.sub(r"\1", _IN_OTHER_UNIT.sub(r"\1", clause))
    clause = _ATTAINED.sub("", _CHECKED.sub("", clause))
    clause = _EQUALITY_ASIDE.sub("", _PARENTHESIS.sub(_without_remark, clause))
    clause = _PLAIN_REMARK.sub("", _COMPARED.sub("", clause))
    clause = clause[match.end() :] if (match := _BUT.search(clause)) else clause
    return _NOT_SO.sub("", _CONTRAST.sub("", clause)).strip()


def has_contrast(text: str) -> bool:
    """Whether the text says what the value is not: "42, not 24"."""
    return _CONTRAST.search(text) is not None


def _without_remark(match: re.Match[str]) -> str:
    """Nothing in the place of a remark in parentheses; mathematics in them stays."""
    words = set(re.findall(r"[A-Za-z\u0400-\u04ff]{3,}", match[0])) - KNOWN_NAMES
    if match.string[: match.start()].rstrip()[-1:] in _OPERATORS:
        return match[0]  # "V = (3.0 atm)(2.0 L)/(1.0 atm)"
    words |= {"as"} if re.match(r"\s\((?:as|see|cf|so|since)\b", match[0]) else set()
    return " " if words and match[0][:1].isspace() else match[0]
