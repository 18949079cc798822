"""What the sources say of themselves: records are fixed and name their fields, and what is walked side by side is of
one length. Each exception is named here.
"""

import ast
from pathlib import Path

import pytest
from parsed import tree_of

ROOT = Path(__file__).resolve().parent.parent
FILLED_IN = {  # while files are read, a text is written or a training runs
    "Candidate",
    "Cells",
    "FoundProblem",
    "ImportedTask",
    "Job",
    "Placed",
    "Places",
    "Run",
    "Survey",
    "Tally",
    "_Stage",
}
BY_PLACE = {  # few fields, of different kinds, or rows of a table in the source
    "Case",
    "Cells",
    "ContentDigest",
    "Findings",
    "Found",
    "GradedRun",
    "Kind",
    "Link",
    "Node",
    "Op",
    "Page",
    "Piece",
    "Product",
    "Verdict",
    "WrittenStep",
    "_TaskAndCell",
}
OTHER_RECORDS = {"NamedTuple", "Protocol", "BaseHTTPRequestHandler"}
OF_TWO_LENGTHS = {
    "stapo_bench/engines/probe.py",
    "stapo_bench/grading/compare/regions.py",
    "stapo_bench/grading/extraction/clauses.py",
    "stapo_bench/runs/export.py",
    "stapo_bench/runs/importing/matching.py",
    "stapo_bench/tasks/kk_brief.py",  # puzzles of fewer than all letters
    "stapo_bench/tasks/prompt_style.py",
    "train/stapo_train/experiments/mechanism/figure.py",
    "train/stapo_train/tiny/knights.py",
}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every module of ours, by its path."""
    folders = (ROOT / "stapo_bench", ROOT / "train" / "stapo_train")
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): tree_of(path) for path in paths}


def says(call: ast.expr, name: str, value: bool) -> bool:
    keywords = call.keywords if isinstance(call, ast.Call) else []
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is value for k in keywords)


def fields(record: ast.ClassDef) -> list[ast.AnnAssign]:
    lines = (line for line in record.body if isinstance(line, ast.AnnAssign))
    return [line for line in lines if "ClassVar" not in ast.unparse(line.annotation)]


def test_records_are_fixed_and_name_their_fields(trees):
    records, filled_in, by_place, plain = 0, set(), set(), set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            made = [d for d in node.decorator_list if ast.unparse(d).startswith("dataclass")]
            if not made and fields(node) and not {ast.unparse(base) for base in node.bases} & OTHER_RECORDS:
                plain.add(f"{path}: {node.name}")
            records += len(made)
            filled_in.update(node.name for d in made if not says(d, "frozen", True))
            by_place.update(node.name for d in made if not says(d, "kw_only", True))
    assert records > 250
    assert (filled_in, by_place, plain) == (FILLED_IN, BY_PLACE, set())


def test_what_is_walked_side_by_side_is_of_one_length(trees):
    found = set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "zip" and len(node.args) > 1:
                found |= set() if says(node, "strict", True) else {path}
    assert found == OF_TWO_LENGTHS
