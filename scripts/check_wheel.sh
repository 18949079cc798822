#!/usr/bin/env bash
# Builds the wheel, installs it in an empty environment and runs it from an empty folder: nothing may be missing.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
trap 'echo "scripts/check_wheel.sh: failed in line $LINENO: $BASH_COMMAND" >&2' ERR
python -m build -q --wheel --no-isolation --outdir "$work"
python -m venv "$work/venv"
constraints="$PWD/constraints.txt"
torch="$(python -c 'import torch; print(torch.__version__)')"
cd "$work"
"$work/venv/bin/pip" install -q -c "$constraints" "torch==$torch" ./*.whl
# Nothing of the checkout on PATH or in the environment: what runs here is the wheel alone.
run() { env -i HOME="$work" PATH="$work/venv/bin:/usr/bin:/bin" "$@"; }
run stapo-bench --help >/dev/null
run stapo-bench tasks aime24 | grep "problems: 30" >/dev/null
run stapo-bench table --published | grep "published" >/dev/null
run stapo-train --help >/dev/null
# Every task file reads, and the generated suite has the content its digests name.
run python -c '
from stapo_bench.tasks.loading import load_problems, load_task, task_names
assert len(task_names("paper")) == len(task_names("tiny")) == 6
print("wheel:", sum(len(load_problems(load_task(name))) for name in task_names("tiny")), "tiny problems from", __import__("stapo_bench").__file__)
'
