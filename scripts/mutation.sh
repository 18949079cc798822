#!/usr/bin/env bash
# Which small changes of the code does no test notice? cosmic-ray's mutations, each against the tests that run its line,
# in an environment of its own (.venv-mutation, a layer over .venv). Hours for a room; once stopped it goes on.
#
#   scripts/mutation.sh stapo_bench/statistics/intervals.py
#   scripts/mutation.sh --sample 120 --seed 33 --jobs 4 statistics grading  # parts of bench/mutation/parts.yaml
#   scripts/mutation.sh --help
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
source scripts/layers.sh

make_mutation
OMP_NUM_THREADS=1 exec .venv-mutation/bin/python -m bench.mutation "$@"
