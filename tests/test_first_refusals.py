"""What can be known before work starts is refused before torch is imported, and leaves no folder behind."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_server import FakeServer, serving

from stapo_bench.cli import cli

ROOT = Path(__file__).parent.parent
EVAL = "eval --decoding justrl --tasks tiny_aime24 --ckpt model --out new/out "
TRAIN = "t.yaml "

_TRIED = """
import importlib.abc, importlib.util, json, sys

class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise AssertionError(f"{name} is imported")

sys.meta_path.insert(0, NoTorch())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("vllm", "tensorboard") else found(name, *more)
from click.testing import CliRunner
from stapo_bench.cli import cli as bench
from stapo_train.cli import cli as train
said = {}
for name, (program, arguments) in json.load(sys.stdin).items():
    done = CliRunner().invoke({"bench": bench, "train": train}[program], arguments.split())
    said[name] = [done.exit_code, f"{done.output} {type(done.exception).__name__}: {done.exception}"]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, FakeServer]]:
    """One that serves, one that only chats, one that wants a key."""
    for start in serving():
        found = {"plain": start(), "chat": start(), "key": start()}
        found["chat"].chats_only = True
        found["key"].wanted_key = "secret"
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A checkpoint by its looks, a training config, and a run."""
    place = tmp_path_factory.mktemp("first")
    files = {
        "model/config.json": '{"max_position_embeddings": 4096}',
        "model/model.safetensors": "",
        "model/tokenizer.json": "{}",
        "lacks/config.json": "{}",
        "lacks/model.safetensors": "",
        "bin/config.json": "{}",
        "bin/pytorch_model.bin": "",
        "rows.jsonl": '{"problem": "1 + 1?", "answer": "2"}\n{"problem": "1 + 2?"}\n',
        "s.yaml": "success: 0.5",
    }
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    recipe = ROOT / "train" / "configs" / "tiny" / "_recipe.yaml"
    (place / "t.yaml").write_text(f"defaults: {recipe}\nout: new/run\nmodel: model\nobjective: {{name: stapo}}\n")
    run = "eval --engine scripted --decoding justrl --tasks tiny_aime24 --samples 2"
    done = CliRunner().invoke(cli, [*run.split(), "--ckpt", str(place / "s.yaml"), "--out", str(place / "run")])
    assert done.exit_code == 0, done.output
    return place


def test_each_is_refused_without_torch_and_leaves_no_folder(folder, servers):
    url = {name: server.url for name, server in servers.items()}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refusals = {
            "unreachable": ("bench", f"{EVAL}--engine openai --base-url http://127.0.0.1:9/v1", "none at 127.0.0.1:9"),
            "key": ("bench", f"{EVAL}--engine openai --base-url {url['key']}", "environment variable OPENAI_API_KEY"),
            "chats": ("bench", f"{EVAL}--engine openai --base-url {url['chat']}", "/v1/chat/completions only"),
            "model": ("bench", f"{EVAL}--engine openai --base-url {url['plain']} --model nope", "expected model nope"),
            "vllm": ("bench", f"{EVAL}--engine vllm", "pip install 'stapo-bench[vllm]'"),
            "split": ("bench", f"{EVAL}--engine transformers --tensor-parallel 2", "expected engine vllm"),
            "auto": ("bench", f"{EVAL}--gpu-memory 0.5", "--gpu-memory: expected engine vllm, got transformers"),
            "tokenizer": ("bench", f"{EVAL}--engine transformers --ckpt lacks", "the checkpoint has no tokenizer"),
            "pickle": ("bench", f"{EVAL}--engine transformers --ckpt bin", "*.safetensors in a checkpoint folder"),
            "out": ("bench", f"{EVAL}--out /proc/x", "cannot write to /proc/x"),
            "problems": ("bench", f"{EVAL}--tasks aime24 --data-dir run", "aime24.jsonl"),
            "second": ("bench", f"{EVAL}--ckpt * --engine transformers", "bin: expected config.json and *.safetensors"),
            "port": ("bench", f"watch run --port {port}", "Address already in use; choose another --port"),
            "experiment": ("bench", "experiment nope", "experiment 'nope': expected one of controls"),
            "setting": ("train", f"{TRAIN}objective.quantile=0.5", "unknown setting of objective stapo 'quantile'"),
            "range": ("train", f"{TRAIN}objective.q=7", "q: expected at least 0 and at most 1, got 7"),
            "type": ("train", f"{TRAIN}objective.q=hello", "q: expected float, got 'hello'"),
            "one token": ("train", f"{TRAIN}rollout.top_p=1e-7", "all rollouts of a prompt are equal"),
            "one text": ("train", f"{TRAIN}rollout.temperature=1e-9", "temperature: expected above 1e-06, got 1e-09"),
            "unwritable": ("train", f"{TRAIN}out=/proc/x", "out /proc/x: expected a folder that can be written"),
            "engine": ("train", f"{TRAIN}rollout.engine=vllm", "pip install 'stapo-bench[vllm]'"),
            "line": ("train", f"{TRAIN}data.source=jsonl data.path=rows.jsonl", "line 2: expected the columns"),
        }
        asked = {name: case[:2] for name, case in refusals.items()}
        done = subprocess.run(
            [sys.executable, "-c", _TRIED],
            cwd=folder, input=json.dumps(asked), capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    wrong = {name: said[name] for name, (*_, words) in refusals.items() if words not in said[name][1]}
    assert wrong == {}
    assert {name: code for name, (code, _) in said.items() if code == 0} == {}
    assert not (folder / "new").exists()


def test_every_objective_reads_its_settings_without_torch():
    text = (
        "import sys; sys.modules['torch'] = None\n"
        "from stapo_train.objectives import BUILT_IN, for_run\n"
        "for name in BUILT_IN: for_run({'name': name}, seed=1, max_new_tokens=8)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow(reason="the pauses before a second and a third try are waited for")
def test_a_server_that_fails_for_seconds_is_told_of_and_so_is_its_end(folder, servers):
    server, began = servers["plain"], time.monotonic()
    # The pauses before the third try, 0.5 s and 1 s at least, are as long as nothing is said.
    server.fault = lambda seed, attempt: "500" if attempt < 3 else "answer"
    asked = "eval --engine openai --decoding justrl --tasks tiny_aime24 --limit 1 --samples 2"
    place = ["--ckpt", str(folder / "s.yaml"), "--base-url", server.url, "--out", str(folder / "failing")]
    done = CliRunner().invoke(cli, [*asked.split(), *place])
    assert done.exit_code == 0, done.output
    (told, over) = [line for line in done.stderr.splitlines() if "answered" in line]
    host = server.url.removeprefix("http://").removesuffix("/v1")
    assert told.startswith(f"{host}: HTTP 500 no, says None; no request has been answered for ")
    assert 1 <= int(re.search(r"for (\d+) s;", told)[1]) <= time.monotonic() - began
    assert over == "requests are answered again"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(("program", "heading"), [("stapo_bench", "Get samples"), ("stapo_train", "Commands")])
def test_a_bare_command_shows_its_help_whole_at_any_width(program, heading, columns):
    place = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run([sys.executable, "-m", program], capture_output=True, text=True, env=place, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    listed = done.stdout.partition(f"\n{heading}:\n")[2].splitlines()
    listed = [line for line in listed if line and not line.endswith(":")]
    assert len(listed) >= 7
    assert max(map(len, listed)) <= columns
    assert [line for line in listed if line.endswith("...") or not re.match(r"  [a-z-]+ +\S", line)] == []
