#!/usr/bin/env bash
# Environments that add a few packages to .venv. Source it after scripts/environment.sh.

# current FOLDER FILE... : was this environment made from these files as they are now?
current() {
    local folder="$1"
    shift
    stamp_now="$(cat "$@" scripts/layers.sh scripts/integration.sh | sha256sum | cut -c1-16)"
    [ "$(cat "$folder/stamp" 2>/dev/null || true)" = "$stamp_now" ]
}

# make_layer NAME REQUIREMENT... : .venv-NAME, which sees the core's packages. pip sees them too: only what they add
# to them is installed, as requirements/NAME.txt says.
make_layer() {
    local folder=".venv-$1" constraints="requirements/$1.txt"
    shift
    current "$folder" requirements/core.txt "$constraints" .venv/stamp && return
    rm -rf "$folder"
    .venv/bin/python -m venv "$folder" &&
        .venv/bin/python -c '
import pathlib, sys, sysconfig
core, layer = (sysconfig.get_path("purelib", vars=base) for base in ({}, {"base": sys.argv[1]}))
pathlib.Path(layer, "core.pth").write_text(f"import site; site.addsitedir({core!r})\n")
' "$folder" &&
        "$folder/bin/pip" install -q -c requirements/core.txt -c "$constraints" "$@" &&
        echo "$stamp_now" > "$folder/stamp"
}

# What builds the site and runs its notebooks.
make_site() { make_layer site zensical==0.0.73 'mkdocstrings[python]==1.0.8' nbclient ipykernel; }

# What changes the code to see whether a test notices, and tells which tests run a line.
make_mutation() { make_layer mutation cosmic-ray==8.7.0 pytest-cov==7.1.0; }
