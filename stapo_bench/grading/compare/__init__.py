"""Trees to verdict: whether a response's answer is the gold's, by the kinds of the two."""

from stapo_bench.grading.compare.chains import Contradiction
from stapo_bench.grading.compare.compare import same
from stapo_bench.grading.compare.measure import Rules
from stapo_bench.grading.compare.regions import reads_as_region
