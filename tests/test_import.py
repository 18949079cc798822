"""Samples of other tools become runs: found by content, with nothing filled in that a file does not say."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from eval_setup import make_options, run
from import_setup import lines, lm_eval_row

from stapo_bench.analysis import audit_runs, compare_runs, curve_runs, score_run, truncation
from stapo_bench.analysis.score_file import to_json
from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import finish_run, render_comparison, render_import, render_table, rows_from_runs
from stapo_bench.records import Outcome, SampleKey, StatedSampling
from stapo_bench.runs import export_runs, grade_run, load_manifest, load_run, read_grades, read_problems, read_samples
from stapo_bench.runs.importing import ImportOptions, Stated, import_run


def qwen_row(number: int, answers: list[str], scores: list[bool]) -> dict:
    """A row of Qwen2.5-Math's evaluation; the gold of problem n is n."""
    return {
        "idx": number,
        "question": f"Which number follows {number - 1}?",
        "gt_cot": "None",
        "gt": str(number),
        "code": [f"It is \\boxed{{{answer}}}." for answer in answers],
        "pred": answers,
        "report": [None] * len(answers),
        "score": scores,
    }


@pytest.fixture
def qwen(tmp_path):
    """Two seeds of one evaluation, of two samples each; the script accepts 3.0 for 3 in the first alone."""
    first = [qwen_row(3, ["3", "3.0"], [True, True]), qwen_row(4, ["5", "4"], [False, True])]
    second = [qwen_row(4, ["4", "4"], [True, True]), qwen_row(3, ["7", "3.0"], [False, False])]
    return [lines(tmp_path / "a.jsonl", first), lines(tmp_path / "b.jsonl", second)]


def test_files_of_seeds_become_one_run_with_their_verdicts_as_a_grader_of_its_own(qwen, tmp_path):
    imported = import_run(qwen, tmp_path / "run", ImportOptions())
    manifest = imported.manifest
    ((task, asked),) = manifest.about.tasks.items()
    assert (asked.num_problems, asked.num_samples, imported.num_samples) == (2, 4, 8)
    by_question = {problem.question: problem for problem in read_problems(manifest, None)}
    three = by_question["Which number follows 2?"]
    assert three.gold.answer == "3"
    stored = {sample.key: sample for sample in read_samples(tmp_path / "run", manifest.stamps)}
    texts = [stored[SampleKey(task, three.problem_id, index)].completion for index in range(4)]
    assert texts == [f"It is \\boxed{{{answer}}}." for answer in ("3", "3.0", "7", "3.0")]
    assert imported.graders == ("qwen-reported",)
    reported = read_grades(tmp_path / "run", "qwen-reported").outcomes
    said = [reported[SampleKey(task, three.problem_id, index)] for index in range(4)]
    assert [outcome for outcome, _ in said] == [Outcome.CORRECT, Outcome.CORRECT, Outcome.INCORRECT, Outcome.INCORRECT]
    assert [extracted for _, extracted in said] == ["3", "3.0", "7", "3.0"]
    # Ours accepts 3.0 for 3: 3 of 4 and 3 of 4; theirs 2 and 3 of 4.
    grade_run(tmp_path / "run")
    assert score_run(tmp_path / "run").tasks[0].value == 0.75
    assert score_run(tmp_path / "run", "qwen-reported").tasks[0].value == 0.625


def test_what_a_file_does_not_say_stays_unknown(qwen, tmp_path):
    manifest = import_run(qwen[:1], tmp_path / "run", ImportOptions()).manifest
    assert manifest.identity.sampling == StatedSampling()
    assert (manifest.seed, manifest.identity.checkpoint_digest, manifest.about.model) == (None, None, None)
    sample = next(iter(read_samples(tmp_path / "run")))
    assert (sample.seed, sample.num_tokens, sample.finish_reason) == (None, None, None)
    assert load_manifest(tmp_path / "run") == manifest
    finish_run(tmp_path / "run", data_dir=None)
    (row,) = rows_from_runs([tmp_path / "run"])
    assert (row.origin, row.sampling, row.max_new_tokens) == ("imported", "decoding unknown", None)
    assert "truncated unknown" in row.details and "seed unknown" in row.details
    assert "at most unknown new tokens" in row.details
    (cut,) = truncation(load_run(tmp_path / "run"))
    assert cut.num_cut is None and cut.cut_wrong != cut.cut_wrong and cut.curve == ()
    results = {check.name: check.result for check in audit_runs(tmp_path / "run")}
    assert results["equal seeds"] == "not testable"


def test_comparisons_say_what_is_not_known_of_both(qwen, tmp_path):
    for number, path in enumerate(qwen):
        import_run([path], tmp_path / f"run{number}", ImportOptions(stated=Stated(step=number)))
        grade_run(tmp_path / f"run{number}")
    found = compare_runs(tmp_path / "run0", tmp_path / "run1")
    assert not found.same_weights and not found.same_seeds and found.confounders == ()
    unknown = [item.field for item in found.parity if item.weight == "unknown"]
    assert {"sampling.temperature", "sampling.top_p", "sampling.max_new_tokens", "engine"} <= set(unknown)
    text = render_comparison(found)
    assert "are not known of both and may differ" in text
    (line,) = [line for line in text.splitlines() if line.startswith("- unknown: ")]  # one for all that nobody knows
    assert "; sampling.max_new_tokens; sampling.temperature; " in line and line.endswith(": unknown in A, unknown in B")
    assert json.loads(render_comparison(found, "json"))["fair"] is None
    # The same with one more thing declared: that is known of A alone, and no reason to call it unfair.
    import_run(qwen[:1], tmp_path / "stated", ImportOptions(stated=Stated(temperature=0.6)))
    grade_run(tmp_path / "stated")
    found = compare_runs(tmp_path / "stated", tmp_path / "run1")
    (item,) = [item for item in found.parity if item.field == "sampling.temperature"]
    assert (item.a, item.b, item.weight) == ("0.6", "unknown", "unknown")
    assert len(curve_runs([tmp_path / "run0", tmp_path / "run1"]).points) == 2


def test_what_is_not_known_of_several_sets_is_said_once(tmp_path):
    for folder, names in (("a", ("sums", "areas")), ("b", ("sums", "areas", "roots"))):
        files = [
            lines(
                tmp_path / f"{name}.jsonl",
                [{"problem": f"{name} {n}?", "response": f"\\boxed{{{n}}}", "answer": "1"} for n in (1, 2, 3)],
            )
            for name in names
        ]
        import_run(files, tmp_path / folder, ImportOptions())
        grade_run(tmp_path / folder)
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    sets = ", ".join(task.title for task in found.tasks)
    assert set(sets.split(", ")) == {"sums", "areas"}
    text = render_comparison(found)
    (of_sets,) = [line for line in text.splitlines() if "prompt" in line]
    assert f"; prompt_format, prompts of {sets}; " in of_sets and of_sets.endswith(": unknown in A, unknown in B")
    assert text.count("With caution:") == 1
    assert "only in one run, left out: roots" in found.notes
    fields = [item["field"] for item in json.loads(render_comparison(found, "json"))["parity"]]
    assert sum(field.endswith((".prompts", ".prompt_format")) for field in fields) == 4  # each, for a program


def test_an_imported_and_a_native_run_of_the_same_samples_score_alike(tmp_path):
    run(options := make_options(tmp_path))
    grade_run(options.out, data_dir=tmp_path)
    export_runs([options.out], tmp_path / "samples.csv", data_dir=tmp_path)
    export_runs([options.out], tmp_path / "samples.parquet", data_dir=tmp_path)
    native = to_json(score_run(options.out))["tasks"]
    for name in ("samples.csv", "samples.parquet"):
        out = tmp_path / f"from-{name}"
        imported = import_run([tmp_path / name], out, ImportOptions(tasks=options.tasks, data_dir=tmp_path))
        assert imported.num_left_out == 0
        assert not (out / "grades" / "math.jsonl").exists()
        grade_run(out)
        assert json.dumps(to_json(score_run(out))["tasks"]) == json.dumps(native)
        assert to_json(score_run(out, "export-reported"))["tasks"] == native


def test_problems_are_ours_by_content_whatever_the_file_is_called(tmp_path):
    """AIME24's texts are not ours to copy: the tiny suite stands in, whose problems are generated."""
    from stapo_bench.tasks import load_problems, load_task

    problems = load_problems(load_task("tiny_aime24"))
    rows = [
        {"prompt": f"User:  {p.question}\nAssistant:", "response": f"\\boxed{{{p.gold.answer}}}", "task": "tiny_aime24"}
        for p in problems[:-1]
    ]
    rows.append({"prompt": "User: What else?\nAssistant:", "response": "nothing", "task": "tiny_aime24"})
    imported = import_run([lines(tmp_path / "x.txt", rows)], tmp_path / "run", ImportOptions())
    (asked,) = imported.manifest.about.tasks.values()
    assert list(imported.manifest.about.tasks) == ["tiny_aime24"]
    assert asked.problem_ids == tuple(p.problem_id for p in problems)
    assert (imported.num_samples, imported.num_left_out) == (29, 1)
    assert (
        "left out: 1 problems whose text is none of tiny_aime24: 'User: What else? Assistant:'; "
        "--task own takes all of the files' problems, as a set of their own"
    ) in imported.notes
    score = finish_run(tmp_path / "run", data_dir=None)
    assert (score.tasks[0].value, score.tasks[0].num_samples, score.tasks[0].complete) == (1.0, 29, False)
    checks = {check.name: check for check in audit_runs(tmp_path / "run")}
    assert checks["missing draws"].result == "ok"  # each problem of the file has its one sample
    left_out = "run: Tiny AIME24 1 of 30 (first: tiny-aime24-030): the imported files hold no sample of them"
    assert (checks["problems left out"].result, checks["problems left out"].message) == ("finding", left_out)
    note, _ = compare_runs(tmp_path / "run", tmp_path / "run").notes  # of A and of B
    assert note.endswith("run has 29 of 30 samples; the rest is not in the imported files")


def test_two_files_may_spell_one_problem_differently(tmp_path):
    """AIME's answers are often written with three digits: no sample of the second file takes a first one's place."""
    from stapo_bench.tasks import load_problems, load_task

    problems = load_problems(load_task("tiny_aime24"))
    for name, digits, replies in (("a", 1, "0"), ("b", 3, "12")):
        rows = [
            {"question": p.question, "gold": p.gold.answer.zfill(digits), "response": reply}
            for p in problems
            for reply in replies
        ]
        lines(tmp_path / f"{name}.jsonl", rows)
    options = ImportOptions(tasks=("tiny_aime24",))
    imported = import_run([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "run", options)
    assert (imported.num_samples, imported.manifest.about.tasks["tiny_aime24"].num_samples) == (90, 3)
    stored = {(s.problem_id, s.sample_index): s.completion for s in read_samples(tmp_path / "run")}
    assert stored == {(p.problem_id, index): str(index) for p in problems for index in range(3)}


def test_a_set_that_is_partly_ours_is_not_split_without_being_asked(tmp_path):
    from stapo_bench.tasks import load_problems, load_task

    ours = [p.question for p in load_problems(load_task("tiny_aime24"))[:2]]
    rows = [
        {"problem": text, "response": "x", "answer": "1", "task": "tiny_aime24"} for text in (*ours, "a?", "b?", "c?")
    ]
    path = lines(tmp_path / "some.jsonl", rows)
    imported = import_run([path], tmp_path / "own", ImportOptions())
    assert [(name, t.num_problems) for name, t in imported.manifest.about.tasks.items()] == [("tiny_aime24-set", 5)]
    assert any("only 2 of its 5 problems are tiny_aime24's; --task tiny_aime24" in note for note in imported.notes)
    imported = import_run([path], tmp_path / "two", ImportOptions(tasks=("tiny_aime24",)))
    assert (imported.num_samples, imported.num_left_out) == (2, 3)


def test_golds_that_are_lacking_are_unknown_and_not_wrong(tmp_path):
    rows = [
        {"problem": "1 + 1?", "response": "\\boxed{2}", "answer": "2"},
        {"problem": "Why?", "response": "\\boxed{1}"},
    ]
    rows[1]["answer"] = None
    imported = import_run([lines(tmp_path / "x.jsonl", rows)], tmp_path / "run", ImportOptions())
    assert any("has no gold for 1 problems" in note for note in imported.notes)
    score = finish_run(tmp_path / "run", data_dir=None).tasks[0]
    assert (score.value, score.num_grader_errors, score.bounds.low, score.bounds.high) == (1.0, 1, 0.5, 1.0)


def test_a_copy_is_no_second_sample(qwen, tmp_path):
    (tmp_path / "copy.jsonl").write_bytes(qwen[0].read_bytes())
    with pytest.raises(StapoError, match="a copy is no second sample"):
        import_run([qwen[0], tmp_path / "copy.jsonl"], tmp_path / "run", ImportOptions())
    assert not (tmp_path / "run").exists()


def test_two_formats_that_fit_are_a_question(tmp_path):
    row = {**qwen_row(3, ["3"], [True]), **dict.fromkeys(["example_id", "prompt", "answer", "seed", "response"], "1")}
    path = lines(tmp_path / "both.jsonl", [row])
    with pytest.raises(
        UsageError, match=r"fits qwen2.5-math \(.*\) and polaris \(.*\); say which: --format qwen2.5-math"
    ):
        import_run([path], tmp_path / "run", ImportOptions())
    assert import_run([path], tmp_path / "run", ImportOptions(format="polaris")).num_samples == 1


@pytest.mark.parametrize(("models", "named"), [("ba", "2: a, b"), ("edcba", "5: a, b, c, d")])
def test_samples_of_several_models_are_several_runs(tmp_path, models, named):
    rows = [{"question": "1 + 1?", "gold": "2", "completion": "2", "model": model} for model in models]
    with pytest.raises(StapoError, match=f"expected one model, got {named}; import each alone"):
        import_run([lines(tmp_path / "several.jsonl", rows)], tmp_path / "run", ImportOptions())
    one = import_run([lines(tmp_path / "one.jsonl", rows[:1])], tmp_path / "one", ImportOptions())
    assert one.manifest.about.model == models[0]


def test_settings_that_contradict_each_other_are_two_runs(tmp_path):
    rows = [lm_eval_row(doc, ["1"], "none", 1.0) for doc in (1, 2)]
    rows[1]["arguments"]["gen_args_0"]["arg_1"]["temperature"] = 1.0
    paths = [lines(tmp_path / f"{number}.jsonl", [row]) for number, row in enumerate(rows)]
    with pytest.raises(StapoError, match=r"got temperature 0.6 .* and 1.0 .*; import the files of each by"):
        import_run(paths, tmp_path / "run", ImportOptions())
    with pytest.raises(UsageError, match=r"--temperature 0.7: .* says 0.6"):
        import_run(paths[:1], tmp_path / "run", ImportOptions(stated=Stated(temperature=0.7)))


HOSTILE = {
    "empty": (b"", "the file is empty"),
    "not-json": (b'{"idx": 1, "question"', "the document cannot be read"),
    "cut": (b'{"problem": "a", "response": "b", "answer": "1"}\n{"problem": "a", "resp', "row 2 cannot be read"),
    "list": (b'{"problem": "a", "response": "b", "answer": "1"}\n[1]\n', "row 2 cannot be read: expected an object"),
    "endless-list": (
        b'[{"problem": "a", "response": "b", "answer": "1"},',
        "row 2 cannot be read: the list does not end",
    ),
    "latin1": (b'{"problem": "a", "response": "b", "answer": "1"}\n{"problem": "\xe9"}\n', "row 2 cannot be read"),
    "deep": (b'{"problem": "a", "response": "b", "answer": "1"}\n' + b"[" * 100_000 + b"\n", "row 2 cannot be read"),
    "columns": (b"problem,problem,response\na,b,c\n", "two columns have the name 'problem'"),
    "cells": (b"problem,response,answer\na,b\n", "expected 3 cells, got 2"),
    "quote": (b'problem,response,answer\na,"b,c\n', "row 1 cannot be read"),
    "binary": (bytes(range(256)) * 4, "neither JSON, nor a table, nor Parquet"),
    "zip": (b"PK\x03\x04 and no more", "expected a zip archive, got a damaged one"),
    "parquet": (b"PAR1 and no more", "row 1 cannot be read"),
    "nothing": (b'{"problem": "a", "response": [], "answer": "1"}\n', "expected samples, got none"),
    "no-problem": (b'{"completion": "x", "gold": "1", "wrong": 1}\n', "no format fits"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_one_line(name, tmp_path):
    content, message = HOSTILE[name]
    (tmp_path / name).write_bytes(content)
    result = CliRunner().invoke(cli, ["import", str(tmp_path / name), "--out", str(tmp_path / "run")])
    assert isinstance(result.exception, StapoError), result.exception
    assert message in str(result.exception) and "\n" not in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_verdicts_that_came_along_are_named_where_there_are_no_others(tmp_path):
    rows = [{"problem": "1 + 1?", "completion": text, "score": score} for text, score in (("2", 1), ("3", 0))]
    imported = import_run([lines(tmp_path / "theirs.jsonl", rows)], out := tmp_path / "run", ImportOptions())
    assert (imported.graders, imported.grader) == (("file-reported",), "file-reported")
    for grader, message in (
        (
            "math",
            "found file-reported; name what came along: --grader file-reported; where the golds are known, run 's",
        ),
        ("their-reported", "found file-reported; did you mean 'file-reported'"),
    ):
        with pytest.raises(StapoError, match=message):
            compare_runs(out, out, grader)
    with pytest.raises(UsageError, match=r"graders: math, strict, qwen.*file-reported\); did you mean 'file-reported'"):
        compare_runs(out, out, "file-reportd")
    assert compare_runs(out, out, "file-reported").average.value_a == 0.5


def test_the_command_ends_with_a_table_and_the_disputed_answers(qwen, tmp_path):
    arguments = ["import", *map(str, qwen), "--out", str(tmp_path / "run"), "--model", "M", "--decoding", "justrl"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith("8 samples imported from 2 files of Qwen2.5-Math to ")
    assert (
        "- not known: token limit; where you know, say so when importing into another --out (--model, " in result.stdout
    )
    assert "| M     | run    | T=0.7, top-p 0.9 | 75.00 " in result.stdout
    assert "| imported |" in result.stdout
    assert "| math, qwen-reported | 1 of 8 (12.50 %) |" in result.stdout
    again = CliRunner().invoke(cli, arguments)
    assert "expected a folder that is not there yet" in str(again.exception)
    assert "imported" in render_table(rows_from_runs([tmp_path / "run"]), "csv")


def test_names_of_strangers_do_nothing_to_a_terminal(tmp_path):
    path = lines(tmp_path / "x.jsonl", [{"problem": "a", "response": "b", "answer": "1", "task": "\x1b[31mred"}])
    text = render_import(import_run([path], tmp_path / "run", ImportOptions()))
    assert "\x1b" not in text and "\\x1b[31mred 1×1" in text
    assert text.startswith("1 samples imported from 1 file of plain to ")


def test_numbers_of_samples_are_kept_where_a_file_states_them(tmp_path):
    rows = [{"problem": "a?", "response": str(n), "answer": "1", "sample": n} for n in (2, 0, 1)]
    import_run([lines(tmp_path / "x.jsonl", rows)], tmp_path / "run", ImportOptions())
    assert [(s.sample_index, s.completion) for s in read_samples(tmp_path / "run")] == [(2, "2"), (0, "0"), (1, "1")]
    with pytest.raises(StapoError, match="expected each sample of a problem once, got number 0"):
        import_run([lines(tmp_path / "y.jsonl", [*rows, rows[1]])], tmp_path / "other", ImportOptions())


def test_a_problem_with_fewer_samples_than_others_lacks_those(tmp_path):
    rows = [{"problem": name, "response": "1", "answer": "1"} for name in ("a?", "a?", "a?", "b?", "c?", "c?")]
    imported = import_run([lines(tmp_path / "x.jsonl", rows)], tmp_path / "run", ImportOptions())
    (asked,) = imported.manifest.about.tasks.values()
    (score,) = finish_run(tmp_path / "run", data_dir=None).tasks
    assert (asked.num_samples, score.num_samples, score.complete) == (3, 6, False)


def test_two_sets_whose_names_differ_in_signs_alone_stay_two_tasks(tmp_path):
    rows = [
        {"problem": f"{name} {i}?", "response": "1", "answer": "1", "task": name}
        for name in ("a b", "a-b")
        for i in "12"
    ]
    imported = import_run([lines(tmp_path / "x.jsonl", rows)], tmp_path / "run", ImportOptions())
    assert {name: task.title for name, task in imported.manifest.about.tasks.items()} == {"a-b": "a b", "a-b-2": "a-b"}
    assert imported.num_samples == 4


def test_a_stopped_import_leaves_nothing(qwen, tmp_path, monkeypatch):
    from stapo_bench.runs.importing import writing

    monkeypatch.setattr(writing, "write_manifest", lambda manifest: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(StapoError, match=r"cannot write .*run: No space left"):
        import_run(qwen, tmp_path / "run", ImportOptions())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_nothing_is_sampled_into_an_imported_run(qwen, tmp_path):
    import_run(qwen, tmp_path / "run", ImportOptions())
    options = replace(make_options(tmp_path), out=tmp_path / "run")
    with pytest.raises(StapoError, match="made under other settings"):
        run(options)
