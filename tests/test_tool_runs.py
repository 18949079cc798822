"""Runs whose replies call a tool: what is stored, that a kill changes nothing, and what is refused."""

import io
from dataclasses import replace

import pytest
from tool_setup import Clerk, run, tool_options

from stapo_bench.commands.lm_eval import load_dataset
from stapo_bench.engines import EngineOptions, preset
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.grading import GraderPool, get_grader
from stapo_bench.presenting.task_texts import task_card
from stapo_bench.records import Gold, Sample, ToolOutput
from stapo_bench.runs import DifferentRunError, load_manifest, load_run, read_samples, seal
from stapo_bench.runs.run_grading import grade_run
from stapo_bench.runs.store import sample_from_line, sample_to_line
from stapo_bench.sampling import ContinueOptions, continue_run, evaluate, evaluate_to_budgets
from stapo_bench.tasks import load_task, without_calls
from stapo_train.reward import grade
from stapo_train.train_records import Rollout


def stored(run_dir) -> dict:
    return {sample.key: replace(sample, seconds=None) for sample in read_samples(run_dir)}


def test_a_run_keeps_what_the_tool_wrote_and_grades_the_whole_text(tmp_path):
    options = tool_options(tmp_path)
    run(options, Clerk())
    samples = stored(options.out)
    assert len(samples) == 15
    one = samples["sums", "p2", 1]
    first, second = one.tool_outputs
    # A letter and "<calculator>2 * 3</calculator>": 31 characters, a token each; "<output>6</output>" is 18.
    assert (first.after, len(first.token_ids)) == (31, 18)
    assert one.num_tokens == len(one.completion) - len(first.token_ids) - len(second.token_ids)
    grade_run(options.out, data_dir=tmp_path)
    assert all(sample.correct for sample in load_run(options.out).samples["sums"])  # 3 n + 1, which the tool computed


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (" so \\boxed{{{}}}.", {("CORRECT", "10")}),
        (" so \\boxed{{391}}.", {("INCORRECT", "391")}),  # the last output is the gold: it is not what the model says
    ],
)
def test_what_the_tool_says_is_not_the_answer(tmp_path, last, found):
    options = tool_options(tmp_path)
    run(options, Clerk(last=last))
    grade_run(options.out, data_dir=tmp_path)
    grades = load_run(options.out).samples["sums"]
    assert {(one.outcome.value, one.extracted) for one in grades if one.problem_id == "p3"} == found
    rollouts = [
        Rollout(
            group_id=0, problem_id=s.problem_id, index=s.sample_index, seed=0, prompt_ids=(), response_ids=(),
            rollout_log_probs=None, text=s.completion, finish_reason="stop", tool_outputs=s.tool_outputs,
        )
        for s in read_samples(options.out) if s.problem_id == "p3"
    ]  # fmt: skip
    with GraderPool(workers=1) as pool:
        assert {one.outcome.value for one in grade(rollouts, {0: Gold(answer="10")}, pool)} == {o for o, _ in found}


CALLED = "It is 391. Check: <calculator>391 / 17</calculator><output>23</output>"


@pytest.mark.parametrize(
    ("text", "num_calls", "read"),
    [
        (CALLED + ". It fits.", 1, "It is 391. Check:  . It fits."),
        (CALLED + CALLED, 2, "It is 391. Check:  It is 391. Check:  "),
        (CALLED + "<output>7</output>", 1, "It is 391. Check:  <output>7</output>"),  # the model's own words
        (CALLED, 0, CALLED),  # a reply without a tool, whatever it writes
        (CALLED + "<calculator>4</calculator>", 1, "It is 391. Check:  <calculator>4</calculator>"),  # cut off
        ("a<calculator>b <calculator>4</calculator><output>4</output>", 1, "a<calculator>b  "),
        ("a 4</calculator><output>error: expected <calculator> before </calculator></output>c", 1, "a 4 c"),
    ],
)
def test_calls_are_taken_out_of_what_is_graded(text, num_calls, read):
    assert without_calls(text, [ToolOutput(1, (4,))] * num_calls) == read


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (CALLED + ". It fits.", "INCORRECT"),  # 391
        ("First <calculator>46 / 2</calculator><output>23</output>. Then we still need to add the", "NO_ANSWER"),
        ("First <calculator>46 / 2</calculator><output>23</output>", "NO_ANSWER"),
        ("The answer is <calculator>46 / 2</calculator><output>23</output>.", "NO_ANSWER"),
        ("<calculator>1 / 0</calculator><output>error: division by zero</output>Hence \\boxed{23}", "CORRECT"),
        ("<calculator>460 / 2</calculator><output>230</output> of ten, so the answer is 23.", "CORRECT"),
    ],
)
def test_an_output_is_no_answer_of_23(text, outcome):
    found = get_grader("math").grade(without_calls(text, [ToolOutput(1, (4,))]), Gold(answer="23"))
    assert found.outcome.value == outcome


def test_stopped_between_turns_a_run_goes_on_as_if_it_had_not_been(tmp_path):
    options = tool_options(tmp_path)
    run(replace(options, out=tmp_path / "unbroken"), Clerk())
    for fail_after in (3, 16, 30):  # in the first turns, and in the second and third
        with pytest.raises(StapoError, match="out of luck"):
            run(options, Clerk(fail_after=fail_after))
    assert stored(options.out) == {}  # none had ended
    with pytest.raises(StapoError, match="out of luck"):
        run(options, Clerk(fail_after=40))
    kept = stored(options.out)
    assert len(kept) == 10  # 15 first turns, 15 second ones, and ten that ended
    last = Clerk()
    run(options, last)
    assert stored(options.out) == stored(tmp_path / "unbroken")
    assert not {request.key for request in last.requests} & kept.keys()  # nothing that was safe is drawn again


def test_the_tool_is_part_of_what_a_run_is(tmp_path):
    options = tool_options(tmp_path)
    run(options, Clerk())
    manifest = load_manifest(options.out)
    assert manifest.identity.tasks["sums"].tool == "calculator-3"
    assert manifest.identity.to_json()["tasks"]["sums"]["tool"] == "calculator-3"
    tool_options(tmp_path, tool=None)
    with pytest.raises(DifferentRunError, match=r"tasks\.sums\.tool"):
        run(options, Clerk())
    without = replace(options, out=tmp_path / "without")
    run(without, Clerk())
    assert "tool" not in load_manifest(without.out).identity.to_json()["tasks"]["sums"]
    assert all(sample.tool_outputs == () for sample in stored(without.out).values())


def test_a_stored_sample_is_read_as_it_was():
    outputs = (ToolOutput(3, (5, 6)), ToolOutput(7, ()))
    sample = Sample(
        task="t", problem_id="p", sample_index=0, seed=1, completion="c", num_tokens=9, finish_reason="stop",
        tool_outputs=outputs,
    )  # fmt: skip
    assert sample_from_line(sample_to_line(sample)) == sample
    assert b"tool_outputs" not in sample_to_line(replace(sample, tool_outputs=()))


@pytest.mark.parametrize(
    "outputs",
    [
        *(5, None, {"a": 1}, "ab", [3], [[3]], [[3, [1], 2]], ["ab"]),
        *([["x", [1]]], [[True, [1]]], [[1.0, [1]]], [[1, "abc"]], [[1, None]], [[1, [1.0]]], [[1, ["a"]]]),
        *([[-3, [1]]], [[10, [1]]], [[1, [-1]]], [[1, [10**30]]], [[3, [1]], [2, [1]]]),
    ],
)
def test_outputs_that_no_tool_can_have_written_are_refused_with_their_line(outputs):
    values = {"task": "t", "problem_id": "p", "sample_index": 0, "seed": 1, "completion": "c", "finish_reason": "stop"}
    with pytest.raises(ValueError, match=r"tool_outputs (is|holds) .*expected"):
        sample_from_line(seal({**values, "num_tokens": 9, "tool_outputs": outputs}))
    last = [[3, [1]], [3, []], [9, [0, 2**31 - 1]]]  # nine tokens are drawn: the last place is behind all of them
    assert sample_from_line(seal({**values, "num_tokens": 9, "tool_outputs": last})).tool_outputs == (
        *(ToolOutput(3, (1,)), ToolOutput(3, ())),
        ToolOutput(9, (0, 2**31 - 1)),
    )


def test_an_unknown_tool_is_refused_with_its_file(tmp_path):
    options = tool_options(tmp_path, tool="abacus")
    with pytest.raises(StapoError, match=r"sums.yaml: metadata.tool: expected one of calculator, got 'abacus'"):
        load_task(options.tasks[0])


def test_an_engine_that_cannot_go_on_is_refused_before_it_is_opened(tmp_path):
    options = tool_options(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text("success: 0.5\n")
    with pytest.raises(UsageError, match=r"tool calculator: expected an engine .* got scripted, which does not"):
        evaluate(replace(options, checkpoint=script, engine=EngineOptions(name="scripted")), watch=io.StringIO())
    assert not options.out.exists()


@pytest.mark.parametrize("stop", ["</calculator>", "</"])
def test_a_stop_text_that_would_keep_the_tool_from_being_asked_is_refused(tmp_path, stop):
    stopping = replace(preset("training"), stop=(stop,))
    options = replace(tool_options(tmp_path), sampling=stopping)
    with pytest.raises(UsageError, match=f"stop: expected no part of </calculator>, .*got '{stop}'"):
        evaluate(options, watch=io.StringIO())
    assert not options.out.exists()
    run(replace(tool_options(tmp_path, tool=None), sampling=stopping), Clerk(num_calls=0))


def test_replies_that_call_a_tool_are_not_continued(tmp_path):
    options = tool_options(tmp_path)
    with pytest.raises(UsageError, match="--thinking-budget: expected tasks whose replies call no tool, got "):
        list(evaluate_to_budgets(options, [20]))
    run(options, Clerk())
    with pytest.raises(StapoError, match="replies to sums call a tool and cannot be continued: evaluate anew"):
        continue_run(ContinueOptions(run_dir=options.out, max_new_tokens=400, data_dir=tmp_path))


def test_lm_eval_has_no_tools(tmp_path):
    options = tool_options(tmp_path)
    with pytest.raises(StapoError, match="expected a task without a tool, as lm-eval has no calculator"):
        load_dataset(options.tasks[0])


def test_the_card_says_what_replies_may_call(tmp_path):
    assert "  replies may call: calculator\n" in task_card(load_task(tool_options(tmp_path).tasks[0]))
    assert "may call" not in task_card(load_task(tool_options(tmp_path, tool=None).tasks[0]))
