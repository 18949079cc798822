"""From a problem to the exact text and token ids that a model sees. The trainer uses this very code for its rollouts.

Four formats, chosen in the task file (``metadata.prompt_format``) or by ``--prompt-format``, never by a model's name:

* ``chat``: the checkpoint's own chat template around the question.
* ``base``: ``User: …\\n\\nAssistant:``, for base models without a template.
* ``plain``: the question and nothing else.
* ``message``: the question as a user's message, for servers that chat: the template around it is theirs.

``auto`` in a task file means: ``chat`` where the checkpoint's tokenizer has a chat template, ``base`` elsewhere. What
was chosen is written into the manifest.
"""

import re
from collections.abc import Sequence
from typing import Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Problem, Prompt
from stapo_bench.tasks.limited import in_limits
from stapo_bench.tasks.task import Task

FORMATS = ("auto", "chat", "base", "plain", "message")
CPU_S, CPU_S_EACH = 10.0, 0.01
"""Seconds of CPU time that a task's templates may take, and for each problem: hundreds of times what any needs."""
LONGEST = 1_000_000
"""Characters of a prompt."""
_PLAIN = re.compile(r"{{\s*problem\s*}}")


def render_question(template: str, problem: Problem) -> str:
    """The task's ``doc_to_text`` over a problem: jinja2 in a sandbox, an unknown name is an error.

    >>> from stapo_bench.records import Gold
    >>> p = Problem(task="t", problem_id="1", question="1+1?", gold=Gold(answer="2"))
    >>> render_question("{{problem}} Box it.", p)
    '1+1? Box it.'
    """
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """A sandbox without products and powers: ``'x' * 10**10`` would fill the memory."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Refuse the operator."""
            raise SecurityError(f"a template may not use {operator}")

    # keep_trailing_newline as in lm-eval, which renders the same template
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        return environment.from_string(template).render(problem=problem.question)
    except (TemplateError, ArithmeticError, TypeError, ValueError, RecursionError) as error:  # jinja2's, the template's
        reason = " ".join(str(error).split())[:300]
        raise StapoError(f"task {problem.task}: doc_to_text cannot be rendered: {reason}") from None


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
    task: Task, problems: Sequence[Problem], tokenizer: Any | None, prompt_format: str | None = None
) -> list[Prompt]:
    """The prompts of a task's problems, in order.

    Args:
        task: gives the question template and the default format.
        problems: of that task.
        tokenizer: the checkpoint's, from transformers; None for engines that take text (then ids are None).
        prompt_format: overrides the task's.

    Raises:
        StapoError: the problem is lost in the rendered text, or it begins with two BOS tokens.
    """
    chosen = resolve_format(prompt_format or task.prompt_format, tokenizer)
    return render_all(problems, task.question_template, chosen, tokenizer)


def render_prompt(problem: Problem, template: str, prompt_format: str, tokenizer: Any | None) -> Prompt:
    """One prompt in a definite format (``chat``, ``base`` or ``plain``)."""
    return render_all([problem], template, prompt_format, tokenizer)[0]


def render_all(problems: Sequence[Problem], template: str, prompt_format: str, tokenizer: Any | None) -> list[Prompt]:
    """Prompts in a definite format. Templates may be strangers': what more than inserts the problem is rendered in a
    process that ends at its limits.

    Raises:
        StapoError: as ``render_prompts``; or a template fails, takes too long, or makes too long a text.
    """

    def texts() -> list[str]:
        """All of them; where one is too long, the first such one is an error."""
        return [_bounded_text(problem, template, prompt_format, tokenizer) for problem in problems]

    if prompt_format != "chat" and not re.search(r"{[{%#]", _PLAIN.sub("", template)):
        rendered = texts()
    else:
        tasks = ", ".join(dict.fromkeys(problem.task for problem in problems))
        what = f"task {tasks}: doc_to_text" + (" or the chat template" if prompt_format == "chat" else "")
        rendered = in_limits(texts, CPU_S + CPU_S_EACH * len(problems), what)
    return [_prompt(problem, text, prompt_format, tokenizer) for problem, text in zip(problems, rendered, strict=True)]


def _bounded_text(problem: Problem, template: str, prompt_format: str, tokenizer: Any | None) -> str:
    """The text of a prompt."""
    text = question = render_question(template, problem)
    if prompt_format == "chat":
        text = _chat_text(question, problem, tokenizer)
    elif prompt_format == "base":
        text = f"User: {question}\n\nAssistant:"
    if len(text) > LONGEST:
        raise StapoError(f"{problem.task}/{problem.problem_id}: expected a prompt of at most {LONGEST} characters")
    return text


def _chat_text(question: str, problem: Problem, tokenizer: Any) -> str:
    """The question in the checkpoint's chat template, whose failures are the template's, whatever they are."""
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
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
    return text


def _prompt(problem: Problem, text: str, prompt_format: str, tokenizer: Any | None) -> Prompt:
    """The prompt of a rendered text, which must hold the problem."""
    if problem.question.strip() not in text:
        raise StapoError(f"{problem.task}/{problem.problem_id}: the {prompt_format} template drops the problem's text")
    if tokenizer is None or prompt_format == "message":
        return Prompt(task=problem.task, problem_id=problem.problem_id, text=text)
    # A chat template writes its own special tokens; elsewhere the tokenizer adds those that the model expects.
    ids = tuple(tokenizer(text, add_special_tokens=prompt_format != "chat")["input_ids"])
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is not None and ids[:2] == (bos, bos):
        raise StapoError(f"{problem.task}/{problem.problem_id}: the prompt begins with two BOS tokens ({bos})")
    return Prompt(task=problem.task, problem_id=problem.problem_id, text=text, token_ids=ids)
