"""Which golds a run is graded against. The name of a grade file says it: ``math``, or ``math+corrected``.

An imported run brings its problems along, in ``problems/<task>.jsonl``; all others find them in their tasks' data.

    golds = read_golds(load_manifest(run_dir), data_dir, "corrected")

Both files may lie in one run, so both scores can be shown side by side; no file ever holds grades of both kinds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Gold, Problem
from stapo_bench.runs.files import own_file, own_folder, write_atomically
from stapo_bench.runs.manifest import Manifest
from stapo_bench.runs.sealed import complete_lines, seal, unseal
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
        if manifest.imported is None:
            problems = load_problems(load_task(file), data_dir)
        else:
            problems = list(_stored_problems(manifest.run_dir, name))
        if (found := data_digest(problems)) != (expected := manifest.identity.tasks[name].data):
            raise StapoError(
                f"{manifest.run_dir}: expected task {name} with content {expected[:12]}, got {found[:12]}; "
                "grade with the task files and data that the run was made with"
            )
        yield from apply_errata(problems, golds)


def store_problems(run_dir: Path, task: str, problems: Iterable[Problem]) -> None:
    """Write ``problems/<task>.jsonl`` of an imported run; the reverse of what ``read_problems`` does with it."""
    path = own_file(run_dir, f"problems/{task}.jsonl")
    own_folder(path.parent)
    lines = [seal(_line(problem)) for problem in problems]
    write_atomically(path, b"".join(lines))


def _line(problem: Problem) -> dict[str, Any]:
    """A line of the file: the question stands in it once."""
    gold = asdict(problem.gold)
    del gold["question"]
    return {"id": problem.problem_id, "problem": problem.question, **gold}


def _stored_problems(run_dir: Path, task: str) -> Iterator[Problem]:
    path = run_dir / "problems" / f"{task}.jsonl"
    number = 0
    try:
        for number, line in complete_lines(path):  # noqa: B007  # errors name it
            row = unseal(line)
            question = row.pop("problem")
            yield Problem(task=task, problem_id=row.pop("id"), question=question, gold=Gold(**row))
    except OSError as error:
        raise StapoError(f"{path}: {error.strerror}; restore it, or import the run again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StapoError(f"{path}:{number}: expected a problem, got {error}; restore it, or import again") from None


def needs_data(manifest: Manifest) -> bool:
    """Whether its problems are neither in the run nor generated, so that they need a folder or a download."""
    from stapo_bench.tasks import load_task

    if manifest.imported is not None:
        return False
    return any(load_task(file).source.generator is None for file in manifest.task_files.values())


def read_golds(manifest: Manifest, data_dir: Path | None, golds: Golds = "published") -> dict[tuple[str, str], Gold]:
    """The run's golds by (task, problem_id), with their questions."""
    return {(p.task, p.problem_id): p.asked_gold for p in read_problems(manifest, data_dir, golds)}


def golds_at_hand(
    manifest: Manifest, data_dir: Path | None, golds: Golds = "published"
) -> tuple[dict[tuple[str, str], Gold], str]:
    """The run's golds where no download is needed, by (task, problem_id), and "", or no golds and why not."""
    problems, why = problems_at_hand(manifest, data_dir, golds)
    return {key: problem.gold for key, problem in problems.items()}, why


def problems_at_hand(
    manifest: Manifest, data_dir: Path | None, golds: Golds = "published"
) -> tuple[dict[tuple[str, str], Problem], str]:
    """The run's problems where no download is needed, by (task, problem_id), and "", or none and why not."""
    try:
        if data_dir is None and needs_data(manifest):
            return {}, "golds are shown with --data-dir"
        return {(p.task, p.problem_id): p for p in read_problems(manifest, data_dir, golds)}, ""
    except StapoError as error:
        return {}, f"no golds are shown: {error}"
