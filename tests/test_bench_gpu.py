"""The page of predictions for a first run on a GPU: its tests exist, its table is today's, its command can fail."""

import ast
import json
from pathlib import Path

import pytest

from bench import gpu
from bench.gpu_predictions import PREDICTIONS

ROOT = Path(__file__).resolve().parent.parent


def test_the_pages_table_is_the_rendered_one():
    assert gpu.render(gpu.stored_rows()) in gpu.PAGE.read_text(encoding="utf-8"), "run python -m bench.gpu --table"


def test_every_check_that_is_named_exists():
    for one in PREDICTIONS:
        for name in one.checked:
            file, _, test = name.partition("::")
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            assert not test or test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
    assert len({one.name for one in PREDICTIONS}) == len(PREDICTIONS)
    assert all(bool(one.command) != bool(one.by_hand) for one in PREDICTIONS)


def test_without_a_gpu_nothing_is_run(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "gpu_names", list)
    monkeypatch.setattr(gpu, "run", lambda _: pytest.fail("a command was run"))
    monkeypatch.setattr("sys.argv", ["bench.gpu"])
    assert gpu.main() == 2
    assert capsys.readouterr().err.splitlines() == [
        "bench.gpu: expected an NVIDIA GPU (nvidia-smi -L), found none; nothing was run"
    ]


def test_a_run_fills_the_last_column_and_fails_where_a_repair_does_not_hold(monkeypatch, tmp_path, capsys):
    from dataclasses import replace

    commands = ("echo fine", "echo Traceback; echo it broke >&2; exit 3", None, "echo never")
    chosen = [
        replace(one, command=command, by_hand="" if command else "two nodes", gpus=2 if number == 3 else 1)
        for number, (one, command) in enumerate(zip(PREDICTIONS[:4], commands, strict=True))
    ]
    monkeypatch.setattr(gpu, "PREDICTIONS", chosen)
    monkeypatch.setattr(gpu, "gpu_names", lambda: ["GPU 0: NVIDIA H200"])
    monkeypatch.setattr(gpu, "STORED", tmp_path / "gpu.json")
    monkeypatch.setattr(gpu, "PAGE", tmp_path / "gpu.md")
    gpu.PAGE.write_text(f"before\n{gpu.BEGIN}old\n{gpu.END}after\n")
    monkeypatch.setattr("sys.argv", ["bench.gpu"])
    assert gpu.main() == 1
    rows = json.loads(gpu.STORED.read_text())["rows"]
    assert [(row["held"], row["said"]) for row in rows.values()] == [(True, "fine"), (False, "it broke")]
    page = gpu.PAGE.read_text()
    cells = [line.split(" | ")[-1] for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert cells[0].startswith("holds (NVIDIA H200, 20") and cells[1].startswith("does not hold: it broke (NVIDIA H200")
    assert cells[2:] == ["not run; by hand: two nodes |", "not run; needs 2 GPUs |"]
    assert page.startswith("before\n") and page.endswith("after\n")
