"""Training problems, their filters and their order; dynamic sampling and the extras of the rollout stage."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fake_hub import Hub, parquet, serve

from stapo_bench import tasks
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.records import Gold, Outcome, Problem, PromptStyle, ToolOutput
from stapo_bench.tasks import kk_brief
from stapo_bench.tasks.kk import split_of, training_puzzles
from stapo_train import data, run
from stapo_train.config import load_config
from stapo_train.correction import correct, engine_log_probs
from stapo_train.data import load_problems, problem_indices
from stapo_train.data_config import DataConfig
from stapo_train.objective import ONE_PROCESS
from stapo_train.reward import grade, with_overlong_penalty
from stapo_train.rollout_files import drop_rollouts, load_rollouts, save_rollouts
from stapo_train.trackers import scalars
from stapo_train.train_records import Rollout, StepRecord
from stapo_train.training_log import Stopwatch, rollout_mismatch, rollout_ratio


def config(path, **changes):
    return DataConfig(source="jsonl", path=str(path), question="{{problem}}", **changes)


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


ROWS = [
    {"id": "a", "problem": "What is $1+1$?", "answer": "2", "language": "en"},
    {"id": "b", "problem": "What is 1 + 1?", "answer": "2", "language": "en"},  # a's text, up to markup
    {"id": "c", "problem": "2+2", "answer": "4", "language": "en"},
    {"id": "d", "problem": "2 + 2", "answer": "5", "language": "en"},  # c's text with another gold
    {"id": "e", "problem": "一加一", "answer": "2", "language": "zh"},
    {"id": "f", "problem": "3+3", "answer": "6", "language": "en", "eval_overlap": ["amc23-1"]},
    {"id": "g", "problem": "4+4", "answer": "8", "language": "en", "near_duplicate_of": "z"},
    {"id": "h", "problem": "5+5", "answer": "10", "language": "en", "conflicting_answers": ["10", "11"]},
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "abcdefgh"),
        ({"language": "en"}, "abcdfgh"),
        ({"deduplicate": True}, "aef"),
        ({"drop_eval_overlap": True}, "abcdegh"),
        ({"language": "en", "deduplicate": True, "drop_eval_overlap": True}, "a"),
        ({"count": 2}, "ab"),
    ],
)
def test_filters(tmp_path, changes, expected):
    problems = load_problems(config(write(tmp_path / "p.jsonl", ROWS), **changes), seed=0)
    assert "".join(p.problem_id for p in problems) == expected


def test_language_is_read_off_the_text_where_no_column_says_it(tmp_path):
    rows = [{key: row[key] for key in ("id", "problem", "answer")} for row in ROWS]
    path = write(tmp_path / "p.jsonl", rows)
    for language, expected in (("en", "abcdfgh"), ("zh", "e")):
        problems = load_problems(config(path, language=language), seed=0)
        assert "".join(p.problem_id for p in problems) == expected


def test_overlap_is_looked_for_where_no_row_is_marked(tmp_path, monkeypatch):
    known = "one two three four five six seven eight nine ten"  # 10 words: 3 runs of eight
    evaluated = [Problem(task="t", problem_id="1", question=known, gold=Gold(answer="1"))]
    monkeypatch.setattr(tasks, "task_names", lambda suite: ["aime24"] if suite == "paper" else [])
    monkeypatch.setattr(tasks, "load_problems", lambda task, folder: evaluated if folder == tmp_path else [])
    texts = [f"Find it: {known}.", known[:-4], "one two three four five six seven eight", "else"]  # 3, 2, 1 and no run
    rows = [{"id": "abcd"[i], "problem": text, "answer": "1"} for i, text in enumerate(texts)]
    where = {"drop_eval_overlap": True, "eval_dir": str(tmp_path)}
    found = load_problems(config(write(tmp_path / "p.jsonl", rows), **where), seed=0)
    assert "".join(p.problem_id for p in found) == "cd"
    rows[3]["eval_overlap"] = ["1"]  # a file with marks knows best
    found = load_problems(config(write(tmp_path / "p.jsonl", rows), **where), seed=0)
    assert "".join(p.problem_id for p in found) == "abc"


@pytest.fixture(scope="module")
def dapo() -> tuple[DataConfig, list[dict]]:
    folder = Path(os.environ.get("STAPO_BENCH_DATA", "."))
    path = folder / "train" / "dapo_math_17k.jsonl"
    if not path.is_file():
        pytest.skip("STAPO_BENCH_DATA names no folder with train/dapo_math_17k.jsonl")
    settings = config(path, eval_dir=str(folder))
    return settings, data.read_jsonl(settings)


@pytest.mark.slow(reason="reads seventeen thousand problems")
@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 17_290),
        ({"language": "en"}, 14_048),  # these three as in the notes beside the file
        ({"language": "zh"}, 3_242),
        ({"deduplicate": True}, 16_385),
        ({"drop_eval_overlap": True}, 17_161),  # 129 rows are marked
        # The notes count 13,198; one pair of texts differs by a ligature, which we read as its letters.
        ({"language": "en", "deduplicate": True, "drop_eval_overlap": True}, 13_197),
    ],
)
def test_dapo_math_17k_has_the_known_counts(dapo, changes, count):
    settings, rows = dapo
    assert len(data.filter_rows(rows, replace(settings, **changes))) == count


@pytest.mark.slow(reason="seventeen thousand problems are searched for those of six benchmarks")
def test_our_search_finds_what_the_marks_of_dapo_math_17k_say(dapo):
    settings, rows = dapo
    bare = [{key: row[key] for key in ("id", "problem", "answer")} for row in rows]
    left = {row["id"] for row in data.filter_rows(bare, replace(settings, drop_eval_overlap=True))}
    marked = {row["id"] for row in rows if row.get("eval_overlap")}
    assert len(marked - left) == 121 and len(marked) == 129  # texts of few words, and reworded ones, differ
    assert len(rows) - len(left) == 142


# --- the hub ---------------------------------------------------------------------------------------------------------

LOAD = """
import json, sys
from stapo_bench.errors import StapoError
from stapo_train.data_config import DataConfig
from stapo_train.data import load_problems
for changes in json.loads(sys.argv[1]):
    settings = {"path": "made-up/problems", "columns": ("prompt", "solution"), "question": "{{problem}}", **changes}
    try:
        problems = load_problems(DataConfig(source="hub", **settings), seed=0)
        print(json.dumps([[p.task, p.problem_id, p.question, p.gold.answer] for p in problems]))
    except StapoError as error:
        print(json.dumps(str(error)))
"""


def from_hub(folder: Path, endpoint: str, *asked: dict) -> list:
    """What ``load_problems`` gives for each of the settings on a machine with a cache of its own."""
    own = {"HF_HOME": str(folder / "hf"), "HF_ENDPOINT": endpoint, "HF_TOKEN": "", "HF_HUB_OFFLINE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", LOAD, json.dumps(asked)],
        env={k: v for k, v in os.environ.items() if "proxy" not in k.lower()} | own,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.slow(reason="a process that loads datasets reads a set six times")
def test_a_hub_set_is_read_and_filtered_as_a_file_is(tmp_path):
    rows = [
        {"prompt": row["problem"], "solution": row["answer"], "messages": [{"role": "user", "content": "x"}]}
        for row in ROWS
    ]
    with serve(Hub(sets={"made-up/problems": [{"data/train-00000-of-00001.parquet": parquet(rows)}]})) as hub:
        everything, filtered, first, other, chat, none = from_hub(
            tmp_path,
            hub.endpoint,
            {},
            {"language": "en", "deduplicate": True},
            {"count": 2},
            {"columns": ["prompt", "gold"]},
            {"columns": ["messages", "solution"]},
            {"path": "made-up/nothing"},
        )
    assert everything == [
        ["problems", str(number), row["problem"], row["answer"]] for number, row in enumerate(ROWS, start=1)
    ]
    # b repeats a, c and d contradict each other, e is Chinese; marks are the local file's alone
    assert [problem[1] for problem in filtered] == ["1", "6", "7", "8"]
    assert first == everything[:2]
    assert other == "made-up/problems: expected column gold, got prompt, solution, messages"
    assert chat.startswith("made-up/problems, row 1: expected a problem's text, got")
    assert none == (
        "training data: cannot load made-up/nothing from the hub (there is no such data set, or no access to it); "
        "or use data.source=jsonl with data.path=FILE"
    )


def test_a_hub_out_of_reach_is_one_line(tmp_path):
    (error,) = from_hub(tmp_path, "http://127.0.0.1:9", {})
    assert error.startswith("training data: cannot load made-up/problems from the hub (the hub is out of reach: ")
    assert error.endswith("no copy of it in the cache); or use data.source=jsonl with data.path=FILE")


# --- knights and knaves ----------------------------------------------------------------------------------------------


def test_puzzles_to_train_on_are_problems_with_golds_in_words():
    settings = DataConfig(source="kk", people=(2, 4), count=30, question="{{problem}}")
    problems, puzzles = load_problems(settings, seed=3), training_puzzles(3, 30, (2, 4))
    assert [(p.question, p.gold.answer) for p in problems] == [(puzzle.text, puzzle.answer) for puzzle in puzzles]
    assert {p.gold.answer_type for p in problems} == {"text"}
    assert {split_of(puzzle.claims) for puzzle in puzzles} == {"train"}
    assert (problems[0].task, problems[0].problem_id, len({p.problem_id for p in problems})) == (
        "kk_train", "kk-train-00001", 30,
    )  # fmt: skip
    assert load_problems(settings, seed=4) != problems
    in_brief = load_problems(replace(settings, source="kk-brief"), seed=3)
    assert [(p.question, p.gold.answer) for p in in_brief] == [kk_brief.words(puzzle) for puzzle in puzzles]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"source": "kk", "count": 3},
            "expected with data.source=kk or kk-brief and there alone, got None",
        ),
        ({"source": "kk", "people": (2, 3)}, "data.count: expected how many problems data.source=kk generates"),
        ({"source": "tiny", "count": 3, "people": (2, 3)}, "there alone, got (2, 3)"),
        ({"source": "kk", "count": 3, "people": (5, 3)}, "data.people: expected the fewest first"),
        ({"source": "kk", "count": 3, "people": (1, 3)}, "expected 2 to 8 people, got 1"),
    ],
)
def test_settings_of_puzzles_are_checked(changes, message):
    with pytest.raises(UsageError) as error:
        load_problems(DataConfig(question="q", **changes), seed=0)
    assert message in str(error.value)


def test_the_config_of_puzzles_trains_on_what_its_tasks_do_not_ask():
    made = load_config(Path(__file__).parent.parent / "train" / "configs" / "small" / "kk-stapo.yaml")
    assert made.data.source == "kk" and made.data.path is None
    fewest, most = made.data.people
    asked = {p.question for n in range(fewest, most + 1) for p in tasks.load_problems(tasks.load_task(f"kk{n}"))}
    assert not asked & {p.question for p in load_problems(replace(made.data, count=50), made.seed)}
    question = tasks.load_task(f"kk{fewest}").question_template
    assert made.data.question == question  # trained on and evaluated with the same words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no problem is left of 0"),
        ('{"problem": "x"\n', "line 1: expected a JSON object"),
        ("[1]\n", "line 1: expected a JSON object"),
        ('{"question": "x", "answer": "1"}\n', "line 1: expected the columns problem and answer, got question, answer"),
        ('{"problem": ["x"], "answer": "1"}\n', "line 1: expected a problem's text, got"),
        ('{"problem": "x", "answer": null}\n', "line 1: expected an answer, got 'None'"),
        ('{"problem": "x", "answer": " "}\n', "line 1: expected an answer, got ' '"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(StapoError, match=message):
        load_problems(config(tmp_path / "p.jsonl"), seed=0)
    with pytest.raises(StapoError, match="no such file"):
        load_problems(config(tmp_path / "none.jsonl"), seed=0)


def test_every_epoch_asks_everything_once_in_another_order():
    epochs = [problem_indices(50, seed=1, position=50 * e, count=50) for e in range(3)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert problem_indices(50, seed=2, position=0, count=50) != epochs[0]
    # a run that goes on at any position sees what an unbroken one sees, over the end of an epoch too
    assert problem_indices(50, seed=1, position=37, count=40) == (epochs[0] + epochs[1])[37:77]


# --- rollouts and rewards --------------------------------------------------------------------------------------------


def rollout(text="", *, group=0, tokens=1, finish="stop", reward=float("nan"), log_probs=None):
    return Rollout(
        group_id=group, problem_id="p", index=0, seed=1, prompt_ids=(1,), response_ids=(2,) * tokens,
        rollout_log_probs=log_probs, text=text, finish_reason=finish, reward=reward,
    )  # fmt: skip


def test_rewards_and_failures():
    answers = {
        "right": Outcome.CORRECT,
        "wrong": Outcome.INCORRECT,
        "": Outcome.NO_ANSWER,
        "hang": Outcome.GRADER_ERROR,
    }
    pool = SimpleNamespace(grade=lambda pairs: [SimpleNamespace(outcome=answers[text]) for text, _ in pairs])
    rollouts = [rollout(text) for text in answers] + [rollout("right", finish="error")]
    graded = grade(rollouts, {0: Gold(answer="1")}, pool)
    assert [r.reward for r in graded[:3]] == [1.0, 0.0, 0.0]
    assert [r.reward != r.reward for r in graded[3:]] == [True, True]  # NaN: unknown is not wrong
    assert graded[4].outcome == Outcome.GRADER_ERROR


def test_overlong_penalty_by_hand():
    # limit 100, buffer 20: 80 tokens free, 90 cost 1/4, 100 cost 1/2: DAPO's 1/2 and 1 belong to rewards of -1 and 1
    rollouts = [rollout(tokens=n, reward=1.0) for n in (50, 80, 90, 100)]
    assert [r.reward for r in with_overlong_penalty(rollouts, 100, 20)] == [1.0, 1.0, 0.75, 0.5]
    # 70 tokens drawn and 20 of a tool's: 90 of the limit's 100
    (told,) = with_overlong_penalty(
        [replace(rollout(tokens=70, reward=1.0), tool_outputs=(ToolOutput(60, (7,) * 15), ToolOutput(70, (7,) * 5)))],
        100,
        20,
    )
    assert told.reward == 0.75


def test_importance_and_mismatch_by_hand():
    rollouts = [rollout(tokens=2, log_probs=(-1.0, -2.0)), rollout(tokens=1, log_probs=(-1.0,))]
    trainer = torch.tensor([-1.0, -1.0, -1.5])
    # ratios 1, e^1, e^-0.5, cut at 2
    log_ratio = trainer - engine_log_probs(rollouts, trainer)
    found = correct(log_ratio, torch.tensor([0, 0, 1]), 2, "token-tis", (0.0, 2.0))
    assert found.weights.tolist() == pytest.approx([1.0, 2.0, 0.60653], rel=1e-4)
    assert rollout_mismatch(rollouts, trainer) == pytest.approx((0 + 1 + 0.5) / 3)
    # ln r = 0, 1, -0.5: k1 = -0.5 / 3, k3 = (0 + (e - 2) + (e^-0.5 - 0.5)) / 3; none of r is outside 0.5 to 5
    assert rollout_ratio(rollouts, trainer) == pytest.approx({"k1": -1 / 6, "k3": 0.274937, "outside": 0.0}, rel=1e-5)
    far = torch.tensor([-2.0, 0.0, -1.0])  # r = e^-1 and e^2 are outside, and 1 is not
    assert rollout_ratio(rollouts, far)["outside"] == pytest.approx(2 / 3)
    assert rollout_mismatch([rollout()], trainer[:1]) is None and rollout_ratio([rollout()], trainer[:1]) == {}
    with pytest.raises(StapoError, match="returns log-probs"):
        engine_log_probs([rollout()], trainer[:1])


def test_dynamic_sampling_asks_until_all_groups_say_something(monkeypatch, tmp_path):
    # Problems 0, 3, ... give mixed rewards, 1, 4, ... a right one and one that is not known, the others equal ones.
    problems = [SimpleNamespace(asked_gold=Gold(answer=str(i)), number=i) for i in range(12)]
    order = []

    def fake_draw(engine, prompts, settings, *, seed, iteration, first_group, prefix, tokenizer, ranks):
        order.extend(p.number for p in prompts)
        return [rollout(str(p.number), group=g) for g, p in enumerate(prompts, start=first_group) for _ in range(2)]

    def fake_grade(rollouts, golds, pool):
        rewards = Counter()
        graded = []
        for r in rollouts:
            assert golds[r.group_id].answer == r.text
            rewards[r.group_id] += 1
            first, second = [(1.0, 0.0), (1.0, math.nan), (0.0, 0.0)][int(r.text) % 3]
            graded.append(replace(r, reward=first if rewards[r.group_id] == 1 else second))
        return graded

    monkeypatch.setattr(run, "sample_rollouts", fake_draw)
    monkeypatch.setattr(run, "grade", fake_grade)
    monkeypatch.setattr(run, "render", lambda problems, *_: problems)

    def sample(max_rounds, folder):
        settings = SimpleNamespace(
            seed=0,
            rollout=SimpleNamespace(prompts=3, max_rounds=max_rounds, max_new_tokens=8, ahead=None),
            reward=SimpleNamespace(overlong_buffer=None),
            data=SimpleNamespace(style=PromptStyle()),
        )
        made = SimpleNamespace(config=settings, problems=problems, tokenizer=None, engine=None, graders=None)
        made.policy = SimpleNamespace(model=torch.nn.Linear(1, 1), ranks=ONE_PROCESS)
        made.drawing_ranks = ONE_PROCESS
        made.folder = folder
        return run.informative_rollouts(made, 0, 1, Stopwatch())

    for name in ("many", "one"):
        (tmp_path / name).mkdir()
    rollouts, asked = sample(50, tmp_path / "many")
    assert all(int(r.text) % 3 == 0 for r in rollouts)
    assert [r.group_id for r in rollouts] == [0, 0, 1, 1, 2, 2]
    assert asked > 3 and order == problem_indices(12, 0, 0, asked)  # every round goes on with the next problems
    rollouts, asked = sample(1, tmp_path / "one")
    assert (len(rollouts), asked) == (6, 3)


def test_open_rollouts_survive_the_way_to_disk(tmp_path):
    drawn = [
        replace(rollout("a\u2028b\n", tokens=2, reward=0.1, log_probs=(-0.1, -1 / 3)), outcome=Outcome.CORRECT),
        replace(rollout("", group=1), outcome=Outcome.GRADER_ERROR),
    ]
    save_rollouts(tmp_path, 3, drawn, num_asked=5)
    found, asked = load_rollouts(tmp_path, 3)
    assert asked == 5 and found[0] == drawn[0]
    assert found[1].reward != found[1].reward and found[1].outcome == Outcome.GRADER_ERROR
    assert load_rollouts(tmp_path, 4) is None
    drop_rollouts(tmp_path, 3)
    assert load_rollouts(tmp_path, 3) is None


def test_trackers_get_every_number_and_nothing_else():
    fields = dict.fromkeys(StepRecord.__dataclass_fields__, 1.0)
    record = StepRecord(**{
        **fields, "iteration": 7, "thresholds": {"tau_h": [1.0, 2.0, float("nan")]}, "seconds": {"update": 3.0},
        "masked_share_of_candidates": None, "skipped_updates": [], "entropy_quantiles": {}, "memory": {},
    })  # fmt: skip
    found = scalars(record)
    assert found["thresholds/tau_h"] == 1.5 and found["seconds/update"] == 3.0 and found["reward"] == 1.0
    assert "masked_share_of_candidates" not in found and "skipped_updates" not in found
