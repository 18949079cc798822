#!/usr/bin/env bash
# Builds the image and runs it as clusters do: not as root, its root read-only, one folder mounted. Ten minutes, 1.5 GB.
#
#   scripts/check_container.sh             # for verdicts, without torch; with docker or podman
#   EXTRAS=vllm VERSIONS=vllm scripts/check_container.sh     # the whole, 10 GB, twice that while it is built
set -euo pipefail
cd "$(dirname "$0")/.."
extras="${EXTRAS:-plots}" versions="${VERSIONS:-core}" tool=
for name in docker podman; do "$name" info >/dev/null 2>&1 && tool="$name" && break; done
if [ -z "$tool" ]; then
    echo "scripts/check_container.sh: expected docker or podman that answers ('docker info'), found neither" >&2
    exit 2
fi
"$tool" build -t stapo-bench:check -f scripts/container/Dockerfile \
    --build-arg EXTRAS="$extras" --build-arg VERSIONS="$versions" .
here="$(mktemp -d)"
trap 'rm -rf "$here"' EXIT
cp tests/data/gate/{main,better}.csv tests/data/lm_eval/samples_sums.jsonl "$here"
chmod -R a+rwX "$here"
user=(--user "$(id -u):$(id -g)")
if [ "$(id -u)" = 0 ]; then user=(--user 1000:1000); elif [ "$tool" = podman ]; then user+=(--userns=keep-id); fi

# run COMMAND ARGUMENT... : in the container; fails where it fails.
run() {
    echo "container: $*"
    "$tool" run --rm --read-only --tmpfs /tmp:exec "${user[@]}" -v "$here:/mnt" \
        --entrypoint "$1" stapo-bench:check "${@:2}"
}
run stapo-bench --help >/dev/null
run stapo-train --help >/dev/null
run stapo-bench doctor
run stapo-bench compare main.csv better.csv | sed -n 1,2p
run stapo-bench import samples_sums.jsonl --model A --out runs/a
run stapo-bench report runs/a --out report.html
[ -s "$here/report.html" ] && echo "container: built and run by $tool"
