"""Where a completion ends that goes on: end tokens, the next turn, a question that the model invents, a loop.

What follows answers something else. A new question ends the completion only where an answer stands before it, so a
question restated at the beginning ends nothing.
"""

import re
from collections.abc import Callable

from stapo_bench.grading.patterns import regex

MAX_LOOP = 4_000  # characters from the end in which the copies of a loop are looked for
MAX_PERIOD = 5  # sentences that a loop repeats
MAX_TURNS = 8  # beginnings of a next turn that are looked at
_GIVEN = regex(r"\banswer\b|\\boxed|^#### ", re.IGNORECASE)  # the line that gives an answer
# A copy of a loop that gives a result, "So the sum is 12", and one that goes on thinking, "Wait, let me check".
_COPY_CONCLUDES = regex(
    r"\b[Hh]ope (?:this|that|it)\b|(?:^|[.!?] )(?:So|Thus|Hence|Therefore)\b[^.?]* (?:is|are|=) [^.?]*\d"
)
_THINKS = regex(r"\?|\b(?:wait|hmm|check\w*|maybe|perhaps|let me|let us|let['’]s|need to)\b", re.IGNORECASE)
_ASSISTANT = regex(
    r"\s*(?:<\|im_start\|>\s*assistant|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>|<start_of_turn>\s*model"
    r"|<\|assistant\|>|\[?(?:[Aa]ssistant|ASSISTANT|AI)\]?\s*:|###\s*(?:Response|Assistant)\s*:?)\s*"
)
_FINAL_CHANNEL = regex(r"<\|channel\|>final\s*(?:<\|constrain\|>\w+)?<\|message\|>")
_END = regex(
    r"<\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end|im_sep|end_of_turn|user|User|start_header_id)\|>|</s>|<eos>"
    r"|<end_of_turn>|<\uff5cend\u2581of\u2581sentence\uff5c>|<\uff5cUser\uff5c>|<\|im_start\|>\s*(?:user|human|system)"
    r"|<start_of_turn>\s*user|\[/?INST\]"
)
_ASKS = (
    r"(?=[^\n]{0,300}\?|[^\n]{0,120}?\n?\s*(?:What|How|Find|Solve|Compute|Calculate|Evaluate|Determine|Simplify|Prove"
    r"|Which|Let|If|Given|Reduce|Round|List|Name|Express|Factor|Expand|Write|Convert|Differentiate|Integrate|Show"
    r"|Suppose|Who|When|Where"
    r"|Is|Are|Does|Do|Can|A|An|The)\b)"
)
_NEXT = regex(
    rf"""^[ \t>\#*_]*(?=[\w\[])(?:
      \[?(?:User|Human|Student|Customer)\]?\s*[*_]*:
    | \[(?:User|Human|Student|Customer)\]
    | (?:Instruction|Input)s?\s*[*_]*:
    | (?:Q|Question|Problem|Exercise|Example|Task|Prompt)\s*(?:\d+[a-z]?)?\s*[*_]*[.:)]{_ASKS}
    | \d+(?:\.\d+)+\.?\s*[*_]*(?:Exercise|Problem|Example)\b
    | (?:Question|Problem|Exercise|Example|Task)\s+\d+(?:\.\d+)*[a-z]?\s*[*_]*$
    | (?:Now\s+)?(?:consider|try|here(?:['’]s|\s+is)|let's\s+(?:try|consider|look\s+at))\s+(?:a|an|another|the)\s+
      (?:(?:follow-?up|new|next|similar|related|different|second)\s+)?(?:question|problem|exercise|example)\b
    | (?:Now,?\s+)?(?:for\s+)?(?:(?:the|a|an)\s+)?(?:next|another|follow-?up|similar|new)\s+
      (?:question|problem|exercise|task)\b
    | (?:Bonus|Homework|Practice|Follow-?up)(?:\s+(?:question|problem|exercise)s?)?\s*:?[*_]*$
    | (?:you|people|students|readers)\s+(?:(?:might|may|could|often|will)\s+)?also\s+ask\b
    | now\s+(?:you\s+try|try\s+(?:it|this|these|one)\b) | (?:now\s+)?(?:it['’]s\s+)?your\s+turn\b
    | (?:\u95ee\u9898|\u9898\u76ee|\u95ee|\u554f\u984c|Frage|Aufgabe|Pregunta|Domanda|Exercice|Ejercicio|Esercizio
      |Exerc\u00edcio|Pergunta|Opgave|Vraag|Zadanie|Pytanie|Soal|Soru|B\u00e0i|C\u00e2u
      |\u0423\u043f\u0440\u0430\u0436\u043d\u0435\u043d\u0438\u0435|\u0417\u0430\u0434\u0430\u043d\u0438\u0435
      |\u0412\u043e\u043f\u0440\u043e\u0441|\u0417\u0430\u0434\u0430\u0447\u0430)
      \s*(?:\d+\s*[:.)\uff1a]|[:\uff1a])
    )""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_GLUED = regex(r"(?<=[^\s#])###(?= ?(?:Instruction|Input|Question|Problem|User|Human)\b)", re.IGNORECASE)
_ASKED = regex(
    r"\n[ \t]*\n(?:[#*_-]{3,}[ \t]*\n\s*)?[ \t*]*(?:What (?:is|are|was|will|does|do)"
    r"|How (?:many|much|long|far|old)|Which|Who|Find|Compute|Evaluate|Solve|Calculate|If)\b"
    r"[^\n?]{8,300}(?:[?.][ \t]*\n|(\?[ \t]+(?:[-−$]?\d[^\n]{0,40}|[^\n?]{0,200}\banswer is [^\n]{1,40})(?:\n|\Z)))"
)
# "#### 42"
_HASHES = regex(r"^####[ \t]*[-−$]?\d[^\n]*$", re.MULTILINE)
# "so he has 12 left", before the next question
_SO_VALUE = regex(r"\b(?:so|hence|thus|therefore)\b[^.\n]*\d", re.IGNORECASE)
# "It doubles, so 32. Question: What is ...? Answer: 27"
_INLINE = regex(
    r"(?<=[.!?])[ \t]+(?:Question|Problem|Exercise|Q)(?: \d+)?: (?=[^\n]{8,300}[.?] (?:Answer|Solution|A): )"
)
_NUMBERED = regex(  # "5. How many moles of HCl are needed?"
    r"\n[ \t]*\n\d+[.)] (?:What|How|Which|Who|Find|Compute|Evaluate|Solve|Calculate)\b[^\n]{8,300}\?[ \t]*\n"
)
_BARE = regex(
    r"([^\n]{1,60})\n[ \t]*\n(?:[^\n]{3,200}\?(?:\s|$)|#{2,3} [A-Z]|(?:Explanation|Reasoning|Because|Solution:"
    r"|Working:)"
    r"|(?:Find|Compute|Evaluate|Solve|Calculate|Simplify|Determine)\b[^\n]{3,200}\n"
    r"|[*# ]*(?:Q|Question|Problem|Exercise|Example|Task)\b)"
)
_VALUE = regex(r"(?:is|are|answer)?[^a-zA-Z]*[a-zA-Z]?[^a-zA-Z]*", re.IGNORECASE)
_HEADED = regex(r"\s*(?:Q|Question|Problem|Exercise|Task)\b", re.IGNORECASE)
_SETS_OUT = regex(
    r"\b(?:we (?:need|want|have to|are (?:given|asked))|let|suppose|restat\w+|asks?|asked|given|goal|task"
    r"|example)\b[^.\n]*$",
    re.IGNORECASE,
)

_LOOKS = regex(
    r"\W*(?:(?:so|now|next|then),? )?(?:we|i) (?:need|want|have|must|should|will|can)(?: to)? \w*check\b", re.IGNORECASE
)
_ASKING = regex(
    r"\n[ \t#*_>\d.)-]*(?:(?:Next|Now|Then|And)[:,]?\s+)?((What|How|Find|Solve|Compute|Calculate|Evaluate|Determine"
    r"|Simplify|Factor|Expand|Write|Convert|Differentiate"
    r"|Integrate|Express|Which|Who|When|Round|Add|Is|Are|Does|In)\b[^\n]{6,300})"
)
_IMPERATIVE = regex(r"(?!(?:What|How|Which|Who|When|Is|Are|Does|In)\b)")
_ANSWERED = regex(r"\?\W*\w")
_WORD = regex(r"[A-Za-z]+|\d+")

_NUMBER = regex(r"\d+(?:\.\d+)?")
_LINE = regex(r"\n([ \t]*\n)?[ \t*_>]*([A-Z][^\n]{8,300})")  # behind a blank line, or not
_ORDERS = regex(
    r"(?:^|[.,] )(?:Find|Solve|Compute|Calculate|Evaluate|Determine|Simplify|Factor|Expand|Convert|Express)\b"
)
_OPENING = regex(r"(?<!\\)\b[^\W\d_]+")

_SENTENCE = regex(r"(?<=[.!?])(?:\s+|(?=[A-Z]))|\n")
_SENTENCE_END = regex(r"([.!?])(?<!\d!)(?:\s+|(?=[A-Z]))")


def without_loop(text: str) -> str:
    """The text without its last line or sentence where that is a cut-off copy of one that stands twice before it."""
    end = text.rstrip()
    tail = end[-MAX_LOOP:]
    if tail.count(_last_words(tail)) < 3:
        return text
    for lines in (tail, _SENTENCE_END.sub(lambda stop: f"{stop[1]}\n", tail)):
        pieces = [piece for piece in lines.split("\n") if piece.strip()]
        if len(pieces) < 3:
            continue
        last = pieces[-1].strip()
        for period in range(1, min(MAX_PERIOD, (len(pieces) - 1) // 2) + 1):
            whole, before = pieces[-1 - period].strip(), pieces[-1 - 2 * period].strip()
            if whole == last or not whole.startswith(last) or not before.endswith(whole):
                continue
            # What loops over several sentences is thought that found no end, unless it gives the answer.
            if period == 1 and _LOOKS.match(whole):
                return ""
            copy = " ".join(pieces[-1 - period : -1])
            if period == 1 or _GIVEN.search(copy) or (_COPY_CONCLUDES.search(copy) and not _THINKS.search(copy)):
                return end[: len(end) - len(last)]
    return text


def _last_words(text: str) -> str:
    """What stands behind the last stop or line end but those at the very end: no line or sentence begins within it."""
    bare = text.rstrip(".!?")
    return text[max(bare.rfind(sign) for sign in ".!?\n") + 1 :].strip()


def until_end_token(text: str) -> str:
    """The text of the first turn: up to the first token that ends a turn, without the mark of the assistant before it.

    >>> until_end_token("<|im_start|>assistant\\n12<|im_end|>\\n<|im_start|>user\\nAnd 4*5?")
    '12'
    """
    if final := _FINAL_CHANNEL.search(text) if "<|channel|>" in text else None:
        text = text[final.end() :]
    if opening := _ASSISTANT.match(text):
        text = text[opening.end() :]
    for match in _END.finditer(text) if "<" in text or "INST]" in text else ():
        if text[: match.start()].strip():
            return text[: match.start()]
    return text


def until_similar_question(text: str, question: str, gives_answer: Callable[[str], bool]) -> str:
    """The text up to the first line behind an answer that is like the question's last sentence, by half its words.

    A question that is answered in its own line is a step: it ends nothing.

    >>> until_similar_question("2\\nEvaluate 11 mod 4.\\n3", "Evaluate 10 mod 4.", lambda part: True)
    '2'
    >>> until_similar_question("He has 3.\\nHow many more? 4.\\nSo 7.", "How many more are there?", lambda part: True)
    'He has 3.\\nHow many more? 4.\\nSo 7.'
    """
    asked = {word.lower() for word in _WORD.findall(_SENTENCE.split(question.strip())[-1])}
    for count, match in enumerate(_ASKING.finditer(text)):
        if not ("?" in match[1] or _IMPERATIVE.match(match[1])) or match[1].rstrip(" *").endswith(":"):
            continue  # "In total, ..." and the heading of a step ask nothing
        words = {word.lower() for word in _WORD.findall(match[1])}
        alike = match[2].lower() in asked and 2 * len(words & asked) >= len(words) and not _ANSWERED.search(match[1])
        if count < MAX_TURNS and alike and gives_answer(text[: match.start()]):
            return text[: match.start()]
    return _until_new_numbers(text, question, gives_answer)


def _until_new_numbers(text: str, question: str, gives_answer: Callable[[str], bool]) -> str:
    """The text up to the first line behind an answer that opens like the question and asks about a new number.

    >>> _until_new_numbers("It is 5.\\n\\nTom has 7 figs. How many?", "Tom has figs: 4 + 1. How many?", bool)
    'It is 5.'
    >>> _until_new_numbers("It is 5.\\nTom has 7 figs.", "Tom has figs: 4 + 1. How many?", bool)
    'It is 5.\\nTom has 7 figs.'
    """
    opening, known = _OPENING.findall(question)[:3], set(_NUMBER.findall(question))
    for match in _LINE.finditer(text) if opening and "\n" in text else ():
        gap, line = match.groups()
        asks, mark, behind = line.rpartition("?")
        asks = asks if mark else line
        if _OPENING.findall(line)[:3] != opening or not (mark or ("=" not in line and _ORDERS.search(line))):
            continue
        if gap is None and (len(opening) < 3 or (mark and behind.strip())):
            continue  # a step
        before = text[: match.start()]
        if set(_NUMBER.findall(asks)) - known - set(_NUMBER.findall(before)) and gives_answer(before):
            return before
    return text


def until_next_question(  # noqa: PLR0911 - one return for each way to go on
    text: str, gives_answer: Callable[[str], bool]
) -> str:
    """The text up to the first new question or turn that stands behind an answer.

    >>> until_next_question("It is 7.\\n\\nUser: And 24/3?\\nAssistant: 8", lambda part: "7" in part)
    'It is 7.\\n\\n'
    """
    bare = _BARE.match(text.lstrip())
    if bare and not _HEADED.match(text) and _VALUE.fullmatch(bare[1]):
        return bare[1]
    hashes = list(_HASHES.finditer(text)) if "####" in text else []
    if len(hashes) > 1 and "?" in text[hashes[0].end() : hashes[1].start()]:
        return text[: hashes[0].end()]  # the solution of the next question follows
    for match in _ASKED.finditer(text):
        before = text[: match.start()].rstrip()
        last = before[before.rfind("\n") + 1 :]
        concluded = "?" in match[0] and "\\boxed" not in text and _SO_VALUE.search(last)
        if (_GIVEN.search(last) or concluded) and gives_answer(before):
            return before
    asks_again = ": " in text and any(word in text for word in ("Question", "Problem", "Exercise", "Q:"))
    if asks_again and (inline := _INLINE.search(text)) and gives_answer(text[: inline.start()]):
        return text[: inline.start()]
    if "?" in text and (numbered := _NUMBERED.search(text)) and gives_answer(text[: numbered.start()]):
        return text[: numbered.start()]
    text = _GLUED.sub("\n###", text) if "###" in text else text
    for count, match in enumerate(_NEXT.finditer(text)):
        if count >= MAX_TURNS:
            break
        before = text[: match.start()]
        if not before.strip() or (_HEADED.match(match[0].lstrip(" \t>#*_")) and _SETS_OUT.search(before.rstrip())):
            continue
        if gives_answer(before):
            return before
    return text
