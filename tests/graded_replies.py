"""Replies written by hand, by topic: ``tests/grading_replies/*.jsonl``, with what the grader makes of each.

A line is a question, a reply, the gold, and by hand whether the reply is ``correct``; ``graded`` is written by

    python tests/graded_replies.py

to be run, and its difference read, after a rule of grading has changed: outcome, extracted answer and rule. Where the
outcome and ``correct`` differ the grader is known to be wrong. It writes ``tests/answer_trees.jsonl``, too.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import answer_trees

from stapo_bench.grading import grade_answer

TOPICS = sorted((Path(__file__).parent / "grading_replies").glob("*.jsonl"))


def replies(topic: Path) -> list[dict[str, Any]]:
    """The cases of a topic."""
    return [json.loads(line) for line in topic.read_text(encoding="utf-8").splitlines()]


def graded(case: Mapping[str, Any]) -> list[str | None]:
    """What the grader makes of a case today: outcome, extracted answer, rule."""
    grade = grade_answer(case["completion"], case["gold"], question=case["question"])
    return [grade.outcome.value, grade.extracted, grade.detail]


def misses(cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The cases whose stored verdict is not the one given by hand."""
    yield from (case for case in cases if (case["graded"][0] == "CORRECT") is not case["correct"])


def main() -> None:
    """Grade every case again and write ``graded``; print what is missed, and what changed."""
    total = wrong = changed = 0
    for topic in TOPICS:
        cases = replies(topic)
        now = [case | {"graded": graded(case)} for case in cases]
        changed += sum(a != b for a, b in zip(cases, now, strict=True))
        for case in misses(now):
            verdict = f"{case['graded'][0]} {case['graded'][1]!r}, gold {case['gold']!r}"
            print(f"{topic.stem}: {verdict}: {case['completion'][-120:]!r}")
            wrong += 1
        total += len(now)
        text = "".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n" for case in now)
        topic.write_text(text, encoding="utf-8")
    print(f"{total} replies, {wrong} missed, {changed} graded otherwise than before", file=sys.stderr)
    changed = answer_trees.write([text for text, _ in answer_trees.readings()])
    print(f"{changed} answers are read otherwise than before", file=sys.stderr)


if __name__ == "__main__":
    main()
