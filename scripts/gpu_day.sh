#!/usr/bin/env bash
# One command for a GPU: kernels, output head, packing, exact mask, the trainer beside TRL's, the harness beside vLLM's own
# generate, sleep and wake, the small scale. Each part is bounded in time; started again it goes on where it was, and it
# prints what is still missing.
#
#   scripts/gpu_day.sh [--out DIR] [--limit SECONDS] [--hours H] [PART...]      an NVIDIA GPU; without one toy sizes
#   scripts/gpu_day.sh --toy [...]                                              toy sizes, on a CPU
#
# Each part runs in the environment that has what it needs: PyTorch (for CUDA) and transformers, Triton, vLLM or TRL, as
# the part asks. Where there is a GPU the environment of one GPU is made first (12 GB); on a CPU those that
# scripts/integration.sh has made serve, beside the project's own. PYTHON=... names another one that is looked at first.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${PYTHON:-}" ]; then
    python="$PYTHON"
elif nvidia-smi -L >/dev/null 2>&1; then
    python="$(scripts/gpu_environment.sh vllm | tail -1)/bin/python"
else
    source scripts/environment.sh
    python=python
fi
export PYTHONPATH="$PWD:$PWD/train${PYTHONPATH:+:$PYTHONPATH}" TOKENIZERS_PARALLELISM=false
exec "$python" -m bench.gpu_day "$@"
