#!/usr/bin/env bash
# Installs the wheel without extras for each Python from 3.10 to 3.13 that is here, on PATH or of pyenv, in an empty
# environment with the newest packages that its requirements admit, and compares two files there: another Python than
# the one that tests run with. Says how long each installation took. No part of .ci/run: it takes minutes of network.
#
#   scripts/check_pythons.sh            # all of them
#   scripts/check_pythons.sh 3.13
set -euo pipefail
cd "$(dirname "$0")/.."

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
trap 'echo "scripts/check_pythons.sh: failed in line $LINENO: $BASH_COMMAND" >&2' ERR
root="$PWD"
cp tests/data/gate/{main,better}.csv "$work"
cd "$work"
[ $# -gt 0 ] || set -- 3.10 3.11 3.12 3.13
TIMEFORMAT="%R s, %U s of a processor"
checked=0
for version; do
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        "$python" -c "import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null || continue
        "$python" -m venv "venv-$version"
        [ -e stapo_bench-*.whl ] || "venv-$version/bin/pip" wheel -q --disable-pip-version-check --no-deps -w . "$root"
        installed="$({ time "venv-$version/bin/pip" install -q --disable-pip-version-check ./*.whl 2>&3; } 3>&2 2>&1)"
        run() { env -i HOME="$work" PATH="$work/venv-$version/bin:/usr/bin:/bin" "$@"; }
        run stapo-bench --help | grep -F "compare" >/dev/null
        verdict="$(run stapo-bench compare main.csv better.csv | sed -n 1p)"
        [[ "$verdict" = "**better is better than main: +12.1 points"* ]] || { echo "Python $version: expected +12.1 points, got: $verdict" >&2; exit 1; }
        echo "Python $("$python" -V | cut -d' ' -f2): installed without extras in $installed; $(run python -c 'import numpy, scipy; print("numpy", numpy.__version__, "scipy", scipy.__version__)')"
        rm -rf "venv-$version"
        checked=$((checked + 1))
        break
    done
done
[ "$checked" -gt 0 ] || { echo "scripts/check_pythons.sh: expected a Python from 3.10 to 3.13, found none" >&2; exit 1; }
