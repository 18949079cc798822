"""Which golds a run is graded against. The name of a grade file says it: ``math``, or ``math+corrected``.

    golds = read_golds(load_manifest(run_dir), data_dir, "corrected")

Both files may lie in one run, so both scores can be shown side by side; no file ever holds grades of both kinds.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from stapo_bench.errors import StapoError
from stapo_bench.records import Gold, Problem
from stapo_bench.runs.manifest import Manifest
from stapo_bench.tasks import ContentDigest, Golds, apply_errata, content_digest, errata_version

_CORRECTED = "+corrected"


def with_golds(grader: str, golds: Golds) -> str:
    """The grade file's name.

    >>> with_golds("math", "published"), with_golds("math", "corrected"), with_golds("math+corrected", "corrected")
    ('math', 'math+corrected', 'math+corrected')
    """
    return grader if golds == "published" or grader.endswith(_CORRECTED) else grader + _CORRECTED


def split_golds(name: str) -> tuple[str, Golds]:
    """The inverse of ``with_golds``: the rule and the golds behind a grade file's name.

    >>> split_golds("math"), split_golds("math+corrected")
    (('math', 'published'), ('math', 'corrected'))
    """
    rule = name.removesuffix(_CORRECTED)
    return rule, "published" if rule == name else "corrected"


def version_with_golds(version: str, golds: Golds) -> str:
    """What a grade file's first line states: the grader's version, and that of the errata where they were applied."""
    return version if golds == "published" else f"{version}+errata-{errata_version()}"


def data_digest(problems: Iterable[Problem]) -> str:
    """The content digest of a task's problems, as task files record it."""
    return content_digest(ContentDigest.of(p.question, p.gold.answer) for p in problems)


def read_problems(manifest: Manifest, data_dir: Path | None, golds: Golds = "published") -> Iterator[Problem]:
    """The problems of the run's tasks, from the very data that the run was made with.

    Raises:
        StapoError: no data, or data of another content.
    """
    from stapo_bench.tasks import load_problems, load_task

    for name, file in manifest.task_files.items():
        problems = load_problems(load_task(file), data_dir)
        if (found := data_digest(problems)) != (expected := manifest.identity.tasks[name].data):
            raise StapoError(
                f"{manifest.run_dir}: expected task {name} with content {expected[:12]}, got {found[:12]}; "
                "grade with the task files and data that the run was made with"
            )
        yield from apply_errata(problems, golds)


def read_golds(manifest: Manifest, data_dir: Path | None, golds: Golds = "published") -> dict[tuple[str, str], Gold]:
    """The run's golds by (task, problem_id)."""
    return {(p.task, p.problem_id): p.gold for p in read_problems(manifest, data_dir, golds)}


def golds_at_hand(
    manifest: Manifest, data_dir: Path | None, golds: Golds = "published"
) -> tuple[dict[tuple[str, str], Gold], str]:
    """The run's golds where no download is needed, by (task, problem_id), and "", or no golds and why not."""
    from stapo_bench.tasks import load_task

    try:
        if data_dir is None and any(load_task(file).source.generator is None for file in manifest.task_files.values()):
            return {}, "golds are shown with --data-dir"
        return read_golds(manifest, data_dir, golds), ""
    except StapoError as error:
        return {}, f"no golds are shown: {error}"
