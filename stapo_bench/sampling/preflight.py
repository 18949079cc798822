"""What can be known of an evaluation before torch is imported: refused in the first second, with nothing written.

check_before_loading([load_task("aime24")], EvalOptions(checkpoint=Path("Qwen3-1.7B"), decoding="justrl", ...))
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from stapo_bench.engines import check_options, check_sampling, check_tool, declared_context, token_budget
from stapo_bench.errors import UsageError, tell
from stapo_bench.records import PromptStyle
from stapo_bench.runs import check_format, stated_chat_template
from stapo_bench.sampling.eval_options import EvalOptions, samples_asked, sampling_params
from stapo_bench.sampling.eval_tasks import EvalTask, most_positions
from stapo_bench.tasks import Task, check_style, get_tool, load_task, resolve_format


def check_all(asked: Sequence[EvalOptions]) -> None:
    """``check_before_loading`` for several evaluations, all of them before the first begins."""
    for options in asked:
        check_before_loading([load_task(name) for name in options.tasks], options)


def check_before_loading(tasks: Sequence[Task], options: EvalOptions) -> None:
    """Refuse what the options and a checkpoint's own files rule out, before its tokenizer or model is loaded.

    Raises:
        StapoError: no checkpoint, one in a format that is not read, a chat prompt without a chat template, an engine
            that is not installed.
        UsageError: an unknown prompt format, a token limit beyond the model's positions, an option that the engine does
            not take, sampling that it does not apply, or several greedy samples.
    """
    folder = options.folder
    if options.checkpoint is not None:
        check_format(folder)
    if not (options.out / "manifest.json").exists():  # a run that is there says what differs
        check_options(options.engine, folder)
        check_sampling(options.engine, sampling_params(options))
        for tool in dict.fromkeys(task.tool for task in tasks if task.tool is not None):
            check_tool(options.engine, tool)
            end = get_tool(tool).end
            if early := [stop for stop in sampling_params(options).stop if stop in end]:
                raise UsageError(f"stop: expected no part of {end}, at which {tool} is asked, got {early[0]!r}")
    for task in tasks:
        samples_asked(options, task.num_samples)
        check_style(asked_style(task, options), asked_format(task, options))
    for requested in dict.fromkeys(asked_format(task, options) for task in tasks):
        if options.checkpoint is None and requested in ("auto", "chat"):
            raise UsageError(
                "without a checkpoint's folder its chat template is not known: expected --chat, for the server's own, "
                "or --prompt-format base or plain"
            )
        resolve_format(requested, None if requested != "chat" else _Stated(folder))
    limit, positions = options.max_new_tokens, declared_context(folder)
    if limit is not None and positions is not None and limit >= positions and not options.engine.base_urls:
        raise UsageError(
            f"--max-new-tokens: expected fewer than the {positions} positions of {folder}, as the prompt takes some, "
            f"got {limit}"
        )


def asked_format(task: Task, options: EvalOptions) -> str:
    """The prompt format that is asked for: of a server that chats always ``message``, of no other engine ever.

    Raises:
        UsageError: ``--chat`` beside another format, or ``message`` without it.
    """
    requested = options.prompt_format
    if options.engine.chat and requested not in (None, "message"):
        raise UsageError(f"--chat: expected no --prompt-format, as the server puts its own around, got {requested}")
    if requested == "message" and not options.engine.chat:
        raise UsageError("--prompt-format message: expected --chat beside it, for a server that puts a template around")
    return "message" if options.engine.chat else requested or task.prompt_format


def asked_style(task: Task, options: EvalOptions) -> PromptStyle:
    """What is asked to stand around a task's questions: its own style, but for what the options say."""
    return replace(task.style, **options.style)


class _Stated:
    """In place of a tokenizer that is not loaded: whether it will have a chat template."""

    def __init__(self, checkpoint: Path) -> None:
        self.chat_template = stated_chat_template(checkpoint)


def check_context(
    eval_tasks: Sequence[EvalTask], context: int | None, max_new_tokens: int, whose: str, watch: TextIO
) -> None:
    """Refuse a prompt that fills the context, and say where the context, not the limit, will end completions.

    Args:
        eval_tasks: with their prompts; those without token ids are left to the engine.
        context: positions of a prompt and its completion together; None: not known.
        max_new_tokens: the limit.
        whose: the context is, at the start of the line.
        watch: where the line goes.

    Raises:
        StapoError: a prompt leaves no room for a single new token.
    """
    if context is None:
        return
    for prompt in (prompt for one in eval_tasks for prompt in one.prompts[: one.num_problems]):
        if prompt.token_ids is not None:
            token_budget(prompt, len(prompt.token_ids), max_new_tokens, context)
    asked = most_positions(eval_tasks, max_new_tokens)
    if asked is not None and asked > context:
        longest = asked - max_new_tokens
        tell(
            watch,
            f"{whose}: its context of {context:,} tokens is less than the longest prompt ({longest:,}) and "
            f"{max_new_tokens:,} new tokens: a completion of that one is cut off after {context - longest:,}",
        )
