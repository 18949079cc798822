"""Completion to answer: a whole response comes in; the text of its final answer goes out."""

from stapo_bench.grading.extraction.extraction import extract_answer
