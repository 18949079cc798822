"""Runs in other tools' formats say what those require, and nothing that the run does not know."""

import json
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.presenting import finish_run
from stapo_bench.presenting.exporting import FORMATS, export_as
from stapo_bench.runs import data_digest, load_manifest
from stapo_bench.runs.importing import ImportOptions, Stated, import_run
from stapo_bench.tasks import load_problems, load_task

FILES = ("lm-eval", "inspect", "every-eval-ever", "hub")


@pytest.fixture
def bare(tmp_path):
    """A set of one's own of which nothing is known: two problems, one of two samples right on each."""
    rows = [
        {"problem": f"{n} + 1?", "completion": f"\\boxed{{{answer}}}", "answer": str(n + 1)}
        for n in (1, 2)
        for answer in (n + 1, 9)
    ]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_run([tmp_path / "own.jsonl"], tmp_path / "bare", ImportOptions())
    finish_run(tmp_path / "bare", data_dir=None)
    return tmp_path / "bare"


@pytest.fixture
def known(tmp_path):
    """A generated task of ours with every setting stated: half of its 30 problems right."""
    rows = [
        {"problem": p.question, "completion": f"\\boxed{{{p.gold.answer if i % 2 else -1}}}", "task": "tiny_aime24"}
        for i, p in enumerate(load_problems(load_task("tiny_aime24")))
    ]
    (tmp_path / "ours.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stated = Stated(model="org/M", method="grpo", step=7, temperature=0.5, top_p=0.9, max_new_tokens=64)
    import_run([tmp_path / "ours.jsonl"], tmp_path / "known", ImportOptions(stated=stated))
    finish_run(tmp_path / "known", data_dir=None)
    return tmp_path / "known"


# Required by eval.schema.json 0.3.0 of https://github.com/evaleval/every_eval_ever (MIT), with the type of each.
EVERY_EVAL_EVER = {
    "schema_version": str,
    "evaluation_id": str,
    "retrieved_timestamp": str,
    "source_metadata": {
        "source_type": ("evaluation_run", "documentation"),
        "source_organization_name": str,
        "evaluator_relationship": ("first_party", "third_party", "collaborative", "other"),
    },
    "model_info": {
        "name": str,
        "id": str,
        "additional_details": {
            "deployment_type": ("self_deployed", "externally_managed", "unknown"),
            "model_availability": ("open_weights", "closed_weights", "unknown"),
        },
    },
    "eval_library": {"name": str, "version": str},
    "evaluation_results": [
        {
            "evaluation_name": str,
            "source_data": {"dataset_name": str, "source_type": ("url", "hf_dataset", "other")},
            "metric_config": {"lower_is_better": bool, "min_score": float, "max_score": float},
            "score_details": {
                "score": float,
                "uncertainty": {"confidence_interval": {"lower": float, "upper": float, "confidence_level": float}},
            },
        }
    ],
}
ALLOWED = {*EVERY_EVAL_EVER, "evaluation_timestamp", "detailed_evaluation_results"}


def lacking(value, wanted, place="") -> list[str]:
    """Where a record is not as wanted."""
    if isinstance(wanted, dict):
        return [
            found
            for name, inner in wanted.items()
            for found in (lacking(value[name], inner, f"{place}/{name}") if name in value else [f"{place}/{name}"])
        ]
    if isinstance(wanted, list):
        return [found for item in value for found in lacking(item, wanted[0], place)] if value else [place]
    return [] if (value in wanted if isinstance(wanted, tuple) else isinstance(value, wanted)) else [place]


def test_a_record_of_every_eval_ever_has_what_its_schema_requires(bare, known, tmp_path):
    for run in (bare, known):
        (path,) = export_as("every-eval-ever", [run], tmp_path / run.name).files
        found = json.loads(path.read_text())
        assert lacking(found, EVERY_EVAL_EVER) == [] and found.keys() <= ALLOWED
    assert lacking({"schema_version": 3}, EVERY_EVAL_EVER)[:2] == ["/schema_version", "/evaluation_id"]
    (result,) = found["evaluation_results"]
    details = result["score_details"]
    assert (details["score"], details["uncertainty"]["num_samples"]) == (0.5, 30)
    # s of 15 ones and 15 zeros is sqrt(7.5 / 29); its standard error is that over sqrt(30).
    assert details["uncertainty"]["standard_error"]["value"] == pytest.approx((7.5 / 29 / 30) ** 0.5)
    interval = details["uncertainty"]["confidence_interval"]
    assert interval["confidence_level"] == 0.95 and interval["lower"] < 0.5 < interval["upper"]
    assert result["generation_config"]["generation_args"] == {"temperature": 0.5, "top_p": 0.9, "max_tokens": 64}
    assert found["model_info"]["id"] == "org/M"


@pytest.mark.parametrize("name", FILES)
def test_what_a_run_does_not_know_is_in_no_file(name, bare, tmp_path):
    written = export_as(name, [bare], tmp_path / name)
    text = "".join(path.read_text() for path in written.files)
    for word in ("temperature", "top_p", "max_tokens", "max_gen_toks", "stop_reason", "output_tokens", "git_hash"):
        assert word not in text
    assert (text == "") == (name == "hub")  # the hub has no such data set
    if name == "hub":
        assert written.notes == ("bare: left out, as the hub has no such data set or there is no score: own",)


def test_the_hub_reads_its_results_and_the_card(tmp_path, make_run):
    hub = pytest.importorskip("huggingface_hub")
    import yaml

    run = make_run("run", {"aime24": [[1.0, 0.0], [1.0, 1.0]]}, about={"model": "org/M"})
    results, card = export_as("hub", [run], tmp_path / "repo").files
    assert results.relative_to(tmp_path / "repo").as_posix() == ".eval_results/aime24.yaml"
    (entry,) = hub.parse_eval_result_entries(yaml.safe_load(results.read_text()))
    assert (entry.dataset_id, entry.value) == ("HuggingFaceH4/aime_2024", 75.0)
    assert entry.notes.startswith("avg@2 in percent, 95 % interval [")
    data = hub.ModelCard.load(card).data
    (shown,) = data.eval_results
    assert (data.model_name, shown.dataset_type, shown.metric_value) == ("org/M", "HuggingFaceH4/aime_2024", 75.0)


def test_inspect_ai_reads_its_log(known, tmp_path):
    log_of = pytest.importorskip("inspect_ai.log")
    (path,) = export_as("inspect", [known], tmp_path / "logs").files
    log = log_of.read_eval_log(str(path))
    log_of.recompute_metrics(log)
    assert (log.status, log.eval.model, log.results.scores[0].metrics["accuracy"].value) == ("success", "org/M", 0.5)
    assert {sample.scores["math"].value for sample in log.samples} == {"C", "I"}


def test_a_log_of_lm_eval_has_the_fields_of_one(known, tmp_path):
    samples, results = export_as("lm-eval", [known], tmp_path / "logs").files
    assert samples.name == "samples_stapo_tiny_aime24.jsonl"  # when the samples were drawn is not known
    row = json.loads(samples.read_text().splitlines()[1])
    assert {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"} <= row.keys()
    assert (row["avg_at_k"], row["no_answer"], row["resps"]) == (1.0, 0.0, [[f"\\boxed{{{row['target']}}}"]])
    found = json.loads(results.read_text())
    assert found["results"]["stapo_tiny_aime24"]["avg_at_k,all_samples"] == 0.5
    assert found["n-samples"]["stapo_tiny_aime24"] == {"original": 30, "effective": 30}


def test_texts_that_are_not_at_hand_are_asked_for(tmp_path, make_run, monkeypatch):
    monkeypatch.delenv("STAPO_BENCH_DATA", raising=False)
    run = make_run("run", {"aime24": [[1.0]]})
    for name in ("lm-eval", "inspect"):
        with pytest.raises(StapoError, match=r"expected the problems' texts.*--data-dir DIR"):
            export_as(name, [run], tmp_path / "out" / "logs")
    assert not (tmp_path / "out").exists()
    with pytest.raises(StapoError, match="two called run"):
        export_as("hub", [run, run], tmp_path / "out")


@pytest.mark.parametrize("name", FILES)
def test_a_stranger_s_task_name_leads_nowhere(name, tmp_path, make_run):
    """A manifest may call a task what it likes, and say which of our files it is."""
    problems = load_problems(load_task("tiny_aime24"))
    file = str(load_task("aime24" if name == "hub" else "tiny_aime24").path)
    evil = "../../../evil"
    task = {"title": "T", "num_samples": 1, "problem_ids": [f"{evil}-0"], "file": file}
    data = {"tasks": {evil: {"data": data_digest(problems), "prompts": "p", "prompt_format": "plain"}}}
    run = make_run("run", {evil: [[1.0]]}, about={"tasks": {evil: task}}, identity=data)
    out = tmp_path / "a" / "b" / "c"
    files = export_as(name, [run], out).files
    assert files and all(path.resolve().is_relative_to(out) for path in files)
    assert not list(tmp_path.rglob("evil*"))


def test_several_runs_get_a_folder_each_and_the_command_names_the_files(bare, known, tmp_path):
    arguments = ["export", str(bare), str(known), "--format", "every-eval-ever", "-o", str(tmp_path / "out")]
    found = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    names = [tmp_path / "out" / name / f"{name}.json" for name in ("bare", "known")]
    assert found.stdout == "".join(f"{path} written\n" for path in names)
    assert 'bare: required and not known, so that they say "unknown"; fill in source_metadata.' in found.stderr
    assert all(path.is_file() for path in names)


FOREIGN = {
    ".yaml": "- dataset:\n    id: HuggingFaceH4/aime_2024\n  value: 10\n",  # another's result of the same set
    ".md": "---\nlicense: mit\n---\n",
    ".jsonl": '{"doc_id": 0, "doc": {}}\n',  # a log that lm-eval itself wrote, and its results
    ".json": '{\n  "results": {}\n}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_s_is_kept_and_one_of_ours_written_again(name, known, make_run, tmp_path):
    run = make_run("run", {"aime24": [[1.0], [0.0]]}) if name == "hub" else known
    files = export_as(name, [run], tmp_path / "out").files
    assert export_as(name, [run], tmp_path / "out").files == files
    for file in files:
        ours = {each: each.read_bytes() for each in files}
        for each in files:
            each.unlink()
        file.write_text(FOREIGN[file.suffix])
        with pytest.raises(UsageError, match="expected a free name, or a file that this command wrote"):
            export_as(name, [run], tmp_path / "out")
        assert file.read_text() == FOREIGN[file.suffix]
        assert [each for each in files if each.exists()] == [file]  # it is refused before anything is written
        for each, content in ours.items():
            each.write_bytes(content)


class Recorder:
    """Stands for a module or a run of a tracker: notes what it is called with."""

    def __init__(self) -> None:
        self.calls: dict[str, object] = {}

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.calls["finished"] = True

    def note(self, name):
        return lambda *args, **named: self.calls.update({name: args or named}) or self


def module(**functions) -> SimpleNamespace:
    """A tracker's module; both name their errors at the top."""
    return SimpleNamespace(MlflowException=RuntimeError, Error=RuntimeError, **functions)


def test_mlflow_gets_settings_scores_and_the_table(known, tmp_path, monkeypatch):
    seen = Recorder()
    names = ("set_experiment", "start_run", "log_params", "log_metrics", "log_text")
    monkeypatch.setitem(sys.modules, "mlflow", module(**{name: seen.note(name) for name in names}))
    export_as("mlflow", [known], tmp_path / "mine")
    assert seen.calls["set_experiment"] == ("mine",) and seen.calls["start_run"] == {"run_name": "known"}
    (params,) = seen.calls["log_params"]
    assert (params["model"], params["temperature"], params["step"], "seed" in params) == ("org/M", 0.5, 7, False)
    (values,) = seen.calls["log_metrics"]
    assert (values["tiny_aime24/avg_at_1"], values["average/avg_at_k"], values["tiny_aime24/num_problems"]) == (
        0.5,
        0.5,
        30.0,
    )
    assert values["tiny_aime24/low"] < 0.5 < values["tiny_aime24/high"]
    assert "tiny_aime24/num_truncated" not in values  # not known
    assert seen.calls["log_text"][1] == "table.md" and "| 50.00 [" in seen.calls["log_text"][0]
    assert not (tmp_path / "mine").exists()


def test_wandb_gets_the_same_and_knows_the_run_again(known, tmp_path, monkeypatch):
    seen = Recorder()
    seen.summary = SimpleNamespace(update=seen.note("summary"))
    monkeypatch.setitem(sys.modules, "wandb", module(init=seen.note("init")))
    export_as("wandb", [known], tmp_path / "mine")
    given = seen.calls["init"]
    assert (given["project"], given["name"], given["resume"]) == ("mine", "known", "allow")
    assert given["id"] == f"{load_manifest(known).digest[:16]}-math" and given["config"]["top_p"] == 0.9
    assert seen.calls["summary"][0]["average/avg_at_k"] == 0.5 and seen.calls["finished"]


@pytest.mark.parametrize(("name", "first"), [("mlflow", "set_experiment"), ("wandb", "init")])
def test_a_tracker_that_refuses_is_one_line(name, first, known, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no\nserver")

    monkeypatch.setitem(sys.modules, name, module(**{first: refuse}))
    with pytest.raises(StapoError, match=r"took nothing: no server; see its settings \("):
        export_as(name, [known], tmp_path / "mine")


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_tracker_that_is_missing_is_one_line(name, known, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        export_as(name, [known], tmp_path / "mine")
    assert raised.value.name == name  # of which the command makes: pip install 'stapo-bench[trackers]'
    assert set(FORMATS) == {*FILES, "mlflow", "wandb"}
