"""The site: its commands run and print what is shown, or name options that exist; its links lead somewhere."""

import inspect
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pkgutil import resolve_name

import click
import pytest
import yaml
from pages_that_run import BLOCK, ROOT, agrees, run_page, walk

import stapo_bench
from stapo_train.config import load_config

sys.path.insert(0, str(ROOT / "docs"))
from assemble import assemble, linked, site_path
from check_links import broken_links

PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUN = [page for page in [ROOT / "README.md", *PAGES] if "```console" in page.read_text(encoding="utf-8")]


EACH = pytest.mark.slow(reason="the commands of a page, each a process of its own")
FIRST = ("README", "start", "run-folder")  # what a stranger reads first stays, and a page that reads what others write


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[] if page.stem in FIRST else EACH) for page in RUN]
)
def test_a_page_shows_what_its_commands_print(page, tmp_path):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for command, shown, printed in run_page(page, tmp_path):
        assert agrees(shown, printed), f"$ {command}\nthe page shows:\n{shown}\nthe command prints:\n{printed}"


def test_the_pages_that_run_are_found():
    assert {page.stem for page in RUN} >= {"README", "start", "two-checkpoints", "other-harness"}


def test_a_page_that_shows_something_else_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '```text title="a/b.txt"\nx\ny\n```\n\n```console\n$ cat a/b.txt\nx\n$ cat \\\n  a/b.txt\n…\ny\n```\n'
    )
    found = list(run_page(page, tmp_path))
    assert [(command, printed) for command, _, printed in found] == [
        ("cat a/b.txt", "x\ny\n"),
        ("cat \\\n  a/b.txt", "x\ny\n"),
    ]
    assert [agrees(shown, printed) for _, shown, printed in found] == [False, True]


def test_a_walk_has_the_programs_of_an_installation_alone_and_says_what_differs(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "hello"
    program.write_text('#!/bin/sh\necho "hello ${PYTHONPATH:-nobody}"\nls\n')
    program.chmod(0o755)
    (tmp_path / "right.md").write_text("```console\n$ hello\nhello nobody\ntests\n```\n")
    (tmp_path / "wrong.md").write_text("```console\n$ hello\nhello 4.1\ntests\n$ hello there\n…\n```\n")
    monkeypatch.setenv("PYTHONPATH", "of-the-checkout")
    assert walk([tmp_path / "right.md"], tmp_path / "bin") == []
    (found,) = walk([tmp_path / "right.md", tmp_path / "wrong.md"], tmp_path / "bin")
    assert found.splitlines()[0] == f"{tmp_path}/wrong.md: $ hello"
    assert [line for line in found.splitlines() if line[:2] in ("-h", "+h")] == ["-hello 4.1", "+hello nobody"]


START = ROOT / "docs" / "start.md"


def first_table() -> list[list[str]]:
    """The rows of the table of the tiny suite that a stranger sees first, as cells."""
    lines = START.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| tiny ")]


def test_the_first_table_is_shown_as_it_was_measured():
    lines = (ROOT / "results/tiny/table.md").read_text(encoding="utf-8").splitlines()
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:14]]
    shown = [head.index(name) for name in ("Model", "Method", "Decoding", "Tiny AIME24 @32", "Tiny MATH500 @4", "Avg")]
    # What a mark refers to stands below the whole table alone.
    measured = [[*(row[i].replace("†", "") for i in shown), row[-1]] for row in rows]
    assert first_table() == measured and len(measured) == 10


def test_the_walk_ends_with_the_verdict_on_the_runs_of_that_table():
    made = ROOT / "runs/tiny/results/table.md"
    if not made.is_file() or made.read_text() != (ROOT / "results/tiny/table.md").read_text():
        pytest.skip("runs/tiny is not made here, or by a processor whose numbers are others")
    blocks = [body for _, _, body in BLOCK.findall(START.read_text(encoding="utf-8"))]
    (block,) = [body for body in blocks if body.startswith("$ stapo-bench compare runs/tiny/eval")]
    command, shown = block.removeprefix("$ ").split("\n", 1)
    printed = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.startswith(shown)


COMMAND = re.compile(r"(\$ )?(srun |uvx (--from \S+ )?|pipx run (--spec \S+ )?)?stapo-(bench|train) \w")


def command_lines() -> list[tuple[str, str]]:
    """(page, command) of every command of ours in a block that is not run."""
    found = []
    for page in [*PAGES, ROOT / "README.md", ROOT / "train" / "README.md", ROOT / "tasks" / "README.md"]:
        for language, _, body in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in ("", "bash", "text"):
                lines = body.replace("\\\n", " ").split("\n")
                found += [(page.name, line) for line in lines if COMMAND.match(line)]
    return found


def test_commands_that_another_program_starts_are_found():
    words = [shlex.split(line) for page, line in command_lines() if page == "start.md"]
    found = {(line[0], line[line.index("stapo-bench") + 1]) for line in words}
    assert found >= {(starter, command) for starter in ("uvx", "pipx") for command in ("compare", "import")}


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_a_command_of_a_page_exists_and_takes_its_options(page, line):
    words = shlex.split(line.split(" #")[0].split(" | ")[0])
    name, *words = words[words.index(next(word for word in words if word.startswith("stapo-"))) :]
    command = import_module(f"{name.replace('-', '_')}.cli").cli
    context = click.Context(command)
    while isinstance(command, click.Group) and words:
        below = command.get_command(context, words[0])
        if below is None and name == "stapo-train":
            below, words = command.get_command(context, "run"), ["run", *words]
        assert below is not None, f"{page}: {name} has no command {words[0]}"
        command, words = below, words[1:]
    takes = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    unknown = [word for word in words if word.startswith("-") and not re.match(r"-?\d", word.lstrip("-"))]
    unknown = [word for word in unknown if word.split("=")[0] not in takes | {"-h", "--help"}]
    assert unknown == [], f"{page}: {line}"
    if (name, command.name) == ("stapo-train", "run") and (ROOT / words[0]).is_file():
        load_config(ROOT / words[0], [word for word in words if re.match(r"[a-z_.]+=", word)])  # refuses unknown keys


def test_what_the_reference_documents_is_there_and_has_a_docstring():
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    assert len(names) == len(set(names)) == 13
    for name in names:  # where it is defined: the site reads the code and does not run it
        found = resolve_name(name)
        assert inspect.getdoc(found), name
        assert inspect.ismodule(found) or name == f"{found.__module__}.{found.__name__}", name


def test_the_reference_names_members_of_what_compare_returns():
    found = stapo_bench.compare({"p": [0, 1], "q": [0, 0]}, {"p": [1, 1], "q": [0, 1]})
    effect = found.average.effect("these problems")
    records = {"Comparison": found, "TaskComparison": found.average, "Effect": effect, "Difference": effect.difference}
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert list(rows) == list(records)
    for record, about in rows.items():
        named = set(re.findall(r"`([a-z_]+)(?:\(\w*\))?`", about))
        assert len(named) >= 3 and {name for name in named if not hasattr(records[record], name)} == set(), record


def test_every_page_stands_in_the_navigation(tmp_path):
    assemble(tmp_path)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def named(entries):
        for entry in entries:
            if isinstance(entry, str):
                yield entry
            else:
                (below,) = entry.values()
                yield from [below] if isinstance(below, str) else named(below)

    assembled = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    reached = {path for path in assembled if path.startswith("results/") and not path.endswith("index.md")}  # by links
    assert assembled - set(named(settings["nav"])) - reached == set()
    assert set(named(settings["nav"])) <= assembled
    assert "stapo-bench compare" in (tmp_path / "reference" / "stapo-bench.md").read_text()


def test_links_are_led_to_the_site():
    assert site_path("docs/assemble.py") is None
    assert site_path("results/experiments/main/page.md") == "results/experiments/main/page.md"
    text = linked(
        "![a](main/x.svg) [b](../../docs/gate.md) [c](https://example.org/d.md)", "results/experiments/README.md"
    )
    assert text == "![a](main/x.svg) [b](../../gate.md) [c](https://example.org/d.md)"


def test_a_broken_link_a_missing_anchor_and_a_file_of_another_host_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">x</a><a href="#here">x</a><a href="c.html">x</a>'
        '<a href="https://example.org">x</a><script src="https://example.org/x.js"></script></p>'
    )
    (tmp_path / "b.html").write_text("<p>nothing</p>")
    assert broken_links(tmp_path) == ["a.html: b.html#there", "a.html: c.html", "a.html: https://example.org/x.js"]
