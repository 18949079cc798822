"""Names by content: digests of settings, prompts and problems."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from stapo_bench.records import Problem, Prompt
from stapo_bench.tasks import ContentDigest, content_digest


def canonical_digest(value: Any) -> str:
    """sha256 of a value's canonical JSON (sorted keys, no blanks).

    >>> canonical_digest({"a": 1, "b": 2}) == canonical_digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def prompts_digest(prompts: Iterable[Prompt]) -> str:
    """sha256 over every problem's exact token ids (its text where the engine takes text), in order of problem ids."""
    return canonical_digest(
        sorted([p.problem_id, p.text if p.token_ids is None else list(p.token_ids)] for p in prompts)
    )


def data_digest(problems: Iterable[Problem]) -> str:
    """The content digest of a task's problems, as task files record it."""
    return content_digest(ContentDigest.of(p.question, p.gold.answer) for p in problems)
