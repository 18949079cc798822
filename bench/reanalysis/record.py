"""What the record holds: which files are one run, which runs stand beside each other, and what their owners compared.

A run's files are named from the folder of the record, ``OWNER+NAME/path``, as globs; inside an archive as
``archive.zip/member``. What a file does not say of its run, and its path does, is stated here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Run:
    """Files that hold the samples of one model under one setting."""

    name: str
    files: tuple[str, ...]  # globs
    model: str | None = None
    step: int | None = None
    temperature: float | None = None
    set: str | None = None  # name of a set of problems of which every run holds another part
    system: str | None = None  # which of several models in one row
    stated: float | None = None  # the score that the script left beside the samples, a fraction
    grader: str = "math"  # whose verdicts count
    remark: str = ""  # what is wrong with the files, whoever judges them


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file of verdicts on two models, without texts."""

    title: str
    file: str
    item: str  # column of the problem's name
    score_a: str  # columns of the verdicts, C or I
    score_b: str


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A page: runs that belong together."""

    name: str  # of the page
    title: str
    about: str  # what was evaluated, and why
    repositories: tuple[str, ...]
    runs: tuple[Run, ...]
    comparisons: tuple[tuple[str, str], ...] = ()  # A, B: did B get better?
    curves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by title: runs in order, the first the base
    tables: tuple[Table, ...] = ()
    printed: str | None = None  # folder of means without samples, METHOD/step_N/TASK/…-metrics.json
