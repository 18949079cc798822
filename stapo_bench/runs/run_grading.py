"""Grade the samples of a run that have no grade yet: ``grades/<grader>.jsonl``, made at any time from the samples.

    grade_run(Path("results/base-justrl"))                      # grades/math.jsonl
    grade_run(Path("results/base-justrl"), "math+corrected")    # against corrected golds: a file of their own

Another version of a grader grades all anew.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from stapo_bench.errors import StapoError, UsageError, watched
from stapo_bench.grading import DEFAULT_GRADER
from stapo_bench.records import Gold, Grade, Outcome, Sample
from stapo_bench.runs.golds import read_golds, split_golds, version_with_golds
from stapo_bench.runs.grades import append_grades, graded_keys, is_reported
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.store import read_samples
from stapo_bench.tasks import without_calls

_BATCH = 512  # pairs handed to the workers at once; each batch is synced before the next


@dataclass(frozen=True, kw_only=True)
class Grading:
    """What ``grade_run`` did."""

    grader: str  # name and version
    num_graded: int  # by this call
    num_kept: int  # graded before


def grade_run(
    run_dir: Path,
    grader: str = DEFAULT_GRADER,
    *,
    data_dir: Path | None = None,
    workers: int | None = None,
) -> Grading:
    """Grade every sample of a run that the grader's present version has not graded.

    Args:
        run_dir: a run folder; writers may be at work in it.
        grader: a name from ``stapo_bench.grading.registry``, with ``+corrected`` for corrected golds.
        data_dir: where the golds are, as in ``load_problems``; not touched when nothing is to be graded.
        workers: grading processes; None: one per CPU.
    """
    from stapo_bench.grading import GraderPool

    manifest = load_manifest(run_dir)
    if is_reported(grader):
        raise UsageError(f"grader {grader}: its verdicts came with the imported files; there is nothing to grade by it")
    rule, which = split_golds(grader)
    with GraderPool(workers, grader=rule) as pool:
        version = version_with_golds(pool.grader.version, which)
        graded = graded_keys(run_dir, grader, version)
        num_kept, num_graded = len(graded), 0
        golds: dict[tuple[str, str], Gold] = {}
        left = (sample for sample in read_samples(run_dir, manifest.stamps) if sample.key not in graded)
        ungraded = watched(left, f"grading by {grader}", "samples")
        while batch := list(islice(ungraded, _BATCH)):
            golds = golds or read_golds(manifest, data_dir, which)
            found = [_gold(golds, sample) for sample in batch]
            read = (without_calls(sample.completion, sample.tool_outputs) for sample in batch)
            pairs = [(text, gold) for text, gold in zip(read, found, strict=True) if gold.answer]
            graded_pairs = iter(pool.grade(pairs))
            grades = [next(graded_pairs) if gold.answer else _no_gold(version) for gold in found]
            append_grades(run_dir, grader, version, zip((s.key for s in batch), grades, strict=True))
            num_graded += len(batch)
        if not num_graded and not num_kept:  # without samples there is a file all the same, of no grades
            append_grades(run_dir, grader, version, ())
    return Grading(grader=version, num_graded=num_graded, num_kept=num_kept)


def _no_gold(version: str) -> Grade:
    """The grade of a sample whose problem was imported without a gold: nobody knows."""
    return Grade(outcome=Outcome.GRADER_ERROR, extracted=None, detail="the problem has no gold", grader=version)


def _gold(golds: dict[tuple[str, str], Gold], sample: Sample) -> Gold:
    gold = golds.get((sample.task, sample.problem_id))
    if gold is None:
        raise StapoError(f"sample of {sample.task}/{sample.problem_id}: the task has no such problem")
    return gold
