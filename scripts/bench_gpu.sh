#!/usr/bin/env bash
# Everything that needs a GPU, in one go: checks, times, prints short tables last. Full numbers go to OUT as JSON.
#
#   scripts/bench_gpu.sh [--out DIR] [--limit SECONDS] [--toy] [PART...]
#
# Parts, all by default: check (the kernels against float64), linear (the output head against its peers and the matmul
# floor), packing (packed against padded rows), mask (what an exact mask costs) and trl (the trainer beside TRL's). Each
# has --limit seconds (default 400); one that fails or takes longer is named at the end, and the script exits with 1.
#
# Needs a Python (PYTHON=..., default python3) with CUDA PyTorch, Triton and transformers, pytest for the check, and
# those peers that are to be measured: TRL, Liger, cut-cross-entropy, verl; the others are named as not run.
# --toy runs the same at toy sizes on a CPU, to try the script.
set -uo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}" out=results/bench limit=400 toy=
parts=()
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out="${2:?--out: expected a folder}" && shift ;;
        --limit) limit="${2:?--limit: expected seconds}" && shift ;;
        --toy) toy=1 ;;
        check | linear | packing | mask | trl) parts+=("$1") ;;
        *)
            echo "scripts/bench_gpu.sh: unknown argument '$1': expected --out DIR, --limit SECONDS, --toy or a part:" \
                "check, linear, packing, mask, trl" >&2
            exit 2
            ;;
    esac
    shift
done
[ ${#parts[@]} -gt 0 ] || parts=(check linear packing mask trl)
export PYTHONPATH="$PWD:$PWD/train${PYTHONPATH:+:$PYTHONPATH}" TOKENIZERS_PARALLELISM=false
mkdir -p "$out" || exit 2
logs="$(mktemp -d)"

if [ -n "$toy" ]; then
    small=(--device cpu --size toy) sizes=(--sizes tiny --tokens 64 --repeats 1) rounds=1 iterations=2
else
    small=(--size 0.6b) sizes=(--sizes 1.7b 8b 14b --repeats 3) rounds=3 iterations=4
    "$python" -c '
import sys, torch
sys.exit(None if torch.cuda.is_available() else "scripts/bench_gpu.sh: expected an NVIDIA GPU that torch sees, got none")
' || exit 2
fi

part_check() {
    "$python" -c 'import pytest, triton' 2>/dev/null || { echo "check: not run: no pytest or no Triton" && return; }
    "$python" -m pytest -q --tb=short -p no:cacheprovider tests/integration/test_fused_kernels.py
}
part_linear() { "$python" -m bench.linear "${sizes[@]}" --json "$out/linear_gpu.json"; }
part_packing() { "$python" -m bench.packing "${small[@]}" --repeats "$rounds" --json "$out/packing_gpu.json"; }
part_mask() { "$python" -m bench.trainer "${small[@]}" --rounds "$rounds" --json "$out/trainer_gpu.json"; }
part_trl() {
    "$python" -m bench.trl "${small[@]}" --rounds 1 --iterations "$iterations" --json "$out/trl_gpu.json"
}
export -f part_check part_linear part_packing part_mask part_trl

failed=()
for part in "${parts[@]}"; do
    echo "== $part"
    started=$SECONDS
    timeout --kill-after 10 "$limit" bash -c "$(declare -p python out small sizes rounds iterations); part_$part" \
        2>"$logs/$part.err" | tee "$logs/$part.out"
    code=${PIPESTATUS[0]}
    echo "== $part: $((SECONDS - started)) s"
    case $code in
        0) ;;
        124 | 137) failed+=("$part: more than $limit s") ;;
        *) failed+=("$part: exit code $code: $(cat "$logs/$part".{out,err} | grep -v '^ *$' | tail -1)") ;;
    esac
done

echo
echo "== short tables, $("$python" -c 'import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU")')"
for part in "${parts[@]}"; do
    tail -40 "$logs/$part.out"
done
echo "JSON: $out; logs: $logs"
for line in ${failed[@]+"${failed[@]}"}; do
    echo "failed: $line"
done
[ ${#failed[@]} -eq 0 ]
