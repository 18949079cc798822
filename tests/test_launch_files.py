"""The files that launch a reproduction on a cluster: bash, and what they start, with stubs in place of programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_launch_files_are_bash():
    started = ("reproduce_table.sh", "gpu_environment.sh", "integration.sh")
    for path in [*(ROOT / "scripts" / "launch").glob("*.sh"), *(ROOT / "scripts" / name for name in started)]:
        subprocess.run(["bash", "-n", path], check=True)
        assert path.stat().st_mode & 0o111, path


def test_launch_prints_them_and_lists_them(stapo):
    files = {path.stem: path.read_text() for path in (ROOT / "scripts" / "launch").glob("*.sh")}
    for name, text in files.items():
        assert stapo("launch", name) == (0, text, "") == stapo("launch", f"{name}.sh")
    code, listed, _ = stapo("launch")
    assert code == 0 and [line.split()[0] for line in listed.splitlines()] == sorted(files)
    assert "eval_array   One evaluation as a SLURM array" in listed and max(map(len, listed.splitlines())) <= 120
    code, _, error = stapo("launch", "evaluat")
    assert (
        code == 2
        and "expected one of eval_array, evaluate, ray, slurm, got 'evaluat'; did you mean 'evaluate'?" in error
    )


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """``stub(name, script)``: a command of that name, first on PATH, which writes its arguments to ``calls``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    def make(name, script=""):
        (folder / name).write_text(f'#!/bin/bash\necho "{name} $*" >> {tmp_path}/calls\n{script}\n')
        (folder / name).chmod(0o755)
        return tmp_path / "calls"

    return make


def evaluate(*arguments, **environment):
    return subprocess.run(
        [ROOT / "scripts" / "launch" / "evaluate.sh", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_evaluation_is_one_client_for_all_engines(stub, tmp_path):
    calls = stub("stapo-bench", f"mkdir -p {tmp_path}/run")
    done = evaluate("ckpt", "justrl", tmp_path / "run", 20, 2, BASE_URL="http://x/v1", EVAL_OPTIONS="--limit 5")
    assert done.returncode == 0, done.stderr
    asked, scored = calls.read_text().splitlines()
    assert scored == f"stapo-bench score {tmp_path}/run" and (tmp_path / "run" / "finished").exists()
    assert f"--base-url http://x/v1 --slots 2560 --out {tmp_path}/run --limit 5" in asked  # 20 x 128


def test_an_evaluation_whose_client_failed_is_not_finished(stub, tmp_path):
    stub("stapo-bench", f'mkdir -p {tmp_path}/run; [[ "$1" != eval ]]')
    done = evaluate("ckpt", "justrl", tmp_path / "run", 16, 1, BASE_URL="http://x/v1")
    assert done.returncode == 1 and not (tmp_path / "run" / "finished").exists()


def test_a_server_that_does_not_start_is_said_to_be(stub, tmp_path):
    calls = stub("vllm", "exit 3")
    stub("sleep")
    done = evaluate("ckpt", "justrl", tmp_path / "run", 4, 2, PORT="1")
    assert done.returncode == 1 and "vllm serve ended before it was ready" in done.stderr
    served = "vllm serve ckpt --port 1 --data-parallel-size 4 --data-parallel-size-local 4 --tensor-parallel-size 2"
    assert calls.read_text().startswith(f"{served} --data-parallel-backend ray")
    assert "--dtype bfloat16 " in calls.read_text()


SPREAD = """
while [ $# -gt 0 ]; do
    case "$1" in
        --data-parallel-size) all="$2" ;;
        --data-parallel-size-local) local="$2" ;;
        --tensor-parallel-size) tensor="$2" ;;
    esac
    shift
done
local="${local:-$all}"
fits=$((8 / tensor))
if [ "$local" -gt "$fits" ]; then
    echo "Not enough resources to allocate $local DP ranks on DP master node, possible to fit $fits DP ranks." >&2
elif [ $((2 * local)) -lt "$all" ]; then
    echo "Not enough resources to allocate $all placement groups, only created $((2 * local)) placement groups." >&2
else
    touch "$(dirname "$0")/../up"
fi
exit 3
"""
"""vLLM's own rule for placing engines on two nodes of 8 GPUs (``v1/engine/utils.py``, strict packing)."""


@pytest.mark.parametrize(("local", "served"), [((), False), ((4,), True), ((2,), False), ((16,), False)])
def test_engines_are_spread_over_the_nodes(stub, tmp_path, local, served):
    stub("vllm", SPREAD)
    stub("sleep")
    done = evaluate("ckpt", "justrl", tmp_path / "run", 8, 2, *local, PORT="1")
    assert done.returncode == 1  # the stand-in ends at once either way
    assert (tmp_path / "up").exists() == served, done.stderr


NO_VENV = """
case "$*" in
    *find_spec*) exit ${HAS:-1} ;;
    *"-m venv"*) mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/pip" && cp "$0" "${@: -1}/bin/python" ;;
    *version_info*) exit 0 ;;
esac
"""


@pytest.mark.parametrize(
    ("scale", "folder", "asked"),
    [
        ("small", ".venv-vllm", "-c requirements/vllm.txt -e .[vllm] pytest"),
        ("paper", ".venv-verl", "-c requirements/verl-gpu.txt -e .[verl-gpu,plots] pytest"),
    ],
)
def test_a_machine_with_a_gpu_makes_the_environment_that_the_scale_needs(stub, tmp_path, scale, folder, asked):
    for name in ("reproduce_table.sh", "gpu_environment.sh", "find_python.sh"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        (tmp_path / "scripts" / name).write_text((ROOT / "scripts" / name).read_text())
        (tmp_path / "scripts" / name).chmod(0o755)
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/vllm.txt", "requirements/verl-gpu.txt"):
        (tmp_path / name).touch()
    for name in ("python", "python3"):
        calls = stub(name, NO_VENV)
    stub("nvidia-smi")
    command = [tmp_path / "scripts" / "reproduce_table.sh", "--scale", scale, "--model", "8b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHON": "python3"})
    assert done.returncode == 0, done.stderr
    lines = calls.read_text().splitlines()
    assert any(line.endswith(asked) for line in lines), lines
    assert any("--no-build-isolation --no-deps flash-attn==2.8.3" in line for line in lines) == (scale == "paper")
    assert lines[-1].endswith(f"-m stapo_train.reproduce --scale {scale} --model 8b")
    assert (tmp_path / folder / "stamp").exists()


LETS_RAY_START = """
slept=$(grep -c ^sleep "$(dirname "$0")/../calls")
for _ in {1..200}; do
    [ "$(grep -c 'ray start' "$(dirname "$0")/../calls")" -lt $((2 * slept - 1)) ] || exit 0
    /bin/sleep 0.05
done
"""
"""In place of the first 20 s until the head has started, of the second until both others have."""


def test_a_slurm_job_makes_the_cluster_and_then_runs_on_it(stub, tmp_path):
    stub("scontrol", "printf 'n1\\nn2\\nn3\\n'")
    stub("srun", 'if [[ "$*" == *hostname* ]]; then echo 10.0.0.1 fe80::1; fi')
    calls = stub("sleep", LETS_RAY_START)
    stub("stapo-bench", f'echo "at $RAY_ADDRESS" >> {calls}')
    job = {
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_ON_NODE": "64",
    }
    command = [ROOT / "scripts" / "launch" / "slurm.sh", "stapo-bench", "eval", "--ray", "auto", "--out", "a run"]
    subprocess.run(command, env={**os.environ, **job}, check=True)
    lines = calls.read_text().splitlines()
    starts = [line for line in lines if "ray start" in line]
    assert len(starts) == 3 and "--cpus-per-task=64 -w n1 ray start --head --port=6379" in starts[0]
    assert {line.split("-w ")[1].split()[0] for line in starts[1:]} == {"n2", "n3"}
    assert all("ray start --address=10.0.0.1:6379" in line for line in starts[1:])
    assert lines[-2:] == ["stapo-bench eval --ray auto --out a run", "at 10.0.0.1:6379"]
    done = subprocess.run(command[:1], env={**os.environ, **job}, capture_output=True, text=True, check=False)
    assert (
        done.returncode == 1
        and "expected a command" in done.stderr
        and len(calls.read_text().splitlines()) == len(lines)
    )


@pytest.mark.slow(reason="three commands, each a process of its own")
def test_an_array_job_draws_every_sample_once(tmp_path):
    (tmp_path / "script.yaml").write_text("success: 0.5\n")
    run = tmp_path / "run"
    arguments = ["--ckpt", tmp_path / "script.yaml", "--decoding", "justrl", "--engine", "scripted", "--out", run]
    arguments += ["--tasks", "tiny_aime24", "--limit", "3", "--samples", "3"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    array = {"SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_SUBMIT_DIR": str(ROOT), "PATH": path}
    tasks = [
        subprocess.Popen(
            [ROOT / "scripts" / "launch" / "eval_array.sh", *arguments],
            env={**os.environ, **array, "SLURM_ARRAY_TASK_ID": number},
            stdout=subprocess.DEVNULL,
        )
        for number in ("1", "2")
    ]
    assert [task.wait() for task in tasks] == [0, 0]
    segments = sorted((run / "samples").glob("*.jsonl"))
    assert sorted(path.stem.split("-")[1][:9] for path in segments) == ["shard0of2", "shard1of2"]
    assert sum(len(path.read_text().splitlines()) for path in segments) == 9
    shown = subprocess.run(
        [Path(sys.executable).parent / "stapo-bench", "score", run], capture_output=True, text=True, check=True
    )
    assert "9" in shown.stdout
