"""A file of another kind, such as an input, is not replaced by what a command writes; one of its own is."""

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import UsageError
from stapo_bench.runs import export_runs
from stapo_bench.runs.files import refuse_foreign

CELLS = "item,score\n" + "".join(f"{n},{n % 2}\n" for n in range(12))


def call(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_a_page_does_not_replace_an_input_and_replaces_itself(command, tmp_path):
    a, b, page = (tmp_path / name for name in ("a.csv", "b.csv", "page.html"))
    a.write_text(CELLS)
    b.write_text(CELLS.replace("1,1", "1,0"))
    before = b.read_bytes()
    refused = call(command, a, b, "-o", b)
    assert isinstance(refused.exception, UsageError) and str(refused.exception).startswith(f"{b}: expected a free name")
    assert b.read_bytes() == before
    page.touch()  # an empty one may be taken, as mktemp makes it
    for _ in range(2):
        done = call(command, a, b, "-o", page)
        assert done.exit_code == 0, done.output
        assert page.read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl", "mine.parquet"])
def test_a_table_of_samples_does_not_replace_another_table(name, tmp_path):
    path = tmp_path / name
    path.write_text(CELLS)
    with pytest.raises(UsageError, match="expected a free name, or a file that this command wrote"):
        export_runs([tmp_path / "run"], path)
    assert path.read_text() == CELLS


def test_a_figure_does_not_replace_notes_called_like_one(tmp_path):
    path = tmp_path / "notes.svg"
    path.write_text("my notes")
    refused = call("plan", "--problems", 30, "--samples", 32, "--baseline", 0.4, "-o", path)
    assert refused.exit_code != 0 and path.read_text() == "my notes"


def test_what_begins_as_ours_may_be_replaced(tmp_path):
    path = tmp_path / "fig.svg"
    for content in (b"", b"<?xml version"):
        path.write_bytes(content)
        refuse_foreign(path, b"<?xml")
    refuse_foreign(tmp_path / "free", b"<?xml")
    path.write_bytes(b"<?x")
    with pytest.raises(UsageError, match=r"fig\.svg: expected a free name"):
        refuse_foreign(path, b"<?xml")
