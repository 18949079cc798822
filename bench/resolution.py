"""Whether pip finds versions for every extra on every Python, for CUDA, and which; nothing is installed.

    python -m bench.resolution                          # every extra, Python 3.10 to 3.13: some fifteen minutes
    python -m bench.resolution --extra vllm --python 3.12

Each row is a dry run of the command that docs/gpu.md gives (``pip install --dry-run``, from the metadata of wheels),
under that environment's file of tested versions. It needs the index, and ``python3.10`` to ``python3.13`` on PATH.
``requirements/resolved.json`` holds the result; tests/test_resolution.py holds it against ``pyproject.toml``.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "requirements" / "resolved.json"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
CONSTRAINTS: Mapping[str, tuple[str, ...]] = {
    "eval": ("core",),
    "train": ("core",),
    "low-memory": ("core", "low-memory"),
    "plots": ("core",),
    "parquet": ("core",),
    "graders": ("core",),
    "trackers": ("core",),
    "ray": ("core",),
    "dev": ("core",),
    "inspect": (),
    "lm-eval": ("core", "lm-eval"),
    "trl": ("core", "trl"),
    "vllm": ("vllm",),
    "verl": ("verl-gpu",),
    "verl-gpu": ("verl-gpu",),
}
"""Extra -> the files in requirements/ whose versions its environment is made with."""
SHOWN = ("torch", "transformers", "vllm", "verl", "triton", "numpy")


def requirements_of(project: Mapping[str, Any], extra: str) -> list[str]:
    """What an installation with this extra asks of pip; extras of our own are replaced by what they bring."""
    found: list[str] = []
    for requirement in project["optional-dependencies"][extra]:
        ours = re.fullmatch(rf"{re.escape(project['name'])}\[([^]]*)\]", requirement)
        found += (
            [inner for name in ours[1].split(",") for inner in requirements_of(project, name)]
            if ours
            else [requirement]
        )
    return list(dict.fromkeys([*project["dependencies"], *found]))


def digest(files: tuple[str, ...]) -> str:
    """Of the tested versions in these files: a row made with others is out of date. Comments do not count."""
    lines = [line for name in files for line in (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()]
    pins = [line for line in lines if line and not line.startswith("#")]
    return hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]


def resolve(pip: Path, requirements: list[str], files: tuple[str, ...]) -> dict[str, Any]:
    """pip's answer: ``versions`` by name, or why it ``refused``."""
    report = pip.parent / "report.json"
    paths = [ROOT / "requirements" / f"{name}.txt" for name in files]
    constraints = [part for path in paths for part in ("-c", str(path))]
    command = [str(pip), "install", "-q", "--dry-run", "--ignore-installed", "--report", str(report)]
    # Three equals signs leave out torch's builds for CPUs ("2.13.0+cpu"), where this machine knows of any.
    torch = [f"torch==={pin}" for path in paths for pin in re.findall(r"^torch==(\S+)", path.read_text(), re.MULTILINE)]
    asks = torch if any(one.startswith("torch") for one in requirements) else []
    done = subprocess.run([*command, *constraints, *requirements, *asks], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"refused": _reason(done.stderr)}
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    versions = {_name(one["metadata"]["name"]): one["metadata"]["version"] for one in installed}
    return {"versions": dict(sorted(versions.items()))}


def _reason(told: str) -> str:
    """The first cause that pip names; its last lines are general advice."""
    lines = [line.strip() for line in told.splitlines()]
    causes = [line for line in lines if "Requires-Python" in line or "depends on" in line or line.startswith("ERROR:")]
    return (causes[0] if causes else lines[-1] if lines else "pip says nothing")[:200]


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def rows(pythons: list[str], extras: list[str]) -> Iterator[dict[str, Any]]:
    """One row per Python and extra, printed as it is made."""
    import tomllib  # here: reading the module must work on Python 3.10

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([f"python{python}", "-m", "venv", folder], check=True)
            pip = Path(folder, "bin", "pip")
            subprocess.run([pip, "install", "-q", "--upgrade", "pip"], check=True, capture_output=True)
            for extra in extras:
                files = CONSTRAINTS[extra]
                found = resolve(pip, requirements_of(project, extra), files)
                shown = " ".join(f"{n} {found['versions'][n]}" for n in SHOWN if n in found.get("versions", {}))
                print(f"{python} {extra}: {shown or 'refused: ' + found['refused']}", flush=True)
                yield {"extra": extra, "python": python, "constraints": digest(files), **found}


def main() -> None:
    """Resolve, print, and put the rows into the stored ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", choices=PYTHONS, help="default: all")
    parser.add_argument("--extra", action="append", choices=CONSTRAINTS, help="default: all")
    asked = parser.parse_args()
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else []
    by_key = {(row["extra"], row["python"]): row for row in stored}
    for row in rows(asked.python or list(PYTHONS), asked.extra or list(CONSTRAINTS)):
        by_key[row["extra"], row["python"]] = row
        kept = [by_key[extra, python] for extra in CONSTRAINTS for python in PYTHONS if (extra, python) in by_key]
        STORED.write_text("[\n" + ",\n".join(json.dumps(one) for one in kept) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
