"""The registry: every grader by name, ours and those of other installed packages. Naming one imports nothing.

A grader is a module with ``grade_answer(completion, answer, answer_type=None) -> Grade`` and ``GRADER_VERSION``. It may
offer more, which ``stapo_bench.grading.pool`` then uses:

* ``quick_grade(completion, gold) -> Grade | None``: the verdict where it is cheap and cannot hang, else None;
* ``grade_extracted(extracted, gold) -> Grade`` beside ``extract_answer(completion)``: then every answer is graded once
  per gold, however many completions give it.

A grader of ours is a module in ``stapo_bench.grading.graders`` and an entry of ``GRADERS`` here. Another package offers
one by an entry point, in its ``pyproject.toml``:

    [project.entry-points."stapo_bench.graders"]
    theirs = "their_package.their_grader"

A name of ours cannot be taken. The model judge (``stapo_bench.grading.judge``) is not here: it needs the question and
an engine.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import cast

from stapo_bench.errors import StapoError, UsageError, did_you_mean, missing_package
from stapo_bench.plugins import load_offered, offered
from stapo_bench.records import DEFAULT_GRADER, Gold, Grade

GROUP = "stapo_bench.graders"


@dataclass(frozen=True, kw_only=True)
class Grader:
    """A grader's name and where its code lies."""

    name: str
    summary: str
    module: str
    preload: tuple[str, ...] = ()  # heavy modules that a worker imports before its clock starts

    def load(self) -> ModuleType:
        """The grader's module.

        Raises:
            StapoError: it cannot be imported, or lacks what every grader has.
        """
        module = cast(ModuleType, load_offered(f"grader {self.name}", self.module))
        for needed in ("GRADER_VERSION", "grade_answer"):
            if not hasattr(module, needed):
                raise StapoError(
                    f"grader {self.name}: expected {needed} in {self.module}, got none; repair its package"
                )
        return module

    def check_installed(self) -> None:
        """Refuse to grade where a package of an extra that it needs is missing, with the extra's name."""
        for name in self.preload:
            if (missing := missing_package(name)) is not None and find_spec(name) is None:
                raise StapoError(f"grader {self.name}: {missing}")

    @property
    def version(self) -> str:
        """Name and version, as in every grade (``Grade.grader``)."""
        return cast(str, self.load().GRADER_VERSION)

    def grade(self, completion: str, answer: str | Gold, answer_type: str | None = None) -> Grade:
        """Grade in this process, without the pool's protection against hangs and crashes."""
        function = cast(Callable[[str, str | Gold, str | None], Grade], self.load().grade_answer)
        return function(completion, answer, answer_type)


GRADERS = {
    grader.name: grader
    for grader in (
        Grader(
            name=DEFAULT_GRADER,
            summary="the default: mathematical equality by answer type",
            module="stapo_bench.grading.graders.mathematics",
            preload=("mpmath",),
        ),
        Grader(
            name="strict",
            summary="the training reward: last box in the final 100 characters, exact string equality (DAPO, verl)",
            module="stapo_bench.grading.graders.strict",
        ),
        Grader(
            name="qwen",
            summary="a second opinion: text, numbers within 1e-4 and any factor of 100, sympy (Qwen2.5-Math)",
            module="stapo_bench.grading.graders.qwen",
            preload=("sympy", "latex2sympy2_extended"),
        ),
        Grader(
            name="math-sympy",
            summary="math, and sympy's proof where it could not read an integral or a sum",
            module="stapo_bench.grading.graders.proved",
            preload=("mpmath", "sympy", "latex2sympy2_extended"),
        ),
        Grader(
            name="math-verify",
            summary="Hugging Face's package of that name, boxes first",
            module="stapo_bench.grading.graders.math_verify",
            preload=("math_verify",),
        ),
        Grader(
            name="inspect",
            summary="inspect_ai's scorer math()",
            module="stapo_bench.grading.graders.inspect_math",
            preload=("inspect_ai", "latex2sympy2_extended"),
        ),
        Grader(
            name="minerva",
            summary="Minerva's normalised text, then sympy (lm-eval's minerva_math)",
            module="stapo_bench.grading.graders.minerva",
            preload=("sympy", "latex2sympy2_extended"),
        ),
        Grader(
            name="prm800k",
            summary="text, tuples, whole numbers, then sympy (PRM800K, MathRuler)",
            module="stapo_bench.grading.graders.prm800k",
            preload=("sympy", "latex2sympy2_extended"),
        ),
        Grader(
            name="hendrycks",
            summary="normalised text alone (MATH)",
            module="stapo_bench.grading.graders.hendrycks",
        ),
    )
}


def all_graders() -> Mapping[str, Grader]:
    """The graders of ours, then those of other packages, by name."""
    theirs = offered(GROUP, GRADERS)
    return GRADERS | {name: Grader(name=name, summary=f"by {place}", module=place) for name, place in theirs.items()}


def get_grader(name: str, others: Iterable[str] = ()) -> Grader:
    """The grader of that name; the error for an unknown one also lists the others, such as grades that came along.

    >>> get_grader("strict").version
    'strict-1'
    >>> get_grader("mth")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    stapo_bench.errors.messages.UsageError: unknown grader 'mth' (graders: math, strict, qwen...); did you mean 'math'?
    """
    known = GRADERS if name in GRADERS else all_graders()
    if name in known:
        return known[name]
    names = list(dict.fromkeys((*known, *others)))
    hint = did_you_mean(name, names)
    raise UsageError(f"unknown grader {name!r} (graders: {', '.join(names)})" + (f"; {hint}" if hint else ""))
