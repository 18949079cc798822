"""The commands that answer a question: fractions are fractions."""

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli


@pytest.mark.parametrize("value", ["2", "80", "0", "1", "-0.1"])
@pytest.mark.parametrize(("command", "option"), [(["compare"], "--margin"), (["plan", "--detect", "0.1"], "--power")])
def test_percent_for_a_fraction_is_refused(make_run, command, option, value):
    runs = [str(make_run(name, {"t": [[1, 0], [0, 1]]})) for name in ("a", "b")]
    done = CliRunner().invoke(cli, [*command, *runs, option, value])
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output and "0<x<1" in done.output
