"""Which tests run a line: a map, made one file of tests at a time and kept under ``build/mutation/map``.

A file of tests is run under coverage, with the test that runs a line as the line's context. It is run again where it
has changed, or a module that its tests run. A test that fails without any mutation is never chosen.
"""

import ast
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

READERS = ("tests/test_records.py",)
"""Tests that read the modules instead of running them: they try every line that some test runs."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CONFIG = "[run]\nrelative_files = true\nsource = stapo_bench, train/stapo_train\n"


@dataclass(frozen=True, kw_only=True)
class Covering:
    """What the tests of the map run."""

    lines: Mapping[str, Mapping[int, frozenset[str]]]  # path -> line -> tests; no tests: run by an import alone
    size: Mapping[str, int]  # test -> lines that it runs
    seconds: Mapping[str, float]  # test -> a share of its file's time
    readers: tuple[str, ...] = ()  # files of tests that read every module

    def tests_of(self, path: str, first: int, last: int) -> list[str]:
        """The module's doctests and the tests that run one of these lines, those that run least else first; readers.

        A line that only an import runs (a field, a constant) is checked by readers first, and by the tests that run the
        module's other lines; where no test runs any, by those of the modules that import it. None: nothing runs these
        lines.
        """
        by_calls = is_in_function(path, first)
        lines = self.lines.get(path, {})
        run = [line for line in range(first, last + 1) if line in lines]
        found = {test for line in run for test in lines[line]}
        if run and not (found and by_calls):  # a test in which the import came is one of many
            found = {test for tests in lines.values() for test in tests}
        if run and not found:
            imported = f"from {module_of(path)} import"
            users = [other for other in self.lines if imported in Path(other).read_text(encoding="utf-8")]
            found = {test for other in users for tests in self.lines[other].values() for test in tests}
        by_file: dict[str, list[str]] = {path: [path]} if ">>> " in Path(path).read_text(encoding="utf-8") else {}
        for test in sorted(found, key=lambda test: (self.size[test], test)):
            by_file.setdefault(test.partition("::")[0], []).append(test)  # together: what they share is made once
        tests, readers = [test for tests in by_file.values() for test in tests], self.readers if found else ()
        return [*tests, *readers] if by_calls else [*readers, *tests]


def module_of(path: str) -> str:
    """The name by which a file is imported."""
    return path.removeprefix("train/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_in_function(path: str, line: int) -> bool:
    """Whether the line is run by calls, not by the import: in the body of a function."""
    functions = (n for n in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))) if isinstance(n, FUNCTIONS))
    return any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def covering(files: list[str], trees: list[Path], store: Path) -> Covering:
    """The map of these files of tests; what is missing is made, in as many copies of the working tree at a time."""
    from coverage import CoverageData

    _measure_all([(file, *_kept(store, file)) for file in files], trees)

    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    size: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = {}
    readers = []
    for file in files:
        data, about = _kept(store, file)
        known = json.loads(about.read_text(encoding="utf-8"))
        readers += [file] if file in READERS and not known["failed"] else []
        found = CoverageData(str(data))
        found.read()
        tests = set()
        for path in found.measured_files():
            for line, contexts in found.contexts_by_lineno(path).items():
                named = set(_tests(contexts)) - set(known["failed"])
                lines[path][line] |= named
                tests |= named
                for test in named:
                    size[test] += 1
        seconds |= dict.fromkeys(tests, known["seconds"] / max(1, len(tests)))
    frozen = {path: {line: frozenset(tests) for line, tests in of.items()} for path, of in lines.items()}
    return Covering(lines=frozen, size=size, seconds=seconds, readers=tuple(readers))


def _tests(contexts: list[str]) -> Iterator[str]:
    """The tests of a line's contexts, ``file::test|run``; what a fixture runs may be for all tests of its file."""
    for context in contexts:
        test, _, phase = context.rpartition("|")
        if test:
            yield test if phase == "run" else test.partition("::")[0]


def _kept(store: Path, file: str) -> tuple[Path, Path]:
    """Where the map keeps what a file of tests runs, and what is known of it."""
    name = file.replace("/", ".")
    return store / f"{name}.coverage", store / f"{name}.json"


def _measure_all(files: list[tuple[str, Path, Path]], trees: list[Path]) -> None:
    """Run those files of tests that the map does not hold as they are now, one at a time in each copy."""
    todo = [(file, data, about) for file, data, about in files if not _is_current(file, about)]
    free: Queue[Path] = Queue()
    for tree in trees:
        free.put(tree)

    def measured(number: int, file: str, data: Path, about: Path) -> None:
        tree = free.get()
        print(f"map {number}/{len(todo)}: {file}", file=sys.stderr, flush=True)
        try:
            _measure(file, tree, data, about)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        for job in [pool.submit(measured, number, *one) for number, one in enumerate(todo, start=1)]:
            job.result()


def _is_current(file: str, about: Path) -> bool:
    if not about.exists():
        return False
    digests = json.loads(about.read_text(encoding="utf-8"))["digests"]
    return all(Path(path).is_file() and digest(path) == known for path, known in digests.items())


def _measure(file: str, tree: Path, data: Path, about: Path) -> None:
    """Run a file of tests under coverage; note what it ran, what failed and how long it took."""
    from coverage import CoverageData
    from pytest import ExitCode

    data.parent.mkdir(parents=True, exist_ok=True)
    data.unlink(missing_ok=True)
    config, cache = data.with_suffix(".cfg"), data.with_suffix(".cache")
    config.write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", file, "--cov", f"--cov-config={config}", "--cov-context=test"]
    command += ["--cov-report=", "-o", f"cache_dir={cache}"]
    began = time.monotonic()
    environment = {**environment_of(tree), "COVERAGE_FILE": str(data)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (ExitCode.OK, ExitCode.TESTS_FAILED, ExitCode.NO_TESTS_COLLECTED) or not data.exists():
        raise SystemExit(
            f"{file}: expected tests that run, got exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}"
        )
    failed = cache / "v" / "cache" / "lastfailed"
    found = CoverageData(str(data))
    found.read()
    ran = [p for p in found.measured_files() if any(set(c) - {""} for c in found.contexts_by_lineno(p).values())]
    record = {
        "digests": {path: digest(path) for path in (file, *sorted(ran))},
        "failed": sorted(json.loads(failed.read_text(encoding="utf-8"))) if failed.exists() else [],
        "seconds": round(time.monotonic() - began, 1),
    }
    about.write_text(json.dumps(record, indent=1), encoding="utf-8")


def environment_of(tree: Path) -> dict[str, str]:
    """The environment in which a copy's own packages are imported."""
    return {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'train'}:{tree / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}


def digest(path: str) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
