"""What an evaluation chooses, by hand: folders, checkpoints in turn, stages, and what is refused before it begins."""

import errno
import io
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from stapo_bench.engines import EngineOptions
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Prompt, SamplingParams
from stapo_bench.runs import FoundCheckpoint, has_locks, locks
from stapo_bench.sampling import eval_options, evaluation, following
from stapo_bench.sampling.eval_options import EvalOptions, for_checkpoint, run_folders, samples_asked
from stapo_bench.sampling.eval_tasks import EvalTask
from stapo_bench.sampling.preflight import asked_format, check_context
from stapo_bench.statistics import CheckpointLook, Interval

PARAMS = SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=20)
ASKED = EvalOptions(checkpoint=None, decoding="justrl", tasks=(), out=Path("o"), sampling=PARAMS)


def eval_task(name, num_problems, num_samples, lengths=()):
    prompts = [Prompt(task=name, problem_id=str(i), text="", token_ids=(1,) * n) for i, n in enumerate(lengths)]
    counts = {"num_problems": num_problems, "num_samples": num_samples}
    return EvalTask(task=SimpleNamespace(name=name), problems=[], prompts=prompts, prompt_format="chat", **counts)


# --- which checkpoint, which folder ----------------------------------------------------------------------------------


@pytest.fixture
def steps(tmp_path):
    """Checkpoints of a training: steps 5, 10 and 20, and the last again as final."""
    for name in ("step-5", "step-10", "step-20", "final"):
        folder = tmp_path / "run" / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    return tmp_path / "run" / "checkpoints"


def test_the_run_folder_of_each_checkpoint(steps, tmp_path):
    scripted, served = EngineOptions(name="scripted"), EngineOptions(name="openai", model="org/m 1", base_urls=("u",))
    five, ten = steps / "step-5", steps / "step-10"
    assert run_folders(five, tmp_path / "o", "justrl", scripted) == {five: tmp_path / "o"}
    assert run_folders(five, tmp_path / "o", "justrl", served) == {five: tmp_path / "o"}
    assert run_folders(five, None, "justrl", scripted) == {five: Path("results/run-step-5-justrl")}
    many = run_folders(steps / "step-[15]*", tmp_path / "o", "justrl", scripted)
    assert list(many.items()) == [(five, tmp_path / "o/run-step-5-justrl"), (ten, tmp_path / "o/run-step-10-justrl")]
    assert run_folders(None, None, "justrl", served) == {None: Path("results/org-m-1-justrl")}
    assert run_folders(None, tmp_path, "justrl", served) == {None: tmp_path}
    for engine in (scripted, replace(served, model=None), replace(served, name="vllm")):
        with pytest.raises(UsageError, match="expected --ckpt, or a server's model"):
            run_folders(None, None, "justrl", engine)
    with pytest.raises(UsageError, match="expected one checkpoint, what the server serves, got 2"):
        run_folders(steps / "step-[15]*", None, "justrl", served)


def test_greedy_decoding_has_one_sample():
    greedy = replace(ASKED, sampling=replace(PARAMS, temperature=0.0))
    assert [samples_asked(one, 8) for one in (ASKED, replace(ASKED, samples=3), greedy)] == [8, 3, 1]
    assert samples_asked(replace(greedy, samples=1), 8) == 1
    with pytest.raises(UsageError, match="expected 1 with greedy decoding, where all are equal, got 2"):
        samples_asked(replace(greedy, samples=2), 8)


def entry(number, step, checkpoint, state="better"):
    return following.Entry(number=number, step=step, checkpoint=str(checkpoint), run=f"r{number}", state=state)


def test_the_last_look_at_a_checkpoint_is_what_stays_of_it():
    begun = entry(2, 10, "c", "begun")
    look = CheckpointLook(state="open", stop=True, rounds=6, value=0.25, interval=Interval(low=-0.5, high=math.inf))
    found = begun.seen(look)
    assert not begun.has_ended and found.has_ended
    assert (found.state, found.rounds, found.value, found.low, found.high) == ("open", 6, 0.25, -0.5, math.inf)
    unknown = begun.seen(replace(look, value=math.nan, interval=Interval(low=math.nan, high=math.nan)))
    assert (unknown.value, unknown.low, unknown.high) == (None, None, None)


def test_what_is_followed_next_and_when_it_is_over(steps, tmp_path):
    found = [FoundCheckpoint(step=step, path=steps / f"step-{step}") for step in (5, 10, 20)]
    asked = following.FollowOptions(folder=steps, base=None, asked=SimpleNamespace(out=tmp_path))
    base, five = entry(0, 5, steps / "step-5", "base"), entry(1, 10, steps / "step-10")
    first = following._next(asked, {}, found)
    assert (first.number, first.step, first.run, first.state) == (0, 5, "base", "begun")
    second = following._next(asked, {0: base}, found)
    assert (second.number, second.step, second.run) == (1, 10, "step-000010")
    begun = replace(five, state="begun")
    assert following._next(asked, {0: base, 1: begun}, found) == begun
    assert following._next(asked, {0: base, 1: five}, found).step == 20
    assert following._next(replace(asked, until=19), {0: base, 1: five}, found) is None
    assert following._next(replace(asked, until=20), {0: base, 1: five}, found).number == 2
    assert following._next(asked, {}, []) is None
    # of another training the base's step is no checkpoint that was evaluated
    assert following._next(asked, {0: entry(0, 5, tmp_path / "other" / "step-5", "base")}, found).step == 5
    assert following._not_begun(asked, {0: base}, found) == {10, 20}
    assert following._not_begun(replace(asked, until=10), {0: base}, found) == {10}
    final = FoundCheckpoint(step=20, path=steps / "final")
    over = [
        following._is_over(*case)
        for case in (
            (asked, found),
            (asked, [*found, final]),
            (replace(asked, once=True), []),
            (replace(asked, until=20), found),
            (replace(asked, until=21), found),
        )
    ]
    assert over == [False, True, True, True, False]


# --- before and between samples --------------------------------------------------------------------------------------


def test_an_adapter_stands_beside_its_base(monkeypatch):
    adapter, base, plain = Path("adapter"), Path("base"), Path("plain")
    templates = {adapter: None, base: "theirs"}
    monkeypatch.setattr(eval_options, "is_adapter", lambda path: path == adapter)
    monkeypatch.setattr(eval_options, "base_of", lambda path, named: named or base)
    monkeypatch.setattr(eval_options, "stated_chat_template", templates.get)
    asked = replace(ASKED, checkpoint=adapter)
    found = for_checkpoint(asked, None)
    assert (found.checkpoint, found.engine.adapter) == (base, adapter)
    templates[adapter] = "theirs"
    assert for_checkpoint(asked, base) == found
    templates[adapter] = "its own"
    with pytest.raises(StapoError, match="expected the chat template of its base base"):
        for_checkpoint(asked, base)
    for options in (ASKED, replace(ASKED, checkpoint=plain)):
        assert for_checkpoint(options, None) is options
        with pytest.raises(UsageError, match="--base: expected an adapter"):
            for_checkpoint(options, base)


@pytest.mark.parametrize(
    ("chat", "requested", "found"),
    [
        (True, None, "message"),
        (True, "message", "message"),
        (True, "base", None),
        (False, "message", None),
        (False, "base", "base"),
        (False, None, "auto"),
    ],
)
def test_the_prompt_format_that_is_asked_for(chat, requested, found):
    options = replace(ASKED, prompt_format=requested, engine=EngineOptions(name="openai", chat=chat))
    if found is None:
        with pytest.raises(UsageError, match="--prompt-format"):
            asked_format(SimpleNamespace(prompt_format="auto"), options)
    else:
        assert asked_format(SimpleNamespace(prompt_format="auto"), options) == found


def test_a_context_that_ends_completions_is_told_and_one_without_room_is_refused():
    tasks = [eval_task("a", 2, 1, lengths=(5, 9, 50))]  # the third is not asked for

    def said(context):
        watch = io.StringIO()
        check_context(tasks, context, 20, "m", watch)
        return watch.getvalue()

    assert [said(context) for context in (None, 29)] == ["", ""]
    assert said(28) == (
        "m: its context of 28 tokens is less than the longest prompt (9) and 20 new tokens: "
        "a completion of that one is cut off after 19\n"
    )
    assert "cut off after 1\n" in said(10)
    with pytest.raises(StapoError):
        said(9)


def test_stages_are_four_rounds_each_and_all_in_the_end():
    tasks = [eval_task("a", 1, 10), eval_task("b", 1, 3)]
    assert [[one.num_samples for one in stage] for stage in evaluation.stages(tasks)] == [[4, 3], [8, 3], [10, 3]]
    assert [[one.num_samples for one in stage] for stage in evaluation.stages(tasks[1:])] == [[3]]
    assert [stage[0].num_samples for stage in evaluation.stages([eval_task("a", 1, 8)])] == [4, 8]


@pytest.mark.parametrize(
    ("stored", "asked", "rule", "missing"),
    [
        (0, {}, None, True),
        (59, {}, None, True),
        (60, {}, None, False),  # 15 problems of 4 samples
        (29, {"shard": (0, 2)}, None, True),
        (30, {"shard": (0, 2)}, None, False),
        (12, {"limit": 3}, None, False),
        (11, {"limit": 3}, None, True),
        (59, {"limit": 99}, None, True),
        (0, {}, "rule", True),
        (1, {}, "rule", False),
    ],
)
def test_an_engine_is_surely_needed_where_lines_are_fewer_than_samples(monkeypatch, stored, asked, rule, missing):
    monkeypatch.setattr(evaluation, "num_lines", lambda folder: stored)
    task = SimpleNamespace(num_problems=15, num_samples=4)
    assert evaluation.surely_missing([task], replace(ASKED, **asked), rule) == missing


def test_what_a_run_holds_beyond_what_is_asked_now():
    counts = {"a": (2, 4), "b": (3, 4), "c": (2, 5), "d": (1, 1)}
    there = {name: SimpleNamespace(num_problems=n, num_samples=k) for name, (n, k) in counts.items()}
    run = SimpleNamespace(about=SimpleNamespace(tasks=there))
    said = evaluation.beyond_asked(run, [eval_task(name, 2, 4) for name in "abc"])
    assert said == (
        "b 3 problems × 4 samples (now asked 2 × 4), c 2 problems × 5 samples (now asked 2 × 4), "
        "d 1 problems × 1 samples"
    )
    assert evaluation.beyond_asked(run, [eval_task(name, 9, 9) for name in "abcd"]) == ""


def test_a_file_system_has_locks_or_lease_files(tmp_path, monkeypatch):
    assert has_locks(tmp_path)
    with locks.locked(tmp_path / "probe.lock"):
        assert has_locks(tmp_path)  # somebody holds the system's
    pytest.importorskip("fcntl", reason="Windows has locks of its own")

    def no_flock(*_arguments):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", no_flock)
    assert not has_locks(tmp_path)
