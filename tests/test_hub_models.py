"""``--ckpt owner/name``: models of the hub, against a server on loopback; each command in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_setup import make_sums, one_line
from fake_hub import Hub, commit_of, serve

from stapo_bench.errors import UsageError
from stapo_bench.runs import load_manifest, local_checkpoint, name_on_hub, read_checkpoint
from stapo_train.tiny.random_model import random_model, save

MODEL = "made-up/tiny"
EVAL = ("eval", "--tasks", "sums.yaml", "--data-dir", ".", "--decoding", "training", "--samples", "1", "--limit", "2")


@dataclass(frozen=True)
class Machine:
    """A folder with a small task, and a cache of its own."""

    folder: Path
    endpoint: str

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "stapo_bench", *arguments, **environment)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"HF_HOME": str(self.folder / "cache"), "HF_ENDPOINT": self.endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "HF_HUB_OFFLINE": "0", **own, **environment},
            capture_output=True,
            text=True,
            check=False,
        )


def files_of(folder: Path, **more: bytes) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} | more


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Two commits of one model, the newer one ``main``; and a file that nobody asked for."""
    folder = tmp_path_factory.mktemp("model")
    save(random_model(), folder / "ckpt")
    old = files_of(folder / "ckpt")
    new = {**old, "modeling_evil.py": b"raise SystemExit('run')", "original/consolidated.safetensors": b"?"}
    return [new, old]


@pytest.fixture
def hub(versions):
    with serve(Hub(sets={}, models={MODEL: versions})) as hub:
        yield hub


@pytest.fixture
def machine(tmp_path, hub):
    make_sums(tmp_path)
    return Machine(tmp_path, hub.endpoint)


@pytest.mark.slow(reason="three commands that load a model, each in a process of its own")
def test_a_model_is_fetched_at_one_commit_which_the_run_names(machine, versions):
    command = (*EVAL, "--ckpt", MODEL, "--max-new-tokens", "8", "--dtype", "float32")
    done = machine.run(*command)
    assert done.returncode == 0, done.stderr
    new, old = map(commit_of, versions)
    manifest = load_manifest(machine.folder / "results/tiny-training")
    assert manifest.about.checkpoint == f"{MODEL}@{new}"
    snapshot = next((machine.folder / "cache").rglob(f"snapshots/{new}"))
    names = {path.name for path in snapshot.rglob("*") if not path.is_dir()}
    assert names == {name for name in versions[1] if name.endswith((".json", ".safetensors", ".txt", ".jinja"))}
    assert manifest.identity.checkpoint_digest == read_checkpoint(snapshot).digest
    # The same weights by another commit are the same run: nothing is drawn again.
    done = machine.run(*command, "--revision", old)
    assert "nothing is missing" in done.stderr, done.stderr
    assert commit_of(versions[1]) in {path.name for path in (machine.folder / "cache").rglob("snapshots/*")}
    # Out of reach it is found in the cache, and a run's cut-off samples go on with the commit that it names.
    done = machine.run(
        "continue", "results/tiny-training", "--max-new-tokens", "12", "--data-dir", ".", HF_HUB_OFFLINE="1"
    )
    assert done.returncode == 0, done.stderr


FIND = """
import sys
from pathlib import Path
from stapo_bench.errors import StapoError
from stapo_bench.runs import local_checkpoint
try:
    print(local_checkpoint(Path(sys.argv[1]), sys.argv[2] or None))
except StapoError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "revision", "environment", "words"),
    [
        (f"{MODEL}@v9", "", {}, "on the hub it has no revision 'v9'"),
        *(
            pytest.param(*case, marks=pytest.mark.slow(reason="a process for each way of not having a model"))
            for case in (
                ("made-up/other", "", {}, "no such folder here, and on the hub there is no such model"),
                (MODEL, "v9", {}, "on the hub it has no revision 'v9'"),
                (MODEL, "", {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set; no copy of it in the cache"),
                (MODEL, "v1", {"HF_ENDPOINT": "http://127.0.0.1:9"}, f"hf download {MODEL} --revision v1"),
            )
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(machine, name, revision, environment, words):
    done = machine.python("-c", FIND, name, revision, **environment)
    assert words in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1


def test_a_wrong_dtype_is_refused(small, stapo):
    code, _, error = stapo(*EVAL, "--ckpt", "script.yaml", "--dtype", "fp32")
    assert code == 2 and "--dtype: expected one of float32, bfloat16, float16, got 'fp32'" in one_line(error)
    code, _, error = stapo(*EVAL, "--ckpt", "script.yaml", "--engine", "scripted", "--dtype", "float32")
    assert code == 2 and "--dtype: expected an engine that loads the weights, got scripted" in one_line(error)


def test_a_folder_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("made-up").mkdir()
    assert local_checkpoint(Path(MODEL)) == Path(MODEL)  # which is then missed as a folder
    assert local_checkpoint(Path("runs/*/step-1")) == Path("runs/*/step-1")
    with pytest.raises(UsageError, match="--revision"):
        local_checkpoint(Path(MODEL), "main")


def test_a_folder_that_is_no_cache_has_no_name_on_the_hub(tmp_path):
    assert name_on_hub(tmp_path / "snapshots" / "0123") is None
    assert name_on_hub(Path("x")) is None
    assert json.dumps(name_on_hub(Path("models--a--b--c/snapshots/01"))) == '"a/b--c@01"'
