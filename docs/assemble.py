"""The site's sources in one folder: docs/ with its notebooks, the pages beside what they describe, and every command's
own help.

python docs/assemble.py build/site        # then: zensical build
"""

import json
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "stapo_bench/grading/README.md": "explanations/grading.md",
    "tasks/README.md": "reference/task-files.md",
    "train/README.md": "reference/trainer.md",
    "train/SCALE.md": "reference/scale.md",
}
"""Pages beside what they describe: their place on the site."""

_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?([^)]*)\)")


def site_path(path: str) -> str | None:
    """Where a file of the repository stands on the site; None: it does not.

    >>> [site_path(path) for path in ("docs/gate.md", "train/README.md", "results/tiny", "stapo_bench/cli.py")]
    ['gate.md', 'reference/trainer.md', 'results/tiny/index.md', None]
    """
    if (ROOT / path / "README.md").is_file():
        return site_path(f"{path}/README.md")
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/").replace(".ipynb", ".md")
    if path.startswith("results/") and path.endswith((".md", ".svg", ".png")):
        return path.replace("README.md", "index.md")
    return None


def linked(text: str, source: str) -> str:
    """The text of a file of the repository with its relative links led to the site; without a place there, words alone.

    >>> linked("[a](gate.md#b) [c](../stapo_bench/cli.py)", "docs/promises.md")
    '[a](gate.md#b) c'
    """
    page = site_path(source)
    assert page is not None, source

    def led(match: re.Match[str]) -> str:
        words, target, anchor, title = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        place = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if place is None:
            return words.lstrip("!")[1:-1]
        return f"{words}({posixpath.relpath(place, posixpath.dirname(page) or '.')}{anchor or ''}{title})"

    return _LINK.sub(led, text)


def notebook_page(notebook: dict[str, Any]) -> str:
    r"""A notebook as Markdown: its texts, its code, and what the code showed.

    >>> shown = {"output_type": "execute_result", "data": {"text/html": ["<b>2</b>\n", "\n", "x"], "text/plain": ["2"]}}
    >>> cells = [{"cell_type": "markdown", "source": ["# A\n", "b"]}]
    >>> cells += [{"cell_type": "code", "source": ["1 + 1"], "outputs": [shown]}]
    >>> print(notebook_page({"cells": cells}))
    # A
    b
    <BLANKLINE>
    ```python
    1 + 1
    ```
    <BLANKLINE>
    <div class="scrolls"><b>2</b>
    x</div>
    <BLANKLINE>
    """
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """An output: HTML or SVG without its blank lines, which would end it, else as text."""
    for kind in ("text/html", "image/svg+xml"):
        if kind in output.get("data", {}):
            lines = "".join(output["data"][kind]).splitlines()
            return '<div class="scrolls">' + "\n".join(line for line in lines if line.strip()) + "</div>"
    return f"```text\n{''.join(output.get('text') or output['data']['text/plain']).rstrip()}\n```"


def reference(name: str, package: str) -> str:
    """The help of a command line and of each of its commands, as Markdown."""
    root: click.Command = import_module(f"{package}.cli").cli
    parts = [f"# {name}"]
    for path, text in _helps(root, click.Context(root, info_name=name, terminal_width=100)):
        heading = "" if path == name else f"## {path}\n\n"
        parts.append(f"{heading}```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from _helps(below, click.Context(below, info_name=name, parent=context, terminal_width=100))


def assemble(out: Path) -> None:
    """Write the sources of the site into ``out``, which is made anew."""
    shutil.rmtree(out, ignore_errors=True)
    files = [path for folder in ("docs", "results") for path in (ROOT / folder).rglob("*") if path.is_file()]
    for file in [*files, *(ROOT / name for name in ELSEWHERE)]:
        source = file.relative_to(ROOT).as_posix()
        place = site_path(source)
        if place is None:
            continue
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix in (".md", ".ipynb"):
            text = file.read_text(encoding="utf-8")
            text = notebook_page(json.loads(text)) if file.suffix == ".ipynb" else text
            (out / place).write_text(linked(text, source), encoding="utf-8")
        else:
            shutil.copyfile(file, out / place)
    for name, package in (("stapo-bench", "stapo_bench"), ("stapo-train", "stapo_train")):
        (out / "reference" / f"{name}.md").write_text(reference(name, package), encoding="utf-8")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
