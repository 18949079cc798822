"""What strangers write in a run, a task or a checkpoint: hostile names, endless templates; and Ctrl-C in an import."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path
from random import Random
from typing import Any

from stapo_bench.runs.nested import canonical_digest
from tests.faults.bench import Bench
from tests.faults.process import start
from tests.faults.trial import Fault, Trial, check

PIECES = (
    "=cmd|' /C calc'!A0", "\n# fake",
    "\r", "\x1b]52;c;aGk=\x07", "\x1b[2J", "\u202e", "\u200b", "\u2028", "<img src=x>",
    "[a](b)", "|", "&%$#_{}~^\\end", "@SUM(1)", "$x$", "\udcff",
)  # fmt: skip
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("table",), ("table", "--long"), ("table", "--format", "csv"), ("table", "--format", "json"),
    ("table", "--format", "latex"), ("score",), ("audit",), ("truncation",),
)  # fmt: skip
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
TEMPLATES = (LOOP, "{{ problem.center(4000000000) }}", "{{ '%4000000000d' % 1 }}", "{{ problem.center(2000000) }}")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"_attn_implementation": "owner/repository"}, {"auto_map": {"AutoConfig": "owner/repository--x.Config"}},
    {"num_hidden_layers": 10**7}, {"head_dim": 10**10}, {"hidden_size": "x"}, {"model_type": ["a"]},
    {"rms_norm_eps": float("nan")}, {"transformers_weights": "../x.safetensors"}, {"text_config": {"a": 10**40}},
)  # fmt: skip
SHADOW = """\
import importlib, os, sys
try:
    os.kill(os.getpid(), {number})
    for _ in range(1000):
        pass
except BaseException:
    pass
sys.path.remove(os.path.dirname(__file__))
del sys.modules[__name__]
importlib.import_module(__name__)
"""


def edit_manifest(run: Path, edit: dict[str, Any]) -> None:
    """Change what describes a run, with a digest that fits."""
    path = run / "manifest.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["about"] |= edit
    for task in raw["about"]["tasks"].values():
        task |= {name: value for name, value in edit.items() if name in task}
    raw["about_digest"] = canonical_digest(raw["about"])
    path.write_text(json.dumps(raw), encoding="utf-8")


def names(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Names of a run are hostile: no output acts, and tables keep their rows."""
    hostile = "".join(rng.sample(PIECES, len(PIECES)))
    run = bench.copy(folder)
    edit_manifest(run, {"model": hostile, "method": hostile, "regime": hostile, "title": hostile, "commit": hostile})
    run = run.rename(folder / hostile.replace("/", ""))
    for name, *more in COMMANDS:
        done = start(["stapo-bench", name, run, *more], folder / "output").succeed()
        text = done.out + done.err
        acting = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        check(not acting, f"{name} {more}: {acting} in the output")
        check("\n# fake" not in text, f"{name} {more}: a line of theirs")
        if "csv" in more:
            cells = [cell for row in csv.reader(io.StringIO(done.out)) for cell in row]
            check(not any(cell.startswith(("=", "@", "+")) for cell in cells), "a formula")
        if "json" in more:
            check([row["method"] for row in json.loads(done.out)] == [hostile], "JSON without the true name")
    return Trial(injected=len(COMMANDS))


def counts(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Counts of a manifest are absurd, or do not fit one another: one clear line from every command."""
    edits: tuple[dict[str, Any], ...] = (
        {"num_samples": 10**9}, {"num_problems": 10**9}, {"problem_ids": ["1", "1"]}, {"num_samples": 10**40},
        {"problem_ids": [str(i) for i in range(20_000)], "num_samples": 999_999}, {"step": 10**5000 // 10**4990},
    )  # fmt: skip
    for number, edit in enumerate(edits):
        run = bench.copy(folder / str(number))
        edit_manifest(run, edit)
        for command in (["table", run], ["audit", run]):
            done = start(["stapo-bench", *command], folder / "output")
            if done.wait(60) != 0:
                done.fail(1)
    return Trial(injected=len(edits))


def templates(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A task's template never ends, or fills the memory: one clear line, and no sample."""
    task = {"task": "sums", "repeats": 1, "metadata": {"num_problems": 1}}
    (folder / "sums.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n', encoding="utf-8")
    for template in TEMPLATES:
        (folder / "sums.yaml").write_text(json.dumps({**task, "doc_to_text": template}), encoding="utf-8")
        command = bench.eval(folder / "run")
        command[command.index("--tasks") + 1] = folder / "sums.yaml"
        command[command.index("--data-dir") + 1] = folder
        start(command, folder / "output", before=impatient).fail(1)
        check(not (folder / "run" / "samples").exists(), "samples were drawn")
    return Trial(injected=len(TEMPLATES))


def impatient() -> None:
    """In a new process: little time for templates."""
    from stapo_bench.tasks import prompts

    prompts.CPU_S = 0.5


def checkpoints(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A checkpoint's config names code elsewhere, or is absurd: loaded without it, or one clear line."""
    for number, setting in enumerate(SETTINGS):
        model = Path(shutil.copytree(bench.base, folder / f"model-{number}"))
        raw = json.loads((model / "config.json").read_text(encoding="utf-8"))
        (model / "config.json").write_text(json.dumps(raw | setting), encoding="utf-8")
        command = bench.eval(folder / f"run-{number}", "--max-new-tokens", 2, "--limit", 1, "--samples", 1)
        command[command.index("--engine") + 1] = "transformers"
        command[command.index("--ckpt") + 1] = model
        done = start(command, folder / "output")
        if done.wait() != 0:
            done.fail(1)
        check("owner/repository" not in done.err, f"asked for code elsewhere: {done.err[-300:]}")
    return Trial(injected=len(SETTINGS))


def imports(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Ctrl-C or SIGTERM while a module that catches everything is imported: the command ends all the same."""
    module, number = rng.choice(["click", "yaml"]), rng.choice([signal.SIGINT, signal.SIGTERM])
    (folder / f"{module}.py").write_text(SHADOW.format(number=int(number)), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stapo_bench", "tasks"],
            env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    check((done.returncode, done.stdout) == (130, ""), f"exit code {done.returncode}: {done.stderr[-300:]}")
    check(done.stderr.count("\n") == 1 and "stopped; " in done.stderr, done.stderr[-300:])
    return Trial()


def deaf_ends(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Standard error is closed or full: the command does its work and says so by its exit code."""
    for number, end in enumerate(("2>&-", "2>/dev/full")):
        run = folder / str(number)
        words = [str(word) for word in bench.eval(run, "--samples", 1)[1:]]
        line = 'exec "$@" ' + end
        done = subprocess.run(
            ["sh", "-c", line, "sh", sys.executable, "-m", "stapo_bench", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        check(done.returncode == 0 and "|" in done.stdout, f"{end}: exit code {done.returncode}")
        samples = b"".join(path.read_bytes() for path in (run / "samples").iterdir())
        check(samples.count(b"\n") > 0 and b"run folder" not in samples, f"{end}: a message among the samples")
    return Trial(injected=2)


FAULTS = tuple(
    Fault(name=name, unit=unit, trials=trials, quick=quick, inject=inject)
    for name, inject, trials, quick, unit in (
        ("hostile names in a run", names, 6, 1, "outputs"),
        ("absurd counts in a manifest", counts, 1, 0, "cases"),
        ("templates that never end", templates, 2, 1, "cases"),
        ("hostile settings in a checkpoint", checkpoints, 1, 0, "cases"),
        ("Ctrl-C while a module is imported", imports, 6, 1, "cases"),
        ("a closed or full standard error", deaf_ends, 1, 0, "cases"),
    )
)
