"""The differential table of docs/objectives.md, made again in the environment that has the oracle: verl's, or TRL's."""

from importlib.util import find_spec

import pytest

from bench.objective_oracles import trl_rows, verl_rows
from bench.objectives_page import read_rows

AGAIN = 10  # times the difference that the table has, or a rounding: another machine rounds otherwise


@pytest.mark.parametrize(("module", "maker"), [("verl", verl_rows), ("trl", trl_rows)])
def test_the_oracles_say_what_the_table_does(module, maker):
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed: scripts/integration.sh runs this")
    told = {(row.objective, row.oracle): row.difference for row in read_rows()}
    for row in maker():
        assert row.difference <= AGAIN * max(told[row.objective, row.oracle], 1e-15), row
