r"""The ``math-verify`` grader: Hugging Face's package of that name, under which many results are published.

The gold goes in between dollar signs, and boxes are looked for before other formulas, which is where the package does
best. Its alarms work in the main thread alone and are turned off: the grading process's own limit ends what hangs.
https://github.com/huggingface/Math-Verify
"""

import logging
from importlib.metadata import PackageNotFoundError, version

from stapo_bench.records import Gold, Grade, Outcome

try:
    GRADER_VERSION = f"math-verify-{version('math-verify')}"
except PackageNotFoundError:  # whoever asks for it is told what to install
    GRADER_VERSION = "math-verify"


def grade_answer(completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
    r"""The package's verdict; the gold's type, unit and tolerance play no part.

    >>> grade_answer(r"so \boxed{0.5}.", r"\frac{1}{2}").outcome.value
    'CORRECT'
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it logs every expression that it cannot read
    gold = answer.answer if isinstance(answer, Gold) else answer
    box_first = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    found = parse(completion, extraction_config=box_first, parsing_timeout=None)
    if not found:
        return Grade(outcome=Outcome.NO_ANSWER, extracted=None, detail="nothing to parse", grader=GRADER_VERSION)
    right = verify(parse(f"${gold}$", parsing_timeout=None), found, timeout_seconds=None)
    extracted = next((part for part in found if isinstance(part, str)), None)
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=extracted, detail="its own rule", grader=GRADER_VERSION)
