"""What compares, imports, grades and reports needs nothing that Windows or macOS lacks.

Commands run in processes without fcntl, resource, fork, /proc, interval timers, poll and the fsync of a folder, under
spawn and with cp1252 for whatever names no encoding (``tests/bare_platform``), in folders with spaces in their names.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from parsed import nodes_of

ROOT = Path(__file__).resolve().parent.parent
BARE = ROOT / "tests" / "bare_platform"
ODD_NAME = "back slash é.csv" if os.name == "nt" else "back\\slash é.csv"  # a name here, a path there


COMMANDS = """
import json, sys
from stapo_bench.cli import cli
from stapo_bench.errors import safe_output

with safe_output():
    for arguments in json.loads(sys.argv[1]):
        cli(arguments, standalone_mode=False)
        print("-----")
"""


def bare(*arguments, cwd, code="from stapo_bench.__main__ import main; main()"):
    """A program on the bare platform: its standard output; its errors are the test's."""
    paths = os.pathsep.join(map(str, (BARE, ROOT, ROOT / "train", ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, (arguments, done.stderr.decode("cp1252"))
    return done.stdout.decode("cp1252")


@pytest.fixture
def folder(tmp_path):
    """A folder with a space in its name."""
    place = tmp_path / "with a space"
    place.mkdir()
    return place


def answers(path: Path, shift: int) -> None:
    """Samples of four problems, three each, as Qwen2.5-Math's evaluation writes them; the gold of problem n is n."""
    rows = [
        {
            "idx": number,
            "question": f"Welche Zahl folgt auf {number - 1}? ¿π?",
            "gt_cot": "None",
            "gt": str(number),
            "code": [f"Es ist größer: \\boxed{{{number + (sample + shift) % 3}}}. π"],
            "pred": [str(number)],
            "report": [None],
            "score": [True],
        }
        for number in range(3, 7)
        for sample in range(3)
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def test_the_blocks_block(folder):
    code = "import os, select, signal, sys, multiprocessing\n" + "\n".join(
        f"try:\n    import {name}\n    raise SystemExit('{name}')\nexcept ModuleNotFoundError: pass"
        for name in ("fcntl", "resource")
    )
    code += """
assert not hasattr(os, "fork") and not hasattr(signal, "setitimer") and not hasattr(select, "poll")
assert multiprocessing.get_start_method() == "spawn"
from pathlib import Path
Path("x").write_text("é")
assert Path("x").read_bytes() == b"\\xe9"
for act in (lambda: Path("/proc/self/stat").read_text(encoding="utf-8"), lambda: os.fsync(os.open(".", os.O_RDONLY))):
    try:
        act()
        raise SystemExit("not blocked")
    except OSError: pass
"""
    bare(cwd=folder, code=code)


def test_two_files_are_compared_and_judged(folder):
    a, b = folder / ODD_NAME, folder / "b c.csv"
    for path, name in ((a, "main"), (b, "better")):
        path.write_bytes((ROOT / "tests" / "data" / "gate" / f"{name}.csv").read_bytes())
    said = bare("compare", a.name, b.name, "--require", "not-worse-than", "0.01", cwd=folder)
    assert said.startswith(f"**Passed**: it is shown that b c is at most 1 point worse than {Path(ODD_NAME).stem}.")
    found = json.loads(bare("compare", a, b, "--format", "json", cwd=folder))
    assert (found["average"]["a"], found["average"]["b"]) == (121 / 240, 150 / 240)
    files = [a.name, b.name]
    commands = [
        ["score", *files[:1]],
        ["plan", *files, "--detect", "0.02"],
        ["curve", *files],
        ["audit", *files],
        ["report", *files, "-o", "two files é.html"],
    ]
    said = bare(json.dumps(commands), cwd=folder, code=COMMANDS).replace("\r\n", "\n").split("-----\n")
    score, plan, curve, audit, report, end = said
    assert "50.42" in score and "b c" in plan and "b c" in curve and "**Nothing found.**" in audit and end == ""
    assert "tables have no samples" in report
    assert "62.50" in (folder / "two files é.html").read_text(encoding="utf-8")


@pytest.mark.slow(reason="nine commands, and the grading processes that they start, on the bare platform")
def test_import_grade_score_table_compare_audit_report_and_export(folder):
    runs = ("runs of mine/one", "runs of mine/two")
    for run, shift in zip(runs, (0, 1), strict=True):
        answers(folder / f"{Path(run).name} é.jsonl", shift)
    commands = [
        *(["import", f"{Path(run).name} é.jsonl", "--out", run, "--model", "Modell ü"] for run in runs),
        ["grade", runs[0], "--grader", "strict"],
        ["score", runs[0]],
        ["table", *runs],
        ["audit", runs[0]],
        ["compare", *runs],
        ["report", *runs, "-o", "the report.html"],
        ["export", runs[0], "-o", "out é.csv"],
    ]
    said = bare(json.dumps(commands), cwd=folder, code=COMMANDS).replace("\r\n", "\n").split("-----\n")
    *imported, graded, score, table, audit, compare, _, exported, end = said
    assert all("12 samples imported from 1 file" in text for text in imported) and end == ""
    assert "strict-1: 12 samples graded" in graded
    assert "33.33" in score  # of three samples that answer n, n + 1, n + 2 the first is right; one place on, the third
    assert "Modell ü" in table
    assert "**Nothing found.**" in audit
    assert "0.0 points" in compare.splitlines()[0]
    page = (folder / "the report.html").read_text(encoding="utf-8")
    assert "Modell ü" in page and "one" in page
    assert "12 samples written" in exported
    assert "größer" in (folder / "out é.csv").read_text(encoding="utf-8-sig")


@pytest.mark.slow(reason="a grader that sleeps is waited for, four seconds")
def test_a_grade_that_never_ends_is_ended_and_the_others_are_kept(folder):
    code = """
from stapo_bench.grading.pool import GraderPool, Limits
from stapo_bench.grading.registry import Grader

faulty = Grader(name="faulty", summary="fails on demand", module="faulty_graders")
with GraderPool(1, grader=faulty, limits=Limits(cpu_s=0.4, asleep_s=4.0)) as pool:
    found = pool.grade([(text, "42") for text in ("42", "hang in python", "sleep", "exit", "burn", "raise")])
print(*(f"{grade.outcome.value} {grade.detail}" for grade in found), sep="\\n")
"""
    assert bare(cwd=folder, code=code).splitlines() == [
        "CORRECT compared",
        "GRADER_ERROR timed out: more than 0.4 s of CPU time",
        "GRADER_ERROR asleep: no CPU time used in 4 s",
        "GRADER_ERROR ended with exit code 3",
        "INCORRECT compared",
        "GRADER_ERROR raised ValueError: no such thing",
    ]


SOURCES = [path for room in ("stapo_bench", "train") for path in (ROOT / room).rglob("*.py")]
READ_OR_WRITTEN = {"open", "read_text", "write_text", "fdopen"}


def nameless(path: Path, nodes: Iterable[ast.AST]) -> list[str]:
    """Places where a text file, or a process's output, is read or written in an encoding that nobody names."""
    found = []
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        given = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        is_binary = any(isinstance(value, str) and "b" in value and len(value) <= 3 for value in given)
        is_binary |= "b" in str(getattr(named.get("mode"), "value", ""))
        is_path = name in ("read_text", "write_text") or (name == "open" and "PathType" not in ast.dump(call))
        if name in READ_OR_WRITTEN and is_path and not is_binary and "encoding" not in named and given_is_file(call):
            found.append(f"{path.name}:{call.lineno}: {name} without encoding=")
        if "text" in named and "encoding" not in named and "capture_output" in named:
            found.append(f"{path.name}:{call.lineno}: text=True without encoding=")
    return found


def given_is_file(call: ast.Call) -> bool:
    """Whether a call named ``open`` opens a file: Python's own, or a path's, which names a mode at most."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "open"
    if call.func.attr != "open":
        return call.func.attr != "fdopen"
    modes = {"r", "w", "a", "x", "r+", "w+", "a+"}
    return all(isinstance(a, ast.Constant) and a.value in modes for a in call.args) and bool(call.args)


def test_every_text_file_is_opened_in_a_named_encoding():
    assert len(SOURCES) > 250
    found = [place for path in SOURCES for place in nameless(path, nodes_of(path))]
    assert found == []
    for text in ("open(p)", "open(p, 'w')", "p.read_text()", "p.write_text(t)", "p.open('a')"):
        assert len(nameless(BARE, ast.walk(ast.parse(text)))) == 1
    assert len(nameless(BARE, ast.walk(ast.parse("run(c, capture_output=True, text=True)")))) == 1
    for text in ("open(p, 'rb')", "open(p, encoding='utf-8')", "p.open('wb')", "GraderPool.open(x, y)", "p.open()"):
        assert nameless(BARE, ast.walk(ast.parse(text))) == [] or text == "p.open()"


def test_the_workflow_names_every_platform_and_runs_what_is_there():
    text = (ROOT / ".github" / "workflows" / "platforms.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["two-files"]
    assert job["strategy"]["matrix"]["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    named = [word for step in job["steps"] for word in step.get("run", "").split() if word.startswith("tests/")]
    assert len(named) == 6 and all((ROOT / name).exists() for name in named)
