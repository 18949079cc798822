"""Whatever a command is pointed at is read within bounds: damage of any kind is one line that names the file.

``test_house`` finds reads past the bounded readers.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from train_setup import make_dump

from stapo_bench.analysis import current_score, score_run
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting.figures import tokens
from stapo_bench.presenting.figures.sources import read_training
from stapo_bench.presenting.report.tokens import read_token_file
from stapo_bench.runs import sealed
from stapo_bench.runs.checkpoint import stated_chat_template
from stapo_bench.runs.files import read_bounded
from stapo_bench.tasks import foreign_files, load_problems, load_task
from stapo_bench.tasks.errata import read_errata
from stapo_bench.tasks.overlap import read_training_texts
from stapo_train.cost.shapes import read_shape
from stapo_train.data import read_jsonl
from stapo_train.data_config import DataConfig
from stapo_train.experiments.design import load_experiment
from stapo_train.inspect.dump import load_dump
from stapo_train.tiny import pretrain

DEEP = b"[" * 50_000
DIGITS = b'{"problem": ' + b"9" * 5000 + b"}"
DAMAGE: dict[str, Callable[[Path], object]] = {
    "deep": lambda path: path.write_bytes(DEEP),
    "digits": lambda path: path.write_bytes(DIGITS),
    "no UTF-8": lambda path: path.write_bytes(b"\xff\xfe\xff"),
    "a list": lambda path: path.write_bytes(b"[1]\n"),
    "torn": lambda path: path.write_bytes(b'{"a": '),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terabyte": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}


def read_tokens(path: Path) -> object:
    log = SimpleNamespace(seed=0, objective={"name": "grpo"}, records=())
    return tokens.read_tokens(log, path.parents[1] if path.name == "config.json" else path.parent, "label")


def problems_of(path: Path) -> object:
    task = path.parent / "t.yaml"
    task.write_text("task: t\nrepeats: 1\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 1}\n")
    return load_problems(load_task(str(task)), path.parent)


READ: dict[str, Callable[[Path], object]] = {
    "model/config.json": read_tokens,
    "batch.safetensors": read_tokens,
    "dump.json": lambda path: load_dump(path.parent),
    "batch.safetensors of replay": lambda path: load_dump(path.parent),
    "config.json": lambda path: read_shape(path.parent),
    "config.yaml": lambda path: read_training(path.parent),
    "tokens.jsonl": read_token_file,
    "train.jsonl": lambda path: [*read_training_texts(path)],
    "t.jsonl": problems_of,
    "data.jsonl": lambda path: read_jsonl(DataConfig(source="jsonl", path=str(path), question="{{problem}}")),
    "errata.yaml": read_errata,
    "base.yaml": pretrain.load_config,
    "experiment.yaml": lambda path: load_experiment(str(path)),
    "scores.json": lambda path: current_score(path.parent),
    "scores.sources.json": lambda path: current_score(path.parent),
    "state.json": read_bounded,
    "lines.jsonl": lambda path: list(sealed.complete_lines(path)),
}
OF_BYTES = ("state.json", "lines.jsonl", "scores.sources.json")  # what is in them is judged elsewhere, or made anew
ENDLESS = ("a pipe", "a device", "a terabyte")


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    return make_dump(tmp_path_factory.mktemp("dump"), 1)


@pytest.fixture
def place(tmp_path, dump, make_run, request):
    """A folder in which all is well but for the file that is asked for."""

    def made(name: str) -> Path:
        file = name.partition(" ")[0]
        if name in ("model/config.json", "batch.safetensors", "dump.json", "batch.safetensors of replay"):
            folder = tmp_path / "dump"
            folder.mkdir()
            for path in dump.iterdir():
                if path.name != "model":
                    (folder / path.name).symlink_to(path)
            (folder / "model").mkdir()
            for path in (dump / "model").iterdir():
                (folder / "model" / path.name).symlink_to(path)
        elif name.startswith("scores"):
            folder = make_run("run", {"t": [[1.0, 0.0]]})
            score_run(folder)
        else:
            folder = tmp_path / "folder"
            folder.mkdir()
        (folder / file).unlink(missing_ok=True)
        return folder / file

    return made


NESTED = pytest.mark.slow(reason="YAML that is nested 100,000 deep takes a second in each reader")


def marks(name: str, kind: str) -> tuple[pytest.MarkDecorator, ...]:
    """One reader of YAML stays."""
    return (NESTED,) if kind == "deep" and name.endswith(".yaml") and name != "config.yaml" else ()


@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param(name, kind, marks=marks(name, kind)) for name in READ for kind in DAMAGE]
)
def test_damage_is_one_line_that_names_the_file(place, monkeypatch, name, kind):
    for module in (foreign_files, sealed):
        monkeypatch.setattr(module, "LONGEST_LINE", 1 << 16)
    path = place(name)
    DAMAGE[kind](path)
    if name in OF_BYTES and kind not in ENDLESS:
        READ[name](path)
        return
    with pytest.raises((StapoError, UsageError)) as caught:
        READ[name](path)
    assert path.name in str(caught.value) and "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("content", [DEEP, b"\xff", b"[]", b'{"chat_template": '])
def test_a_hint_is_no_reason_to_stop(tmp_path, content):
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    assert not stated_chat_template(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer_config.json").symlink_to("pipe")
    assert not stated_chat_template(tmp_path)  # and nobody waits for it


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dump.json", {"seed": "x"}),
        ("dump.json", {"objective": 3}),
        ("dump.json", {"temperature": None}),
        ("model/config.json", {"vocab_size": "many"}),
    ],
)
def test_other_types_are_named(place, dump, name, values):
    path = place(name)
    path.write_text(json.dumps(json.loads((dump / name).read_text()) | values))
    read = read_tokens if name == "model/config.json" else READ["dump.json"]
    with pytest.raises((StapoError, UsageError)) as caught:
        read(path)
    assert all(word in str(caught.value) for word in (path.name, "expected", *values))


def test_outputs_of_tools_that_do_not_fit_their_rows_are_named(place, dump):
    import torch
    from safetensors.torch import load_file, save_file

    path = place("batch.safetensors")
    good = load_file(dump / "batch.safetensors")
    length = int(good["response_lengths"][1])
    places, ids = [[1, 0, 2], [1, length, 1]], [5, 6, 7]

    def read(places, ids):
        save_file({**good, "tool_places": torch.tensor(places), "tool_ids": torch.tensor(ids)}, path)
        return load_dump(path.parent).batch

    batch = read(places, ids)
    assert batch.outputs(1) == ((0, (5, 6)), (length, (7,))) and batch.outputs(0) == batch.outputs(2) == ()
    num_rows = len(batch.rows)
    for damaged in (
        *([[-1, 0, 2], places[1]], [[num_rows, 0, 2], places[1]]),  # rows that are not there
        *([places[0], [1, length + 1, 1]], [[1, -1, 2], places[1]], [[1, 1, 2], [1, 0, 1]]),  # nor are these places
        *([places[0]], [*places, [1, length, 1]], [[1, 0, 4], [1, 0, -1]], [[1, 0], [1, 0]]),  # more ids, fewer, none
    ):
        with pytest.raises(StapoError, match=r"batch\.safetensors: expected the tensors of a mini-batch, got damage"):
            read(damaged, ids)
    with pytest.raises(StapoError, match="expected a number of tokens from 0"):
        read(places, [5.0, 6.0, 7.0])


def test_tensors_that_do_not_fit_are_named(place, dump):
    from safetensors.torch import load_file, save_file

    path = place("batch.safetensors")
    good = load_file(dump / "batch.safetensors")
    for name, value in {
        "response_lengths": good["response_lengths"][:-1].contiguous(),
        "entropy": good["entropy"][:-1].contiguous(),
        "prompt_lengths": good["prompt_lengths"] + 1,
        "row_advantages": good["row_advantages"][:1].contiguous(),
        "response_ids": good["response_ids"] + 10**6,
    }.items():
        save_file({**good, name: value}, path)
        with pytest.raises(StapoError, match=r"batch\.safetensors: expected"):
            load_dump(path.parent)
    save_file({name: value for name, value in good.items() if name != "entropy"}, path)
    with pytest.raises(StapoError, match=r"batch\.safetensors: expected .*entropy"):
        read_tokens(path)


def test_each_reader_of_a_yaml_file_has_a_value_of_its_own(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: {b: [1]}\n")
    first = foreign_files.read_foreign_yaml(path)
    first["a"]["b"].append(2)
    assert foreign_files.read_foreign_yaml(path) == {"a": {"b": [1]}}
    path.write_text("a: 3\n")
    assert foreign_files.read_foreign_yaml(path) == {"a": 3}
