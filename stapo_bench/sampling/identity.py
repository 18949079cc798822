"""What a run's manifest says: everything that decides a sample, and what only describes the run."""

import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from stapo_bench import __version__
from stapo_bench.records import Prompt, SamplingParams
from stapo_bench.runs import (
    About,
    AskedTask,
    Checkpoint,
    Identity,
    TaskIdentity,
    canonical_digest,
    commit,
    data_digest,
    name_on_hub,
)
from stapo_bench.sampling.eval_tasks import EvalTask
from stapo_bench.tasks import resource_dir


def prompts_digest(prompts: Iterable[Prompt]) -> str:
    """sha256 over every problem's exact token ids (its text where the engine takes text, its messages where it takes
    several), in order of problem ids.
    """
    sent = {p.problem_id: p.chat or (p.text if p.token_ids is None else list(p.token_ids)) for p in prompts}
    return canonical_digest([[problem_id, sent[problem_id]] for problem_id in sorted(sent)])


def run_identity(
    checkpoint: Checkpoint, eval_tasks: Sequence[EvalTask], params: SamplingParams, seed: int, engine: Mapping[str, str]
) -> Identity:
    """Everything that decides a sample; ``engine`` is the engine's ``identity()``, or what is known of it."""
    return Identity(
        checkpoint_digest=checkpoint.digest,
        tasks={
            one.task.name: TaskIdentity(
                data=data_digest(one.problems),
                prompts=prompts_digest(one.prompts),
                prompt_format=one.prompt_format,
                style=one.style,
                tool=None if one.tool is None else one.tool.tool.identity,
            )
            for one in eval_tasks
        },
        sampling=params,
        seed=seed,
        engine=stated_engine(engine, params),
        versions={"stapo_bench": __version__},  # the engine names its own
    )


def stated_engine(engine: Mapping[str, str], params: SamplingParams) -> dict[str, str]:
    """What an engine says of itself, without what the run's own sampling contradicts: that top-k and min-p are off."""
    said = dict(engine)
    asked = {name: value for name, value in (("top_k", params.top_k), ("min_p", params.min_p)) if value is not None}
    if asked and "sampler" in said:
        said["sampler"] = said["sampler"].replace("top-k, min-p and penalties off", "penalties off")
    if asked and "sent" in said:
        said["sent"] = json.dumps({**json.loads(said["sent"]), **asked}, sort_keys=True)
    return said


def run_about(decoding: str, checkpoint: Checkpoint, eval_tasks: Sequence[EvalTask]) -> About:
    """What describes a run that starts now, and decides no sample."""
    ours = resource_dir("tasks")
    about = About(
        tasks={
            one.task.name: AskedTask(
                title=one.task.title,
                problem_ids=tuple(p.problem_id for p in one.problems[: one.num_problems]),
                num_samples=one.num_samples,
                # Needed to grade a task that is not part of the package.
                file=None if one.task.path.is_relative_to(ours) else str(one.task.path),
            )
            for one in eval_tasks
        },
        checkpoint=_name(checkpoint.adapter or checkpoint.path),
        base=None if checkpoint.adapter is None else _name(checkpoint.path),
        model=checkpoint.model,
        method=checkpoint.method,
        step=checkpoint.step,
        training=checkpoint.training,
        regime=decoding,
    )
    return started_now(about)


def _name(folder: Path) -> str:
    """A checkpoint's name of the hub, by which it is found again anywhere, or its path."""
    return name_on_hub(folder) or str(folder)


def without_secrets(command: str) -> str:
    """A command without passwords and keys that stand in addresses.

    >>> without_secrets("eval --base-url https://me:pw@host/v1 --base-url http://host/v1?key=k --seed 1")
    'eval --base-url https://***@host/v1 --base-url http://host/v1?*** --seed 1'
    """
    return re.sub(r"(https?://[^\s?]*\?)[^\s']*", r"\1***", re.sub(r"(https?://)[^/\s@]*@", r"\1***@", command))


def this_command() -> str:
    """The command that is running."""
    return without_secrets(shlex.join(["stapo-bench", *sys.argv[1:]]))


def started_now(about: About) -> About:
    """The same run, started now by this command, code and machine."""
    return replace(
        about,
        commit=commit(),
        command=this_command(),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        device=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
    )
