"""Formats whose rows are conversations: verifiers' ``results.jsonl``, evalscope's, and raw answers of OpenAI's API."""

from collections.abc import Iterator, Mapping
from typing import Any

from stapo_bench.runs.importing.answers import FINISH_REASONS, Answer, Stated, gold_text, verdict
from stapo_bench.runs.importing.layouts import said, value_at
from stapo_bench.runs.importing.opening import Opened


class Verifiers:
    """``results.jsonl`` of verifiers and prime-rl's evaluations."""

    name = "verifiers"
    reported = "verifiers"

    def fits(self, opened: Opened) -> str | None:
        """By its fields, and the conversation in them."""
        is_ours = opened.first and all(
            row.keys() >= {"prompt", "completion", "reward", "answer"} and isinstance(row["prompt"], list)
            for row in opened.first
        )
        return "its rows have prompt (messages), completion, answer and reward" if is_ours else None

    def stated(self, opened: Opened) -> Stated:
        """Nothing: that stands in ``metadata.json``."""
        return Stated()

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """A row is a rollout."""
        for row in opened.rows():
            yield Answer(
                completion=said(row["completion"], "assistant") or "",
                question=said(row["prompt"], "user"),
                gold=gold_text(row.get("answer")),
                verdicts={"": verdict(row.get("reward"))},
                task=None if row.get("task") in (None, "default") else str(row["task"]),
            )


class OpenAiAnswers:
    """Answers of OpenAI's API as they came, one a line; evalscope's predictions and reviews are such."""

    name = "OpenAI answers"
    reported = "evalscope"

    def fits(self, opened: Opened) -> str | None:
        """By ``choices``, and the question beside them."""
        is_ours = opened.first and all(
            isinstance(row.get("choices"), list) and (_question(row) is not None) for row in opened.first
        )
        return "its rows have choices beside the question" if is_ours else None

    def stated(self, opened: Opened) -> Stated:
        """The model's name."""
        model = opened.first[0].get("model")
        return Stated(model=model if isinstance(model, str) else None)

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """Every choice of every answer."""
        for row in opened.rows():
            choices = [choice for choice in row["choices"] if isinstance(choice, dict)]
            tokens = value_at(row, "usage.completion_tokens") if len(choices) == 1 else None
            for choice in choices:
                text = value_at(choice, "message.content")
                review = choice.get("review")
                review = review if isinstance(review, dict) else {}
                yield Answer(
                    completion=str(choice.get("text") or "" if text is None else text),
                    question=_question(row),
                    gold=gold_text(review.get("gold") or value_at(row, "raw_input.answer")),
                    verdicts={"": verdict(review["result"])} if "result" in review else {},
                    extracted=review["pred"] if isinstance(review.get("pred"), str) else None,
                    num_tokens=tokens if isinstance(tokens, int) else None,
                    finish_reason=FINISH_REASONS.get(str(choice.get("finish_reason"))),
                    model=row["model"] if isinstance(row.get("model"), str) else None,
                )


def _question(row: Mapping[str, Any]) -> str | None:
    found = value_at(row, "raw_input.question")
    return found if isinstance(found, str) else None
