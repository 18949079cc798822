"""Every measurement runs to its end at a small size and says what it found and where; no figure is tested."""

import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from bench import gpu_day as gpu_day_program
from bench.screenshots import small

ROOT = Path(__file__).resolve().parent.parent


SLOW = pytest.mark.slow(reason="the smallest size that shows all figures is not small")


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Runs a measurement as its command does, but in this process, which imports torch only once; what it wrote."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(name, *arguments):
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [f"bench.{name}", *map(str, arguments), "--json", str(out)])
        try:
            runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=True)
        except SystemExit as stop:
            assert not stop.code
        found = json.loads(out.read_text())
        found = found.get(name, found)  # a part of a file that others write, too
        assert {"device", "versions", "commit"} <= found.keys()
        return found

    return run


def test_ranks_share_what_one_process_does_and_the_page_has_the_table():
    from bench.ranks import imbalance, table

    rows = json.loads((ROOT / "results" / "bench" / "ranks.json").read_text(encoding="utf-8"))["rows"]
    assert table(rows) in (ROOT / "train" / "README.md").read_text(encoding="utf-8"), "python -m bench.ranks"
    alone, *others = rows
    for row in others:
        for name in ("kept_weights", "kept_moments", "kept_gradients", "trained_tokens", "drawn_tokens"):
            assert sum(row[name]) == pytest.approx(sum(alone[name]), rel=0.01), name
    assert imbalance([3, 1]) == 1.5 and imbalance([2, 2, 2]) == 1.0


def test_what_a_queue_of_rollouts_would_save_is_the_pages_table():
    from bench.rank_shares import ends, measure, table

    rows = json.loads((ROOT / "results" / "bench" / "ranks.json").read_text(encoding="utf-8"))["shares"]["rows"]
    assert table(rows) in (ROOT / "train" / "README.md").read_text(encoding="utf-8"), "python -m bench.rank_shares"
    assert ends([3, 1, 1, 5], ranks=2, slots=1) == [3, 7]  # the second is free at 1 and at 2, and takes the last
    assert ends([3, 1, 1, 5], ranks=1, slots=2) == [7]
    small = measure(2, 4, prompts=16, group=8, trials=5)
    assert 1 <= small["queue_end"] <= small["fixed_end"] and 0 < small["fixed_waiting"] < 0.5


def test_startup(measure):
    found = measure("startup", "--repeats", "1")
    assert found["loads"] == []  # importing the package loads no heavy one
    assert all(row["wall_s"] > 0 for row in found["commands"].values())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("open_requests", ("--requests", "50")),
        pytest.param(
            "replicas",
            ("--replicas", "2", "--problems", "2", "--samples", "4", "--token-s", "0.0001"),
            marks=SLOW,
        ),
        pytest.param("store", ("--samples", "500", "1000", "--characters", "100"), marks=SLOW),
        pytest.param("importing", ("--samples", "1000", "--characters", "80"), marks=SLOW),
        pytest.param("engine", ("--requests", "8", "--slots", "4", "--max-new-tokens", "8"), marks=SLOW),
        pytest.param("ranks", ("--ranks", "1", "2", "--iterations", "1", "--prompts", "4"), marks=SLOW),
        pytest.param("eval", ("--only", "scripted", "--repeats", "1", "--seconds", "1"), marks=SLOW),
    ],
)
def test_the_others(measure, name, arguments):
    measure(name, *arguments)


@SLOW
def test_trainer(measure, base):
    measure("trainer", "--model", base, "--rounds", "1", "--prompts", "8")


@SLOW
def test_packing(measure):
    found = measure("packing", "--device", "cpu", "--size", "toy", "--repeats", "1")
    packed = [found["ways"][f"packed, {name}"] for name in ("sdpa", "torch_varlen")]
    for way in packed:
        assert way["num_positions"] == found["num_positions"] < found["ways"]["padded, sdpa"]["num_positions"]
        assert max(way["gradient_difference"], way["log_prob_difference"]) < 1e-12
    assert "packed, flash_attention_2" in found["not_run"]


@SLOW
def test_beside_trl(measure):
    """Where it is not installed ours is measured alone, with a model of random weights."""
    found = measure("trl", "--device", "cpu", "--size", "toy", "--rounds", "1", "--iterations", "2")
    assert len(found["summary"]["ours"]["mean_curve"]) == 2
    assert 0 < found["summary"]["ours"]["reward_first_3"] < 1  # some rollouts have a gradient


def test_planted_causes(measure):
    found = measure("why", "--pairs", "2")
    assert found["pairs"] == 2 and found["largest_error"] < 1e-12


@SLOW
def test_methods_over_seeds(measure):
    rows = measure("seeds", "--trials", "2")["rows"]
    assert len(rows) == 16
    assert all(0 <= row["coverage"][error] <= 1 for row in rows for error in row["coverage"])


@pytest.fixture
def gpu_day(monkeypatch):
    """The day with a GPU by name: a part that fails, one too slow, one that ends well, one that lacks a package."""

    def part(name, command, **more):
        return gpu_day_program.Part(name=name, shows=f"what {name} shows", gpu=command, toy=command, **more)

    gpu_day_program.packages_of.cache_clear()
    monkeypatch.setattr(gpu_day_program, "pythons", lambda: [sys.executable])
    monkeypatch.setattr(gpu_day_program, "gpu_names", lambda: ["GPU 0: NVIDIA H200"])
    monkeypatch.setattr(
        gpu_day_program,
        "PARTS",
        (
            # A second is for the one that is too slow; the others may take longer to start on a busy machine.
            part("packing", "-c 'import sys; sys.exit(\"no such kernel\")'", all_the_time=True),
            part("mask", "-c 'import time; time.sleep(60)'"),
            part("linear", "-c 'print(3 * 7)'", all_the_time=True),
            part("sleep", "-c 'print(1)'", needs=("no_such_package",)),
        ),
    )
    return gpu_day_program.main


@pytest.mark.slow(reason="a part that is given up after its second")
def test_a_failed_part_is_named_and_the_others_run(gpu_day, tmp_path, capsys):
    assert gpu_day(["--out", str(tmp_path), "--limit", "1"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^linear: \d+ s: 21$", out, re.MULTILINE)
    missing = [line for line in out.splitlines() if line.startswith("still missing: ")]
    assert missing == [
        "still missing: packing (what packing shows): exit code 1: no such kernel",
        "still missing: mask (what mask shows): more than 1 s",
        "still missing: sleep (what sleep shows): not run: no environment with torch and transformers and "
        f"no_such_package among {sys.executable}",
    ]
    assert (tmp_path / "gpu_day" / "linear.log").read_text() == "21\n"


@pytest.mark.slow(reason="a day started five times, most with a part that is given up after its second")
def test_started_again_the_day_goes_on_where_it_was(gpu_day, tmp_path, capsys, monkeypatch):
    started = []
    real = gpu_day_program.run
    monkeypatch.setattr(gpu_day_program, "run", lambda part, *rest: started.append(part.name) or real(part, *rest))
    again = ["--out", str(tmp_path), "--limit", "1"]
    gpu_day(again)
    gpu_day(again)
    assert started == ["packing", "mask", "linear", "packing", "mask"]
    assert gpu_day([*again, "linear"]) == 0  # asked for by name
    assert started[5:] == ["linear"]
    monkeypatch.setattr(gpu_day_program, "gpu_names", lambda: ["GPU 0: NVIDIA H100"])
    gpu_day(again)
    assert started[6:] == ["packing", "mask", "linear"]  # another device
    assert gpu_day([*again, "--hours", "0"]) == 1
    assert "packing: 0 s: not run: no time is left" in capsys.readouterr().out


STOPPED = """
from pathlib import Path
from bench import gpu_day

sleeper = '-c "import os, time; print(os.getpid(), flush=True); time.sleep(600)" {out}'
gpu_day.PARTS = (gpu_day.Part(name="mask", shows="", gpu=sleeper, toy=sleeper),)
gpu_day.main(["--toy", "--out", OUT])
"""


def test_a_day_that_is_stopped_leaves_no_part_running(tmp_path):
    program = STOPPED.replace("OUT", repr(str(tmp_path)))
    day = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL)
    log, deadline = tmp_path / "gpu_day" / "mask.log", time.monotonic() + 60
    while not (log.is_file() and log.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    day.terminate()
    assert day.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text()), 0)


def test_figures_go_to_a_folder_whose_name_has_spaces(gpu_day, tmp_path, monkeypatch):
    writes = '-c \'import sys; open(sys.argv[1] + "/x_gpu.json", "w").close()\' {out}'
    part = gpu_day_program.Part(name="linear", shows="", gpu=writes, toy=writes)
    monkeypatch.setattr(gpu_day_program, "PARTS", (part,))
    assert gpu_day(["--out", str(tmp_path / "two words")]) == 0
    assert (tmp_path / "two words" / "x_gpu.json").exists()


def test_a_day_on_a_gpu_refuses_a_part_that_it_has_not(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        gpu_day_program.main(["--out", str(tmp_path / "out"), "lineer"])
    assert stop.value.code == 2 and "unknown part 'lineer': expected one of check, linear" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@SLOW
def test_measurements_for_a_gpu_run_on_a_cpu_at_toy_size(tmp_path):
    command = ["bash", str(ROOT / "scripts" / "gpu_day.sh"), "--toy", "--out", str(tmp_path), "linear", "mask"]
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout
    ways = json.loads((tmp_path / "trainer_gpu.json").read_text())["ways"]
    assert [way["candidate_rate"] for way in ways] == [None, *[1e-4] * 3, *[1e-2] * 3]
    linear = json.loads((tmp_path / "linear_gpu.json").read_text())
    assert {"device", "versions", "commit"} <= linear.keys()
    (row,) = linear["sizes"].values()
    assert {"ours", "naive"} <= row["contestants"].keys()
    assert not row["contestants"].keys() & row["not_run"].keys()
    assert row["contestants"]["ours"]["log_prob_error"] < 1e-4


def test_a_picture_becomes_smaller_without_loss_to_the_eye():
    image = import_module("PIL.Image")
    ink = np.array([[213, 94, 0], [0, 114, 178], [27, 27, 27]])[:, None, None]  # on white, edges in between
    share = np.random.default_rng(0).random((3, 100, 300, 1))
    shades = (255 + share * (ink - 255)).reshape(300, 300, 3).astype(np.uint8)
    image.fromarray(shades).save(whole := io.BytesIO(), "PNG")
    reduced = small(whole.getvalue())
    seen = np.asarray(image.open(io.BytesIO(reduced)).convert("RGB")).astype(int)
    assert len(reduced) < len(whole.getvalue()) and seen.shape == shades.shape
    assert abs(seen - shades).max() < 24 and len(np.unique(seen.reshape(-1, 3), axis=0)) <= 256
