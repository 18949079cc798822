"""Text to tree: a completion comes in; its final answer goes out as text, in plain LaTeX, or as a tree."""

from stapo_bench.grading.read.answer_parser import parse
from stapo_bench.grading.read.cleaning import clean
from stapo_bench.grading.read.conditions import DOMAIN_WORDS, RESTRICTIONS
from stapo_bench.grading.read.extraction import extract_answer
