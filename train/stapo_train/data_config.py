"""The settings under ``data`` of a training: where problems come from, and how they are asked.

data:
  source: jsonl
  path: problems.jsonl
  question: "{{problem}}"
  system: You are terse.                            # these four as the options of ``eval``, rendered by its code
  fewshot: shots.jsonl                              # or the pairs: [["1 + 1?", "It is 2."]], as a run's config has them
  chat_template_kwargs: {enable_thinking: false}
  assistant_prefix: "Let us count:"
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import PromptStyle
from stapo_bench.tasks import check_style, json_keywords, read_examples
from stapo_train.parse import check_range

PUZZLES = ("kk", "kk-brief")
GENERATED = ("tiny", "products", *PUZZLES)
"""Sources that are no data set."""

STYLE_KEYS = ("system", "fewshot", "chat_template_kwargs", "assistant_prefix")
"""Settings of what stands around a question."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where problems come from and how they are asked; see ``stapo_train.data``."""

    source: Literal["tiny", "products", "kk", "kk-brief", "jsonl", "hub"]
    path: str | None = None  # jsonl: the file; hub: the data set's name
    hub_config: str | None = None
    columns: tuple[str, str] = ("problem", "answer")  # the rows' names for the two
    people: tuple[int, int] | None = None  # kk, kk-brief: fewest and most per puzzle, uniformly chosen
    count: int | None = None  # generated: how many; else: how many to keep after the filters; None: all
    language: str | None = None  # keep rows whose ``language``, or else script, is this: en or zh; None: all
    deduplicate: bool = False  # keep the first of rows with one text, and none where their golds conflict
    drop_eval_overlap: bool = False  # drop rows marked ``eval_overlap``; without marks, search
    eval_dir: str | None = None  # for that search: folder of the evaluation sets; None: the hub
    max_prompt_tokens: int | None = None  # drop problems whose prompt has more; None: none is dropped
    question: str  # jinja2 over ``problem``, as a task file's doc_to_text
    prompt_format: Literal["auto", "chat", "base", "plain"] = "auto"  # see stapo_bench.tasks.prompts
    system: str | None = None  # the system's message
    fewshot: tuple[tuple[str, str], ...] | None = None  # (problem, answer) of solved examples
    chat_template_kwargs: Mapping[str, Any] | None = None
    assistant_prefix: str | None = None  # the reply's first words, which are graded with it and are no tokens of it

    def __post_init__(self) -> None:
        check_range(self, "count", "max_prompt_tokens", at_least=1)
        if self.source in ("jsonl", "hub") and self.path is None:
            raise UsageError(f"data.path: expected what data.source={self.source} reads, got none")
        if self.source in GENERATED and self.count is None:
            raise UsageError(f"data.count: expected how many problems data.source={self.source} generates, got none")
        if (self.source in PUZZLES) != (self.people is not None):
            raise UsageError(
                f"data.people: expected with data.source={' or '.join(PUZZLES)} and there alone, got {self.people}"
            )
        if self.people is not None and self.people[0] > self.people[1]:
            raise UsageError(f"data.people: expected the fewest first, then the most, got {self.people}")
        try:
            json_keywords(self.style.chat_template_kwargs, "data")
        except StapoError as error:
            raise UsageError(str(error)) from None
        check_style(self.style, self.prompt_format)

    @property
    def style(self) -> PromptStyle:
        """What stands around a question."""
        return PromptStyle(
            system=self.system or "",
            examples=self.fewshot or (),
            chat_template_kwargs=self.chat_template_kwargs or {},
            assistant_prefix=self.assistant_prefix or "",
        )


def with_examples(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config's nested values with the examples of ``data.fewshot`` where they name a file.

    So the run's config and its digest hold what is asked, whatever becomes of the file.

    Raises:
        StapoError: no such file, or one that is not of examples.
    """
    data = values.get("data")
    if not isinstance(data, Mapping) or not isinstance(data.get("fewshot"), str):
        return dict(values)
    examples = [list(pair) for pair in read_examples(Path(data["fewshot"]))]
    return {**values, "data": {**data, "fewshot": examples}}
