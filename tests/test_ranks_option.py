"""``--gpus N`` is ``--ranks N`` under another name, in every command that has it."""

import pytest
import yaml
from click.testing import CliRunner
from train_setup import make_base, make_values

from stapo_train import launch
from stapo_train.cli import cli


@pytest.fixture
def config(tmp_path):
    make_base(tmp_path / "base")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(make_values(tmp_path)))
    return str(tmp_path / "c.yaml")


@pytest.mark.parametrize("name", ["--ranks", "--gpus"])
def test_a_training_starts_so_many_processes(config, monkeypatch, name):
    asked = []
    monkeypatch.setattr(launch, "start_ranks", lambda count, arguments: asked.append((count, arguments)))
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    done = CliRunner().invoke(cli, [config, name, "3"], catch_exceptions=False)
    assert (done.exit_code, asked) == (0, [(3, ["run", config, "--dump-rollouts="])])


def test_the_estimate_is_the_same(config):
    said = [
        CliRunner().invoke(cli, ["cost", config, "--memory", "80", *asked], catch_exceptions=False).output
        for asked in (["--ranks", "2"], ["--gpus", "2"], [])
    ]
    assert said[0] == said[1] != said[2]
    assert "2 x a GPU" in said[0]


@pytest.mark.parametrize("command", ["run", "cost"])
def test_both_names_stand_in_one_line_of_the_help(command):
    lines = CliRunner().invoke(cli, [command, "--help"]).output.splitlines()
    assert len([line for line in lines if "--ranks, --gpus N" in line]) == 1
