"""Outputs that public repositories hold, in the formats of their tools: every file is imported, or turned away rightly.

They lie in the folder ``runs`` of the benchmark data, with an index of what is in each; not one text of them is here.
"""

import csv
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stapo_bench.analysis import score_run
from stapo_bench.errors import StapoError
from stapo_bench.presenting import finish_run
from stapo_bench.runs.importing import ImportOptions, Stated, import_run
from stapo_bench.runs.importing.survey import survey
from stapo_bench.runs.importing.writing import open_sources

TURNED_AWAY = {
    "AReaL": {"run config": "neither JSON, nor a table"},
    "EleutherAI": {"lm-eval results": "metrics of lm-eval without texts", "lm-eval samples": "another kind of task"},
    "NVIDIA": {"NeMo-Skills jsonl: predicted_answer": "outcomes without texts"},
    "PrimeIntellect-ai": {"vf-eval metadata": "the settings of an evaluation"},
    "TIGER-AI-Lab": {"PoT": "programs, and not answers: another kind of task"},
    "UKGovernmentBEIS": {
        "csv of inspect": "outcomes without texts",
        "scorer cases": "cases for a scorer",
    },
    "allenai": {"OLMES": "without texts"},
    "inclusionAI": {"run config": "neither JSON, nor a table"},
    "microsoft": {
        "ToRA eval metrics": "neither JSON, nor a table",
        "zip of 8": "holds samples in 8 folders; name those of one run: ",
    },
    "modelscope": {"evalscope reports": "a report of evalscope without texts"},
    "openai": {
        "OpenAI GSM8K example": "several models in one row",
        "OpenAI evals record": "events, not samples",
        "benchmark gold": "problems with their golds, and no model's answers",
    },
    "ruixiangcui": {"OpenAI completions raw": "answers of an API without golds"},
}
"""By repository and start of the format's name, the true reason."""
NAMELESS = ("output-rs0.test@ea5f8adb", "output-rs1.test@fbb80b85", "output-rs2.test@b7e979df")


@pytest.fixture(scope="module")
def files():
    folder = Path(os.environ.get("STAPO_BENCH_DATA", "nowhere")) / "runs"
    if not (folder / "INDEX.tsv").is_file():
        pytest.skip("needs real outputs of models: STAPO_BENCH_DATA names a folder with runs/INDEX.tsv")
    with (folder / "INDEX.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(row, folder / row["repo"].replace("/", "+") / row["path"]) for row in rows]


def expected_reason(row: dict) -> str | None:
    if row["path"].endswith(NAMELESS):
        return "expected a problem's text or name in every row, got neither"
    reasons = TURNED_AWAY.get(row["repo"].split("/")[0], {})
    if row["format"] == "evalscope predictions" and "qwen" in row["path"].split("/")[2]:
        return "predictions of evalscope without golds"
    return next((why for start, why in reasons.items() if row["format"].startswith(start)), None)


def counts(path: Path) -> tuple[int, set[int]]:
    """Problems in a file, and samples of each."""
    with TemporaryDirectory() as scratch:
        found = survey(open_sources([path], ImportOptions(), Path(scratch))[0], Stated())
    return len(found.problems), {problem.num_samples for problem in found.problems.values()}


@pytest.mark.slow(reason="every file of real outputs is read")
def test_every_file_is_counted_as_its_index_does_or_turned_away_with_the_true_reason(files):
    wrong = []
    for row, path in files:
        try:
            problems, samples = counts(path)
        except StapoError as error:
            why = expected_reason(row)
            if why is None or why not in str(error):
                wrong.append(f"{row['path']}: {error}")
            continue
        # NeMo-Skills has one sample in each file, and says so with the number of files.
        stated = row["samples_per_problem"].split(" ")[0]
        if expected_reason(row) is not None or (str(problems), {int(stated)}) != (row["problems"], samples):
            wrong.append(f"{row['path']}: {problems} × {samples}, in the index {row['problems']} × {stated}")
    assert wrong == []
    assert len(files) == 345


def test_what_is_turned_away_is_that_by_the_whole_import_too(files, tmp_path):
    for repo, format_ in (("EleutherAI", "lm-eval samples"), ("microsoft", "zip of 8")):
        row, path = next((r, p) for r, p in files if r["repo"].startswith(repo) and r["format"].startswith(format_))
        with pytest.raises(StapoError, match=expected_reason(row)):
            import_run([path], tmp_path / "run", ImportOptions())


def test_a_published_evaluation_matches_our_tasks_and_is_judged_by_both_graders(files, tmp_path):
    """Qwen2.5-14B-Instruct on AMC23, one greedy sample a problem; its script accepts 24 of 40."""
    folder = files[0][1].parents[len(Path(files[0][0]["path"]).parts)] / "NovaSky-AI+SkyThought"
    path = folder / "Qwen2.5-14B-Instruct__amc23_eval__amc23.jsonl"
    imported = import_run([path], tmp_path / "run", ImportOptions())
    assert list(imported.manifest.about.tasks) == ["amc23"] and imported.num_left_out == 0
    score = finish_run(tmp_path / "run", data_dir=None)
    assert (score.tasks[0].num_problems, score.tasks[0].num_samples, score.imported) == (40, 40, "Qwen2.5-Math")
    assert score.tasks[0].value == score_run(tmp_path / "run", "qwen-reported").tasks[0].value


def test_prompts_are_matched_where_the_data_are_at_hand(files, tmp_path):
    """AReaL's rollouts hold no golds and wrap each problem in a prompt; 30 files of one problem and two samples."""
    paths = [path for row, path in files if "salloc_eval_aime24" in row["path"] and path.suffix == ".jsonl"]
    data = Path(os.environ["STAPO_BENCH_DATA"])
    imported = import_run(paths, tmp_path / "run", ImportOptions(data_dir=data))
    (asked,) = imported.manifest.about.tasks.values()
    assert (asked.title, asked.num_problems, asked.num_samples, imported.num_samples) == ("AIME24", 30, 2, 60)
    assert imported.grader == "math"
