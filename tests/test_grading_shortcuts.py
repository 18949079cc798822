"""Where the grader looks for a word before it searches for a pattern, it finds what the search alone would find."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from stapo_bench.grading.decide import asked, parts
from stapo_bench.grading.extraction import markup, turns

MANY = settings(max_examples=400, deadline=None, derandomize=True)
SOME = settings(max_examples=60, deadline=None, derandomize=True)
PROSE = ["It is 5", "So", "5", ".", ". ", "!", "?", " ", "\n", "\n\n", "\t", "\\]", "$", "answer", "It"]
ASKING = ["Question", "Q", " 2", ":", "User", "[User]", "\n", "\n\n", "> ", "_", "*", "# ", "What is 3?"]
ASKING += ["Now try a new", " problem", "问题", "Задача", "ſtudent:", "input:", " ", "5", "."]


def texts(pieces: list[str], most: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=most).map("".join)


def matching(pattern: re.Pattern[str]) -> st.SearchStrategy[str]:
    """Texts in which a pattern is found."""
    return st.from_regex(re.compile(pattern.pattern, pattern.flags))


def loop_by_every_piece(text: str) -> str:
    """``without_loop`` by its words: all lines and all sentences are parted, whatever the text ends with."""
    end = text.rstrip()
    for border in (r"\n", r"(?<=[.!?])(?:\s+|(?=[A-Z]))|\n"):
        pieces = [piece.strip() for piece in re.split(border, end[-turns.MAX_LOOP :]) if piece.strip()]
        for period in range(1, min(turns.MAX_PERIOD, (len(pieces) - 1) // 2) + 1):
            last, whole, before = pieces[-1], pieces[-1 - period], pieces[-1 - 2 * period]
            gives = period == 1 or turns._GIVEN.search(" ".join(pieces[-1 - period : -1]))
            if gives and whole != last and whole.startswith(last) and before.endswith(whole):
                return end.removesuffix(last)
    return text


@MANY
@given(texts(PROSE, 6), st.lists(texts(PROSE, 4), min_size=1, max_size=3), st.integers(0, 20))
def test_a_loop_is_the_one_that_stands_between_all_pieces(start: str, looped: list[str], cut: int) -> None:
    once = "".join(looped)
    text = start + once * 3
    for shown in (start + once, text, text[: max(0, len(text) - cut)], text[: max(0, len(text) - cut)] + "\n\\]"):
        assert turns.without_loop(shown) == loop_by_every_piece(shown)


@MANY
@given(texts(ASKING, 12))
def test_a_question_may_begin_where_a_word_or_a_bracket_does(text: str) -> None:
    every_place = re.compile(turns._NEXT.pattern.replace(r"(?=[\w\[])", ""), turns._NEXT.flags)
    assert every_place.pattern != turns._NEXT.pattern
    assert [match.span() for match in turns._NEXT.finditer(text)] == [m.span() for m in every_place.finditer(text)]


@SOME
@given(matching(turns._END))
def test_every_end_token_ends_a_turn(text: str) -> None:
    assert turns.until_end_token("5" + text) != "5" + text


@SOME
@given(matching(asked._PERCENT), matching(asked._TO_PLACE))
def test_every_way_to_ask_for_a_percentage_or_a_place_is_seen(percentage: str, place: str) -> None:
    assert asked.asked_by(percentage).percent
    assert asked.asked_by(place).to_place and asked.asked_by(place).rounded


@SOME
@given(matching(markup._CITATION), matching(markup._OTHER_BOX))
def test_every_citation_is_gone_and_every_box_is_one(citation: str, box: str) -> None:
    assert markup._CITATION.search(markup.plain_text(citation)) is None
    assert markup._OTHER_BOX.search(markup.plain_text(box)) is None


@MANY
@given(texts(["(a)", "b)", "(", ")", " ", "7", "\\text{", "}", ", ", "$", "Part", "(ii)", "(i)"], 10))
def test_an_answer_with_two_labels_has_two_closing_brackets(text: str) -> None:
    bare = parts._STYLED_LABEL.sub(r" \1 ", text).strip(" $")
    assert len(parts._LABEL.findall(bare)) <= text.count(")")
