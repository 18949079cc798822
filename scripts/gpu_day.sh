#!/usr/bin/env bash
# One command for a GPU: kernels, output head, packing, exact mask, the trainer beside TRL's, the harness beside vLLM's own
# generate, sleep and wake, the small scale. Each part is bounded in time; started again it goes on where it was, and it
# prints what is still missing.
#
#   scripts/gpu_day.sh [--out DIR] [--limit SECONDS] [--hours H] [PART...]      an NVIDIA GPU
#   scripts/gpu_day.sh --toy [...]                                              the same at toy sizes, on a CPU
#
# PYTHON=... names another Python; it needs PyTorch (for CUDA), Triton, transformers and vLLM, and for more peers TRL,
# Liger, cut-cross-entropy and verl. Without it the environment of one GPU is made (12 GB); --toy takes that of vLLM's
# CPU build where scripts/integration.sh has made it, else the project's own, and names what is missing there.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${PYTHON:-}" ]; then
    python="$PYTHON"
elif nvidia-smi -L >/dev/null 2>&1; then
    python="$(scripts/gpu_environment.sh vllm | tail -1)/bin/python"
elif [ -x .venv-vllm/bin/python ]; then
    python=.venv-vllm/bin/python
else
    source scripts/environment.sh
    python=python
fi
export PYTHONPATH="$PWD:$PWD/train${PYTHONPATH:+:$PYTHONPATH}" TOKENIZERS_PARALLELISM=false
exec "$python" -m bench.gpu_day "$@"
