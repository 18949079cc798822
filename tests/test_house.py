"""The floor plan, held by the imports themselves (docs/architecture.md): lazy ones and those for types count, too.

Rooms stand from the ground up. A module imports from its own room and from rooms below, never from above and never in
a circle; from another room it takes what that room's door (``__init__``) hands out, and nothing private.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"stapo_bench": ROOT / "stapo_bench", "stapo_train": ROOT / "train" / "stapo_train"}

FLOORS = {
    "stapo_bench": (
        "errors records seeds plugins",
        "statistics",
        "tasks",
        "engines",
        "grading",
        "runs",
        "analysis",
        "sampling",
        "presenting",
        "commands",
        "cli __main__",
    ),
    "stapo_train": (
        "jobs parse train_records distributed advantages token_statistics",
        "objective",
        "objectives",
        "batch",
        "fused",
        "config",
        "preflight",
        "policy",
        "rollout",
        "run_folder",
        "tiny",
        "data reward training_log trackers",
        "inspect",
        "update",
        "run",
        "check cost integrations",
        "reproduce experiments",
        "cli __main__",
    ),
}
INNER_DOORS = {
    # Heavy, each behind an extra of its own: whoever needs one names it.
    "stapo_bench.engines.transformers",
    "stapo_bench.engines.foreign_checkpoint",
    "stapo_bench.engines.kv_cache",
    "stapo_bench.engines.token_sampling",
    "stapo_bench.engines.slots",
    "stapo_bench.engines.vllm",
    "stapo_bench.presenting.figures",
    "stapo_bench.presenting.report",
    # Not part of what a run is: other tools' files.
    "stapo_bench.runs.importing",
    "stapo_bench.runs.outcomes",
    # Not part of what a grader, or a task, is: a model that judges, generators of problems.
    "stapo_bench.grading.judge",
    "stapo_bench.tasks.kk",
    "stapo_bench.tasks.tiny",
}


# Rooms inside a room, from the ground up: entered by their doors too, and no two of one floor see each other.
INNER_FLOORS = {
    "stapo_bench.grading": (
        "tree units",
        "names",
        "evaluate",
        "read",
        "compare",
        "decide",
        "graders registry",
        "process serve",
        "pool",
        "voting judge",
    ),
}


class Arrow(NamedTuple):
    """An import: who, from where, and the name it takes (None: the module itself)."""

    source: str
    target: str
    name: str | None
    line: int


def module_name(path: Path, package: str) -> str:
    parts = path.relative_to(PACKAGES[package].parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path, package): path
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
    if path.name != "conftest.py"
}


def arrows(module: str, text: str) -> Iterator[Arrow]:
    """Every import of a module of ours, wherever in the file it stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    yield Arrow(module, alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: expected an absolute import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES:
                    yield Arrow(module, inner, None, node.lineno)
                elif node.module in MODULES:
                    yield Arrow(module, node.module, alias.name, node.lineno)


ARROWS = [arrow for module, path in MODULES.items() for arrow in arrows(module, path.read_text(encoding="utf-8"))]


def room(module: str) -> str:
    """``stapo_bench.runs`` for anything in it; a module at the top is a room of its own."""
    return ".".join(module.split(".")[:2])


def floor(module: str) -> int:
    """Its height; the trainer stands on the harness."""
    package, _, rest = module.partition(".")
    if not rest:
        return -1  # the package's own __init__: its version
    name = rest.split(".")[0]
    (height,) = (i for i, rooms in enumerate(FLOORS[package]) if name in rooms.split())
    return height + len(FLOORS["stapo_bench"]) * (package == "stapo_train")


def test_every_room_has_a_floor_and_the_harness_has_at_most_fourteen_names():
    tops = {package: {m.split(".")[1] for m in MODULES if m.startswith(package + ".")} for package in PACKAGES}
    for package, names in tops.items():
        assert names == set(" ".join(FLOORS[package]).split())
    assert len(tops["stapo_bench"] - {"__main__"}) <= 14


def test_imports_go_down():
    # A package's own __init__ hands its version to all rooms, and from the rooms to whoever imports the package.
    inner = [a for a in ARROWS if a.source not in PACKAGES]
    up = [a for a in inner if room(a.source) != room(a.target) and floor(a.source) <= floor(a.target)]
    same_floor = {(room(a.source), room(a.target)) for a in up if floor(a.source) == floor(a.target)}
    # Rooms of one floor do not see each other in both directions; the circles below are what would show it.
    assert [a for a in up if floor(a.source) < floor(a.target)] == []
    assert {(a, b) for a, b in same_floor if (b, a) in same_floor} == set()


def test_no_module_imports_itself_in_a_circle():
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for arrow in ARROWS:
        # A door imports its room's modules; inside a room nobody goes through the door.
        if not (arrow.source == arrow.target or arrow.target == arrow.source.split(".")[0]):
            graph[arrow.source].add(arrow.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_other_rooms_are_entered_by_the_door():
    inside = [
        a
        for a in ARROWS
        if room(a.source) != room(a.target)
        and a.target.startswith("stapo_bench.")
        and a.target != room(a.target)
        and not any(a.target == door or a.target.startswith(door + ".") for door in INNER_DOORS)
    ]
    assert inside == []


@pytest.mark.parametrize("outer", INNER_FLOORS)
def test_inner_rooms_stand_on_those_below(outer):
    height = {f"{outer}.{name}": i for i, names in enumerate(INNER_FLOORS[outer]) for name in names.split()}

    def inner(module: str) -> str:
        return ".".join(module.split(".")[:3])

    assert {inner(module) for module in MODULES if module.startswith(outer + ".")} == set(height)
    inside = [
        arrow
        for arrow in ARROWS
        if arrow.source.startswith(outer + ".")
        and arrow.target.startswith(outer + ".")
        and inner(arrow.source) != inner(arrow.target)
    ]
    assert len(inside) > 50
    assert [arrow for arrow in inside if height[inner(arrow.source)] <= height[inner(arrow.target)]] == []
    assert [arrow for arrow in inside if arrow.target != inner(arrow.target)] == []
    assert [arrow for arrow in inside if arrow.name and arrow.name.startswith("_")] == []


def test_nothing_private_is_taken_from_another_room():
    private = [
        a
        for a in ARROWS
        if room(a.source) != room(a.target) and a.name and a.name.startswith("_") and not a.name.startswith("__")
    ]
    assert private == []


def test_every_room_has_a_sentence_at_its_door():
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            assert docstring and len(docstring.split("\n\n")[0]) > 20, module


def test_products_know_no_measurement_and_no_test_and_scripts_are_shell():
    beside = {"bench", "tests", "scripts", *(path.stem for path in (ROOT / "tests").glob("*.py"))}
    found = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{module}:{node.lineno}: {name}" for name in names if name.split(".")[0] in beside]
    assert found == []
    # What is a script is imported by nothing: none of them is Python.
    assert list((ROOT / "scripts").rglob("*.py")) == []


def test_a_lazy_import_is_seen():
    text = "def f():\n    from stapo_bench.cli import main\n"
    assert list(arrows("stapo_bench.runs.store", text)) == [
        Arrow("stapo_bench.runs.store", "stapo_bench.cli", "main", 2)
    ]


def test_what_measurements_and_faults_take_from_us_is_there():
    """They run seldom; a name that moved shows here at once. Private names too."""
    missing = []
    for folder in ("bench", "tests/faults", "tests/integration"):
        for path in (ROOT / folder).rglob("*.py"):
            for arrow in arrows(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")):
                if arrow.name is not None and arrow.name not in defined(arrow.target):
                    missing.append(f"{arrow.source}:{arrow.line}: {arrow.target} has no {arrow.name}")
    assert missing == []


def defined(module: str) -> set[str]:
    """Names that a module's text defines or imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
