"""Notebooks whose outputs are today's.

    .venv-site/bin/python tests/notebooks_that_run.py      # runs docs/notebooks/ and writes the outputs into them

Needs nbclient and ipykernel, which the environment of the site has: ``scripts/integration.sh site``.
"""

import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def run_notebook(path: Path) -> Any:
    """The notebook with the outputs of all its cells, run in order in a fresh kernel; a cell that fails raises."""
    import nbformat
    from jupyter_client import AsyncKernelManager
    from nbclient import NotebookClient

    paths = os.pathsep.join([str(ROOT), str(ROOT / "train")])
    commands = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    notebook = nbformat.read(path, as_version=4)
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc")  # no port that others could reach
    client = NotebookClient(notebook, km=manager, timeout=120, record_timing=False, coalesce_streams=True)
    client.execute(env={**os.environ, "PYTHONPATH": paths, "PATH": commands, "COLUMNS": "120"})
    return notebook


if __name__ == "__main__":
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(run_notebook(path), path)
