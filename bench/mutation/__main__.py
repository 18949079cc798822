"""Small mutations of the code, each against the tests that run its line: which does no test notice?

    scripts/mutation.sh stapo_bench/statistics/intervals.py          # every mutation of a file
    scripts/mutation.sh --sample 120 --seed 35 --json results/bench/mutation.json statistics grading

The mutations are cosmic-ray's (operators, comparisons, constants, conditions, decorators, loops), made in copies of
the working tree. bench/mutation/parts.yaml names parts of the code with their tests. The same command again goes on
where it was stopped; with --again it tries once more what was not noticed. --json writes the record, beside what other
commands found, and docs/mutation.md, the page of what was not noticed; a reason that the record gives for such a
mutation stays there, and so do the places of a sample, whatever changes elsewhere in the modules.
"""

import argparse
import contextlib
import json
import os
import shlex
from pathlib import Path

import yaml

from bench.mutation.covering import READERS, covering
from bench.mutation.page import page
from bench.mutation.places import place_of
from bench.mutation.session import Chosen, copies, open_session, record, run, to_try
from stapo_bench.runs import measured_with

BUILD = Path("build/mutation").resolve()
PAGE = Path("docs/mutation.md")
PARTS = Path(__file__).with_name("parts.yaml")


def python_files(paths: list[str], pattern: str, within: tuple[str, ...]) -> list[str]:
    """The files among these paths, those of the folders and those that a ``*`` stands for, relative to the repository.

    A mutation is made in a copy of the working tree, so no path may lead out of it.
    """
    found: set[str] = set()
    for path in paths:
        relative = Path(os.path.relpath(path))
        named = sorted(Path().glob(str(relative))) if "*" in path else [relative]
        files = [file for one in named for file in ([one] if one.is_file() else one.rglob(pattern))]
        is_python = all(file.suffix == ".py" for file in files)
        if not files or not is_python or not any(relative.is_relative_to(folder) for folder in within):
            raise SystemExit(
                f"scripts/mutation.sh: expected Python files, or folders of them, in {' or '.join(within)}, got {path}"
            )
        found.update(map(str, files))
    return sorted(found)


def chosen_of(arguments: argparse.Namespace) -> tuple[Chosen, list[str]]:
    """What is mutated, and the files of tests to choose among: those of the named parts, else all."""
    parts = yaml.safe_load(PARTS.read_text(encoding="utf-8"))
    named = [parts[path] for path in arguments.paths if path in parts]
    paths = [path for path in arguments.paths if path not in parts]
    modules = [module for part in named for module in part["modules"]]
    of_parts = [*READERS, *(test for part in named for test in part["tests"])]
    tests = arguments.tests or (["tests"] if paths else of_parts)
    files = python_files([*modules, *paths], "*.py", within=("stapo_bench", "train/stapo_train"))
    chosen = Chosen(modules=tuple(files), sample=arguments.sample, seed=arguments.seed)
    return chosen, python_files(tests, "test_*.py", within=("tests",))


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def main() -> None:
    """Parse, mutate, print, write."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutation.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", help=f"modules, folders of them, or names of parts in {PARTS.name}")
    parser.add_argument("--sample", type=positive, help="so many random places, one mutation at each (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    parser.add_argument("--tests", nargs="+", help="choose among these tests (default: those of the parts, else all)")
    parser.add_argument("--jobs", type=positive, default=1, help="mutations at a time, each in a copy (default 1)")
    parser.add_argument("--again", action="store_true", help="try what was not noticed once more")
    parser.add_argument("--json", type=Path, help=f"write the record, and {PAGE}")
    arguments = parser.parse_args()

    chosen, tests = chosen_of(arguments)
    command = shlex.join(["scripts/mutation.sh", *_to_repeat(arguments)])
    is_known = arguments.json is not None and arguments.json.exists()
    known = json.loads(arguments.json.read_text(encoding="utf-8")) if is_known else {"samples": [], "earlier": []}
    before = next((sample for sample in known["samples"] if sample["command"] == command), {"places": []})
    if "places" not in before:  # a new sample must not take its place
        PAGE.write_text(page(known), encoding="utf-8")
        raise SystemExit(
            f"{arguments.json}: no places were kept of this sample, so nothing more is tried; {PAGE} was made again; "
            "another --seed draws a fresh sample"
        )
    path = open_session(BUILD, chosen, [place_of(row) for row in before["places"]])
    if todo := to_try(path, arguments.again, before["places"]):  # else the record and the page alone, without a map
        with copies(BUILD, arguments.jobs) as made:
            covered = covering(tests, made, BUILD / "map")
            with contextlib.suppress(KeyboardInterrupt):  # what was found so far is told
                run(path, todo, covered, made)
    found = record(path, command, known["samples"])
    if gone := sum("gone" in place for place in found["places"]):
        print(f"the line of {gone} of the sample's {len(found['places'])} places is gone since")
    if found["left"]:
        print(f"{found['left']} were not tried; the same command goes on")
    for room, counts in found["rooms"].items():
        print(f"{room:12} {', '.join(f'{number} {kind}' for kind, number in counts.items())}")
    for row in found["unnoticed"]:
        if row["tests"] != "noticed since":
            print(f"{row['path']}:{row['line']}: {row['was']}  ->  {row['became'] or 'run by no test'}")
    if arguments.json:
        found |= measured_with(["cosmic-ray", "coverage", "pytest"])
        others = [sample for sample in known["samples"] if sample["command"] != found["command"]]
        known = {"samples": [*others, found], "earlier": known["earlier"]}
        arguments.json.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        PAGE.write_text(page(known), encoding="utf-8")


def _to_repeat(arguments: argparse.Namespace) -> list[str]:
    sample = ["--sample", str(arguments.sample), "--seed", str(arguments.seed)] if arguments.sample else []
    tests = ["--tests", *arguments.tests, "--"] if arguments.tests else []
    return [*sample, "--json", str(arguments.json), *tests, *arguments.paths]


if __name__ == "__main__":
    main()
