r"""Sentences that state nothing: checks, courtesies, notes, and what only says what is looked for."""

import re

from stapo_bench.grading.patterns import regex

_ASIDE = regex(
    r"^[^\w\ue000-\uf8ff]*(?:(?:quick\s|sanity\s|double[ -])?(?:checks?|checking(?! (?:each|all|every|the) [^.]*,)"
    r"|test(?:ing)?|double-check\w*)\b(?! gives)|verif\w+|confidence|i hope|hope\s|let me know|thanks?\b|thank\syou"
    r"|feel free|please(?![^.]*[;:] )|(?:we|i) (?:still |now |also |just )?(?:need|have|want|ought) to (?:check|verify"
    r"|test|see) (?:whether|if|that)\b|as an? (?:\w+[ -]){0,2}(?:check|test)\b|you can(?!['’]t|not)\b|q\.?e\.?d|done\b"
    r"|this (?:completes|matches|agrees|confirms|is (?:the )?(?:correct|final|required))"
    r"|let(?:['’]s| us| me) (?:\w+ )?(?:double[ -]?|re-?)?(?:check|verify|confirm|test)\b"
    r"|(?:we|you|one) can (?:also |easily |now |quickly )?(?:verify|check)\b|to (?:verify|check|confirm"
    r"|double[- ]check)|for (?:comparison|reference|context)"
    r"|both sides(?!.*[,;:] (?:and )?(?:so|hence|thus|therefore),? (?!(?:the|our|this|my) (?:solution|answer|result"
    r"|check|root|value)\b|it (?:checks|works|holds|is (?:verified|right|correct|confirmed))))"
    r"|the (?:left|right)(?:-hand)? side(?!.*[,;:] (?:and )?(?:so|hence|thus|therefore)\b(?! (?:it|this"
    r"|that) (?:holds|works|checks)))|[LR]HS\b"
    r"|then both|before round\w+|(?:substitut\w+|plugging)\b(?!.*(?:\b(?:gives?|yields?|means|makes) [a-z] ?="
    r"|[,;:]\s[a-z]\s?(?:=|(?:equals|is)\b)|:\s[^:]*=|(?:[,;:]|\sand)\s(?:and )?(?:so|hence|thus|therefore|(?:that"
    r"|this|it)(?:['’]s| is))\b"
    r"|,\s(?:the|this|our) (?:\w+ ){1,3}(?:equals|is|works out|comes|becomes|turns out|amounts)\b|\b(?:i|we"
    r"|one) (?:get|obtain|find)s?\b))"
    r"|for (?:instance|example)|e\.g|compare\b(?!.*:)|remark|zum vergleich"
    r"|(?:please )?(?:do not|don['’]t) (?:confuse|mistake|mix)\b|(?:it['’]s|it is|it may be|it might be) tempting\b"
    r"|代入(?:检验|验证|验算)|(?:检验|验证|验算)[:：]"
    r"|للتحقق|للتأكد|vérif|(?:la )?verifica\b|(?:die )?(?:probe|kontrolle)\b"
    r"|(?:la )?comprobación\b|проверка\b"
    r"|(?:the|this) (?:condition|restriction)s?\b[^:]*\b(?:is|are) (?:also |indeed )?(?:satisfied|fulfilled|met)\W*$"
    r"|(?:la )?(?:condición|condition|condizione)\b.*\b(?:se cumple|vérifiée|respectée|soddisfatta)\W*$"
    r"|(?:die )?bedingung\b.*\berfüllt\W*$|условие\b.*\bвыполн\w+\W*$"
    r"|(?:my|the) (?:earlier|previous|first|former|old)\b[^.;]*\b(?:was|is) (?:a mistake|an error|wrong|incorrect)\W*$"
    r"|these are (?:all |exactly |precisely |indeed )?the (?:[a-z]+ ){1,4}(?:requested"
    r"|required|wanted|sought|asked for|in question)\W*$|these (?:[a-z]+ ){0,3}are (?:all |exactly "
    r"|precisely |indeed )?(?:of )?the (?:[a-z]+ )?(?:solutions|answers|roots|values|numbers|integers|points)\W*$"
    r"|(?:solution\W{1,4})?(?:to (?:solve|answer|find|evaluate)\b[^,.:=]*?)?\bwe (?:have to|need to"
    r"|must) (?:first )?(?:substitute|plug|insert)\b(?!.*(?:=|[,;:] (?:so|hence|thus|therefore|which gives)\b))"
    r"|given:|the (?:solution|method|proof|argument|derivation) (?:uses|relies|is based)\b"
    r"|(?:some|many|other) (?:people|students|readers|authors|textbooks)\b(?!.*(?:[:;] |, so\b))"
    r"|everything (?:is|works|checks|fits|matches|agrees)\b"
    r"|(?:yes,? )?i['’]m (?:\w+ )?(?:confident|sure|certain)(?: in| about| of)? (?:that|this|it)\W*$|(?:those"
    r"|these)(?: \w+)? and no (?:others?|more)\b|posted (?:by"
    r"|on|in)\b"
    r"|if you (?:get|are|feel|ever get) stuck\b|for (?:further|more) (?:practi[cs]e|exercises?|examples?"
    r"|problems?),? (?:see|try|do)\b"
    r"|have an? (?:very )?(?:nice|great|good|wonderful|lovely) (?:day|evening|weekend|time|one)\b"
    r"|i['’]d (?:recommend|suggest)\b"
    r"|if you(?:['’]re| are) [^,]*, i['’]d (?:recommend|suggest)\b|if not,? (?:try|let|feel|just)\b|(?:practice "
    r"|exam |bonus |extra )?tips?: (?:try|always|never|remember|practi)\b|practi[cs]e makes\b"
    r"|try (?:it|this|that|the same|doing|solving|another)\b(?!.*\b(?:so"
    r"|hence|therefore)\b)"
    r"|(?:an? )?(?:quick |neat |nice |handy |useful |cool |little |simple ){1,2}(?:trick|fact|shortcut)\b"
    r"|if you (?:have|need|want)|would you|do you|is there|any (?:other )?questions|good luck|happy|great|nice"
    r"|that'?s it|in case|proof|difficulty|tags?\b|source|i (?:think|believe|guess|feel|am"
    r"|don['’]t see)\b[^=\d\ue000-\uf8ff]*$|i['’]m\b(?![^:.]*: )(?! (?:going|sticking|settling) (?:with|on"
    r"|for)\b)(?! (?:(?!not\b)\w+ )?(?:\([^()]*\) )?(?:sure|certain"
    r"|confident|convinced)(?: that)? [^:.]*(?:\b(?:is|are)|\bit['’]s|=) ?[-−$]?[\d\ue000-\uf8ff])"
    r"|that['’]?s? (?:is )?(?:the |my )?(?:final )?answer)",
    re.IGNORECASE,
)
# Advice, courtesies and remarks, unless they conclude: "Tip: always check.", "Good luck!"
_ADVICE = regex(
    r"^[^\w\ue000-\uf8ff]*(?:(?:pro |study |quick |a )?tips?:(?!.*[\d%)] ?=)|(?:a )?(?:word|piece|bit) of advice:"
    r"|in the (?:next|following) (?:lesson|section|chapter|video|exercise),? (?:we|you|i)\b"
    r"|next (?:time|lesson),? (?:we|you|i)\b|it(?:['’]s| is) worth (?:noting|remember"
    r"|memori|mention|check|practi|knowing|trying)|always\b(?=.*\b(?:remember|check|make sure|read|try|write)\b)"
    r"|keep in mind\b|make sure\b|(?:don['’]t|never) forget\b|(?:great|good|nice) question\b"
    r"|(?:best of|good) luck\b|best wishes\b|just (?:say|ask|let)\b|good (?:job|work)\b|well done\b"
    r"|rate (?:this|my|it)\b|you might also (?:like|enjoy|want)\b|cheers\b|it(?:['’]s| is) a common (?:mistake"
    r"|error)\b|keep (?:it up|going(?! for ever)|practi[cs]ing)\b"
    r"|(?:i['’]m )?sorry (?:if|for|about)\b|for (?:further|more) [a-z]+,"
    r"|if you(?:['’][a-z]+)?\b[^,]*, (?:try|i can|feel|please|just)\b|if you (?:do|practi[sc]e|keep|solve|learn|study)"
    r"\b[^,]*, you(?:['’]ll| will)\b(?! (?:have|get|find|see|obtain|need)\b)|if you(?:['’]d"
    r"| would)? (?:liked"
    r"|like|enjoyed|find this|found)\b|there (?:is|are) (?:nothing|no(?:ne)? (?:others?|more|further|else))\b"
    r"|(?:solution|method|approach|alternative|problem|exercise|question|example) \d+\W*$"
    r"|(?:das (?:sind|ist|wären) )?übrigens\b|au passage\b|bon courage\b|bonne (?:continuation|chance|journée)\b"
    r"|n['’]hésite|por cierto\b|per inciso\b|кстати\b"
    r"|顺便|另外注意|ちなみに|참고로|viel (?:erfolg|spaß|glück)\b)",
    re.IGNORECASE,
)
# "It is worth noting the pattern, so the sum is 96."
_ADVICE_CONCLUDES = regex(
    r"[,;—–] ?(?:(?:and )?(?:so|hence|thus|therefore|then)\b|which (?:makes|gives|leaves|is)\b"
    r"|(?:and )?the [a-z]+ (?:is|are)\b|also\b|donc\b)|: (?:the |there |it )?[^:]*\b(?:is|are|so)\b[^:]*\d"
    r"|: it['’]s [^:]*\d"
    r"|: ?-?\d[\d.,/]*\W*$|所以|ответ|[—–] (?:there|the|it(?!['’]s)|so)\b",
    re.IGNORECASE,
)
# An equality of numbers that a word of approval follows: "As 8 × 3 = 24, this works."
_APPROVED = regex(
    r"^(?!\W*(?:so|thus|therefore|hence)\b)(?:(?:[^=≈(]*"
    r"|\([^=≈]*)(?:(?<=[\d)])\s*[=≈][^=≈(]*)*(?<=[\d)])\s*[=≈]\s*[-\d.,/]+"
    r"|[^=≈]*[\ue000-\uf8ff][^=≈\d]*?)[^=≈]{0,20}(?:\b(?:as (?:required"
    r"|expected|desired|needed|claimed|given|stated|it should)|this (?:works|fits)|which (?:matches"
    r"|fits|works|agrees|checks out|is (?:correct|right|true|consistent))|checks out|works|matches|OK)"
    r"|[✓✔✅])[\s.!)]*$"
    r"|^(?!\W*(?:so|thus|therefore|hence)\b)(?!.*, (?:so|hence|thus"
    r"|therefore)\b).*=\s*[-−]?[\d./]+,? as (?:it should(?: be)?"
    r"|expected|required|desired|needed|wanted|we wanted|(?:the )?(?:problem|question|equation|statement)"
    r" (?:says|states|demands|requires|asks))\W*$"
    r"|^[^;:]*, (?:just |exactly |precisely )?as (?:the |[A-Z]\w+['’]s? )?(?:[a-z]+['’]?s? )?(?:formulas?|theorem"
    r"|law|rule"
    r"|condition|problem|question|statement)?s? ?(?:demands?|requires?|predicts?|says?|states?|should"
    r"|promised?)\b[^=\d]*$"
    r"|(?<![.+*/^)−·-] )(?<![\w.])(\d[\d.]*) = \1(?![\d.]*\d)[,;]? (?:so|and|thus|hence) (?:it|this|that|the [a-z]+) "
    r"(?:[a-z]+ )?(?:holds|works|true"
    r"|right|correct|fits|checks|matches|satisfied|verified)\b"
    r"|^(?!\W*(?:so|thus|therefore|hence)\b)(?!.*=)[^;:]*, which (?:agrees|is consistent) with (?:the|this|that"
    r"|our|my) "
    r"[a-z]+ ?(?:program|code|output|count|formula|above|script|computation|calculation|table)?[\s.!]*$",
    re.IGNORECASE,
)
_PARENTHESES_BEHIND = regex(r"(?<=[\w\ue000-\uf8ff])[,.]?\s+\([^()]*\)[\s.!]*$")
_OF_OTHERS = regex(
    r"^(?!.*\bthere (?:is|are) (?:exactly |only |just )?\w+ of them\b).*(?<!each )(?<!all )(?<!both )"
    r"\b(?:of|among) (?:these|them|those)\b"
    r"|^\W*(?:in other words,? |and )?(?:the|all|those) (?:others?|rest|remaining)\b"
    r"|^\W*(?:it|this|that|they|these) (?:is|are|was) (?:attained|reached|achieved|taken|assumed)\b|\bby the way\b"
    r"|\bthat (?:achieve|attain|give|do|reache)s? (?:it|this|that|so)\b"
    r"|^(?!.*\b(?:so|hence|thus|therefore|makes?|gives?|brings?|adds?|gets?|now|then|more)\b)"
    r"\W*(?:an?|another|some(?:one|body)) (?:else|colleague|friend|neighbou?r|classmate|student|worker|competitor|shop"
    r"|rival)\b",
    re.IGNORECASE,
)
# "The others are 3 and 4, so 7."
_IN_TOTAL = regex(r"[,;:] (?:in total|altogether|so|hence|thus|therefore)\b", re.IGNORECASE)
# "Wait, the rest are 12."
_CORRECTS = regex(r"\W*(?:wait|no|actually|but|oops|hold on|hmm|oh)\b", re.IGNORECASE)
_CONCLUDES = regex(
    r"[\s>#*-]*(?:(?:and |but )?(?:so|hence|thus|therefore|consequently|altogether|in total|in conclusion"
    r"|final(?:ly)?)\b"
    r"|\*\*.*\*\*\W*$)"
    r"|.*[,;:] (?:so|hence|thus|therefore)\b",
    re.IGNORECASE,
)
_APPROVAL = regex(
    r"\W*(?:(?:and |so |all |looks? |it |this |that |which )*(?:correct|right|done|great|good|perfect|verified|exactly"
    r"|works?|fits?|fine|matches)|(?:das |es |alles )?(?:passt|stimmt|fertig)(?: (?:so|also|genau))?|geprüft"
    r"|(?:c['’]est |tout est )?vérifié|(?:ça|cela) (?:marche|convient|colle)|(?:está |todo )?(?:comprobado|verificado)"
    r"|se cumple|è verificato|confere|(?:всё |все )?(?:сходится|подходит|готово|проверено))\W*",
    re.IGNORECASE,
)
_CHECK = regex(
    r"[\W_]*(?:quick )?(?:check|checking|verification|proof|sanity check)[\W_]*"
    r"|\W*does (?:it|this|that) (?:fit|work|check(?: out)?|hold)\?.*"
    r"|[#\s]*\*\*(?:step \d+[:.]? )?(?:quick )?(?:check|checking|verification|verify|sanity check)[.:]?\*\*.*",
    re.IGNORECASE,
)
# A remark, which gives the value only where nothing else does.
_NOTE = regex(
    r"^[^\w\ue000-\uf8ff]*(?:note|notice|remember|(?:and )?indeed|alternatively|(?:another|one more) way\b|in percent\b"
    r"|(?:without|if|had|were)\b.*\bwould)\b",
    re.IGNORECASE,
)
# "The balance is the one in the last row."
_POINTS = regex(
    r"[^\d=\ue000-\uf8ff]*\b(?:(?:in|from) the (?:last|final|bottom) (?:row|line|column|cell)"
    r"|(?:the|this) table shows|is the (?:last|final|bottom) (?:entry|row|line|value|number))\b[^\d=\ue000-\uf8ff]*"
)
# "Since 9 is too small and 36 too large."
_REASON_ALONE = regex(
    r"(?:since|because|weil|denn|car|porque|puisque)\b(?!.*(?:,|=|: |\b(?:it|this|that|they|we) (?:is|are|have|get)\b"
    r"| of this\b))",
    re.IGNORECASE,
)
# "The perimeter is 30 (not asked here)."
_NOT_ASKED = regex(r"[(,] ?(?:which (?:is|are|was|were) )?not (?:asked|needed|required|wanted)(?: for| here)?[),]")
_QUESTION = regex(r"(?:Is|Are|Does|Do|Can|Will|How|Why)\b[^.!?:]*[a-z]$")  # that breaks off before its mark
# "Note that 6 divides it, so it is even."
_SO_IT_IS = regex(
    r",\s+(?:and )?(?:so|hence|thus|therefore) (?:it|that|the|there|this|we|[a-z]) ?(?:is|are|=|equals|have)\b"
)
_FIND = (
    r"(?:\w+ly |first |now |just |then )?(?:find|compute|calculate|evaluate|determine|simplify|solve|expand|factor"
    r"|express|know|work out)\b(?! that\b|\s+\d+\s+[a-z])"  # "solve 6 more problems" gives a number
)
_NO_RESULT = (  # no equality behind it, and no value behind a copula
    r"(?:(?!\b(?:is|are|be|equals?|gives?|giving|makes?|making|yields?|gets?)\s+(?:\w+\s+){0,2}[-−$]?[\d\ue000-\uf8ff])"
    r"[^=≈:,;])*$"
)
# A sentence that opens with what is looked for: "We want to simplify ...", "the task asks ...", "we are given ...".
_SETS_OUT = regex(
    r"^\W*(?:(?:so|now|first|next|then|here|step \d+)\b\W*)*(?:(?:we|you|i)(?: (?:still|now|first|just))?"
    rf"(?: (?:want|need|have|wish|are trying|are asked|were asked)|['’]d like| would like) to {_FIND}"
    rf"|let(?:['’]s| us| me) {_FIND}|(?:our|the|my) (?:goal|aim|task|problem|question) (?:is to {_FIND}|asks\b)"
    rf"|(?:we|you) (?:are|were) (?:given\b(?=.*[\ue000-\uf8ff])|asked\b)){_NO_RESULT}",
    re.IGNORECASE,
)
_MATHEMATICS = regex(r"[\ue000-\uf8ff+*/^·×√]|\d\s*[-−–]\s*\d")
# A value not told, or told by others: "the sum is to be found", "it is the quotient of a and b", "... that of 2 + 3".
_BY_OTHERS = regex(
    r"\bis (?:then |thus |therefore )?(?:the (?:quotient|ratio|sum|product|difference) of (?=.* and )"
    rf"|that of (?=.*(?:\d\s*[-−+*/·×^]\s*\d|[\ue000-\uf8ff]))){_NO_RESULT}"
    r"|\b(?:which|that) (?:we|you|one) (?:must|can|may|should|need to|have to|still)[a-z ]{0,12}"
    r" (?:evaluate|compute|calculate|simplify|work out|find|solve|determine)\W*$"
    r"|\b(?:is|are|remains?) to be (?:found|computed|calculated|determined|evaluated)\W*$",
    re.IGNORECASE,
)
# A remark in parentheses behind the last sentence: "n = 17. (The next would be 52.)"; a correction is none.
_LAST_REMARK = regex(
    r"(?:(?<=[.!?。])\s*|(?<=\n)[ \t]*)\("
    r"(?!(?:actually,? (?:it|that|this|the)|correct(?:ion|ed)|wait|sorry|oops|no(?=,))\b)"
    r"(?=[^()]*(?:[A-Za-z]{3}|=))(?:[^()]|\([^()]*\)){5,400}\)[\s.*]*$",
    re.IGNORECASE,
)
# What a correction in parentheses has, and no remark: "(That should be 8.)"
_TAKES_BACK = regex(r"\b(?:mistake|but|should|must|in fact|instead|actually|wrong|error)\b", re.IGNORECASE)
# "So 90! (Some show 72.) Let me know!"
_REMARK_BETWEEN = regex(
    r"(?<=[.!?])\s+\((?=[A-Z][a-z]+ [a-z]+)(?!(?:Actually"
    r"|Correct|Wait|Sorry|Oops|No|So|Hence|Thus|Therefore|The answer)\b)[^()]{5,300}[.!]?\)(?=\s+(?:Let me"
    r"|I hope|Hope|Feel free|Good luck|Happy|Thanks?|Do you|If you|Please)\b)"
)


def states_nothing(sentence: str, notes: bool) -> bool:
    """Whether a sentence asks, checks, sets out or is courteous; ``notes``: whether a remark states something."""
    return (
        sentence.endswith(("?", "？"))
        or _QUESTION.match(sentence) is not None
        or _NOT_ASKED.search(sentence) is not None
        or _POINTS.fullmatch(sentence) is not None
        or (_ADVICE.match(sentence) is not None and _ADVICE_CONCLUDES.search(sentence) is None)
        or _ASIDE.match(sentence) is not None
        or _APPROVAL.fullmatch(sentence) is not None
        or (not notes and _NOTE.match(sentence) is not None and not _SO_IT_IS.search(sentence))
        or (not notes and _REASON_ALONE.match(sentence) is not None)
    )


def is_of_others(sentence: str) -> bool:
    """Whether a sentence speaks of parts of what has been told, or of what is left: a remark behind a conclusion.

    >>> is_of_others("The largest of them is 484."), is_of_others("The other 6 are odd."), is_of_others("It is 7.")
    (True, True, False)
    """
    goes_on = _CORRECTS.match(sentence) or _IN_TOTAL.search(sentence)
    return _OF_OTHERS.search(sentence) is not None and not goes_on


def concludes(sentence: str) -> bool:
    """Whether a sentence says that it concludes: "So ...", "Therefore ...", or all of it in bold."""
    return _CONCLUDES.match(sentence) is not None


def is_check(sentence: str) -> bool:
    """Whether a sentence is an equality with a word of approval behind it; in parentheses it approves these alone."""
    return _APPROVED.search(_PARENTHESES_BEHIND.sub("", sentence)) is not None


def sets_out(clause: str, notes: bool) -> bool:
    """Whether a clause says what is looked for, and no value; ``notes``: in the words of mathematics.

    >>> sets_out("We want to simplify 2 + 3", notes=True), sets_out("It takes 5 s to solve it", notes=False)
    (True, False)
    >>> [sets_out("You have to solve all 6 puzzles", notes) for notes in (False, True)]
    [True, False]
    """
    return _SETS_OUT.search(clause) is not None and (not notes or _MATHEMATICS.search(clause) is not None)


def is_by_others(clause: str) -> bool:
    """Whether a clause tells a value by others, or that it is to be found, and not what it is.

    >>> is_by_others("it is the sum of 2 and 3"), is_by_others("the sum of 2 and 3 is 5")
    (True, False)
    """
    return _BY_OTHERS.search(clause) is not None


def heads_check(line: str) -> bool:
    """Whether a line is a heading over a check."""
    return _CHECK.fullmatch(line) is not None


def without_remarks_in_brackets(text: str) -> str:
    """The text without whole sentences in parentheses before a last courtesy: "So 90! (Some show 72.) Let me know!"."""
    return (
        _REMARK_BETWEEN.sub(lambda remark: remark[0] if _TAKES_BACK.search(remark[0]) else " ", text)
        if ")" in text
        else text
    )


def without_last_remark(text: str) -> str:
    """The text without the parentheses that end it behind its last sentence, or stand before a last courtesy.

    >>> without_last_remark("n = 17. (The next would be 52.)"), without_last_remark("It is f(x).")
    ('n = 17.', 'It is f(x).')
    """
    text = without_remarks_in_brackets(text)
    if not text.rstrip(" .*\n").endswith(")"):
        return text
    return _LAST_REMARK.sub("", text) or text
