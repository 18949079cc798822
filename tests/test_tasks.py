"""Task files: what they say, and that wrong data is refused by name."""

import json
import os
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import grade_answer
from stapo_bench.records import Outcome
from stapo_bench.tasks.content import ContentDigest, content_digest
from stapo_bench.tasks.loading import load_problems, load_task, read_task, task_names

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGED = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join(['*' + old] * 9)}]}}\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
GENERATED = "{{task: t, repeats: 1, doc_to_text: x, metadata: {{num_problems: 1, generator: {}}}}}"
LAYOUT = {  # problems, samples per problem: arXiv:2602.15620, evaluation setup
    "aime24": (30, 32),
    "aime25": (30, 32),
    "amc23": (40, 32),
    "math500": (500, 4),
    "minerva": (272, 4),
    "olympiadbench": (674, 4),
}


@pytest.fixture
def data_dir() -> Path:
    if "STAPO_BENCH_DATA" not in os.environ:
        pytest.skip("needs the benchmark data: set STAPO_BENCH_DATA to their folder")
    return Path(os.environ["STAPO_BENCH_DATA"])


def copy_of(data_dir: Path, to: Path, name: str, edit) -> Path:
    rows = [json.loads(line) for line in (data_dir / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    (to / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in edit(rows)), encoding="utf-8")
    return to


def test_the_paper_suite_has_the_papers_layout():
    tasks = [load_task(name) for name in task_names("paper")]
    assert {t.name: (t.num_problems, t.num_samples) for t in tasks} == LAYOUT


def test_the_tiny_suite_mirrors_the_papers_layout():
    tasks = [load_task(name) for name in task_names("tiny")]
    assert {t.name: (t.num_problems, t.num_samples) for t in tasks} == {f"tiny_{k}": v for k, v in LAYOUT.items()}


@pytest.mark.parametrize("name", [*LAYOUT, "hmmt25", "brumo25", "cmimc25"])
def test_the_local_copies_are_the_named_sets(name, data_dir):
    task = load_task(name)
    problems = load_problems(task, data_dir)
    assert len({p.problem_id for p in problems}) == task.num_problems


@pytest.mark.parametrize("name", [*LAYOUT, "hmmt25", "brumo25", "cmimc25"])
def test_the_digest_in_a_task_file_is_that_of_its_list_of_problems(name):
    task = load_task(name)
    lines = (task.path.parent / "digests" / f"{name}.txt").read_text().splitlines()
    contents = [ContentDigest(*line.split()[1:]) for line in lines]
    assert (len(lines), content_digest(contents)) == (task.num_problems, task.digest)


def test_row_order_and_white_space_do_not_change_what_a_problem_is(data_dir, tmp_path):
    def shuffled(rows):
        return [{**row, "id": str(i), "problem": row["problem"].replace(" ", "  ")} for i, row in enumerate(rows[::-1])]

    copy = load_problems(load_task("aime24"), copy_of(data_dir, tmp_path, "aime24", shuffled))
    assert [p.problem_id for p in copy] == [p.problem_id for p in load_problems(load_task("aime24"), data_dir)][::-1]


def test_integer_golds_lose_leading_zeros_and_point_zero(data_dir, tmp_path):
    def raw(rows):
        return [{**row, "answer": row["answer_raw"]} for row in rows]

    for name in ("aime24", "amc23"):
        published = load_problems(load_task(name), copy_of(data_dir, tmp_path, name, raw))
        assert [p.gold for p in published] == [p.gold for p in load_problems(load_task(name), data_dir)]


def test_a_list_of_answers_is_several_values(tmp_path):
    rows = [
        {"id": "a", "problem": "p", "answer": [1, 200]},  # not 1,200
        {"id": "b", "problem": "q", "answer": [1200]},
        {"id": "c", "problem": "r", "answer": ["1,3"], "is_multiple_answer": True},
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.yaml").write_text("task: t\nrepeats: 1\ndoc_to_text: '{{problem}}'\nmetadata: {num_problems: 3}\n")
    golds = [problem.gold for problem in load_problems(load_task(str(tmp_path / "t.yaml")), tmp_path)]
    assert [(gold.answer, gold.is_multiple) for gold in golds] == [("1,200", True), ("1200", None), ("1,3", True)]
    outcomes = [grade_answer(r"\boxed{1, 200}", gold).outcome for gold in golds[:2]]
    assert outcomes == [Outcome.CORRECT, Outcome.INCORRECT]


def test_a_missing_row_is_a_wrong_count(data_dir, tmp_path):
    folder = copy_of(data_dir, tmp_path, "aime24", lambda rows: rows[:-1])
    with pytest.raises(StapoError, match=r"expected 30 problems, got 29 in .*aime24\.jsonl"):
        load_problems(load_task("aime24"), folder)


def test_an_edited_gold_is_named(data_dir, tmp_path):
    def edit(rows):
        return [{**row, "answer": "7"} if row["id"] == "aime24-I-1" else row for row in rows]

    with pytest.raises(StapoError, match=r"row 1 \(aime24-I-1\) has another answer: '7'"):
        load_problems(load_task("aime24"), copy_of(data_dir, tmp_path, "aime24", edit))


def test_an_edited_problem_is_named(data_dir, tmp_path):
    def edit(rows):
        return [{**row, "problem": "Find 1+1."} if i == 4 else row for i, row in enumerate(rows)]

    with pytest.raises(StapoError, match=r"row 5 \(.*\) has another text: 'Find 1\+1\.'"):
        load_problems(load_task("aime24"), copy_of(data_dir, tmp_path, "aime24", edit))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: expected a JSON object, got damage"),
        ("[1]", "line 1: expected a JSON object, got list"),
        ('{"problem": "1+1", "answer": ""}', "row 1: expected a value for 'answer', got ''"),
        ('{"problem": "1+1", "answer": "2", "error": "x"}', "row 1: expected a number for 'error', got 'x'"),
        ('{"problem": "1+1", "answer": "2", "error": "nan"}', "row 1: expected a number for 'error', got 'nan'"),
        ('{"problem": "1+1", "answer": "2", "unit": [1]}', "row 1: 'unit': expected str, got list"),
        ('{"problem": "1+1", "answer": "2", "is_multiple_answer": "x"}', "expected bool, got str"),
        ("[" * 100_000, "line 1: expected a JSON object, got damage"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    (tmp_path / "aime24.jsonl").write_text(line + "\n")
    with pytest.raises(StapoError, match=message.replace("[", r"\[")):
        load_problems(load_task("aime24"), tmp_path)


@pytest.mark.parametrize(
    ("content", "message"), [(b"a b", "line 1: expected an id and two digests, got 2 words"), (b"\xff", "UTF-8")]
)
def test_a_damaged_list_of_digests_is_named(tmp_path, content, message):
    (tmp_path / "t.yaml").write_text("{task: t, repeats: 1, doc_to_text: x, metadata: {num_problems: 1}}")
    (tmp_path / "t.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    (tmp_path / "digests").mkdir()
    (tmp_path / "digests" / "t.txt").write_bytes(content)
    with pytest.raises(StapoError, match=message):
        load_problems(read_task(tmp_path / "t.yaml"), tmp_path)


def test_a_folder_without_the_file_is_named(tmp_path):
    with pytest.raises(StapoError, match=r"aime24\.jsonl: no such file"):
        load_problems(load_task("aime24"), tmp_path)


def test_an_unknown_task_suggests_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'aime24'"):
        load_task("aime2024")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected a mapping of task keys, got list"),
        ("a: [", "not a readable YAML file"),
        ("x: !!python/object/apply:os.system [id]", "not a readable YAML file"),
        ("task: t", "missing repeats, doc_to_text, num_problems"),
        (
            "{task: t, repeats: 0, doc_to_text: x, metadata: {num_problems: 1}}",
            "whole number above 0 for repeats, got 0",
        ),
        ("{task: ../t, repeats: 1, doc_to_text: x, metadata: {num_problems: 1}}", r"a task name of .*got '\.\./t'"),
        ("{task: t, repeats: true, doc_to_text: x, metadata: {num_problems: 1}}", "repeats: expected int, got bool"),
        ("{task: t, repeats: 1, doc_to_text: [x], metadata: {num_problems: 1}}", "doc_to_text: expected str, got list"),
        ("{task: t, repeats: 1, doc_to_text: x, metadata: 2}", "metadata: expected dict, got int"),
        ("{task: t, metadata: {columns: {problem: 1}}}", "metadata.columns: expected the names of columns"),
        ("include: t.yaml", "at most 8 files that include one another"),
        ("include: none", "none: cannot be read: No such file"),
        ("{" * 3000, "not a readable YAML file"),
        ("a: &a [x, x]\ntask: [*a, *a]", "task: expected str, got list"),
        (BOMB, "more than 100000 values, aliases written out"),
        (MERGED, "more than 100000 values, aliases written out"),
        ("a: &a [*a]", "an alias of what it stands in"),
        ("a: " + "1:" * 30_000 + "1", "a number of too many digits"),
        ("a: " + "x" * (1 << 20), "expected at most 1048576 bytes, got more"),
        ('include: "a\\0b"', "t.yaml|a.*b: expected a text in UTF-8: embedded null"),
        ('include: "\\ud800"', "cannot be read|expected a text in UTF-8"),
        ("include: pipe.yaml", "pipe.yaml: expected a file, got a folder, pipe or device"),
        ("include: /dev/zero", "/dev/zero: expected a file, got a folder, pipe or device"),
        ("include: .", "expected a file, got a folder, pipe or device"),
        (GENERATED.format("{name: kk, seed: 1, people: 1000000000}"), "expected 2 to 8 people"),
        (GENERATED.format("{name: kk, seed: 1, people: true}"), "expected"),
        (GENERATED.format("{name: [kk]}"), "expected a generator named tiny, products, kk or kk-brief"),
    ],
)
def test_bad_task_files_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "t.yaml"
    path.write_text(text)
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(StapoError, match=message) as error:
        load_problems(read_task(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("num_includes", "fine"), [(8, True), (9, False)])
def test_eight_files_may_include_one_another_and_no_more(tmp_path, num_includes, fine):
    for number in range(num_includes):
        (tmp_path / f"{number}.yaml").write_text(f"include: {number + 1}.yaml\nmetadata: {{version: {number}}}\n")
    last = "{task: t, repeats: 3, doc_to_text: x, metadata: {num_problems: 5, version: 99}}"
    (tmp_path / f"{num_includes}.yaml").write_text(last)
    if fine:
        task = read_task(tmp_path / "0.yaml")
        assert (task.name, task.num_samples, task.num_problems) == ("t", 3, 5)
    else:
        with pytest.raises(StapoError, match="at most 8 files that include one another"):
            read_task(tmp_path / "0.yaml")


@pytest.mark.parametrize(
    ("metadata", "golds"),
    [
        ("num_problems: 2", ["025", "27.0"]),
        ("num_problems: 2, integer_answers: false", ["025", "27.0"]),
        ("num_problems: 2, integer_answers: true", ["25", "27"]),
    ],
)
def test_answers_are_read_as_integers_only_where_the_task_says_so(tmp_path, metadata, golds):
    rows = [{"id": str(i), "problem": "?", "answer": answer} for i, answer in enumerate(["025", "27.0"])]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = tmp_path / "t.yaml"
    path.write_text(f"{{task: t, repeats: 1, doc_to_text: '{{{{problem}}}}', metadata: {{{metadata}}}}}")
    assert [problem.gold.answer for problem in load_problems(read_task(path), tmp_path)] == golds


OWN = """
include: _defaults
task: stapo_sums
repeats: 8
metadata: {title: Sums, num_problems: 2, columns: {problem: question, answer: solution}}
"""


def test_a_task_in_a_folder_of_its_own_stands_on_our_defaults(tmp_path):
    (tmp_path / "sums.yaml").write_text(OWN)
    task = read_task(tmp_path / "sums.yaml")
    assert (task.title, task.prompt_format) == ("Sums", "auto")
    assert task.question_template == load_task("aime24").question_template
    (tmp_path / "_defaults").write_text("doc_to_text: mine\nmetadata: {suite: own}\n")  # one beside it comes first
    assert read_task(tmp_path / "sums.yaml").question_template == "mine"


def test_an_included_file_that_is_nowhere_is_named_where_it_was_expected(tmp_path):
    (tmp_path / "sums.yaml").write_text(OWN.replace("_defaults", "_default"))
    with pytest.raises(StapoError, match=f"{tmp_path}/_default: cannot be read: No such file"):
        read_task(tmp_path / "sums.yaml")


def test_a_local_file_may_have_our_columns_or_those_of_the_set(tmp_path):
    (tmp_path / "sums.yaml").write_text(OWN)
    rows = [{"question": "1 + 1?", "solution": "2"}, {"problem": "2 + 2?", "question": "n/a", "answer": "4"}]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = load_problems(read_task(tmp_path / "sums.yaml"), tmp_path)
    assert [(p.question, p.gold.answer) for p in problems] == [("1 + 1?", "2"), ("2 + 2?", "4")]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("title: Sums", "metadata.titel: no such key; did you mean 'title'?"),
        ("repeats: 8", "repeat: no such key; did you mean 'repeats'?"),
        ("repeats: 8", "zzz: no such key; expected one of task, include, "),
    ],
)
def test_a_key_that_nobody_reads_is_refused(written, said, tmp_path):
    wrong = said.split(":")[0].removeprefix("metadata.")
    (tmp_path / "sums.yaml").write_text(OWN.replace(written, f"{wrong}: {written.split(': ')[1]}"))
    with pytest.raises(StapoError) as caught:
        read_task(tmp_path / "sums.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/sums.yaml: {said}")
