"""Engines by name: ours, those of other packages, what each can be asked for, and how the command line asks."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from eval_setup import NUM_PROBLEMS, make_options

from stapo_bench.cli import cli
from stapo_bench.commands.evaluate import eval_command
from stapo_bench.commands.parameters import engine_of
from stapo_bench.commands.score import grade
from stapo_bench.engines import EngineOptions, declared_identity, engine_names, open_engine, options_of
from stapo_bench.engines.engine import BUILT_IN
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.runs.manifest import load_manifest

THEIRS = '''
from stapo_bench.records import Completion


class Echo:
    """Answers every question with one number."""

    continues_exactly = False
    takes = frozenset({"slots"})

    def __init__(self, answer, options):
        self.answer, self.options = answer, options

    @classmethod
    def open(cls, checkpoint, options):
        return cls(checkpoint.read_text().strip(), options)

    @classmethod
    def declared_identity(cls, checkpoint, options):
        return {"engine": "echo"}

    def identity(self):
        return {"engine": "echo", "slots": str(self.options.slots), "golds": str(self.options.golds)}

    def generate(self, requests, params):
        for request in requests:
            text = f"\\\\boxed{{{self.answer}}}"
            yield Completion(key=request.key, text=text, finish_reason="stop", num_tokens=3)

    def close(self):
        pass


class Nameless(Echo):
    @classmethod
    def declared_identity(cls, checkpoint, options):
        return {"name": "nameless"}


def function():
    pass
'''


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Installs a package that offers engines: a function of the package's name and the lines of its entry points."""
    (tmp_path / "their_engines.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, *lines: str) -> None:
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("\n".join(["[stapo_bench.engines]", *lines, ""]))

    yield install
    sys.modules.pop("their_engines", None)


def stapo_eval(folder: Path, *more: object) -> "tuple[int, str]":
    """Exit code, and the output or what was raised, of an evaluation of task ``one``, whose golds are all 1."""
    make_options(folder)
    (folder / "answer.txt").write_text("1\n")
    arguments = ["eval", "--ckpt", folder / "answer.txt", "--decoding", "justrl", "--tasks", folder / "one.yaml"]
    arguments += ["--data-dir", folder, "--out", folder / "run", "--samples", 2, *more]
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return result.exit_code, result.output if result.exception is None else f"{result.output}{result.exception}"


def test_an_engine_of_another_package_evaluates_like_ours(tmp_path, offer):
    offer("echo_package", "echo = their_engines:Echo")
    code, output = stapo_eval(tmp_path, "--engine", "echo", "--slots", 3)
    assert code == 0, output
    assert "| 100.00 [86.2, 100.0] |" in output  # the golds are all 1
    manifest = load_manifest(tmp_path / "run")
    assert manifest.identity.engine == {"engine": "echo", "slots": "3", "golds": "None"}  # it is not told what is right
    (segment,) = (tmp_path / "run" / "samples").glob("*.jsonl")
    completions = [json.loads(line)["completion"] for line in segment.read_text().splitlines()]
    assert completions == ["\\boxed{1}"] * (2 * NUM_PROBLEMS)
    code, output = stapo_eval(tmp_path, "--engine", "echo", "--slots", 3)
    assert (code, output.count("nothing is missing")) == (0, 1)


def test_what_it_does_not_take_is_refused_before_a_folder_is_made(tmp_path, offer):
    offer("echo_package", "echo = their_engines:Echo")
    code, said = stapo_eval(tmp_path, "--engine", "echo", "--tensor-parallel", 2)
    assert "--tensor-parallel: expected engine vllm, got echo" in said
    assert code == 1 and not (tmp_path / "run").exists()


def test_its_name_is_listed_and_hinted_at(tmp_path, offer):
    offer("echo_package", "echo = their_engines:Echo")
    assert engine_names() == ["auto", *BUILT_IN, "echo"]
    for command in (["eval"], ["grade"]):
        assert "|echo]" in CliRunner().invoke(cli, [*command, "--help"]).output
    code, said = stapo_eval(tmp_path, "--engine", "ecko")
    assert (code, "'echo'; did you mean 'echo'?" in said) == (2, True)
    with pytest.raises(UsageError, match="did you mean 'echo'"):
        open_engine(EngineOptions(name="ecko"), tmp_path)


def test_what_cannot_be_an_engine_is_one_line(tmp_path, offer):
    offer(
        "bad_package",
        "gone = their_engines:Gone",
        "lost = no_such_module:Engine",
        "function = their_engines:function",
        "nameless = their_engines:Nameless",
    )
    for name, message in {
        "gone": "engine gone: cannot load their_engines:Gone: .*Gone",
        "lost": "engine lost: cannot load no_such_module:Engine: No module named 'no_such_module'",
        "function": "engine function: expected a class with takes, open and declared_identity at their_engines:func",
        "nameless": "engine nameless: expected engine 'nameless' in its declared identity, got {'name': 'nameless'}",
    }.items():
        with pytest.raises(StapoError, match=message):
            declared_identity(EngineOptions(name=name), tmp_path)


def test_two_packages_with_one_name_are_told_and_ours_stay_ours(tmp_path, offer):
    offer("one_package", "echo = their_engines:Echo", "scripted = their_engines:Echo")
    offer("other_package", "echo = their_engines:Nameless")
    with pytest.raises(StapoError, match="offered as their_engines:Echo and as their_engines:Nameless"):
        open_engine(EngineOptions(name="echo"), tmp_path)
    (tmp_path / "script.yaml").write_text("success: 0.5\n")
    assert set(declared_identity(EngineOptions(name="scripted"), tmp_path / "script.yaml")) == {
        "engine",
        "script_sha256",
    }


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_engine_takes_an_option_that_there_is_not(name):
    from stapo_bench.engines.engine import _engine_type

    assert _engine_type(name).takes <= set(EngineOptions.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("scripted", {"slots": 2}, "--slots: expected an engine that runs several sequences at once, got scripted"),
        ("vllm", {"model": "m"}, "--base-url and --model name a server: expected --engine openai, got vllm"),
        ("transformers", {"base_urls": ("http://a",)}, "expected --engine openai, got transformers"),
        ("openai", {"dtype": "float32"}, "--dtype: expected an engine that loads the weights, got openai"),
        ("vllm", {"device": "cpu"}, "vllm: expected no option device"),
    ],
)
def test_an_option_that_an_engine_cannot_apply_is_refused(tmp_path, name, given, message):
    for ask in (open_engine, declared_identity):
        with pytest.raises(UsageError, match=message):
            ask(EngineOptions(name=name, **given), tmp_path)


def test_the_command_line_says_all_that_engines_are_asked():
    flags = ["--engine", "vllm", "--base-url", "http://a", "--base-url", "http://b", "--model", "m"]
    flags += ["--slots", "3", "--tensor-parallel", "2"]
    context = eval_command.make_context("eval", ["--ckpt", "c", "--decoding", "justrl", *flags])
    asked = EngineOptions(name="vllm", base_urls=("http://a", "http://b"), model="m", slots=3, tensor_parallel=2)
    assert engine_of(context.params) == asked
    judged = [flag.replace("--", "--judge-") for flag in flags]
    assert engine_of(grade.make_context("grade", [".", *judged]).params, "judge-") == asked
    assert engine_of(grade.make_context("grade", ["."]).params, "judge-") == EngineOptions()


def test_a_stored_identity_names_the_options_behind_it():
    vllm = {"engine": "vllm", "vllm": "0.30", "tensor_parallel": "4", "dtype": "bfloat16"}
    assert options_of(vllm) == EngineOptions(name="vllm", tensor_parallel=4, dtype="bfloat16")
    assert options_of({"engine": "openai", "model": "m"}) == EngineOptions(name="openai", model="m")
    assert options_of({"name": "of a test"}) == EngineOptions()


def test_a_judges_engine_without_a_judge_is_refused(tmp_path):
    for flags in (["--judge-slots", "2"], ["--judge-base-url", "http://a"], ["--judge-engine", "vllm"]):
        result = CliRunner().invoke(cli, ["grade", str(tmp_path), *flags])
        assert "expected --judge with the judge's folder" in str(result.exception)
