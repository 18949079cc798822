"""Text of strangers in every output: planted in names of runs, tasks, problems, methods and files, it acts nowhere."""

import ast
import csv
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from parsed import nodes_of

from stapo_bench.errors import SafeStream, safe_text
from stapo_train import cli as train_cli

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = (
    "=cmd|' /C x'!A0\n# fake\r\x1b]52;c;aGk=\x07\x1b[2J\u202e\u200b\u2028<img src=x onerror=1>[a](b)&%$#_{}~^\\end"
)
FILE = HOSTILE.replace("/", "") + "\udcff"  # a name in a file system: bytes that are no UTF-8
ROWS = [[1.0, 0.0, 1.0, 0.5], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]


def about(name: str) -> dict:
    return {
        "model": f"model {HOSTILE}",
        "method": f"{name} {HOSTILE}",
        "regime": f"regime {HOSTILE}",
        "commit": HOSTILE[:12],
        "checkpoint": f"ckpt/{HOSTILE}",
        "step": 1,
        "tasks": {
            f"task {HOSTILE}": {
                "title": f"title {HOSTILE}",
                "num_problems": 3,
                "num_samples": 4,
                "problem_ids": [f"task {HOSTILE}-{i}" for i in range(3)],
            }
        },
    }


@pytest.fixture
def runs(make_run, monkeypatch, tmp_path):
    """Runs whose every name is hostile; all but C and D under one regime."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STAPO_BENCH_DATA", raising=False)
    return [
        make_run(
            f"{name}{FILE}",
            {f"task {HOSTILE}": ROWS[i % 2 :] + ROWS[: i % 2]},
            about=about(name),
            grader="math-3",
            identity={
                "engine": {"name": HOSTILE},
                "seed": i,
                "checkpoint": {"digest": "AB"[i % 2]},
                "sampling": {"temperature": 0.7 if name in "CD" else 1.0, "top_p": 1.0, "max_new_tokens": 64},
            },
        )
        for i, name in enumerate("ABCDEF")
    ]


def unseen(text: str) -> set[str]:
    """The characters that act, or that nobody sees."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


def check_markdown(text: str) -> None:
    """Every line is ours, and every table's rows have as many cells as its header."""
    assert "# fake" not in {line.strip() for line in text.splitlines()}
    width = 0
    for line in text.split("\n"):
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        assert width in (0, cells), line
        width = cells
    assert not re.search(r"(?<!\\)<[A-Za-z/!?]", text)
    assert "](" not in text


MARKDOWN = (
    ("table", 4),
    ("table", 4, "--metric", "pass@2"),
    ("table", 4, "--long"),
    ("compare", 0, "--seeds", "[AE]*", "[BF]*"),
    ("compare", 2),
    ("plan", 2, "--detect", "0.1"),
    ("audit", 1),
    ("audit", 2),
    ("curve", 2),
    ("regimes", 4),
    ("truncation", 1),
)


@pytest.mark.parametrize(("name", "count", "more"), [(c[0], c[1], c[2:]) for c in MARKDOWN])
def test_markdown_stays_what_it_is(runs, stapo, name, count, more):
    code, out, err = stapo(name, *runs[:count], *more)
    assert (code, err) == (0, "")
    assert not unseen(out)
    check_markdown(out)


@pytest.mark.parametrize(
    ("name", "count", "more"),
    [("table", 2, ()), ("compare", 2, ()), ("plan", 2, ("--detect", "0.1")), ("audit", 1, ()), ("curve", 2, ()),
     ("regimes", 4, ())],
)  # fmt: skip
def test_json_stays_json_and_holds_the_true_names(runs, stapo, name, count, more):
    code, out, _ = stapo(name, *runs[:count], *more, "--format", "json")
    assert code == 0
    assert not unseen(out)
    found = json.dumps(json.loads(out))
    truth = {"table": f"A {HOSTILE}", "audit": ""}.get(name, runs[0].name)
    assert json.dumps(truth)[1:-1] in found


def test_csv_has_its_rows_and_no_formula(runs, stapo):
    code, out, _ = stapo("table", *runs[:4], "--format", "csv")
    header, *rows = csv.reader(io.StringIO(out))
    assert code == 0 and not unseen(out)
    assert [len(row) for row in rows] == [len(header)] * 8  # four runs: one task, and the average
    assert not [cell for row in rows for cell in row if re.match(r"\s*[=+@]|\s*-\D", cell)]
    assert {row[header.index("method")] for row in rows} == {
        f"{name} {safe_text(HOSTILE, 'csv')[1:]}" for name in "ABCD"
    }


def test_latex_has_no_macro_of_theirs(runs, stapo):
    code, out, _ = stapo("table", *runs[:4], "--format", "latex")
    assert code == 0 and not unseen(out)
    rows = [line for line in out.splitlines() if line.endswith(r" \\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [5] * 5
    assert r"\end" not in out.replace(r"\end{tabular}", "")
    assert r"\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}end" in out


@pytest.mark.parametrize("name", ["accuracy", "budget", "problems", "pass-at-k", "differences", "ablation"])
def test_figures_are_drawn(runs, stapo, tmp_path, name):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"{name}.svg"
    code, said, err = stapo("plot", name, *runs[:2], "-o", out)
    if code:  # a figure that these runs hold no data for
        assert "unexpected" not in err and not unseen(err) and err.count("\n") == 1
        return
    assert not unseen(said) and said.count("\n") == 1
    assert not unseen(out.read_text())
    from xml.etree import ElementTree

    ElementTree.parse(out)


def test_the_page_holds_them_as_text(runs, stapo, tmp_path):
    code, said, err = stapo("report", *runs[:2], "-o", tmp_path / "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert not unseen(said + err + page)
    assert "<img src=x" not in page
    assert r"\u202e" in page


def test_tasks_and_errors_are_lines(stapo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metadata = {"num_problems": 1, "title": HOSTILE, "suite": HOSTILE, "licence": HOSTILE, "notes": HOSTILE}
    task = {"task": "sums", "repeats": 1, "doc_to_text": "{{problem}}", "metadata": metadata}
    (tmp_path / "sums.yaml").write_text(json.dumps(task))
    code, out, _ = stapo("tasks", "sums.yaml")
    assert code == 0 and not unseen(out)
    assert [line[:10] for line in out.splitlines()][:3] == ["sums", "  title: =", "  suite: ="]
    for arguments in (
        ["score", FILE],
        ["tasks", HOSTILE],
        ["compare", FILE, FILE],
        [HOSTILE],
        ["eval", f"--{HOSTILE}"],
    ):
        code, out, err = stapo(*arguments)
        assert code in (1, 2) and out == ""
        assert err.startswith("stapo-bench: ") and err.count("\n") == 1
        assert not unseen(err)


def test_the_trainer_s_tables_and_errors_are_lines(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["stapo-train", "stability", str(tmp_path / FILE)])
    with pytest.raises(SystemExit):
        train_cli.main()
    err = capsys.readouterr().err
    assert err.startswith("stapo-train: ") and err.count("\n") == 1 and not unseen(err)
    from stapo_train.inspect.show import table

    check_markdown(table(["a", HOSTILE], [["1", HOSTILE]]))
    assert not unseen(table(["a", HOSTILE], [["1", HOSTILE]]))


def test_while_sampling_they_are_lines(stapo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metadata = {"num_problems": 1, "title": HOSTILE}
    task = {"task": "sums", "repeats": 2, "doc_to_text": "{{problem}}", "metadata": metadata}
    (tmp_path / "sums.yaml").write_text(json.dumps(task))
    (tmp_path / "sums.jsonl").write_text(json.dumps({"id": HOSTILE, "problem": HOSTILE, "answer": HOSTILE}) + "\n")
    (tmp_path / "script.yaml").write_text("success: 0.5\n")
    options = ("--ckpt", "script.yaml", "--decoding", "justrl", "--tasks", "sums.yaml", "--data-dir", ".")
    code, out, err = stapo("eval", "--engine", "scripted", *options, "--out", FILE)
    assert code == 0, err
    assert not unseen(out + err)
    assert all(re.match(r"run folder|sums |task |all |\d+ ", line) for line in err.splitlines()), err
    check_markdown(out)
    (table,) = tmp_path.glob("*/table.md")
    check_markdown(table.read_text())
    assert not unseen(table.read_text())
    code, out, err = stapo("score", FILE)
    assert code == 0 and not unseen(out + err)
    check_markdown(out)
    code, out, err = stapo("export", FILE, "-o", "samples.csv")
    assert code == 0, err
    with (tmp_path / "samples.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    assert len(rows) == 2
    assert not [cell for row in rows for cell in row if re.match(r"\s*[=+@]|\s*-\D", cell)]


@pytest.mark.slow(reason="six commands, each a process of its own")
def test_a_closed_or_full_standard_error_ends_nothing_and_a_full_output_is_an_error(tmp_path):
    metadata = {"num_problems": 1, "title": "Sums"}
    task = {"task": "sums", "repeats": 2, "doc_to_text": "{{problem}}", "metadata": metadata}
    (tmp_path / "sums.yaml").write_text(json.dumps(task))
    (tmp_path / "sums.jsonl").write_text('{"id": "1", "problem": "1+1", "answer": "2"}\n')
    (tmp_path / "script.yaml").write_text("success: 1\n")
    options = "--ckpt script.yaml --decoding justrl --tasks sums.yaml --data-dir ."
    line = f"{sys.executable} -m stapo_bench eval --engine scripted {options} --out"

    def shell(command: str) -> tuple[int, str, str]:
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, err = shell(f"{line} plain")
    assert code == 0 and err.startswith("run folder: plain\n")
    for end in ("2>&-", "2>/dev/full", "2>&- <&-"):
        assert shell(f"{line} run{len(end)} {end}") == (0, out.replace("plain", f"run{len(end)}"), "")
        stored = b"".join(path.read_bytes() for path in tmp_path.glob(f"run{len(end)}/samples/*"))
        assert stored.count(b"\n") == 2 and b"run folder" not in stored
    assert shell(f"{line} other --samples 0 2>/dev/full") == (2, "", "")  # the exit code stays the command's
    code, _, err = shell(f"{line} full >/dev/full")
    assert code == 1 and err.splitlines()[-1].startswith("stapo-bench: No space left on device")


def test_a_stream_without_the_characters_gets_their_escapes():
    raw = io.BytesIO()
    stream = SafeStream(io.TextIOWrapper(raw, encoding="ascii"), is_result=True)
    print("– \x1b[2J", file=stream)
    stream.flush()
    assert raw.getvalue() == b"\\u2013 \\x1b[2J\n"


def test_nothing_is_written_past_the_one_place():
    """Lines are told, tables are echoed by commands: no other text of the harness goes to a stream."""
    printed = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "stapo_bench").rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printed == {"stapo_bench/errors/interrupts.py", "stapo_bench/errors/streams.py"}


def test_what_is_seen_is_left_alone():
    for text in ("STAPO ×2 – 20 % [49.9, 50.1]† ±1.5", "モデル Größe", "<0.0001", "x < 3", "$x^2$"):
        assert safe_text(text, "terminal") == safe_text(text, "markdown") == text
    assert [safe_text(text, "csv") for text in ("-1.50", "+2", "1e-5", "–", "-x", "@a", " =1")] == [
        "-1.50", "+2", "1e-5", "–", "'-x", "'@a", "' =1",
    ]  # fmt: skip
    assert safe_text("a\\|b", "markdown") == "a\\\\\\|b"  # the bar is escaped, whoever counts the backslashes
    assert os.linesep == "\n"
