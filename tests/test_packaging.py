"""Everything imported is declared, and what needs no model runs without torch, data sets and figures."""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner
from parsed import nodes_of

from stapo_bench.cli import cli
from stapo_bench.commands.entry import run_commands
from stapo_bench.errors import EXTRAS, missing_package

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITH_TORCH_FOR_GPUS = "triton"  # torch's build for CUDA brings it; without it the same sums are done by torch
NAMES = {
    "yaml": "pyyaml",
    "hydra": "hydra-core",
    "inspect_ai": "inspect-ai",
    "mlflow": "mlflow-skinny",
}  # of a distribution, where it differs from the module's


def distributions(requirements):
    """Distribution names of requirements; an extra of our own stands for what it brings."""
    found = set()
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower().replace("_", "-")
        extras = re.search(r"\[([^]]*)\]", requirement)
        if name == PROJECT["name"]:
            for extra in extras[1].split(","):
                found |= distributions(PROJECT["optional-dependencies"][extra])
        else:
            found.add(name)
    return found


@cache
def imported():
    """Module at the top -> files of ours that import it, wherever in the file."""
    found = {}
    for folder in (ROOT / "stapo_bench", ROOT / "train" / "stapo_train"):
        for path in folder.rglob("*.py"):
            if path.name == "conftest.py":
                continue
            for node in nodes_of(path):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
                    names += [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
                for name in names:
                    top = name.split(".")[0]
                    if top not in sys.stdlib_module_names and top not in ("stapo_bench", "stapo_train"):
                        found.setdefault(top, []).append(str(path.relative_to(ROOT)))
    return found


def test_everything_imported_is_declared_where_the_message_says():
    # A tracker that a config asks for, whose own message names it; and what exists for type checkers alone.
    not_ours_to_bring = {"wandb", "_typeshed"}
    core = distributions(PROJECT["dependencies"])
    for module, files in imported().items():
        if module in not_ours_to_bring | {WITH_TORCH_FOR_GPUS}:
            continue
        brought = distributions(PROJECT["optional-dependencies"][EXTRAS[module]]) if module in EXTRAS else core
        assert NAMES.get(module, module).lower().replace("_", "-") in brought, (module, files)


def test_the_core_declares_no_more_than_is_imported():
    used = {NAMES.get(module, module).lower().replace("_", "-") for module in imported()}
    unused = distributions(PROJECT["dependencies"]) - used
    assert unused == set()


WITHOUT_EXTRAS = '''
import contextlib, io, json, sys
from importlib.abc import MetaPathFinder
from pathlib import Path

from stapo_bench.errors import EXTRAS

class Absent(MetaPathFinder):
    """No package of an extra can be found."""
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import importlib.util
real = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name.split(".")[0] in EXTRAS else real(name, package)
importlib.util.find_spec = find_spec

from stapo_bench.cli import main
ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["stapo-bench", *arguments]
    code, err = 0, io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    ended.append((code, err.getvalue()))
print(json.dumps(ended))
'''


def run_without_extras(*commands):
    """(exit code, error output) of each command, all in one process: starting it takes longer than most of them."""
    told = json.dumps([[str(argument) for argument in command] for command in commands])
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS, told], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(done.stdout)]


def test_sampling_from_a_script_grading_comparing_and_reporting_need_no_extra(tmp_path):
    runs = [tmp_path / "low", tmp_path / "high"]
    evals = []
    for run, success in zip(runs, (0.2, 0.9), strict=True):
        script = run.with_suffix(".yaml")
        script.write_text(f"success: {success}\n")
        how = ("--engine", "scripted", "--ckpt", script, "--decoding", "justrl", "--samples", "2", "--out", run)
        evals.append(("eval", "--tasks", "tiny_aime24,tiny_amc23", *how))
    page = tmp_path / "report.html"
    need_none = [
        *evals,
        ("grade", runs[1], "--grader", "strict"),
        ("score", runs[0]),
        ("table", *runs),
        ("compare", *runs),
        ("plan", *runs, "--detect", "0.02"),
    ]
    *ended, (code, err), report, plot = run_without_extras(
        *need_none,
        ("grade", runs[1], "--grader", "qwen"),
        ("report", *runs, "--out", page),
        ("plot", "differences", *runs, "-o", tmp_path / "figure.svg"),
    )
    assert [(command, said) for command, said in zip(need_none, ended, strict=True) if said[0] != 0] == []
    missing = "stapo-bench: grader qwen: sympy is not installed: pip install 'stapo-bench[graders]'\n"
    assert (code, err) == (1, missing)
    assert not (runs[1] / "grades" / "qwen.jsonl").exists()  # no verdict of what is missing
    missing = "Figures are left out: matplotlib is not installed: pip install 'stapo-bench[plots]'"
    assert report == (0, f"{missing}\n")
    assert "Figures are left out: matplotlib is not installed" in page.read_text(encoding="utf-8")
    figure = tmp_path / "figure.svg"
    missing = f"{figure}: a figure cannot be drawn: matplotlib is not installed: pip install 'stapo-bench[plots]'"
    assert plot == (1, f"stapo-bench: {missing}\n")


def test_what_needs_a_model_says_which_extra_in_one_line(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (model / name).write_text("{}")
    arguments = ("--tasks", "tiny_aime24", "--decoding", "justrl", "--out", tmp_path / "run")
    ((code, err),) = run_without_extras(("eval", "--ckpt", model, *arguments))
    assert code == 1
    assert re.fullmatch(r"stapo-bench: \w+ is not installed: pip install 'stapo-bench\[eval]'\n", err)


def test_the_trainer_names_its_own_extra(capsys, monkeypatch):
    import click

    @click.command()
    def train() -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(sys, "argv", ["stapo-train"])
    with pytest.raises(SystemExit) as stop:
        run_commands(train, "stapo-train", when_stopped="", models="train")
    assert stop.value.code == 1
    assert capsys.readouterr().err == "stapo-train: torch is not installed: pip install 'stapo-bench[train]'\n"
    assert missing_package("stapo_bench.nothing") is None


def test_every_entry_point_of_ours_can_be_loaded():
    for group, points in PROJECT["entry-points"].items():
        for name, value in points.items():
            found = EntryPoint(name=name, value=value, group=group).load()
            assert callable(found), (group, name)


PLUGIN = """
import click

@click.command(help="Says hello.")
def other():
    click.echo("hello from elsewhere")

@click.command(help="not ours")
def score():
    click.echo("not ours")
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package that offers two commands, one under a name of ours."""
    about = tmp_path / "elsewhere-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    points = "[stapo_bench.commands]\nother = elsewhere_commands:other\nscore = elsewhere_commands:score\n"
    (about / "entry_points.txt").write_text(points)
    (tmp_path / "elsewhere_commands.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_another_package_adds_a_command_and_replaces_none(plugin):
    runner = CliRunner()
    assert "Says hello." in runner.invoke(cli, ["--help"]).output
    assert runner.invoke(cli, ["other"]).output == "hello from elsewhere\n"
    assert "not ours" not in runner.invoke(cli, ["score", "--help"]).output
    assert "did you mean 'other'?" in runner.invoke(cli, ["othr"]).output


def test_a_parquet_file_without_its_reader_is_one_line(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    found = run_without_extras(("compare", tmp_path / "a.parquet", tmp_path / "b.parquet"))
    assert found == [(1, "stapo-bench: pyarrow is not installed: pip install 'stapo-bench[parquet]'\n")]
