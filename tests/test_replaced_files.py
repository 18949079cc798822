"""Files that are made anew are written beside and renamed: the old one or the new one is there, whole."""

import ast
import errno
import os
import stat
from pathlib import Path

import pytest
from parsed import tree_of

from stapo_bench.errors import StapoError
from stapo_bench.runs import store
from stapo_bench.runs.export import export_runs
from stapo_bench.runs.files import open_to_read, own_file, replacing, write_atomically

ROOT = Path(__file__).parents[1]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("old")
    for error in (KeyboardInterrupt, StapoError("damaged"), ValueError):
        with pytest.raises(BaseException), replacing(path) as beside:
            beside.write_text("half")
            raise error
        assert [found.name for found in tmp_path.iterdir()] == ["samples.csv"]
        assert path.read_text() == "old"
    full = r"cannot write .*samples\.csv: No space left on device; make room there and run"
    with pytest.raises(StapoError, match=full), replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write_atomically(path, "new")
    assert path.read_text() == "new"


def test_a_device_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(StapoError, match="expected a file, or a name that is free, got a folder, device or pipe"):
            write_atomically(path, "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_pipes_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for opened in (lambda: open_to_read(tmp_path / "pipe"), lambda: own_file(tmp_path, "pipe")):
        with pytest.raises(StapoError, match="pipe: expected a file of the run's own, got a "):
            opened()


WRITING = {"write_text", "write_bytes", "save_file", "to_parquet", "to_csv", "copy", "copyfile", "move", "savez"}
NOT_RESULTS = {
    "stapo_bench/errors/streams.py": "the null device",
    "train/stapo_train/launch.py": "the null device",
    "stapo_bench/engines/foreign_checkpoint.py": "settings as libraries may read them, in a temporary folder",
    "train/stapo_train/optimizer_file.py": "into a folder that takes its name once it is whole",
    "stapo_bench/runs/importing/unpacking.py": "what an archive holds, in a temporary folder",
    "train/stapo_train/check/ranks.py": "what one process of a check tells another, in a temporary folder",
    "stapo_bench/sampling/merging.py": "into a folder that takes its name once it is whole",
    "train/stapo_train/tiny/random_model.py": "a checkpoint for tests",
}


def writing_calls(path: Path) -> list[str]:
    """Calls that write a whole file, outside ``with replacing(…)`` and ``with whole_folder(…)``."""
    tree = tree_of(path)
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            openers = [item.context_expr.func for item in node.items if isinstance(item.context_expr, ast.Call)]
            if {"replacing", "whole_folder"} & {getattr(function, "id", "") for function in openers}:
                allowed.update(ast.walk(node))
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node in allowed:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [value.value for value in node.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        if name in ("copy", "copyfile", "move") and getattr(getattr(node.func, "value", None), "id", "") != "shutil":
            continue
        writes = name in WRITING or (name == "open" and any(text[:1] in ("w", "x") for text in texts if len(text) < 4))
        if writes:
            found.append(f"{name} in line {node.lineno}")
    return found


def test_results_are_written_beside_and_renamed():
    files = [path for folder in ("stapo_bench", "train/stapo_train") for path in sorted((ROOT / folder).rglob("*.py"))]
    calls = {str(path.relative_to(ROOT)): found for path in files if (found := writing_calls(path))}
    assert len(calls) >= 2  # so that the search finds what there is
    assert {name: found for name, found in calls.items() if name not in NOT_RESULTS} == {}


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_an_export_that_fails_leaves_the_one_before(drawn, tmp_path, name):
    out = tmp_path / name
    export_runs([drawn], out)
    before = out.read_bytes()
    (segment,) = store.segments(drawn)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"boxed", b"bowed")]))
    with pytest.raises(StapoError, match="damaged line"):
        export_runs([drawn], out)
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*s.*") if path.is_file()) == [name]


def test_a_result_is_written_to_what_a_link_of_its_owner_leads_to(drawn, tmp_path):
    (tmp_path / "latest.csv").symlink_to(tmp_path / "today.csv")
    export_runs([drawn], tmp_path / "latest.csv")
    assert (tmp_path / "latest.csv").is_symlink()
    assert (tmp_path / "today.csv").read_bytes().count(b"boxed") == 12
