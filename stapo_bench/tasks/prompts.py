"""From a problem to the exact text and token ids that a model sees. The trainer uses this very code for its rollouts.

Three formats, chosen in the task file (``metadata.prompt_format``) or by ``--prompt-format``, never by a model's name:

* ``chat``: the checkpoint's own chat template around the question.
* ``base``: ``User: …\\n\\nAssistant:``, for base models without a template.
* ``plain``: the question and nothing else.

``auto`` in a task file means: ``chat`` where the checkpoint's tokenizer has a chat template, ``base`` elsewhere. What
was chosen is written into the manifest.
"""

from collections.abc import Sequence
from typing import Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Problem, Prompt
from stapo_bench.tasks.task import Task

FORMATS = ("auto", "chat", "base", "plain")


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
        raise StapoError(f"task {problem.task}: doc_to_text cannot be rendered: {error}") from None


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
    return [render_prompt(problem, task.question_template, chosen, tokenizer) for problem in problems]


def render_prompt(problem: Problem, template: str, prompt_format: str, tokenizer: Any | None) -> Prompt:
    """One prompt in a definite format (``chat``, ``base`` or ``plain``)."""
    question = render_question(template, problem)
    if prompt_format == "chat":
        assert tokenizer is not None
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
    else:
        text = f"User: {question}\n\nAssistant:" if prompt_format == "base" else question
    if problem.question.strip() not in text:
        raise StapoError(f"{problem.task}/{problem.problem_id}: the {prompt_format} template drops the problem's text")
    if tokenizer is None:
        return Prompt(task=problem.task, problem_id=problem.problem_id, text=text)
    # A chat template writes its own special tokens; elsewhere the tokenizer adds those that the model expects.
    ids = tuple(tokenizer(text, add_special_tokens=prompt_format != "chat")["input_ids"])
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is not None and ids[:2] == (bos, bos):
        raise StapoError(f"{problem.task}/{problem.problem_id}: the prompt begins with two BOS tokens ({bos})")
    return Prompt(task=problem.task, problem_id=problem.problem_id, text=text, token_ids=ids)
