"""The GPU day chooses an environment for each part, and is whole without a GPU."""

import json
import sys
from pathlib import Path

import pytest

from bench import gpu_day

ROOT = Path(__file__).resolve().parent.parent
JUNIT = """
<testsuites><testsuite>
<testcase name="one" time="0.25"/>
<testcase name="two" time="1"><failure message="no"/></testcase>
<testcase name="three" time="0"><skipped/></testcase>
</testsuite></testsuites>
"""


def part(name: str, code: str, **more) -> gpu_day.Part:
    command = f'-c "{code}"'
    return gpu_day.Part(name=name, shows=f"what {name} shows", gpu=command, toy=command, **more)


@pytest.fixture
def environments(tmp_path, monkeypatch) -> dict[str, str]:
    """Three: a Python by its name, with its packages."""
    has = {"core": {"torch", "transformers"}, "triton": {"torch", "transformers", "triton"},
           "vllm": {"torch", "transformers", "vllm", "trl"}}  # fmt: skip
    found = {}
    for name in has:
        found[name] = str(tmp_path / name / "bin" / "python")
        Path(found[name]).parent.mkdir(parents=True)
        Path(found[name]).symlink_to(sys.executable)
    monkeypatch.setattr(gpu_day, "pythons", lambda: list(found.values()))
    monkeypatch.setattr(gpu_day, "packages_of", lambda python: frozenset(has[Path(python).parts[-3]]))
    return found


def test_each_part_has_the_first_environment_with_what_it_needs_and_wants(environments):
    by_name = {one.name: gpu_day.python_for(one) for one in gpu_day.PARTS}
    assert by_name["linear"] == environments["core"]
    assert by_name["trl"] == environments["vllm"]  # which alone has TRL; without it ours would be measured alone
    assert by_name["harness"] == by_name["sleep"] == environments["vllm"]
    assert by_name["check"] is None  # Triton is there, pytest is not beside it
    assert gpu_day.python_for(part("x", "", needs=("triton",), wants=("trl",))) == environments["triton"]
    assert gpu_day.lacking(part("x", "", needs=("triton", "vllm"))).startswith(
        "not run: no environment with torch and transformers and triton and vllm among "
    )


def test_without_a_gpu_the_day_is_of_toy_sizes_and_a_missing_environment_fails_none(
    environments, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(gpu_day, "gpu_names", list)
    says = "import os; print(os.environ['PATH'].split(os.pathsep)[0])"
    parts = (part("linear", says), part("sleep", says, needs=("vllm",)), part("check", says, needs=("pytest",)))
    monkeypatch.setattr(gpu_day, "PARTS", parts)
    assert gpu_day.main(["--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no NVIDIA GPU (nvidia-smi -L): every part at toy sizes, on the CPU"
    rows = json.loads((tmp_path / "out/gpu_day/parts.json").read_text())
    assert rows["linear"]["said"] == str(Path(environments["core"]).parent)  # first on the part's PATH
    assert rows["sleep"]["said"] == str(Path(environments["vllm"]).parent)
    assert lines[-1].startswith("still missing: check (what check shows): not run: no environment with ")
    assert {row["device"] for row in rows.values()} == {"CPU, toy sizes"}
    # On a GPU the same is a failure, and so is a part that ran and ended badly.
    monkeypatch.setattr(gpu_day, "gpu_names", lambda: ["GPU 0: NVIDIA H200"])
    assert gpu_day.main(["--out", str(tmp_path / "gpu")]) == 1
    monkeypatch.setattr(gpu_day, "gpu_names", list)
    monkeypatch.setattr(gpu_day, "PARTS", (part("mask", "raise SystemExit(3)"),))
    assert gpu_day.main(["--out", str(tmp_path / "out")]) == 1


def test_parts_that_write_no_figures_of_their_own_get_a_file(environments, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_day, "gpu_names", list)
    own = {one.name: one.figures for one in gpu_day.PARTS}
    assert {name for name, figures in own.items() if figures is None} == {
        one.name for one in gpu_day.PARTS if "_gpu.json" in one.gpu and "_gpu.json" in one.toy
    }
    parts = (part("check", "print(1)", figures=own["check"]), part("small", "print(2)", figures=own["small"]))
    monkeypatch.setattr(gpu_day, "PARTS", parts)
    results = tmp_path / "out/gpu_day/small/results"
    results.mkdir(parents=True)
    (results / "table.json").write_text('[{"model": "stapo"}]')
    (tmp_path / "out/gpu_day/check.xml").write_text(JUNIT.strip())
    assert gpu_day.main(["--out", str(tmp_path / "out")]) == 0
    check, small = (json.loads((tmp_path / f"out/{name}_gpu.json").read_text()) for name in ("check", "small"))
    assert check["tests"] == {
        "one": {"end": "passed", "seconds": 0.25},
        "two": {"end": "failed", "seconds": 1.0},
        "three": {"end": "skipped", "seconds": 0.0},
    }
    assert small["table"] == [{"model": "stapo"}]
    assert (check["device"], check["held"], small["said"]) == ("CPU, toy sizes", True, "2")
    assert check["commit"] == small["commit"] != ""


def test_what_an_environment_has_is_asked_of_its_python():
    gpu_day.packages_of.cache_clear()
    assert {"torch", "transformers", "pytest"} <= gpu_day.packages_of(sys.executable)
