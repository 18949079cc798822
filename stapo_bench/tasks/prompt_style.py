"""What stands around a question: read from a task file or given, checked, laid out as messages, and in words.

doc_to_text: "{{problem}}"
num_fewshot: 1                                  # lm-eval's keys, as far as it has them
fewshot_config: {samples: [{problem: "1 + 1?", answer: "It is \\boxed{2}."}]}
gen_prefix: "Let us count:"                     # how the reply begins
metadata: {system: "You are terse.", chat_template_kwargs: {enable_thinking: false}}
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import PromptStyle
from stapo_bench.tasks.foreign_files import read_foreign_rows

_MOST_EXAMPLES = 1000
_OURS = ("messages", "conversation", "add_generation_prompt", "continue_final_message", "chat_template", "tokenize")
"""Arguments of a chat template's rendering that are not a run's to choose."""


def style_of(path: Path, raw: Mapping[str, Any]) -> PromptStyle:
    """The style that a task file states; its first ``num_fewshot`` examples, none where it states no number."""
    metadata = raw["metadata"]
    samples = (raw.get("fewshot_config") or {}).get("samples") or []
    number = raw.get("num_fewshot") or 0
    if not isinstance(samples, list) or not 0 <= number <= len(samples):
        got = len(samples) if isinstance(samples, list) else type(samples).__name__
        raise StapoError(f"{path}: num_fewshot: expected as many fewshot_config.samples, got {number} and {got}")
    return PromptStyle(
        system=metadata.get("system") or "",
        examples=_examples(samples[:number], f"{path}: fewshot_config.samples"),
        chat_template_kwargs=json_keywords(metadata.get("chat_template_kwargs") or {}, f"{path}: metadata"),
        assistant_prefix=raw.get("gen_prefix") or "",
    )


def read_examples(path: Path) -> tuple[tuple[str, str], ...]:
    """All examples of a file: a JSON object with ``problem`` and ``answer`` a line, the answer as it is to be written.

    Raises:
        StapoError: no such file, no example in it, or one that lacks either text.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; expected one JSON object per line with problem and answer")
    found = _examples([row for _, row in read_foreign_rows(path)], str(path))
    if not found:
        raise StapoError(f"{path}: expected at least one example, got none")
    return found


def json_keywords(found: Mapping[Any, Any], place: str) -> Mapping[str, Any]:
    """Keywords of a chat template that a manifest can hold; YAML has others, as dates: StapoError."""
    for name, value in found.items():
        if not isinstance(name, str) or json.loads(_as_json(value)) != value:
            raise StapoError(f"{place}: chat_template_kwargs: expected values as JSON has them, got {name}: {value!r}")
    return found


def _as_json(value: Any) -> str:
    """JSON of a value, what it has no word for as null."""
    return json.dumps(value, default=lambda _: None)


def _examples(rows: Sequence[Any], place: str) -> tuple[tuple[str, str], ...]:
    """Rows as pairs of texts."""
    if len(rows) > _MOST_EXAMPLES:
        raise StapoError(f"{place}: expected at most {_MOST_EXAMPLES} examples, got {len(rows)}")
    for number, row in enumerate(rows, start=1):
        texts = [row.get(name) for name in ("problem", "answer")] if isinstance(row, dict) else [None]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise StapoError(f"{place}, example {number}: expected texts for problem and answer, got {str(row)[:60]}")
    return tuple((row["problem"], row["answer"]) for row in rows)


def check_style(style: PromptStyle, prompt_format: str) -> None:
    """Refuse what a prompt format has no place for; ``auto`` is not known yet, and has a place for all.

    Raises:
        UsageError: keywords of a chat template without one, or a beginning of the reply where a server lays it out.
    """
    if style.chat_template_kwargs and prompt_format in ("base", "plain"):
        raise UsageError(f"chat_template_kwargs: expected prompt format chat, or --chat, got {prompt_format}")
    if ours := [name for name in style.chat_template_kwargs if name in _OURS]:
        raise UsageError(f"chat_template_kwargs: expected keywords of a template's own, got {ours[0]}")
    if style.assistant_prefix and prompt_format == "message":
        raise UsageError("--assistant-prefix: expected no --chat, as a server's template begins the reply itself")


def check_keywords(style: PromptStyle, template: Any) -> None:
    """Refuse keywords that a chat template never names: they would change nothing, and nobody would know.

    Raises:
        StapoError: such a keyword.
    """
    for name in style.chat_template_kwargs:
        if not re.search(rf"\b{re.escape(name)}\b", str(template)):
            raise StapoError(
                f"chat_template_kwargs: expected keywords that the checkpoint's chat template reads, got {name}"
            )


def messages_of(style: PromptStyle, questions: Sequence[str]) -> list[dict[str, str]]:
    """The messages of a prompt in their order; ``questions``: those of the examples, then the one that is asked.

    >>> [m["role"] for m in messages_of(PromptStyle(system="Be terse.", examples=(("1?", "1"),)), ["1?", "2?"])]
    ['system', 'user', 'assistant', 'user']
    """
    found = [{"role": "system", "content": style.system}] if style.system else []
    for question, (_, answer) in zip(questions, style.examples, strict=False):
        found += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return [*found, {"role": "user", "content": questions[-1]}]


def style_in_words(style: PromptStyle) -> str:
    """What is there, as it distinguishes the rows of a table; "" where nothing is.

    >>> style_in_words(PromptStyle(system="Be terse.", examples=(("1?", "1"),), chat_template_kwargs={"think": False}))
    "system 'Be terse.', 1-shot, think=False"
    """
    words = [f"system {_short(style.system)}"] * bool(style.system)
    words += [f"{len(style.examples)}-shot"] * bool(style.examples)
    words += [f"{name}={_short(value)}" for name, value in style.chat_template_kwargs.items()]
    words += [f"reply begins {_short(style.assistant_prefix)}"] * bool(style.assistant_prefix)
    return ", ".join(words)


def _short(value: Any) -> str:
    """A value in a few characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:38]}…{text[-1]}"
