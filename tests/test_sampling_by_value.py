"""What sampling decides and says, by hand: which keys are asked for, what is kept of a completion, how far a run is."""

import io
import math
from dataclasses import replace

import pytest
from sampling_setup import eval_task, sample

from stapo_bench.errors import StapoError, UsageError, duration
from stapo_bench.records import Completion, SampleKey
from stapo_bench.runs.store import KeySet, num_lines, sample_from_line, sample_to_line, segment_sizes
from stapo_bench.sampling import engine_cache, generate
from stapo_bench.sampling.eval_tasks import count_samples, most_positions, requests, sample_keys
from stapo_bench.sampling.progress import Progress
from stapo_bench.sampling.stop_rules import against_base, decided_against, stop_rule, width_below
from stapo_bench.seeds import derive_seed

# --- which keys ------------------------------------------------------------------------------------------------------


def test_rounds_of_two_tasks_by_hand():
    a, b = eval_task("a", 3, 2, num_problems=2), eval_task("b", 1, 1)
    names = [f"{key.task}{key.problem_id}{key.sample_index}" for key, _ in sample_keys([a, b])]
    assert names == ["a00", "a10", "b00", "a01", "a11"]
    shards = [
        [f"{key.task}{key.problem_id}{key.sample_index}" for key, _ in sample_keys([a, b], (i, 2))] for i in (0, 1)
    ]
    assert shards == [["a00", "b00", "a11"], ["a10", "a01"]]
    assert list(sample_keys([])) == []
    assert (a.num_keys, b.num_keys) == (4, 1)
    assert count_samples([a, b], (0, 2)) == {"a": 2, "b": 1}
    held = KeySet()
    held.add(SampleKey("a", "1", 1))
    assert count_samples([a, b], (0, 1), among=held) == {"a": 1, "b": 0}
    asked = list(requests([a, b], 9, (1, 2)))
    assert [(r.key, r.prompt.text, r.seed) for r in asked] == [
        (SampleKey("a", "1", 0), "a1?", derive_seed(9, "a", "1", 0)),
        (SampleKey("a", "0", 1), "a0?", derive_seed(9, "a", "0", 1)),
    ]


def test_the_longest_prompt_that_is_asked_and_the_longest_completion():
    assert most_positions([eval_task("a", 3, 1), eval_task("b", 5, 1, num_problems=2)], 100) == 103
    assert most_positions([eval_task("a", 3, 1), eval_task("b", 5, 1, ids=False)], 100) is None
    assert most_positions([], 100) is None


@pytest.mark.parametrize(
    ("asked", "ready", "fits"),
    [(5, None, True), (None, None, True), (5, 5, True), (6, 5, False), (4, 5, True), (None, 5, False)],
)
def test_an_engine_takes_what_it_was_opened_for(asked, ready, fits):
    assert engine_cache._within(asked, ready) == fits


def test_the_frame_of_a_checkpoint_leaves_out_its_weights_and_where_they_come_from(tmp_path):
    shared = ["config.json", "chat.jinja", "spiece.model", "vocab.tiktoken", "merges.txt"]
    others = ["model.safetensors", "model.safetensors.index.json", "stapo.json", "trainer_state.json"]
    for name in shared + others:
        (tmp_path / name).write_text(name)
    assert sorted(engine_cache.frame_of(tmp_path)) == sorted(shared)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_completion():
    whole = Completion(
        key=SampleKey("a", "p", 3), text="x", finish_reason="stop", num_tokens=2, token_ids=(7, 8),
        log_probs=(-0.5, -0.25), seconds=1.23456, model="m-1",
    )  # fmt: skip
    kept = generate.to_sample(whole, 11, "stamp", "So ")
    assert kept == sample(
        "p", 3, seed=11, completion="So x", num_tokens=2, sum_log_prob=-0.75, seconds=1.2346, stamp="stamp", model="m-1"
    )
    cut = generate.to_sample(replace(whole, finish_reason="length", log_probs=None, seconds=None), 11, "stamp")
    assert (cut.token_ids, cut.sum_log_prob, cut.seconds, cut.completion) == ((7, 8), None, None, "x")


def test_a_run_has_one_version_of_its_model():
    versions = set()
    plain = Completion(key=SampleKey("a", "p", 0), text="", finish_reason="stop", num_tokens=0)
    for model in (None, "m-1", "m-1", None):
        generate.refuse_other_version(replace(plain, model=model), versions)
    assert versions == {"m-1"}
    with pytest.raises(StapoError, match="answered by m-1 before and by m-2 now"):
        generate.refuse_other_version(replace(plain, model="m-2"), versions)


@pytest.mark.parametrize(
    ("field", "value", "is_taken"),
    [
        ("sample_index", 0, True),
        ("sample_index", -1, False),
        ("sample_index", 999_999, True),
        ("sample_index", 1_000_000, False),
        ("seed", (1 << 63) - 1, True),
        ("seed", 1 << 63, False),
        ("seed", -(1 << 63), False),
        ("num_tokens", (1 << 31) - 1, True),
        ("num_tokens", 1 << 31, False),
        ("seed", None, True),
        ("num_tokens", None, True),
        ("finish_reason", None, True),
        ("finish_reason", "cut", False),
        ("completion", None, False),
    ],
)
def test_a_line_holds_what_columns_can_hold(field, value, is_taken):
    line = sample_to_line(replace(sample(), **{field: value}))
    if is_taken:
        assert getattr(sample_from_line(line), field) == value
    else:
        with pytest.raises(ValueError, match=r"expected|missing"):
            sample_from_line(line)


def test_lines_and_sizes_of_all_segments_are_counted(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    (folder / "0002-b.jsonl").write_bytes(b"{}\n" * 3)
    (folder / "0001-a.jsonl").write_bytes(b"{}\n{}\n{")
    assert num_lines(tmp_path) == 5
    assert list(segment_sizes(tmp_path).items()) == [("0001-a.jsonl", 7), ("0002-b.jsonl", 9)]


# --- how far a run is ------------------------------------------------------------------------------------------------


def test_the_lines_of_a_log_by_hand():
    log, now = io.StringIO(), [0.0]
    progress = Progress({"a": 3, "b": 4000}, stream=log, clock=lambda: now[0])
    progress.see(sample(task="c"))  # of a task that this command does not ask for
    progress.see(sample(index=9, finish_reason="length"))
    progress.start([SampleKey("a", "p", 0), *(SampleKey("b", "p", index) for index in range(3999))])
    assert progress.line() == "a 2/3 b 1/4000 · 0.0 samples/s · 0 tokens/s · ETA ?"
    progress.grade(SampleKey("c", "p", 0), "CORRECT")
    now[0] = 2.0
    progress.add(sample(num_tokens=4000))
    assert progress.line() == "a 3/3 b 1/4000 · 0.5 samples/s · 2,000 tokens/s · ETA 2:13:18"  # 3,999 times 2 s
    assert log.getvalue() == ""  # ten seconds are not over
    progress.add(sample(task="b", num_tokens=None))
    heading, a, b, everything = progress.block()
    assert heading == "task                    done  cut off  avg@k of whole rounds so far, % [95 %: these problems]"
    assert a == "a                        3/3     50 %  –"
    assert b == "b                     2/4000      0 %  –"
    assert everything == "all                   5/4003  1.0 samples/s · 2,000 tokens/s · ETA 1:06:38"
    now[0] = 12.0
    progress.add(sample(task="b", index=1))
    assert log.getvalue() == "a 3/3 b 3/4000 · 0.2 samples/s · 334 tokens/s · ETA 4:26:28\n"


def test_a_terminal_gets_half_a_second_and_no_line_wider_than_it_is(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "30")
    terminal, now = Terminal(), [0.0]
    progress = Progress({"a": 9}, stream=terminal, clock=lambda: now[0])
    progress.start(SampleKey("a", "p", index) for index in range(9))
    shown = []
    for index, now[0] in enumerate((0.49, 0.5, 0.99, 1.0)):
        progress.add(sample(index=index))
        shown.append(terminal.getvalue().count("all "))
    assert shown == [0, 1, 1, 2]
    lines = terminal.getvalue().replace("\x1b[2K", "").replace("\x1b[3F", "").splitlines()
    assert max(map(len, lines)) == 29
    before = len(terminal.getvalue())
    progress.say("a line that stays")
    progress.close()
    assert "\x1b[3F" not in terminal.getvalue()[before:]  # the block begins anew below it


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00:00"), (59.6, "0:01:00"), (3599, "0:59:59"), (36000, "10:00:00")]
)
def test_a_duration_in_words(seconds, text):
    assert duration(seconds) == text


# --- when to stop ----------------------------------------------------------------------------------------------------


def test_the_rule_that_a_command_was_given(make_run):
    other = make_run("other", {"t": [[0, 1] * 8] * 12})
    assert stop_rule(None, None) is None
    assert (stop_rule(0.02, None).words, stop_rule(0.02, None).aim) == ("--until-width 0.02", 0.01)
    assert (stop_rule(None, other).words, stop_rule(None, other).aim) == ("--until-decided other", 0.02)
    with pytest.raises(UsageError, match="got both"):
        stop_rule(0.02, other)
    assert width_below(0.5).aim == 0.25 and decided_against(other).aim == 0.02


def test_a_checkpoint_against_its_base_says_what_it_is(make_run):
    from stapo_bench.runs import load_run

    base = make_run("base", {"t": [[0] * 16] * 12, "u": [[0, 1] * 4] * 3})
    rule = against_base(base, 2)
    assert rule.words == "follow: checkpoint 2 against base"
    assert rule.aim == pytest.approx(3 * math.sqrt(0.25 / (12 * 16) + 0.25 / (3 * 8)) / 2)
    better = load_run(make_run("better", {"t": [[1] * 16] * 12, "u": [[1] * 8] * 3}, identity={"seed": 1}))
    found = rule.decide(better)
    assert found.stop and found.reason == "better: +75.0 points over base after 16 rounds" and found.rounds == 16
    few = load_run(make_run("few", {"t": [[1] * 2] * 12, "u": [[1, 0]] * 3}, identity={"seed": 1}))
    found = rule.decide(few)
    assert not found.stop and found.reason == "+50.0 points over base after 2 rounds"
