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
    assert found["plots"] == "missing matplotlib: pip install 'stapo-bench[plots]'"
    assert found["eval"].startswith("missing datasets, ") and "torch" not in found["eval"]
    assert found["eval"].endswith("pip install 'stapo-bench[eval]'")


@pytest.mark.parametrize(
    ("installed", "command"),
    [((), "stapo-bench import"), (("torch",), "--limit 5"), (("torch", "vllm"), "--engine vllm")],
)
def test_the_next_command_is_one_that_this_machine_can_run(monkeypatch, installed, command):
    only(monkeypatch, *installed)
    assert command in doctor.next_command()


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
    assert lines(tmp_path / "not" / "there")["locks"] == "of the system"
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
