"""Completion to answer: a whole response comes in; the text of its final answer goes out."""

from stapo_bench.grading.extraction.beside_asked import counted
from stapo_bench.grading.extraction.boxes import has_labels
from stapo_bench.grading.extraction.concluding import all_values, conclusion, each_value, region_said
from stapo_bench.grading.extraction.extraction import extract_answer
from stapo_bench.grading.extraction.for_question import until_answered
from stapo_bench.grading.extraction.languages import answer_phrases, declines, without_groups
from stapo_bench.grading.extraction.lists import last_items
from stapo_bench.grading.extraction.named import in_order_of, named_values
from stapo_bench.grading.extraction.named_parts import in_boxes, values_under
from stapo_bench.grading.extraction.names_of_parts import part_names
from stapo_bench.grading.extraction.readings import boxes_for, prose_of, stated_parts, value_without_words
from stapo_bench.grading.extraction.turns import until_end_token, until_similar_question
