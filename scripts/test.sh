#!/usr/bin/env bash
# Lint, types, doctests and tests on the CPU, in the project's own environment. Arguments go to pytest; without -m among
# them slow tests are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

ruff check .
ruff format --check .
mypy & types="$!" # beside the tests: one core of two is idle while they are collected and where they end
if [[ " $* " != *" -m"* ]]; then
    echo "scripts/test.sh: without the slow tests; with them, as .ci/run does: scripts/test.sh -m 'slow or not slow'"
    set -- -m "not slow" "$@"
fi
# Three processes on two cores, of one thread each: tests that wait for servers and children leave a core idle. Who has
# nothing left takes from the end of another's tests.
processes="$(($(getconf _NPROCESSORS_ONLN) * 3 / 2))"
OMP_NUM_THREADS=1 python -m pytest -n "$processes" --dist worksteal "$@" || {
    code=$?
    [ "$code" != 5 ] || echo "scripts/test.sh: no test ran; if all of them are slow: scripts/test.sh -m slow FILE" >&2
    wait "$types" || true
    exit "$code"
}
wait "$types"
