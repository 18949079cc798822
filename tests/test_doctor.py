"""``doctor``: every line says what was found, and nothing is loaded, downloaded or left behind."""

import socket
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest
from click.testing import CliRunner

from stapo_bench.commands import doctor


@pytest.fixture
def quiet(monkeypatch):
    """A machine whose hub is not asked."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def lines(folder):
    return dict(doctor.findings(folder))


def only(monkeypatch, *installed):
    """Pretend that of the optional packages these alone are installed."""
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name: ModuleSpec(name, None) if name in installed else None
    )


def test_missing_extras_are_named_with_what_brings_them(monkeypatch, quiet, tmp_path):
    only(monkeypatch, "torch")
    found = lines(tmp_path)
    assert found["plots"] == "figures: missing matplotlib: pip install 'stapo-bench[plots]'"
    assert (
        found["eval"].startswith("sampling from checkpoints, training: missing datasets, ")
        and "torch" not in found["eval"]
    )
    assert found["eval"].endswith("pip install 'stapo-bench[eval]'")


@pytest.mark.parametrize(
    ("installed", "data", "command"),
    [((), "", "stapo-bench import"), (("torch",), "", "--tasks tiny_aime24 "), (("torch",), ".", "--tasks aime24 ")],
)
@pytest.mark.usefixtures("quiet")
def test_the_next_command_is_one_that_this_machine_can_run(monkeypatch, installed, data, command):
    only(monkeypatch, *installed)
    done = CliRunner().invoke(doctor.doctor, env={"STAPO_BENCH_DATA": data})
    assert command in done.output.rpartition("next: ")[2]


def test_a_gpu_that_the_torch_here_cannot_use_is_said(monkeypatch, quiet, tmp_path):
    only(monkeypatch, "torch")
    monkeypatch.setattr(doctor, "gpu_names", lambda: ["GPU 0: NVIDIA H100"])
    for version, more in (("2.13.0+cpu", "; but torch 2.13.0+cpu is a build for CPUs"), ("2.13.0", "")):
        monkeypatch.setattr(doctor, "_version", lambda package, version=version: version)
        assert lines(tmp_path)["GPU"].partition(": install")[0] == f"GPU 0: NVIDIA H100{more}"


def test_a_folder_of_data_that_is_not_there_is_said(monkeypatch, quiet, tmp_path):
    monkeypatch.setenv("STAPO_BENCH_DATA", str(tmp_path / "no"))
    assert lines(tmp_path)["data"] == f"{tmp_path / 'no'} (STAPO_BENCH_DATA): no such folder"


def test_every_extra_has_its_purpose():
    assert set(doctor._FOR) == set(doctor.EXTRAS.values())


def test_a_hub_out_of_reach_and_one_not_asked(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{nobody_listens.getsockname()[1]}")
        assert "does not answer" in lines(tmp_path)["hub"]
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc/passwd")
    assert "expected an address" in lines(tmp_path)["hub"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert lines(tmp_path)["hub"].startswith("not asked")


def test_locks_by_what_the_file_system_has(monkeypatch, quiet, tmp_path):
    assert lines(tmp_path / "not" / "there")["locks"] == "the file system has them"
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert lines(tmp_path)["locks"].startswith("none on this file system")
    assert list(tmp_path.iterdir()) == []


def refuse(*args, **kwargs):
    raise NotImplementedError


def test_a_folder_that_cannot_be_written_is_a_finding(quiet):
    assert "cannot be written" in lines(doctor.Path("/proc"))["locks"]


def test_nothing_heavy_is_loaded(quiet, tmp_path):
    code = (
        "import sys; from click.testing import CliRunner; from stapo_bench.cli import cli\n"
        f"done = CliRunner().invoke(cli, ['doctor', '--folder', {str(tmp_path)!r}]); assert done.exit_code == 0, done\n"
        "assert 'next: stapo-bench ' in done.output; assert not {'torch', 'transformers', 'vllm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_prints_a_line_each(quiet, tmp_path):
    done = CliRunner().invoke(doctor.doctor, ["--folder", str(tmp_path)])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines() if line][:3] == ["version", "always", "eval"]
