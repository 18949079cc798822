"""Matrices of outcomes, what ``compare`` computes and what it refuses; imported by the tests of comparisons."""

import json

from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError
from stapo_bench.presenting import render_comparison


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


def numbers(comparison):
    """All that was computed, without names, notes and what is known besides."""
    found = json.loads(render_comparison(comparison, "json"))
    return {key: found[key] for key in ("same_seeds", "margin", "tasks", "average")}
