"""A task of sums small enough for a command line to draw in a moment; imported by the tests of commands."""

import json
from pathlib import Path

NUM_PROBLEMS = 10
EVAL = ("eval", "--engine", "scripted", "--ckpt", "script.yaml", "--decoding", "justrl", "--tasks", "sums.yaml")


def make_sums(folder: Path) -> None:
    """One small task, its data, and a script that is right half the time."""
    rows = [{"id": f"p{i}", "problem": f"{i} + {i}?", "answer": str(2 * i)} for i in range(NUM_PROBLEMS)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(
        f"task: sums\nrepeats: 8\ndoc_to_text: '{{{{problem}}}}'\nmetadata: {{num_problems: {NUM_PROBLEMS}}}\n"
    )
    (folder / "script.yaml").write_text("success: 0.5\n")


def one_line(error: str) -> str:
    """The error output, which has to be a single line."""
    assert error.startswith("stapo-bench: ") and error.count("\n") == 1, error
    return error
