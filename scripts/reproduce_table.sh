#!/usr/bin/env bash
# From nothing to the avg@k table: environment, four trainings, ten evaluations, one table.
#
#   scripts/reproduce_table.sh [--out DIR] [--from-scratch]      the tiny suite, any machine; from scratch: the base, too
#   scripts/reproduce_table.sh --scale small [--base PATH]       one GPU, under an hour
#   scripts/reproduce_table.sh --scale paper --model 1.7b|8b|14b [--nodes N] [--gpus-per-node G]      verl on Ray
#
# --dry-run prints what would be run. Stopped and started again it goes on where it was. The table is
# DIR/results/table.md (default: runs/tiny/results/table.md).
set -euo pipefail
cd "$(dirname "$0")/.."

# vLLM, and verl with the vLLM that it knows, need environments of their own: the active one where it has them, else
# .venv-vllm or .venv-verl, which are made where there is a GPU. Without one nothing but --dry-run can go far.
case " $* " in
    *" --scale"[\ =]"small "*) needed=vllm ;;
    *" --scale"[\ =]"paper "*) needed=verl ;;
    *) needed= ;;
esac
has() { "$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)' "$needed" 2>/dev/null; }
if [ -n "$needed" ] && has python; then
    :
elif [ -n "$needed" ] && [[ " $* " != *" --dry-run "* ]] && nvidia-smi -L >/dev/null 2>&1; then
    folder="$(scripts/gpu_environment.sh "$needed" | tail -1)"
    PATH="$PWD/$folder/bin:$PATH"
elif [ "$needed" = verl ] && has .venv-verl/bin/python; then
    PATH="$PWD/.venv-verl/bin:$PATH"
else
    source scripts/environment.sh
fi
exec python -m stapo_train.reproduce "$@"
