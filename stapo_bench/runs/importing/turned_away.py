"""Files that hold no samples, and the reason in words: metrics, settings, problems alone, programs."""

from collections.abc import Callable

from stapo_bench.runs.importing.opening import Opened
from stapo_bench.runs.importing.plain import USUAL

_Test = Callable[[Opened], bool]


def _document(*names: str) -> _Test:
    def test(opened: Opened) -> bool:
        return opened.kind in ("json", "json lines") and set(names) <= opened.document.keys()

    return test


def _rows(*names: str, without: tuple[str, ...] = ()) -> _Test:
    def test(opened: Opened) -> bool:
        return bool(opened.first) and all(
            set(names) <= row.keys() and not set(without) & row.keys() for row in opened.first
        )

    return test


def _programs(opened: Opened) -> bool:
    """Program-of-Thoughts: a first row with the prompt, then rows with programs and what they gave."""
    return bool(opened.first) and any("generated" in row for row in opened.first[1:])


_TEXTS = (*USUAL["completion"], "generated_solution", "resps", "code", "choices")

REASONS: tuple[tuple[_Test, str], ...] = (
    (_document("results", "configs", "versions"), "metrics of lm-eval without texts; import its samples_*.jsonl"),
    (_document("metrics", "num_instances"), "metrics of OLMES without texts"),
    (_document("all_primary_scores", "tasks"), "metrics of OLMES without texts"),
    (_document("n_items", "n_generations"), "counts and lengths without texts"),
    (_document("dataset_name", "model_name", "score"), "a report of evalscope without texts; import its reviews"),
    (_document("num_examples", "rollouts_per_example"), "the settings of an evaluation; import its results.jsonl"),
    (_rows("index", "model_output", "messages"), "predictions of evalscope without golds; import its reviews"),
    (_rows("predicted_answer", without=_TEXTS), "outcomes without texts: there is nothing to grade"),
    (_programs, "programs, and not answers: another kind of task"),
    (lambda o: bool(o.first) and "spec" in o.first[0], "a record of OpenAI's evals: events, not samples"),
    (_rows("source", "output", "target", "expected"), "cases for a scorer, not samples of a model"),
    (_rows("context", "choices"), "answers of an API without golds, and to a prompt of several problems"),
    (_rows("question", "answer", without=_TEXTS), "problems with their golds, and no model's answers"),
    (_rows("question", "ground_truth"), "several models in one row; name one: --map completion=MODEL.solution,…"),
    (lambda o: o.kind == "table" and "input" in o.first[0], "outcomes without texts: there is nothing to grade"),
    (lambda o: o.kind == "zip" and "xl/workbook.xml" in o.members(), "a spreadsheet; save it as CSV"),
    (
        lambda o: o.kind == "zip",
        "an archive; name it, or the folder of one model in it (ARCHIVE.zip/FOLDER), by itself",
    ),
    (lambda o: o.kind == "text", "neither JSON, nor a table, nor Parquet"),
)
"""Tests in order, each with what the file is."""


def reason(opened: Opened) -> str | None:
    """What a file is that cannot be imported; None where that is not known."""
    return next((why for test, why in REASONS if test(opened)), None)
