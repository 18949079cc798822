"""The floor plan, held by the imports themselves (docs/architecture.md): lazy ones and those for types count, too.

Rooms stand from the ground up. A module imports from its own room and from rooms below, never from above and never in
a circle; from another room it takes what that room's door (``__init__``) hands out, and nothing private.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from parsed import nodes_of, tree_of

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
        "jobs parse stopping torch_later train_records advantages token_statistics origins",
        "objective distributed sharding",
        "objectives launch",
        "batch",
        "fused data_config rows",
        "config",
        "lora",
        "policy",
        "rollout rollout_files optimizer",
        "optimizer_file whole_files",
        "run_folder",
        "tiny",
        "data prompts recipe reward correction",
        "training_log trackers evaluation",
        "preflight",
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
    "stapo_bench.engines.adapter",
    "stapo_bench.engines.transformers",
    "stapo_bench.engines.foreign_checkpoint",
    "stapo_bench.engines.kv_cache",
    "stapo_bench.engines.token_sampling",
    "stapo_bench.engines.slots",
    "stapo_bench.engines.vllm",
    "stapo_bench.presenting.figures",
    "stapo_bench.presenting.report",
    "stapo_bench.presenting.exporting",
    "stapo_bench.presenting.leaderboard",
    # Not part of what a run is: other tools' files.
    "stapo_bench.runs.importing",
    "stapo_bench.runs.outcomes",
    # Not part of what a grader, or a task, is: a model that judges, generators of problems.
    "stapo_bench.grading.judge",
    "stapo_bench.tasks.kk",
    "stapo_bench.tasks.kk_brief",
    "stapo_bench.tasks.products",
    "stapo_bench.tasks.tiny",
}


# Rooms inside a room, from the ground up: entered by their doors too, and no two of one floor see each other.
INNER_FLOORS = {
    "stapo_bench.grading": (
        "patterns",
        "tree units golds",
        "names",
        "evaluate",
        "read",
        "extraction compare",
        "decide",
        "graders registry",
        "serve",
        "process",
        "pool",
        "voting judge adapters",
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


def arrows(module: str, nodes: Iterable[ast.AST]) -> Iterator[Arrow]:
    """Every import of a module of ours, wherever in the file it stands."""
    for node in nodes:
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


@cache
def every_arrow() -> list[Arrow]:
    """Of all modules; read by the first test that asks, and not while tests are collected."""
    return [arrow for module, path in MODULES.items() for arrow in arrows(module, nodes_of(path))]


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
    inner = [a for a in every_arrow() if a.source not in PACKAGES]
    up = [a for a in inner if room(a.source) != room(a.target) and floor(a.source) <= floor(a.target)]
    same_floor = {(room(a.source), room(a.target)) for a in up if floor(a.source) == floor(a.target)}
    # Rooms of one floor do not see each other in both directions; the circles below are what would show it.
    assert [a for a in up if floor(a.source) < floor(a.target)] == []
    assert {(a, b) for a, b in same_floor if (b, a) in same_floor} == set()


def test_no_module_imports_itself_in_a_circle():
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for arrow in every_arrow():
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
        for a in every_arrow()
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
        for arrow in every_arrow()
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
        for a in every_arrow()
        if room(a.source) != room(a.target) and a.name and a.name.startswith("_") and not a.name.startswith("__")
    ]
    assert private == []


def test_every_room_has_a_sentence_at_its_door():
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            docstring = ast.get_docstring(tree_of(path))
            assert docstring and len(docstring.split("\n\n")[0]) > 20, module


def test_what_stands_behind_a_lazy_door_is_loaded_when_it_is_asked_for():
    stated = {}
    for module, path in MODULES.items():
        blocks = [node for node in tree_of(path).body if isinstance(node, ast.If)]
        if path.name == "__init__.py" and "lazy_names" in defined(module):
            (block,) = blocks
            stated[module] = {alias.name for line in block.body for alias in getattr(line, "names", ())}
            # A file of that name, once imported, would be found in the place of what the door states.
            beside = {other.stem for other in path.parent.iterdir()}
            assert stated[module] & beside == set(), module
    assert {"stapo_bench.runs", "stapo_bench.analysis", "stapo_bench.presenting"} <= stated.keys()
    code = (
        f"import sys; from importlib import import_module; doors = {sorted(stated)}\n"
        "for door in doors: import_module(door)\n"
        "others = [m for m in sys.modules if m.startswith('stapo_bench.') and '.errors' not in m and m not in doors]\n"
        "print(others, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['stapo_bench.plugins'] False\n"
    for module, names in stated.items():
        door = import_module(module)
        assert all(hasattr(door, name) for name in names)
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
            _ = door.nothing


def test_products_know_no_measurement_and_no_test_and_scripts_are_shell():
    beside = {"bench", "tests", "scripts", *(path.stem for path in (ROOT / "tests").glob("*.py"))}
    found = []
    for module, path in MODULES.items():
        for node in nodes_of(path):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{module}:{node.lineno}: {name}" for name in names if name.split(".")[0] in beside]
    assert found == []
    # What is a script is imported by nothing: none of them is Python.
    assert list((ROOT / "scripts").rglob("*.py")) == []


def test_a_lazy_import_is_seen():
    text = "def f():\n    from stapo_bench.cli import main\n"
    assert list(arrows("stapo_bench.runs.store", ast.walk(ast.parse(text)))) == [
        Arrow("stapo_bench.runs.store", "stapo_bench.cli", "main", 2)
    ]


def test_what_measurements_and_faults_take_from_us_is_there():
    """They run seldom; a name that moved shows here at once. Private names too."""
    missing = []
    for folder in ("bench", "tests/faults", "tests/integration"):
        for path in (ROOT / folder).rglob("*.py"):
            for arrow in arrows(str(path.relative_to(ROOT)), nodes_of(path)):
                if arrow.name is not None and arrow.name not in defined(arrow.target):
                    missing.append(f"{arrow.source}:{arrow.line}: {arrow.target} has no {arrow.name}")
    assert missing == []


@cache
def defined(module: str) -> set[str]:
    """Names that a module's text defines or imports, wherever in it."""
    names = set()
    for node in nodes_of(MODULES[module]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


# -- who reads files ---------------------------------------------------------------------------------------------------

# Everything that reads a file, by module, and why what it reads has an end. A new read belongs behind one of the
# readers in the first two; what is not read in whole, or not a stranger's, is named here.
READERS = {
    "stapo_bench/tasks/foreign_files.py": "the bounded readers of strangers' files",
    "stapo_bench/runs/files.py": "the bounded readers of a run's files",
    # in parts, or bounded by themselves
    "stapo_bench/runs/importing/opening.py": "other tools' files: rows, one in memory at a time, and bounded documents",
    "stapo_bench/runs/importing/unpacking.py": "archives and compressed files, until they unpack to more than a bound",
    "stapo_bench/runs/outcomes/reading.py": "a document that was read within its bound before",
    "stapo_bench/engines/adapter.py": "weights, one pair of a layer's at a time, of the shapes that the model's have",
    "stapo_bench/engines/weights.py": "weights, one tensor at a time, from a folder that was looked at",
    "stapo_bench/presenting/figures/tokens.py": "tensors, of a regular file",
    "train/stapo_train/inspect/dump.py": "tensors, of a regular file",
    "train/stapo_train/lora.py": "an adapter whose shapes were looked at",
    "train/stapo_train/optimizer_file.py": "tensors, of a regular file",
    "train/stapo_train/tiny/pretrain.py": "tensors, of a regular file",
    # our own
    "stapo_bench/plugins.py": "doors, of the package",
    "stapo_bench/analysis/published.py": "published tables, of the package",
    "stapo_bench/commands/launch.py": "launch files, of the package",
    "stapo_bench/presenting/report/page.py": "the page's template, of the package",
    "stapo_bench/presenting/leaderboard/page.py": "the page's template, of the package",
    "train/stapo_train/objectives/__init__.py": "the source of a module that is installed",
    "train/stapo_train/check/ranks.py": "what another process of the check wrote",
    "train/stapo_train/jobs.py": "the ends of logs that its jobs write",
    "train/stapo_train/reproduce/paper_stages.py": "the number that a stage of it wrote",
    # the system's
    "stapo_bench/engines/kv_cache.py": "/proc",
    "stapo_bench/grading/process.py": "/proc",
    "stapo_bench/grading/serve.py": "/proc, and the null device",
    "stapo_bench/tasks/limited.py": "/proc",
    "stapo_bench/runs/measured.py": "/proc",
    "stapo_bench/commands/entry.py": "the null device",
    "stapo_bench/errors/streams.py": "the null device",
}
READING = {"open", "fdopen", "read_text", "read_bytes", "load_file", "safe_open", "ZipFile", "ParquetFile"}
PARSING = {("yaml", "safe_load"), ("yaml", "safe_load_all"), ("json", "load"), ("np", "load"), ("torch", "load")}
OF_TEXT = {  # of an override on the command line
    "train/stapo_train/integrations/verl_settings.py",
    "train/stapo_train/parse.py",
}


def reads(path: Path) -> list[str]:
    """Calls in a module that read files, or parse what was read without a bound."""
    found = []
    for node in nodes_of(path):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = getattr(getattr(function, "value", None), "id", "")
        modes = [value.value for value in node.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        writes = any(mode[:1] in ("w", "x", "a") and len(mode) < 4 for mode in modes)
        is_engine = name == "open" and (owner.endswith(("Engine", "cls", "engine_type", "tarfile")))
        if (name in READING and not writes and not is_engine) or (owner, name) in PARSING:
            found.append(f"{owner}.{name} in line {node.lineno}")
    return found


def test_files_are_read_by_the_bounded_readers():
    calls = {str(path.relative_to(ROOT)): found for path in MODULES.values() if (found := reads(path))}
    unknown = {name: found for name, found in calls.items() if name not in READERS}
    of_text = {name: found for name, found in unknown.items() if all("safe_load " in call for call in found)}
    assert {name: found for name, found in unknown.items() if name not in of_text} == {}
    assert of_text.keys() <= OF_TEXT
    assert READERS.keys() <= calls.keys()  # a reason without a read is out of date


def test_every_way_to_read_is_seen(tmp_path):
    ways = ["open(p)", "p.open('rb')", "p.read_text()", "json.load(f)", "yaml.safe_load(t)", "load_file(p)"]
    (tmp_path / "m.py").write_text("\n".join([*ways, "p.open('w')", "TransformersEngine.open(p, o)", "json.loads(t)"]))
    assert [call.split()[-1] for call in reads(tmp_path / "m.py")] == ["1", "2", "3", "4", "5", "6"]
