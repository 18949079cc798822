"""The site: its commands run and print what is shown, or name options that exist; its links lead somewhere."""

import re
import shlex
import sys
from importlib import import_module

import click
import pytest
import yaml
from pages_that_run import BLOCK, ROOT, agrees, run_page

sys.path.insert(0, str(ROOT / "docs"))
from assemble import assemble, linked, site_path
from check_links import broken_links

PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUN = [page for page in [ROOT / "README.md", *PAGES] if "```console" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
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
    found = run_page(page, tmp_path)
    assert [(command, printed) for command, _, printed in found] == [
        ("cat a/b.txt", "x\ny\n"),
        ("cat \\\n  a/b.txt", "x\ny\n"),
    ]
    assert [agrees(shown, printed) for _, shown, printed in found] == [False, True]


def command_lines() -> list[tuple[str, str]]:
    """(page, command) of every command of ours in a block that is not run."""
    found = []
    for page in [*PAGES, ROOT / "README.md", ROOT / "train" / "README.md", ROOT / "tasks" / "README.md"]:
        for language, _, body in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in ("", "bash"):
                lines = body.replace("\\\n", " ").split("\n")
                found += [(page.name, line) for line in lines if re.match(r"(srun |uvx )?stapo-(bench|train) \w", line)]
    return found


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
