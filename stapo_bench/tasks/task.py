"""What a task file says: which benchmark is asked, how often, and where its rows come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stapo_bench.records import PromptStyle


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a task's rows come from: a hub data set, or a generator of ours (then ``generator`` is set)."""

    path: str | None = None
    config: str | None = None
    split: str = "test"
    revision: str | None = None  # None: not known; the digest decides
    columns: Mapping[str, str]  # ours (problem, answer, unit, error, is_multiple_answer) -> theirs
    generator: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """One benchmark: what is asked, how often, and which content makes it that benchmark."""

    name: str
    title: str
    version: int
    suite: str
    source: Source
    num_problems: int
    num_samples: int
    digest: str  # of the normalised content, see ``content_digest``; "" until recorded
    question_template: str  # jinja2, over ``problem``
    prompt_format: str  # auto | chat | base | plain, see stapo_bench.tasks.prompts
    style: PromptStyle  # what else stands around a question
    tool: str | None  # that replies may call, see stapo_bench.tasks.tool; None: none
    integer_answers: bool
    answer_type: str | None
    licence: str
    notes: str
    path: Path
