#!/usr/bin/env bash
# Makes an environment for NVIDIA GPUs, once and again when its files change; prints its folder last.
#
#   scripts/gpu_environment.sh vllm     # .venv-vllm: one machine; vLLM and the trainer (requirements/vllm.txt)
#   scripts/gpu_environment.sh verl     # .venv-verl: a cluster; the stack that verl is tested with (requirements/verl-gpu.txt)
#
# Some 12 GB each. verl's attention, flash-attn, is compiled here unless its authors built it for this torch: that needs
# nvcc and can take an hour. docs/gpu.md says what of this has met a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/find_python.sh
case "${1:-}" in
    vllm) extra=vllm extras=vllm least="3 10" below="3 14" ;;
    verl) extra=verl-gpu extras=verl-gpu,plots least="3 10" below="3 13" ;;
    *)
        echo "scripts/gpu_environment.sh: expected vllm or verl, got '${1:-}'" >&2
        exit 2
        ;;
esac
folder=".venv-$1" constraints="requirements/$extra.txt"
if ! nvidia-smi -L >/dev/null 2>&1; then
    echo "scripts/gpu_environment.sh: expected an NVIDIA GPU (nvidia-smi -L), found none; scripts/integration.sh $1 makes" \
        "the environment of a CPU" >&2
    exit 2
fi
stamp="$(cat pyproject.toml "$constraints" scripts/gpu_environment.sh | sha256sum | cut -c1-16)"
if [ "$(cat "$folder/stamp" 2>/dev/null || true)" != "$stamp" ]; then
    python="$(find_python "$least" "$below")"
    echo "environment: making $folder with $("$python" --version)" >&2
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/pip" install -q --upgrade pip
    "$folder/bin/pip" install -q -c "$constraints" -e ".[$extras]" pytest
    if [ "$1" = verl ]; then
        # Compiled against the torch that is there, which pip would otherwise hide from it.
        "$folder/bin/pip" install -q setuptools wheel ninja packaging psutil
        "$folder/bin/pip" install -q --no-build-isolation --no-deps flash-attn==2.8.3
    fi
    echo "$stamp" > "$folder/stamp"
fi
echo "$folder"
