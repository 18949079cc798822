"""Text to tree: the text of an answer comes in; plain LaTeX, or a tree, goes out."""

from stapo_bench.grading.read.answer_parser import BASE_NAMES, parse
from stapo_bench.grading.read.characters import CYRILLIC_UNITS, in_ascii
from stapo_bench.grading.read.cleaning import clean
from stapo_bench.grading.read.conditions import DOMAIN_WORDS, RESTRICTIONS
from stapo_bench.grading.read.lexer import KNOWN_NAMES
from stapo_bench.grading.read.numerals import NUMERAL, in_digits
from stapo_bench.grading.read.region_words import last_region, region_in_words
