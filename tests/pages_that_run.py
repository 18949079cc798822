"""Pages whose commands run: what a page shows is what its commands print.

In the README and the pages of docs/, a block ```` ```console ```` holds commands after ``$ `` and what they print; a
block with ``title="NAME"`` is a file of that name. They run in a folder that holds those files and tests/. A line ``…``
stands for any lines.

    python tests/pages_that_run.py docs/start.md                # writes what the commands print now into the page
    python tests/pages_that_run.py --walk venv/bin README.md    # a stranger's walk: an installation's programs alone
                                                                # have to print what the page shows
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n?", re.MULTILINE)
_NAMED = re.compile(r'title="([^"]+)"')


def run_page(page: Path, folder: Path, programs: Path | None = None) -> Iterator[tuple[str, str, str]]:
    """(command, what the page shows, what it printed) of every command of a page, run in order in ``folder``.

    The commands are those of the folder ``programs`` with nothing of this checkout, else of this Python with all of it.
    """
    for language, options, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = _NAMED.search(options)
        if named:
            path = folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        elif language == "console":
            _, *parts = _COMMAND.split(body)
            for command, shown in zip(parts[::2], parts[1::2], strict=True):
                yield command, shown, _printed(command, folder, programs)


def agrees(shown: str, printed: str) -> bool:
    """Are these the same lines, where ``…`` stands for any?

    >>> agrees("a\\n…\\nd\\n", "a\\nb\\nc\\nd\\n"), agrees("a\\n", "b\\n")
    (True, False)
    """
    lines = [".*" if line == "…" else re.escape(line) for line in _lines(shown)]
    return re.fullmatch("\n".join(lines), "\n".join(_lines(printed)), re.DOTALL) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def _printed(command: str, folder: Path, programs: Path | None) -> str:
    """What a command writes to standard output; what it writes beside that is progress."""
    if programs is None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "train")])}
        env.pop("STAPO_BENCH_DATA", None)
    else:
        env = {}
    env["PATH"] = os.pathsep.join([str(programs or Path(sys.executable).parent), os.defpath])
    env |= {"COLUMNS": "120", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.stdout if done.stdout or not done.stderr else done.stderr


def walk(pages: list[Path], programs: Path) -> list[str]:
    """What the pages' commands print otherwise than the pages show, each as a difference of lines."""
    differences = []
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "tests").symlink_to(ROOT / "tests")
            began = time.monotonic()
            for command, shown, printed in run_page(page, Path(folder), programs.absolute()):
                print(f"{time.monotonic() - began:5.1f} s  $ {command}", flush=True)
                if not agrees(shown, printed):
                    lines = difflib.unified_diff(_lines(shown), _lines(printed), str(page), "printed", lineterm="")
                    differences.append("\n".join([f"{page}: $ {command}", *lines]))
                began = time.monotonic()
    return differences


def main() -> None:
    """Walk; or write what the commands print into the pages that are named, but where a page shows less with ``…``."""
    if sys.argv[1] == "--walk":
        differences = walk([Path(page) for page in sys.argv[3:]], Path(sys.argv[2]))
        sys.exit("\n\n".join(differences) or 0)
    for page in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "tests").symlink_to(ROOT / "tests")
            text = page.read_text(encoding="utf-8")
            for command, shown, printed in run_page(page, Path(folder)):
                if not agrees(shown, printed):
                    text = text.replace(f"$ {command}\n{shown}", f"$ {command}\n{printed.rstrip()}\n", 1)
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
