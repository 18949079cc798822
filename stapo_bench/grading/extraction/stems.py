"""The words of a text that mean something, by their beginnings: what tells whether two sentences speak of one thing."""

from stapo_bench.grading.patterns import regex

STEM = 4  # letters of a word that are compared: "walk" and "walked"
HAN = regex(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = regex(r"[^\W\d_]+")
_FUNCTION_WORDS_TEXT = """
    how many much what which when where who is are was were the of a an to in for find does do did be and on at it
    that there this with as by from have has had if each per its his her their compute calculate total all he she
    they determine value
"""
# One thing under two words: "How wide is it?", "the width is".
_SAME = {"wide": "widt", "long": "leng", "high": "heig", "tall": "heig", "deep": "dept", "heav": "weig"}
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())


def stems(text: str) -> frozenset[str]:
    """The beginnings of the words of a text that mean something; pairs of characters where no blanks part words.

    >>> sorted(stems("How many miles did they walk?")), sorted(stems("面积是"))
    (['mile', 'walk'], ['积是', '面积'])
    """
    words = [word for word in _WORD.findall(text.lower()) if len(word) > 1 and word not in _FUNCTION_WORDS]
    pairs = {word[place : place + 2] for word in words if HAN.match(word) for place in range(len(word) - 1)}
    return frozenset(pairs | {_SAME.get(word[:STEM], word[:STEM]) for word in words if not HAN.match(word)})
