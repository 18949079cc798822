"""What a run's manifest says: everything that decides a sample, and what only describes the run."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from stapo_bench import __version__
from stapo_bench.records import SamplingParams
from stapo_bench.runs import Checkpoint, commit, data_digest, environment_line, prompts_digest
from stapo_bench.sampling.work import Work
from stapo_bench.tasks import resource_dir


def run_identity(
    checkpoint: Checkpoint, works: Sequence[Work], params: SamplingParams, seed: int, engine: Mapping[str, str]
) -> dict[str, Any]:
    """Everything that decides a sample; ``engine`` is the engine's ``identity()``, or what is known of it."""
    return {
        "checkpoint": {"digest": checkpoint.digest},
        "tasks": {
            work.task.name: {
                "data": data_digest(work.problems),
                "prompts": prompts_digest(work.prompts),
                "prompt_format": work.prompt_format,
            }
            for work in works
        },
        "sampling": {
            "temperature": params.temperature,
            "top_p": params.top_p,
            "max_new_tokens": params.max_new_tokens,
        },
        "seed": seed,
        "engine": dict(engine),
        "versions": {"stapo_bench": __version__},  # the engine names its own
    }


def run_about(decoding: str, checkpoint: Checkpoint, works: Sequence[Work]) -> dict[str, Any]:
    """What describes a run and decides nothing."""
    ours = resource_dir("tasks")
    return {
        "checkpoint": str(checkpoint.path),
        "model": checkpoint.model,
        "method": checkpoint.method,
        "step": checkpoint.step,
        "regime": decoding,
        "tasks": {
            work.task.name: {
                "title": work.task.title,
                "num_problems": work.num_problems,
                "num_samples": work.num_samples,
                # Needed to grade a task that does not travel with the package.
                "file": None if work.task.path.is_relative_to(ours) else str(work.task.path),
                "problem_ids": [p.problem_id for p in work.problems[: work.num_problems]],
            }
            for work in works
        },
        **started_now(),
    }


def without_secrets(command: str) -> str:
    """A command without passwords and keys that stand in addresses.

    >>> without_secrets("eval --base-url https://me:pw@host/v1 --base-url http://host/v1?key=k --seed 1")
    'eval --base-url https://***@host/v1 --base-url http://host/v1?*** --seed 1'
    """
    return re.sub(r"(https?://[^\s?]*\?)[^\s']*", r"\1***", re.sub(r"(https?://)[^/\s@]*@", r"\1***@", command))


def started_now() -> dict[str, Any]:
    """By which command, code and machine, and when."""
    return {
        "commit": commit(),
        "command": without_secrets(shlex.join(["stapo-bench", *sys.argv[1:]])),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": environment_line(),
    }
