"""From a problem to the exact text and token ids that a model sees. The trainer uses this very code for its rollouts.

Four formats, chosen in the task file (``metadata.prompt_format``) or by ``--prompt-format``, never by a model's name:

* ``chat``: the checkpoint's own chat template around the question.
* ``base``: ``User: …\\n\\nAssistant:``, for base models without a template.
* ``plain``: the question and nothing else.
* ``message``: the question as a user's message, for servers that chat: the template around it is theirs.

``auto`` in a task file means: ``chat`` where the checkpoint's tokenizer has a chat template, ``base`` elsewhere. What
was chosen is written into the manifest.

Around the question may stand a ``PromptStyle``: a system's message, solved examples, the reply's beginning, keywords of
the chat template. In ``base`` and ``plain`` the parts follow one another, an empty line behind each and a blank before
a reply.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, Problem, Prompt, PromptStyle
from stapo_bench.tasks.content import normalise
from stapo_bench.tasks.limited import in_limits
from stapo_bench.tasks.prompt_style import check_keywords, check_style, messages_of
from stapo_bench.tasks.task import Task

FORMATS = ("auto", "chat", "base", "plain", "message")
CPU_S, CPU_S_EACH = 10.0, 0.01
"""Seconds of CPU time that a task's templates may take, and for each problem: hundreds of times what any needs."""
LONGEST = 1_000_000
"""Characters of a prompt."""
_BARE = PromptStyle()
_PLAIN = re.compile(r"{{\s*problem\s*}}")


def render_question(template: str, problem: Problem) -> str:
    """The task's ``doc_to_text`` over a problem: jinja2 in a sandbox, an unknown name is an error.

    >>> from stapo_bench.records import Gold
    >>> p = Problem(task="t", problem_id="1", question="1+1?", gold=Gold(answer="2"))
    >>> render_question("{{problem}} Box it.", p)
    '1+1? Box it.'
    """
    from jinja2 import TemplateError

    try:
        return str(_compiled(template).render(problem=problem.question))
    except (TemplateError, ArithmeticError, TypeError, ValueError, RecursionError) as error:  # jinja2's, the template's
        reason = " ".join(str(error).split())[:300]
        raise StapoError(f"task {problem.task}: doc_to_text cannot be rendered: {reason}") from None


@lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    """The template, compiled once for all problems of its task."""
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """A sandbox without products and powers: ``'x' * 10**10`` would fill the memory."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Refuse the operator."""
            raise SecurityError(f"a template may not use {operator}")

    # keep_trailing_newline as in lm-eval, which renders the same template
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(template)


def resolve_format(requested: str, tokenizer: Any | None) -> str:
    """The format that ``auto`` stands for; a missing chat template is an error before the first token."""
    if requested not in FORMATS:
        raise UsageError(f"unknown prompt format '{requested}': expected one of {', '.join(FORMATS)}")
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if requested == "auto":
        return "chat" if has_template else "base"
    if requested == "chat" and not has_template:
        raise StapoError(
            "prompt format 'chat': the checkpoint's tokenizer has no chat template; use --prompt-format base or plain"
        )
    return requested


def render_prompts(
    task: Task,
    problems: Sequence[Problem],
    tokenizer: Any | None,
    prompt_format: str | None = None,
    style: PromptStyle | None = None,
) -> list[Prompt]:
    """The prompts of a task's problems, in order.

    Args:
        task: gives the question template, the default format and the default style.
        problems: of that task.
        tokenizer: the checkpoint's, from transformers; None for engines that take text (then ids are None).
        prompt_format: overrides the task's.
        style: overrides the task's.

    Raises:
        StapoError: the problem is lost in the rendered text, it begins with two BOS tokens, or one of the examples is a
            problem of the task.
    """
    chosen = resolve_format(prompt_format or task.prompt_format, tokenizer)
    style = task.style if style is None else style
    check_examples(style, problems, f"task {task.name}")
    return render_all(problems, task.question_template, chosen, tokenizer, style)


def check_examples(style: PromptStyle, problems: Sequence[Problem], place: str) -> None:
    """Refuse an example that is one of the problems, whose answer it would give away: StapoError."""
    if not style.examples:
        return
    asked = {normalise(problem.question): problem.problem_id for problem in problems}
    for number, (question, _) in enumerate(style.examples, start=1):
        if (known := asked.get(normalise(question))) is not None:
            raise StapoError(f"{place}: example {number} is its problem {known}, with the answer: leave it out")


def render_prompt(problem: Problem, template: str, prompt_format: str, tokenizer: Any | None) -> Prompt:
    """One prompt in a definite format (``chat``, ``base`` or ``plain``)."""
    return render_all([problem], template, prompt_format, tokenizer)[0]


def render_all(
    problems: Sequence[Problem],
    template: str,
    prompt_format: str,
    tokenizer: Any | None,
    style: PromptStyle = _BARE,
) -> list[Prompt]:
    """Prompts in a definite format. Templates may be strangers': what more than inserts the problem is rendered in a
    process that ends at its limits.

    Raises:
        StapoError: as ``render_prompts``; or a template fails, takes too long, or makes too long a text.
        UsageError: the format has no place for what the style asks for.
    """
    check_style(style, prompt_format)
    if prompt_format == "chat":
        check_keywords(style, getattr(tokenizer, "chat_template", None))
    place = ", ".join(dict.fromkeys(problem.task for problem in problems))
    examples = [
        Problem(task=place, problem_id=f"example {number}", question=question, gold=Gold(answer=""))
        for number, (question, _) in enumerate(style.examples, start=1)
    ]

    def rendered_questions() -> list[str]:
        """Those of the examples, then those of the problems."""
        return [_bounded(render_question(template, problem), problem) for problem in (*examples, *problems)]

    def chat_texts() -> list[str]:
        """All prompts in the chat template; where one is too long, the first such one is an error."""
        questions = rendered_questions()
        first, rest = questions[: len(examples)], questions[len(examples) :]
        return [
            _bounded(_chat_text(style, [*first, question], problem, tokenizer), problem)
            for question, problem in zip(rest, problems, strict=True)
        ]

    work = chat_texts if prompt_format == "chat" else rendered_questions
    if prompt_format != "chat" and not re.search(r"{[{%#]", _PLAIN.sub("", template)):
        texts = work()
    else:
        what = f"task {place}: doc_to_text" + (" or the chat template" if prompt_format == "chat" else "")
        texts = in_limits(work, CPU_S + CPU_S_EACH * (len(examples) + len(problems)), what)
    if prompt_format == "chat":
        return [_prompt(problem, text, "chat", tokenizer, style) for problem, text in zip(problems, texts, strict=True)]
    first, rest = texts[: len(examples)], texts[len(examples) :]
    return [
        _laid_out(problem, messages_of(style, [*first, question]), prompt_format, tokenizer, style)
        for problem, question in zip(problems, rest, strict=True)
    ]


def _bounded(text: str, problem: Problem) -> str:
    """The text, which must not be too long."""
    if len(text) > LONGEST:
        raise StapoError(f"{problem.task}/{problem.problem_id}: expected a prompt of at most {LONGEST} characters")
    return text


def _laid_out(
    problem: Problem,
    messages: Sequence[Mapping[str, str]],
    prompt_format: str,
    tokenizer: Any | None,
    style: PromptStyle,
) -> Prompt:
    """The prompt of these messages without a chat template of ours."""
    if prompt_format == "message":
        return _for_chat(problem, messages, style)
    around = {
        "base": {"system": "{}\n\n", "user": "User: {}\n\nAssistant:", "assistant": " {}\n\n"},
        "plain": {"system": "{}\n\n", "user": "{}", "assistant": " {}\n\n"},
    }[prompt_format]
    text = "".join(around[one["role"]].replace("{}", one["content"]) for one in messages)
    begun = text + f" {style.assistant_prefix}" * bool(style.assistant_prefix)
    return _prompt(problem, _bounded(begun, problem), prompt_format, tokenizer, style)


def _for_chat(problem: Problem, messages: Sequence[Mapping[str, str]], style: PromptStyle) -> Prompt:
    """The prompt for a server that chats: the question, with all messages where there are others beside it."""
    prompt = _prompt(problem, messages[-1]["content"], "message", None, _BARE)
    if not style.to_json():
        return prompt
    keywords = {"chat_template_kwargs": dict(style.chat_template_kwargs)} if style.chat_template_kwargs else {}
    return replace(prompt, chat={"messages": list(messages), **keywords})


def _chat_text(style: PromptStyle, questions: Sequence[str], problem: Problem, tokenizer: Any) -> str:
    """The messages in the checkpoint's chat template, whose failures are the template's, whatever they are."""
    try:
        text = tokenizer.apply_chat_template(
            messages_of(style, questions), add_generation_prompt=True, tokenize=False, **style.chat_template_kwargs
        )
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise StapoError(
            f"{problem.task}/{problem.problem_id}: the checkpoint's chat template cannot be rendered: {reason}; use "
            "--prompt-format base or plain"
        ) from None
    if not isinstance(text, str):
        raise StapoError(f"{problem.task}/{problem.problem_id}: expected a text from the chat template, got {text!r}")
    return text + style.assistant_prefix


def _prompt(problem: Problem, text: str, prompt_format: str, tokenizer: Any | None, style: PromptStyle) -> Prompt:
    """The prompt of a rendered text, which must hold the problem and what stands around it."""
    place = f"{problem.task}/{problem.problem_id}"
    if problem.question.strip() not in text:
        raise StapoError(f"{place}: the {prompt_format} template drops the problem's text")
    for part in (style.system, *(part for example in style.examples for part in example)):
        if part.strip() not in text:
            raise StapoError(f"{place}: the {prompt_format} template drops, or changes, {part[:60]!r}; leave it out")
    if tokenizer is None or prompt_format == "message":
        return Prompt(task=problem.task, problem_id=problem.problem_id, text=text)
    # A chat template writes its own special tokens; elsewhere the tokenizer adds those that the model expects.
    ids = tuple(tokenizer(text, add_special_tokens=prompt_format != "chat")["input_ids"])
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is not None and ids[:2] == (bos, bos):
        raise StapoError(f"{place}: the prompt begins with two BOS tokens ({bos})")
    return Prompt(task=problem.task, problem_id=problem.problem_id, text=text, token_ids=ids)
