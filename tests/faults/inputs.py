"""Bad input, made by hypothesis: task files, data, configs, command lines, completions.

Each case is one clear line and exit code 1 or 2 (or harmless, and exit code 0); no traceback, no "unexpected", no run
folder with samples in it, and nothing that was planted runs.
"""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.faults.bench import Bench, grades
from tests.faults.process import start
from tests.faults.trial import BrokenError, Fault, Trial, check

Judge = Callable[[Any], None]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**30, -1, 0, 1.5]),
    st.floats(),
    TEXT,
    st.just("../../x"),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)


def try_cases(strategy: st.SearchStrategy[Any], count: int, rng: Random, judge: Judge) -> Trial:
    """Judge ``count`` cases; count those that break something and describe the first."""
    broken: list[str] = []
    num_cases = 0

    @seed(rng.getrandbits(32))
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(case: Any) -> None:
        nonlocal num_cases
        num_cases += 1
        try:
            judge(case)
        except BrokenError as error:
            broken.append(f"{error} ({repr(case)[:200]})")

    run()
    return Trial(injected=num_cases, broken=len(broken), note="; ".join(broken[:3]))


def mutated(values: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A good mapping with one place, at any depth, replaced, dropped or added."""

    @st.composite
    def change(draw: st.DrawFn) -> dict[str, Any]:
        whole = json.loads(json.dumps(values))
        place = whole
        while True:
            key = draw(st.sampled_from(sorted(place)))
            if not isinstance(place[key], dict) or not place[key] or draw(st.booleans()):
                break
            place = place[key]
        action = draw(st.sampled_from(["replace", "replace", "replace", "drop", "add"]))
        if action == "drop":
            del place[key]
        else:
            place[draw(TEXT) if action == "add" else key] = draw(VALUES)
        return whole  # type: ignore[no-any-return]

    return change()


def refused(command: list[object], folder: Path, *codes: int) -> None:
    """Check that the command succeeds, or fails with one line and without having sampled anything."""
    done = start(command, folder / "output")
    if done.wait(90) != 0:
        done.fail(*(codes or (1, 2)))
        left = {path.name for path in (folder / "run").rglob("*")} - {".lock", "config.yaml"}  # a run that never began
        check(not left, f"left behind: {', '.join(sorted(left))}")
    check("Traceback" not in done.err, f"a traceback: {done.err[-300:]}")
    check(not (folder / "planted").exists(), "planted code ran")
    shutil.rmtree(folder / "run", ignore_errors=True)
    shutil.rmtree(folder / "output", ignore_errors=True)


# -- task files and data ----------------------------------------------------------------------------------------------

TASK = {
    "task": "sums",
    "repeats": 1,
    "doc_to_text": "{{problem}}",
    "test_split": "test",
    "metadata": {
        "num_problems": 2, "version": 1, "title": "Sums", "suite": "x", "integer_answers": False, "answer_type": None,
        "columns": {"problem": "problem", "answer": "answer"}, "digest": "", "prompt_format": "plain", "revision": None,
        "generator": None,
    },
}  # fmt: skip
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
GOOD = json.dumps(TASK)
RAW_TASKS = st.sampled_from(
    [
        BOMB.encode(),
        (BOMB + "task: *j\nrepeats: 1\ndoc_to_text: *j\nmetadata: {num_problems: 2}\n").encode(),
        b"task: !!python/object/apply:os.system ['touch FOLDER/planted']\n",
        b"!!python/object/new:os.system ['touch FOLDER/planted']\n",
        b"task: !function os.system\nrepeats: 1\ndoc_to_text: !function [a, b]\nmetadata: {num_problems: 2}\n",
        b"include: task.yaml\n" + b"task: x\n",
        b"include: ../../../../etc/passwd\n",
        b"include: [a]\n",
        b"\xff\xfe\x00",
        b"",
        b"[]",
        b"a: b: c",
        b"\x00",
        b"{" * 3000,
        b"- " * 3000,
        b"? " * 3000,
        GOOD.replace("sums", "../sums").encode(),
        GOOD.replace("sums", "/etc/passwd").encode(),
        GOOD.replace("sums", "a\\u0000b").encode(),
        GOOD.replace("{{problem}}", "{{ problem.__class__.__mro__[1].__subclasses__() }}").encode(),
        GOOD.replace("{{problem}}", "{% for i in range(10**9) %}x{% endfor %}").encode(),
        GOOD.replace("{{problem}}", "{{ unclosed").encode(),
        GOOD.replace("{{problem}}", "{{ 'x' * 10**10 }}").encode(),
        GOOD.replace("{{problem}}", "{% include '/etc/passwd' %}").encode(),
        GOOD.replace("{{problem}}", "{{ problem / 0 }}").encode(),
    ]
)
ROWS = [{"id": "p1", "problem": "1 + 1?", "answer": "2"}, {"id": "p2", "problem": "1 + 2?", "answer": "3"}]


def task_files(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """Task files with wrong types, missing keys, YAML bombs and tags, and templates that try to escape the sandbox."""

    def judge(case: Any) -> None:
        content = case if isinstance(case, bytes) else json.dumps(case).encode()
        (folder / "task.yaml").write_bytes(content.replace(b"FOLDER", str(folder).encode()))
        refused(evaluation(bench, folder), folder)

    write_rows(folder, b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))
    return try_cases(RAW_TASKS | mutated(TASK) | mutated(TASK) | TEXT.map(str.encode), count, rng, judge)


def data_files(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """Problems as huge lines, invalid UTF-8, ids that repeat, NaN, wrong types."""
    line = st.one_of(
        mutated(ROWS[0]).map(lambda row: json.dumps(row).encode()),
        VALUES.map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=40),
        st.sampled_from(
            [
                json.dumps(ROWS[0]).encode(),
                b'{"id": "p1", "problem": NaN, "answer": NaN}',
                b'{"id": "p1", "problem": "' + b"x" * 2_000_000 + b'", "answer": "1"}',
                b'{"id": "p1", "problem": "x", "answer": ' + b"9" * 5000 + b"}",
                b"[" * 100_000,
                b'{"id": "p1", "problem": "\xff", "answer": "1"}',
                b'{"id": "p1", "problem": "\\ud800", "answer": "1"}',
                b'{"id": "\\u0000/../x", "problem": "q", "answer": "1", "error": "much", "unit": 3}',
                b"",
            ]
        ),
    )

    def judge(lines: list[bytes]) -> None:
        write_rows(folder, b"\n".join(lines) + b"\n")
        refused(evaluation(bench, folder), folder)

    (folder / "task.yaml").write_text(GOOD)
    return try_cases(st.lists(line, min_size=1, max_size=3), count, rng, judge)


def write_rows(folder: Path, content: bytes) -> None:
    """A data file of these rows."""
    (folder / "sums.jsonl").write_bytes(content)


def evaluation(bench: Bench, folder: Path) -> list[object]:
    """The command line of an evaluation of that data."""
    where = ("--tasks", folder / "task.yaml", "--data-dir", folder, "--out", folder / "run")
    script = ("--engine", "scripted", "--ckpt", bench.script())
    return ["stapo-bench", "eval", *script, "--decoding", "justrl", "--max-new-tokens", 64, *where]


# -- configs and command lines ----------------------------------------------------------------------------------------


def configs(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """Training configs and scripts of the scripted engine with something wrong in them."""
    good = json.loads(Path(str(bench.train(folder / "run")[1])).read_text(encoding="utf-8")) | {
        "model": str(folder / "nowhere")
    }
    script = json.loads(bench.script().read_text())
    raw = st.sampled_from(
        [BOMB.encode(), b"defaults: config.yaml\n", b"defaults: [a]", b"\xff", b"a: b: c", b"\x00", b"[]"]
    )

    def judge(case: Any) -> None:
        kind, values = case
        content = values if isinstance(values, bytes) else json.dumps(values).encode()
        (folder / "config.yaml").write_bytes(content)
        command: list[object] = ["stapo-train", folder / "config.yaml"]
        if kind == "script":
            command = evaluation(bench, folder)
            command[command.index("--ckpt") + 1] = folder / "config.yaml"
        refused(command, folder)

    (folder / "task.yaml").write_text(GOOD)
    write_rows(folder, b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))
    both = st.tuples(st.just("train"), mutated(good) | raw) | st.tuples(st.just("script"), mutated(script) | raw)
    return try_cases(both, count, rng, judge)


LINE = """
--ckpt --tasks --samples --seed --shard --out --decoding --engine --grader --golds --data-dir --limit --format --detect
--port -o --train --help --until-width -- - 0 -1 1e9 nan 99999999999999999999 ../../etc /dev/null /proc/self/mem justrl
training aime24 tiny_aime24, , 0/0 1/0 0/1 scripted openai math judge-x ../math x.html x.parquet x.pdf k=v optim.lr=x
seed=1 = a.b.c=1
"""
WORDS = st.sampled_from([*LINE.split(), "a\nb", "\x1b[31m", ""]) | TEXT.filter(lambda text: "\0" not in text)
COMMANDS = st.sampled_from(
    ["eval", "continue", "grade", "score", "table", "truncation", "export", "compare", "plan", "audit", "curve",
     "regimes", "plot", "tasks", "overlap", "report", "evil", ""]
)  # fmt: skip
TRAIN_COMMANDS = st.sampled_from(
    ["run", "pretrain", "replay", "sweep", "audit", "check-objective", "stability", "x.yaml"]
)


def command_lines(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """Words in any order, on a run that is good."""
    run = bench.whole
    line = st.tuples(st.just("stapo-bench"), COMMANDS, st.lists(WORDS | st.just(str(run)), max_size=6)) | st.tuples(
        st.just("stapo-train"), TRAIN_COMMANDS, st.lists(WORDS, max_size=4)
    )

    def judge(case: Any) -> None:
        name, command, words = case
        place = folder / "place"
        place.mkdir(exist_ok=True)
        done = start([name, command, *words], folder / "output", before=partial(os.chdir, place))
        if done.wait(90) != 0:
            done.fail(1, 2)
        check("Traceback" not in done.err, f"a traceback: {done.err[-300:]}")
        shutil.rmtree(place)
        shutil.rmtree(folder / "output")

    return try_cases(line, count, rng, judge)


# -- completions ------------------------------------------------------------------------------------------------------

PIECES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [r"\boxed{", "}", r"\frac{1}{", "{", "^", "$", r"\sqrt", "9" * 2000, "!" * 50, "\x00", "\x1b]0;x\x07", "\u202e",
         r"\text{", r"\begin{pmatrix}", r"10^{10^{10}}", "__import__('os')", "<script>alert(1)</script>", "\ud800",
         r"\sum_{k=1}^{10^9}", "(" * 500, r"\boxed{1/7}", "x" * 300_000, "answer is ", "\\" * 100, "𝟙", "½", "1e999"]
    ),
)  # fmt: skip


def completions(bench: Bench, rng: Random, folder: Path, *, count: int) -> Trial:
    """What a model might write: graded, scored, shown and exported; nothing crashes, hangs or is left without grade."""
    from dataclasses import replace

    from stapo_bench.runs.store import read_samples, sample_to_line

    texts: list[str] = []
    made = try_cases(st.lists(PIECES, min_size=1, max_size=8).map("".join), count, rng, texts.append)
    run = bench.copy(folder)
    (segment,) = (run / "samples").glob("*.jsonl")
    samples = list(read_samples(run))
    check(len(texts) <= len(samples), "more texts than samples")
    lines = [sample_to_line(replace(s, completion=text)) for s, text in zip(samples, texts, strict=False)]
    segment.write_bytes(b"".join(lines))
    shutil.rmtree(run / "grades")
    for command in (
        ["grade", run, "--data-dir", bench.root],
        ["score", run, "--data-dir", bench.root],
        ["export", run, "-o", folder / "x.parquet"],
        ["report", run, "--data-dir", bench.root, "-o", folder / "x.html"],
    ):
        start(["stapo-bench", *command], folder).succeed()
    check(len(grades(run)) == len(texts), f"{len(texts)} completions, {len(grades(run))} grades")
    check("<script>alert(1)</script>" not in (folder / "x.html").read_text(), "a planted script stands in the report")
    return Trial(injected=made.injected)


Inject = Callable[..., Trial]


def batches(name: str, inject: Inject, batch: int, trials: int, quick: int) -> Fault:
    """A fault of many inputs, one batch per trial."""
    return Fault(name=name, unit="cases", trials=trials, quick=quick, inject=partial(inject, count=batch))


FAULTS = (
    batches("bad task files", task_files, 25, 4, 1),
    batches("bad data files", data_files, 25, 4, 0),
    batches("bad configs and scripts", configs, 25, 4, 0),
    batches("bad command lines", command_lines, 25, 6, 0),
    batches("hostile completions", completions, 40, 3, 0),
)
