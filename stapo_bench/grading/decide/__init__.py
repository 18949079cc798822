"""Texts to verdict: an extracted answer and a gold come in; which rule settles them, and how, goes out."""

from stapo_bench.grading.decide.as_they_stand import decide_at_sight
from stapo_bench.grading.decide.asked import asked_by, option_said
from stapo_bench.grading.decide.by_trees import may_be_region
from stapo_bench.grading.decide.decision import decide
from stapo_bench.grading.decide.parts import labelled, listed, parts_of
from stapo_bench.grading.decide.verdict import Verdict
from stapo_bench.grading.decide.word_equations import equation_of, words_of
from stapo_bench.grading.decide.word_rules import is_in_words
