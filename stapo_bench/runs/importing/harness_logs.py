"""Logs of evaluation harnesses: lm-eval's ``samples_*.jsonl`` and lighteval's ``details_*.parquet``.

lm-eval writes a line per problem and filter, with all repeats of the problem. The lines of a second filter hold the
same completions: only their verdicts are new. A verdict belongs to a problem, not to a repeat, so that it says
something of a sample only where there is one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Outcome
from stapo_bench.runs.importing.answers import Answer, Stated, completion_text, gold_text, own_settings, verdict
from stapo_bench.runs.importing.layouts import value_at
from stapo_bench.runs.importing.opening import Opened

_OURS = frozenset(["doc_id", "doc", "target", "arguments", "resps", "filtered_resps"])
_BESIDE = _OURS | frozenset(["filter", "metrics", "doc_hash", "prompt_hash", "target_hash"])
OWN_METRICS = frozenset(["avg_at_k", "no_answer", "grader_errors"])
"""Of our task files under lm-eval; where the grader failed on all samples, there is no ``avg_at_k``."""

_QUESTIONS = ("problem", "question", "input", "prompt", "query")


class LmEval:
    """The reader."""

    name = "lm-eval"
    reported = "lm-eval"

    def fits(self, opened: Opened) -> str | None:
        """By the fields of a logged sample."""
        is_ours = opened.first and all(row.keys() >= _OURS for row in opened.first)
        return "its rows have doc_id, doc, target, resps and filtered_resps" if is_ours else None

    def stated(self, opened: Opened) -> Stated:
        """The generation's arguments, as far as they decide how tokens were sampled."""
        given = _arguments(opened.first[0])[1]
        given = given if isinstance(given, dict) else {}
        greedy = given.get("do_sample") is False
        return Stated(
            temperature=0.0 if greedy else given.get("temperature") if given.get("do_sample") else None,
            top_p=1.0 if greedy else given.get("top_p"),
            max_new_tokens=given.get("max_gen_toks"),
            **own_settings(opened.first[0].get("stapo_bench"), opened.name),
        )

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """Every repeat of every problem, then what further filters said of them."""
        first_filter: Any = None
        for number, row in enumerate(opened.rows(), start=1):
            texts = row["resps"][0] if isinstance(row.get("resps"), list) and row["resps"] else None
            if not isinstance(texts, list):
                raise StapoError(f"{opened.name}: row {number}: expected a list of lists for resps; repair it")
            if any(not isinstance(text, str | None) for text in texts):
                raise StapoError(
                    f"{opened.name}: its answers are log-likelihoods of given choices, without a text to grade: "
                    "another kind of task"
                )
            first_filter = row.get("filter") if number == 1 else first_filter
            again = row.get("filter") != first_filter
            verdicts = _verdicts(row) if len(texts) == 1 else {}
            for text in map(completion_text, texts[:1] if again else texts):
                yield Answer(
                    completion=text,
                    question=_question(row),
                    gold=gold_text(row.get("target")),
                    item=str(row["doc_id"]),
                    verdicts=verdicts,
                    extracted=_filtered(row, text),
                    again=again,
                )


class Lighteval:
    """A row per problem: the document, the model's texts, and metrics over all of them."""

    name = "lighteval"
    reported = "lighteval"

    def fits(self, opened: Opened) -> str | None:
        """By the columns of its details."""
        is_ours = opened.first and all(
            {"doc", "model_response", "metric"} <= row.keys() and isinstance(row["doc"], dict) for row in opened.first
        )
        return "its rows have doc, model_response and metric" if is_ours else None

    def stated(self, opened: Opened) -> Stated:
        """Nothing: that stands in the results."""
        return Stated()

    def answers(self, opened: Opened) -> Iterator[Answer]:
        """Every text of every problem; a metric says something of a sample only where there is one."""
        for number, row in enumerate(opened.rows()):
            texts = value_at(row, "model_response.text")
            if not isinstance(texts, list) or any(not isinstance(text, str | None) for text in texts):
                raise StapoError(f"{opened.name}: row {number + 1}: expected texts in model_response; repair it")
            doc, metrics = row["doc"], row["metric"] if isinstance(row["metric"], dict) else {}
            choices, right = doc.get("choices") or [], doc.get("gold_index")
            right = right[0] if isinstance(right, list) and len(right) == 1 else right
            is_one = isinstance(right, int) and 0 <= right < len(choices)
            for text in map(completion_text, texts):
                yield Answer(
                    completion=text,
                    question=doc["query"] if isinstance(doc.get("query"), str) else None,
                    gold=gold_text(choices[right]) if is_one else None,
                    item=None if doc.get("id") is None else str(doc["id"]),
                    verdicts={n: verdict(v) for n, v in metrics.items() if v is not None} if len(texts) == 1 else {},
                    task=doc["task_name"] if isinstance(doc.get("task_name"), str) else None,
                )


def _arguments(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """What the model was given: the prompt and the generation's arguments."""
    given = row.get("arguments")
    if isinstance(given, dict) and given:
        first = next(iter(given.values()))
        if isinstance(first, dict):
            return first.get("arg_0"), first.get("arg_1")
    if isinstance(given, list) and given and isinstance(given[0], list) and len(given[0]) > 1:
        return given[0][0], given[0][1]
    return None, None


def _question(row: Mapping[str, Any]) -> str | None:
    doc = row["doc"] if isinstance(row["doc"], dict) else {}
    for name in _QUESTIONS:
        if isinstance(doc.get(name), str):
            return str(doc[name])
    prompt = _arguments(row)[0]
    return prompt if isinstance(prompt, str) else None


def _verdicts(row: Mapping[str, Any]) -> dict[str, Outcome | None]:
    """By metric and filter; metrics that are no single number say nothing of right and wrong.

    Our task files have three metrics for one verdict, see ``stapo_bench.commands.lm_eval``.
    """
    if {"avg_at_k", *row} >= OWN_METRICS:
        found = None if row["grader_errors"] else Outcome.NO_ANSWER if row["no_answer"] else verdict(row["avg_at_k"])
        return {"avg_at_k": found}
    return {name: verdict(value) for name, value in metrics_of(row).items() if isinstance(value, int | float)}


def metrics_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of lm-eval's metrics in a row, by metric and filter."""
    names = row.get("metrics") or [name for name in row if name not in _BESIDE]
    suffix = "" if row.get("filter") in (None, "none") else f"-{row['filter']}"
    return {f"{name}{suffix}": row.get(name) for name in names}


def _filtered(row: Mapping[str, Any], text: str) -> str | None:
    found = row["filtered_resps"]
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str) and found[0] != text:
        return found[0]
    return None
