"""Training problems and the order in which they are asked, which depends on the seed alone.

Position p of a run, counted over all its prompts, is problem ``permutation(epoch)[p mod n]`` with epoch = p div n: a
run that resumes at position p needs to remember p alone.
"""

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from stapo_bench.errors import StapoError
from stapo_bench.records import Gold, Problem
from stapo_bench.seeds import derive_seed
from stapo_bench.tasks import check_examples, read_foreign_rows
from stapo_train.data_config import GENERATED, DataConfig


def load_problems(config: DataConfig, seed: int) -> list[Problem]:
    """The filtered problems of a run: a file's or a hub data set's in its order, or generated from the seed.

    Raises:
        StapoError: no problem, a damaged one, or one that ``data.fewshot`` solves.
    """
    problems = _generated(config, seed) if config.source in GENERATED else _read(config)
    check_examples(config.style, problems, "data.fewshot, training data")
    return problems


def _read(config: DataConfig) -> list[Problem]:
    assert config.path is not None
    rows = read_jsonl(config) if config.source == "jsonl" else read_hub(config)
    kept = filter_rows(rows, config)[: config.count]
    if not kept:
        raise StapoError(f"data.path {config.path}: no problem is left of {len(rows)}; loosen the filters under data")
    task = Path(config.path).stem
    return [
        Problem(task=task, problem_id=str(row["id"]), question=row["problem"], gold=Gold(answer=row["answer"]))
        for row in kept
    ]


def _generated(config: DataConfig, seed: int) -> list[Problem]:
    assert config.count is not None
    if config.source == "tiny":
        from stapo_train.tiny.problems import training_problems

        return training_problems(seed, config.count)
    from stapo_bench.tasks import kk, kk_brief, products

    if config.source == "products":
        return [
            Problem(task="products", problem_id=row["id"], question=row["problem"], gold=Gold(answer=row["answer"]))
            for row in products.rows("train", seed, config.count)
        ]

    assert config.people is not None
    in_words = kk.words if config.source == "kk" else kk_brief.words
    asked = map(in_words, kk.training_puzzles(seed, config.count, config.people))
    return [
        Problem(
            task="kk_train",
            problem_id=f"kk-train-{number:05d}",
            question=question,
            gold=Gold(answer=answer, answer_type="text"),
        )
        for number, (question, answer) in enumerate(asked, start=1)
    ]


# --- rows: {"id", "problem", "answer"} and the marks that a file may carry --------------------------------------------


def read_jsonl(config: DataConfig) -> list[dict[str, Any]]:
    """The rows of a file with one JSON object per line; rows without an id get their line number."""
    path = Path(config.path or "")
    if not path.is_file():
        raise StapoError(f"data.path {path}: no such file; expected JSON lines with id, problem, answer")
    rows = []
    for number, row in read_foreign_rows(path):
        for column in config.columns:
            if column not in row:
                raise StapoError(
                    f"{path}, line {number}: expected the columns {' and '.join(config.columns)}, got {', '.join(row)}"
                )
        problem, answer = (row[column] for column in config.columns)
        rows.append({"id": number, **row, **_checked(problem, answer, f"{path}, line {number}")})
    return rows


def read_hub(config: DataConfig) -> list[dict[str, Any]]:
    """The training split of a hub data set; ids are row numbers."""
    from stapo_bench.tasks import Source, read_source

    columns = dict(zip(("problem", "answer"), config.columns, strict=True))
    source = Source(path=config.path, config=config.hub_config, split="train", columns=columns)
    rows = read_source(source, "training data", "or use data.source=jsonl with data.path=FILE")
    return [
        {"id": number, **_checked(row["problem"], row["answer"], f"{config.path}, row {number}")}
        for number, row in enumerate(rows, start=1)
    ]


def _checked(problem: Any, answer: Any, place: str) -> dict[str, str]:
    if not isinstance(problem, str):  # such as a list of chat messages, already in another template
        raise StapoError(f"{place}: expected a problem's text, got {str(problem)[:60]!r}; name another in data.columns")
    if not isinstance(answer, str | int | float) or not str(answer).strip():
        raise StapoError(f"{place}: expected an answer, got {str(answer)[:60]!r}; name another in data.columns")
    return {"problem": problem, "answer": str(answer)}


def filter_rows(rows: Sequence[dict[str, Any]], config: DataConfig) -> list[dict[str, Any]]:
    """The rows that the config's filters leave, in order."""
    golds: dict[str, set[str]] = {}
    for row in rows:
        golds.setdefault(_text_key(row["problem"]), set()).add(row["answer"].strip())
    overlapping = _overlapping(rows, config) if config.drop_eval_overlap else frozenset()
    kept, seen = [], set()
    for place, row in enumerate(rows):
        key = _text_key(row["problem"])
        conflict = len(golds[key]) > 1 or row.get("conflicting_answers")
        repeated = key in seen or row.get("near_duplicate_of")
        seen.add(key)
        if config.language is not None and row.get("language", language_of(row["problem"])) != config.language:
            continue
        if config.deduplicate and (conflict or repeated):
            continue
        if place not in overlapping:
            kept.append(row)
    return kept


def _text_key(text: str) -> str:
    """The text without the spacing and markup in which copies of one problem differ."""
    return re.sub(r"[\s$\\{}]+", "", text).casefold()


def language_of(text: str) -> str:
    """``zh`` where there is a Chinese character, else ``en``: the two languages of DAPO-Math-17K.

    >>> language_of("设 x = 2"), language_of("Let x = 2")
    ('zh', 'en')
    """
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"


def _overlapping(rows: Sequence[dict[str, Any]], config: DataConfig) -> frozenset[int]:
    """Indices of rows that contain an evaluation problem: by the file's marks, else by shared word sequences."""
    if any("eval_overlap" in row for row in rows):
        return frozenset(place for place, row in enumerate(rows) if row.get("eval_overlap"))
    from stapo_bench import tasks

    folder = Path(config.eval_dir) if config.eval_dir else None
    evaluated = [p for name in tasks.task_names("paper") for p in tasks.load_problems(tasks.load_task(name), folder)]
    return frozenset(row - 1 for _, row, _ in tasks.contained(evaluated, (row["problem"] for row in rows)))


# --- order ------------------------------------------------------------------------------------------------------------


def problem_indices(num_problems: int, seed: int, position: int, count: int) -> list[int]:
    """Which problems stand at positions ``position`` to ``position + count - 1`` of a run.

    >>> problem_indices(3, seed=0, position=0, count=3) == problem_indices(3, seed=0, position=3, count=3)
    False
    """
    places = (divmod(p, num_problems) for p in range(position, position + count))
    return [_permutation(num_problems, seed, epoch)[place] for epoch, place in places]


@lru_cache(maxsize=2)  # an iteration may span two epochs
def _permutation(num_problems: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(num_problems))
    random.Random(derive_seed(seed, "data order", epoch)).shuffle(order)
    return tuple(order)
