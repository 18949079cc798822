"""A short fault campaign, and what must not stand in the source: unsafe loading, running outside text, secrets kept."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from eval_setup import make_options, run

from stapo_bench.errors import StapoError
from stapo_bench.runs.manifest import load_manifest
from stapo_bench.runs.run_grading import grade_run
from stapo_bench.runs.sample_writer import repair

ROOT = Path(__file__).parent.parent


@pytest.mark.slow(reason="a campaign: commands killed, files damaged, wrong answers, one of most kinds")
def test_a_short_campaign_loses_nothing_and_lets_nothing_in(tmp_path):
    if not hasattr(os, "fork"):
        pytest.skip("the campaign forks")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--quick", "--work", tmp_path],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    table = json.loads((tmp_path / "table.json").read_text())["table"]
    assert [row["fault"] for row in table if row["survived"] != row["injected"] or row["wrong"]] == []
    injected = {row["fault"]: row["injected"] for row in table}
    assert injected["kill -9 eval, 1 writer"] > 0 and injected["a second writer, later"] == 1
    assert injected["bad task files"] >= 20 and injected["wrong server answers"] >= 15
    assert injected["flip scores.json"] == injected["a server that tells the API key back"] == 1


def test_a_campaign_goes_on_behind_what_is_done(tmp_path):
    from tests.faults import __main__ as campaign

    fields = {"injected": 2, "survived": 1, "lost": 3, "wrong": 1, "note": "n", "seconds": 0.5}
    lines = [json.dumps({"fault": "bad task files", "number": number, **fields}) for number in range(2)]
    (tmp_path / "trials.jsonl").write_text(f"{lines[0]}\n{lines[1]}\n{lines[0][:20]}")  # killed in the middle of a line
    done = campaign.read_done(tmp_path / "trials.jsonl")
    assert [result.number for result in done] == [0, 1]
    (row,) = campaign.rows(campaign.FAULTS, done)
    assert (row["injected"], row["survived"], row["lost"], row["wrong"], row["notes"]) == (4, 2, 6, 2, ["n"])
    assert "| bad task files | 4 | 2 | 6 cases | 2 | n |" in campaign.render([row])


HAS_COMPILER = any(map(shutil.which, ("cc", "gcc", "clang"))) and sys.platform.startswith("linux")


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler, or another system's preloading")
@pytest.mark.parametrize(
    ("name", "stride", "least"),
    [
        pytest.param("eval", 7, 6, marks=pytest.mark.slow(reason="an evaluation for every call that fails")),
        pytest.param("grade", 3, 2, marks=pytest.mark.slow(reason="a command for every call that fails")),
        ("export", 1, 3),
        pytest.param("stapo-train", 24, 4, marks=pytest.mark.slow(reason="a training for every call that fails")),
    ],
)
def test_whatever_call_fails_the_folder_is_whole_or_says_what_is_not(tmp_path, name, stride, least):
    """A sample of the calls; the campaign takes all of them."""
    from tests.faults import every_call
    from tests.faults.bench import Bench

    (tmp_path / "work").mkdir()
    trial = every_call.every_call(Bench(tmp_path / "bench"), Random(0), tmp_path / "work", name=name, stride=stride)
    assert trial.injected >= least and trial.broken == 0


BREAKS = """
from dataclasses import replace
from stapo_bench.runs import writing
from tests.faults import every_call

def in_place(path, parts):
    with writing(path), path.open("w") as file:
        file.writelines(parts)

def in_process():
    from stapo_bench.runs import export
    export.write_parts = in_place

every_call.WORKS["export"] = replace(every_call.WORKS["export"], in_process=in_process)
every_call.main()
"""


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler, or another system's preloading")
def test_a_result_that_is_written_in_place_is_found(tmp_path, monkeypatch):
    from tests.faults import every_call
    from tests.faults.bench import Bench
    from tests.faults.trial import BrokenError

    (tmp_path / "work").mkdir()
    (tmp_path / "breaks.py").write_text(BREAKS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(BrokenError, match=r"call 1, ENOSPC: samples\.csv is neither the old one nor the new one"):
        every_call.every_call(Bench(tmp_path / "bench"), Random(0), tmp_path / "work", name="export", module="breaks")


def test_what_cannot_be_injected_here_has_a_row_that_says_so(tmp_path, monkeypatch):
    from tests.faults import every_call, suites, vllm
    from tests.faults.bench import Bench

    monkeypatch.setenv(vllm.PYTHON, str(tmp_path / "no" / "python"))
    monkeypatch.setattr(suites, "kept_data", None)
    monkeypatch.setattr(every_call, "library", lambda _folder: None)
    real = [fault for fault in suites.FAULTS if "real" in fault.name]
    faults = [*vllm.FAULTS, *real, *every_call.FAULTS]
    assert len(faults) == 4 + len(every_call.WORKS)
    for fault in faults:
        trial = fault.inject(Bench(tmp_path / "bench"), Random(0), tmp_path)
        assert trial.injected == 0 and trial.note.startswith("not run: ")


def test_a_trial_in_another_interpreter_tells_what_came_of_it(tmp_path, monkeypatch):
    from tests.faults import vllm
    from tests.faults.bench import Bench
    from tests.faults.trial import BrokenError, Trial, WrongError

    python = tmp_path / "python"
    monkeypatch.setenv(vllm.PYTHON, str(python))

    def told(content: str, code: int = 0) -> Trial:
        python.write_text(f"#!/bin/sh\necho noise\necho '{content}'\nexit {code}\n")
        python.chmod(0o755)
        return vllm.FAULTS[0].inject(Bench(tmp_path / "bench"), Random(0), tmp_path)

    assert told('{"injected": 3, "broken": 0, "lost": 2, "note": ""}') == Trial(injected=3, lost=2)
    with pytest.raises(WrongError, match="weights differ"):
        told('{"error": "weights differ", "is_wrong": true}')
    with pytest.raises(BrokenError, match=r"^hangs$"):
        told('{"error": "hangs", "is_wrong": false}')
    with pytest.raises(BrokenError, match="the interpreter with vLLM ended with 3"):
        told("{}", code=3)


# -- what must not stand in the source --------------------------------------------------------------------------------

FORBIDDEN = {
    r"^\s*(import|from)\s+(pickle|dill|cloudpickle|shelve|marshal|joblib)\b": "pickles run what they hold",
    r"\btorch\.load\((?!.*weights_only=True)": "what torch loads is weights only",
    r"allow_pickle\s*=\s*True": "pickles run what they hold",
    r"(?<![\w.\"'`])(eval|exec|compile)\(": "outside text is never run",
    r"\b(sympify|parse_expr)\(": "sympy's parser runs what it reads",
    r"trust_remote_code\s*=\s*(?!False)": "a checkpoint's code is not run",
    r"\byaml\.(load|unsafe_load|full_load)\((?!.*_Loader\))": "YAML is loaded safely",
    r"shell\s*=\s*True|\bos\.(system|popen)\(": "no shell between us and a command",
    r"\bmktemp\(": "somebody else may make the file first",
    r"0\.0\.0\.0": "servers bind loopback",
}


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=FORBIDDEN.values())
def test_the_source_is_free_of(pattern):
    files = [path for folder in ("stapo_bench", "train/stapo_train") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(pattern, line) and not line.lstrip().startswith("#")
    ]
    assert found == []


def test_what_is_loaded_safely_says_so():
    from stapo_bench.tasks.task_file import _Loader

    assert issubclass(_Loader, __import__("yaml").SafeLoader)


# -- secrets and links ------------------------------------------------------------------------------------------------


def test_no_secret_reaches_a_manifest(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    url = "https://user:sk-secret@host/v1?key=sk-secret"
    monkeypatch.setattr(sys, "argv", ["stapo-bench", "eval", "--base-url", url])
    run(replace(make_options(tmp_path), samples=1))
    assert "sk-secret" not in (tmp_path / "run" / "manifest.json").read_text()
    assert load_manifest(tmp_path / "run").about.command.startswith("stapo-bench eval --base-url")


def test_links_in_a_run_folder_do_not_reach_files_of_ours(tmp_path):
    run(replace(make_options(tmp_path), samples=1))
    (tmp_path / "ours").write_text("not to be\ntouched")
    (tmp_path / "run" / "samples" / "0002-shard0of1-x.jsonl").symlink_to(tmp_path / "ours")
    assert repair(tmp_path / "run", "shard0of1") == 0
    (tmp_path / "run" / "samples" / "0002-shard0of1-x.jsonl").unlink()
    path = tmp_path / "run" / "grades" / "math.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "ours")
    with pytest.raises(StapoError, match=r"math\.jsonl:1: expected a grade, got a damaged line"):
        grade_run(tmp_path / "run", data_dir=tmp_path)
    for name in (".lock", ".shard0of1.lock"):  # both on one file: the second would wait for the first without end
        path = tmp_path / "run" / name
        path.unlink()
        path.symlink_to(tmp_path / "ours")
    with pytest.raises(StapoError, match=r"lock: expected a file of the run's own, got a link to .*ours; remove it"):
        run(replace(make_options(tmp_path), samples=2))
    assert (tmp_path / "ours").read_text() == "not to be\ntouched"
