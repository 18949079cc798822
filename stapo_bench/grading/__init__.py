"""The answer checker: a completion and a gold in, a grade out. See README.md beside this file for what is accepted.

``grade_answer`` grades in this process and never raises; ``grade_many`` and ``GraderPool`` grade in processes that can
be killed, by any grader of the registry. A name is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.grading.adapters import REWARDS, grader_reward, inspect_scorer, lm_eval_results, verifiers_reward
    from stapo_bench.grading.extraction import extract_answer
    from stapo_bench.grading.golds import as_gold
    from stapo_bench.grading.graders.mathematics import (
        ANSWER_TYPES,
        GRADER_VERSION,
        grade_answer,
        grade_extracted,
        quick_grade,
    )
    from stapo_bench.grading.pool import GraderPool, grade_many
    from stapo_bench.grading.process import Limits
    from stapo_bench.grading.registry import GRADERS, Grader, all_graders, get_grader
    from stapo_bench.grading.voting import equal_answers
    from stapo_bench.records import DEFAULT_GRADER
else:
    __getattr__ = lazy_names(__name__, __file__)
