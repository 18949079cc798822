"""Have a model judge what a rule rejected in a run: ``grades/judge-<name>.jsonl``, beside the rule's own file.

    grade_run(Path("results/base-justrl"))
    with open_judge(JudgeOptions(checkpoint=Path("CompassVerifier-3B"))) as judge:
        judge_run(Path("results/base-justrl"), judge)

The rule's verdict stands where it accepted or found no answer. Where the judge itself failed (GRADER_ERROR), the same
command asks it again.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from stapo_bench.engines import Engine, EngineOptions, open_engine
from stapo_bench.errors import UsageError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.grading.judge import GRADER_VERSION, JudgeCase, judge_rejected
from stapo_bench.records import Grade, Outcome, Problem, SampleKey
from stapo_bench.runs import (
    JUDGED,
    Grading,
    append_grades,
    canonical_digest,
    folder_label,
    grades_by,
    load_manifest,
    read_checkpoint,
    read_grades,
    read_problems,
    read_samples,
    split_golds,
)
from stapo_bench.sampling.evaluation import load_tokenizer
from stapo_bench.sampling.generate import engine_failures
from stapo_bench.tasks import without_calls

_BATCH = 512  # samples looked at between two syncs


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Which model is to judge, and how it is run."""

    checkpoint: Path
    """Its Hugging Face folder; with servers only its tokenizer is used. For the engine ``scripted`` a script,
    in which a right answer is the letter A."""
    engine: EngineOptions = field(default_factory=EngineOptions)  # servers imply ``openai``
    max_new_tokens: int = 256  # of a reply; more for a judge that thinks first


@dataclass(frozen=True, kw_only=True)
class Judge:
    """An open judge."""

    name: str
    digest: str  # of its weights and engine: another one's verdicts are not mixed with these
    engine: Engine
    tokenizer: Any | None = None  # None: the engine takes text
    max_new_tokens: int = 256  # of a reply


@contextmanager
def open_judge(options: JudgeOptions) -> Iterator[Judge]:
    """Open a judge for as long as the block lasts."""
    checkpoint, engine = options.checkpoint, options.engine
    if str(checkpoint).startswith(("http:", "https:")):
        raise UsageError("--judge: expected the judge's folder, got a server's address; give that as --judge-base-url")
    if engine.base_urls:
        engine = replace(engine, name="openai")
    content = read_checkpoint(checkpoint)
    tokenizer = load_tokenizer(content)
    opened = open_engine(replace(engine, golds=_AlwaysA()), checkpoint)
    try:
        yield Judge(
            name=re.sub(r"[^\w.-]+", "-", folder_label(checkpoint)),
            digest=canonical_digest([content.digest, opened.identity()]),
            engine=opened,
            tokenizer=tokenizer,
            max_new_tokens=options.max_new_tokens,
        )
    finally:
        opened.close()


class _AlwaysA(dict[tuple[str, str], str]):
    """The scripted engine's gold for every problem: the letter that means "correct"."""

    def __missing__(self, key: tuple[str, str]) -> str:
        return "A"


def judge_file(judge: str, rule: str) -> str:
    """The grade file's name; the default rule is not named.

    >>> judge_file("m", "math"), judge_file("m", "math+corrected"), judge_file("m", "strict")
    ('judge-m', 'judge-m+corrected', 'judge-m+strict')
    """
    return "+".join([JUDGED + judge, *(part for part in rule.split("+") if part != DEFAULT_GRADER)])


def judge_run(
    run_dir: Path,
    judge: Judge,
    rule: str = DEFAULT_GRADER,
    *,
    data_dir: Path | None = None,
) -> Grading:
    """Judge what a rule rejected and this judge has given no verdict on.

    Args:
        run_dir: a run folder; writers may be at work in it.
        judge: from ``open_judge``.
        rule: a grader that graded the run, named as for ``grade_run``; what it has not graded is left for later.
        data_dir: where questions and golds are.
    """
    manifest = load_manifest(run_dir)
    rule_grades = read_grades(run_dir, rule)
    name = judge_file(judge.name, rule)
    version = f"{GRADER_VERSION}:{judge.name}@{judge.digest[:12]} on {rule_grades.grader}"
    judged = grades_by(run_dir, name, version)
    known = {key for key, (outcome, _) in judged.items() if outcome is not Outcome.GRADER_ERROR}
    problems: dict[tuple[str, str], Problem] = {}
    num_graded = 0
    samples = read_samples(run_dir, manifest.stamps)
    unjudged = (s for s in samples if s.key not in known and s.key in rule_grades.outcomes)
    waiting = watched(unjudged, f"judging by {judge.name}", "samples")
    while batch := list(islice(waiting, _BATCH)):
        problems = problems or {
            (p.task, p.problem_id): p for p in read_problems(manifest, data_dir, split_golds(rule)[1])
        }
        cases = [
            JudgeCase(
                key=sample.key,
                problem=problems[sample.task, sample.problem_id],
                completion=without_calls(sample.completion, sample.tool_outputs),
                grade=_rule_grade(rule_grades.outcomes[sample.key], rule_grades.grader),
            )
            for sample in batch
        ]
        append_grades(run_dir, name, version, _judged(judge, cases))
        num_graded += len(batch)
    if not num_graded and not judged:  # nothing to judge: a file that says so
        append_grades(run_dir, name, version, ())
    return Grading(grader=version, num_graded=num_graded, num_kept=len(known))


def _rule_grade(found: tuple[Outcome, str | None], grader: str) -> Grade:
    outcome, extracted = found
    return Grade(outcome=outcome, extracted=extracted, grader=grader)


def _judged(judge: Judge, cases: Sequence[JudgeCase]) -> list[tuple[SampleKey, Grade]]:
    with engine_failures():
        grades = judge_rejected(
            cases,
            judge.engine,
            judge_name=judge.name,
            tokenizer=judge.tokenizer,
            max_new_tokens=judge.max_new_tokens,
        )
    return [(case.key, grade) for case, grade in zip(cases, grades, strict=True)]
