"""A run as an exporter reads it: manifest, problems, scores, and the samples with their grades."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from stapo_bench.analysis import RunScore, score_by
from stapo_bench.errors import StapoError
from stapo_bench.records import Outcome, Problem, Sample, SampleKey
from stapo_bench.runs import (
    Manifest,
    load_manifest,
    needs_data,
    optional_settings,
    read_grades,
    read_problems,
    read_samples,
    split_golds,
)
from stapo_bench.tasks import TASK_PREFIX, Task, load_task


class SampleWithGrade(NamedTuple):
    """A stored sample and its grade; both of the latter are None where there is none."""

    sample: Sample
    outcome: Outcome | None
    extracted: str | None


@dataclass(frozen=True)
class GradedRun:
    """A run by the grades of one grader."""

    path: Path
    grader: str
    data_dir: Path | None

    @cached_property
    def manifest(self) -> Manifest:
        """What the run is."""
        return load_manifest(self.path)

    @cached_property
    def score(self) -> RunScore:
        """Its scores by that grader."""
        return score_by(self.path, self.grader)

    @property
    def created(self) -> str | None:
        """When its samples were drawn, ISO 8601; of imported ones that is not known."""
        return None if self.manifest.imported else self.manifest.about.started

    def settings(self, task: str) -> dict[str, Any]:
        """What else decided the samples of a task, which other tools have no names for; importing reads it back."""
        identity = self.manifest.identity
        style = identity.tasks[task].style
        return {
            "sampling": optional_settings(identity.sampling),
            **({} if style is None else {"style": style.to_json()}),
        }

    @cached_property
    def problems(self) -> Mapping[str, Mapping[str, Problem]]:
        """By task and id, in the order of the manifest.

        Raises:
            StapoError: the texts are not at hand.
        """
        if self.data_dir is None and needs_data(self.manifest):
            raise StapoError(
                f"{self.path}: expected the problems' texts, which such a log holds; name the folder of the tasks' "
                "data: --data-dir DIR"
            )
        golds = split_golds(self.grader)[1]
        found = {(p.task, p.problem_id): p for p in read_problems(self.manifest, self.data_dir, golds)}
        return {
            name: {i: found[name, i] for i in asked.problem_ids if (name, i) in found}
            for name, asked in self.manifest.about.tasks.items()
        }

    def judged(self, task: str) -> Iterator[SampleWithGrade]:
        """The samples of a task in the order in which they were stored."""
        grades = self._outcomes
        for sample in read_samples(self.path, self.manifest.stamps):
            if sample.task == task:
                yield SampleWithGrade(sample, *grades.get(sample.key, (None, None)))

    @cached_property
    def _outcomes(self) -> Mapping[SampleKey, tuple[Outcome, str | None]]:
        return read_grades(self.path, self.grader).outcomes

    def task(self, name: str) -> Task | None:
        """The task file behind a task; None for a set that came with an import, or where the file is gone."""
        try:
            return load_task(self.manifest.task_files[name])
        except StapoError:
            return None

    def harness_name(self, name: str) -> str:
        """What lm-eval calls the task when it runs our task file; a set of one's own keeps its name."""
        return name if self.task(name) is None else TASK_PREFIX + name


def file_name(text: str) -> str:
    """A name out of a manifest as part of a file's name: it leads to no other folder.

    >>> file_name("aime24"), file_name("../a b")
    ('aime24', '..-a-b')
    """
    return re.sub(r"[^\w.+-]", "-", text)


def standard_error(counts: Mapping[str, tuple[int, int]]) -> float | None:
    """s / sqrt(n) over the problems' shares, as harnesses print it; None for fewer than two problems.

    >>> standard_error({"a": (1, 1), "b": (0, 2)})  # shares 1 and 0: s = sqrt(1/2), n = 2
    0.5
    """
    shares = [right / decided for right, decided in counts.values() if decided]
    if len(shares) < 2:
        return None
    mean = sum(shares) / len(shares)
    variance = sum((share - mean) ** 2 for share in shares) / (len(shares) - 1)
    return float((variance / len(shares)) ** 0.5)
