"""Matrices of outcomes, and what ``compare`` refuses; imported by the tests of comparisons."""

from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError


def outcome_rows(num_right, num_samples=4):
    """Problems with so many right samples each."""
    return [[1] * c + [0] * (num_samples - c) for c in num_right]


def refused(*arguments):
    """The one line with which ``compare`` refuses."""
    result = CliRunner().invoke(cli, ["compare", *map(str, arguments)])
    assert result.exit_code in (1, 2), result.output
    error = str(result.exception) if isinstance(result.exception, StapoError) else result.output.strip()
    assert "\n" not in error
    return error
