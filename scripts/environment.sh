#!/usr/bin/env bash
# Makes the project's own Python environment in .venv (once; again when pyproject.toml or requirements/ change) and
# puts it on PATH. Source it:   source scripts/environment.sh
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# Idle OpenMP threads must sleep, not spin: on a busy small machine spinning turns a step of 0.03 s into seconds.
export OMP_WAIT_POLICY=PASSIVE TOKENIZERS_PARALLELISM=false
# Containers often forbid it: then each of the hundreds of processes that tests start compiles every file again.
unset PYTHONDONTWRITEBYTECODE
# Python compiles a file when it is first imported; pip would compile every file of every package, which takes as long as
# the rest of the installation.
export PIP_COMPILE=0

source "$root/scripts/find_python.sh"

# On a machine without an NVIDIA GPU the CPU build of torch (200 MB) serves, not the CUDA build (3 GB). pip takes it
# where one of its configured sources offers it; uv knows PyTorch's own; else the default build, which also works.
install_cpu_torch() {
    local torch
    torch="$(sed -n 's/^torch==/torch==/p' "$root/requirements/core.txt")"
    pip install -q "$torch+cpu" 2>/dev/null && return
    pip install -q uv 2>/dev/null && uv pip install -q --torch-backend cpu "$torch" 2>/dev/null && return
    echo "environment: no CPU build of torch is offered here; installing the default build (about 3 GB)"
}

stamp="$(cat "$root/pyproject.toml" "$root/requirements/core.txt" | sha256sum | cut -c1-16)"
if [ "$(cat "$root/.venv/stamp" 2>/dev/null || true)" != "$stamp" ]; then
    python="$(find_python "3 10" "4 0")"
    echo "environment: making .venv with $("$python" --version) (one to three minutes)"
    "$python" -m venv "$root/.venv" || {
        echo "scripts/environment.sh: '$python -m venv' failed; on Debian or Ubuntu install python3-venv" >&2
        exit 1
    }
    source "$root/.venv/bin/activate"
    if ! nvidia-smi -L >/dev/null 2>&1 && [ "$(uname -s)" = Linux ]; then install_cpu_torch; fi
    pip install -q -c "$root/requirements/core.txt" -e "$root[dev]"
    echo "$stamp" > "$root/.venv/stamp"
else
    source "$root/.venv/bin/activate"
fi
