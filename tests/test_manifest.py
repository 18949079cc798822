"""A run is named by what decides its samples; anything else in its folder is refused field by field."""

import json
import math
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stapo_bench.errors import StapoError
from stapo_bench.records import Prompt, SamplingParams
from stapo_bench.runs.checkpoint import folder_label, read_checkpoint
from stapo_bench.runs.folder import DifferentRunError, differences, make_folder, open_run, state_stopping
from stapo_bench.runs.identity import Identity, TaskIdentity
from stapo_bench.runs.manifest import About, AskedTask, Stopping, load_manifest
from stapo_bench.runs.nested import canonical_digest
from stapo_bench.sampling.identity import prompts_digest
from stapo_bench.tasks import file_hashes


def identity(seed: int = 0, **tasks: str) -> Identity:
    return Identity(
        checkpoint_digest="c0ffee",
        tasks={name: TaskIdentity(data=data, prompts="p", prompt_format="base") for name, data in tasks.items()},
        sampling=SamplingParams(temperature=1.0, top_p=1.0, max_new_tokens=64),
        seed=seed,
        engine={"name": "scripted"},
        versions={"stapo_bench": "0.1.0"},
    )


def about(num_samples: int = 4, ids: tuple[str, ...] = ("1", "2"), **tasks: str) -> About:
    task = AskedTask(title="A", problem_ids=ids, num_samples=num_samples)
    return About(method="STAPO", started="now", tasks=dict.fromkeys(tasks or {"a": ""}, task))


# -- manifest ---------------------------------------------------------------------------------------------------------


def test_every_differing_field_has_a_line_and_tasks_are_compared_in_common():
    now = replace(
        identity(seed=1, a="x2", c="z"),
        sampling=SamplingParams(temperature=0.7, top_p=1.0, max_new_tokens=64),
        engine={"name": "transformers", "dtype": "float32"},
    )
    assert differences(identity(a="x", b="y"), now) == [
        "engine.dtype: the run has nothing, now float32",
        "engine.name: the run has scripted, now transformers",
        "sampling.temperature: the run has 1.0, now 0.7",
        "seed: the run has 0, now 1",
        "tasks.a.data: the run has x, now x2",
    ]
    assert differences(identity(a="x", b="y"), identity(b="y", c="z")) == []


def test_a_run_folder_keeps_its_manifest(tmp_path):
    run = open_run(tmp_path / "run", identity(a="x"), about())
    assert load_manifest(tmp_path / "run") == run
    raw = json.loads((tmp_path / "run/manifest.json").read_text())
    assert (raw["format"], raw["digest"]) == (1, identity(a="x").digest)


def test_another_command_adds_tasks_problems_and_samples_and_takes_none_away(tmp_path):
    open_run(tmp_path, identity(a="x"), about(num_samples=4, ids=("1", "2")))
    open_run(tmp_path, identity(a="x", b="y"), about(num_samples=32, ids=("1",), a="", b=""))
    run = open_run(tmp_path, identity(a="x"), replace(about(num_samples=1, ids=("2", "3")), started="later"))
    assert sorted(run.identity.tasks) == ["a", "b"]
    task = run.about.tasks["a"]
    assert (task.problem_ids, task.num_problems, task.num_samples) == (("1", "2", "3"), 3, 32)
    assert run.about.started == "now"  # the first command's
    assert run.digest == load_manifest(tmp_path).digest == identity(a="x", b="y").digest


def test_other_settings_are_refused_and_nothing_changes(tmp_path):
    open_run(tmp_path, identity(a="x"), about())
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(DifferentRunError, match=r"other settings.*--allow-different.*\n  seed: the run has 0, now 1$"):
        open_run(tmp_path, identity(seed=1, a="x"), about())
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_allow_different_starts_a_run_next_to_it_and_finds_it_again(tmp_path):
    first = tmp_path / "run"
    open_run(first, identity(a="x"), about())
    for _ in range(2):
        assert open_run(first, identity(seed=1, a="x"), about(), allow_different=True).run_dir == tmp_path / "run-2"
    assert open_run(first, identity(seed=2, a="x"), about(), allow_different=True).run_dir == tmp_path / "run-3"
    assert open_run(first, identity(seed=0, a="x"), about(), allow_different=True).run_dir == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected a manifest, got damage"),
        ("[]", "expected a manifest, got damage"),
        ('{"format": 2}', "expected format 1, got 2"),
        ('{"format": 1, "digest": "x", "identity": {}, "about": {}}', "the file was edited"),
    ],
)
def test_a_damaged_manifest_is_named(tmp_path, text, message):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StapoError, match=message):
        load_manifest(tmp_path)


def test_a_change_in_what_describes_a_run_is_seen_too(tmp_path):
    open_run(tmp_path / "run", identity(a="x"), about(a="x"))
    path = tmp_path / "run" / "manifest.json"
    path.write_text(path.read_text().replace('"num_samples": 4', '"num_samples": 6'))
    with pytest.raises(StapoError, match=r"manifest\.json: expected digest \w+ for its about, got \w+"):
        load_manifest(tmp_path / "run")


def written(folder: Path, change) -> Path:
    """A run whose manifest was changed, with digests that fit: as another version, or an attacker, would write it."""
    open_run(folder, identity(a="x"), about())
    raw = json.loads((folder / "manifest.json").read_text())
    change(raw)
    raw["digest"], raw["about_digest"] = canonical_digest(raw["identity"]), canonical_digest(raw["about"])
    (folder / "manifest.json").write_text(json.dumps(raw, indent=2, sort_keys=True) + "\n")
    return folder


WIDE = {"title": "A", "num_samples": 10_000, "problem_ids": [str(i) for i in range(1001)]}


@pytest.mark.parametrize(
    ("part", "place", "value", "message"),
    [
        ("identity", ["seed"], "0", "identity.seed is '0', expected a whole number"),
        ("identity", ["seed"], True, "identity.seed is True, expected a whole number"),
        ("identity", ["sampling", "top_p"], None, "identity.sampling.top_p is None, expected a number"),
        ("identity", ["sampling"], 3, "identity.sampling is 3, expected an object"),
        ("identity", ["engine", "name"], 1.5, "identity.engine.name is 1.5, expected a text"),
        ("identity", ["tasks", "a"], {}, "identity.tasks.a has no data"),
        ("about", ["tasks", "a", "problem_ids"], ["1", 2], "about.tasks.a.problem_ids[1] is 2, expected a text"),
        ("about", ["tasks", "a", "num_samples"], -1, "about.tasks.a.num_samples is -1, expected 0 to 1000000"),
        ("about", ["stopping"], {"rule": "r", "aim": "x"}, "about.stopping.aim is 'x', expected a number"),
        ("about", ["tasks"], {}, "identity and about differ in tasks: a"),
        (
            "about",
            ["tasks", "a", "num_samples"],
            10**9,
            "about.tasks.a.num_samples is 1000000000, expected 0 to 1000000",
        ),
        ("about", ["tasks", "a", "num_samples"], 10**6, None),
        ("about", ["tasks", "a", "num_problems"], 999, "about.tasks.a.num_problems is 999, but problem_ids are 2"),
        (
            "about",
            ["tasks", "a", "problem_ids"],
            ["1", "1"],
            "about.tasks.a.problem_ids names a problem more than once",
        ),
        ("about", ["tasks", "a"], WIDE, "about.tasks.a asks for more than 10000000 samples"),
        (
            "identity",
            ["sampling", "max_new_tokens"],
            10**30,
            f"identity.sampling.max_new_tokens is {10**30}, expected 0 to 1000000000",
        ),
        ("identity", ["sampling", "top_p"], math.nan, "NaN is no value in JSON"),
        ("about", ["started"], -math.inf, "-Infinity is no value in JSON"),
    ],
)
def test_a_manifest_of_wrong_types_is_one_line_that_names_the_field(tmp_path, part, place, value, message):
    def change(raw):
        at = raw[part]
        for name in place[:-1]:
            at = at[name]
        at[place[-1]] = value

    run = written(tmp_path / "run", change)
    if message is None:
        load_manifest(run)
        return
    with pytest.raises(StapoError) as caught:
        load_manifest(run)
    assert str(caught.value).endswith(f"manifest.json: expected a manifest, got damage ({message}); restore the file")


def test_what_a_newer_version_wrote_is_kept_and_counts(tmp_path):
    def change(raw):
        raw["identity"]["sampling"]["min_p"] = 0.1
        raw["identity"]["tasks"]["a"]["hint"] = "h"
        raw["identity"]["draft"] = {"model": "small"}
        raw["about"]["tasks"]["a"]["source"] = "s"
        raw["about"]["owner"] = ["me"]

    folder = written(tmp_path / "run", change)
    before = (folder / "manifest.json").read_bytes()
    run = load_manifest(folder)
    assert run.digest == json.loads(before)["digest"] != identity(a="x").digest
    open_run(folder, run.identity, about())
    assert (folder / "manifest.json").read_bytes() == before
    with pytest.raises(DifferentRunError, match=r"\n  draft.model: the run has small, now nothing\n"):
        open_run(folder, identity(a="x"), about())
    assert run.identity.with_tasks(["a"]).digest == run.digest
    assert "hint" not in str(run.identity.with_tasks([]).to_json())


def test_the_first_rule_of_stopping_stays(tmp_path):
    open_run(tmp_path, identity(a="x"), about())
    for width in (0.2, 0.4):
        state_stopping(tmp_path, Stopping(rule=f"--until-width {width}", aim=width / 2))
    assert load_manifest(tmp_path).about.stopping == Stopping(rule="--until-width 0.2", aim=0.1)
    assert load_manifest(tmp_path).about.method == "STAPO"


def test_stamps_differ_by_setting_and_stay_as_tasks_are_added(tmp_path):
    one = open_run(tmp_path / "run", identity(a="x"), about(a="x"))
    both = open_run(tmp_path / "run", identity(a="x", b="y"), about(a="x", b="y"))
    assert one.stamps["a"] == both.stamps["a"] != both.stamps["b"]
    assert open_run(tmp_path / "other", identity(1, a="x"), about(a="x")).stamps["a"] != one.stamps["a"]
    assert open_run(tmp_path / "third", identity(a="z"), about(a="z")).stamps["a"] != one.stamps["a"]


def test_samples_without_a_manifest_are_not_adopted(tmp_path):
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples/0001-x.jsonl").write_text("")
    with pytest.raises(StapoError, match="holds samples but no manifest"):
        open_run(tmp_path, identity(a="x"), about())


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StapoError, match=r"cannot write to .*file/run: Not a directory; choose another --out"):
        open_run(tmp_path / "file/run", identity(a="x"), about())


def _join_run(run_dir: str, number: int) -> None:
    open_run(Path(run_dir), identity(**{f"t{number}": "x"}), about(**{f"t{number}": ""}))


def test_shards_that_start_together_lose_no_addition(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_join_run, args=(str(tmp_path), i)) for i in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    run = load_manifest(tmp_path)
    assert sorted(run.identity.tasks) == sorted(run.about.tasks) == [f"t{i}" for i in range(8)]


def test_prompts_digest_sees_one_token_and_not_the_order():
    def prompt(name, ids):
        return Prompt(task="t", problem_id=name, text="same text", token_ids=ids)

    a, b = prompt("a", (1, 2)), prompt("b", (3,))
    assert prompts_digest([a, b]) == prompts_digest([b, a])
    assert prompts_digest([a, b]) != prompts_digest([a, prompt("b", (4,))])
    assert prompts_digest([prompt("a", None)]) != prompts_digest([prompt("a", (1,))])


# -- checkpoint -------------------------------------------------------------------------------------------------------


def make_checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("model.safetensors", True),
        ("config.json", True),
        ("tokenizer.json", True),
        ("generation_config.json", True),
        ("chat_template.jinja", True),
        ("stapo.json", False),
        ("trainer_state.json", False),
        ("optimizer.pt", False),
        ("training_args.bin", False),
        ("README.md", False),
    ],
)
def test_the_digest_sees_what_decides_a_sample(tmp_path, name, matters):
    folder = make_checkpoint(tmp_path / "c")
    before = read_checkpoint(folder).digest
    (folder / name).write_text('{"other": 1}')
    assert (read_checkpoint(folder).digest != before) == matters


def test_the_digest_is_the_contents_not_the_places(tmp_path):
    a, b = make_checkpoint(tmp_path / "a"), make_checkpoint(tmp_path / "b/c")
    assert read_checkpoint(a).digest == read_checkpoint(b).digest
    (b / "model.safetensors").rename(b / "model-00001-of-00001.safetensors")
    assert read_checkpoint(a).digest != read_checkpoint(b).digest


def test_labels_come_from_stapo_json_else_the_folder(tmp_path):
    folder = make_checkpoint(tmp_path / "grpo/checkpoints/step-40")
    found = read_checkpoint(folder)
    assert (found.method, found.model, found.step) == ("grpo-step-40", None, None)
    (folder / "stapo.json").write_text('{"method": "STAPO", "base": "Qwen3-1.7B", "step": 40}')
    found = read_checkpoint(folder)
    assert (found.method, found.model, found.step) == ("STAPO", "Qwen3-1.7B", 40)
    (folder / "stapo.json").write_text('{"method"')
    with pytest.raises(StapoError, match=r"stapo\.json: expected a JSON object"):
        read_checkpoint(folder)


def test_weights_that_are_not_what_was_written_are_named(tmp_path):
    folder = make_checkpoint(tmp_path / "step-40")
    found = file_hashes([folder / "model.safetensors"])
    (folder / "stapo.json").write_text(json.dumps({"sha256": found}))
    read_checkpoint(folder)
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(StapoError, match=r"model\.safetensors: expected sha256 \w{12}, as when it was written, got \w"):
        read_checkpoint(folder)


def test_a_bare_step_number_takes_the_runs_name(tmp_path):
    assert folder_label(Path("/r/dapo/global_step_100")) == "dapo-global_step_100"
    assert folder_label(Path("/m/Qwen3-8B")) == "Qwen3-8B"


def test_what_is_no_checkpoint_is_said(tmp_path):
    with pytest.raises(StapoError, match="no such checkpoint"):
        read_checkpoint(tmp_path / "none")
    folder = make_checkpoint(tmp_path / "c")
    (folder / "model.safetensors").unlink()
    with pytest.raises(StapoError, match=r"not a checkpoint: .*found no \*\.safetensors"):
        read_checkpoint(folder)
    (folder / "pytorch_model.bin").write_text("w")
    (folder / "config.json").unlink()
    with pytest.raises(StapoError, match=r"not a checkpoint: .*found no config\.json"):
        read_checkpoint(folder)


@pytest.mark.parametrize("name", ["samples/0002-x.jsonl", "grades/strict.jsonl", ".lock"])
def test_a_pipe_or_a_device_in_a_run_folder_is_refused_and_not_waited_for(tmp_path, name):
    run = tmp_path / "run"
    open_run(run, identity(a="x"), about(a=["p"]))
    path = run / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    for make in (os.mkfifo, lambda place: place.symlink_to("/dev/zero")):
        make(path)
        for opened in (load_manifest, make_folder):
            with pytest.raises(StapoError, match=rf"{name}: expected a file of the run's own, got a pipe, device or"):
                opened(run)
        path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert load_manifest(run).identity == identity(a="x")
