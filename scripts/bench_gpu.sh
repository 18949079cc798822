#!/usr/bin/env bash
# Everything that needs a GPU, in one go: builds, checks, times, prints a short table last. Full numbers go to OUT.
#
#   scripts/bench_gpu.sh [OUT]        # default: results/bench
#
# Needs a Python with CUDA PyTorch, Triton and transformers (PYTHON=..., default: python3) and pytest; peers that are
# installed there (TRL, Liger, cut-cross-entropy, verl) are measured too, the others are named as not run.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
out="${1:-results/bench}"
export PYTHONPATH="$PWD:$PWD/train:$PWD/scripts"
mkdir -p "$out"

"$python" -c '
import sys, torch
sys.exit(None if torch.cuda.is_available() else "scripts/bench_gpu.sh: expected an NVIDIA GPU that torch sees, got none")
'
"$python" -m pytest -q -p no:cacheprovider tests/integration/test_fused_kernels.py
"$python" scripts/bench_linear.py --sizes 1.7b 8b 14b --json "$out/linear_gpu.json" | tee "$out/linear_gpu.txt"
"$python" scripts/bench_startup.py --repeats 5
echo
echo "== short table =="
cat "$out/linear_gpu.txt"
rm "$out/linear_gpu.txt"
