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
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from stapo_bench.runs.nested import canonical_digest
from tests.faults.bench import Bench, reward_by_hash
from tests.faults.process import impatient, start
from tests.faults.trial import Fault, Trial, check
from tests.interrupted import SHADOW, heeding_ctrl_c

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

TOKENIZER_SETTINGS: tuple[dict[str, Any], ...] = (
    {"auto_map": {"AutoTokenizer": ["owner/repository--x.Slow", None]}}, {"fast_tokenizer_files": ["../x.json"]},
    {"extra_special_tokens": [f"<{i}>" for i in range(100_000)]}, {"tokenizer_file": "/dev/zero"},
    {"chat_template": [{"name": "default", "template": LOOP}]}, {"chat_template": [3]},
)  # fmt: skip
DAMAGE: dict[str, Callable[[Path], object]] = {
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\xfe\xff"),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terabyte": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}
READ_BY: dict[str, tuple[str, ...]] = {
    "config.yaml": ("stapo-bench", "plot", "entropy", "--train", "LOG", "-o", "x.pdf"),
    "dumps/iteration-000001/model/config.json": ("stapo-bench", "plot", "tokens", "--train", "LOG", "-o", "x.pdf"),
    "dumps/iteration-000001/batch.safetensors": ("stapo-bench", "plot", "tokens", "--train", "LOG", "-o", "x.pdf"),
    "dumps/iteration-000001/dump.json": ("stapo-train", "audit", "LOG/dumps/iteration-000001"),
}


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


def logs(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A file of a training log or of its dump is damage, or never ends: one clear line from whatever reads it."""
    start(bench.train(folder / "good", "--dump-rollouts", 1), folder / "output", before=reward_by_hash).succeed()
    for name, words in READ_BY.items():
        for damage in DAMAGE.values():
            log = Path(shutil.copytree(folder / "good", folder / "log"))
            (log / name).unlink()
            damage(log / name)
            start([word.replace("LOG", str(log)) for word in words], folder / "output").fail(1)
            shutil.rmtree(log)
    return Trial(injected=len(READ_BY) * len(DAMAGE))


def checkpoints(bench: Bench, rng: Random, folder: Path) -> Trial:
    """A checkpoint's settings name code elsewhere, or are absurd: loaded without them, or one clear line."""
    cases = [("config.json", setting) for setting in SETTINGS]
    cases += [("tokenizer_config.json", setting) for setting in TOKENIZER_SETTINGS]
    for number, (name, setting) in enumerate(cases):
        model = Path(shutil.copytree(bench.base, folder / f"model-{number}"))
        raw = json.loads((model / name).read_text(encoding="utf-8"))
        (model / name).write_text(json.dumps(raw | setting), encoding="utf-8")
        command = bench.eval(folder / f"run-{number}", "--max-new-tokens", 2, "--limit", 1, "--samples", 1)
        command[command.index("--engine") + 1] = "transformers"
        command[command.index("--ckpt") + 1] = model
        done = start(command, folder / "output")
        if done.wait() != 0:
            done.fail(1)
        check("owner/repository" not in done.err, f"asked for code elsewhere: {done.err[-300:]}")
    return Trial(injected=len(cases))


def imports(bench: Bench, rng: Random, folder: Path) -> Trial:
    """Ctrl-C or SIGTERM while a module that catches everything is imported: the command ends all the same."""
    module, number = rng.choice(["click", "yaml"]), rng.choice([signal.SIGINT, signal.SIGTERM])
    (folder / f"{module}.py").write_text(SHADOW.format(number=int(number)), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    with heeding_ctrl_c():
        done = subprocess.run(
            [sys.executable, "-m", "stapo_bench", "tasks"],
            env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    check((done.returncode, done.stdout) == (128 + number, ""), f"exit code {done.returncode}: {done.stderr[-300:]}")
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
        ("training logs and dumps that are damage, or never end", logs, 1, 0, "cases"),
        ("hostile settings in a checkpoint", checkpoints, 1, 0, "cases"),
        ("Ctrl-C while a module is imported", imports, 6, 1, "cases"),
        ("a closed or full standard error", deaf_ends, 1, 0, "cases"),
    )
)
