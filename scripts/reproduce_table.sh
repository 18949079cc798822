#!/usr/bin/env bash
# From nothing to the avg@k table: environment, base model, four trainings, ten evaluations, one table.
#
#   scripts/reproduce_table.sh [--out DIR]                       the tiny suite, any machine
#   scripts/reproduce_table.sh --scale small [--base PATH]       one GPU, under an hour
#   scripts/reproduce_table.sh --scale paper --model 1.7b|8b|14b [--nodes N] [--gpus-per-node G]      verl on Ray
#
# --dry-run prints what would be run. Stopped and started again it goes on where it was. The table is
# DIR/results/table.md (default: runs/tiny/results/table.md).
set -euo pipefail
cd "$(dirname "$0")/.."
has_verl() { "$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("verl") is None)' 2>/dev/null; }

# verl and vLLM for GPUs need an environment of their own: the active one where it has verl, else .venv-verl.
if [[ " $* " == *" --scale"[\ =]"paper "* ]] && has_verl python; then
    :
elif [[ " $* " == *" --scale"[\ =]"paper "* ]] && has_verl .venv-verl/bin/python; then
    PATH="$PWD/.venv-verl/bin:$PATH"
else
    source scripts/environment.sh
fi
exec python -m stapo_train.reproduce "$@"
