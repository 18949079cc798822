"""Graders of other packages: found by an entry point, used like ours, in worker processes too."""

import json
import subprocess
import sys

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import GRADERS, GraderPool, get_grader
from stapo_bench.grading.registry import all_graders
from stapo_bench.records import Outcome
from stapo_bench.runs import grade_run
from stapo_bench.runs.golds import data_digest
from stapo_bench.runs.nested import canonical_digest
from stapo_bench.tasks import load_problems, load_task

# The length of the completion, against the gold as a number.
THEIRS = """
from stapo_bench.records import Gold, Grade, Outcome

GRADER_VERSION = "length-7"


def grade_answer(completion, answer, answer_type=None):
    gold = answer.answer if isinstance(answer, Gold) else answer
    outcome = Outcome.CORRECT if len(completion) == int(gold) else Outcome.INCORRECT
    return Grade(outcome=outcome, extracted=str(len(completion)), detail="length", grader=GRADER_VERSION)
"""


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Install a package that offers graders: a function of the package's name and the lines of its entry points."""
    (tmp_path / "length_grader.py").write_text(THEIRS)
    (tmp_path / "no_grader.py").write_text("GRADER_VERSION = 'none-1'\n")

    def install(package, *lines):
        about = tmp_path / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("\n".join(["[stapo_bench.graders]", *lines, ""]))
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    for name in ("length_grader", "no_grader"):
        sys.modules.pop(name, None)


def test_a_grader_of_another_package_is_one_like_ours(offer):
    offer("their_package", "length = length_grader")
    assert list(all_graders()) == [*GRADERS, "length"]
    assert "length_grader" not in sys.modules  # nobody asked for it yet
    assert get_grader("length").version == "length-7"
    assert get_grader("length").grade("four", "4").outcome is Outcome.CORRECT
    with pytest.raises(UsageError, match=r"\(graders: math, strict, qwen,.* length\); did you mean 'length'\?"):
        get_grader("lenght")


def test_its_workers_find_it(offer):
    offer("their_package", "length = length_grader")
    with GraderPool(1, grader="length") as pool:
        grades = pool.grade([("four", "4"), ("four", "5"), ("four", "no number")])
    assert [grade.outcome.value for grade in grades] == ["CORRECT", "INCORRECT", "GRADER_ERROR"]
    assert [grade.extracted for grade in grades] == ["4", "4", None]
    assert grades[2].detail.startswith("raised ValueError: invalid literal for int()")
    assert {grade.grader for grade in grades} == {"length-7"}


def test_it_grades_a_run(offer, make_run, tmp_path):
    offer("their_package", "length = length_grader")
    (tmp_path / "t.jsonl").write_text('{"id": "t-0", "problem": "How long?", "answer": "3"}\n')
    (tmp_path / "t.yaml").write_text("task: t\nrepeats: 2\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 1}\n")
    run = make_run("run", {"t": [[0, 0]]}, sample=lambda task, i, j: {"completion": "x" * (j + 2)})
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["identity"]["tasks"]["t"]["data"] = data_digest(
        load_problems(load_task(str(tmp_path / "t.yaml")), tmp_path)
    )
    manifest["about"]["tasks"]["t"]["file"] = str(tmp_path / "t.yaml")
    manifest["digest"] = canonical_digest(manifest["identity"])
    (run / "manifest.json").write_text(json.dumps(manifest))
    done = grade_run(run, "length", data_dir=tmp_path, workers=1)
    assert (done.grader, done.num_graded) == ("length-7", 2)
    header, *rows = map(json.loads, (run / "grades/length.jsonl").read_text().splitlines())
    assert header == {"grader": "length-7"}
    assert [(row["sample_index"], row["outcome"], row["extracted"]) for row in rows] == [
        (0, "INCORRECT", "2"),
        (1, "CORRECT", "3"),
    ]


def test_a_name_of_ours_cannot_be_taken(offer):
    offer("their_package", "math = length_grader")
    assert get_grader("math") is GRADERS["math"]
    assert all_graders() == GRADERS


def test_two_packages_cannot_share_a_name(offer):
    offer("their_package", "length = length_grader")
    offer("other_package", "length = no_grader")
    with pytest.raises(StapoError, match="length: offered as length_grader and as no_grader; uninstall one of"):
        get_grader("length")
    assert get_grader("strict").version == "strict-1"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("gone_grader", "grader g: cannot load gone_grader: No module named 'gone_grader'; repair its package"),
        ("no_grader", "grader g: expected grade_answer in no_grader, got none; repair its package"),
    ],
)
def test_a_broken_grader_is_said_in_one_line(offer, module, said):
    offer("their_package", f"g = {module}")
    with pytest.raises(StapoError) as error:
        GraderPool(1, grader="g")
    assert str(error.value) == said


def test_importing_the_grading_room_loads_numpy_and_mpmath_at_most():
    code = (
        "import sys; before = set(sys.modules);"
        "from stapo_bench.grading import equal_answers, grade_answer, grade_many, grader_reward;"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names);"
        "print(*sorted(loaded - {'numpy', 'mpmath', 'stapo_bench'}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
